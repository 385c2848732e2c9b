"""The UDP socket, on loopback, and with a kernel that refuses things."""

import errno
import socket
from typing import Any

import pytest

from app.server import datagrams as module
from app.server.datagrams import BACKLOG, BATCH, Datagrams, adopt, bind, plain_host

LOOPBACK = "127.0.0.1"


class Lines(list[tuple[str, str, dict[str, object]]]):
    def __call__(self, level: str, message: str, /, **fields: object) -> None:
        self.append((level, message, fields))


def receiver() -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((LOOPBACK, 0))
    sock.settimeout(2)
    return sock


def received(sock: socket.socket, count: int) -> list[bytes]:
    return [sock.recv(65535) for _ in range(count)]


class Kernel:
    """Stands in for the socket: sends fail as told, everything else is noted."""

    def __init__(self, *failures: int) -> None:
        self.failures = list(failures)
        self.sent: list[Any] = []

    def _send(self, what: Any) -> None:
        if self.failures:
            code = self.failures.pop(0)
            if code:
                raise OSError(code, "as told")
        self.sent.append(what)

    def sendto(self, data: bytes, address: Any) -> None:
        self._send(data)

    def sendmsg(self, buffers: list[bytes], ancillary: Any, flags: int, address: Any) -> None:
        self._send(buffers)

    def recvfrom_into(self, buffer: memoryview) -> tuple[int, Any]:
        self._send(None)
        buffer[:1] = b"x"
        return 1, ("192.0.2.1", 1)

    def setblocking(self, flag: bool) -> None: ...

    def getsockopt(self, *args: int) -> int:
        return 0

    def getsockname(self) -> tuple[str, int]:
        return (LOOPBACK, 1)


def over(kernel: Kernel) -> Datagrams:
    return Datagrams(kernel)  # type: ignore[arg-type]


def test_binds_all_addresses_of_both_families() -> None:
    sock = bind(0, log=Lines())
    with sock.socket, receiver() as four, socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as six:
        four.sendto(b"four", (LOOPBACK, sock.port))
        six.sendto(b"six", ("::1", sock.port))
        got = {data: plain_host(address) for data, address in sock.receive()}
    assert got == {b"four": "127.0.0.1", b"six": "::1"}


def test_binds_ipv4_where_the_kernel_has_no_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_ipv6", lambda: False)
    sock = bind(0, log=Lines())
    with sock.socket:
        assert sock.socket.family == socket.AF_INET
        assert sock.socket.getsockname()[0] == "0.0.0.0"


def test_a_taken_port_is_an_oserror_and_leaves_no_socket_open() -> None:
    with bind(0, LOOPBACK, log=Lines()).socket as taken, pytest.raises(OSError) as caught:
        bind(taken.getsockname()[1], LOOPBACK, log=Lines())
    assert caught.value.errno == errno.EADDRINUSE


def test_small_buffers_are_one_line_that_names_both_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 1 << 40 - 10)
    monkeypatch.setattr(module, "_enlarge", lambda sock, option, force: 212992)
    lines = Lines()
    bind(0, LOOPBACK, log=lines).close()
    ((level, message, fields),) = lines
    assert level == "info"
    assert "net.core.rmem_max" in message
    assert "net.core.wmem_max" in message
    assert fields == {"receive": 212992, "send": 212992, "wanted": module.BUFFER}


def test_granted_buffers_are_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUFFER", 8192)
    lines = Lines()
    bind(0, LOOPBACK, log=lines).close()
    assert lines == []


def test_a_large_buffer_that_was_inherited_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for once more without the right to pass the system's limit, it would be cut down to that."""
    sock = receiver()
    options = (socket.SO_RCVBUF, socket.SO_SNDBUF)
    granted = [sock.getsockopt(socket.SOL_SOCKET, option) for option in options]
    monkeypatch.setattr(module, "BUFFER", 8192)
    lines = Lines()
    with adopt(sock, log=lines).socket:
        assert [sock.getsockopt(socket.SOL_SOCKET, option) for option in options] == granted
    assert lines == []


@pytest.mark.parametrize(
    ("family", "host", "only", "shown"),
    [
        (socket.AF_INET6, "::", 0, ":{}"),
        (socket.AF_INET6, "::", 1, "[::]:{}"),
        (socket.AF_INET6, "::1", 1, "[::1]:{}"),
        (socket.AF_INET, "0.0.0.0", None, "0.0.0.0:{}"),
        (socket.AF_INET, LOOPBACK, None, "127.0.0.1:{}"),
    ],
)
def test_addresses_are_shown_as_they_are_dialled(
    family: int, host: str, only: int | None, shown: str
) -> None:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    if only is not None:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    sock.bind((host, 0))
    with adopt(sock, log=Lines()).socket as adopted:
        assert adopted is sock
        assert Datagrams(sock).address == shown.format(sock.getsockname()[1])


def test_receives_in_order_and_no_more_than_a_batch() -> None:
    sock = bind(0, LOOPBACK, log=Lines())
    with sock.socket, receiver() as client:
        for number in range(BATCH + 6):
            client.sendto(b"%d" % number, (LOOPBACK, sock.port))
        assert [data for data, _ in sock.receive()] == [b"%d" % number for number in range(BATCH)]
        assert len(sock.receive()) == 6
        assert sock.receive() == []


def test_receives_empty_and_very_large_datagrams_whole() -> None:
    sock = bind(0, LOOPBACK, log=Lines())
    with sock.socket, receiver() as client:
        for size in (0, 1, 65507):
            client.sendto(bytes(size), (LOOPBACK, sock.port))
        assert [len(data) for data, _ in sock.receive()] == [0, 1, 65507]


def test_an_icmp_error_between_datagrams_is_passed_over() -> None:
    sock = over(Kernel(0, errno.ECONNREFUSED, errno.EHOSTUNREACH, 0, errno.EAGAIN))
    assert [data for data, _ in sock.receive()] == [b"x", b"x"]


def test_a_socket_that_only_reports_errors_does_not_hold_the_loop() -> None:
    assert over(Kernel(*[errno.ENETDOWN] * 1000)).receive() == []


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize(
    "sizes",
    [[], [5], [0], [1200, 1200], [1200] * 60, [1200, 1200, 7, 1200, 1200, 1200], [7, 1200], [3, 2, 1]],
)
def test_sends_every_datagram_in_order(segments: bool, sizes: list[int]) -> None:
    sock = bind(0, LOOPBACK, log=Lines())
    sock.segments = segments and sock.segments
    data = [bytes([number]) * size for number, size in enumerate(sizes)]
    with sock.socket, receiver() as client:
        sock.send([(item, client.getsockname()) for item in data])
        assert received(client, len(data)) == data


def test_one_call_per_run_of_equal_size_to_one_address() -> None:
    kernel = Kernel()
    sock = over(kernel)
    one, other = ("192.0.2.1", 1), ("192.0.2.2", 1)
    sock.send([(b"aa", one), (b"bb", one), (b"c", one), (b"dd", one), (b"ee", other), (b"ff", other)])
    assert kernel.sent == [[b"aa", b"bb", b"c"], b"dd", [b"ee", b"ff"]]


@pytest.mark.parametrize("code", [errno.EIO, errno.EINVAL])
def test_a_device_that_cannot_segment_gets_one_by_one(code: int) -> None:
    kernel = Kernel(code)
    sock = over(kernel)
    for _ in range(2):
        sock.send([(b"aa", ("192.0.2.1", 1)), (b"bb", ("192.0.2.1", 1))])
    assert kernel.sent == [b"aa", b"bb"] * 2
    assert not sock.segments


@pytest.mark.parametrize("code", [errno.ECONNREFUSED, errno.ENETUNREACH, errno.EPERM, errno.EMSGSIZE])
def test_an_unreachable_client_is_a_lost_datagram(code: int) -> None:
    kernel = Kernel(code)
    sock = over(kernel)
    sock.send([(b"lost", ("192.0.2.1", 1))])
    sock.send([(b"sent", ("192.0.2.1", 1))])
    assert (kernel.sent, sock.lost) == ([b"sent"], 1)


def test_a_full_send_buffer_keeps_datagrams_in_order() -> None:
    address = ("192.0.2.1", 1)
    kernel = Kernel(0, errno.EAGAIN)
    sock = over(kernel)
    sock.segments = False
    sock.send([(b"1", address), (b"2", address), (b"3", address)])
    assert [data for data, _ in sock.backlog] == [b"2", b"3"]
    sock.send([(b"4", address)])
    assert (kernel.sent, list(sock.backlog)) == ([b"1", b"2", b"3", b"4"], [])


def test_a_full_send_buffer_keeps_a_segmented_run() -> None:
    address = ("192.0.2.1", 1)
    kernel = Kernel(errno.EAGAIN)
    sock = over(kernel)
    sock.send([(b"1", address), (b"2", address), (b"3", address)])
    assert len(sock.backlog) == 3
    sock.send_backlog()
    assert kernel.sent == [[b"1", b"2", b"3"]]


def test_the_backlog_is_bounded() -> None:
    sock = over(Kernel(*[errno.EAGAIN] * 99999))
    for _ in range(3):
        sock.send([(b"x", ("192.0.2.1", 1))] * BACKLOG)
    assert len(sock.backlog) == BACKLOG
    assert sock.lost == 2 * BACKLOG


@pytest.mark.parametrize(
    ("host", "plain"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("::ffff:0:1", "::ffff:0:1"),
    ],
)
def test_plain_host(host: str, plain: str) -> None:
    assert plain_host((host, 1, 0, 0)) == plain

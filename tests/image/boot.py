"""Boots the disk of `deploy/image/build` in a virtual machine and uses the appliance as its owner and its neighbours would.

    python -m tests.image.boot amd64|arm64

Run by scripts/test-image; not part of the suite, for it takes minutes: the processor is emulated, which is the same everywhere. The
neighbours come over a forwarded UDP port; the owner has a root shell on a second console, which only an image built for the test has. The
machine has no route to any network but its own.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar

import trio

from app.client.client import Client
from app.client.errors import ClientError, OutcomeUnknown
from app.protocol.message import Response
from app.protocol.tables import parse_lookup_body

T = TypeVar("T")

WORLD = "/var/lib/demarkus-appliance/world"
TOKENS = "/var/lib/demarkus-appliance/tokens/tokens.toml"
UNIT = "demarkus-appliance.service"
BOOT_SECONDS = 300.0
EMULATORS = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
MACHINES = {"amd64": ["-M", "q35"], "arm64": ["-M", "virt"]}
CONSOLES = {"amd64": "ttyS0", "arm64": "ttyAMA0"}


class Wrong(Exception):
    """The appliance did not do what it has to."""


class Machine:
    """A virtual machine; `boot` and `pull_the_plug` may alternate."""

    def __init__(self, arch: str, image: str, scratch: str) -> None:
        self.disk = os.path.join(scratch, "disk")
        subprocess.run(["cp", "--sparse=always", os.path.join(image, "disk"), self.disk], check=True)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._arch, self._image, self._scratch = arch, image, scratch
        self._process: subprocess.Popen[bytes] | None = None
        self._shell: socket.socket | None = None

    def boot(self) -> None:
        """Starts it and waits for the shell."""
        path = os.path.join(self._scratch, "shell")
        line = [
            EMULATORS[self._arch], *MACHINES[self._arch],
            "-accel", "tcg,thread=multi", "-cpu", "max",
            "-smp", "2", "-m", "512", "-nodefaults", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(self._image, "kernel"), "-initrd", os.path.join(self._image, "initrd"),
            "-append", f"console={CONSOLES[self._arch]} panic=-1",
            "-serial", f"file:{self._scratch}/console",
            "-drive", f"file={self.disk},format=raw,if=virtio",
            "-netdev", f"user,id=net,hostfwd=udp:127.0.0.1:{self.port}-:6309",
            "-device", "virtio-net-pci,netdev=net,romfile=",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=shell,path={path},server=on,wait=off",
            "-device", "virtconsole,chardev=shell",
        ]  # fmt: skip
        self._process = subprocess.Popen(line, stdin=subprocess.DEVNULL)
        self._shell = self._connected(path)
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                self.run("PS1=; stty -echo; ip route del default", within=5)
                return
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise Wrong(f"no shell within {BOOT_SECONDS:.0f} s; {self._scratch}/console") from None

    def _connected(self, path: str) -> socket.socket:
        shell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        deadline = time.monotonic() + 10
        while True:
            try:
                shell.connect(path)
                return shell
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def run(self, command: str, *, within: float = 120.0, code: int | None = None) -> str:
        """What a command of the owner prints; `code` is the exit code that it has to have."""
        assert self._shell is not None
        mark = f"{time.monotonic_ns():x}"
        self._shell.sendall(f"{{ {command}; }} 2>&1; echo =$?={mark}=\n".encode())
        text = b""
        deadline = time.monotonic() + within
        while not (found := re.search(rb"=(\d+)=" + mark.encode() + rb"=", text)):
            self._shell.settimeout(max(0.01, deadline - time.monotonic()))
            text += self._shell.recv(65536)
        said = text[: found.start()].decode("utf-8", "replace").replace("\r", "")
        if code is not None and int(found[1]) != code:
            raise Wrong(f"{command}: exit code {found[1].decode()}: {said}")
        return said.strip()

    def wait_for(self, what: str, condition: str, *, within: float) -> None:
        """Waits until a command of the owner succeeds."""
        deadline = time.monotonic() + within
        while self.run(f"if {condition}; then echo holds; fi") != "holds":
            if time.monotonic() > deadline:
                raise Wrong(f"{what}: not within {within:.0f} s; {self._story()}")
            time.sleep(0.2)

    def wait_active(self, within: float = BOOT_SECONDS) -> str:
        """Waits for the service to be active; gives the seconds from boot to then, as systemd has them."""
        self.wait_for("the service is active", f"systemctl is-active -q {UNIT}", within=within)
        moment = self.run(f"systemctl show -P ActiveEnterTimestampMonotonic {UNIT}")
        return f"{int(moment) / 1e6:.1f} s after the kernel"

    def _story(self) -> str:
        return self.run(f"systemctl status {UNIT}; journalctl -u {UNIT} | tail -n 30")

    def pull_the_plug(self) -> None:
        """Ends it at once, in the middle of whatever it does."""
        if self._shell is not None:
            self._shell.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Test:
    """The steps, each said when it is done."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.token = ""
        self.pin = ""
        self._since = time.monotonic()

    def said(self, what: str) -> None:
        now = time.monotonic()
        print(f"ok    {what} ({now - self._since:.1f} s)", flush=True)
        self._since = now

    def hold(self, right: bool, what: str, seen: object) -> None:
        if not right:
            raise Wrong(f"{what}: {seen}")
        self.said(what)

    def ask(self, talk: "Callable[[Client], object]") -> Response:
        """One exchange with the machine over the forwarded port, patient while it starts."""

        async def session() -> Response:
            async with Client(
                "127.0.0.1", self.machine.port, pin=self.pin, token=self.token or None, timeout=60
            ) as client:
                answer = await talk(client)  # type: ignore[misc]
                assert isinstance(answer, Response)
                return answer

        return trio.run(session)

    def run(self) -> None:
        machine = self.machine
        machine.boot()
        self.said("boots to a shell")
        self.said(f"active {machine.wait_active()}")
        self._first_contact()
        self._confined()
        self._reload()
        self._killed("the main process", self._main())
        self._killed("its parent", self._loader())
        self._power_cut()
        machine.run(f"systemctl stop {UNIT}", code=0)
        result = machine.run(f"systemctl show -P Result {UNIT}")
        left = machine.run("ls -A /var/cache/demarkus-appliance")
        self.hold(
            (result, left) == ("success", ""), "stops in order and leaves nothing unpacked", (result, left)
        )

    def _first_contact(self) -> None:
        machine = self.machine
        self.pin = machine.run(
            "demarkus-appliance fingerprint --state-dir /var/lib/demarkus-appliance", code=0
        ).splitlines()[-1]
        health = self.ask(lambda client: client.fetch("/health"))
        self.hold(health.status == "ok", "FETCH /health from outside, certificate pinned", health)
        refused = self.ask(lambda client: client.publish("/a.md", b"# A\n", expected_version=0))
        self.hold(refused.status == "unauthorized", "PUBLISH without a token is refused", refused)
        minted = machine.run(
            f"demarkus-token generate -label owner -paths '/**' -ops publish,read -tokens {TOKENS}", code=0
        )
        self.token = re.findall(r"\b[0-9a-f]{64}\b", minted)[-1]
        deadline = time.monotonic() + 30
        while True:  # the server sees the new token by itself
            written = self.ask(
                lambda client: client.publish("/a.md", b"# Zymurgy\n\nA valve.\n", expected_version=0)
            )
            if written.status != "unauthorized" or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        self.hold(written.status == "created", "PUBLISH with a token just minted", written)
        for mode, query, row in (
            ("catalog", "zymurgy", ("/a.md", "")),
            ("body", "valve", ("/a.md", "zymurgy")),
        ):
            found = self.ask(lambda client, query=query, mode=mode: client.lookup("/", query, match=mode))  # type: ignore[misc]
            rows = [(one.path, one.anchor) for one in parse_lookup_body(found.body)]
            right = (found.status, found.metadata.get("match"), rows) == ("ok", mode, [row])
            self.hold(right, f"LOOKUP, match {mode}: {'#'.join(filter(None, row))}", found)

    def _confined(self) -> None:
        machine = self.machine
        python = self._main()
        status = machine.run(f"grep -E 'Seccomp:|NoNewPrivs:|CapEff:|CapBnd:' /proc/{python}/status")
        right = (
            re.search(r"CapEff:\s+0+\n", status) and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
        )
        self.hold(bool(right), "no capability, no new privileges, system calls filtered", status)
        where = machine.run("ls -d /var/cache/demarkus-appliance/_MEI*; ls -d /tmp/_MEI*")
        self.hold(
            "/var/cache/" in where and "cannot access '/tmp" in where,
            "unpacked in the cache directory",
            where,
        )
        resident = machine.run(
            f"grep -E 'VmRSS|RssAnon' /proc/{python}/status; systemctl show -P MemoryCurrent {UNIT}"
        )
        self.said("memory: " + " ".join(resident.split()))

    def _main(self) -> str:
        """The main process: the one that serves."""
        return self.machine.run(f"systemctl show -P MainPID {UNIT}", code=0)

    def _loader(self) -> str:
        """Its parent, which has unpacked it."""
        return self.machine.run(f"sed -n 's/^PPid:[[:blank:]]*//p' /proc/{self._main()}/status", code=0)

    def _reload(self) -> None:
        machine = self.machine
        machine.run(
            f"runuser -u demarkus -- demarkus-publish -root {WORLD} -path /behind.md -body '# Behind its back'",
            code=0,
        )
        main = self._main()
        machine.run(f"systemctl reload {UNIT}", code=0)
        found = self.ask(lambda client: client.lookup("/", "behind", match="catalog"))
        self.hold(
            b"/behind.md" in found.body, "systemctl reload shows what was published behind its back", found
        )
        machine.run(f"kill -HUP {main}", code=0)
        health = self.ask(lambda client: client.fetch("/health"))
        same = self._main() == main
        self.hold(health.status == "ok" and same, "the main process takes a SIGHUP", (health, main))

    def _killed(self, what: str, victim: str) -> None:
        """Kills one of the two processes: the other one has to go as well, and the service to return with one folder unpacked."""
        machine = self.machine
        both = (self._main(), self._loader())
        machine.run(f"kill -9 {victim}", code=0)
        machine.wait_for(
            "no process is left", f"test ! -e /proc/{both[0]} -a ! -e /proc/{both[1]}", within=10
        )
        left = machine.run("ls /var/cache/demarkus-appliance").split()
        self.said(f"kill -9 of {what} ends both processes, {len(left)} folder left")
        machine.wait_for("the end is seen", f"! systemctl is-active -q {UNIT}", within=10)
        machine.wait_active()
        fetched = self.ask(lambda client: client.fetch("/a.md"))
        unpacked = machine.run("ls /var/cache/demarkus-appliance").split()
        self.hold(
            fetched.status == "ok" and len(unpacked) == 1 and unpacked != left,
            "it returns, with one folder of its own",
            (fetched, unpacked),
        )

    def _power_cut(self) -> None:
        """Publishes until the plug is pulled; every acknowledged version has to be there afterwards."""
        acknowledged = 0
        enough = trio.Event()

        async def publish_on() -> None:
            nonlocal acknowledged
            async with Client(
                "127.0.0.1", self.machine.port, pin=self.pin, token=self.token, timeout=3
            ) as client:
                while True:
                    text = f"# Log\n\nEntry {acknowledged + 1}.\n".encode()
                    answer = await client.publish("/log.md", text, expected_version=acknowledged)
                    if answer.status != "created":
                        raise Wrong(f"PUBLISH: {answer}")
                    acknowledged += 1
                    if acknowledged == 20:
                        enough.set()

        async def cut() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish_on)
                await enough.wait()
                await trio.sleep(0.05)  # somewhere within the next ones
                self.machine.pull_the_plug()

        try:
            trio.run(cut)
        except* (ClientError, OutcomeUnknown):
            pass
        self.machine.boot()
        moment = self.machine.wait_active()
        kept = int(self.ask(lambda client: client.fetch("/log.md")).metadata.get("version", "0"))
        chain = self.ask(lambda client: client.versions("/log.md")).metadata.get("chain-valid")
        verify = self.machine.run(f"runuser -u demarkus -- demarkus-appliance verify --root {WORLD}", code=0)
        right = kept in (acknowledged, acknowledged + 1) and chain == "true"
        self.hold(
            right,
            f"power cut after {acknowledged} versions: {kept} are there, {verify}, active {moment}",
            (kept, chain),
        )


def main(arch: str) -> int:
    """Runs the test against `dist/image-ARCH`; gives the exit code."""
    scratch = tempfile.mkdtemp(prefix="demarkus-image-")
    machine = Machine(arch, f"dist/image-{arch}", scratch)
    try:
        Test(machine).run()
    except Wrong as wrong:
        print(f"WRONG {wrong}\nconsole and disk are in {scratch}", file=sys.stderr)
        return 1
    finally:
        machine.pull_the_plug()
    shutil.rmtree(scratch)
    print("all steps passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

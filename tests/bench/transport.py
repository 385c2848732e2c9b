"""What the endpoint costs and how fast it is, against aioquic's own asyncio server doing the same work.

`python -m tests.bench.transport [--json] [--quick]`. Loopback; each server in its own process and, where there are two processors, on its own; one
load client for both (`transport_client`). Absolute figures drift with the machine's other work, so the servers take turns and a ratio is the
median over the turns of the ratio within one turn. CPU is the scheduler's own count for the server's process, the steadiest figure here.
"""

import argparse
import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.transport_client import Client
from tests.bench.transport_server import SIZES

OURS, PEER = "ours", "asyncio"
SMALL, LARGE = (b"%d" % size for size in SIZES)
PROJECT = Path(__file__).resolve().parents[2]

Figures = dict[str, float]
"""What one run of one server gave, by name."""


class Server:
    """One of the two servers in a process of its own."""

    def __init__(self, kind: str, processors: set[int]) -> None:
        code = f"from tests.bench.transport_server import serve_{kind}; serve_{kind}()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=PROJECT,
        )
        os.sched_setaffinity(self.process.pid, processors)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def stop(self) -> None:
        """Ends the process by ending its input."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def cpu(self) -> float:
        """Seconds its threads have spent on a processor."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks.iterdir()) / 1e9

    def resident(self) -> int:
        """Resident memory in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


@contextlib.contextmanager
def servers(kinds: tuple[str, ...], processors: set[int]) -> Iterator[dict[str, Server]]:
    started = {kind: Server(kind, processors) for kind in kinds}
    try:
        yield started
    finally:
        for server in started.values():
            server.stop()


def load(server: Server, request: bytes, callers: int, total: int) -> Figures:
    client = Client(server.port)
    client.load(request, callers, total // 10 + 1)
    cpu, begun = server.cpu(), time.perf_counter()
    latencies = sorted(client.load(request, callers, total))
    taken, spent = time.perf_counter() - begun, server.cpu() - cpu
    client.close()
    return {
        "rate": total / taken,
        "cpu": spent / total,
        "p50": latencies[total // 2],
        "p99": latencies[total * 99 // 100],
    }


def connections(server: Server, total: int) -> Figures:
    cpu, begun = server.cpu(), time.perf_counter()
    for _ in range(total):
        client = Client(server.port)
        client.load(SMALL, 1, 1)
        client.close()
    taken = time.perf_counter() - begun
    return {"rate": total / taken, "cpu": (server.cpu() - cpu) / total}


def turns(
    measure: Callable[[Server], Figures], both: dict[str, Server], count: int
) -> list[dict[str, Figures]]:
    """The servers one after the other, who is first changes, after one turn that does not count."""
    taken = []
    for turn in range(count + 1):
        order = (OURS, PEER) if turn % 2 else (PEER, OURS)
        taken.append({kind: measure(both[kind]) for kind in order})
    return taken[1:]


def middle(taken: list[dict[str, Figures]], kind: str, name: str) -> float:
    return statistics.median(turn[kind][name] for turn in taken)


def ratio(taken: list[dict[str, Figures]], name: str) -> float:
    return statistics.median(turn[OURS][name] / turn[PEER][name] for turn in taken)


class Table:
    """Collects the rows and prints them."""

    def __init__(self) -> None:
        self._rows = [("", OURS, PEER, "ratio")]

    def compare(
        self, label: str, taken: list[dict[str, Figures]], name: str, scale: float, form: str = ".0f"
    ) -> float:
        ours, peer = (format(middle(taken, kind, name) * scale, form) for kind in (OURS, PEER))
        found = ratio(taken, name)
        self._rows.append((label, ours, peer, f"{found:.2f}"))
        return round(found, 3)

    def add(self, label: str, ours: float, peer: float | None = None) -> float:
        known = ("", "") if peer is None else (f"{peer:.1f}", f"{ours / peer:.2f}")
        self._rows.append((label, f"{ours:.1f}", *known))
        return round(ours, 2)

    def __str__(self) -> str:
        widths = [max(map(len, column)) for column in zip(*self._rows, strict=True)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in self._rows
        )


def speed(table: Table, quick: bool, processors: set[int]) -> Figures:
    count, scale = (3, 4) if quick else (9, 1)
    with servers((OURS, PEER), processors) as both:
        many = turns(lambda server: load(server, SMALL, 32, 2000 // scale), both, count)
        one = turns(lambda server: load(server, SMALL, 1, 1000 // scale), both, count)
        large = turns(lambda server: load(server, LARGE, 1, 8 // scale), both, count)
        new = turns(lambda server: connections(server, 40 // scale), both, count)
    table.compare("requests/s, 32 streams, 1 KiB answers", many, "rate", 1)
    many_cpu = table.compare("  server CPU, us per request", many, "cpu", 1e6)
    table.compare("one request at a time, p50 us", one, "p50", 1e6)
    table.compare("  p99 us", one, "p99", 1e6)
    one_cpu = table.compare("  server CPU, us per request", one, "cpu", 1e6)
    large_rate = table.compare("1 MiB answers, MiB/s", large, "rate", 1, ".1f")
    table.compare("  server CPU, ms per answer", large, "cpu", 1e3, ".1f")
    table.compare("new connections/s, one request each", new, "rate", 1)
    table.compare("  server CPU, ms per connection", new, "cpu", 1e3, ".2f")
    return {
        "cpu_per_request_32_vs_asyncio": many_cpu,
        "cpu_per_request_seq_vs_asyncio": one_cpu,
        "mib_reply_rate_vs_asyncio": large_rate,
    }


def memory(table: Table, quick: bool, processors: set[int]) -> Figures:
    count, requests = (100, 5_000) if quick else (1_000, 100_000)
    started: Figures = {}
    per_connection: Figures = {}
    for kind in (OURS, PEER):
        with servers((kind,), processors) as running:
            server = running[kind]
            started[kind] = server.resident()
            warm = Client(server.port)
            warm.load(SMALL, 8, 500)
            before = server.resident()
            clients = [Client(server.port) for _ in range(count)]
            for client in clients:
                client.load(SMALL, 1, 1)
            per_connection[kind] = (server.resident() - before) / count
            for client in (warm, *clients):
                client.close()
    with servers((OURS,), processors) as running:
        client = Client(running[OURS].port)
        client.load(SMALL, 32, requests // 20)
        before = running[OURS].resident()
        client.load(SMALL, 32, requests)
        growth = (running[OURS].resident() - before) / 1e6
        client.close()
    return {
        "rss_mb_idle": table.add("resident at start, MB", started[OURS] / 1e6, started[PEER] / 1e6),
        "kib_per_idle_connection": table.add(
            f"per idle connection at {count:,}, KiB", per_connection[OURS] / 1024, per_connection[PEER] / 1024
        ),
        "rss_growth_100k_requests_mb": table.add(f"growth over {requests:,} requests, MB", growth),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="one object of the figures instead of the table")
    parser.add_argument(
        "--quick", action="store_true", help="fewer and shorter turns: seconds instead of minutes"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    here, *others = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {here})
    table = Table()
    processors = set(others[:1]) or {here}
    figures = speed(table, options.quick, processors) | memory(table, options.quick, processors)
    print(json.dumps(figures) if options.json else table)


if __name__ == "__main__":
    main()

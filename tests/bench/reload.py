"""What a reload costs: its time beside that of a full rebuild, what FETCH feels of it, and the memory it takes.

`python -m tests.bench.reload [--json] [--folder DIR]`. The world is the `.md` files below DIR, or those of the developers' corpus, or
without either 1,640 documents with 11 MB of text, made up of words that hardly repeat. The real server runs as a process of its own, and is asked over loopback by one client, one FETCH after another.

- `reload_10_of_1640_vs_full`: time of a reload that finds 10 changed documents, over that of one that finds all changed (and so
  builds every index anew); medians of several, as the server reports them. The peer of both is the same server.
- `fetch_p99_during_vs_idle`: the 99th percentile of FETCH while full rebuilds run one after another, over that without.
- `peak_per_body`: the most anonymous memory of the server during those rebuilds, above that of a server with an empty world, over the
  bytes of all bodies; `peak_with_builder_per_body` counts the process that builds for it too, shared pages once.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trio

from app.client.client import Client
from app.server.runtime import Ask, NoAnswer, ask, servers
from tests.bench.devdata import DATA
from tests.bench.processes import Peak, anonymous, peak_of

DOCUMENTS = 1_640
BODY_BYTES = 11_000_000
CHANGED = 10
ROUNDS = 7
IDLE_SECONDS = 4.0
ONE = "/d0/0.md"


def texts(folder: str | None) -> Iterator[bytes]:
    """The bodies: those below a folder, or 1,640 made of 20,000 words, with a heading for every 700 bytes or so."""
    if folder is not None:
        for path in sorted(Path(folder).rglob("*.md")):
            yield path.read_bytes()[: 1 << 20] or b"\n"
        return
    chosen = random.Random(1)
    letters = "etaoinshrdlucmfwyp"
    words = ["".join(chosen.choices(letters, k=chosen.randint(2, 9))) for _ in range(20_000)]
    for number in range(DOCUMENTS):
        parts = [f"# Document {number}\n"]
        for _ in range(max(1, round(chosen.expovariate(700 * DOCUMENTS / BODY_BYTES)))):
            parts.append(f"\n## {' '.join(chosen.choices(words, k=3))}\n\n")
            parts.append(" ".join(chosen.choices(words, k=105)) + "\n")
        yield "".join(parts).encode()


class World:
    """A content root that is written without syncs."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: list[Path] = []
        self.body_bytes = 0
        self._changes = 0

    def fill(self, folder: str | None) -> None:
        for number, body in enumerate(texts(folder)):
            self.body_bytes += len(body)
            directory = self.root / f"d{number % 40}"
            shelf = directory / "versions" / f"{number}.md"
            shelf.mkdir(parents=True)
            (shelf / "v1").write_bytes(b"---\nversion: 1\narchived: false\n---\n" + body)
            (directory / f"{number}.md").symlink_to(f"versions/{number}.md/v1")
            self.files.append(shelf / "v1")

    def change(self, count: int) -> None:
        """Make so many documents new; the time of a document is part of what is told of it."""
        self._changes += 1
        for file in self.files[:count]:
            os.utime(file, (1_700_000_000 + self._changes,) * 2)


class Server:
    """The server in its process, with the way to ask it."""

    def __init__(self, process: "subprocess.Popen[bytes]", runtime: str) -> None:
        self.pid = process.pid
        self.starting = Peak()
        """The most memory until it answered."""
        self._runtime = runtime
        self.port = int(self.ask(Ask("status"))["address"].rpartition(":")[2])

    def ask(self, question: Ask) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while True:
            try:
                return ask(next(servers([self._runtime])), question, 120)
            except (NoAnswer, StopIteration):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def reload(self) -> float:
        """One reload; the seconds it took."""
        answer = self.ask(Ask("reload"))
        assert answer["ok"], answer
        milliseconds: float = answer["milliseconds"]
        return milliseconds / 1000


@contextmanager
def running(root: Path, scratch: Path, **variables: str) -> Iterator[Server]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    environment |= {
        "DEMARKUS_ROOT": str(root),
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_PORT": "0",
        "DEMARKUS_RATE_LIMIT": "0",
        "DEMARKUS_WATCH": "off",
        "DEMARKUS_LOG_LEVEL": "error",
        "DEMARKUS_STATE_DIR": str(scratch / "state"),
        "DEMARKUS_RUNTIME_DIR": str(scratch / "run"),
        **variables,
    }
    process = subprocess.Popen([sys.executable, "-m", "app.commands.program", "serve"], env=environment)
    try:
        with peak_of(process.pid) as peak:
            server = Server(process, str(scratch / "run"))
        server.starting = peak
        yield server
    finally:
        process.terminate()
        process.wait(20)


async def fetch_times(client: Client, times: list[float], until: trio.Event) -> None:
    while not until.is_set():
        began = time.perf_counter()
        answer = await client.fetch(ONE)
        times.append(time.perf_counter() - began)
        assert answer.status == "ok"


def p99(times: list[float]) -> float:
    return statistics.quantiles(times, n=100)[98]


async def measure(server: Server, world: World, empty: int) -> dict[str, float]:
    few, full = [], []
    for _ in range(ROUNDS):
        world.change(CHANGED)
        await trio.sleep(0.05)
        few.append(await trio.to_thread.run_sync(server.reload))
    idle: list[float] = []
    during: list[float] = []
    async with Client("127.0.0.1", server.port, insecure=True) as client:
        await client.fetch(ONE)
        stop = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fetch_times, client, idle, stop)
            await trio.sleep(IDLE_SECONDS)
            stop.set()

        async def rebuild() -> None:
            for _ in range(ROUNDS):
                world.change(len(world.files))
                times: list[float] = []
                over = trio.Event()
                async with trio.open_nursery() as beside:
                    beside.start_soon(fetch_times, client, times, over)
                    full.append(await trio.to_thread.run_sync(server.reload))
                    over.set()
                during.extend(times)

        with peak_of(server.pid) as peak:
            await rebuild()
    ten, whole = statistics.median(few), statistics.median(full)
    return {
        "reload_10_of_1640_vs_full": ten / whole,
        "reload_10_ms": ten * 1e3,
        "reload_full_ms": whole * 1e3,
        "fetch_p99_during_vs_idle": p99(during) / p99(idle),
        "fetch_idle_p50_ms": statistics.median(idle) * 1e3,
        "fetch_idle_p99_ms": p99(idle) * 1e3,
        "fetch_during_p50_ms": statistics.median(during) * 1e3,
        "fetch_during_p99_ms": p99(during) * 1e3,
        "fetch_during_max_ms": max(during) * 1e3,
        "fetches_during": len(during),
        "peak_per_body": (peak.alone - empty) / world.body_bytes,
        "peak_with_builder_per_body": (peak.together - empty) / world.body_bytes,
        "rest_per_body": (anonymous(server.pid) - empty) / world.body_bytes,
        "documents": len(world.files),
        "body_mb": world.body_bytes / 1e6,
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="one object: figure -> number")
    options.add_argument("--folder", help="take the .md files below this folder")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "empty").mkdir()
        with running(scratch / "empty", scratch) as server:
            empty = anonymous(server.pid)
        world = World(scratch / "world")
        corpus = str(DATA / "corpus") if (DATA / "corpus").is_dir() else None
        world.fill(given.folder or corpus)
        with running(world.root, scratch) as server:
            figures = trio.run(measure, server, world, empty)
    if given.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
        return
    for key, value in figures.items():
        print(f"{key:<28}{value:>12,.3f}")


if __name__ == "__main__":
    main()

"""What the indexes take of memory, over the bytes of all bodies, and whether many writes leave something behind.

`python -m tests.bench.memory [--json] [--data DIR]`. A world is imported from the developers' corpus. The real server runs on it as a process of
its own, and once more on an empty root; the difference of the two is what the world takes. Both are asked the same lookups first, so that
whatever is only made when it is needed is there.

- `index_per_body` (aim: at most 1.0): anonymous resident memory (RssAnon) after those lookups, above the empty server's. Catalog, section index,
  hashes, directories and stamps: everything.
- `build_peak_per_body` (aim: at most 2.0): the most anonymous memory of the server up to the moment when it answers, above the empty server's at
  that moment; `build_peak_with_builder_per_body` (aim: at most 2.0) counts the process that builds for it too, shared pages once. Looked at every
  10 ms. `of_five_copies` is the same for five copies of the corpus in one world: what the builder takes whatever it builds weighs less there, and what
  is left says how large a world a board can have.
- `after_5000_republishes_vs_fresh` (aim: at most 1.05): one document gets 5,000 versions of 50 random words each in the world of a process
  without server, folding after each until there is nothing left to fold, as the server does when idle. Then another process opens the same
  folder. The figure is the larger of two ratios, that of the bytes of all segments and that of RssAnon above the same process on an empty root,
  in which one document was written as often; of the fresh one, above a process that only opened the empty root.
"""

import gc
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
import trio

from app.client.client import Client
from app.world.world import World
from tests.bench.devdata import NOW, checked, fill, options, scratch, silent
from tests.bench.processes import anonymous
from tests.bench.reload import running

REPUBLISHES = 5_000
COPIES = 5
WORDS = 50
ONE = "/republished.md"
_LETTERS = "etaoinshrdlucmfwyp"


# --- In the running server


class Serving(msgspec.Struct, frozen=True):
    """Bytes of anonymous memory of a server: as soon as it answers, after its lookups, and the most before it answered,
    alone and with the process that builds for it."""

    started: int
    used: int
    peak: int
    together: int


async def ask(port: int, queries: list[str]) -> None:
    async with Client("127.0.0.1", port, insecure=True) as client:
        for query in queries:
            for mode in ("catalog", "body", "task"):
                answer = await client.lookup("/", query, match=mode)
                assert answer.status == "ok", answer


def serving(root: Path, room: Path, queries: list[str]) -> Serving:
    with running(root, room) as server:
        started = anonymous(server.pid)
        trio.run(ask, server.port, queries)
        return Serving(started, anonymous(server.pid), server.starting.alone, server.starting.together)


# --- Republishing, in a process of its own


class Writing(msgspec.Struct, frozen=True):
    """A process with a world: its memory, and the bytes of the index."""

    anonymous: int
    index: int


def words(chosen: random.Random) -> bytes:
    made = ("".join(chosen.choices(_LETTERS, k=chosen.randint(3, 10))) for _ in range(WORDS))
    return f"# Republished\n\n{' '.join(made)}\n".encode()


def hold(root: str, times: int) -> Writing:
    """Open a world and write one document so often; what this process then holds."""
    world = World.open(root, log=silent)
    gc.collect()
    gc.freeze()  # as the server does
    chosen = random.Random(1)
    for number in range(times):
        world.publish(ONE, words(chosen), {"retention": "1"}, None, NOW + number)
        while world.fold():
            pass
    gc.collect()
    return Writing(anonymous(os.getpid()), world.figures.index_bytes)


def held_by_process(root: Path, times: int) -> Writing:
    command = [sys.executable, "-m", "tests.bench.memory", "--hold", str(root), str(times)]
    return msgspec.json.decode(subprocess.run(command, check=True, capture_output=True).stdout, type=Writing)


def republished(root: Path, empty: Path) -> dict[str, float]:
    opened = held_by_process(empty, 0)
    written_empty = held_by_process(empty, REPUBLISHES)
    written = held_by_process(root, REPUBLISHES)
    fresh = held_by_process(root, 0)
    index = written.index / fresh.index
    anonymous = (written.anonymous - written_empty.anonymous) / (fresh.anonymous - opened.anonymous)
    return {
        "after_5000_republishes_vs_fresh": max(index, anonymous),
        "republished_index_vs_fresh": index,
        "republished_anonymous_vs_fresh": anonymous,
        "republished_process_mb": written.anonymous / 1e6,
        "fresh_process_mb": fresh.anonymous / 1e6,
        "republished_empty_process_mb": written_empty.anonymous / 1e6,
        "empty_process_mb": opened.anonymous / 1e6,
    }


def copied(root: Path, copies: Path) -> Path:
    """A content root with several copies of another."""
    for number in range(COPIES):
        shutil.copytree(root, copies / f"copy{number}", symlinks=True)
    return copies


def measure(data: Path, room: Path) -> dict[str, float]:
    root, empty = room / "root", room / "empty"
    empty.mkdir()
    bodies = fill(root, data)
    queries = [one["query"] for one in json.loads((data / "questions-dev.json").read_text())["questions"]]
    without, full = serving(empty, room, queries), serving(root, room, queries)
    copies = serving(copied(root, room / "copies"), room, [])
    return {
        "index_per_body": (full.used - without.used) / bodies,
        "build_peak_per_body": (full.peak - without.started) / bodies,
        "build_peak_with_builder_per_body": (full.together - without.started) / bodies,
        "of_five_copies": (copies.together - without.started) / (COPIES * bodies),
        **republished(root, empty),
        "index_per_body_before_lookups": (full.started - without.started) / bodies,
        "server_mb": full.used / 1e6,
        "empty_server_mb": without.used / 1e6,
        "body_mb": bodies / 1e6,
    }


AIMS: Mapping[str, float] = {
    "index_per_body": 1.0,
    "build_peak_per_body": 2.0,
    "build_peak_with_builder_per_body": 2.0,
    "after_5000_republishes_vs_fresh": 1.05,
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--hold", nargs=2, metavar=("ROOT", "TIMES"), help="what a process of the bench does")
    given = parser.parse_args()
    if given.hold:
        root, times = given.hold
        print(msgspec.json.encode(hold(root, int(times))).decode())
        return
    data = checked(given.data)
    with scratch() as name:
        figures = measure(data, Path(name))
    if given.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
        return
    for key, value in figures.items():
        aim = f"   aim: at most {AIMS[key]}" if key in AIMS else ""
        print(f"{key:<36}{value:>10,.3f}{aim}")


if __name__ == "__main__":
    main()

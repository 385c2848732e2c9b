"""How long a start takes: from exec to the first good FETCH, with the corpus as the world.

`python -m tests.bench.startup [--json] [--data DIR] [--program FILE]`. The real server runs as a process of its own, from source and as the one executable
(`dist/demarkus-appliance`, built if a source has changed, or `--program`); the clock runs from before the process is made until the answer to a FETCH
is here, asked as soon as the log says that the server has started. The best of several runs counts, since other work on the machine only adds; what is
compared takes turns.

The peer is what no program with these dependencies can do without: an interpreter that imports the same modules of other people and nothing of ours,
and ends; plus the index build, `World.open` on the same folder in a process that has imported everything.

- `unfrozen_vs_imports`, `frozen_vs_imports` (aim: at most 2): a start on a world of one document, over that import;
- `unfrozen_vs_floor`, `frozen_vs_floor` (aim: at most 2): a start on the corpus, over import and index build together.

Where the rest goes: `import_all_s` is the same import with our own modules; `version_source_s` and `version_frozen_s` are `--version`, which
imports little: what the executable takes longer is unpacking.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from compileall import compile_dir
from contextlib import contextmanager
from pathlib import Path

import trio

from app.client.client import Client
from app.world.world import World
from tests.bench.devdata import NOW, checked, fill, options, scratch, silent

ROUNDS = 7
ROUNDS_WITH_CORPUS = 3
PROJECT = Path(__file__).resolve().parents[2]
STARTED = re.compile(rb'msg="server started" addr=\S*:(\d+)')
SOURCE = (sys.executable, "-m", "app.commands.program")
AIM = 2.0

_OTHERS = """
import sys
import app.server.serve
from app.commands import program, serve
print("\\n".join(name for name in sys.modules if name.split(".")[0] not in ("app", "__main__")))
"""
_OPEN = """
import sys, time
import app.server.serve
from app.world.world import World
began = time.perf_counter()
World.open(sys.argv[1], log=lambda *_, **__: None, now=time.time)
print(time.perf_counter() - began)
"""


def run(*line: str) -> float:
    """Seconds from before a process is made until it has ended well."""
    began = time.perf_counter()
    subprocess.run(line, cwd=PROJECT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def other_peoples() -> list[str]:
    """The modules that a server loads and that are not ours, in the order in which it does; some cannot be named on an import line."""
    told = subprocess.run(
        [sys.executable, "-c", _OTHERS], cwd=PROJECT, capture_output=True, encoding="utf-8", check=True
    )
    return [name for name in told.stdout.split() if all(part.isidentifier() for part in name.split("."))]


def importing(names: Sequence[str]) -> str:
    """A program that imports these; what the interpreter has made up itself under such a name is passed over."""
    return "\n".join(
        [
            "from importlib import import_module",
            f"for name in {list(names)!r}:",
            " try: import_module(name)",
            " except ImportError: pass",
        ]
    )


def start(program: Sequence[str], root: Path, room: Path) -> float:
    """Seconds from before the server's process is made until it has answered a FETCH."""
    with started(program, root, room) as (_, seconds):
        return seconds


@contextmanager
def started(program: Sequence[str], root: Path, room: Path) -> Iterator[tuple[int, float]]:
    """The process of a server that has answered a FETCH, and the seconds from before it was made until then."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    environment |= {
        "DEMARKUS_ROOT": str(root),
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_PORT": "0",
        "DEMARKUS_STATE_DIR": str(room / "state"),
        "DEMARKUS_RUNTIME_DIR": str(room / "run"),
        "TMPDIR": str(room),
    }
    document = next(path for path in sorted(root.rglob("*.md")) if path.is_symlink())
    began = time.perf_counter()
    process = subprocess.Popen([*program, "serve"], cwd=PROJECT, env=environment, stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        log = b""
        while not (found := STARTED.search(log)):
            line = process.stderr.readline()
            assert line, log
            log += line
        trio.run(_fetch, int(found[1]), f"/{document.relative_to(root)}")
        yield process.pid, time.perf_counter() - began
    finally:
        process.terminate()
        process.communicate(timeout=30)


async def _fetch(port: int, path: str) -> None:
    async with Client("127.0.0.1", port, insecure=True) as client:
        answer = await client.fetch(path)
        assert answer.status == "ok", answer


def opened(root: Path) -> float:
    told = subprocess.run(
        [sys.executable, "-c", _OPEN, str(root)], cwd=PROJECT, capture_output=True, check=True
    )
    return float(told.stdout)


def measure(data: Path, room: Path, program: str) -> dict[str, float]:
    compile_dir(PROJECT / "app", quiet=1)  # as a start that is not the first finds it
    root, small = room / "root", room / "small"
    fill(root, data)
    put(small)
    modules = importing(other_peoples())
    with (
        tempfile.TemporaryDirectory() as elsewhere
    ):  # a disk in memory may forbid to execute what is unpacked there
        light: dict[str, Callable[[], float]] = {
            "import_others_s": lambda: run(sys.executable, "-c", modules),
            "import_all_s": lambda: run(sys.executable, "-c", "import app.server.serve, app.commands.serve"),
            "version_source_s": lambda: run(*SOURCE, "--version"),
            "version_frozen_s": lambda: run(program, "--version"),
            "start_small_source_s": lambda: start(SOURCE, small, room),
            "start_small_frozen_s": lambda: start([program], small, Path(elsewhere)),
        }
        heavy: dict[str, Callable[[], float]] = {
            "index_build_s": lambda: opened(root),
            "start_source_s": lambda: start(SOURCE, root, room),
            "start_frozen_s": lambda: start([program], root, Path(elsewhere)),
        }
        figures = best(light, ROUNDS) | best(heavy, ROUNDS_WITH_CORPUS)
    imports = figures["import_others_s"]
    figures["unfrozen_vs_imports"] = figures["start_small_source_s"] / imports
    figures["frozen_vs_imports"] = figures["start_small_frozen_s"] / imports
    floor = imports + figures["index_build_s"]
    figures["unfrozen_vs_floor"] = figures["start_source_s"] / floor
    figures["frozen_vs_floor"] = figures["start_frozen_s"] / floor
    return figures


def put(root: Path) -> None:
    """A world of one document."""
    root.mkdir()
    world = World.open(str(root), log=silent)
    world.publish("/a.md", b"# A\n", {}, None, NOW)
    world.close()


def built() -> Path:
    """The executable, made anew if a source has changed."""
    told = subprocess.run(
        [PROJECT / "scripts" / "build", "--if-changed"], stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return PROJECT / told.stdout.strip()


def best(measures: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    figures = dict.fromkeys(measures, math.inf)
    for _ in range(rounds):
        for name, measured in measures.items():
            figures[name] = min(figures[name], measured())
    return figures


def main() -> None:
    parser = options(__doc__)
    parser.add_argument(
        "--program", metavar="FILE", default="", help="the executable (dist/demarkus-appliance)"
    )
    given = parser.parse_args()
    data = checked(given.data)
    program = given.program or str(built())
    with scratch() as name:
        figures = measure(data, Path(name), os.path.abspath(program))
    if given.json:
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
        return
    for key, value in figures.items():
        aim = f"   aim: at most {AIM}" if "_vs_" in key else ""
        print(f"{key:<22}{value:>8.3f}{aim}")


if __name__ == "__main__":
    main()

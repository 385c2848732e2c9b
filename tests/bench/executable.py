"""The one executable in figures: how large it is and with what, what it takes of memory, and how long what it is asked for first takes.

`python -m tests.bench.executable [--json]`. Builds `dist/demarkus-appliance` if a source has changed.

- `executable_mb` (limit: 20), `package_mb` (that of this version for this machine, if `deploy/deb/build` has made it), `unpacked_mb`: what every start
  writes below $TMPDIR;
- `resident_mb` (limit: 60), `anonymous_mb`: of Python in an idle server that has answered a FETCH; `loader_mb`: of the boot loader that waits for it;
- `version_s`, `selftest_s`: the best of several runs;
- `start_1000_s` (limit: 10, on a board): from exec to the first good FETCH with 1,000 small documents, the best of several;
  `start_1000_one_dir_s`: the same program made as a folder (PyInstaller's one-dir), which has nothing to unpack.

Then where the executable's bytes go, by what they belong to: `packed` is what they take in the file, `unpacked` what they take below $TMPDIR. Byte
code is not unpacked; it is read from the executable.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from app import __version__
from tests.bench.processes import children
from tests.bench.startup import PROJECT, best, built, put, run, start, started
from tests.unit.server.planted import plant

ROUNDS = 5
DOCUMENTS = 1_000
LIMITS = {"executable_mb": 20.0, "resident_mb": 60.0, "start_1000_s": 10.0}
FREEZE = PROJECT / "deploy" / "freeze"

# Run by the Python that has PyInstaller: every entry of the archive and every module of the byte code within, as name, kind, packed, unpacked.
_CONTENTS = """
import json, sys
from PyInstaller.archive.readers import CArchiveReader
archive = CArchiveReader(sys.argv[1])
rows = [(name, kind, packed, size) for name, (_, packed, size, _, kind) in archive.toc.items() if kind != "z"]
for name in [name for name, entry in archive.toc.items() if entry[-1] == "z"]:
    rows += [(module, "z", packed, 0) for module, (_, _, packed) in archive.open_embedded_archive(name).toc.items()]
print(json.dumps(rows))
"""

# Instead of the recipe's last step.
_ONE_DIR = """
from PyInstaller.building.api import COLLECT
COLLECT(
    EXE(PYZ(analysis.pure), analysis.scripts, exclude_binaries=True, name="demarkus-appliance", strip=True, upx=False),
    analysis.binaries,
    sorted(analysis.datas),
    name="folder",
    strip=True,
    upx=False,
)
"""


class Share(msgspec.Struct):
    """Bytes."""

    packed: int = 0
    unpacked: int = 0


def python_that_freezes() -> str:
    told = subprocess.run(
        [PROJECT / "scripts" / "venv", "build"], stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return str(PROJECT / told.stdout.strip())


def owner(name: str, kind: str) -> str:
    """Whose an entry of the archive, or a module of its byte code, is."""
    if re.match(r"lib(crypto|ssl)\.|.*/_(ssl|hashlib)\.", name):
        return "Python's OpenSSL (ssl, hashlib)"
    if name.startswith("libpython"):
        return "Python's interpreter"
    if name.startswith("python3") or name == "base_library.zip":
        return "Python's standard library"
    top = re.split(r"[./]", name)[0]
    if kind in "ms":
        return "this program" if top == "start" else "PyInstaller"
    if top == "app" or kind == "Z":
        return "this program"
    if top.startswith("lib"):
        return "C libraries"
    return {"_cffi_backend": "cffi", "_yaml": "yaml"}.get(
        top, "Python's standard library" if top in sys.stdlib_module_names else top
    )


def contents(executable: Path) -> dict[str, Share]:
    """Where the bytes go, the most first; what is not in the archive's entries is the boot loader's."""
    told = subprocess.run(
        [python_that_freezes(), "-c", _CONTENTS, executable], capture_output=True, check=True
    )
    shares: dict[str, Share] = {}
    for name, kind, packed, size in json.loads(told.stdout):
        share = shares.setdefault(owner(name, kind), Share())
        share.packed += packed
        share.unpacked += size if kind in "bxZ" else 0
    known = sum(share.packed for share in shares.values())
    shares.setdefault("PyInstaller", Share()).packed += executable.stat().st_size - known
    return dict(sorted(shares.items(), key=lambda one: -one[1].packed))


def one_dir(room: Path) -> str:
    """The same program as a folder: the recipe with another last step, in a folder that looks like the project's to it."""
    recipe = (FREEZE / "demarkus-appliance.spec").read_text("utf-8")
    analysis, step, _ = recipe.partition("\nEXE(")
    assert step, "the recipe no longer ends in EXE"
    freeze = room / "deploy" / "freeze"
    freeze.mkdir(parents=True)
    (room / "app").symlink_to(PROJECT / "app")
    (freeze / "start.py").symlink_to(FREEZE / "start.py")
    (freeze / "one-dir.spec").write_text(analysis + _ONE_DIR, "utf-8")
    work = room / "work"
    work.mkdir()
    freezing = [python_that_freezes(), "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR"]
    subprocess.run(
        [*freezing, "--distpath", room, "--workpath", work, freeze / "one-dir.spec"],
        env=os.environ | {"DEMARKUS_BUILD_WORK": str(work), "PYINSTALLER_CONFIG_DIR": str(work)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return str(room / "folder" / "demarkus-appliance")


def resident(process: int, key: str = "VmRSS") -> float:
    """MB of memory."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def package() -> Path | None:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    path = PROJECT / "dist" / f"demarkus-appliance_{__version__}_{machine}.deb"
    return path if path.exists() else None


def measure(executable: Path, room: Path) -> dict[str, float]:
    small, many = room / "small", room / "many"
    put(small)
    for number in range(DOCUMENTS):
        plant(str(many), f"/{number % 10}/{number}.md", [b"# Document %d\n\nOf a thousand.\n" % number])
    program, folder = [str(executable)], [one_dir(room / "one-dir")]
    figures = {"executable_mb": executable.stat().st_size / 1e6}
    if made := package():
        figures["package_mb"] = made.stat().st_size / 1e6
    with started(program, small, room) as (loader, _):
        (python,) = children(loader)
        (unpacked,) = room.glob("_MEI*")
        figures["unpacked_mb"] = sum(path.stat().st_size for path in unpacked.rglob("*")) / 1e6
        figures["resident_mb"] = resident(python)
        figures["anonymous_mb"] = resident(python, "RssAnon")
        figures["loader_mb"] = resident(loader)
    return figures | best(
        {
            "version_s": lambda: run(*program, "--version"),
            "selftest_s": lambda: run(*program, "selftest"),
            "start_1000_s": lambda: start(program, many, room),
            "start_1000_one_dir_s": lambda: start(folder, many, room),
        },
        ROUNDS,
    )


def show(figures: Mapping[str, float], shares: Mapping[str, Share]) -> None:
    for key, value in figures.items():
        limit = f"   limit: {LIMITS[key]:g}" if key in LIMITS else ""
        print(f"{key:<34}{value:>9.2f}{limit}")
    print(f"\n{'where the bytes go, MB':<34}{'packed':>9}{'unpacked':>10}")
    small = Share()
    for name, share in shares.items():
        if max(share.packed, share.unpacked) < 100_000:
            small.packed += share.packed
            small.unpacked += share.unpacked
        else:
            print(f"{name:<34}{share.packed / 1e6:>9.2f}{share.unpacked / 1e6:>10.2f}")
    print(f"{'the rest':<34}{small.packed / 1e6:>9.2f}{small.unpacked / 1e6:>10.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="one object: figure -> number")
    given = parser.parse_args()
    executable = built()
    shares = contents(executable)
    with (
        tempfile.TemporaryDirectory() as name
    ):  # not in memory: that may forbid to execute what is unpacked there
        figures = measure(executable, Path(name))
    if given.json:
        figures |= {f"packed_mb {name}": share.packed / 1e6 for name, share in shares.items()}
        print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
    else:
        show(figures, shares)


if __name__ == "__main__":
    main()

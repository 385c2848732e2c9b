"""Holds the picture of the rooms: imports go down only, and each outside library has its one place.

Reads the import statements of every module under app/; nothing is imported.
"""

import ast
from pathlib import Path

APP = Path(__file__).resolve().parents[2] / "app"

# A room and all the rooms it may import from.
BELOW: dict[str, set[str]] = {
    "protocol": set(),
    "markdown": {"protocol"},
    "search": {"protocol", "markdown"},
    "world": {"protocol", "markdown", "search"},
    "server": {"protocol", "markdown", "search", "world"},
    "client": {"protocol", "markdown"},
    "agents": {"protocol", "markdown", "search", "world", "client"},
    "commands": {"protocol", "markdown", "search", "world", "server", "client", "agents"},
}

# A library and the only modules (or rooms) that may import it; None as a room stands for app/*.py itself.
ONLY: dict[str, set[str]] = {
    "trio": {"server", "client", "agents", "commands"},
    "mcp": {"agents"},
    "aioquic": {"server/quic.py", "client/quic.py"},
    "cmarkgfm": {"markdown/cmark.py"},
    "ctypes": {"markdown/cmark.py"},
    "inotify_simple": {"server"},
    "yaml": {"protocol/metadata.py"},
    "time": {"server", "client", "commands"},
    "socket": {"server", "client", "commands"},
    "ssl": {"server", "client"},
    "os": {"world", "server", "client", "commands"},
    "pathlib": {"world", "server", "client", "commands"},
    "asyncio": set(),
}

VAGUE = {"utils", "util", "core", "common", "base", "manager", "helper", "helpers", "misc"}


def imports(path: Path) -> set[str]:
    """Dotted names of everything the module imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
            if node.module == "app":
                found.update(f"app.{name.name}" for name in node.names)
    return found


def modules() -> list[Path]:
    found = sorted(APP.rglob("*.py"))
    assert len(found) > 10
    return found


def test_imports_go_down_only() -> None:
    wrong = []
    for path in modules():
        room = path.relative_to(APP).parts[0]
        for name in imports(path):
            if name.startswith("app.") and room in BELOW:
                target = name.split(".")[1]
                if target != room and target not in BELOW[room] and target != "__version__":
                    wrong.append(f"{path.relative_to(APP)} imports {name}")
    assert wrong == []


def test_every_room_is_in_the_picture() -> None:
    assert {path.name for path in APP.iterdir() if (path / "__init__.py").exists()} == set(BELOW)


def test_libraries_have_their_one_place() -> None:
    wrong = []
    for path in modules():
        where = path.relative_to(APP).as_posix()
        room = where.split("/")[0]
        for name in imports(path):
            library = name.split(".")[0]
            if library in ONLY and where not in ONLY[library] and room not in ONLY[library]:
                wrong.append(f"{where} imports {name}")
    assert wrong == []


def test_names_say_what_they_hold() -> None:
    assert [path for path in modules() if path.stem in VAGUE] == []


def test_no_module_holds_two_ideas() -> None:
    long = {path.relative_to(APP).as_posix(): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in long.items() if lines > 500} == {}

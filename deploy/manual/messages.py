"""What the program says when something is wrong, read from its source: the messages of the log and the texts of its errors.

Nothing is imported or run: the syntax trees of all modules are looked through for calls of a log, for `Fault`s and `Failure`s, and for errors that are raised
with a text of their own. What is put into a text when it is said stands as `…`.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

APP = Path(__file__).resolve().parents[2] / "app"

_LOGS = frozenset({"log", "_log"})
# Functions that make the error which is then raised, and what they make.
_MAKERS = {
    "malformed": "Malformed",
    "_malformed": "Malformed",
    "unreadable": "Malformed",
    "not_found": "Fault",
    "_not_permitted": "Fault",
}


_VALUES = "server/values.py"  # whose errors come out as those of a setting, with its name in front


class Logged(NamedTuple):
    """A call of a log. `message` is None where it is put together."""

    module: str
    message: str | None


class Said(NamedTuple):
    """A text that is said: by an error of this name, with this status if it is an answer."""

    module: str
    error: str
    status: str
    text: str


@cache
def logged() -> list[Logged]:
    """Every call of a log in the program."""
    found: list[Logged] = []
    for module, node in _calls():
        if _name(node) in _LOGS and len(node.args) >= 2:
            texts: list[str | None] = [*_texts(node.args[1])]
            found += [Logged(module, text) for text in texts or [None]]
    return found


@cache
def said() -> list[Said]:
    """Every text of an error in the program."""
    found = []
    for module, node in _calls():
        name = _name(node)
        if name == "Fault" and len(node.args) >= 2:
            for status in _texts(node.args[0]):
                found += [Said(module, name, status, text) for text in _texts(node.args[1])]
        elif name == "ValueError" and module == _VALUES:
            found += [
                Said(module, "BadSetting", "", f"… {text}") for one in node.args for text in _texts(one)
            ]
        elif name in _MAKERS or name == "Failure" or name in _raised(module):
            found += [
                Said(module, _MAKERS.get(name, name), "", text) for one in node.args for text in _texts(one)
            ]
    return [one for one in dict.fromkeys(found) if re.search(r"[a-z]{2}", one.text)]


def constants(module: str) -> set[str]:
    """All texts that stand in a module."""
    return {
        text
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Constant)
        for text in [node.value]
        if isinstance(text, str)
    }


@cache
def _raised(module: str) -> frozenset[str]:
    """The names of the errors of this program that a module raises with a call."""
    names = (
        _name(node.exc)
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
    )
    return _own_classes().intersection(names)


@cache
def _own_classes() -> frozenset[str]:
    """The names of all classes of the program."""
    return frozenset(
        node.name
        for module in _modules()
        for node in ast.walk(_tree(module))
        if isinstance(node, ast.ClassDef)
    )


@cache
def _modules() -> list[str]:
    return sorted(path.relative_to(APP).as_posix() for path in APP.rglob("*.py"))


@cache
def _tree(module: str) -> ast.Module:
    return ast.parse((APP / module).read_text("utf-8"))


def _calls() -> Iterator[tuple[str, ast.Call]]:
    for module in _modules():
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.Call):
                yield module, node


def _name(node: ast.Call) -> str:
    """What is called, without what it is an attribute of."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _texts(node: ast.expr) -> list[str]:
    """The texts an expression can be, with what is put in as `…`; none if it is no text or all of it is put in."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            parts = [
                "".join(_texts(value) or ["…"]) if isinstance(value, ast.Constant) else "…"
                for value in values
            ]
            return ["".join(parts)]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return [one + other for one in _texts(left) or ["…"] for other in _texts(right) or ["…"]]
        case ast.IfExp(body=body, orelse=orelse):
            return [*_texts(body), *_texts(orelse)]
    return []


def unique(texts: Iterable[str]) -> list[str]:
    """The texts on one line each, sorted, once."""
    return sorted({" ".join(text.split()) for text in texts})

"""Finding the server that runs on this machine and asking it over its control socket (see `server.runtime`)."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from app.commands.outcomes import Exit, Failure

if TYPE_CHECKING:
    from app.commands.shapes import ServerStatus
    from app.server.runtime import Ask

PATIENCE = 600.0
"""Seconds that a reload may take; a large world on a slow card is read whole."""
_GLANCE = 10.0

Place = tuple[str, str]


def arguments(parser: argparse.ArgumentParser) -> None:
    """`--root`, `--runtime-dir`, `--json`."""
    server_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def server_arguments(parser: argparse.ArgumentParser) -> None:
    """`--root`, `--runtime-dir`."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        default=None,
        help="the server of this content directory; else $DEMARKUS_ROOT",
    )
    parser.add_argument(
        "--runtime-dir",
        metavar="DIR",
        default="",
        help="where its socket is; else $DEMARKUS_RUNTIME_DIR, and where servers usually have it",
    )


def status_of(root: str | None, runtime_dir: str = "") -> "ServerStatus":
    """How the server of a content root is, or the only one there is. Raises `Failure`."""
    import msgspec

    from app.commands import shapes

    return msgspec.convert(server_of(root, runtime_dir)[1], shapes.ServerStatus)


def server_of(root: str | None, runtime_dir: str = "") -> tuple[Place, dict[str, Any]]:
    """Where to ask the server of a content root, or the only one there is, and its status. Raises `Failure`."""
    from app.server.runtime import Ask, NoAnswer, ask, servers

    root = root or os.environ.get("DEMARKUS_ROOT") or None
    found = []
    silent = ""
    for place in servers(_places(runtime_dir)):
        try:
            status = ask(place, Ask("status"), _GLANCE)
        except NoAnswer as error:
            silent = silent or f" ({os.path.join(*place)}: {error})"
            continue
        if "folder" in status and (root is None or _is_of(root, status)):
            found.append((place, status))
    if len(found) == 1:
        return found[0]
    whose = f"of {root} " if root else ""
    if found:
        roots = ", ".join(str(status["root"]) for _, status in found)
        raise Failure(
            f"several servers {whose}run here ({roots}): choose by --root or --runtime-dir", Exit.USAGE
        )
    raise Failure(
        f"no server {whose}answers on this machine to this user{silent}: start it, use sudo if another user runs it, "
        f"or name {'another --root or ' if root else ''}its --runtime-dir",
        Exit.UNREACHABLE,
    )


def ask_for(place: Place, question: "Ask") -> dict[str, Any]:
    """The answer to a question that may take long. Raises `Failure`."""
    from app.server.runtime import NoAnswer, ask

    try:
        answer = ask(place, question, PATIENCE)
    except NoAnswer as error:
        raise Failure(f"{os.path.join(*place)}: {error}", Exit.UNREACHABLE) from error
    if "error" in answer:
        raise Failure(str(answer["error"]))
    return answer


def _places(runtime_dir: str) -> list[str]:
    from app.server.runtime import SYSTEM_DIRECTORY
    from app.server.settings import settings_from

    if runtime_dir:
        return [runtime_dir]
    settings = settings_from({}, {**os.environ, "DEMARKUS_ROOT": ""}, {})
    usual = (settings.runtime_dir, SYSTEM_DIRECTORY, f"{settings.state_dir}/run")
    return list(dict.fromkeys(usual))


def _is_of(root: str, status: dict[str, Any]) -> bool:
    """Whether a server serves this directory: by its name, or by where it leads."""
    if os.path.abspath(root) == status["root"]:
        return True
    try:
        return os.path.samefile(root, str(status["folder"]))
    except OSError:
        return False

"""`card`: what somebody has to know who stands before the board: where it is, how to recognise it, how to write to it, where the documents are.

The running server is asked, so that the card shows what is in force. With `--mint` the first start of a server also makes the first token and shows
it in the link that clients take (`join`, operations §9), this once: only its hash is kept, and a token file that has ever held
anything gets none. The token allows to publish and not to read: a token that reads would close the world to everybody without one.
"""

import argparse
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.commands import running
from app.commands.outcomes import Failure
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import answer

if TYPE_CHECKING:
    from app.commands.shapes import ServerStatus
    from app.protocol.addresses import Address

LABEL = "owner"
"""The label of the first token."""
NETWORK_SECONDS = 30.0
"""How long the first card waits for the machine to get an address."""
_LOOK = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    running.server_arguments(parser)
    parser.add_argument(
        "--mint",
        action="store_true",
        help="if the token file is still empty: make the first token, and show it this once",
    )


def run(options: argparse.Namespace) -> int:
    import msgspec

    from app.commands import shapes
    from app.commands.reachable import addresses
    from app.server.runtime import SYSTEM_DIRECTORY
    from app.world.tokenfile import mint_first

    place, told = running.server_of(options.root, options.runtime_dir)
    status = msgspec.convert(told, shapes.ServerStatus)
    sudo = os.path.realpath(place[0]) == os.path.realpath(SYSTEM_DIRECTORY)
    file = status.tokens or ""
    where = addresses(status.address)

    def show(token: str = "") -> None:
        answer(text(status, where, token, sudo=sudo).encode("utf-8", "surrogateescape"))

    if not options.mint or not file or _holds_anything(file):
        show()
        return 0
    deadline = time.monotonic() + NETWORK_SECONDS
    while not where and time.monotonic() < deadline:
        time.sleep(_LOOK)
        where = addresses(status.address)
    if not mint_first(LABEL, ["/**"], ["publish"], file, show):
        show()  # somebody was quicker
    return 0


def _holds_anything(file: str) -> bool:
    try:
        return os.stat(file).st_size > 0
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from error


def text(status: "ServerStatus", where: "Sequence[Address]", token: str = "", *, sudo: bool = False) -> str:
    """The card; `token` is the raw one, if it is to be shown. All but the link with it fits a console of 80 columns.

    `sudo`: the server is the installed service, whose token file only root may change.
    """
    first = where[0].identity.rstrip("/") if where else "mark://ADDRESS"
    rows = {
        "Address": [address.identity for address in where] or ["none yet: no network"],
        "Fingerprint": [status.fingerprint],
        **({"Join": [f"{first}#token={token}"]} if token else {}),
        "Read": [f"{PROGRAM} fetch {first}/health --pin \\", f"  {status.fingerprint}"],
        "Publish": _publishing(status, first),
        "Documents": [status.root],
    }
    if token:
        rows["The token in the link"] = [
            "lets whoever has it write everywhere. It is shown this once and kept nowhere:",
            "write it down.",
        ]
    if status.tokens:
        rows["Another token"] = [
            f"{'sudo ' if sudo else ''}{PROGRAM} token generate --label NAME --paths '/**' \\",
            f"  --tokens {status.tokens}",
        ]
    lines = [line for name, values in rows.items() for line in (name, *(f"  {value}" for value in values))]
    return "\n".join(["", "Demarkus appliance", "", *lines, ""])


def _publishing(status: "ServerStatus", first: str) -> list[str]:
    if status.read_only:
        return ["nobody: the server is read-only (DEMARKUS_READ_ONLY)"]
    if not status.tokens:
        return ["nobody: the server has no token file (DEMARKUS_TOKENS)"]
    return [
        f"echo '# Hello' | DEMARKUS_AUTH=TOKEN {PROGRAM} \\",
        f"  put {first}/hello.md --expected-version 0",
    ]


COMMAND = Command(
    name="card",
    summary="show where the server on this machine is reached, how to recognise it and how to write to it",
    examples=("card", "card --root /srv/world"),
    arguments=arguments,
    run=run,
    notes="Only the user that the server runs as, and root, may ask. The service shows the card on the board's console at its first start, with --mint; "
    "later cards hold no secret.",
)

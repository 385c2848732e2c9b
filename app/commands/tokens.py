"""`token generate`, `token list`, `token revoke`: the server's token file (operations §7).

The raw token is the one thing on stdout, so that it can be piped on; it is shown once and kept nowhere.
"""

import argparse
import os
import sys
from typing import TYPE_CHECKING

from app.commands.outcomes import Exit, Failure
from app.commands.parser import Command
from app.commands.terminal import answer, note

if TYPE_CHECKING:
    from app.world.tokenfile import Printed


def generate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--label", metavar="NAME", required=True, help="its name, as the audit log shows it")
    parser.add_argument("--paths", metavar="A,B", default="/*", help="path patterns, such as /docs/** (/*)")
    parser.add_argument("--ops", metavar="A,B", default="publish", help="read, publish, or both (publish)")
    parser.add_argument(
        "--tokens", metavar="FILE", default=None, help="token file to append to; else $DEMARKUS_TOKENS"
    )


def generate(options: argparse.Namespace) -> int:
    from app.world import tokenfile

    file = options.tokens or os.environ.get("DEMARKUS_TOKENS") or None
    return tell(tokenfile.generate(options.label, parts(options.paths), parts(options.ops), file))


def list_arguments(parser: argparse.ArgumentParser) -> None:
    _file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def list_tokens(options: argparse.Namespace) -> int:
    from app.world import tokenfile

    file = _file(options)
    if not options.json:
        return tell(tokenfile.list_tokens(file))
    from app.commands import shapes
    from app.world.tokens import TokenTable

    with open(file, "rb") as source:
        table = TokenTable.parse(source.read())
    rows = [
        shapes.Token(token.label, list(token.paths), list(token.operations), token.expires or None)
        for token in sorted(table.tokens, key=lambda token: token.label)
    ]
    answer(shapes.encode(shapes.Tokens(rows)))
    return Exit.DONE


def revoke_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--label", metavar="NAME", required=True, help="the token to remove")
    _file_argument(parser)


def revoke(options: argparse.Namespace) -> int:
    from app.world import tokenfile

    return tell(tokenfile.revoke(options.label, _file(options)))


def parts(text: str) -> list[str]:
    """The items of a comma list."""
    return [part.strip() for part in text.split(",") if part.strip()]


def tell(printed: "Printed") -> int:
    """Puts the texts of a token command where they belong."""
    sys.stderr.write(printed.err)
    sys.stderr.flush()
    answer(printed.out.encode("utf-8", "surrogateescape"))
    for warning in printed.warnings:
        note(f"warning: {warning}")
    return Exit.DONE


def _file_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tokens", metavar="FILE", default=None, help="the token file; else $DEMARKUS_TOKENS"
    )


def _file(options: argparse.Namespace) -> str:
    file: str = options.tokens or os.environ.get("DEMARKUS_TOKENS", "")
    if not file:
        raise Failure("which token file? give --tokens FILE or set DEMARKUS_TOKENS", Exit.USAGE)
    return file


GENERATE = Command(
    name="token generate",
    summary="mint a token, add it to the token file, and print it",
    examples=(
        "token generate --label bench --paths '/logs/**' --ops read,publish --tokens /etc/demarkus/tokens.toml",
        "token generate --label editor --paths '/**' --tokens tokens.toml > editor.token",
    ),
    arguments=generate_arguments,
    run=generate,
    notes="A token with the operation read makes the paths it covers private to its holders.",
)
LIST = Command(
    name="token list",
    summary="print the tokens of a token file; the secrets are not in it",
    examples=("token list --tokens /etc/demarkus/tokens.toml", "token list --tokens tokens.toml --json"),
    arguments=list_arguments,
    run=list_tokens,
    shape="tokens",
)
REVOKE = Command(
    name="token revoke",
    summary="remove a token from a token file",
    examples=(
        "token revoke --label bench --tokens /etc/demarkus/tokens.toml",
        "token revoke --label 'old laptop' --tokens tokens.toml",
    ),
    arguments=revoke_arguments,
    run=revoke,
)

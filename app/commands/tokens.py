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
    parser.add_argument(
        "--paths",
        metavar="A,B",
        default="/*",
        help="path patterns, such as '/docs/**'; by default '/*', which is what lies directly in the root and nothing "
        "in folders; '/**' is everything",
    )
    parser.add_argument(
        "--ops",
        metavar="A,B",
        default="publish",
        help="publish (the default: write, append, archive), read, or both",
    )
    parser.add_argument(
        "--tokens", metavar="FILE", default=None, help="token file to append to; else $DEMARKUS_TOKENS"
    )


def generate(options: argparse.Namespace) -> int:
    from app.world import tokenfile

    file = options.tokens or os.environ.get("DEMARKUS_TOKENS") or None
    paths, operations = parts(options.paths), parts(options.ops)
    code = tell(tokenfile.generate(options.label, paths, operations, file))
    note(f"\nIt allows to {' and '.join(dict.fromkeys(operations))}:")
    for path in paths:
        note(f"  {path}  {covered(path)}")
    if file is None:
        note("No server knows it yet: add the entry above to its token file, or name that with --tokens.")
    return code


def covered(pattern: str) -> str:
    """What a path pattern matches, in words (wire §7.2)."""
    folder, _, tail = pattern.rpartition("/")
    if pattern == "/**":
        return "everything"
    if any(char in folder for char in "*?[\\"):
        return "what matches this pattern"
    if tail == "**":
        return f"everything below {folder}"
    if tail == "*":
        return f"what lies directly in {folder or 'the root'}, nothing in its folders"
    if any(char in tail for char in "*?[\\"):
        return "what matches this pattern"
    if tail.endswith(".md"):
        return "this one document"
    return f"warning: no document has that name; did you mean {pattern.rstrip('/')}/**?"


def list_arguments(parser: argparse.ArgumentParser) -> None:
    _file_argument(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def list_tokens(options: argparse.Namespace) -> int:
    from app.world import tokenfile

    file = _file(options)
    if not options.json:
        return tell(tokenfile.list_tokens(file))
    from app.commands import shapes

    rows = [
        shapes.Token(token.label, list(token.paths), list(token.operations), token.expires or None)
        for token in tokenfile.tokens_of(file)
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
    notes="The token is the only thing on stdout, so that it can be kept with > FILE; who reads that file has the token. With the "
    "operation read the paths it covers can be read by its holders only. It never expires, unless you add\n"
    'expires = "2027-12-31T23:59:59Z" to its entry in the token file.',
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

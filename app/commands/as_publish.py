"""Started as `demarkus-publish`: the reference's out-of-band writer (store §11), which writes no metadata and strips what there was."""

import sys
from collections.abc import Sequence

from app.commands import bodies
from app.commands.goflags import BadFlag, Flag, HelpWanted, parse, usage
from app.commands.outcomes import Exit, Failure
from app.commands.publish import checked_path, root_of, write
from app.commands.terminal import note

NAME = "demarkus-publish"

_FLAGS = (
    Flag("root", "content directory; else DEMARKUS_ROOT", "DIR"),
    Flag("path", "the document, such as /doc.md (required)", "PATH"),
    Flag("body", "the text; without it stdin", "TEXT"),
)


def run(words: Sequence[str]) -> int:
    """Runs one command line and gives the exit code."""
    try:
        given = parse(_FLAGS, words)
        if given.arguments:
            raise BadFlag(f"unexpected argument {given.arguments[0]}: the text comes from -body or stdin")
    except HelpWanted:
        sys.stderr.write(usage(f"usage: {NAME} -root DIR -path /doc.md [-body TEXT]", _FLAGS))
        return Exit.DONE
    except BadFlag as error:
        note(str(error))
        sys.stderr.write(usage(f"usage: {NAME} -root DIR -path /doc.md [-body TEXT]", _FLAGS))
        return Exit.USAGE
    try:
        if not given.text("path"):
            raise Failure("-path is required")
        path = checked_path(given.text("path"))
        root = root_of(given.text("root"))
        text = (
            given.text("body").encode("utf-8", "surrogateescape") if "body" in given else bodies.read_stdin()
        )
        if not text:
            raise Failure("empty content")
        done = write(root, path, bodies.checked(text), lambda _: {})
    except (Failure, OSError) as error:
        note(f"error: {error}")
        return Exit.FAILED
    note(f"published {done.path} v{done.version}" if done.created else f"unchanged (v{done.version})")
    return Exit.DONE

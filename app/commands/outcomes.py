"""Exit codes: the law of the command line, in two tables.

A script can rely on them: 0 done, 1 failed, 2 usage, 3 not found, 4 conflict, 5 not permitted, 6 unreachable, 7 identity changed. What the
server said is mapped by its status, what went wrong before it could say anything by its exception. What is wrong with the command line itself is
"usage"; a file or folder it names that is missing or cannot be read is "failed"; "not found" is what a server has not.
"""

from enum import IntEnum


class Exit(IntEnum):
    """What the exit code of a command says."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    CONFLICT = 4
    NOT_PERMITTED = 5
    UNREACHABLE = 6
    IDENTITY_CHANGED = 7
    INTERRUPTED = 130


MEANINGS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed",
    Exit.USAGE: "wrong usage; nothing was done",
    Exit.NOT_FOUND: "the server has no such thing, or it is archived",
    Exit.CONFLICT: "conflict: the document is at another version",
    Exit.NOT_PERMITTED: "not permitted: no token, an unknown or expired one, or one without this right",
    Exit.UNREACHABLE: "unreachable: no connection, none that can be trusted, or no answer in time",
    Exit.IDENTITY_CHANGED: "the server's certificate is not the pinned one",
    Exit.INTERRUPTED: "interrupted by Ctrl-C",
}

# Every status that is not listed is a failure (wire §6).
STATUSES = {
    "ok": Exit.DONE,
    "created": Exit.DONE,
    "not-modified": Exit.DONE,
    "not-found": Exit.NOT_FOUND,
    "archived": Exit.NOT_FOUND,
    "conflict": Exit.CONFLICT,
    "unauthorized": Exit.NOT_PERMITTED,
    "not-permitted": Exit.NOT_PERMITTED,
}

# By the name of the exception's class, so that this module needs none of the rooms they come from.
ERRORS = {
    "Unreachable": Exit.UNREACHABLE,
    "Untrusted": Exit.UNREACHABLE,
    "IdentityChanged": Exit.IDENTITY_CHANGED,
    "BadAddress": Exit.USAGE,
    "BadPin": Exit.USAGE,
}


class Failure(Exception):
    """Ends a command with one plain line on stderr and this exit code."""

    def __init__(self, message: str, code: Exit = Exit.FAILED) -> None:
        super().__init__(message)
        self.code = code


def exit_of(status: str) -> Exit:
    """The exit code of an answer with this status."""
    return STATUSES.get(status, Exit.FAILED)

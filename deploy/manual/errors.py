"""The manual's page of error texts: which there are comes from the source (`messages`), what they mean and what to do about them is written here.

A text of an answer has a meaning of its own; what a program says in its own voice names the thing and the cure itself, so that it is enough to say who says it and
when. A text or an error without its meaning here fails the build of the page.
"""

from collections.abc import Iterator

from app.commands.outcomes import STATUSES, Exit
from deploy.manual.messages import Said, said, unique

# What a server answers, by status and text; `…` stands for what is put in.
ANSWERS: dict[tuple[str, str], str] = {
    ("archived", "… is archived"): "its versions can still be fetched by number; `archive --undo` brings it back",
    ("archived", "document is archived; unarchive first"): "nothing can be written to it before `archive --undo`",
    ("bad-request", "APPEND requires expected-version metadata"): "send the version you have read; `append` looks it up by itself",
    ("bad-request", "LIST cursor does not match this request"): "a cursor goes on in the same folder, with the same `--include-archived`",
    ("bad-request", "LIST cursor exceeds limit"): "it is no cursor of a server; begin again without one",
    ("bad-request", "bad request"): "it breaks the grammar of the protocol; the server's log says how",
    ("bad-request", "cannot publish …: …: path collision"): "a folder of that name exists, or a document where a folder would have to be",
    ("bad-request", "cannot write …: …"): "the path or the text cannot be stored; the reason stands behind the colon",
    ("bad-request", "document body must be valid UTF-8 text"): "only text can be published",
    ("bad-request", "include-archived must be true or false"): "nothing else is understood",
    ("bad-request", "invalid LIST cursor"): "it is not whole; begin again without one",
    ("bad-request", "invalid expected-version"): "a whole number, 0 for a new document",
    ("bad-request", "invalid expected-version for APPEND (must be >= 1)"): "there has to be a version to append to",
    ("bad-request", "invalid filter clause …: must be key=value"): "see [Filters](../finding.md#filters)",
    ("bad-request", "invalid filter time … for …: must be YYYY-MM-DD or an RFC 3339 time"): "such as 2026-01-31 or 2026-01-31T12:00:00Z",
    ("bad-request", "invalid limit"): "a whole number of 1 or more",
    ("bad-request", 'match must be "catalog" or "body", got …'): "see [Finding](../finding.md)",
    ("bad-request", "metadata key … contains invalid characters"): "small letters, digits and hyphens",
    ("bad-request", "metadata key … is reserved"): "the server writes that key itself",
    ("bad-request", "metadata too large (max … bytes)"): "keys and values together; put the rest into the text",
    ("bad-request", "metadata value for key … contains newlines"): "a value is one line",
    ("bad-request", "page-size must be between 1 and …"): "ask for fewer entries, and go on with the cursor",
    ("bad-request", "paths matching /sha256-<hash> are reserved"): "such a path is an address of content; write to the document's own path",
    ("bad-request", "publish path must end in .md"): "every document's name does",
    ("bad-request", "query has no word to look for"): "what was sent are only marks or single letters",
    ("bad-request", "query has too many terms: … > …"): "fewer words, or `--match task`, which takes any number",
    ("bad-request", "query must be at least 2 characters"): "or `*` for every document",
    ("bad-request", "query must be at most … bytes"): "shorten the task",
    ("bad-request", "too many metadata keys (max …)"): "put the rest into the text",
    ("bad-request", "unsupported LIST cursor"): "it is of another version of this protocol; begin again without one",
    ("bad-request", "unsupported verb: WATCH"): "this server does not announce changes; ask again from time to time",
    ("bad-request", '…key "retention" …'): "a whole number of 1 or more: how many versions are kept",
    ("bad-request", "…key … is reserved by the store"): "the server writes that key itself",
    ("not-found", "content not found for hash …"): "no current document that you may read has this content",
    ("not-found", "… not found"): "no such document, version or folder, or not for you to see; a document's name ends in `.md`",
    ("not-permitted", "insufficient permissions"): "the token is good, but not for this path or operation; `token list` shows what it covers",
    ("not-permitted", "server is read-only"): "it was started with `--read-only`, or may not write to its folder",
    ("not-permitted", "… requires auth configuration"): "the server has no token file, so that nobody may write: start it with `--tokens FILE`",
    ("server-error", "append requires a body"): "there is nothing to append",
    ("server-error", "content exceeds size limit"): "a document holds at most 1,048,576 bytes",
    ("server-error", "could not read request"): "it was cut off, came too slowly, or was too large",
    ("server-error", "internal error"): "the server could not read or write its folder, or has a fault; its log says which",
    ("server-error", "malformed response"): "said by the client: what came back is no answer of this protocol",
    ("server-error", "response too long"): "said by the client: it takes at most 4 MiB",
    ("server-error", "timed out waiting for an earlier write; nothing was written"): "the disk is slow or stuck; try again",
    ("server-error", "too many writes are waiting; nothing was written"): "write more slowly, or look what holds up the disk",
    ("unauthorized", "authentication required"): "no token was sent, or one that is unknown or has expired",
}  # fmt: skip

# What is put together from parts at the moment it is said, and in which module.
PUT_TOGETHER: dict[str, tuple[str, ...]] = {
    "search/filters.py": ("invalid filter time … for …: must be YYYY-MM-DD or an RFC 3339 time",),
    "server/statuses.py": (
        "cannot publish …: …: path collision",
        "cannot write …: …",
        "content exceeds size limit",
        "document is archived; unarchive first",
    ),
    "server/writes.py": ("invalid expected-version", "invalid expected-version for APPEND (must be >= 1)"),
}

# What else is said: by which errors, under which heading, and when.
FAMILIES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (
        "A command ends",
        "With one line on standard error that names the thing and, where there is one, the cure. The exit code is 2 if the command line is wrong and 1 "
        "otherwise, unless [Statuses and exit codes](../protocol/statuses.md) says something finer.",
        ("Failure", "BadFlag"),
    ),
    ("An address cannot be read", "Exit code 2. Addresses are written `mark://host[:port]/path#section`.", ("BadAddress",)),
    (
        "No connection, or none that can be trusted",
        "Exit code 6, and 7 if the certificate is not the one that is pinned. See [When something is wrong](../troubleshooting.md).",
        ("Unreachable", "Untrusted", "IdentityChanged", "HandshakeFailed", "TimedOut", "Lost", "OutcomeUnknown", "BadAnswer"),
    ),
    ("What is kept in ~/.mark cannot be read", "Exit code 2 for a pin, 1 for tokens. Mend or remove the line that is named.", ("BadPin", "BadTokenStore")),
    (
        "The server does not start",
        "It says why in one line of its log and exits with 1; nothing was changed. A setting is named by its variable or flag.",
        ("CannotStart", "BadSetting", "BadCertificate", "NotUsable", "BadRoot"),
    ),
    (
        "A token file is wrong",
        "At a start the server stops; while it runs the tokens before stay in force. The commands of `token` change nothing.",
        ("BadTokenFile", "TokenFileError", "BadPattern"),
    ),
    (
        "A document cannot be read or stored",
        "Said by `publish`, `import`, `export`, `verify` and `backup`, and in the server's log, with the path in front.",
        (
            "BadDocument", "Damaged", "TooLarge", "Escapes", "NotRegular", "Oversized", "PathCollision", "Archived", "Missing", "Conflict", "ReadOnly",
            "DiskFailure", "NotSynced", "LostRace", "IndexIncomplete", "Emptied",
        ),
    ),
    (
        "The section index cannot be built beside the server",
        "In the log behind `content reload failed`: the process that builds it was not to be had or was ended, most likely for want of memory. What was known "
        "stays in force; reload again.",
        ("ApartFailed",),
    ),
    ("A backup cannot be restored", "Said by `restore`; nothing is left at the target.", ("CannotRestore", "BadTar")),
    ("The running server does not answer", "Said by `status`, `reload` and `publish --reload`.", ("NoAnswer",)),
    (
        "A request is malformed",
        "The answer is `bad request` or `could not read request`; these stand in the server's log behind `error=`.",
        ("Malformed",),
    ),
    ("An agent's call is refused", "Said by the tools of `mcp`, to the agent, as an error.", ("Refusal", "MCPError")),
)  # fmt: skip


def errors_page() -> str:
    """The page as markdown. Raises `LookupError` for what has no meaning here."""
    texts = said()
    return "\n".join([*_answers(texts), *_families(texts)]) + "\n"


def _answers(texts: list[Said]) -> Iterator[str]:
    found = {(one.status, one.text) for one in texts if one.status}
    found |= {pair for pair in ANSWERS if any(pair[1] in known for known in PUT_TOGETHER.values())}
    if found != ANSWERS.keys():
        missing, gone = sorted(found - ANSWERS.keys()), sorted(ANSWERS.keys() - found)
        raise LookupError(
            f"deploy/manual/errors.py: answers without a meaning {missing}, meanings without an answer {gone}"
        )
    yield "# Error texts"
    yield ""
    yield "Everything the program says when something is wrong. `…` stands for what is put in: a path, a name, a number."
    yield ""
    yield "## What a server answers"
    yield ""
    yield "| Status | Text | Meaning, and what to do | Exit code |"
    yield "|---|---|---|---|"
    for (status, text), meaning in sorted(ANSWERS.items()):
        yield f"| `{status}` | {_code(text)} | {meaning} | {STATUSES.get(status, Exit.FAILED).value} |"
    yield ""
    yield "A `conflict` says which version there is and which was expected; a `rate-limited` answer has no text: wait a moment."


def _families(texts: list[Said]) -> Iterator[str]:
    known = {error for _, _, errors in FAMILIES for error in errors}
    strange = sorted({one.error for one in texts} - known - {"Fault"})
    if strange:
        raise LookupError(f"deploy/manual/errors.py: errors without a family {strange}")
    for heading, meaning, errors in FAMILIES:
        found = unique(one.text for one in texts if one.error in errors)
        yield ""
        yield f"## {heading}"
        yield ""
        yield meaning
        yield ""
        yield from (f"- {_code(text)}" for text in found)


def _code(text: str) -> str:
    """The text as a code span that can stand in a table."""
    fence = "``" if "`" in text else "`"
    inner = f" {text} " if text.startswith("`") or text.endswith("`") else text
    return f"{fence}{inner}{fence}".replace("|", "\\|")

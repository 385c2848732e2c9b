"""`mark_publish`, `mark_append`, `mark_archive`: the writes, each of which says what became of it.

A conflict writes nothing and is an error that carries what the next attempt needs. When the answer to a write is lost, the version that
it would have made is read back: whether the write was done is then known, and an agent need not guess or write twice.
"""

from collections.abc import Awaitable, Callable, Mapping

from app.agents.answers import Answer, Refusal, call, fitting, head, one_line, page, readable, refused, room
from app.agents.arguments import UNSET, Append, Archive, Publish
from app.agents.merging import merge
from app.agents.worlds import OK, Worlds, refusal, told
from app.client.client import Client
from app.client.errors import ClientError, OutcomeUnknown
from app.protocol.addresses import Address
from app.protocol.answer import Response, message_of
from app.protocol.fault import Fault
from app.protocol.limits import BODY_MAX
from app.protocol.publisher import CONTROL, in_full, publisher_metadata
from app.protocol.publisher import readable as published

Write = Callable[[Client], Awaitable[Response]]
Check = Callable[[bytes, bytes], bool]
"""Whether a version, given its body and that of the one before, is what a write would have made."""

_AGENT_MAX = 64  # characters of the client's name


async def publish(worlds: Worlds, given: Publish, agent: str) -> Answer:
    """The whole text of a document, in the place of a version that was read."""
    where = worlds.address(given.url)
    body = _checked(given.body)
    expected = given.expected_version
    metadata = _metadata(
        await _kept(worlds, where, given) if given.metadata is UNSET else given.metadata, agent
    )
    response = await _written(
        worlds,
        where,
        lambda client: client.publish(where.path, body, expected_version=expected, metadata=metadata),
        expected + 1,
        lambda before, now: now == body,
    )
    if response.status == "conflict":
        return await _conflict(worlds, where, given, response)
    if not body:
        version = response.metadata.get("version")
        return page(
            head(response.status, {"version": version}),
            f"{where.identity} is live, at version {version}; no text was written.\n",
        )
    return _outcome(where, response)


async def _kept(worlds: Worlds, where: Address, given: Publish) -> dict[str, str]:
    """The metadata of the version that is replaced, but for what deletes versions and who wrote it. Raises `Refusal`."""
    version = given.expected_version
    if not version:
        return {}
    again = call("mark_publish", url=given.url, body="…", expected_version=version, metadata={"title": "…"})
    replaced = await _read_first(
        worlds,
        where,
        lambda client: client.fetch(f"{where.path}/v{version}"),
        f"Without `metadata` that of version {version} is read first, to keep it; given, it is replaced as a whole: {again}",
    )
    return {
        key: value for key, value in published(replaced.metadata).items() if key not in {"agent", "retention"}
    }


async def _read_first(
    worlds: Worlds, where: Address, read: Write, instead: str, absent: str = ""
) -> Response:
    """What a write has to know before it is done.

    Raises `Refusal`, with what to do `instead` where the token may not read, and where the document is `absent`.
    """
    try:
        response = await worlds.ask(where, read)
    except ClientError as error:
        raise Refusal(told(error, where)) from error
    if response.status == "not-permitted":
        said = f"status: not-permitted\n\n{where.identity}: {one_line(message_of(response))}\n"
        raise Refusal(
            f"{said}Nothing was written. The token in use may not read here; it may still be one that may write here. {instead}\n"
            "Or whoever runs the server gives a token with read and publish.\n"
        )
    if response.status not in OK:
        raise Refusal(refusal(response, where) + (absent if response.status == "not-found" else ""))
    return response


async def append(worlds: Worlds, given: Append, agent: str) -> Answer:
    """Text at the end of a document."""
    where = worlds.address(given.url)
    metadata = _metadata({}, agent)
    body = _checked(given.body)
    if not body:
        raise Refusal("`body` is empty: there is nothing to append")
    expected = given.expected_version
    if not expected:
        again = call("mark_append", url=given.url, body="…", expected_version=1)
        history = await _read_first(
            worlds,
            where,
            lambda client: client.versions(where.path),
            f"Without `expected_version` the current one is looked up first. Give the one you know: {again}; a wrong one writes nothing and is told the current one.",
            _creating(given),
        )
        current = history.metadata.get("current", "")
        if not current.isdecimal():
            raise Refusal(
                f"the server does not say at which version {where.identity} is; give `expected_version`"
            )
        expected = int(current)
    response = await _written(
        worlds,
        where,
        lambda client: client.append(where.path, body, expected_version=expected, metadata=metadata),
        expected + 1,
        lambda before, now: now == before + (b"" if before.endswith(b"\n") or not before else b"\n") + body,
        _creating(given),
    )
    if response.status == "conflict":
        current = response.metadata.get("server-version", "")
        again = call(
            "mark_append",
            url=given.url,
            body="…",
            expected_version=int(current) if current.isdecimal() else None,
        )
        return refused(f"{refusal(response, where)}Nothing was written. Read what was added, then: {again}\n")
    return _outcome(where, response)


def _creating(given: Append) -> str:
    """What to do when there is nothing to append to."""
    create = call("mark_publish", url=given.url, body="…", expected_version=0, metadata={"title": "…"})
    return f"There is nothing to append to; to create it: {create}\n"


async def archive(worlds: Worlds, given: Archive) -> Answer:
    """A document taken out of sight; its versions stay."""
    where = worlds.address(given.url)
    response = await worlds.done(where, lambda client: client.archive(where.path))
    back = call("mark_publish", url=given.url, body="", expected_version=0)
    version = response.metadata.get("version")
    return page(
        head(response.status, {"version": version, "archived": response.metadata.get("archived")}),
        f"To bring it back: {back}\n",
    )


async def _written(
    worlds: Worlds, where: Address, write: Write, number: int, is_ours: Check, absent: str = ""
) -> Response:
    """The answer to a write; where it was lost, what the version says that the write would have made. Raises `Refusal`."""
    try:
        response = await worlds.ask(where, write)
    except OutcomeUnknown as error:
        return await _reconciled(worlds, where, error, number, is_ours)
    except ClientError as error:
        raise Refusal(told(error, where)) from error
    if response.status not in OK and response.status != "conflict":
        raise Refusal(refusal(response, where) + (absent if response.status == "not-found" else ""))
    return response


async def _reconciled(
    worlds: Worlds, where: Address, error: OutcomeUnknown, number: int, is_ours: Check
) -> Response:
    """Reads back the version that a write without an answer would have made (operations §10)."""
    try:
        now = await worlds.ask(where, lambda client: client.fetch(f"{where.path}/v{number}"))
        before = await worlds.ask(where, lambda client: client.fetch(f"{where.path}/v{number - 1}"))
    except ClientError as again:
        raise Refusal(
            f"{error}, and reading it back failed too ({again}). Look at the versions before writing again."
        ) from again
    if now.status == "ok" and is_ours(before.body if before.status == "ok" else b"", now.body):
        return Response("created", {"version": str(number), "modified": now.metadata.get("modified", "")})
    state = "holds another text" if now.status == "ok" else "does not exist"
    raise Refusal(
        f"{error.where}: the answer was lost and nothing of yours was written: version {number} {state}. Read it again, then write."
    )


async def _conflict(worlds: Worlds, where: Address, given: Publish, response: Response) -> Answer:
    """What to do about a conflict: with `merge`, both changes in one text."""
    current = response.metadata.get("server-version", "")
    before = f"{refusal(response, where)}Nothing was written.\n"
    reread = f"Read it, apply the change to it and publish with its version: {call('mark_fetch', url=where.identity, force=True)}\n"
    if (
        given.on_conflict == "fail"
        or not given.expected_version
        or not current.isdecimal()
        or not int(current)
    ):
        return refused(before + reread)
    try:
        old = await worlds.done(where, lambda client: client.fetch(f"{where.path}/v{given.expected_version}"))
        new = await worlds.done(where, lambda client: client.fetch(f"{where.path}/v{current}"))
    except Refusal:
        # The token may not read here, or the version is gone: that there is a conflict is what counts.
        return refused(before + reread)
    joined = merge(readable(old.body), readable(new.body), given.body)
    if joined is None:
        return refused(before + reread)
    text = joined.text.encode("utf-8", "replace")
    again = call("mark_publish", url=given.url, body="…", expected_version=int(current))
    many = (
        "1 place changed on both sides stands"
        if joined.conflicts == 1
        else f"{joined.conflicts} places changed on both sides stand"
    )
    how = (
        f"{many} between <<<<<<< and >>>>>>>." if joined.conflicts else "No place was changed on both sides."
    )
    advice = f"Both changes in one text follow, not written. {how} Review it, then: {again}\n"
    if fitting(text, 0, room(before, advice)) < len(text):
        return refused(f"{before}Both changes in one text are too long to be shown. {reread}")
    return refused(f"{before}{advice}\n{joined.text}")


def _outcome(where: Address, response: Response) -> Answer:
    version = response.metadata.get("version")
    keys = {"version": version, "modified": response.metadata.get("modified")}
    same = (
        ""
        if response.status == "created"
        else " The text and metadata are those of the current version: nothing was written."
    )
    return page(head(response.status, keys), f"{where.identity} is at version {version}.{same}\n")


def _checked(text: str) -> bytes:
    """The text as it is sent. Raises `Refusal`."""
    try:
        body = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(f"`body` holds half a character at {error.start}: it is no Unicode text") from None
    if len(body) > BODY_MAX:
        raise Refusal(f"`body` has {len(body):,} bytes; a document holds at most {BODY_MAX:,}")
    return body


def _metadata(given: Mapping[str, str], agent: str) -> dict[str, str]:
    """What is attached to the version: what was given, and which agent wrote it unless that was given too. Raises `Refusal`."""
    for key in sorted(CONTROL & given.keys()):
        raise Refusal(f"`metadata` holds {key}, which is no metadata")
    if "retention" in given:
        raise Refusal(
            "`metadata` holds retention, which deletes old versions for good: that is for a person to do"
        )
    name = "".join(char for char in agent if char.isprintable())[:_AGENT_MAX].strip()
    found = {**({"agent": name} if name else {}), **given}
    try:
        publisher_metadata(found)
    except Fault as fault:
        raise Refusal(f"`metadata`: {in_full(fault)}") from None
    return found

"""Every answer to a caller is that of a world which holds only what the caller may read (design of permission; wire §7, lookup §6).

Hypothesis builds a world and a token table; a second world on disk gets only the readable documents. Whatever is asked of both, by path, by
version, by hash, by directory, by LOOKUP, the bytes are the same.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterable

import msgspec
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.answer import Response
from app.protocol.message import Request, encode_request, encode_response
from app.server.dispatch import Dispatcher
from app.world.tokens import TokenTable, access
from app.world.world import World
from tests.unit.server.planted import plant, silent

DIRECTORIES = ["", "/d", "/d/e", "/p", "/p/v1", "/.h"]
NAMES = ["a.md", "b.md", "index.md"]
PATHS = [f"{directory}/{name}" for directory in DIRECTORIES for name in NAMES]
BODIES = [b"# One\n", b"# Two\n", b"plain\n"]
PATTERNS = [
    "/**",
    "/*",
    "/d/**",
    "/d/*",
    "/d/a*",
    "/p/**",
    "/**/index.md",
    "/**/b.md",
    "/d",
    "/p/v1",
    "/.h/**",
    "/a.md",
]
NOW = 1_800_000_000.0


class Planted(msgspec.Struct, frozen=True):
    """One document of a random world."""

    path: str
    bodies: tuple[bytes, ...]
    metadata: str
    modified: int
    archived: bool


documents = st.builds(
    Planted,
    path=st.sampled_from(PATHS),
    bodies=st.lists(st.sampled_from(BODIES), min_size=1, max_size=2).map(tuple),
    metadata=st.sampled_from(["", "meta.importance: 0.9\n", "tags: [one, two]\n", "title: One way\n"]),
    modified=st.sampled_from([1_700_000_000, 1_700_000_001]),
    archived=st.booleans(),
)
worlds = st.lists(documents, max_size=10, unique_by=lambda document: document.path)
operations = st.sampled_from([["read"], ["publish"], ["read", "publish"]])
tokens = st.lists(
    st.tuples(st.lists(st.sampled_from(PATTERNS), min_size=1, max_size=2), operations), min_size=1, max_size=3
)
callers = st.sampled_from(["token-0", "token-1", "token-2", "nobody", ""])


def table_of(entries: Iterable[tuple[list[str], list[str]]]) -> TokenTable:
    text = ""
    for number, (paths, granted) in enumerate(entries):
        digest = hashlib.sha256(f"token-{number}".encode()).hexdigest()
        text += f'[tokens.t{number}]\nhash = "sha256-{digest}"\npaths = {paths}\noperations = {granted}\n'
    return TokenTable.parse(text.replace("'", '"').encode())


def questions() -> Iterable[Request]:
    places = [
        *PATHS,
        *(directory or "/" for directory in DIRECTORIES),
        "/none.md",
        "/d/none",
        "/empty",
        "/p/v1/v1",
    ]
    for path in places:
        yield Request("FETCH", path)
        yield Request("VERSIONS", path)
        yield Request("LIST", path)
        yield Request("LIST", path, {"include-archived": "true", "page-size": "1"})
        yield Request("FETCH", path, {"include-archived": "true"})
        yield Request("LOOKUP", path, {"query": "*"})
    for path in PATHS:
        yield Request("FETCH", path + "/v1")
        yield Request("FETCH", path + "/v2")
    for body in BODIES:
        yield Request("FETCH", "/sha256-" + hashlib.sha256(body).hexdigest())
    for keys in ({"query": "one"}, {"query": "one two", "limit": "2"}, {"query": "*", "filter": "tag=one"}):
        yield Request("LOOKUP", "/", keys)
    for task in ("one", "one two three", '"one way"', "tow plain", "indx", "b.md", "a b"):
        yield Request("LOOKUP", "/", {"query": task, "match": "task"})
        yield Request("LOOKUP", "/p", {"query": task, "match": "task", "filter": "tag=two"})


QUESTIONS = list(questions())


def world_of(root: str, planted: Iterable[Planted]) -> World:
    os.mkdir(os.path.join(root, "empty"))
    for document in planted:
        plant(
            root,
            document.path,
            document.bodies,
            metadata=document.metadata,
            modified=document.modified,
            archived=document.archived,
        )
    return World.open(root, log=silent)


async def answers(world: World, table: TokenTable, caller: str) -> list[bytes]:
    dispatcher = Dispatcher(world, tokens=table, read_only=False, now=lambda: NOW, timeout=10.0, log=silent)
    found = []
    for question in QUESTIONS:
        metadata = question.metadata | ({"auth": caller} if caller else {})
        answer = dispatcher.respond(encode_request(Request(question.verb, question.path, metadata)))
        found.append(encode_response(answer if isinstance(answer, Response) else await answer))
    return found


@settings(max_examples=60, deadline=None)
@given(worlds, tokens, callers)
def test_answers_are_those_of_a_world_of_readable_documents(
    planted: list[Planted], entries: list[tuple[list[str], list[str]]], caller: str
) -> None:
    table = table_of(entries)
    allowed = access(table, caller, NOW)
    with tempfile.TemporaryDirectory() as whole, tempfile.TemporaryDirectory() as part:
        everything = world_of(whole, planted)
        readable = world_of(part, [document for document in planted if allowed.may_read(document.path)])
        given_all = trio.run(answers, everything, table, caller)
        given_part = trio.run(answers, readable, table, caller)
        everything.close()
        readable.close()
    for question, one, other in zip(QUESTIONS, given_all, given_part, strict=True):
        assert one == other, question

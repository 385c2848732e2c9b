"""The client's search for a task, also with servers that do not know it (task §2)."""

import pytest

from app.client.client import Client
from app.protocol.message import Request, Response, encode_response, error_response, parse_request
from tests.unit.client.loopback import loopback

HOST = "127.0.0.1"
REFUSED = encode_response(error_response("bad-request", 'match must be "catalog" or "body", got "task"'))


async def asked(query: str, *answers: bytes) -> tuple[Response, list[Request]]:
    """What comes back from a server that gives these answers, and what it was asked."""
    left = list(answers)
    async with loopback(lambda _: left.pop(0)) as server, Client(HOST, server.port, insecure=True) as client:
        found = await client.task("/docs", query, filters="tag=x", limit=3)
        return found, [parse_request(data) for data in server.requests]


def request(query: str, match: str) -> Request:
    return Request("LOOKUP", "/docs", {"query": query, "filter": "tag=x", "limit": "3", "match": match})


async def test_a_server_that_knows_tasks_is_asked_once() -> None:
    answer = Response("ok", {"match": "task", "matches": "0"}, b"")
    found, requests = await asked("rotate a token", encode_response(answer))
    assert (found, requests) == (answer, [request("rotate a token", "task")])


async def test_one_that_does_not_is_asked_once_more() -> None:
    answer = Response("ok", {"match": "body", "matches": "0"}, b"")
    found, requests = await asked("rotate a token", REFUSED, encode_response(answer))
    assert found == answer
    assert requests == [request("rotate a token", "task"), request("rotate a token", "body")]
    found, requests = await asked("rotate a token", REFUSED, REFUSED)
    assert (found.status, len(requests)) == ("bad-request", 2)


@pytest.mark.parametrize("query", ["a b", "*", "?? !!", " ".join(f"word{number}" for number in range(33))])
async def test_what_other_modes_refuse_or_cannot_look_for_is_not_asked_again(query: str) -> None:
    found, requests = await asked(query, REFUSED)
    assert (found.status, len(requests)) == ("bad-request", 1)


async def test_other_errors_stay() -> None:
    found, requests = await asked(
        "rotate a token", encode_response(error_response("not-found", "/docs not found"))
    )
    assert (found.status, len(requests)) == ("not-found", 1)

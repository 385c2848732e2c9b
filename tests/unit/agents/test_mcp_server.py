"""What a line that is no message is answered with: an error, since nobody else answers it (JSON-RPC 2.0, §5.1)."""

import json

import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from app.agents.mcp_server import refusal

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


def answer(line: str) -> tuple[int, object] | None:
    """Code and id of what a line is answered with here."""
    item: SessionMessage | Exception
    try:
        item = SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except Exception as error:
        item = error
    refused = refusal(item)
    if refused is None:
        return None
    sent = json.loads(refused.model_dump_json(by_alias=True, exclude_unset=True))
    assert sent.keys() == {"jsonrpc", "id", "error"}
    return sent["error"]["code"], sent["id"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"jsonrpc":"2.0","id":1,"method":"ping"}', None),
        ('{"jsonrpc":"2.0","method":"notifications/initialized"}', None),
        ('{"jsonrpc":"2.0","id":7,"result":{}}', None),
        ("", None),
        (" \r\n", None),
        ('{"jsonrpc":"2.0","id":3,', (PARSE_ERROR, None)),
        ('\ufffd{"jsonrpc":"2.0","id":3,"method":"ping"}', (PARSE_ERROR, None)),
        ('{"jsonrpc":"2.0","id":4,"method":"\\ud800"}', (PARSE_ERROR, 4)),
        ('{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', (PARSE_ERROR, None)),
        ('{"jsonrpc":"2.0","id":"a","method":"ping","params":' + "[" * 300 + "]" * 300 + "}", (PARSE_ERROR, "a")),
        ('{"jsonrpc":"2.0","id":5,"method":"ping","params":' + "[" * 100_000 + "]" * 100_000 + "}", (PARSE_ERROR, None)),
        ('{"jsonrpc":"2.0","id":6,"method":"ping","params":{"x":' + "9" * 5_000 + "}}", (PARSE_ERROR, None)),
        ('{"jsonrpc":"2.0","id":8,"method":"ping","params":[1]}', (INVALID_REQUEST, 8)),
        ('{"id":9,"method":"ping"}', (INVALID_REQUEST, 9)),
        ('{"id":9,"result":[]}', (INVALID_REQUEST, None)),
        ('[{"jsonrpc":"2.0","id":10,"method":"ping"}]', (INVALID_REQUEST, None)),
        ("null", (INVALID_REQUEST, None)),
        ('{"jsonrpc":"2.0","id":null,"method":"ping"}', (INVALID_REQUEST, None)),
        ('{"jsonrpc":"2.0","id":true,"method":"ping"}', (INVALID_REQUEST, None)),
        ('{"jsonrpc":"2.0","id":1e999,"method":"ping"}', (INVALID_REQUEST, None)),
        ('{"jsonrpc":"2.0","method":"ping"}', (INVALID_REQUEST, None)),
    ],
)  # fmt: skip
def test_every_line_that_nobody_else_answers_gets_an_error(line: str, expected: object) -> None:
    assert answer(line) == expected


def test_any_other_failure_to_read_a_message_is_answered_too() -> None:
    refused = refusal(ValueError("unheard of"))
    assert refused is not None
    assert (refused.id, refused.error.code) == (None, INVALID_REQUEST)

"""The one protocol error and the answer it knows (wire §2.3, §3.5)."""

import pytest

from app.protocol.answer import Response, title_of
from app.protocol.fault import Fault, malformed, not_found, unreadable


@pytest.mark.parametrize(
    ("fault", "response"),
    [
        (malformed("why"), Response("bad-request", {}, b"\n# Bad request\n\nbad request\n")),
        (unreadable("why"), Response("server-error", {}, b"\n# Server error\n\ncould not read request\n")),
        (not_found("/a/../b"), Response("not-found", {}, b"\n# Not found\n\n/a/../b not found\n")),
        (
            Fault("archived", "/é.md is archived"),
            Response("archived", {}, "\n# Archived\n\n/é.md is archived\n".encode()),
        ),
    ],
)
def test_the_answer_of_a_fault(fault: Fault, response: Response) -> None:
    assert fault.response() == response


def test_the_detail_is_told_in_logs_only() -> None:
    fault = malformed("unknown verb")
    assert str(fault) == "bad-request: bad request (unknown verb)"
    assert b"unknown verb" not in fault.response().body
    assert str(Fault("conflict", "m")) == "conflict: m"


@pytest.mark.parametrize(
    ("status", "title"),
    [("not-found", "Not found"), ("ok", "Ok"), ("rate-limited", "Rate limited"), ("", "")],
)
def test_titles(status: str, title: str) -> None:
    assert title_of(status) == title

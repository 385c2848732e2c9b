"""The documents of `--json`: their fields are a promise, and help and manual show them all."""

import json

import pytest

from app.commands import shapes

# A field may be added here; none may go, be renamed or change its type.
PROMISED = {
    "fetch": "url status message path version current_version modified etag content_hash metadata body",
    "list": "url status message path entries name directory complete next_cursor",
    "versions": "url status message path current total chain_valid versions version modified",
    "lookup": "url status message scope query match matches rows path anchor importance title tags snippet",
    "task": "query scope mode matches truncated terms_ignored results path anchor title importance tags snippet match",
    "outline": "url status message path version bytes headings level text anchor bytes",
    "map": "scope documents sections folders path title documents important path title importance tags",
    "write": "url status message path version modified server_version",
    "tokens": "tokens label paths operations expires",
    "verify": "root sound faults documents versions plain unfinished",
    "fingerprint": "fingerprint certificate",
    "status": "version pid uptime address root folder tokens read_only documents sections index_bytes body_bytes connections watching "
    "reloaded reload_ok reload_text fingerprint certificate_expires clock_ok clock",
    "reload": "ok failed added replaced archived unarchived gone read_bytes milliseconds",
}


def test_fields() -> None:
    assert {
        name: " ".join(field for _, field, _, _ in shapes._fields(shape))
        for name, shape in shapes.SHAPES.items()
    } == PROMISED


@pytest.mark.parametrize("shape", shapes.SHAPES)
def test_help_and_manual_name_every_field_with_its_type_and_meaning(shape: str) -> None:
    page = shapes.page()
    for _, field, kind, text in shapes._fields(shapes.SHAPES[shape]):
        assert len(text) > 5
        assert f"`{field}` | {kind} | {text} |" in page
        assert field in shapes.describe(shape)


def test_what_is_absent_is_null_and_what_is_not_utf8_is_replaced() -> None:
    document = shapes.Fetch(url="mark://h/\udcff", status="ok", path="/\udcff", body="a\x1b\udc80")
    text = shapes.encode(document)
    assert text.endswith(b"\n")
    assert json.loads(text) == {
        "url": "mark://h/\ufffd",
        "status": "ok",
        "message": None,
        "path": "/\ufffd",
        "version": None,
        "current_version": None,
        "modified": None,
        "etag": None,
        "content_hash": None,
        "metadata": {},
        "body": "a\x1b\ufffd",
    }
    assert b"\x1b" not in text

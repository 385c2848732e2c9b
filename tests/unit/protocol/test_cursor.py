"""The LIST cursor: the contract's example, every fault of its table, and the way there and back (wire §5.2)."""

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.cursor import decode_cursor, encode_cursor
from app.protocol.fault import Fault
from app.protocol.limits import PATH_MAX


def unpadded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_the_contract_example() -> None:
    assert encode_cursor("/logs", False, "pump.md") == "AQAABS9sb2dzcHVtcC5tZA"
    assert decode_cursor("AQAABS9sb2dzcHVtcC5tZA", "/logs", False) == "pump.md"


EXCEEDS = "LIST cursor exceeds limit"
INVALID = "invalid LIST cursor"
UNSUPPORTED = "unsupported LIST cursor"
FOREIGN = "LIST cursor does not match this request"


@pytest.mark.parametrize(
    ("cursor", "message"),
    [
        (unpadded(b"\1\0\0\5/logs" + b"n" * (8178 - 8)), EXCEEDS),
        ("!" * 20_000, EXCEEDS),
        ("", INVALID),
        ("AQ", INVALID),
        ("AQAABS9sb2dzcHVtcC5tZA==", INVALID),
        ("AQAABS9sb2dzcHVtcC5tZ", INVALID),
        ("AQAABS9sb2dz cHVtcC5tZA", INVALID),
        ("AQAABS9sb2dzcHVtcC5tZA\n", INVALID),
        ("AQAABS9sb2dzcHVtcC5t+/", INVALID),
        ("ÄQAABS9sb2dzcHVtcC5tZA", INVALID),
        (unpadded(b"\1\0\0"), INVALID),
        (unpadded(b"\1\0\0\5"), INVALID),
        (unpadded(b"\1\0\0\0pump.md"), INVALID),
        (unpadded(b"\1\0\0\5/logs"), INVALID),
        (unpadded(b"\1\0\0\x06/logs"), INVALID),
        (unpadded(b"\1\0\xff\xff/logspump.md"), INVALID),
        (unpadded(b"\0\0\0\5/logspump.md"), UNSUPPORTED),
        (unpadded(b"\2\0\0\5/logspump.md"), UNSUPPORTED),
        (unpadded(b"\1\2\0\5/logspump.md"), UNSUPPORTED),
        (unpadded(b"\1\x80\0\5/logspump.md"), UNSUPPORTED),
        (unpadded(b"\1\1\0\5/logspump.md"), FOREIGN),
        (unpadded(b"\1\0\0\4/logpump.md"), FOREIGN),
        (unpadded(b"\1\0\0\1/pump.md"), FOREIGN),
    ],
)
def test_faults(cursor: str, message: str) -> None:
    with pytest.raises(Fault) as caught:
        decode_cursor(cursor, "/logs", False)
    assert (caught.value.status, caught.value.message) == ("bad-request", message)


def test_the_longest_cursor() -> None:
    path, last = "/" + "d" * (PATH_MAX - 1), "n" * PATH_MAX
    cursor = encode_cursor(path, True, last)
    assert decode_cursor(cursor, path, True) == last
    with pytest.raises(Fault, match=EXCEEDS):
        decode_cursor(encode_cursor(path, True, last + "n"), path, True)


names = st.binary(min_size=1, max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))


@settings(max_examples=100, deadline=None)
@given(names, st.booleans(), names)
def test_what_is_written_is_read_back(path: str, archived: bool, last: str) -> None:
    cursor = encode_cursor("/" + path, archived, last)
    assert decode_cursor(cursor, "/" + path, archived) == last
    with pytest.raises(Fault, match=FOREIGN):
        decode_cursor(cursor, "/" + path, not archived)


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=30) | st.binary(max_size=30).map(unpadded))
def test_any_text_gives_a_name_or_a_fault(cursor: str) -> None:
    try:
        message, last = "", decode_cursor(cursor, "/logs", False)
    except Fault as fault:
        message, last = fault.message, ""
    assert last or message in {EXCEEDS, INVALID, UNSUPPORTED, FOREIGN}

"""Where links lead."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.agents.linking import LINK, Link, document, leading_to, links
from app.protocol.addresses import Address, parse_address

HERE = parse_address("mark://board/docs/pump.md")


def targets(body: str, where: Address = HERE) -> list[str]:
    return [link.text for link in links(where, {}, body.encode())]


@pytest.mark.parametrize(
    ("target", "place"),
    [
        ("seal.md", "mark://board/docs/seal.md"),
        ("./seal.md#rubber", "mark://board/docs/seal.md#rubber"),
        ("../index.md", "mark://board/index.md"),
        ("../../../x.md", "mark://board/x.md"),
        ("/a/b.md", "mark://board/a/b.md"),
        ("#top", "mark://board/docs/pump.md#top"),
        ("sub/", "mark://board/docs/sub"),
        ("a%20b.md", "mark://board/docs/a%20b.md"),
        ("<a b.md>", "mark://board/docs/a%20b.md"),
        ("a.md?x=1", "mark://board/docs/a.md"),
        ("mark://other:7000/x.md#y", "mark://other:7000/x.md#y"),
        ("https://x.y/z.md", "https://x.y/z.md"),
        ("mailto:a@b", "mailto:a@b"),
        ("//x/y.md", "//x/y.md"),
        ("mark:///broken", "mark:///broken"),
    ],
)
def test_a_link_leads_where_a_browser_would_go(target: str, place: str) -> None:
    assert targets(f"see [it]({target})\n") == [place]


def test_links_are_those_of_the_text_and_those_that_were_declared() -> None:
    body = b"[a](a.md) ![no](no.png) <https://x.y> [b][1] [a](a.md)\n\n```\n[no](no.md)\n```\n\n[1]: b.md\n"
    found = links(HERE, {"rel-needs": "a.md, /c.md", "title": "x", "rel-by": "mark://o/x.md"}, body)
    assert [(one.relation, one.text) for one in found] == [
        ("by", "mark://o/x.md"),
        ("needs", "mark://board/docs/a.md"),
        ("needs", "mark://board/c.md"),
        (LINK, "mark://board/docs/a.md"),
        (LINK, "https://x.y"),
        (LINK, "mark://board/docs/b.md"),
    ]
    assert found[4].address is None


def test_a_version_links_as_its_document_does() -> None:
    where = parse_address("mark://board/docs/pump.md/v3")
    assert targets("[a](a.md) [self](#x)", where) == ["mark://board/docs/a.md", "mark://board/docs/pump.md#x"]
    assert document(where) == HERE
    assert document(parse_address("mark://board//docs/./pump.md#x")) == HERE


def test_a_document_is_led_to_by_its_sections_and_versions_too() -> None:
    found = links(
        Address("board", path="/x.md"),
        {},
        b"[1](docs/pump.md#a) [2](docs/pump.md/v2) [3](docs/pump) [4](https://p)",
    )
    assert [one.text for one in leading_to(found, HERE)] == [
        "mark://board/docs/pump.md#a",
        "mark://board/docs/pump.md/v2",
    ]


@given(st.text(max_size=80), st.text(max_size=200))
def test_no_document_breaks_it(value: str, body: str) -> None:
    for link in links(HERE, {"rel-x": value}, body.encode("utf-8", "surrogatepass")):
        assert isinstance(link, Link)
        if link.address is not None:
            assert parse_address(str(link.address)) == link.address


def test_a_hostile_document_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        started = time.perf_counter()
        links(HERE, {}, b"# h\n[a](b)\n" * size)
        return time.perf_counter() - started

    seconds(2_000)
    assert seconds(20_000) < 10 * max(seconds(5_000), 0.02)

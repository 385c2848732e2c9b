"""Documents cut into sections for the index (lookup §7.7, task §3)."""

from hypothesis import given, settings

from app.markdown.outline import outline
from app.markdown.sections import sections
from app.markdown.strip import own_text, wide_words
from tests.unit.markdown.documents import BODIES


def test_sections_carry_what_the_index_needs() -> None:
    body = (
        b"Intro `zero`.\n\n# A _one_\n\n`two\n three` and <http://four.example>\n\n"
        b"## B\n\n```sh\nfive  six\n```\n\n    seven\n\n# C\n"
    )
    intro, a, b, c = sections(body)
    assert (intro.level, intro.heading, intro.anchor, intro.trail, intro.own_text) == (
        0,
        "",
        "",
        (),
        "Intro zero.",
    )
    assert (intro.start, intro.own_start, intro.own_end, intro.end) == (0, 0, 15, 15)
    assert (a.heading, a.anchor, a.trail, a.own_text) == ("A one", "a-one", ("A one",), "two\nthree and")
    assert (b.trail, b.own_text) == (("A one", "B"), "five six\nseven")
    assert (c.trail, c.own_text) == (("C",), "")
    assert [section.codes for section in (intro, a, b, c)] == [
        ("zero",),
        ("two three",),
        ("five six", "seven"),
        (),
    ]
    assert [section.wide for section in (intro, a, b, c)] == ["", "http://four.example", "", ""]
    assert [section.after for section in (intro, a, b, c)] == [1, 3, 3, 4]
    assert [body[section.start : section.end] for section in (a, b, c)] == [
        body[15:-4],
        body[b.start : -4],
        b"# C\n",
    ]


def test_code_of_a_heading_is_not_its_sections() -> None:
    (section,) = sections(b"# A `b`\n\nc\n")
    assert section.codes == ()


def test_a_subtree_ends_at_a_heading_that_is_no_section() -> None:
    found = sections(b"# A\n\n## B\n\n# ![](x)\n\n## D\n")
    assert [(section.heading, section.trail, section.after) for section in found] == [
        ("A", ("A",), 2),
        ("B", ("A", "B"), 2),
        ("D", ("", "D"), 3),
    ]


def test_two_sections_may_have_an_empty_anchor() -> None:
    assert [section.anchor for section in sections(b"text\n\n# !!!\n\nmore\n")] == ["", ""]


def test_nothing_gives_no_section() -> None:
    assert sections(b"") == sections(b"\n```\n```\n---\n") == []


@settings(max_examples=200, deadline=None)
@given(BODIES)
def test_sections_of_any_body(body: bytes) -> None:
    found = sections(body)
    headings = {heading.start: heading for heading in outline(body)}
    at = 0
    for number, section in enumerate(found):
        assert at <= section.start <= section.own_start <= section.own_end <= section.end <= len(body)
        at = section.own_end
        assert own_text(body[section.own_start : section.own_end]) == section.own_text
        assert wide_words(body[section.own_start : section.own_end]) == section.wide
        assert section.own_text or section.heading
        assert number < section.after <= len(found)
        assert all(other.start < section.end for other in found[number + 1 : section.after])
        assert all(other.start >= section.end for other in found[section.after :])
        if section.level:
            heading = headings[section.start]
            assert (heading.text, heading.anchor, heading.end) == (
                section.heading,
                section.anchor,
                section.end,
            )
            assert section.trail[-1] == section.heading
            assert len(section.trail) <= 6
        else:
            assert number == 0
    assert sum(bool(heading.text) for heading in headings.values()) <= len(found)

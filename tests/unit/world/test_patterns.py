"""Path patterns: wire §7.2 case by case, against a slow matcher that tries everything, and on hostile paths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world import patterns as module
from app.world.patterns import BadPattern, Patterns


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("/**", ["/", "/a", "/a/b", "//", "/a\nb/\udcff"], ["", "a"]),
        ("/docs/**", ["/docs/", "/docs/a/b", "/docs//"], ["/docs", "/docsx/a", "/a/docs/b", "docs/a"]),
        ("/*", ["/", "/a", "/.a", "/\udcff"], ["/a/b", "/a/", "a"]),
        ("/*/", ["//", "/a/"], ["/", "/a", "/a/b"]),
        ("/docs/*.md", ["/docs/a.md", "/docs/.md"], ["/docs/a/b.md", "/docs/a.mdx", "/docs/amd"]),
        ("/d*s/**", ["/docs/a", "/ds/"], ["/docs", "/d/s/a", "/docsx/a"]),
        ("/*a*b*c", ["/abc", "/xaxbxcabc", "/aabbcc"], ["/ab", "/abcx", "/a/bc"]),
        ("/a?c", ["/abc", "/aéc", "/a\U0001f600c", "/a\udcffc"], ["/ac", "/a/c", "/abbc"]),
        ("/**/x.md", ["/x.md", "/a/x.md", "/a/b/x.md", "//x.md"], ["/xx.md", "/a/xx.md", "/x.md/", "x.md"]),
        ("/a/**/b*/c", ["/a/b/c", "/a/x/y/bz/c", "/a/b/c/b/c"], ["/a/c", "/ab/c", "/a/b/x/c", "/x/a/b/c"]),
        ("/a/**/", ["/a/", "/a/b/"], ["/a", "/a/b"]),
        ("/[a-c]x", ["/ax", "/cx"], ["/dx", "/x", "/Ax"]),
        ("/[^a-c]x", ["/dx", "/éx", "//x"], ["/ax", "/x"]),
        ("/[a-cx-z_]", ["/b", "/y", "/_"], ["/d", "/-"]),
        (r"/[\]\-\\\^]", ["/]", "/-", "/\\", "/^"], ["/a"]),
        ("/[x^]", ["/x", "/^"], ["/y"]),
        ("/[z-a]", [], ["/z", "/a", "/-"]),
        ("/[^z-a]", ["/z", "/\n"], ["/", "/zz"]),
        (r"/[!-\-]", ["/!", "/-", "/,"], ["/.", "/a"]),
        ("/[[&&~|#]", ["/[", "/&", "/~", "/|", "/#"], ["/]", "/a"]),
        ("/[α-ω]", ["/β"], ["/b"]),
        ("/a[.-0]b", ["/a/b", "/a.b"], ["/a1b"]),
        (r"/\*\?\[\a\\", ["/*?[a\\"], ["/a"]),
        ("/a]b}-{", ["/a]b}-{"], []),
        ("/a.b+(c)|$^", ["/a.b+(c)|$^"], ["/axb+(c)|$^", "/a.bb(c)"]),
        ("/a b", ["/a b"], ["/ab"]),
        ("docs/*", ["docs/a"], ["/docs/a"]),
        ("", [""], ["/"]),
    ],
)
def test_pattern(pattern: str, matching: list[str], other: list[str]) -> None:
    patterns = Patterns([pattern])
    assert [path for path in matching + other if patterns.matches(path)] == matching


def test_a_star_takes_the_leftmost_place_and_stays_there() -> None:
    """As in Go: a class that matches a slash could be met further on, but is not looked for there."""
    assert not Patterns(["/*[^x]*b"]).matches("/aa/b")
    assert Patterns(["/*[^x]*b"]).matches("//b")


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("/**/a/**", "only one ** is possible"),
        ("/***", "only one ** is possible"),
        ("/****", "only one ** is possible"),
        ("**", "** must stand as /** at the end or as /**/ inside"),
        ("/a**", "** must stand as /** at the end or as /**/ inside"),
        ("/**a", "** must stand as /** at the end or as /**/ inside"),
        ("/a/**b/c", "** must stand as /** at the end or as /**/ inside"),
        (r"/\**", "** must stand as /** at the end or as /**/ inside"),
        ("/[**]", "** must stand as /** at the end or as /**/ inside"),
        ("/[/**/]", "the bracket is not closed"),
        ("/a\\", "nothing follows the backslash"),
        ("/**/a\\", "nothing follows the backslash"),
        ("/[", "the bracket is not closed"),
        ("/[^", "the bracket is not closed"),
        ("/[a", "the bracket is not closed"),
        ("/[a-", "the bracket is not closed"),
        ("/[a-b", "the bracket is not closed"),
        ("/[\\", "the bracket is not closed"),
        (r"/[\]", "the bracket is not closed"),
        ("/[]", "a ] in brackets needs a backslash"),
        ("/[]a]", "a ] in brackets needs a backslash"),
        ("/[^]a]", "a ] in brackets needs a backslash"),
        ("/[a-]", "a ] in brackets needs a backslash"),
        ("/[-a]", "a - in brackets needs a backslash"),
        ("/[a-b-c]", "a - in brackets needs a backslash"),
        ("/[---]", "a - in brackets needs a backslash"),
    ],
)
def test_bad_pattern(pattern: str, fault: str) -> None:
    with pytest.raises(BadPattern) as caught:
        Patterns(["/good", pattern])
    assert str(caught.value) == f'bad pattern "{pattern}": {fault}'


def test_a_set_matches_what_any_of_its_patterns_matches() -> None:
    patterns = Patterns(["/a*b", "/a*c", "/x/**", "/x/**"])
    assert [path for path in ("/ab", "/ac", "/ad", "/x/y", "/x") if patterns.matches(path)] == [
        "/ab",
        "/ac",
        "/x/y",
    ]
    assert patterns.patterns == ("/a*b", "/a*c", "/x/**")
    assert not Patterns().matches("/")
    assert not Patterns().covers("/")


@pytest.mark.parametrize(
    ("pattern", "covered", "other"),
    [
        ("/docs/**", ["/docs", "/docs/", "/docs/a"], ["/doc", "/docsx"]),
        ("/docs", ["/docs"], ["/docs/", "/docs/a"]),
        ("/docs/", ["/docs", "/docs/"], ["/docs/a"]),
        ("/**", ["/", "/a"], []),
        ("//", [], ["/"]),
    ],
)
def test_a_directory_is_covered_with_or_without_its_slash(
    pattern: str, covered: list[str], other: list[str]
) -> None:
    patterns = Patterns([pattern])
    for _ in range(2):  # the second time from memory
        assert [path for path in covered + other if patterns.covers(path)] == covered


def test_remembered_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CACHE_MAX", 10)
    patterns = Patterns(["/a/**"])
    for number in range(100):
        assert patterns.covers(f"/a/{number}")
        assert not patterns.covers(f"/b/{number}" + "x" * 5000)
    assert 0 < len(patterns._covered) <= 10
    assert max(map(len, patterns._covered)) < 300


# --- Against everything that could match.

PIECES = st.sampled_from(["a", "b", "/", "/", "*", "?", "[ab]", "[^a/]", r"\a", r"\*", "é"])
PATHS = st.text(st.sampled_from("abé*//"), max_size=12).map(lambda tail: "/" + tail)


def pieces(pattern: list[str], path: str) -> bool:
    """Whether the pieces of a glob match the path, by trying every length for a star."""
    if not pattern:
        return not path
    piece, rest = pattern[0], pattern[1:]
    if piece == "*":
        run = len(path) - len(path.lstrip("abé*"))
        return any(pieces(rest, path[length:]) for length in range(run + 1))
    single = {"?": "abé*", "[ab]": "ab", "[^a/]": "bé*", r"\a": "a", r"\*": "*"}.get(piece, piece)
    return bool(path) and path[0] in single and pieces(rest, path[1:])


def without_double_stars(glob: list[str]) -> list[str]:
    return [
        piece for at, piece in enumerate(glob) if piece != "*" or glob[at - 1 : at] not in (["*"], [r"\*"])
    ]


GLOBS = st.lists(PIECES, max_size=7).map(without_double_stars)


@settings(max_examples=400, deadline=None)
@given(GLOBS, PATHS)
def test_globs_match_what_they_could_match(glob: list[str], path: str) -> None:
    glob = ["/", *glob]
    assert Patterns(["".join(glob)]).matches(path) == pieces(glob, path)


@settings(max_examples=400, deadline=None)
@given(GLOBS, GLOBS, st.booleans(), PATHS)
def test_double_stars_match_what_they_could_match(
    prefix: list[str], suffix: list[str], trailing: bool, path: str
) -> None:
    prefix = ["/", *prefix, "/"]
    ends = [at + 1 for at, char in enumerate(path) if char == "/"]
    starts = [end for end in ends if pieces(prefix, path[:end])]
    if trailing:
        pattern, expected = [*prefix, "**"], bool(starts)
    else:
        pattern = [*prefix, "**", "/", *suffix]
        expected = any(pieces(suffix, path[end:]) for start in starts for end in ends if end >= start)
    assert Patterns(["".join(pattern)]).matches(path) == expected


@settings(deadline=None)
@given(st.text(st.sampled_from("/*[]^-\\a?é"), max_size=12))
def test_any_pattern_is_read_or_refused(pattern: str) -> None:
    try:
        verdict = Patterns([pattern]).matches("/a")
    except BadPattern as error:
        assert pattern in str(error)  # noqa: PT017
    else:
        assert verdict in (True, False)


STARS = "/" + "*a" * 30 + "*b"


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (STARS, "/" + "a" * 4086),
        (STARS.replace("*", "*?"), "/" + "a" * 4086),
        (STARS.replace("a", "[^/x]"), "/" + "a" * 4086),
        (STARS.replace("a", "[^x]"), "/a" * 2043),
        (STARS + "/**", "/" + "a" * 4086),
        ("/**" + STARS, "/" + "a" * 4086),
        ("/**" + STARS, "/a" * 2043),
        ("/**/" + "*/" * 30 + "b", "/a" * 2043),
        ("/*[^x]/**/*[^x]/*b", "/a" * 2043),
    ],
)
def test_hostile_paths_do_not_make_it_backtrack(pattern: str, path: str) -> None:
    """Where each star is retried for each other, this does not end."""
    assert not Patterns([pattern]).matches(path)

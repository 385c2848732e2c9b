"""The token file read strictly (operations §6) and what its table decides (wire §7)."""

import hashlib
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.world.tokens import MANIFEST, BadTokenFile, TokenTable, access, hash_of_token

EXAMPLE = "7f3a9c0e5d2b48116c8e4fa09b7d5321e6f0a4c8d2b19375604f8eab13c7d9e2"
NOW = 1_777_593_600.0  # 2026-05-01T00:00:00Z


def entry(label: str, paths: Iterable[str], operations: Iterable[str], more: str = "") -> str:
    """The entry of a token whose raw form is its label."""
    digest = hashlib.sha256(label.encode()).hexdigest()
    return f'[tokens.{label}]\nhash = "sha256-{digest}"\npaths = {list(paths)}\noperations = {list(operations)}\n{more}\n'


def table(*entries: str) -> TokenTable:
    return TokenTable.parse("".join(entries).encode())


def test_the_hash_of_a_token() -> None:
    assert hash_of_token(EXAMPLE) == "sha256-f6b64b55ebedf7796bd3d6aab0f4fbe9f1d9910f67e44ae661ba53873c7d2282"


# --- Reading the file.


def test_the_example_of_the_contract() -> None:
    found = TokenTable.parse(
        b'\xef\xbb\xbf# comment\r\n[tokens.bench]\r\nhash = "sha256-f6b64b55ebedf7796bd3d6aab0f4fbe9f1d9910f67e44ae661ba53873c7d2282"\r\n'
        b'paths = ["/logs/**"]\noperations = ["read", "publish"]\nexpires = "2026-12-31T23:59:59Z"\n'
    )
    token = found.find(EXAMPLE)
    assert token is not None
    assert (token.label, token.paths, token.operations) == ("bench", ("/logs/**",), ("read", "publish"))
    assert (token.expires, token.expires_at) == ("2026-12-31T23:59:59Z", 1_798_761_599)
    assert found.warnings == ()
    assert found.find("other") is None


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "[tokens]\n", "tokens = {}\n"])
def test_an_empty_file_is_an_empty_table(text: str) -> None:
    found = table(text)
    assert found.tokens == ()
    assert access(found, None, NOW).may_read("/a.md")
    with pytest.raises(Fault, match="authentication required"):
        access(found, None, NOW).check_write("/a.md", "PUBLISH")


def test_field_names_in_any_case() -> None:
    found = table('[Tokens.a]\nHASH = "x"\nPaths = ["/a"]\nOperations = ["read"]\nEXPIRES = ""\n')
    assert [(token.label, token.hash, token.paths, token.expires_at) for token in found.tokens] == [
        ("a", "x", ("/a",), None)
    ]


def test_labels_may_be_quoted_and_lists_absent() -> None:
    found = table('[tokens."ops: night shift"]\nhash = "x"\n')
    assert [(token.label, token.paths, token.operations) for token in found.tokens] == [
        ("ops: night shift", (), ())
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            '[tokens.a]\nhash = "x"\n[tokens.b]\nhash = "x"\n',
            'tokens "a" and "b" have the same hash; remove one of them',
        ),
        (
            "[tokens.a]\npaths = []\n",
            'token "a": empty hash; write [tokens.LABEL] with hash = "sha256-..." below it',
        ),
        (
            '[tokens.a]\nhash = ""\n',
            'token "a": empty hash; write [tokens.LABEL] with hash = "sha256-..." below it',
        ),
        (
            '[tokens]\n"sha256-00" = { label = "a", paths = ["/**"], operations = ["read"] }\n',
            'token "sha256-00": empty hash; write [tokens.LABEL] with hash = "sha256-..." below it',
        ),
        ("[tokens.a]\nhash = 1\n", 'token "a": hash must be text in quotes: hash = "..."'),
        (
            '[tokens.a]\nhash = "x"\npaths = "/a"\n',
            'token "a": paths must be a list of texts: paths = ["...", "..."]',
        ),
        (
            '[tokens.a]\nhash = "x"\npaths = ["/a", 1]\n',
            'token "a": paths must be a list of texts: paths = ["...", "..."]',
        ),
        (
            '[tokens.a]\nhash = "x"\noperations = [["read"]]\n',
            'token "a": operations must be a list of texts: operations = ["...", "..."]',
        ),
        (
            '[tokens.a]\nhash = "x"\nexpires = 2026-12-31T23:59:59Z\n',
            'token "a": expires must be text in quotes: expires = "..."',
        ),
        (
            '[tokens.a]\nhash = "x"\nexpires = 2026-12-31\n',
            'token "a": expires must be text in quotes: expires = "..."',
        ),
        (
            '[tokens.a]\nhash = "x"\nexpires = "2026-12-31"\n',
            'token "a": bad expires "2026-12-31"; write it as "2026-12-31T23:59:59Z"',
        ),
        (
            '[tokens.a]\nhash = "x"\nexpires = " 2026-12-31T23:59:59Z"\n',
            'token "a": bad expires " 2026-12-31T23:59:59Z"; write it as "2026-12-31T23:59:59Z"',
        ),
        (
            '[tokens.a]\nhash = "x"\npaths = ["/a["]\n',
            'token "a": bad pattern "/a[": the bracket is not closed',
        ),
        (
            '[tokens.a]\nhash = "x"\npaths = ["/**/a/**"]\n',
            'token "a": bad pattern "/**/a/**": only one ** is possible',
        ),
        ('[tokens.a]\nhash = "x"\nHash = "y"\n', 'token "a": hash and Hash are the same field; keep hash'),
        (
            '[tokens.a]\nhash = "x"\n[Tokens.b]\nhash = "y"\n',
            "the file: tokens and Tokens are the same field; keep tokens",
        ),
        ("tokens = 1\n", "tokens is no table: write [tokens.LABEL] for each token"),
        ('[[tokens]]\nhash = "x"\n', "tokens is no table: write [tokens.LABEL] for each token"),
        (
            '[tokens]\na = "x"\n',
            'token "a" is no table: write [tokens.LABEL] with hash, paths and operations below it',
        ),
    ],
)
def test_refused(text: str, fault: str) -> None:
    with pytest.raises(BadTokenFile) as caught:
        table('[tokens.good]\nhash = "good"\n' if text.startswith("[tokens.") else "", text)
    assert str(caught.value) == fault


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (b'[tokens.a]\nhash = "x\n', "line 2"),
        (b"[tokens.a]\nhash == 1\n", "line 2"),
        (b"[tokens.a]\n[tokens.a]\n", "line 2"),
        (b"a = 1\n\nb = \xff\n", "line 3"),
        (b"a = " + b"9" * 5000, ""),
        (b"a = " + b"[" * 5000, ""),
        (b"\0", "line 1"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(text: bytes, place: str) -> None:
    with pytest.raises(BadTokenFile, match=f"^not .*{place}"):
        TokenTable.parse(text)


@settings(deadline=None)
@given(st.binary() | st.text(st.sampled_from('[]tokens.a="x\\n,hash')).map(str.encode))
def test_any_bytes_are_a_table_or_refused(text: bytes) -> None:
    try:
        found = TokenTable.parse(text).tokens
    except BadTokenFile as error:
        assert str(error)  # noqa: PT017
    else:
        assert all(token.hash for token in found)


def test_what_has_no_effect_is_named() -> None:
    found = table(
        'title = "x"\n[token.lost]\nhash = "y"\n',
        entry("a", ["/a"], ["read", "write"], 'expire = "2020-01-01T00:00:00Z"'),
        '[tokens.b]\nhash = "SHA256-00"\n',
    )
    assert found.warnings == (
        '"title" is ignored: tokens are written as [tokens.LABEL]',
        '"token" is ignored: tokens are written as [tokens.LABEL]',
        'token "a": field "expire" is ignored',
        'token "a": operation "write" is ignored; there are read and publish',
        'token "b": no token has this hash; it must be sha256- and 64 lower-case hex digits',
    )


# --- What the table decides.

WORLD = table(
    entry("reader", ["/private/**"], ["read"]),
    entry("writer", ["/private/**", "/open/*.md"], ["publish"]),
    entry("both", ["/private/notes/*", "/logs/*"], ["read", "publish"]),
    entry("old", ["/vault/**", "/private/**"], ["read", "publish"], 'expires = "2026-04-30T23:59:59.5Z"'),
    entry("soon", ["/open/**"], ["publish"], 'expires = "2026-05-01T00:00:00Z"'),
    entry("nothing", [], ["read", "publish"]),
)

ANYBODY: list[str | None] = [None, "", "unknown", "reader", "writer", "both", "old", "soon", "nothing"]


@pytest.mark.parametrize("raw", ANYBODY)
@pytest.mark.parametrize("path", ["/", "/open", "/open/a.md", "/privateer.md", "/logs/a/b.md", MANIFEST])
def test_unprotected_paths_are_for_anybody(raw: str | None, path: str) -> None:
    found = access(WORLD, raw, NOW)
    assert found.may_read(path)
    found.check_read(path)


@pytest.mark.parametrize(
    ("path", "readers"),
    [
        ("/private/a.md", {"reader"}),
        ("/private", {"reader"}),
        ("/private/", {"reader"}),
        ("/private/sub/", {"reader"}),
        ("/private/notes/a.md", {"reader", "both"}),
        ("/private/notes", {"reader", "both"}),
        ("/private/notes/sub/a.md", {"reader"}),
        ("/logs/a.md", {"both"}),
        ("/logs", {"both"}),
        ("/logs/a.md/", set()),
        ("/vault/a.md", set()),
    ],
)
def test_protected_paths(path: str, readers: set[str]) -> None:
    if path == "/logs/a.md/":  # one star does not go below, so this is nobody's and public
        readers = {str(raw) for raw in ANYBODY}
    assert {str(raw) for raw in ANYBODY if access(WORLD, raw, NOW).may_read(path)} == readers


@pytest.mark.parametrize(
    ("raw", "status", "message", "detail"),
    [
        (None, "unauthorized", "authentication required", "no token"),
        ("", "unauthorized", "authentication required", "no token"),
        ("unknown", "unauthorized", "authentication required", "unknown token"),
        ("old", "unauthorized", "authentication required", 'token "old" has expired'),
        ("writer", "not-permitted", "insufficient permissions", 'token "writer"'),
        ("both", "not-permitted", "insufficient permissions", 'token "both"'),
        ("nothing", "not-permitted", "insufficient permissions", 'token "nothing"'),
    ],
)
def test_a_refused_read(raw: str | None, status: str, message: str, detail: str) -> None:
    with pytest.raises(Fault) as caught:
        access(WORLD, raw, NOW).check_read("/private/a.md")
    assert (caught.value.status, caught.value.message, caught.value.detail) == (status, message, detail)


def test_the_manifest_is_readable_in_a_closed_world() -> None:
    closed = table(entry("reader", ["/**"], ["read"]))
    anonymous = access(closed, None, NOW)
    assert anonymous.may_read(MANIFEST)
    anonymous.check_read(MANIFEST)
    assert not any(
        map(anonymous.may_read, ["/", "/a.md", "/.well-known", "/.well-known/other.md", MANIFEST + "/"])
    )


@pytest.mark.parametrize(
    ("raw", "path", "outcome"),
    [
        ("writer", "/open/a.md", "writer"),
        ("writer", "/private/a.md", "writer"),
        ("both", "/logs/a.md", "both"),
        ("soon", "/open/a/b.md", "soon"),
        ("writer", "/open/a/b.md", "not-permitted: insufficient permissions"),
        ("writer", "/private", "not-permitted: insufficient permissions"),
        ("reader", "/private/a.md", "not-permitted: insufficient permissions"),
        ("nothing", "/open/a.md", "not-permitted: insufficient permissions"),
        ("old", "/vault/a.md", "unauthorized: authentication required"),
        ("unknown", "/open/a.md", "unauthorized: authentication required"),
        ("", "/open/a.md", "unauthorized: authentication required"),
        (None, "/open/a.md", "unauthorized: authentication required"),
    ],
)
@pytest.mark.parametrize("verb", ["PUBLISH", "APPEND", "ARCHIVE"])
def test_writes(raw: str | None, path: str, outcome: str, verb: str) -> None:
    try:
        found = access(WORLD, raw, NOW).check_write(path, verb)
    except Fault as fault:
        found = f"{fault.status}: {fault.message}"
    assert found == outcome


@pytest.mark.parametrize(
    ("verb", "doing"), [("PUBLISH", "publishing"), ("APPEND", "appending"), ("ARCHIVE", "archiving")]
)
def test_without_a_token_file_all_may_read_and_none_write(verb: str, doing: str) -> None:
    found = access(None, "writer", NOW)
    assert found.may_read("/private/a.md")
    found.check_read("/private/a.md")
    with pytest.raises(Fault) as caught:
        found.check_write("/a.md", verb)
    assert (caught.value.status, caught.value.message) == (
        "not-permitted",
        f"{doing} requires auth configuration",
    )


@pytest.mark.parametrize(("later", "status"), [(0.0, "soon"), (0.001, "unauthorized")])
def test_a_token_holds_to_the_end_of_its_last_moment(later: float, status: str) -> None:
    try:
        found = access(WORLD, "soon", NOW + later).check_write("/open/a.md", "PUBLISH")
    except Fault as fault:
        found = fault.status
    assert found == status


# --- Whole directories.


@pytest.mark.parametrize(
    ("directory", "readers"),
    [
        ("/private", {"reader", "both"}),
        ("/private/sub", {"reader"}),
        ("/private/notes", {"reader", "both"}),
        ("/vault", set()),
        ("/vault/a/b", set()),
        ("/logs", {str(raw) for raw in ANYBODY}),
        ("/", {str(raw) for raw in ANYBODY}),
    ],
)
def test_what_patterns_say_of_all_below_a_directory(directory: str, readers: set[str]) -> None:
    assert {str(raw) for raw in ANYBODY if access(WORLD, raw, NOW).may_read_below(directory)} == readers


def test_the_manifest_lies_below_a_closed_directory() -> None:
    anonymous = access(table(entry("reader", ["/**"], ["read"])), None, NOW)
    assert anonymous.may_read_below("/")
    assert anonymous.may_read_below("/.well-known")
    assert not anonymous.may_read_below("/.well-known/demarkus")
    assert not anonymous.may_read_below("/a")


GLOBS = st.lists(
    st.lists(st.sampled_from(["/", "/", "a", "b", "*", "?", "[ab]", "[^b]", r"\a"]), max_size=6).flatmap(
        lambda parts: st.sampled_from(
            ["/" + "".join(parts), "/" + "".join(parts) + "/**", "/**/" + "".join(parts)]
        )
    ),
    max_size=3,
)
SEGMENTS = st.lists(st.sampled_from(["a", "b", "ab", "a*", "é"]), min_size=1, max_size=3).map("/".join)


@settings(deadline=None, max_examples=300)
@given(GLOBS, GLOBS, SEGMENTS, st.lists(SEGMENTS, max_size=6))
def test_where_nothing_below_may_be_read_nothing_can(
    protected: list[str], granted: list[str], directory: str, below: list[str]
) -> None:
    try:
        made = table(entry("other", protected, ["read"]), entry("mine", granted, ["read"]))
    except BadTokenFile:
        return
    for raw in (None, "mine"):
        found = access(made, raw, NOW)
        if not found.may_read_below(f"/{directory}"):
            assert not any(found.may_read(f"/{directory}/{path}") for path in below)
            assert not found.may_read(f"/{directory}/")


# --- The key.

GRANTS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["/**", "/a", "/a/**", "/*", "/b/*"]), max_size=2),
        st.lists(st.sampled_from(["read", "publish"]), max_size=2),
        st.sampled_from(["", 'expires = "2020-01-01T00:00:00Z"']),
    ),
    max_size=3,
)
PATHS = ["/", "/a", "/a/", "/a/x", "/b", "/b/y", "/b/y/z", "/c", MANIFEST]


@settings(deadline=None)
@given(GRANTS, GRANTS)
def test_equal_keys_read_the_same_paths(
    first: list[tuple[list[str], list[str], str]], second: list[tuple[list[str], list[str], str]]
) -> None:
    """Also across tables, so that a reload that changes nothing keeps what is known under a key."""
    seen: dict[object, list[bool]] = {}
    for grants in (first, second):
        made = table(*(entry(f"t{number}", *grant) for number, grant in enumerate(grants)))
        for raw in (None, "t0", "t1", "t2"):
            found = access(made, raw, NOW)
            readable = [found.may_read(path) for path in PATHS]
            assert seen.setdefault(found.key, readable) == readable
    everything = [True] * len(PATHS)
    assert seen.get(access(None, None, NOW).key, everything) == everything


def test_tokens_with_the_same_grants_have_the_same_key() -> None:
    made = table(entry("a", ["/x/**", "/y"], ["read"]), entry("b", ["/y", "/x/**"], ["publish", "read"]))
    assert access(made, "a", NOW).key == access(made, "b", NOW).key != access(made, None, NOW).key
    assert hash(access(made, "a", NOW).key) == hash(access(made, "b", NOW).key)

"""Reading and writing metadata blocks: every row of the decoding table, hostile YAML, the way there and back (wire §2.4)."""

import tracemalloc

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.fault import Fault
from app.protocol.limits import BLOCK_MAX
from app.protocol.metadata import compare, decode_block, encode_block, natural_key

ACCEPTED: list[tuple[str, dict[str, str]]] = [
    # Every scalar is its source text.
    ("a: 1", {"a": "1"}),
    ("a: true", {"a": "true"}),
    ("a: 1.50", {"a": "1.50"}),
    ("a: 2026-01-01", {"a": "2026-01-01"}),
    ("a: 0x1F", {"a": "0x1F"}),
    ("a: 1_000", {"a": "1_000"}),
    ("a: =", {"a": "="}),
    ("a: <<", {"a": "<<"}),
    ("a: x:y", {"a": "x:y"}),
    ("a: x#y", {"a": "x#y"}),
    ("a: b, c", {"a": "b, c"}),
    ('a: it\'s "so"', {"a": 'it\'s "so"'}),
    ("a: Übung 潮 😀", {"a": "Übung 潮 😀"}),
    ("a: x%y", {"a": "x%y"}),
    # Nulls.
    ("a:", {"a": ""}),
    ("a: ", {"a": ""}),
    ("a: null", {"a": ""}),
    ("a: Null", {"a": ""}),
    ("a: NULL", {"a": ""}),
    ("a: ~", {"a": ""}),
    ("a: ''", {"a": ""}),
    ('a: ""', {"a": ""}),
    ("a: nULL", {"a": "nULL"}),
    ("a: 'null'", {"a": "null"}),
    ('a: "~"', {"a": "~"}),
    ("a: !!str", {"a": ""}),
    ("a: !!str null", {"a": "null"}),
    ("a: !!null x", {"a": ""}),
    ("a: ! null", {"a": "null"}),
    ("{a, b: }", {"a": "", "b": ""}),
    # Quoted, literal, folded, flow.
    ("a: 'it''s'", {"a": "it's"}),
    (r'a: "\x41\u00e9\U0001F600\t\n\\\"\/\_\N\L\P\0"', {"a": 'A\xe9😀\t\n\\"/\xa0\x85\u2028\u2029\0'}),
    ('a: "x\\\n   y"', {"a": "xy"}),
    ('a: "x\n   y"', {"a": "x y"}),
    ("a: x\n   y", {"a": "x y"}),
    ("a: |\n  x\n  y\n", {"a": "x\ny\n"}),
    ("a: |-\n  x\n  y\n", {"a": "x\ny"}),
    ("a: |\n  x", {"a": "x"}),  # the last line end belongs to the closing fence
    ("a: >\n  x\n  y\nb: z", {"a": "x y\n", "b": "z"}),
    ("a: |2-\n   x", {"a": " x"}),
    ("{a: b, 'c': \"d\"}", {"a": "b", "c": "d"}),
    ("a:\tb", {"a": "b"}),
    ("a: b\t# c", {"a": "b"}),
    ("  a: b\n  c: d", {"a": "b", "c": "d"}),
    ("a: b\r\nc: d\re: f", {"a": "b", "c": "d", "e": "f"}),
    ("? a\n: b", {"a": "b"}),
    ("? |-\n  a\n  b\n: c", {"a\nb": "c"}),
    ("\ufeffa: b", {"a": "b"}),
    ("%YAML 1.2\n--- {a: b}", {"a": "b"}),
    # Aliases and merges.
    ("a: &x 1\nb: *x", {"a": "1", "b": "1"}),
    ("a: &x\nb: *x", {"a": "", "b": ""}),
    ("a: &x 1\nb: &x 2\nc: *x", {"a": "1", "b": "2", "c": "2"}),
    ("&k a: b\nc: *k", {"a": "b", "c": "a"}),
    ("a: &k c\n*k : d", {"a": "c", "c": "d"}),
    ("<<: {a: b}\nc: d", {"a": "b", "c": "d"}),
    ("a: 1\n<<: {a: 2, b: 2}", {"a": "1", "b": "2"}),
    ("<<: {a: 2, b: 2}\na: 1", {"a": "1", "b": "2"}),
    ("<<: [{a: 1}, {a: 2, b: 2}]", {"a": "1", "b": "2"}),
    ("<<: []", {}),
    ("<<: {<<: {a: 1, b: 1}, b: 2}", {"a": "1", "b": "2"}),
    ("~: &m {a: 1}\n<<: *m", {"a": "1"}),
    ("!!merge <<: {a: 1}", {"a": "1"}),
    ("'<<': a", {"<<": "a"}),
    # Tags and comments.
    ("a: !!str 1", {"a": "1"}),
    ("a: !!int 1", {"a": "1"}),
    ("a: !foo bar", {"a": "bar"}),
    ("a: !<x:y> bar", {"a": "bar"}),
    ("# c\na: b # d\n\n  # e", {"a": "b"}),
    ("a: !!binary aGk=", {"a": "hi"}),
    ("a: !!binary |\n  aG\n  k=\n", {"a": "hi"}),
    ("a: !!binary /w==", {"a": "\udcff"}),
    ("a: !!binary", {"a": ""}),
    ("!!binary aGk= : x", {"hi": "x"}),
    ("a: !<tag:yaml.org,2002:binary> aGk=", {"a": "hi"}),
    # Keys.
    ("1: x\ntrue: y\n1.50: z", {"1": "x", "true": "y", "1.50": "z"}),
    ("null: x\na: b", {"a": "b"}),
    ("~: x", {}),
    ("? \n: x", {}),
    ("!!null a: x", {}),
    ("null: [1]\na: b", {"a": "b"}),
    ("'null': x", {"null": "x"}),
    ("!!str null: x", {"null": "x"}),
    ("'': x", {"": "x"}),
    ("a b: x", {"a b": "x"}),
    # Nothing.
    ("", {}),
    ("\n", {}),
    ("null", {}),
    ("~", {}),
    ("# c", {}),
    ("{}", {}),
    # Only the first document counts.
    ("a: b\n--- {c: d}", {"a": "b"}),
    ("a: b\n--- {c: d", {"a": "b"}),
    ("a: b\n...\n@", {"a": "b"}),
    ("--- {a: b}\n--- [", {"a": "b"}),
]

REFUSED = [
    # duplicate keys
    "a: 1\na: 2",
    "a: 1\n'a': 1",
    "{a: 1, a: 2}",
    "1: x\n'1': y",
    "null: x\nnull: y",
    "a: &k b\n*k : c\nb: d",
    "<<: {a: 1}\n<<: {b: 1}",
    "<<: {a: 1, a: 2}",
    "a: !!str x\n!!binary YQ==: y",
    # values and top levels of the wrong kind
    "a: [1]",
    "a: {b: c}",
    "a:\n  b: c",
    "a:\n- b",
    "a: &x [1]",
    "<<: {a: [1]}",
    "- a",
    "[a]",
    "x",
    "''",
    "!!str",
    "42",
    "|\n  x",
    "[a]: b",
    "{a: b}: c",
    "? [a]\n: b",
    "<<: x",
    "<<:",
    "<<: [x]",
    "<<: [[{a: b}]]",
    # text that is not YAML
    "\ta: b",
    "a:\n\tb: c",
    "a: 'x",
    'a: "x',
    "a: b: c",
    "a: b\nc",
    "a: b\n c: d",
    "{a: b",
    "{a: b} c",
    "'a'\nb: c",
    "...",
    "a: @x",
    "a: `x",
    "a: %x",
    "%x: a",
    "a: *",
    "a: *nowhere",
    "a: &x *x",
    "a: &x {<<: *x}",
    "<<: &x [*x]",
    r'a: "\q"',
    r'a: "\ud800"',
    r'a: "\U00110000"',
    "a: !!binary @",
    "a: !!binary aGk",
    "a: !!binary a",
    "a: !!binary 'aG k='",
    "a: !h!x y",
    "a: !%FF x",
    "a: !%C0%80 x",
    "a: !<x%ED%A0%80> x",
    "%TAG !a! %F7%BF%BF%BF\n--- {a: b}",
    "%YAML 99999999999999.1\n--- {a: b}",
    "%YAML 2.0\n--- {a: b}",
    "a: &",
    "a: |9x\n  y",
]


@pytest.mark.parametrize(("block", "result"), ACCEPTED)
def test_accepted(block: str, result: dict[str, str]) -> None:
    assert decode_block(block.encode()) == result


@pytest.mark.parametrize("block", REFUSED)
def test_refused(block: str) -> None:
    with pytest.raises(Fault) as caught:
        decode_block(block.encode())
    assert (caught.value.status, caught.value.message) == ("bad-request", "bad request")
    assert caught.value.detail.startswith("metadata")


@pytest.mark.parametrize("byte", [*range(0x20), 0x7F])
def test_control_bytes(byte: int) -> None:
    for block in (b"a: x%cy", b"a: 'x%cy'", b"a: b # x%cy", b"a: b\n--- %c"):
        if byte in b"\t\n\r":
            continue
        with pytest.raises(Fault):
            decode_block(block % byte)


@pytest.mark.parametrize(
    "block",
    [
        b"\xff",
        b"a: \xff",
        b"a: b\n# \xc3",
        b"a: \xed\xa0\x80",
        b"\xff\xfea\x00:\x00 \x00b\x00",
        b"a: \xef\xbf\xbe",
    ],
)
def test_what_is_not_utf8_is_refused(block: bytes) -> None:
    with pytest.raises(Fault):
        decode_block(block)


def test_the_detail_names_the_line_and_quotes_nothing() -> None:
    with pytest.raises(Fault) as caught:
        decode_block(b"# c\nauth: {secret: 1}")
    assert caught.value.detail == "metadata line 2: a value that is not a text"
    with pytest.raises(Fault) as caught:
        decode_block(b"a: b\nauth: secret: x")
    assert caught.value.detail == "metadata: line 2: mapping values are not allowed in this context"


def nested_aliases(levels: int, width: int) -> str:
    maps = ["&a0 {x: y}"]
    maps += [f"&a{i} {{<<: [{','.join([f'*a{i - 1}'] * width)}]}}" for i in range(1, levels)]
    return f"~: [{', '.join(maps)}]\n<<: *a{levels - 1}"


BOMBS = [
    nested_aliases(9, 9),
    nested_aliases(40, 2),
    nested_aliases(2900, 1),
    "a: &a [x]\n" + "\n".join(f"b{i}: &b{i} [{','.join(['*a'] * 9)}]" for i in range(9)),
    "~: &a {" + ",".join(f"k{i}" for i in range(5000)) + "}\n<<: [" + ",".join(["*a"] * 9000) + "]",
    "~: [&e {}, &a {<<: [" + ",".join(["*e"] * 8000) + "]}]\n<<: [" + ",".join(["*a"] * 8000) + "]",
    "{a: " * 16_000,
    "[" * 65_000,
    "- " * 32_000,
    "? " * 32_000,
    "a: " * 20_000,
    "a: " + "[" * 90 + "&x [" * 200,
]


@pytest.mark.parametrize("block", BOMBS)
def test_bombs_do_not_go_off(block: str) -> None:
    assert len(block) <= BLOCK_MAX
    tracemalloc.start()
    try:
        with pytest.raises(Fault):
            decode_block(block.encode())
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_a_block_full_of_short_keys_is_no_bomb() -> None:
    keys = [chr(0x4E00 + i) for i in range(16_000)]
    assert len(decode_block(("{" + ",".join(keys) + "}").encode())) == 16_000
    keys = [f"{i:x}" for i in range(13_000)]
    assert len(decode_block(("{" + ",".join(keys) + "}").encode())) == 13_000


def test_writing() -> None:
    block = {
        "b": "1",
        "a": "x: y",
        "rel-10": "q",
        "rel-2": "p",
        "1": "",
        "null": "é",
        "": "e",
        "<<": "m",
        "a\nb": "c\nd",
    }
    assert encode_block(block).decode() == (
        '"": e\n"<<": m\n"1": ""\na: \'x: y\'\n? |-\n    a\n    b\n: |-\n    c\n    d\n'
        'b: "1"\n"null": é\nrel-2: p\nrel-10: q\n'
    )
    assert encode_block({}) == b""


def test_the_order_is_offered_here_too() -> None:
    assert sorted(["rel-10", "rel-2"], key=natural_key) == ["rel-2", "rel-10"]
    assert compare("rel-2", "rel-10") < 0


def test_keys_longer_than_readers_look_for_the_colon() -> None:
    for size in (127, 128, 129, 1023, 1024, 1025, 3000):
        block = {"k" * size: "v"}
        assert decode_block(encode_block(block)) == block
    assert encode_block({"k" * 1024: "v"}).startswith(b"k")


texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(
        [
            "null",
            "~",
            "<<",
            "yes",
            "1",
            "---",
            "...",
            "a: b",
            " a",
            "\n",
            "a\n",
            "x\n\ny",
            "\ufeff",
            "# c",
            "*a",
            "&a",
            "!!binary x",
        ]
    ),
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(texts, texts, max_size=6))
def test_what_is_written_is_read_back_here_and_by_others(block: dict[str, str]) -> None:
    written = encode_block(block)
    assert decode_block(written.removesuffix(b"\n")) == block
    assert decode_block(written) == block
    assert (yaml.load(written, yaml.CBaseLoader) or {}) == block
    assert b"\n---\n" not in b"---\n" + written[4:]


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.binary(max_size=8), st.binary(max_size=8), max_size=4))
def test_bytes_that_are_not_utf8_survive(raw: dict[bytes, bytes]) -> None:
    block = {
        key.decode("utf-8", "surrogateescape"): value.decode("utf-8", "surrogateescape")
        for key, value in raw.items()
    }
    assert decode_block(encode_block(block)) == block


tokens = st.sampled_from(
    ["a", "b: ", "a: ", "\n", " ", "  ", "- ", "? ", ": ", "{", "}", "[", "]", ", ", "&x ", "*x", "<<: ", "'", '"', "|\n", ">\n", "# ",
     "!!binary ", "!!null ", "!%C0%80 ", "!<", "%TAG !a! ", "~", "null", "1", "é", "--- ", "...\n", "\t", "\r", "%", "@", "a: b\n", "c: 'd'\n", 'e: "f"\n', "g: h i\n"]
)  # fmt: skip


def by_loader(text: str) -> dict[str, str] | None:
    """What PyYAML's own loader reads; None where its rules are known to differ or it refuses."""
    try:
        node = yaml.compose(text, yaml.CBaseLoader)
    except (yaml.YAMLError, UnicodeDecodeError):
        return None
    if not isinstance(node, yaml.MappingNode):
        return None
    pairs = [
        (key, value)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
    ]
    ordinary = all(
        scalar.value not in {"", "~", "null", "<<"} and "!!" not in text for pair in pairs for scalar in pair
    )
    keys = {key.value for key, _ in pairs}
    if not ordinary or len(keys) < len(node.value):
        return None
    return {key.value: value.value for key, value in pairs}


@settings(max_examples=400, deadline=None)
@given(st.lists(tokens, max_size=14).map("".join))
def test_any_text_gives_what_the_loader_reads_or_a_fault(text: str) -> None:
    expected = by_loader(text)
    try:
        result = decode_block(text.encode())
    except Fault:
        assert expected is None
    else:
        assert expected is None or result == expected
        assert all(isinstance(part, str) for pair in result.items() for part in pair)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_give_a_map_or_a_fault(block: bytes) -> None:
    try:
        status = "ok" if isinstance(decode_block(block), dict) else "?"
    except Fault as fault:
        status = fault.status
    assert status in {"ok", "bad-request"}


simple_values = st.text(st.sampled_from("ab 0:,/é²_.'\"-$#~<*&\u00a0"), max_size=8)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b1", "null", "a-b", "y"]), simple_values, st.sampled_from(["", "'", '"'])
        ),
        max_size=4,
    )
)
def test_the_short_way_agrees_with_yaml(lines: list[tuple[str, str, str]]) -> None:
    """A comment makes a block take the long way; nothing else changes."""
    text = "\n".join(f"{key}: {quote}{value}{quote}" for key, value, quote in lines)
    results = []
    for block in (text, text + "\n# c"):
        try:
            results.append(decode_block(block.encode()))
        except Fault:
            results.append({"": "refused"})
    assert results[0] == results[1]


def test_aliases_may_repeat_a_text_but_not_multiply_the_block() -> None:
    few = b"base: &b " + b"x" * 30_000 + b"\n" + b"".join(b"k%d: *b\n" % number for number in range(7))
    assert len(decode_block(few)) == 8
    with pytest.raises(Fault) as caught:
        decode_block(few + b"k7: *b\nk8: *b\n")
    assert (caught.value.status, caught.value.detail) == (
        "bad-request",
        "metadata: aliases repeat too much text",
    )

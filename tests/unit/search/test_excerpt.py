"""The line that a row of task mode shows (task §12.2)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.excerpt import excerpt, first_line
from app.search.wording import Unit

NOWHERE = Unit("joined", "nowhere at all")
FILL = "some more words that stand here for their length alone and say nothing. " * 5


def test_a_short_text_is_shown_whole_on_one_line() -> None:
    assert excerpt("one\ntwo", NOWHERE, []) == "one two"
    assert excerpt("", NOWHERE, [Unit("word", "x1")]) == ""


def test_the_phrase_is_shown_before_any_term() -> None:
    text = f"seal pump {FILL} the pump seal leaks {FILL}"
    shown = excerpt(text, Unit("joined", "pump seal"), [Unit("word", "seal"), Unit("word", "pump")])
    assert "the pump seal leaks" in shown
    assert shown.startswith("…")
    assert shown.endswith("…")


def test_most_terms_are_shown() -> None:
    text = f"pump {FILL} a pump with its seals and `net.core` {FILL}"
    terms = [Unit("word", "pump"), Unit("word", "seal"), Unit("literal", "net.core")]
    assert "pump with its seals and" in excerpt(text, NOWHERE, terms)


def test_without_a_hit_the_beginning() -> None:
    shown = excerpt(FILL, NOWHERE, [Unit("word", "absent")])
    assert FILL.startswith(shown.removesuffix("…"))
    assert first_line(f"{FILL}\nmore").startswith("some more words")


_texts = st.lists(
    st.sampled_from(["pump", "seal", "日本語" * 9, "é" * 90, "x" * 300, "a", "\n", "İΣ"]), max_size=60
)


@settings(max_examples=300, deadline=None)
@given(_texts.map(" ".join))
def test_at_most_240_bytes_that_stand_in_the_text(text: str) -> None:
    for shown in (excerpt(text, Unit("joined", "pump seal"), [Unit("word", "seal")]), first_line(text)):
        assert len(shown.encode()) <= 240
        assert "\n" not in shown
        assert shown.strip("…") in " ".join(text.split())

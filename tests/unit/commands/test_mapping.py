"""How `map` and `help` take their words: in any order with their options."""

import pytest

from app.commands.program import own_parser


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("map mark://a/ --insecure how can I", ["mark://a/", "how", "can", "I"]),
        ("map --insecure mark://a/ how", ["mark://a/", "how"]),
        ("map mark://a/ how --insecure can --json I", ["mark://a/", "how", "can", "I"]),
        ("map --root d /docs how", ["/docs", "how"]),
        ("map", []),
        ("help a --json b", ["a", "b"]),
    ],
)
def test_words_may_stand_around_options(line: str, words: list[str]) -> None:
    assert own_parser().parse_args(line.split()).words == words


def test_a_quoted_task_may_begin_with_a_hyphen() -> None:
    assert own_parser().parse_args(["help", "--json", "--force or --yes"]).words == ["--force or --yes"]


@pytest.mark.parametrize("line", ["map mark://a/ --nonsense how", "help --nonsense", "map mark://a/ --pin"])
def test_an_unknown_option_is_no_word(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        own_parser().parse_args(line.split())
    assert caught.value.code == 2
    assert "usage: demarkus-appliance" in capsys.readouterr().err

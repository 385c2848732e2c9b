"""Flags in Go's manner: every spelling, every fault."""

import pytest

from app.commands.goflags import BadFlag, Flag, HelpWanted, parse, usage

FLAGS = (
    Flag("n", "a number", "N"),
    Flag("name", "a text", "TEXT"),
    Flag("m", "pairs", "K=V", repeats=True),
    Flag("v", "switch"),
)


@pytest.mark.parametrize("line", [["-name", "x"], ["--name", "x"], ["-name=x"], ["--name=x"]])
def test_spellings(line: list[str]) -> None:
    assert parse(FLAGS, line).text("name") == "x"


def test_switches_repeats_and_arguments() -> None:
    given = parse(FLAGS, ["-v", "a", "-m", "k=v", "--m=l=w", "-n", "-", "-", "--", "-v", "b"])
    assert given.on("v")
    assert given.texts("m") == ["k=v", "l=w"]
    assert given.text("n") == "-"
    assert given.arguments == ["a", "-", "-v", "b"]
    assert "name" not in given
    assert given.text("name", "default") == "default"
    assert parse(FLAGS, ["-v=false"]).on("v") is False
    assert parse(FLAGS, ["-v=T"]).on("v") is True


def test_values_may_be_empty_or_look_like_flags() -> None:
    assert parse(FLAGS, ["-name", "-v"]).text("name") == "-v"
    assert parse(FLAGS, ["-name="]).text("name") == ""
    assert "name" in parse(FLAGS, ["-name="])


def test_numbers() -> None:
    assert parse(FLAGS, ["-n", "12"]).number("n") == 12
    assert parse(FLAGS, []).number("n") is None
    for bad in ("x", "-1", "", "１"):
        with pytest.raises(BadFlag, match="parse error"):
            parse(FLAGS, ["-n", bad]).number("n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["-x"], "flag provided but not defined: -x"),
        (["--no=1"], "flag provided but not defined: -no"),
        (["-name"], "flag needs an argument: -name"),
        (["---v"], "bad flag syntax: ---v"),
        (["-=v"], "bad flag syntax: -=v"),
        (["-v=maybe"], 'invalid boolean value "maybe" for -v: parse error'),
    ],
)
def test_faults(line: list[str], message: str) -> None:
    with pytest.raises(BadFlag) as caught:
        parse(FLAGS, line)
    assert str(caught.value) == message


@pytest.mark.parametrize("word", ["-h", "--h", "-help", "--help"])
def test_help(word: str) -> None:
    with pytest.raises(HelpWanted):
        parse(FLAGS, ["-v", word])


def test_usage_names_every_flag() -> None:
    text = usage("usage: x", FLAGS)
    assert text.startswith("usage: x\n")
    assert all(f"-{flag.name} {flag.value}".strip() in text for flag in FLAGS)

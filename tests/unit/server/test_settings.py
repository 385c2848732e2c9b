"""The settings table: names, defaults, precedence, strictness (operations §1), and the texts made from it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.server.settings import (
    TABLE,
    BadSetting,
    Settings,
    file_settings,
    flag_values,
    from_command_line,
    help_text,
    settings_from,
    settings_page,
)

# operations §1, by hand: variable, flag, default.
CONTRACT = [
    ("DEMARKUS_ROOT", "root", ""),
    ("DEMARKUS_PORT", "port", "6309"),
    ("DEMARKUS_TLS_CERT", "tls-cert", ""),
    ("DEMARKUS_TLS_KEY", "tls-key", ""),
    ("DEMARKUS_TOKENS", "tokens", ""),
    ("DEMARKUS_READ_ONLY", "read-only", "false"),
    ("DEMARKUS_MAX_STREAMS", "", "10"),
    ("DEMARKUS_MAX_WATCHES", "", "0"),
    ("DEMARKUS_IDLE_TIMEOUT", "", "30s"),
    ("DEMARKUS_REQUEST_TIMEOUT", "", "10s"),
    ("DEMARKUS_RATE_LIMIT", "", "50"),
    ("DEMARKUS_RATE_BURST", "", "100"),
    ("DEMARKUS_LOG_FORMAT", "", "text"),
    ("DEMARKUS_LOG_LEVEL", "", "info"),
    ("DEMARKUS_STORE", "store", "file"),
]


def made(environ: dict[str, str] | None = None, /, **flags: str) -> Settings:
    return settings_from({name.replace("_", "-"): text for name, text in flags.items()}, environ or {}, {})


@pytest.mark.parametrize(("variable", "flag", "default"), CONTRACT)
def test_every_setting_of_the_contract_is_a_row(variable: str, flag: str, default: str) -> None:
    (row,) = [row for row in TABLE if row.variable == variable]
    assert (row.flag, row.default) == (flag, default)


def test_rows_and_fields_are_the_same() -> None:
    assert {row.name for row in TABLE} | {"unknown"} == set(Settings.__struct_fields__)
    assert all(row.meaning and row.reason for row in TABLE)


def test_defaults() -> None:
    settings = made({"HOME": "/home/board"})
    assert settings == Settings(
        root="",
        port=6309,
        listen="",
        tls_cert="",
        tls_key="",
        tokens="",
        state_dir="/home/board/.local/state/demarkus-appliance",
        runtime_dir="/home/board/.local/state/demarkus-appliance/run",
        watch="auto",
        lookup_recall="wide",
        read_only=False,
        max_streams=10,
        max_watches=0,
        idle_timeout=30.0,
        request_timeout=10.0,
        rate_limit=50.0,
        rate_burst=100,
        log_format="text",
        log_level="info",
        store="file",
        debug=False,
    )


def test_a_flag_goes_before_the_environment_before_the_file_before_the_default() -> None:
    file = {"DEMARKUS_PORT": "3", "DEMARKUS_ROOT": "/file"}
    assert settings_from({}, {}, file).port == 3
    assert settings_from({}, {"DEMARKUS_PORT": "2"}, file).port == 2
    assert settings_from({"port": "1"}, {"DEMARKUS_PORT": "2"}, file).port == 1
    assert settings_from({"root": "/flag"}, {"DEMARKUS_ROOT": "/env"}, file).root == "/flag"


def test_an_empty_variable_is_unset_but_for_texts() -> None:
    settings = settings_from(
        {},
        {"DEMARKUS_PORT": "", "DEMARKUS_READ_ONLY": "", "DEMARKUS_IDLE_TIMEOUT": "", "DEMARKUS_ROOT": ""},
        {
            "DEMARKUS_PORT": "7",
            "DEMARKUS_READ_ONLY": "yes",
            "DEMARKUS_IDLE_TIMEOUT": "1s",
            "DEMARKUS_ROOT": "/file",
        },
    )
    assert (settings.port, settings.read_only, settings.idle_timeout, settings.root) == (7, True, 1.0, "")


def test_an_empty_or_zero_flag_is_unset() -> None:
    settings = made(
        {"DEMARKUS_ROOT": "/env", "DEMARKUS_PORT": "7", "DEMARKUS_READ_ONLY": "1"},
        root="",
        port="0",
        read_only="false",
    )
    assert (settings.root, settings.port, settings.read_only) == ("/env", 7, True)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DEMARKUS_PORT", "http"),
        ("DEMARKUS_PORT", "70000"),
        ("DEMARKUS_READ_ONLY", "on"),
        ("DEMARKUS_MAX_STREAMS", "0"),
        ("DEMARKUS_MAX_STREAMS", "ten"),
        ("DEMARKUS_MAX_WATCHES", "-1"),
        ("DEMARKUS_IDLE_TIMEOUT", "30"),
        ("DEMARKUS_IDLE_TIMEOUT", "-1s"),
        ("DEMARKUS_REQUEST_TIMEOUT", "soon"),
        ("DEMARKUS_RATE_LIMIT", "NaN"),
        ("DEMARKUS_RATE_LIMIT", "Inf"),
        ("DEMARKUS_RATE_LIMIT", "-5"),
        ("DEMARKUS_RATE_BURST", "-1"),
        ("DEMARKUS_RATE_BURST", "0"),
        ("DEMARKUS_STORE", "postgres"),
        ("DEMARKUS_STORE", ""),
        ("DEMARKUS_LISTEN", "localhost"),
        ("DEMARKUS_TLS_CERT", "/c.pem"),
        ("DEMARKUS_TLS_KEY", "/k.pem"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(BadSetting, match=variable) as caught:
        made({variable: text})
    assert "\n" not in str(caught.value)


def test_a_bad_flag_is_named_as_a_flag() -> None:
    with pytest.raises(BadSetting, match="--port must be a whole number from 0 to 65535"):
        made(port="x")


def test_a_bad_value_in_the_file_says_so() -> None:
    with pytest.raises(BadSetting, match=r"DEMARKUS_PORT \(in the settings file\)"):
        settings_from({}, {}, {"DEMARKUS_PORT": "x"})


def test_no_limit_needs_no_burst() -> None:
    assert made({"DEMARKUS_RATE_LIMIT": "0", "DEMARKUS_RATE_BURST": "0"}).rate_limit == 0


def test_unknown_log_words_fall_back_and_case_does_not_matter() -> None:
    settings = made({"DEMARKUS_LOG_FORMAT": "JSON", "DEMARKUS_LOG_LEVEL": "Warn"})
    assert (settings.log_format, settings.log_level) == ("json", "warn")


def test_variables_that_look_like_settings_are_noted() -> None:
    settings = made({"DEMARKUS_TOKEN": "/t", "DEMARKUS_AUTH": "x", "DEMARKUS_ROOT": "/r", "OTHER": "1"})
    assert settings.unknown == ("DEMARKUS_TOKEN",)


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"DEMARKUS_STATE_DIR": "/s", "STATE_DIRECTORY": "/d"}, "/s"),
        ({"STATE_DIRECTORY": "/d:/e", "HOME": "/h"}, "/d"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/demarkus-appliance"),
        ({"XDG_STATE_HOME": "relative", "HOME": "/h/"}, "/h/.local/state/demarkus-appliance"),
        ({}, ""),
    ],
)
def test_the_state_directory(environ: dict[str, str], directory: str) -> None:
    assert made(environ).state_dir == directory


@pytest.mark.parametrize(
    "arguments",
    [
        ["-root", "/w", "-port", "7", "-read-only"],
        ["--root", "/w", "--port", "7", "--read-only"],
        ["-root=/w", "--port=7", "-read-only=true"],
    ],
)
def test_flags_take_one_dash_or_two(arguments: list[str]) -> None:
    assert flag_values(arguments) == {"root": "/w", "port": "7", "read-only": "true"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rot", "/w"], "unknown flag --rot"),
        (["--root"], "--root needs a value"),
        (["world"], 'unexpected argument "world"'),
        (["---root", "x"], "unexpected argument"),
        (["-"], "unexpected argument"),
        (["--"], "unexpected argument"),
        (["--max-streams", "5"], "unknown flag --max-streams"),
    ],
)
def test_other_arguments_are_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        flag_values(arguments)


def test_the_file_is_an_environment_file() -> None:
    text = """
# a comment
; another
DEMARKUS_ROOT = /srv/world
DEMARKUS_TOKENS="/etc/with space/\\"tokens\\".toml"
DEMARKUS_LISTEN='127.0.0.1'
DEMARKUS_PORT=7
DEMARKUS_PORT=8
"""
    assert file_settings(text, "f") == {
        "DEMARKUS_ROOT": "/srv/world",
        "DEMARKUS_TOKENS": '/etc/with space/"tokens".toml',
        "DEMARKUS_LISTEN": "127.0.0.1",
        "DEMARKUS_PORT": "8",
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("DEMARKUS_TOKEN=/t", "line 1: unknown setting DEMARKUS_TOKEN"),
        ("\nDEMARKUS_RO", "line 2: expected NAME=VALUE"),
        ("=x", "line 1: unknown setting"),
        ("export DEMARKUS_ROOT=/w", "line 1: unknown setting export DEMARKUS_ROOT"),
        ('DEMARKUS_ROOT="/w', "line 1: the quote is not closed"),
        ('DEMARKUS_ROOT="/w" x', "line 1: text after the closing quote"),
        ("DEMARKUS_ROOT=/w\\", "line 1: a value must end on its own line"),
    ],
)
def test_a_broken_file_is_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(BadSetting, match=words):
        file_settings(text, "f")


def test_the_file_is_read_from_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "settings"
    path.write_text("DEMARKUS_PORT=7\n")
    assert from_command_line(["--config", str(path), "--root", "/w"], {}).port == 7
    with pytest.raises(
        BadSetting, match=r"cannot read the settings file /none \(No such file or directory\)|/none"
    ):
        from_command_line(["--config=/none"], {})
    path.write_bytes(b"\xff")
    with pytest.raises(BadSetting, match="not UTF-8"):
        from_command_line([f"--config={path}"], {})


@given(st.text(), st.text())
def test_no_file_text_raises_anything_else(before: str, after: str) -> None:
    try:
        found = file_settings(before + "DEMARKUS_ROOT=" + after, "f")
    except BadSetting:
        return
    assert set(found) <= {row.variable for row in TABLE}


def test_help_and_the_manual_name_every_setting() -> None:
    for row in TABLE:
        for text in (help_text(), settings_page()):
            assert row.meaning in text
            assert row.variable in text
            assert f"--{row.flag}" in text or not row.flag
    assert "SIGHUP" in help_text()
    lines = settings_page().splitlines()
    assert all(line.count("|") == 6 for line in lines if line.startswith("|"))


@pytest.mark.parametrize(
    ("environ", "directory"),
    [
        ({"DEMARKUS_RUNTIME_DIR": "/r", "RUNTIME_DIRECTORY": "/s", "XDG_RUNTIME_DIR": "/x"}, "/r"),
        ({"RUNTIME_DIRECTORY": "/s:/t", "XDG_RUNTIME_DIR": "/x"}, "/s"),
        ({"XDG_RUNTIME_DIR": "/run/user/7/", "STATE_DIRECTORY": "/s"}, "/run/user/7/demarkus-appliance"),
        ({"XDG_RUNTIME_DIR": "relative", "STATE_DIRECTORY": "/s"}, "/s/run"),
        ({}, ""),
    ],
)
def test_where_the_control_socket_goes(environ: dict[str, str], directory: str) -> None:
    assert made(environ).runtime_dir == directory


def test_watching_is_auto_or_off() -> None:
    assert made({"DEMARKUS_WATCH": ""}).watch == "auto"
    assert made({"DEMARKUS_WATCH": "off"}).watch == "off"
    assert made({}, watch="off").watch == "off"
    with pytest.raises(BadSetting, match=r'DEMARKUS_WATCH must be auto or off, got "on"'):
        made({"DEMARKUS_WATCH": "on"})

"""What is loaded at start and again on request, and that a bad file changes nothing."""

import os
from pathlib import Path

import pytest

from app.server.certificate import BadCertificate, Certificate
from app.server.contents import Reloaded
from app.server.reload import TOKEN_FILE_MAX, Reloader, load_certificate, parse_tokens, read_tokens
from app.server.settings import Settings, settings_from
from app.world.refresh import Changes
from app.world.tokens import BadTokenFile, TokenTable
from tests.unit.server.pairs import P256, P384, files, issue, secret

GOOD = '[tokens.one]\nhash = "sha256-00"\npaths = ["/**"]\noperations = ["publish"]\n'


class Bench:
    """A reloader whose outcomes are kept."""

    def __init__(self, settings: Settings, tokens: bytes = b"") -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []
        self.certificates: list[Certificate] = []
        self.tables: list[TokenTable] = []
        self.content_error = ""
        self.reloader = Reloader(
            settings,
            tokens=tokens,
            use_certificate=self.certificates.append,
            use_tokens=self.tables.append,
            content=self.content,
            log=self.log,
        )

    async def content(self, cause: str) -> Reloaded:
        self.log("info", f"content for {cause}")
        return Reloaded(Changes(), cause, 0.0, 0.0, self.content_error)

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message, fields))

    def messages(self) -> list[str]:
        """The lines since the last look, but for notes on what a token file holds."""
        found = [f"{level} {message}" for level, message, _ in self.lines if message != "auth: token file"]
        self.lines.clear()
        return found


def settings_of(**variables: str) -> Settings:
    return settings_from({}, {f"DEMARKUS_{name}": value for name, value in variables.items()}, {})


async def test_a_signal_reloads_all_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(GOOD)
    chain_path, key_path = files(tmp_path, [issue(P256)], secret(P256))
    bench = Bench(settings_of(TOKENS=str(path), TLS_CERT=chain_path, TLS_KEY=key_path), GOOD.encode())
    outcome = await bench.reloader.reload()
    assert bench.messages() == [
        "info tls: certificate reloaded",
        "info auth: tokens reloaded",
        "info content for SIGHUP",
    ]
    assert (outcome.ok, outcome.parts) == (True, {"certificate": "", "tokens": "", "content": ""})
    assert (len(bench.certificates), len(bench.tables)) == (1, 1)


async def test_one_that_is_bad_does_not_keep_the_others_from_reloading(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(GOOD)
    chain_path, key_path = files(tmp_path, [issue(P256)], secret(P384))
    bench = Bench(settings_of(TOKENS=str(path), TLS_CERT=chain_path, TLS_KEY=key_path))
    outcome = await bench.reloader.reload()
    assert bench.messages() == [
        "error tls: certificate reload failed",
        "info auth: tokens reloaded",
        "info content for SIGHUP",
    ]
    assert not outcome.ok
    assert [part for part, error in outcome.parts.items() if error] == ["certificate"]
    assert (len(bench.certificates), len(bench.tables)) == (0, 1)
    files(tmp_path, [issue(P384)], secret(P384))
    path.write_text("half = ")
    bench.content_error = "no such root"
    outcome = await bench.reloader.reload("request")
    assert bench.messages() == [
        "info tls: certificate reloaded",
        "warn auth: token reload failed, the old tokens stay in force",
        "info content for request",
    ]
    assert [part for part, error in outcome.parts.items() if error] == ["tokens", "content"]
    assert (len(bench.certificates), len(bench.tables)) == (1, 1)


async def test_what_is_not_configured_is_not_reloaded(tmp_path: Path) -> None:
    bench = Bench(settings_of(STATE_DIR=str(tmp_path)))
    assert (await bench.reloader.reload()).parts == {"content": ""}
    assert bench.messages() == ["info content for SIGHUP"]


def test_the_watch_reports_what_is_new_once(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(GOOD)
    bench = Bench(settings_of(TOKENS=str(path)), GOOD.encode())
    look = bench.reloader.tokens_changed
    look()  # an entry beside the file came or went
    assert bench.messages() == []
    path.write_text(GOOD + "\n# more\n")
    look()
    look()
    assert bench.messages() == ["info configwatch: reloaded"]
    path.write_text("half = ")
    look()
    look()
    assert bench.messages() == ["warn configwatch: reload failed"]
    path.unlink()
    look()
    look()
    assert bench.messages() == ["warn configwatch: reload failed"]
    path.write_text(GOOD)
    look()
    assert bench.messages() == ["info configwatch: reloaded"]


def test_a_token_file_is_named_with_its_fault_and_its_oddities_are_logged(tmp_path: Path) -> None:
    bench = Bench(settings_of())
    with pytest.raises(
        BadTokenFile, match=r"cannot read the token file /nowhere/t.toml \(No such file or directory\)"
    ):
        read_tokens("/nowhere/t.toml")
    with pytest.raises(BadTokenFile, match=r"token file t\.toml: not TOML"):
        parse_tokens("t.toml", b"half = ", bench.log)
    parse_tokens("t.toml", GOOD.encode(), bench.log)
    ((level, message, fields),) = bench.lines
    assert (level, message, fields["path"]) == ("warn", "auth: token file", "t.toml")


def test_the_certificate_is_the_pair_or_the_own_one(tmp_path: Path) -> None:
    bench = Bench(settings_of())
    chain_path, key_path = files(tmp_path, [issue(P256)], secret(P256))
    pair = load_certificate(settings_of(TLS_CERT=chain_path, TLS_KEY=key_path), bench.log)
    assert (
        pair.chain[0]
        == load_certificate(settings_of(TLS_CERT=chain_path, TLS_KEY=key_path), bench.log).chain[0]
    )
    own = load_certificate(settings_of(STATE_DIR=str(tmp_path)), bench.log)
    assert own.fingerprint == load_certificate(settings_of(STATE_DIR=str(tmp_path)), bench.log).fingerprint
    assert all(level == "info" for level, _, _ in bench.lines)
    assert all(fields.get("fingerprint", "sha256:").startswith("sha256:") for _, _, fields in bench.lines)  # type: ignore[attr-defined]


def test_a_configured_pair_is_never_replaced_by_the_own_certificate(tmp_path: Path) -> None:
    with pytest.raises(BadCertificate, match=r"/nowhere/c\.pem"):
        load_certificate(
            settings_of(TLS_CERT="/nowhere/c.pem", TLS_KEY="/nowhere/k.pem", STATE_DIR=str(tmp_path)),
            Bench(settings_of()).log,
        )


@pytest.mark.parametrize("directory", ["", "{}/file/state"])
def test_without_a_place_to_keep_it_the_certificate_lasts_for_this_run(
    tmp_path: Path, directory: str
) -> None:
    (tmp_path / "file").write_text("")
    bench = Bench(settings_of())
    settings = settings_of(STATE_DIR=directory.format(tmp_path))
    first, second = (load_certificate(settings, bench.log).fingerprint for _ in range(2))
    assert first != second
    assert (
        bench.messages().count(
            "warn tls: the self-signed certificate cannot be kept and will change at the next start; "
            "set DEMARKUS_STATE_DIR to a directory that can be written"
        )
        == 2
    )


def test_an_emptied_token_file_opens_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.toml"
    bench = Bench(settings_of(TOKENS=str(path)), GOOD.encode())
    path.write_text("\n")
    bench.reloader.tokens_changed()
    assert (bench.messages(), bench.tables) == (["warn configwatch: reload failed"], [])
    path.write_text("[tokens]\n")
    bench.reloader.tokens_changed()
    assert bench.messages() == ["info configwatch: reloaded"]
    assert bench.tables[-1].tokens == ()


def test_only_a_bounded_regular_file_is_a_token_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (str(pipe), "/dev/zero", str(tmp_path)):
        with pytest.raises(BadTokenFile, match=f"token file {path}"):
            read_tokens(path)
    large = tmp_path / "large"
    large.write_bytes(b"#" * (TOKEN_FILE_MAX + 1))
    with pytest.raises(BadTokenFile, match="larger than"):
        read_tokens(str(large))

"""The commands that work on files: publish, import, export, verify, tokens, fingerprint."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from app.commands import program
from app.commands.terminal import Progress
from app.commands.tokens import covered
from app.server.certificate import make_own
from app.world.world import World

Capture = pytest.CaptureFixture[str]


def no_log(level: str, message: str, /, **fields: object) -> None:
    """Nothing to tell."""


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith(("DEMARKUS_", "STATE_", "XDG_"))]:
        monkeypatch.delenv(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "world"
    made.mkdir()
    return made


def stored(root: Path, path: str) -> tuple[int, bytes, dict[str, str]]:
    world = World.open(str(root), log=no_log, read_only=True)
    try:
        document = world.current(path)
        return document.version, document.body, dict(document.metadata)
    finally:
        world.close()


def run(*line: object) -> int:
    return program.main([str(word) for word in line])


# publish


def test_publish_keeps_what_the_document_has(root: Path, capsys: Capture) -> None:
    publish = ("publish", "--root", root, "--path", "/docs/a.md", "--body")
    assert (
        run(*publish, "one", "--meta", "title=A", "--meta", "tags= x , y", "--meta", "retention=5", "--yes")
        == 0
    )
    assert run(*publish, "two", "--meta", "title=B=b") == 0
    assert stored(root, "/docs/a.md") == (2, b"two", {"title": "B=b", "tags": "x,y", "type": "Document"})
    assert run(*publish, "two") == 0
    assert run(*publish, "three", "--bare") == 0
    assert stored(root, "/docs/a.md") == (3, b"three", {})
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "published /docs/a.md v1",
        "published /docs/a.md v2",
        "unchanged /docs/a.md v2",
        "published /docs/a.md v3",
    ]
    assert captured.err == ""


@pytest.mark.parametrize(
    ("options", "code", "reason"),
    [
        (["--path", "a.md", "--body", "x"], 2, "slash"),
        (["--path", "/", "--body", "x"], 2, "root"),
        (["--path", "/../..", "--body", "x"], 2, "upwards"),
        (["--path", "/oob/../../a.md", "--body", "x"], 2, "upwards"),
        (["--path", "/a\n.md", "--body", "x"], 2, "control"),
        (["--path", "/sha256-" + "0" * 64, "--body", "x"], 2, "reserved"),
        (["--path", "/a.txt", "--body", "x"], 2, ".md"),
        (["--path", "/a.md", "--body", ""], 2, "empty"),
        (["--path", "/a.md", "--body", "x", "--bare", "--meta", "a=b"], 2, "--bare"),
        (["--path", "/a.md", "--body", "x", "--meta", "retention=1"], 2, "--yes"),
        (["--path", "/a.md", "--body", "x", "--meta", "version=1"], 2, "reserved"),
        (["--path", "/a.md", "--body", "x", "--meta", "importance=7"], 2, "0 to 1"),
        (["--path", "/a.md", "--body", "x", "--meta", f"a={'x' * 1100}"], 2, "1024"),
        (["--path", "/a.md", "/none"], 1, "/none"),
        (["--path", "/versions/a.md", "--body", "x"], 1, "versions"),
        (["--path", "/file/a.md", "--body", "x"], 1, "collision|ancestor"),
        (["--path", "/out/a.md", "--body", "x"], 1, "symbolic link"),
    ],
)
def test_publish_refuses(root: Path, capsys: Capture, options: list[str], code: int, reason: str) -> None:
    (root / "file").write_text("in the way")
    (root / "out").symlink_to("/etc")
    assert run("publish", "--root", root, *options) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("demarkus-appliance: ")
    assert any(word in captured.err for word in reason.split("|"))
    assert sorted(os.listdir(root)) == ["file", "out"]


def test_publish_says_which_root_is_missing(capsys: Capture, tmp_path: Path) -> None:
    assert run("publish", "--path", "/a.md", "--body", "x") == 2
    assert "--root" in capsys.readouterr().err
    assert run("publish", "--root", tmp_path / "none", "--path", "/a.md", "--body", "x") == 1
    assert f"{tmp_path}/none does not exist" in capsys.readouterr().err


def test_publish_to_an_archived_document(root: Path, capsys: Capture) -> None:
    assert run("publish", "--root", root, "--path", "/a.md", "--body", "x") == 0
    world = World.open(str(root), log=no_log)
    world.archive("/a.md")
    world.close()
    assert run("publish", "--root", root, "--path", "/a.md", "--body", "y") == 1
    assert "archived" in capsys.readouterr().err


# import, export, verify


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    (made / "guide").mkdir(parents=True)
    (made / "index.md").write_text("# Start\n")
    (made / "guide" / "a b.md").write_text("# A\n")
    (made / "picture.png").write_bytes(b"\x89PNG")
    return made


def test_import_twice_and_export_again(root: Path, folder: Path, tmp_path: Path, capsys: Capture) -> None:
    metadata = tmp_path / "metadata.json"
    metadata.write_text('{"guide/a b.md": {"title": "Alpha", "tags": ["x", "y"], "importance": 0.7}}')
    line = ("import", folder, "--root", root, "--prefix", "/docs", "--metadata", metadata)
    assert run(*line) == 0
    assert capsys.readouterr() == (
        "2 created, 0 unchanged, 0 left out\n",
        "passed over 1: 1 .png\n",
    )
    assert stored(root, "/docs/guide/a b.md") == (
        1,
        b"# A\n",
        {"title": "Alpha", "tags": "x,y", "importance": "0.7", "type": "Document"},
    )
    assert run(*line) == 0
    assert capsys.readouterr().out == "0 created, 2 unchanged, 0 left out\n"
    target = tmp_path / "out"
    assert run("export", target, "--root", root) == 0
    assert capsys.readouterr().out == "2 written, 0 left out\n"
    assert (target / "docs" / "guide" / "a b.md").read_bytes() == b"# A\n"
    assert run("export", target, "--root", root) == 1
    assert "not empty" in capsys.readouterr().err


def test_import_names_the_documents_it_left_out(root: Path, folder: Path, capsys: Capture) -> None:
    (folder / "binary.md").write_bytes(b"\xff")
    (folder / "big.md").write_bytes(b"x" * 2000000)
    (folder / "READ.MD").write_bytes(b"x")
    (folder / "log.markdown").write_bytes(b"x")
    (folder / "Makefile").write_bytes(b"x")
    (folder / ".git").mkdir()
    assert run("import", folder, "--root", root) == 1
    captured = capsys.readouterr()
    assert captured.out == "2 created, 0 unchanged, 2 left out\n"
    assert "left out binary.md: " in captured.err
    assert "left out big.md: 2000000 bytes, more than the 1048576 that a document holds\n" in captured.err
    assert "passed over READ.MD: only a name that ends in .md is taken; rename it\n" in captured.err
    assert "passed over log.markdown: only" in captured.err
    assert captured.err.splitlines()[-1] == (
        "passed over 5: 1 hidden folder, 1 without ending, 1 .MD, 1 .markdown, 1 .png"
    )


def test_an_interrupted_import_says_how_far_it_came(
    root: Path, folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(done: int, total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "__call__", lambda _, done, total: interrupted(done, total))
    assert run("import", folder, "--root", root) == 130
    captured = capsys.readouterr()
    assert captured.out == "1 created, 0 unchanged, 0 left out\n"
    assert captured.err.endswith("stopped before the end; run again, it goes on from here\n")


def test_an_export_names_what_it_could_not_read(
    root: Path, folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    (folder / "old.md").write_text("# Old\n")
    run("import", folder, "--root", root)
    os.unlink(root / "index.md")
    (root / "versions" / "old.md" / "v2").write_bytes(b"")
    capsys.readouterr()
    assert run("export", tmp_path / "out", "--root", root) == 1
    captured = capsys.readouterr()
    assert captured.out == "2 written, 1 left out\n"
    assert captured.err == (
        "left out /index.md: has versions but no pointer\n"
        "not the newest version of /old.md: v2 is torn: empty; v1 was written\n"
    )
    assert (tmp_path / "out" / "old.md").read_text() == "# Old\n"


@pytest.mark.parametrize("content", ["[", "[]", '{"a.md": 1}', '{"a.md": {}} x'])
def test_import_with_broken_metadata_does_nothing(
    root: Path, folder: Path, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "metadata.json"
    file.write_text(content)
    assert run("import", folder, "--root", root, "--metadata", file) == 1
    assert os.listdir(root) == []


def test_import_with_wrong_arguments(root: Path, folder: Path, tmp_path: Path) -> None:
    assert run("import", folder, "--root", root, "--prefix", "docs") == 2
    assert run("import", tmp_path / "none", "--root", root) == 1
    assert run("import", folder, "--root", root, "--metadata", tmp_path / "none") == 1
    assert run("import", folder, "--root", tmp_path / "none") == 1
    assert os.listdir(root) == []


def test_verify_names_each_fault(root: Path, folder: Path, capsys: Capture) -> None:
    run("import", folder, "--root", root)
    capsys.readouterr()
    assert run("verify", "--root", root) == 0
    assert capsys.readouterr() == ("", f"{root}: 2 documents, 2 versions: sound\n")
    (root / "plain.md").write_text("mine")
    assert run("verify", "--root", root, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "root": str(root),
        "sound": True,
        "faults": [],
        "documents": 2,
        "versions": 2,
        "plain": ["/plain.md"],
        "unfinished": [],
    }
    assert run("verify", "--root", root) == 0
    said = capsys.readouterr().err
    assert "/plain.md (1); `import` makes documents of them" in said
    os.unlink(root / "plain.md")
    os.unlink(root / "index.md")
    assert run("verify", "--root", root) == 1
    captured = capsys.readouterr()
    assert captured.out == "/index.md: has versions but no pointer\n"
    assert captured.err == f"{root}: 2 documents, 1 version: 1 fault\n"
    assert run("verify", "--root", root, "--json") == 1
    assert json.loads(capsys.readouterr().out)["faults"] == ["/index.md: has versions but no pointer"]


# token


def test_the_raw_token_is_alone_on_stdout(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "tokens.toml"
    assert (
        run(
            "token",
            "generate",
            "--label",
            "a",
            "--paths",
            "/a/**, /b",
            "--ops",
            "read,publish",
            "--tokens",
            file,
        )
        == 0
    )
    captured = capsys.readouterr()
    assert len(captured.out) == 65
    assert set(captured.out.strip()) <= set("0123456789abcdef")
    assert captured.err == (
        f'Token "a" appended to {file}\n\nRaw token (give to client, shown once):\n'
        "\nIt allows to read and publish:\n  /a/**  everything below /a\n"
        "  /b  warning: no document has that name; did you mean /b/**?\n"
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("token", "list", "--tokens", file, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "tokens": [
            {"label": "a", "paths": ["/a/**", "/b"], "operations": ["read", "publish"], "expires": None}
        ]
    }
    assert run("token", "revoke", "--label", "a", "--tokens", file) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith('Revoked token "a"\n')
    assert "warning: no token protects /b any more" in captured.err


def test_token_faults(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tokens.toml"
    assert run("token", "list") == 2
    assert run("token", "list", "--tokens", file) == 1
    assert run("token", "revoke", "--label", "a", "--tokens", file) == 1
    assert run("token", "generate", "--tokens", file) == 2
    assert run("token") == 2
    file.write_text("[tokens.a]\n")
    assert run("token", "list", "--tokens", file, "--json") == 1
    assert run("token", "generate", "--label", "b", "--tokens", file) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert str(file) in captured.err
    monkeypatch.setenv("DEMARKUS_TOKENS", str(tmp_path / "named"))
    assert run("token", "generate", "--label", "b") == 0
    assert (tmp_path / "named").exists()


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("/**", "everything"),
        ("/*", "what lies directly in the root, nothing in its folders"),
        ("/logs/*", "what lies directly in /logs, nothing in its folders"),
        ("/logs/**", "everything below /logs"),
        ("/logs/a.md", "this one document"),
        ("/logs", "warning: no document has that name; did you mean /logs/**?"),
        ("/logs/", "warning: no document has that name; did you mean /logs/**?"),
        ("/logs/a?.md", "what matches this pattern"),
        ("/**/drafts/*", "what matches this pattern"),
    ],
)
def test_what_a_token_covers_in_words(pattern: str, words: str) -> None:
    assert covered(pattern) == words


def test_an_empty_world_is_said_to_be_empty(root: Path, capsys: Capture) -> None:
    assert run("verify", "--root", root) == 0
    assert capsys.readouterr().err == f"{root} is an empty world: there are no documents in it\n"


# fingerprint


def test_fingerprint_of_the_servers_own_certificate(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    assert run("fingerprint", "--state-dir", state) == 1
    assert "when it first starts" in capsys.readouterr().err
    assert not state.exists()
    made = make_own(str(state), "board")
    assert run("fingerprint", "--state-dir", state) == 0
    assert capsys.readouterr() == (f"{made.fingerprint}\n", "")
    monkeypatch.setenv("DEMARKUS_STATE_DIR", str(state))
    assert run("fingerprint", "--json") == 0
    document: Any = json.loads(capsys.readouterr().out)
    assert document == {"fingerprint": made.fingerprint, "certificate": str(state / "certificate.pem")}
    monkeypatch.delenv("DEMARKUS_STATE_DIR")
    assert run("fingerprint", "--tls-cert", state / "certificate.pem") == 0
    assert capsys.readouterr().out == f"{made.fingerprint}\n"
    config = tmp_path / "server.conf"
    config.write_text(f"DEMARKUS_STATE_DIR={state}\n")
    assert run("fingerprint", "--config", config) == 0
    assert capsys.readouterr().out == f"{made.fingerprint}\n"
    config.write_text("no certificate\n")
    assert run("fingerprint", "--tls-cert", config) == 1
    assert run("fingerprint", "--config", config) == 1

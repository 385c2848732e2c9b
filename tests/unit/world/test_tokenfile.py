"""Minting, listing and revoking: the exact texts of operations §7, and a file that is always whole and readable."""

import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world import tokenfile
from app.world.tokenfile import TokenFileError, generate, list_tokens, revoke
from app.world.tokens import TokenTable, hash_of_token

SHOWN = "\nRaw token (give to client, shown once):\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    return str(tmp_path / "tokens.toml")


def content(file: str) -> bytes:
    return Path(file).read_bytes()


def test_generate_without_a_file() -> None:
    printed = generate("bench", ["/logs/**", "/a b"], ["read", "publish"])
    raw = printed.out.removesuffix("\n")
    assert len(raw) == 64
    assert set(raw) <= set("0123456789abcdef")
    assert printed.err == (
        f'[tokens.bench]\nhash = "{hash_of_token(raw)}"\npaths = ["/logs/**", "/a b"]\n'
        f'operations = ["read", "publish"]\n{SHOWN}'
    )
    assert generate("bench", ["/*"], ["publish"]).out != printed.out


def test_generate_appends_and_keeps_what_is_there(file: str) -> None:
    before = b'# mine\r\n[tokens.first]\nhash = "x" # no line end'
    Path(file).write_bytes(before)
    printed = generate("ops: night", ["/*"], ["publish"], file)
    raw = printed.out.removesuffix("\n")
    assert printed.err == f'Token "ops: night" appended to {file}\n{SHOWN}'
    entry = (
        f'\n[tokens."ops: night"]\nhash = "{hash_of_token(raw)}"\npaths = ["/*"]\noperations = ["publish"]\n'
    )
    assert content(file) == before + entry.encode()
    assert [token.label for token in TokenTable.parse(content(file)).tokens] == ["first", "ops: night"]


def test_generate_makes_the_file(file: str) -> None:
    raw = generate("a", ["/*"], ["publish"], file).out.removesuffix("\n")
    expected = f'\n[tokens.a]\nhash = "{hash_of_token(raw)}"\npaths = ["/*"]\noperations = ["publish"]\n'
    assert content(file) == expected.encode()
    assert {name: stat.S_IMODE(os.stat(f"{file}{name}").st_mode) for name in ("", ".lock")} == {
        "": 0o600,
        ".lock": 0o600,
    }
    assert sorted(os.listdir(os.path.dirname(file))) == ["tokens.toml", "tokens.toml.lock"]


def test_a_file_in_the_working_directory(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.path.dirname(file))
    generate("a", ["/*"], ["publish"], "tokens.toml")
    assert list_tokens("tokens.toml").out == f"{'a':<20}  paths: {'/*':<20}  ops: publish\n"


def test_a_wider_mode_is_closed_and_said(file: str) -> None:
    Path(file).touch()
    os.chmod(file, 0o640)
    warning = (
        f"{file} was readable by others than its owner and is no longer; the server must run as its owner"
    )
    assert generate("a", ["/*"], ["publish"], file).warnings == (warning,)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
    assert generate("b", ["/*"], ["publish"], file).warnings == ()


def test_list(file: str) -> None:
    Path(file).write_text(
        '[tokens.b]\nhash = "1"\npaths = ["/logs/**", "/a"]\noperations = ["read", "publish"]\n'
        '[tokens."a long label, past twenty"]\nhash = "2"\n[tokens.Ä]\nhash = "3"\n'.replace("Ä", '"Ä"'),
        "utf-8",
    )
    assert list_tokens(file).out == (
        "a long label, past twenty  paths:                       ops: \n"
        "b                     paths: /logs/**, /a          ops: read, publish\n"
        "Ä                     paths:                       ops: \n"
    )


def test_list_of_nothing(file: str) -> None:
    Path(file).touch()
    assert list_tokens(file).out == "No tokens found.\n"


def test_revoke_writes_the_rest_anew(file: str) -> None:
    Path(file).write_text(
        '# comment\n[tokens.z]\nhash = "1"\npaths = ["/logs/**", "/a\\\\*"]\noperations = ["read"]\nexpires = "2026-12-31T23:59:59Z"\n'
        '[tokens.gone]\nhash = "2"\nnote = "x"\n[tokens."b c"]\nHASH = "3"\n',
    )
    printed = revoke("gone", file)
    assert (printed.out, printed.err, printed.warnings[1:]) == ("", 'Revoked token "gone"\n', ())
    assert content(file).decode() == (
        '[tokens]\n  [tokens."b c"]\n    hash = "3"\n    paths = []\n    operations = []\n'
        '  [tokens.z]\n    hash = "1"\n    paths = ["/logs/**", "/a\\\\*"]\n    operations = ["read"]\n'
        '    expires = "2026-12-31T23:59:59Z"\n'
    )
    revoke("z", file)
    revoke("b c", file)
    assert content(file) == b"[tokens]\n"
    assert TokenTable.parse(content(file)).tokens == ()


def test_revoke_says_what_is_open_now(file: str) -> None:
    generate("one", ["/a/**", "/b/**"], ["read"], file)
    generate("two", ["/b/**"], ["read"], file)
    generate("three", ["/c/**"], ["publish"], file)
    assert revoke("three", file).warnings == ()
    assert revoke("one", file).warnings == ("no token protects /a/** any more: reading it needs none",)


# --- What is refused, with nothing changed.


@pytest.mark.parametrize(
    ("label", "paths", "operations", "fault"),
    [
        ("", ["/*"], ["publish"], 'label "" must be one or more printable characters'),
        ("a\nb", ["/*"], ["publish"], r'label "a\nb" must be one or more printable characters'),
        ("a\udcff", ["/*"], ["publish"], r'label "a\xff" must be one or more printable characters'),
        ("a", [], ["publish"], "a token needs at least one path"),
        ("a", ["/*", "docs/*"], ["publish"], 'path "docs/*" must begin with /'),
        ("a", ["/*", ""], ["publish"], 'path "" must begin with /'),
        ("a", ["/a\udcff"], ["publish"], r'path "/a\xff" must be printable'),
        ("a", ["/a["], ["publish"], 'bad pattern "/a[": the bracket is not closed'),
        ("a", ["/*"], [], "a token needs at least one operation: read, publish"),
        ("a", ["/*"], ["publish", "write"], 'operation "write" must be read or publish'),
        ("old", ["/*"], ["publish"], '{file} has a token "old" already; revoke it or choose another label'),
    ],
)
def test_generate_refuses(file: str, label: str, paths: list[str], operations: list[str], fault: str) -> None:
    before = b'[tokens.old]\nhash = "x"\n'
    Path(file).write_bytes(before)
    with pytest.raises(TokenFileError) as caught:
        generate(label, paths, operations, file)
    assert str(caught.value) == fault.replace("{file}", file)
    assert content(file) == before
    assert not os.path.exists(file + ".tmp")


@pytest.mark.parametrize(
    "before",
    [
        b"[tokens.old\n",
        b'[tokens.old]\nhash = ""\n',
        b"\xff",
        b"tokens = {}\n",
        b'[Tokens.old]\nhash = "x"\n',
        b"[[x]]\n[x.tokens.a]\n[[tokens]]\n",
    ],
)
def test_a_file_that_the_server_refuses_or_would_refuse_is_left_alone(file: str, before: bytes) -> None:
    Path(file).write_bytes(before)
    with pytest.raises(TokenFileError) as caught:
        generate("new", ["/*"], ["publish"], file)
    assert str(caught.value).startswith(f"{file}: ")
    assert content(file) == before


def test_unknown_labels_and_missing_files(file: str) -> None:
    missing = r"tokens.toml: there is no such token file; `token generate` with --tokens makes one$"
    with pytest.raises(TokenFileError, match=missing):
        list_tokens(file)
    with pytest.raises(TokenFileError, match=missing):
        revoke("a", file)
    Path(file).write_bytes(b'[tokens.a]\nhash = "x"\n')
    with pytest.raises(TokenFileError) as caught:
        revoke("b", file)
    assert str(caught.value) == f'{file} has no token "b"'
    with pytest.raises(TokenFileError, match=r"no/t: there is no folder \S+/no; make it first$"):
        generate("a", ["/*"], ["publish"], os.path.join(os.path.dirname(file), "no", "t"))
    with pytest.raises(TokenFileError, match=r": Is a directory$"):
        list_tokens(os.path.dirname(file))


@pytest.mark.parametrize("step", ["fchmod", "fsync", "rename"])
def test_a_failure_leaves_the_old_file(file: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generate("a", ["/*"], ["publish"], file)
    before = content(file)

    def fail(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(TokenFileError, match=r"tokens.toml: No space left on device$"):
        generate("b", ["/*"], ["publish"], file)
    monkeypatch.undo()
    assert content(file) == before
    assert not os.path.exists(file + ".tmp")
    generate("b", ["/*"], ["publish"], file)


def test_the_new_file_is_on_the_disk_before_it_shows(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(descriptor: int) -> None:
        steps.append(f"fsync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}")
        fsync(descriptor)

    def noted_rename(source: str, target: str) -> None:
        steps.append(f"rename {os.path.basename(source)} {os.path.basename(target)}")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    generate("a", ["/*"], ["publish"], file)
    directory = os.path.basename(os.path.dirname(file))
    assert steps == ["fsync tokens.toml.tmp", "rename tokens.toml.tmp tokens.toml", f"fsync {directory}"]


def test_leftovers_of_a_killed_writer_are_no_obstacle(file: str) -> None:
    Path(file + ".tmp").write_bytes(b"x" * 10_000)
    os.chmod(file + ".tmp", 0o644)
    generate("a", ["/*"], ["publish"], file)
    assert len(content(file)) < 1000
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_links_planted_beside_the_file_are_not_followed(file: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    for name in (".lock", ".tmp"):
        os.symlink(target, file + name)
        with pytest.raises(TokenFileError):
            generate("a", ["/*"], ["publish"], file)
        os.unlink(file + name)
    assert target.read_bytes() == b"precious"


# --- Owners. The service runs as one user, root mints for it.


@pytest.mark.parametrize("exists", [True, False])
def test_the_file_stays_with_its_owner(file: str, exists: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever owns the file, or the directory of a file that is yet to be, owns file and lock when root wrote them."""
    if exists:
        Path(file).touch()
    real = os.stat
    given: list[tuple[str, int, int]] = []

    def owned_by_service(path: str) -> os.stat_result:
        found = list(real(path))
        found[4:6] = [4242, 4343]
        return os.stat_result(found)

    def name_of(descriptor: int) -> str:
        return os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "stat", owned_by_service)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda fd, user, group: given.append((name_of(fd), user, group)))
    generate("a", ["/*"], ["publish"], file)
    assert given == [("tokens.toml.lock", 4242, 4343), ("tokens.toml.tmp", 4242, 4343)]


def test_somebody_else_cannot_take_the_file_over(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    generate("a", ["/*"], ["publish"], file)
    before = content(file)
    real = os.stat

    def owned_by_service(path: str) -> os.stat_result:
        found = list(real(path))
        found[4:6] = [4242, 4343]
        return os.stat_result(found)

    def refuse(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "stat", owned_by_service)
    monkeypatch.setattr(os, "fchown", refuse)
    with pytest.raises(TokenFileError, match="do this as the owner of the token file or as root"):
        generate("b", ["/*"], ["publish"], file)
    monkeypatch.undo()
    assert content(file) == before


# --- Several writers.


def test_writers_wait_for_each_other(file: str) -> None:
    labels = [f"t{number}" for number in range(16)]
    threads = [threading.Thread(target=generate, args=(label, ["/*"], ["publish"], file)) for label in labels]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(token.label for token in TokenTable.parse(content(file)).tokens) == sorted(labels)


def test_the_lock_is_the_one_that_other_programs_take(file: str) -> None:
    generate("a", ["/*"], ["publish"], file)
    other = os.open(file + ".lock", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    thread = threading.Thread(target=revoke, args=("a", file))
    thread.start()
    thread.join(0.05)
    assert thread.is_alive()
    assert TokenTable.parse(content(file)).tokens
    os.close(other)
    thread.join()
    assert not TokenTable.parse(content(file)).tokens


# --- Any label, any path.

PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.sampled_from(' "\\#[]=.'), min_size=1
)
LITERAL_PATHS = PRINTABLE.map(
    lambda tail: "/" + "".join("\\" + char if char in "*?[\\" else char for char in tail)
)


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        PRINTABLE,
        st.tuples(
            st.lists(LITERAL_PATHS | st.just("/**"), min_size=1, max_size=3),
            st.lists(st.sampled_from(["read", "publish"]), min_size=1, max_size=2),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_what_is_written_is_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, entries: dict[str, tuple[list[str], list[str]]]
) -> None:
    file = str(tmp_path_factory.mktemp("tokens") / "tokens.toml")
    raws = {label: generate(label, *entry, file).out.removesuffix("\n") for label, entry in entries.items()}
    gone = next(iter(entries))

    def held() -> dict[str, tuple[list[str], list[str]]]:
        found = [TokenTable.parse(content(file)).find(raw) for raw in raws.values()]
        return {token.label: (list(token.paths), list(token.operations)) for token in found if token}

    assert held() == entries
    revoke(gone, file)
    assert held() == {label: entry for label, entry in entries.items() if label != gone}


def test_every_text_is_a_toml_string() -> None:
    text = "".join(map(chr, range(0x100))) + "\u2028\U0001f600"
    token = TokenTable.parse(
        tokenfile._entry(
            "", text, "x", [text.replace("[", "").replace("*", "").replace("\\", "")], []
        ).encode()
    )
    assert [found.label for found in token.tokens] == [text]

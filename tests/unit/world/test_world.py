"""`World`: one walk builds every index, one door keeps them equal; a model and a fresh start agree with it at each step."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from app.protocol.publisher import merged
from app.world.errors import (
    Archived,
    BadRoot,
    Conflict,
    IndexIncomplete,
    Missing,
    PathCollision,
    WorldError,
)
from app.world.versionfile import FILE_MAX, hash_of
from app.world.world import Commit, World
from tests.unit.world.roots import (
    Lines,
    close_all,
    everything,
    folder_of,
    plain,
    put_document,
    put_version,
    reopen,
)


def test_an_empty_root(tmp_path: Path) -> None:
    lines = Lines()
    world = reopen(tmp_path, log=lines)
    assert (world.paths(), len(world.catalog)) == ([], 0)
    assert world.children("/", everything, False) == []
    assert world.is_directory("/")
    assert lines.lines == [
        ("info", "content hash index built", {"entries": 0}),
        ("info", "lookup catalog built", {"entries": 0}),
    ]


def test_what_the_walk_takes_in(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"# A\n"))
    put_document(tmp_path, "/.h/b.md", plain(1, b"# B\n"))
    put_document(tmp_path, "/versions/c.md", plain(1, b"# C\n"))
    put_document(tmp_path, "/x/d.md", plain(1, b"# D\n"))
    put_version(tmp_path, "/e.md", 1, plain(1, b"# E\n"))
    (tmp_path / "f.md").write_text("flat")
    world = reopen(tmp_path)
    assert world.paths() == ["/.h/b.md", "/a.md", "/x/d.md"]
    assert {path: world.catalog.get(path) is not None for path in world.paths()} == dict.fromkeys(
        world.paths(), True
    )


def test_equal_bodies_answer_with_the_first_path_that_may_be_read(tmp_path: Path) -> None:
    for path in ("/c.md", "/a.md", "/b.md"):
        put_document(tmp_path, path, plain(1, b"same"))
    world = reopen(tmp_path)
    content_hash = hash_of(b"same")
    assert world.by_hash(content_hash, everything).path == "/a.md"
    assert world.by_hash(content_hash, lambda path: path > "/a.md").path == "/b.md"
    world.archive("/a.md")
    assert world.by_hash(content_hash, everything).path == "/b.md"
    world.publish("/b.md", b"other", {}, 1, 0)
    assert world.by_hash(content_hash, everything).path == "/c.md"
    shutil.rmtree(tmp_path / "versions" / "c.md")
    with pytest.raises(Missing):
        world.by_hash(content_hash, everything)


def test_an_old_body_is_not_served_as_current_after_a_write_behind_our_back(tmp_path: Path) -> None:
    put_document(tmp_path, "/a.md", plain(1, b"old"))
    world = reopen(tmp_path)
    put_document(tmp_path, "/a.md", plain(1, b"old"), plain(2, b"new"))
    assert world.current("/a.md").body == b"new"
    for body in (b"old", b"new"):
        with pytest.raises(Missing):
            world.by_hash(hash_of(body), everything)
    assert reopen(tmp_path).by_hash(hash_of(b"new"), everything).path == "/a.md"


def test_a_hash_that_the_walk_may_have_missed(tmp_path: Path) -> None:
    put_document(tmp_path, "/good.md", plain(1, b"good"))
    put_document(tmp_path, "/bad.md", plain(1, b"bad"))
    (folder_of(tmp_path, "/bad.md") / "archive-state").write_bytes(b"?")
    lines = Lines()
    world = reopen(tmp_path, log=lines)
    assert lines.warnings() == [
        ("hash index skipped entry", {"path": "/bad.md", "error": "/bad.md: archive-state is malformed"})
    ]
    assert world.by_hash(hash_of(b"good"), everything).path == "/good.md"
    with pytest.raises(IndexIncomplete):
        world.by_hash(hash_of(b"bad"), everything)
    with pytest.raises(Missing):
        world.by_hash(hash_of(b"bad"), lambda path: path != "/bad.md")
    (folder_of(tmp_path, "/bad.md") / "archive-state").unlink()
    world.publish("/bad.md", b"better", {}, None, 0)
    with pytest.raises(Missing):
        world.by_hash(hash_of(b"bad"), everything)


def test_a_directory_that_cannot_be_read_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_document(tmp_path, "/d/a.md", plain(1, b"a"))
    put_document(tmp_path, "/b.md", plain(1, b"b"))
    real = os.open

    def opened(path: str | bytes, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == b"d":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, mode, dir_fd=dir_fd)

    lines = Lines()
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", opened)
        world = reopen(tmp_path, log=lines)
    assert lines.warnings() == [("hash index skipped entry", {"path": "/d/", "error": "Permission denied"})]
    assert world.paths() == ["/b.md"]
    with pytest.raises(IndexIncomplete):
        world.by_hash(hash_of(b"none"), everything)
    with pytest.raises(Missing):
        world.by_hash(hash_of(b"none"), lambda path: path != "/d/")


def test_skipped_entries_are_logged_up_to_a_bound(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.md").symlink_to("nowhere")
    lines = Lines()
    world = reopen(tmp_path, log=lines)
    assert len(lines.warnings()) == 32
    with pytest.raises(Missing):
        world.by_hash(hash_of(b"none"), everything)


def test_why_an_entry_was_skipped_is_told(tmp_path: Path) -> None:
    put_document(tmp_path, "/large.md", b"x" * (FILE_MAX + 1))
    put_document(tmp_path, "/empty.md", b"", b"---\nver")
    (tmp_path / "none.md").symlink_to("nowhere")
    (tmp_path / "out.md").symlink_to("/etc/passwd")
    put_document(tmp_path, "/good.md", plain(1, b"good"))
    lines = Lines()
    assert reopen(tmp_path, log=lines).paths() == ["/good.md"]
    assert {fields["path"]: fields["error"] for _, fields in lines.warnings()} == {
        "/large.md": "/large.md: v1 cannot be read: 1050625 bytes, more than a version may have",
        "/empty.md": "v2 is torn: cut off, v1 is torn: empty",
        "/none.md": "a symlink that is no document",
        "/out.md": "a symlink that is no document",
    }


@pytest.mark.parametrize("name", ["open", "scandir"])
def test_a_root_that_cannot_be_listed_is_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, name, refuse)
        with pytest.raises(BadRoot, match="Permission denied"):
            reopen(tmp_path)


def test_hidden_metadata_stays_out_of_the_catalog(tmp_path: Path) -> None:
    put_document(
        tmp_path, "/a.md", b"---\nversion: 1\narchived: false\nmeta.etag: x\nmeta.agent: y\n---\n# A\n"
    )
    entry = reopen(tmp_path).catalog.get("/a.md")
    assert entry is not None
    assert entry.metadata == {"agent": "y"}


# A model of the whole, step by step.

PATHS = ["/a.md", "/d/b.md", "/d/e/c.md", "/d", "/d/e", "/a.md/x.md", "/.h/index.md"]
BODIES = [b"one\n", b"# Two\n", b"three", b"# Two\n\nmore"]
METADATA = st.sampled_from(
    [{}, {"title": "T"}, {"tags": "x,y", "importance": "0.9"}, {"retention": "2"}, {"type": "Note"}]
)


class Modelled:
    """What a document is, by the contract alone."""

    def __init__(self) -> None:
        self.versions: dict[int, tuple[bytes, dict[str, str], int]] = {}
        self.archived = False

    @property
    def current(self) -> int:
        return max(self.versions, default=0)


class Machine(RuleBasedStateMachine):
    """Random writes, with the clock going anywhere, against `Modelled` documents and against fresh starts."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="world-"))
        self.world = reopen(self.root)
        self.model: dict[str, Modelled] = {}

    def teardown(self) -> None:
        close_all()
        shutil.rmtree(self.root)

    def expected_refusal(self, path: str, expected: int | None) -> type[WorldError] | None:
        document = self.model.get(path, Modelled())
        if expected is not None and expected != document.current:
            return Conflict
        if any(other.startswith(path + "/") or path.startswith(other + "/") for other in self.model):
            return PathCollision
        return Archived if document.archived else None

    def write(self, path: str, body: bytes, metadata: dict[str, str], now: float) -> None:
        document = self.model.setdefault(path, Modelled())
        last = document.versions[document.current][2] if document.versions else 0
        document.versions[document.current + 1] = (body, metadata, max(int(now), last))
        if "retention" in metadata:
            for number in [
                number
                for number in document.versions
                if number <= document.current - int(metadata["retention"])
            ]:
                del document.versions[number]

    @rule(
        path=st.sampled_from(PATHS),
        body=st.sampled_from(BODIES),
        metadata=METADATA,
        expected=st.none() | st.integers(0, 3),
        now=st.integers(0, 9),
    )
    def publish(
        self, path: str, body: bytes, metadata: dict[str, str], expected: int | None, now: int
    ) -> None:
        refusal = self.expected_refusal(path, expected)
        if refusal:
            with pytest.raises(refusal):
                self.world.publish(path, body, metadata, expected, now)
            return
        document = self.model.get(path)
        same = document is not None and document.versions[document.current][:2] == (body, metadata)
        outcome = self.world.publish(path, body, metadata, expected, now)
        if not same:
            self.write(path, body, metadata, now)
        assert (outcome.version, outcome.created) == (self.model[path].current, not same)
        assert outcome.modified == self.model[path].versions[outcome.version][2]

    @rule(
        path=st.sampled_from(PATHS),
        body=st.sampled_from(BODIES),
        metadata=METADATA,
        off=st.integers(0, 1),
        now=st.integers(0, 9),
    )
    def append(self, path: str, body: bytes, metadata: dict[str, str], off: int, now: int) -> None:
        document = self.model.get(path)
        if document is None:
            with pytest.raises(Missing):
                self.world.append(path, body, metadata, 1, now)
        elif off or document.archived:
            with pytest.raises(Conflict if off else Archived):
                self.world.append(path, body, metadata, document.current + off, now)
        else:
            base, declared, _ = document.versions[document.current]
            whole = base + (b"" if base.endswith(b"\n") else b"\n") + body
            self.world.append(path, body, metadata, document.current, now)
            self.write(path, whole, merged(path, declared, metadata), now)

    @rule(path=st.sampled_from(PATHS), archived=st.booleans())
    def change_state(self, path: str, archived: bool) -> None:
        change = self.world.archive if archived else self.world.unarchive
        if path not in self.model:
            with pytest.raises(Missing):
                change(path)
            return
        assert change(path).version == self.model[path].current
        self.model[path].archived = archived

    @rule(path=st.sampled_from(PATHS), body=st.sampled_from(BODIES))
    def abandon(self, path: str, body: bytes) -> None:
        try:
            commit = self.world.prepare_publish(path, body + b"!", {}, None, 0)
        except WorldError:
            return
        if isinstance(commit, Commit):
            commit.abandon()

    @precondition(lambda self: self.model)
    @rule()
    def restart(self) -> None:
        self.world = reopen(self.root)

    @invariant()
    def it_answers_as_the_model_does(self) -> None:
        for path in PATHS:
            document = self.model.get(path)
            if document is None:
                with pytest.raises(Missing):
                    self.world.current(path)
                continue
            current = self.world.current(path)
            assert (current.version, current.archived) == (document.current, document.archived)
            for number, (body, metadata, modified) in document.versions.items():
                version, newest = self.world.version(path, number)
                assert (version.body, version.metadata, version.modified) == (body, metadata, modified)
                assert newest == document.current
            history = self.world.history(path)
            assert history.chain_valid
            assert dict(history.versions) == {number: held[2] for number, held in document.versions.items()}
        live = sorted(path for path, document in self.model.items() if not document.archived)
        assert self.world.paths() == live
        for body in {document.versions[document.current][0] for document in self.model.values()}:
            holders = [
                path for path in live if self.model[path].versions[self.model[path].current][0] == body
            ]
            if holders:
                assert self.world.by_hash(hash_of(body), everything).path == holders[0]

    @invariant()
    def a_fresh_start_answers_the_same(self) -> None:
        fresh = World.open(str(self.root), log=Lines(), read_only=True)
        try:
            assert fresh.paths() == self.world.paths() == sorted(self.world.catalog.paths())
            for path in fresh.paths():
                assert fresh.catalog.get(path) == self.world.catalog.get(path)
            for directory in ("/", "/d", "/d/e", "/.h", "/a.md", "/versions"):
                assert fresh.visible_directory(directory, everything) == self.world.visible_directory(
                    directory, everything
                )
                if fresh.is_directory(directory):
                    for archived in (False, True):
                        listed = fresh.children(directory, everything, archived)
                        assert listed == self.world.children(directory, everything, archived)
        finally:
            fresh.close()


def test_it_equals_the_model_and_a_fresh_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    run_state_machine_as_test(
        Machine, settings=settings(max_examples=15, stateful_step_count=20, deadline=None)
    )

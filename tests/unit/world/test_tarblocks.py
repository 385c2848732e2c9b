"""The tar that backups are made of: what is written is read, also by another tar; what is anything else is an error."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.world.tarblocks import BadTar, Member, TarWriter, members
from app.world.versionfile import FILE_MAX

NAMES = st.binary(min_size=1, max_size=300).filter(lambda name: b"\0" not in name)
FILES = st.tuples(NAMES, st.binary(max_size=1500), st.integers(-(2**33), 2**35))
LINKS = st.tuples(NAMES, NAMES, st.integers(0, 2**35))


def written(entries: list[tuple[bytes, bytes | None, bytes, int]]) -> bytes:
    out = io.BytesIO()
    writer = TarWriter(out.write)
    for name, data, target, modified in entries:
        if data is None:
            writer.link(name, target, modified)
        else:
            writer.file(name, data, modified, 0o644)
    writer.end()
    return out.getvalue()


def read(tar: bytes) -> list[Member]:
    return list(members(io.BytesIO(tar).read))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.one_of(
            FILES.map(lambda one: (one[0], one[1], b"", one[2])),
            LINKS.map(lambda one: (one[0], None, one[1], one[2])),
        )
    )
)
def test_what_is_written_is_read(entries: list[tuple[bytes, bytes | None, bytes, int]]) -> None:
    found = read(written(entries))
    assert [(one.name, one.data, one.target, one.modified) for one in found] == [
        (name, data or b"", target, modified) for name, data, target, modified in entries
    ]


def test_the_digest_of_a_member_is_that_of_all_before_it() -> None:
    out = io.BytesIO()
    writer = TarWriter(out.write)
    digests = []
    for number in range(3):
        digests.append(writer.digest)
        writer.file(b"%d" % number * 200, bytes(number * 700), 0, 0o600)
    writer.end()
    assert [one.digest for one in read(out.getvalue())] == digests


def test_another_tar_unpacks_it(tmp_path: Path) -> None:
    name = b"d/" + b"\xff" * 120
    tar = written([(name, b"text", b"", 1_700_000_000), (b"d/link", None, b"versions/x/v1", 5)])
    subprocess.run(["tar", "xf", "-", "-C", tmp_path], input=tar, check=True)
    file = tmp_path / name.decode("utf-8", "surrogateescape")
    assert (file.read_bytes(), file.stat().st_mtime) == (b"text", 1_700_000_000)
    assert (tmp_path / "d" / "link").readlink() == Path("versions/x/v1")


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=4096), st.integers(0, 4096))
def test_bytes_of_any_kind_are_members_or_an_error(noise: bytes, place: int) -> None:
    whole = written([(b"a" * 150, b"text", b"", 1), (b"b", None, b"c", 2)])
    for tar in (noise, whole[:place] + noise + whole[place:], whole[:place]):
        try:
            assert all(len(one.data) <= FILE_MAX for one in read(tar))
        except BadTar:
            pass


def member(kind: bytes, size: int = 0, target: str = "", **fields: object) -> bytes:
    head = tarfile.TarInfo("a")
    head.type, head.size, head.linkname = kind, size, target
    for name, value in fields.items():
        setattr(head, name, value)
    return head.tobuf(tarfile.GNU_FORMAT)


@pytest.mark.parametrize(
    "tar",
    [
        member(tarfile.DIRTYPE),
        member(tarfile.LNKTYPE, target="b"),
        member(tarfile.CHRTYPE),
        member(tarfile.FIFOTYPE),
        member(tarfile.XHDTYPE, 512) + bytes(512),
        member(tarfile.GNUTYPE_SPARSE),
        member(tarfile.SYMTYPE, 512, "b") + bytes(512),
        member(tarfile.REGTYPE, target="b"),
        member(tarfile.REGTYPE, FILE_MAX + 1),
        member(tarfile.REGTYPE, 2**60),
        member(tarfile.REGTYPE, mtime=2**70),
        member(tarfile.GNUTYPE_LONGNAME, 2**40),
        member(tarfile.GNUTYPE_LONGNAME, 512) + bytes(512) + bytes(1024),
        2 * (member(tarfile.GNUTYPE_LONGNAME, 512) + bytes(512)) + member(tarfile.REGTYPE),
        member(tarfile.REGTYPE, 5) + b"short",
        b"x" * 512,
        bytes(512) + b"x" * 512,
        b"",
    ],
)
def test_other_members_are_an_error_before_they_are_read(tar: bytes) -> None:
    asked: list[int] = []
    stream = io.BytesIO(tar + (bytes(1024) if tar[-5:] != b"short" and tar else b""))

    def counted(size: int) -> bytes:
        asked.append(size)
        return stream.read(size)

    with pytest.raises(BadTar):
        list(members(counted))
    assert max(asked) <= FILE_MAX + 512

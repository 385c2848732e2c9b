"""A world and what goes with it in one file, taken while it may be served and written to.

The file is a tar that any tar can unpack: a head, the operator's files under `etc/`, the documents under `world/`, and a last member that says what has
to be there before it, so that a file cut short or damaged is told from a whole one (`restore` asks for it).

Each document is whole and its chain sound at the moment it is taken: its versions are read from the newest down, so that what retention removes
meanwhile, the oldest, is missing at the end and never in the middle; and its pointer is written as the newest of them demands. Two documents
may be some seconds apart. Nothing is kept in memory but one version at a time.
"""

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec

from app.world.chain import chain_fault
from app.world.disk import Root, read_regular, write_all
from app.world.documents import VERSIONS, Documents, Flight, Sight
from app.world.errors import Damaged, DiskFailure, Escapes, reason
from app.world.inventory import Place, Unread, inventory
from app.world.shelf import SIDECAR, STATES
from app.world.tarblocks import TarWriter

FORMAT = 1
HEAD = b"demarkus-appliance-backup.json"
LAST = b"complete.json"
ETC = b"etc/"
WORLD = b"world/"

_ATTEMPTS = 100

Progress = Callable[[int, int], None]
Named = list[tuple[str, str]]
"""Paths, each with what there is to say about it."""


class Head(msgspec.Struct, frozen=True):
    """The first member: what this is."""

    format: int
    program: str


class Last(msgspec.Struct, frozen=True):
    """The last member: what is before it. `unsound` counts the documents whose faults were there before the backup was."""

    documents: int
    versions: int
    unsound: int
    sha256: str


class BackupReport(msgspec.Struct):
    """What a backup has come to so far.

    `left_out` could not be taken; `curtailed` are documents of which it has less than there is; `unsound` those that are
    in it with the fault they had. `plain` counts files that are no documents, which no backup holds.
    """

    documents: int = 0
    versions: int = 0
    left_out: Named = []
    curtailed: Named = []
    unsound: Named = []
    plain: int = 0


def write_backup(
    root: str,
    target: str,
    etc: Mapping[str, bytes],
    now: float,
    program: str,
    progress: Progress = lambda done, total: None,
    report: BackupReport | None = None,
) -> BackupReport:
    """Back a world up to the file `target`, readable by its owner alone; `etc` are the other files by name.

    The file gets its name when it is whole and on the disk, in the place of an earlier one, which stays until then; a
    symlink leads to the file that is meant. Raises `BadRoot`, and `OSError` from writing, `FileExistsError` for a name
    that something else than a file has.
    """
    report = report or BackupReport()
    target = os.path.realpath(target)
    if os.path.lexists(target) and not stat.S_ISREG(os.lstat(target).st_mode):
        raise FileExistsError(errno.EEXIST, "it is there and no file", target)
    opened = Root(root)
    try:
        folder = os.path.dirname(target)
        partial = os.path.join(folder, f".demarkus-backup-{secrets.token_hex(8)}")
        fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            try:
                out = TarWriter(lambda data: write_all(fd, data))
                _Backup(opened, out, int(now), report).write(etc, program, progress)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(partial, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise
        sync_folder(folder)
    finally:
        opened.close()
    return report


class _Backup:
    """One backup under way. What `out` raises ends it; what a document does is in the report."""

    def __init__(self, root: Root, out: TarWriter, now: int, report: BackupReport) -> None:
        self._root = root
        self._documents = Documents(root, Flight())
        self._out = out
        self._now = now
        self._report = report

    def write(self, etc: Mapping[str, bytes], program: str, progress: Progress) -> None:
        out, report = self._out, self._report
        out.file(HEAD, msgspec.json.encode(Head(FORMAT, program)) + b"\n", self._now, 0o600)
        for name, data in etc.items():
            out.file(ETC + name.encode(), data, self._now, 0o600)
        places = list(self._places())
        for done, place in enumerate(places):
            progress(done, len(places))
            try:
                self._take(place)
            except (Damaged, DiskFailure) as error:
                report.left_out.append((place.path, _why(place, error)))
        progress(len(places), len(places))
        last = Last(report.documents, report.versions, len(report.unsound), out.digest)
        out.file(LAST, msgspec.json.encode(last) + b"\n", self._now, 0o600)
        out.end()

    def _places(self) -> Iterator[Place]:
        """Where the documents are; what else there is goes into the report."""
        unread: set[str] = set()
        for place in inventory(self._root):
            if isinstance(place, Unread):
                unread.add(place.path)
                self._report.left_out.append((place.path, place.why))
            elif place.plain:
                self._report.plain += 1
            elif place.path not in unread:
                yield place

    def _take(self, place: Place) -> None:
        """One document. Raises `Damaged` or `DiskFailure`, before anything of it is written, if nothing of it can be had."""
        for _ in range(_ATTEMPTS):
            sight = self._look(place)
            try:
                newest = self._take_seen(place, sight)
            finally:
                sight.close()
            if newest:
                target = b"versions/%b/v%d" % (place.names[-1], newest)
                self._out.link(_member(place), target, self._now)
                self._report.documents += 1
                return
        raise Damaged("is pruned faster than it can be read")

    def _look(self, place: Place) -> Sight:
        """What lies at a place. Raises `Damaged` unless it is a document."""
        try:
            fd = self._root.open_directory(place.names[:-1])
            try:
                sight = self._documents.look(fd, place.names, place.path)
            finally:
                os.close(fd)
        except (OSError, Escapes) as error:
            raise Damaged(f"cannot be read: {reason(error)}") from error
        if sight.served is None:
            sight.close()
            lost = "has versions but no pointer that leads to one" if place.stored else "is no document"
            raise Damaged(sight.damage or lost)
        return sight

    def _take_seen(self, place: Place, sight: Sight) -> int:
        """The versions and the archive state of a document; the number of the newest, 0 if all went meanwhile."""
        report = self._report
        state, fault = _state(sight)
        folder = _member(place, VERSIONS) + b"/"
        taken: list[int] = []

        def copied() -> Iterator[tuple[int, bytes]]:
            try:
                for number, data, modified in self._documents.files(sight):
                    self._out.file(folder + b"v%d" % number, data, modified, 0o644)
                    taken.append(number)
                    yield number, data
            except (Damaged, DiskFailure) as error:
                if not taken:
                    raise
                why = f"{_why(place, error)}; v{taken[-1]} is the oldest that was taken"
                report.curtailed.append((place.path, why))

        fault = chain_fault(copied()) or fault
        if not taken:
            return 0
        for torn in sight.shelf.torn:
            report.curtailed.append((place.path, f"{torn.fault}; v{taken[0]} is the newest that was taken"))
        if fault:
            report.unsound.append((place.path, fault))
        if state:
            self._out.file(folder + SIDECAR, state, self._now, 0o644)
        report.versions += len(taken)
        return taken[0]


def _state(sight: Sight) -> tuple[bytes, str]:
    """The bytes of the archive state, none if there is no such file, and what is wrong with them. Raises `Damaged`."""
    if not sight.shelf.sidecar:
        return b"", ""
    try:
        state = read_regular(sight.folder, SIDECAR)[0]
    except FileNotFoundError:
        return b"", ""
    except OSError as error:
        raise Damaged(f"archive-state cannot be read: {reason(error)}") from error
    return state, "" if state in STATES else "archive-state is malformed"


def _why(place: Place, error: Damaged | DiskFailure) -> str:
    return str(error).removeprefix(f"{place.path}: ")


def _member(place: Place, *below: bytes) -> bytes:
    """The name of a document's pointer, or of its folder among the versions."""
    return WORLD + b"/".join((*place.names[:-1], *below, place.names[-1]))


def sync_folder(folder: str) -> None:
    """Waits until what was renamed into a folder is on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

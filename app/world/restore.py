"""A backup back into a world, all of it or nothing.

What is in the file is not believed. A name has to be one that a world has, in the folder that is made for it, and nothing is opened through a symlink; the
versions of every document have to be a chain; and the last member has to vouch for all that came before. All of it is built in a folder beside the one
that is meant, synced, checked, and gets its name by one rename at the very end, behind the operator's files: a world must not be served without the
tokens that close it. A restore that was cut off leaves that folder, which no server looks at and the next restore removes.
"""

import fcntl
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from app.protocol.limits import PATH_MAX
from app.world.backup import ETC, FORMAT, HEAD, LAST, WORLD, Head, Last, sync_folder
from app.world.disk import DIRECTORY, NAME_MAX, Names, write_all
from app.world.documents import VERSIONS, version_in
from app.world.errors import WorldError, reason
from app.world.shelf import SIDECAR
from app.world.tarblocks import BadTar, Member, members
from app.world.verify import Tally, verify
from app.world.versionfile import number_of

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


Owner = tuple[int, int] | None


class CannotRestore(WorldError):
    """Nothing was restored; the text says what stands in the way."""


class Restored(msgspec.Struct):
    """What was restored. `faults` are those that the documents had when they were backed up; `places` where the operator's files are now."""

    documents: int = 0
    versions: int = 0
    faults: list[str] = []
    places: dict[str, str] = {}
    without_place: list[str] = []
    """The operator's files that nobody named a place for."""


def restore(read: Callable[[int], bytes], root: str, places: Mapping[str, str]) -> Restored:
    """Restore a backup into the content root, which must not exist or be empty.

    `read` gives so many bytes of the backup, fewer only at its end. `places` says where each of the operator's files goes; there must be nothing
    there yet, no line that is not a comment, or the very same bytes. Raises `CannotRestore`, and `OSError` from writing.
    """
    target = os.path.realpath(root)
    _check_target(target)
    with _Stage(target) as stage:
        restored = Restored()
        etc = _unpack(read, stage, restored)
        for name, data in etc.items():
            if name not in places:
                restored.without_place.append(name)
            elif not _may_take(places[name], data):
                raise CannotRestore(f"{places[name]} exists: move it away first, nothing is overwritten")
        os.sync()
        for name, data in etc.items():
            if name in places:
                _place(places[name], data, stage.owner)
                restored.places[name] = places[name]
        stage.finish()
    return restored


def _check_target(target: str) -> None:
    try:
        names = os.listdir(target)
    except FileNotFoundError:
        parent = os.path.dirname(target)
        if not os.path.isdir(parent):
            raise CannotRestore(f"there is no folder {parent}; make it first") from None
        return
    except OSError as error:
        raise CannotRestore(f"{target}: {reason(error)}") from error
    if names:
        raise CannotRestore(f"{target} is not empty; a backup is restored into a new folder or an empty one")
    if os.path.ismount(target):
        raise CannotRestore(f"{target} is where a file system is mounted; name a folder in it")


def _unpack(read: Callable[[int], bytes], stage: "_Stage", restored: Restored) -> dict[str, bytes]:
    """Puts the documents of a backup into the stage and checks them; gives the operator's files."""
    etc: dict[str, bytes] = {}
    last: Last | None = None
    try:
        for place, member in enumerate(members(read)):
            if last is not None:
                raise BadTar("there is more after its end")
            if place == 0:
                _check_head(member)
            elif member.name == LAST:
                last = msgspec.json.decode(member.data, type=Last)
                if last.sha256 != member.digest:
                    raise BadTar("it is not what was written; something has damaged it")
            elif member.name.startswith(ETC):
                etc[_etc_name(member)] = member.data
            else:
                stage.add(member)
        if last is None:
            raise BadTar("its last part is missing")
    except (BadTar, msgspec.DecodeError) as error:
        raise CannotRestore(f"this is no whole backup: {error}") from error
    tally = Tally()
    restored.faults = list(verify(stage.path, tally))
    restored.documents, restored.versions = tally.documents, tally.versions
    if (tally.documents, tally.faulty) != (last.documents, last.unsound) or tally.plain:
        told = "; ".join(restored.faults[:3]) or f"{tally.documents} documents, not {last.documents}"
        raise CannotRestore(f"this is no sound backup: {told}")
    return etc


def _check_head(member: Member) -> None:
    if member.name != HEAD:
        raise BadTar("it does not begin as one")
    head = msgspec.json.decode(member.data, type=Head)
    if head.format != FORMAT:
        raise BadTar(f"it has format {head.format}, this program reads {FORMAT}")


def _etc_name(member: Member) -> str:
    name = member.name.removeprefix(ETC)
    if member.target or b"/" in name or not name.isascii():
        raise BadTar(f"{member.name.decode('utf-8', 'replace')!a} is none of its files")
    return name.decode()


def _is_at(fd: int, path: str) -> bool:
    """Whether the directory that is open is the one at the path."""
    try:
        here = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(here, os.fstat(fd))


class _Stage:
    """The folder in which a world is built, beside the one that it becomes. A context: what is not finished goes away."""

    def __init__(self, target: str) -> None:
        self._target = target
        parent, name = os.path.split(target)
        self.path = os.path.join(parent, f".{name}.restoring")
        try:
            like = os.stat(target)
            self._mode = stat.S_IMODE(like.st_mode)
        except FileNotFoundError:
            like = os.stat(parent)
            self._mode = 0o755
        self.owner: Owner = (like.st_uid, like.st_gid) if os.geteuid() == 0 else None
        """Whom everything is given to, if that is up to us: root restores for a service that runs as somebody else."""
        self._fd = -1
        self._finished = False

    def __enter__(self) -> "_Stage":
        with suppress(FileExistsError):
            os.mkdir(self.path, 0o700)
        self._fd = os.open(self.path, DIRECTORY)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._fd)
            raise CannotRestore(f"another restore to {self._target} is running") from None
        if not _is_at(self._fd, self.path):
            # Another restore has come to its end between our opening and locking: this is the world now.
            os.close(self._fd)
            raise CannotRestore(f"another restore to {self._target} has just ended")
        try:
            self._clear()  # what one that was cut off has left
            self._own(self._fd)
        except (OSError, RecursionError) as error:
            os.close(self._fd)
            raise CannotRestore(f"{self.path} is in the way and cannot be removed: {error}") from error
        return self

    def __exit__(self, *_: object) -> None:
        if not self._finished:
            with suppress(OSError, RecursionError):
                self._clear()
                os.rmdir(self.path)
        os.close(self._fd)

    def add(self, member: Member) -> None:
        """One file or pointer of a document. Raises `BadTar` for anything else."""
        names = _names(member)
        try:
            fd = self._directory(names[:-1])
            try:
                if member.target:
                    os.symlink(member.target, names[-1], dir_fd=fd)
                    if self.owner:
                        os.chown(names[-1], *self.owner, dir_fd=fd, follow_symlinks=False)
                else:
                    self._file(fd, names[-1], member)
            finally:
                os.close(fd)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise BadTar(f"{_shown(names)} is in it twice, or within something that is no folder") from error

    def finish(self) -> None:
        """Gives it its name."""
        os.fchmod(self._fd, self._mode)
        os.fsync(self._fd)
        os.rename(self.path, self._target)
        self._finished = True
        sync_folder(os.path.dirname(self._target))

    def _clear(self) -> None:
        """Empties it. By its descriptor: the folder above may be another user's, who could put a link in its place."""
        with os.scandir(self._fd) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        for name, is_directory in found:
            if is_directory:
                shutil.rmtree(name, dir_fd=self._fd)
            else:
                os.unlink(name, dir_fd=self._fd)

    def _directory(self, names: Names) -> int:
        fd = os.open(b".", DIRECTORY, dir_fd=self._fd)
        for name in names:
            try:
                try:
                    os.mkdir(name, 0o755, dir_fd=fd)
                except FileExistsError:
                    below = os.open(name, DIRECTORY, dir_fd=fd)
                else:
                    below = os.open(name, DIRECTORY, dir_fd=fd)
                    self._own(below)
            finally:
                os.close(fd)
            fd = below
        return fd

    def _file(self, directory: int, name: bytes, member: Member) -> None:
        fd = os.open(name, _NEW_FILE, 0o644, dir_fd=directory)
        try:
            write_all(fd, member.data)
            self._own(fd)
            os.utime(fd, (member.modified, member.modified))
        finally:
            os.close(fd)

    def _own(self, fd: int) -> None:
        if self.owner:
            os.fchown(fd, *self.owner)


def _names(member: Member) -> Names:
    """The names that lead to a file or pointer of a document, from the root of the world. Raises `BadTar` if it is neither."""
    path = member.name.removeprefix(WORLD)
    names = tuple(path.split(b"/"))
    right = (
        member.name.startswith(WORLD)
        and len(path) < PATH_MAX
        and not {b"", b".", b".."} & set(names)
        and max(map(len, names)) <= NAME_MAX
        and b"\0" not in path + member.target
    )
    if right and member.target:
        number = version_in(member.target, names[-1])
        right = (
            VERSIONS not in names and member.target == b"versions/%b/v%d" % (names[-1], number) and number > 0
        )
    elif right:
        *parents, versions, document, name = (b"", b"", b"", *names)[-max(3, len(names)) :]
        number = number_of(name.decode("ascii", "replace"))
        right = (
            versions == VERSIONS
            and VERSIONS not in (*parents, document)
            and bool(document)
            and (name == SIDECAR or (number > 0 and name == b"v%d" % number))
        )
    if not right:
        raise BadTar(f"{_shown(names)} is nothing that a world holds")
    return names


def _shown(names: Names) -> str:
    return ascii(b"/".join(names).decode("utf-8", "replace"))


def _may_take(path: str, data: bytes) -> bool:
    """Whether a file may be written here: there is none, none that says anything, or the same."""
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError:
        return True
    lines = (line.strip() for line in found.splitlines())
    return found == data or all(not line or line.startswith((b"#", b";")) for line in lines)


def _place(path: str, data: bytes, owner: Owner) -> None:
    """Writes one of the operator's files; mode and owner are those of the file before it, else 0600 and the folder's."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        os.makedirs(folder, mode=0o700)
        if owner:
            os.chown(folder, *owner)
    like, mode = os.stat(folder), 0o600
    with suppress(FileNotFoundError):
        like = os.stat(path)
        mode = stat.S_IMODE(like.st_mode)
    partial = f"{path}.restoring"
    with suppress(FileNotFoundError):
        os.unlink(partial)
    fd = os.open(partial, _NEW_FILE, 0o600)
    try:
        if owner:
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, mode)
        write_all(fd, data)
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(partial, path)
    sync_folder(folder)

"""Where the frozen executable enters Python: what two processes and an unpacked folder ask for, then the program itself.

One file is two processes: the boot loader unpacks libraries into a folder of its own (`_MEI`, its process id in eight hexadecimal digits, six
random characters; below $TMPDIR), starts itself again as Python, hands on every signal, waits, and removes the folder. Left to the program:

- The boot loader may be killed without a word to its child, which would go on holding the port: the kernel is asked to end the child too.
- A killed boot loader leaves its folder behind: the next start removes it, told from others by a file that only this program's folder holds, the
  first that is unpacked, and from those in use by a lock on the folder. (Under the unit's protections no process sees what another one runs, not
  even of its own service.) As long as nothing is locked, because the boot loader is still at work, its process has to be gone.
- Where old files are cleaned away, as /tmp is of many systems, a server outlives its folder's age: systemd-tmpfiles passes over a locked folder.
- What the boot loader put into the environment, LD_LIBRARY_PATH above all, is for this process alone: a program started from here gets what
  was there before, this program itself too, which then unpacks a folder of its own.
"""

import contextlib
import ctypes
import fcntl
import os
import re
import shutil
import signal
import sys
import time

MARK = "demarkus-appliance.unpacked"
"""A file that the build puts into the folder before all others; see demarkus-appliance.spec."""
QUIET_SECONDS = 120.0
"""Nothing in a folder has changed for so long: whatever has its boot loader's number is not unpacking into it."""

_FOLDER = re.compile(r"_MEI([0-9a-f]{8}).{6}")
_PR_SET_PDEATHSIG = 1


def end_with(parent: int) -> None:
    """Has the kernel kill this process as soon as its parent is gone; a parent that went meanwhile ends it at once."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def hold(folder: str) -> None:
    """Marks the folder as in use for as long as this process lives; the kernel sees to the end."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(descriptor, fcntl.LOCK_SH)  # it stays open


def restore_environment() -> None:
    """Gives back the environment that the program was started with; what is loaded here no longer needs the other."""
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]
    before = os.environ.pop("LD_LIBRARY_PATH_ORIG", "")
    if before:
        os.environ["LD_LIBRARY_PATH"] = before
    else:
        os.environ.pop("LD_LIBRARY_PATH", None)


def remove_leftovers(beside: str, loader: int) -> None:
    """Removes the folders beside this one that nobody uses; `loader` is this one's boot loader. What stands in the way is left where it is.

    A folder whose boot loader may be at work is in use even without a lock: its Python has yet to start.
    """
    parent = os.path.dirname(beside)
    try:
        own = _program_of(loader)
        names = os.listdir(parent)
    except OSError:
        return
    for name in names:
        found = _FOLDER.fullmatch(name)
        path = os.path.join(parent, name)
        if found is None or path == beside or not _is_ours(path) or _is_held(path):
            continue
        process = int(found[1], 16)
        # This one's boot loader has one folder only: in a container all of them have the same number.
        if _may_unpack(process, own if process != loader else "", path):
            continue
        _remove(path)


def _is_ours(path: str) -> bool:
    try:
        return os.lstat(path).st_uid == os.getuid() and os.path.isfile(os.path.join(path, MARK))
    except OSError:
        return False


def _is_held(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _may_unpack(process: int, program: str, path: str) -> bool:
    """Whether this process may be the boot loader that unpacks into the folder.

    It may be hidden, or be started from a copy of the program, or its number may be another process's by now: there the folder's age decides.
    """
    try:
        os.kill(process, 0)  # under the unit's protections too it tells of every process of the same user
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    try:
        if _program_of(process) == program:
            return True
    except OSError:  # it is hidden, or has ended meanwhile
        pass
    return _changes(path)


def _changes(path: str) -> bool:
    """Whether anything was written below the folder lately. One that cannot be read is as good as changing."""
    try:
        changed = max(
            os.lstat(os.path.join(at, name)).st_mtime
            for at, _, files in os.walk(path)
            for name in (os.curdir, *files)
        )
    except (OSError, ValueError):
        return True
    return time.time() - changed < QUIET_SECONDS


def _remove(path: str) -> None:
    """Removes the folder, the mark last: if that is cut short, the next start goes on."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        for name in sorted(os.listdir(descriptor), key=MARK.__eq__):
            with contextlib.suppress(FileNotFoundError):  # another start removes it too
                try:
                    os.unlink(name, dir_fd=descriptor)
                except IsADirectoryError:
                    shutil.rmtree(name, dir_fd=descriptor)
        os.rmdir(path)
    except OSError:  # something stands in the way
        pass
    finally:
        os.close(descriptor)


def _program_of(process: int) -> str:
    # An upgrade replaces the file: what still runs from the old one has a name that says so.
    return os.readlink(f"/proc/{process}/exe").removesuffix(" (deleted)")


def main() -> int:
    folder: str = sys._MEIPASS  # type: ignore[attr-defined]  # the boot loader sets it
    unpacked = _FOLDER.fullmatch(os.path.basename(folder))
    if unpacked is not None:
        loader = int(unpacked[1], 16)
        end_with(loader)
        hold(folder)
        remove_leftovers(folder, loader)
    restore_environment()
    from app.commands.program import main as program

    return program()


if __name__ == "__main__":
    sys.exit(main())

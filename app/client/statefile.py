"""How a small file under `~/.mark` is read and replaced: whole or not at all, whatever happens in between."""

import os


def state_directory() -> str:
    """The client's own directory (operations §9), made when something is first kept there."""
    return os.path.join(os.path.expanduser("~"), ".mark")


def read_text(path: str) -> str:
    """The file's text; empty when there is no such file. Raises `OSError`, `UnicodeDecodeError`."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def replace_text(path: str, text: str, mode: int) -> None:
    """Puts `text` in the place of the file by rename, with these permissions; makes its directory (0700). Raises `OSError`."""
    import tempfile  # commands that only read, which is nearly all, need not load it

    directory = os.path.dirname(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=directory)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

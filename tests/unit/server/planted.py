"""Content roots written file by file, as another server would leave them: no writer of ours, no syncs, chosen times."""

import hashlib
import os
from collections.abc import Sequence

MODIFIED = 1_790_000_000


def plant(
    root: str,
    path: str,
    bodies: Sequence[bytes] = (b"x\n",),
    *,
    metadata: str = "type: Document\n",
    modified: int = MODIFIED,
    archived: bool = False,
) -> None:
    """A document with these bodies as its versions, an hour apart, newest last (store §1, §3, §4)."""
    folder, name = os.path.split(os.path.join(root, path.lstrip("/")))
    shelf = os.path.join(folder, "versions", name)
    os.makedirs(shelf, exist_ok=True)
    previous = ""
    for number, body in enumerate(bodies, 1):
        data = f"---\nversion: {number}\narchived: false\n{previous}{metadata}---\n".encode() + body
        previous = f"previous-hash: sha256-{hashlib.sha256(data).hexdigest()}\n"
        file = os.path.join(shelf, f"v{number}")
        with open(file, "wb") as out:
            out.write(data)
        when = modified + 3600 * number
        os.utime(file, (when, when))
    if archived:
        with open(os.path.join(shelf, "archive-state"), "wb") as out:
            out.write(b"true\n")
    os.symlink(f"versions/{name}/v{len(bodies)}", os.path.join(folder, name))


def silent(level: str, message: str, /, **fields: object) -> None:
    """A log that nobody reads."""

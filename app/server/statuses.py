"""From what happened in the world to what the client is told: one table (wire §5, §6).

The first row that fits decides. A detail of the disk never leaves the process: the log has it, the client gets "internal error". `Conflict` has
no row: its answer is a block of its own (wire §5.4), which the handler of the write words.
"""

from app.protocol.fault import Fault
from app.world.errors import (
    Archived,
    BadDocument,
    Escapes,
    Missing,
    PathCollision,
    ReadOnly,
    TooLarge,
    WorldError,
)

_TABLE: tuple[tuple[type[WorldError], str, str], ...] = (
    (Missing, "not-found", "{path} not found"),
    (Escapes, "not-found", "{path} not found"),
    (Archived, "archived", "document is archived; unarchive first"),
    (PathCollision, "bad-request", "cannot publish {path}: {error}: path collision"),
    (BadDocument, "bad-request", "cannot write {path}: {error}"),
    (TooLarge, "server-error", "content exceeds size limit"),
    (ReadOnly, "not-permitted", "server is read-only"),
    (WorldError, "server-error", "internal error"),
)


def fault_of(error: WorldError, path: str) -> Fault:
    """The answer to a request for `path` that met `error`; the fault's detail is the error's own text."""
    status, message = next((status, message) for kind, status, message in _TABLE if isinstance(error, kind))
    return Fault(status, message.format(path=path, error=error), str(error))

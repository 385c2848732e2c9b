"""One request on its way through the server: parsed, canonical, with what its caller may do.

Handlers take the world and a call and give a response; they see neither the socket nor the token table. What the caller may do is fixed here once,
so that one request never sees two token tables (wire §4 step 5).
"""

from collections.abc import Callable

import msgspec

from app.protocol.text import Log, strip_control
from app.world.tokens import Access


class Call(msgspec.Struct, frozen=True):
    """A request after dispatch steps 1–5: `path` is canonical, `access` belongs to the token it carried."""

    verb: str
    path: str
    metadata: dict[str, str]
    body: bytes
    access: Access
    log: Log

    @property
    def may_read(self) -> Callable[[str], bool]:
        """Whether the caller may read a path."""
        return self.access.may_read

    @property
    def shown_path(self) -> str:
        """The path as a log line may hold it."""
        return shown(self.path)


def shown(text: str) -> str:
    """A request's text without control bytes, for the log (operations §5)."""
    return text if text.isprintable() else strip_control(text)

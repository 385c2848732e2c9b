"""Which live documents have a body of a given hash (store §8).

Digests are the 32 raw bytes, shared by both directions. Almost every body is that of one document, so that the path
itself stands where several would stand in a list.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from app.protocol.paths import sort_key


class HashIndex:
    """Content hashes to paths and back. Hashes are written `sha256-` and hex."""

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self._paths: dict[bytes, str | list[str]] = {}

    def __len__(self) -> int:
        """How many documents are known."""
        return len(self._digests)

    def put(self, path: str, content_hash: str) -> None:
        """The live document at `path` has this body from now on."""
        digest = bytes.fromhex(content_hash[7:])
        if self._digests.get(path) == digest:
            return
        self.drop(path)
        self._digests[path] = digest
        held = self._paths.get(digest)
        if held is None:
            self._paths[digest] = path
        elif isinstance(held, str):
            self._paths[digest] = sorted([held, path], key=sort_key)
        else:
            insort(held, path, key=sort_key)

    def drop(self, path: str) -> None:
        """There is no live document at `path` any more."""
        digest = self._digests.pop(path, None)
        if digest is None:
            return
        held = self._paths[digest]
        if isinstance(held, str):
            del self._paths[digest]
        else:
            del held[bisect_left(held, sort_key(path), key=sort_key)]
            if len(held) == 1:
                self._paths[digest] = held[0]

    def paths(self, content_hash: str) -> Sequence[str]:
        """The live documents whose body has this hash, sorted bytewise."""
        held = self._paths.get(bytes.fromhex(content_hash[7:]), ())
        return (held,) if isinstance(held, str) else held

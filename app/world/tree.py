"""The documents known to be in each directory, so that asking about a directory does not walk the disk.

Nodes by directory name; documents by their whole path, whose text the catalog holds anyway, with whether they are
live. A node goes with its last document. What is known here may have changed on disk behind our back: a caller checks
what it finds, and asks the disk where it finds nothing (store §8).
"""

from collections.abc import Hashable, Iterator, Mapping

_UNSEEN_MAX = 256


class _Node:
    __slots__ = ("directories", "documents")

    def __init__(self) -> None:
        self.directories: dict[str, _Node] = {}
        self.documents: dict[str, bool] = {}


class Tree:
    """Documents, live and archived, by directory."""

    def __init__(self) -> None:
        self._root = _Node()
        self._unseen: dict[tuple[Hashable, str], Hashable] = {}

    def put(self, path: str, live: bool) -> None:
        """There is a document at this canonical path."""
        self._unseen.clear()
        node = self._root
        for name in path.split("/")[1:-1]:
            node = node.directories.setdefault(name, _Node())
        node.documents[path] = live

    def drop(self, path: str) -> None:
        """There is no document at this path any more."""
        self._unseen.clear()
        names = path.split("/")[1:-1]
        nodes = [self._root]
        for name in names:
            below = nodes[-1].directories.get(name)
            if below is None:
                return
            nodes.append(below)
        nodes[-1].documents.pop(path, None)
        while names and not nodes[-1].documents and not nodes[-1].directories:
            nodes.pop()
            del nodes[-1].directories[names.pop()]

    def directly_in(self, directory: str) -> Mapping[str, bool]:
        """The documents of one directory, with whether they are live."""
        node = self._at(directory)
        return {} if node is None else node.documents

    def below(self, directory: str) -> Iterator[tuple[str, bool]]:
        """Every document in or below a directory, with whether it is live; in no order."""
        node = self._at(directory)
        waiting = [] if node is None else [node]
        while waiting:
            node = waiting.pop()
            yield from node.documents.items()
            waiting.extend(node.directories.values())

    def note_unseen(self, caller: Hashable, directory: str, state: Hashable) -> None:
        """All of a directory was looked through, and there was nothing for this kind of caller.

        Holds until a document comes or goes, anywhere. `state` is what the directory itself looked like on disk.
        """
        if len(self._unseen) >= _UNSEEN_MAX:
            self._unseen.clear()
        self._unseen[caller, directory] = state

    def is_unseen(self, caller: Hashable, directory: str, state: Hashable) -> bool:
        """Whether that is noted."""
        return self._unseen.get((caller, directory)) == state

    def _at(self, directory: str) -> _Node | None:
        node: _Node | None = self._root
        for name in directory.split("/")[1:] if directory != "/" else ():
            if node is None:
                return None
            node = node.directories.get(name)
        return node

"""Documents held in memory and searched as a world is: the bundled manual, or a single document fetched from elsewhere.

The same entries, section index and task search as a server's, without a disk, a network or a token (task §1).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

import msgspec

from app.markdown.outline import section
from app.protocol.paths import canonical, sort_key
from app.protocol.tables import LookupRow
from app.search.answer import Answer
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import Query, task_query


class Page(msgspec.Struct, frozen=True):
    """A document: where it is, what its author declared, and its text."""

    path: str
    metadata: Mapping[str, str]
    body: bytes


class Everybody:
    """A reader who may read all there is."""

    key = "everybody"

    @staticmethod
    def may_read(path: str) -> bool:
        return True


class Pages:
    """A few documents and their index."""

    def __init__(self, pages: Iterable[Page]) -> None:
        self._pages = {page.path: page for page in pages}
        self._catalog = Catalog()
        self._index = SectionIndex(self._catalog, "wide")
        for path in sorted(self._pages, key=sort_key):
            page = self._pages[path]
            entry = entry_of(path, page.metadata, page.body, 0)
            self._catalog.put(entry)
            self._index.put(self._index.gather(entry, page.body, 1))
        self._index.settle()

    @property
    def sections(self) -> int:
        """How many sections there are."""
        return self._index.stats().sections

    def rows(self) -> list[LookupRow]:
        """The entries of all pages, the most important first."""
        return self._catalog.lookup(
            Query("/", "*", ("*",), limit=max(len(self._pages), 1)), Everybody.may_read
        )

    def is_page(self, path: str) -> bool:
        """Whether there is a page at a canonical path."""
        return path in self._pages

    def is_folder(self, path: str) -> bool:
        """Whether there are pages below a canonical path."""
        prefix = path.rstrip("/") + "/"
        return any(page.startswith(prefix) for page in self._pages)

    def named(self, name: str) -> str | None:
        """The path of the page or folder that a name means: `.md` and what stands before its last part may be missing."""
        path = canonical(name if name.startswith("/") else f"/{name}")
        for exact in (path, f"{path}.md"):
            if self.is_page(exact) or self.is_folder(exact):
                return exact
        found = [page for page in self._pages if page.endswith((path, f"{path}.md"))]
        return found[0] if len(found) == 1 else None

    def similar(self, name: str) -> list[str]:
        """The paths of pages that a name may have been meant for, the likeliest first."""
        last = {page.rpartition("/")[2].removesuffix(".md"): page for page in sorted(self._pages)}
        wanted = name.rpartition("/")[2].removesuffix(".md")
        return [last[near] for near in get_close_matches(wanted, last, n=3)]

    def text(self, path: str, anchor: str = "") -> bytes | None:
        """A page, or the section of it that an anchor names; None if there is none."""
        page = self._pages.get(canonical(path))
        if page is None:
            return None
        return section(page.body, anchor) if anchor else page.body

    def task(self, text: str, scope: str = "/") -> Answer:
        """The sections that together cover a task, below a folder or in one page. Raises `Fault` (task §2)."""
        path = canonical(scope)
        query = task_query(text, scope=path, document=path if self.is_page(path) else "")
        return self._index.task(query, Everybody(), lambda path, version: self._pages[path].body)


@cache
def manual() -> Pages:
    """The product's own manual, as it is bundled with this program."""
    root = resources.files("app") / "manual"
    declared = json.loads((root / "metadata.json").read_text("utf-8"))
    return Pages(
        Page(path, _texts(declared.get(path.lstrip("/"), {})), file.read_bytes())
        for path, file in _files(root, "")
    )


def _files(folder: Traversable, path: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        name = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _files(entry, name)
        elif name.endswith(".md"):
            yield name, entry


def _texts(declared: Mapping[str, object]) -> dict[str, str]:
    """Declared metadata as a version file holds it: texts, lists as comma lists."""
    return {
        key: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in declared.items()
    }

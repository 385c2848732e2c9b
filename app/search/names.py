"""The names of a document as typo recovery compares them (task §10): what it is called and where it is.

They are made when a document is indexed and kept with it, so that a mistyped query needs no look at the catalog.
"""

from app.search.entry import Entry, tags_of
from app.search.marks import runs

__all__ = ["key", "names"]


def key(text: str) -> str:
    """A text as it is compared: its words, one space between (task §10)."""
    return " ".join(runs(text))


def names(entry: Entry) -> str:
    """The keys of title, tags, aliases, path and file name of a document, a line each, none twice."""
    path = entry.path.removesuffix(".md")
    texts = (
        entry.title,
        *entry.tags,
        *tags_of(entry.metadata.get("aliases", "")),
        path,
        path.rpartition("/")[2],
    )
    return "\n".join(filter(None, dict.fromkeys(map(key, texts))))

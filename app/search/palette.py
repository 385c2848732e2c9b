"""The strict matcher for people who type in the reading room (task §13): every term in one page, as it is typed.

It has the fields and weights of task mode and nothing else of it: terms are substrings, all of them must be there, and
there is no singular, no filler, no recovery. The browser does the same over the pages that its reader may open, so
this is also what a script in the browser is held to. Pure functions.
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from app.markdown.sections import Section, sections
from app.protocol.paths import sort_key
from app.search.entry import Entry, tags_of
from app.search.records import CODED, HEADED, NAMED, TEXT, TITLED, WEIGHTS
from app.search.wording import folded

__all__ = ["ROWS_MAX", "Page", "Row", "page_of", "search"]

ROWS_MAX = 12


class Page(Struct, frozen=True):
    """What a page is found by. All texts are folded."""

    path: str
    fields: tuple[tuple[int, str], ...]
    """Weights and texts, the highest weight first."""
    headings: tuple[tuple[str, str], ...]
    """Texts and anchors of the headings that can be jumped to."""


class Row(Struct, frozen=True):
    """A page, and the heading in it to jump to, if there is one."""

    path: str
    anchor: str = ""


def page_of(entry: Entry, body: bytes) -> Page:
    """The page of a document."""
    found = sections(body)
    title = folded(entry.title)
    headings = [(folded(one.heading), one.anchor) for one in found if _is_named(one, title)]
    names = [*entry.tags, *tags_of(entry.metadata.get("aliases", ""))]
    texts = [entry.metadata.get("description", ""), *(one.own_text for one in found)]
    fields = [
        (WEIGHTS[TITLED], title),
        *((WEIGHTS[NAMED], folded(name)) for name in names),
        *((WEIGHTS[HEADED], text) for text, _ in headings),
        *((WEIGHTS[CODED], folded(code)) for one in found for code in one.codes),
        (TEXT, folded(" ".join(texts))),
    ]
    return Page(entry.path, tuple(fields), tuple(headings))


def _is_named(section: Section, title: str) -> bool:
    """Whether a heading is a field: a level-one heading that repeats the title is not."""
    return section.level > 1 or (section.level == 1 and folded(section.heading) != title)


def search(typed: str, pages: Iterable[Page]) -> list[Row]:
    """The best pages for what was typed, at most `ROWS_MAX`."""
    query = folded(typed)
    terms = query.split(" ") if query else []
    if not terms:
        return []
    scored = [(score, page) for page in pages if (score := _score(query, terms, page))]
    scored.sort(key=lambda pair: (-pair[0], sort_key(pair[1].path)))
    return [Row(page.path, _anchor(query, terms, page)) for _, page in scored[:ROWS_MAX]]


def _score(query: str, terms: Sequence[str], page: Page) -> int:
    """The sum of what the terms are worth and twice what the whole query is; 0 if a term is nowhere."""
    weights = [_weight(term, page) for term in terms]
    return sum(weights) + 2 * _weight(query, page) if all(weights) else 0


def _weight(text: str, page: Page) -> int:
    """The weight of the highest field that holds a text."""
    return next((weight for weight, field in page.fields if text in field), 0)


def _anchor(query: str, terms: Sequence[str], page: Page) -> str:
    """The first heading that holds the query, or every term."""
    held = (anchor for text, anchor in page.headings if query in text or all(term in text for term in terms))
    return next(held, "")

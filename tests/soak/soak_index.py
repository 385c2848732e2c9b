"""Long runs of the section index: many thousand writes, folds and questions, and a life of writes that leaves nothing behind.

`scripts/soak index`; some ten minutes.
"""

import random

from hypothesis import settings

from app.search.catalog import Catalog
from app.search.index import SectionIndex
from tests.unit.search.plain import Caller, Document, Plain, filled, found
from tests.unit.search.test_index import Writes, asked

LIVES = 40_000
WORDS = [f"word{number}" for number in range(3_000)]

TestWrites = Writes.TestCase
TestWrites.settings = settings(max_examples=200, stateful_step_count=100, deadline=None)


def test_a_life_of_writes_ends_as_a_fresh_start_begins() -> None:
    chosen, plain = random.Random(1), Plain("wide")
    catalog = Catalog()
    index = SectionIndex(catalog, "wide")
    live: dict[str, Document] = {}
    for version in range(1, LIVES + 1):
        path = f"/d{chosen.randrange(20)}/{chosen.randrange(100)}.md"
        if chosen.random() < 0.2:
            live.pop(path, None)
            catalog.drop(path)
            index.drop(path)
        else:
            parts = [
                f"{'#' * chosen.randint(1, 3)} {chosen.choice(WORDS)}\n\n{' '.join(chosen.choices(WORDS, k=30))}\n"
                for _ in range(chosen.randint(1, 6))
            ]
            entry, body, _ = live[path] = plain.put(path, {}, "\n".join(parts).encode(), version)
            catalog.put(entry)
            index.put(index.extract(entry, body, version))
        index.fold()
        if version % 4_000 == 0:
            while index.fold():
                pass
            fresh = filled(live.values(), "wide")
            for query in (asked(" ".join(chosen.choices(WORDS, k=chosen.randint(1, 2)))) for _ in range(300)):
                assert found(index.match(query, Caller())) == found(fresh.match(query, Caller()))
            held, anew = index.stats(), fresh.stats()
            assert (held.documents, held.sections) == (anew.documents, anew.sections)
            assert held.size < 2 * anew.size  # what is struck off is an eighth of a segment at most

"""How fast LOOKUP answers in catalog mode, and what an entry costs in memory, as the world grows.

`python -m tests.bench.catalog [--json]`. Worlds of 1,000, 10,000 and 100,000 documents; a fixed mix of queries (rare,
common and absent words, tags, several words, filters, scopes, everything), each asked several times. Times are CPU
times of one thread, since a lookup waits for nothing. The peer is a plain loop over all entries with a sort, run on the
same queries in the same process; the ratio is its median over the catalog's.
"""

import argparse
import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import accumulate

from app.protocol.paths import sort_key
from app.protocol.runes import fold, lower
from app.search.catalog import Catalog
from app.search.entry import Entry, entry_of
from app.search.query import Query, parse_query

SIZES = (1_000, 10_000, 100_000)
ROUNDS = 25

_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def vocabulary(seed: int, size: int) -> list[str]:
    chosen = random.Random(seed)
    return ["".join(chosen.choices(_LETTERS, range(26, 0, -1), k=chosen.randint(3, 10))) for _ in range(size)]


WORDS = vocabulary(1, 5_000)
WEIGHTS = list(accumulate(range(len(WORDS), 0, -1)))
TAGS = vocabulary(2, 300)


def entries(size: int) -> Iterator[Entry]:
    """A world of this size: titles of a few words, some of them in half of all titles, three tags, five keys."""
    chosen = random.Random(3)
    for number in range(size):
        words = chosen.choices(WORDS, cum_weights=WEIGHTS, k=chosen.randint(2, 6))
        title = " ".join([*words, "guide"] if number % 2 else words).capitalize()
        metadata = {
            "agent": f"bench-{number % 7}",
            "importance": f"{chosen.randint(0, 20) / 20}",
            "tags": ",".join(chosen.sample(TAGS, 3)),
            "title": title,
            "type": "Decision" if number % 50 == 0 else "Document",
        }
        path = f"/{chosen.choice(TAGS)}/{chosen.choice(TAGS)}/{words[0]}-{number}.md"
        yield entry_of(path, metadata, b"", 1_700_000_000 + chosen.randrange(80_000_000))


def queries() -> list[Query]:
    rare, middle = WORDS[-1:-6:-1], WORDS[1000:1006]
    asked: list[tuple[str, dict[str, str]]] = [
        ("/", {"query": "keelhauling"}),
        ("/", {"query": "guide"}),
        ("/", {"query": "guide", "limit": "100"}),
        ("/", {"query": "*"}),
        ("/", {"query": "*", "filter": "type=Decision"}),
        ("/", {"query": "*", "filter": f"tag={TAGS[5]}"}),
        ("/", {"query": "guide", "filter": "modified-after=2026-01-01"}),
        (f"/{TAGS[3]}", {"query": "*"}),
        (f"/{TAGS[3]}", {"query": "guide"}),
        ("/", {"query": f"guide to {middle[0]} {middle[1]}"}),
        *[("/", {"query": word}) for word in (*rare, *middle)],
        *[("/", {"query": tag}) for tag in TAGS[:5]],
        *[("/", {"query": f"{word} {tag}"}) for word, tag in zip(middle, TAGS[10:], strict=False)],
    ]
    return [parse_query(scope, metadata) for scope, metadata in asked]


def plain_lookup(held: list[Entry], query: Query) -> list[str]:
    """The peer."""
    found = []
    folded = [fold(term) for term in query.terms]
    for entry in held:
        if not entry.path.startswith(query.prefix) or not query.filter.matches(entry):
            continue
        score = 0
        if not query.match_all:
            title, tags = lower(entry.title), set(map(fold, entry.tags))
            score = sum(term in title or key in tags for term, key in zip(query.terms, folded, strict=True))
            if not score:
                continue
        found.append((-score, -entry.importance, -entry.modified, sort_key(entry.path), entry.path))
    return [row[-1] for row in sorted(found)[: query.limit]]


def milliseconds(work: Callable[[], object]) -> float:
    before = time.thread_time()
    work()
    return (time.thread_time() - before) * 1e3


def own_bytes(entry: Entry) -> int:
    """The entry's own texts, once."""
    texts = [entry.path, entry.title, *entry.metadata, *entry.metadata.values()]
    return sum(len(text.encode()) for text in texts)


def memory(size: int) -> tuple[float, float]:
    """Bytes for each entry that the catalog holds, ready to answer, and how many of them are its own texts."""
    own = 0
    tracemalloc.start()
    catalog = Catalog()
    for entry in entries(size):
        own += own_bytes(entry)
        catalog.put(entry)
    catalog.prepare()
    del entry
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / size, own / size


def steps(catalog: Catalog, query: Query) -> list[float]:
    """Milliseconds of each step of an answer, which is what others wait."""
    found: list[float] = []
    work = catalog.lookup_steps(query, lambda path: True)
    going = True

    def step() -> None:
        nonlocal going
        going = next(work, found) is not found

    while going:
        found.append(milliseconds(step))
    return found


def measure(size: int) -> dict[str, float]:
    held = list(entries(size))
    asked = queries()
    catalog = Catalog()
    load = sum(milliseconds(lambda: catalog.put(entry)) for entry in held)  # noqa: B023
    prepare = milliseconds(catalog.prepare)
    times: list[float] = []
    medians: list[float] = []
    peers: list[float] = []
    for query in asked:
        before = time.thread_time()
        expected = plain_lookup(held, query)
        peers.append((time.thread_time() - before) * 1e3)
        assert [row.path for row in catalog.lookup(query, lambda path: True)] == expected
        taken = [milliseconds(lambda: catalog.lookup(query, lambda path: True)) for _ in range(ROUNDS)]  # noqa: B023
        times += taken
        medians.append(statistics.median(taken))
    again = held[: min(size, 2_000)]
    puts = [milliseconds(lambda: catalog.put(entry)) for entry in again]  # noqa: B023
    letters = " ".join("abcdefghijklmnopqrstuvwxyz012345")
    worst = steps(catalog, parse_query("/", {"query": letters, "limit": "1000"}))
    per_entry, own = memory(size)
    return {
        "lookup_p50_ms": statistics.median(times),
        "lookup_p99_ms": statistics.quantiles(times, n=100)[98],
        "worst_query_p50_ms": max(medians),
        "letters_ms": sum(worst),
        "letters_longest_step_ms": max(worst),
        "peer_p50_ms": statistics.median(peers),
        "ratio_p50_peer": statistics.median(peers) / statistics.median(times),
        "put_p50_ms": statistics.median(puts),
        "put_p99_ms": statistics.quantiles(puts, n=100)[98],
        "load_ms": load,
        "prepare_ms": prepare,
        "bytes_per_entry": per_entry,
        "own_bytes_per_entry": own,
        "overhead_bytes_per_entry": per_entry - own,
    }


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="one object: figure_documents -> number")
    as_json = options.parse_args().json
    figures = {size: measure(size) for size in SIZES}
    if as_json:
        print(
            json.dumps(
                {f"{name}_{size}": round(value, 4) for size in SIZES for name, value in figures[size].items()}
            )
        )
        return
    print(f"{'documents':<26}" + "".join(f"{size:>12,}" for size in SIZES))
    for name in figures[SIZES[0]]:
        print(f"{name:<26}" + "".join(f"{figures[size][name]:>12,.3f}" for size in SIZES))


if __name__ == "__main__":
    main()

"""How fast LOOKUP answers in task mode, and how long others wait for it.

`scripts/bench task [--json] [--data FOLDER]`. Five copies of the documentation corpus under different folders (about 60,000
sections), bodies in memory. Times are CPU times of one thread; `longest` is the longest step of any answer of a class, which is what everybody
else waits, and `reads` the bodies that were read for an answer, rows included. Classes:

    word       a word from a section's own text
    words      two words that stand beside each other in one, so that the phrase is there
    task       the body and the task questions of the developers' data, as they are worded
    joined     two such words with a hyphen, in a sentence
    literal    words with a dot or an underscore in them, from code and from text
    frequent   the 32 most frequent words that are no fillers; `cold` the first such question after a start
    longest    4,096 bytes of words of the corpus
    absent     words that nobody has, which leads to typo recovery
    typo       one letter changed in a word of a title, in a world of 20,000 documents whose names hold 200,000 words

`body` is body mode on the queries of `words`, for comparison.
"""

import json
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from app.markdown.sections import sections
from app.search.catalog import Catalog
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import parse_query, task_query
from app.search.wording import FILLERS
from tests.bench.devdata import checked, documents, moved, options

COPIES = 5
QUERIES = 100
PLAIN = re.compile(r"[a-z0-9]{2,32}")
LITERAL = re.compile(r"\b[a-z]+[._][a-z]+\b")
NAMES = 20_000
WORDS_IN_A_NAME = 10


class Everyone:
    key = "everyone"

    def may_read(self, path: str) -> bool:
        return True


class World:
    """An index, and the bodies of its documents."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog)
        self.bodies: dict[str, bytes] = {}
        self.reads = 0

    def read(self, path: str, _: int) -> bytes:
        self.reads += 1
        return self.bodies[path]


class Timed(NamedTuple):
    """One answer: seconds, seconds of its longest step, bodies read."""

    whole: float
    longest: float
    reads: int


def corpus(data: Path) -> World:
    world = World()
    held = list(documents(data))
    for copy in range(COPIES):
        for entry, body in held:
            one = moved(entry, f"/copy{copy}")
            world.bodies[one.path] = body
            world.catalog.put(one)
            world.index.put(world.index.gather(one, body, 1))
    world.index.settle()
    return world


def names() -> tuple[World, list[str]]:
    """A world of many names, and words of titles in it."""
    random.seed(5)
    world, words = World(), []
    for number in range(NAMES):
        word = [
            "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(5, 10)))
            for _ in range(WORDS_IN_A_NAME)
        ]
        entry = entry_of(
            f"/d{number:05}.md", {"title": " ".join(word[:6]), "tags": ",".join(word[6:])}, b"", 0
        )
        world.bodies[entry.path] = b""
        world.catalog.put(entry)
        world.index.put(world.index.gather(entry, b"", 1))
        words.append(word[0])
    world.index.settle()
    return world, words


def timed(world: World, text: str) -> Timed:
    world.reads = 0
    longest = 0.0
    started = before = time.thread_time()
    steps = world.index.task_steps(task_query(text), Everyone(), world.read)
    for _ in steps:
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    now = time.thread_time()
    return Timed(now - started, max(longest, now - before), world.reads)


def asked(data: Path, rng: random.Random) -> dict[str, list[str]]:
    """The queries of each class."""
    counts: Counter[str] = Counter()
    neighbours: list[tuple[str, str]] = []
    literals: set[str] = set()
    for _, body in documents(data):
        for section in sections(body):
            words = section.own_text.lower().split()
            plain = [word for word in words if PLAIN.fullmatch(word) and word not in FILLERS]
            counts.update(plain)
            literals.update(found[0] for found in LITERAL.finditer(section.own_text.lower()))
            if len(plain) > 20:
                at = rng.randrange(len(words) - 1)
                if PLAIN.fullmatch(words[at]) and PLAIN.fullmatch(words[at + 1]):
                    neighbours.append((words[at], words[at + 1]))
    pairs = rng.sample(neighbours, 2 * QUERIES)
    questions = json.loads((data / "questions-dev.json").read_text())["questions"]
    common = [word for word, _ in counts.most_common(400)]
    rare = rng.sample(sorted(counts), 4_000)
    return {
        "word": [one if one not in FILLERS else f"{one} {other}" for one, other in pairs[:QUERIES]],
        "words": [" ".join(pair) for pair in pairs[:QUERIES]],
        "task": [one["query"] for one in questions if one["kind"] != "catalog"],
        "joined": [f"the {one}-{other} of it" for one, other in pairs[QUERIES:]],
        "literal": rng.sample(sorted(literals), QUERIES),
        "frequent": [" ".join(rng.sample(common[:32], 32)) for _ in range(20)],
        "longest": [" ".join(rng.sample(rare, 700))[:4096] for _ in range(5)]
        + [" ".join(rng.sample(common, 400))[:4096] for _ in range(5)],
        "absent": [f"xq{number}zzy{tail}" for number, tail in enumerate(rng.sample(common, 20))],
    }


def typed(word: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(word) - 1)
    return word[:at] + ("q" if word[at] != "q" else "z") + word[at + 1 :]


def figures_of(name: str, times: Sequence[Timed]) -> dict[str, float]:
    ordered = sorted(one.whole for one in times)
    return {
        f"task_{name}_p50_ms": 1000 * ordered[len(ordered) // 2],
        f"task_{name}_p99_ms": 1000 * ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)],
        f"task_{name}_longest_ms": 1000 * max(one.longest for one in times),
        f"task_{name}_reads": sum(one.reads for one in times) / len(times),
    }


def measure(data: Path) -> dict[str, float]:
    rng = random.Random(1)
    queries = asked(data, rng)
    world = corpus(data)
    stats = world.index.stats()
    figures: dict[str, float] = {
        "task_sections": stats.sections,
        "task_index_ratio": stats.size / sum(map(len, world.bodies.values())),
    }
    world.index.match(parse_query("/", {"query": "warm", "match": "body"}), Everyone())  # who may read what
    figures |= figures_of("frequent_cold", [timed(world, queries["frequent"][0])])
    for name, texts in queries.items():
        figures |= figures_of(name, [timed(world, text) for text in texts])
    figures |= figures_of("body", list(_body(world, queries["words"])))
    named, words = names()
    timed(named, "warm")
    figures |= figures_of("typo", [timed(named, typed(word, rng)) for word in rng.sample(words, 20)])
    return figures


def _body(world: World, texts: Iterable[str]) -> Iterable[Timed]:
    for text in texts:
        query = parse_query("/", {"query": text, "match": "body", "limit": "5"})
        started = time.thread_time()
        world.index.lookup(query, Everyone(), world.read)
        whole = time.thread_time() - started
        yield Timed(whole, whole, 5)


def show(figures: dict[str, float]) -> None:
    sections_, ratio = figures["task_sections"], figures["task_index_ratio"]
    print(f"{sections_:,.0f} sections; index {ratio:.2f} of the bodies; milliseconds of CPU\n")
    print(f"{'':<16}{'p50':>9}{'p99':>9}{'longest':>9}{'reads':>9}")
    for key in figures:
        if key.endswith("_p50_ms"):
            name = key.removeprefix("task_").removesuffix("_p50_ms")
            row = [figures[f"task_{name}_{one}"] for one in ("p50_ms", "p99_ms", "longest_ms", "reads")]
            print(f"{name:<16}" + "".join(f"{value:>9.1f}" for value in row))


def main() -> None:
    given = options(__doc__).parse_args()
    figures = measure(checked(given.data))
    if given.json:
        print(json.dumps({key: round(value, 3) for key, value in figures.items()}))
    else:
        show(figures)


if __name__ == "__main__":
    main()

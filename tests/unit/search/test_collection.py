"""The segments: how many there are after how many writes, and that nothing of what is gone stays."""

from app.search.catalog import Catalog
from app.search.collection import STALE, TIER
from app.search.entry import entry_of
from app.search.index import SectionIndex
from app.search.query import parse_query
from tests.unit.search.plain import Caller


def words(start: int, count: int = 50) -> str:
    return " ".join(f"w{number}" for number in range(start, start + count))


class World:
    """An index with its catalog."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.index = SectionIndex(self.catalog)

    def put(self, path: str, text: str, *, packed: bool = True) -> None:
        body = f"# {path[1:]}\n\n{text}\n".encode()
        entry = entry_of(path, {"title": path[1:]}, body, 0)
        self.catalog.put(entry)
        self.index.put(self.index.extract(entry, body, 1) if packed else self.index.gather(entry, body, 1))

    def drop(self, path: str) -> None:
        self.catalog.drop(path)
        self.index.drop(path)

    def fold(self) -> int:
        steps = 0
        while self.index.fold():
            steps += 1
        return steps

    def paths(self, text: str) -> list[str]:
        query = parse_query("/", {"query": text, "limit": "1000"})
        return [match.path for match in self.index.match(query, Caller())]


def filled(count: int) -> World:
    world = World()
    for number in range(count):
        world.put(f"/{number:04}.md", f"{words(number)} common")
    return world


def test_republishing_one_document_leaves_nothing_behind() -> None:
    world = filled(20)
    world.fold()
    for number in range(1_000):
        world.put("/0007.md", words(50 * number))
        if number % 10 == 0:
            world.index.fold()
    world.fold()
    fresh = filled(20)
    fresh.put("/0007.md", words(50 * 999))
    fresh.fold()
    world.index.settle()
    fresh.index.settle()
    assert world.index.stats() == fresh.index.stats()


def test_segments_stay_few_and_a_posting_is_moved_seldom() -> None:
    world = World()
    most = steps = 0
    for number in range(400):
        world.put(f"/{number:04}.md", words(number))
        steps += world.fold()
        most = max(most, world.index.stats().segments)
    assert most < 4 * TIER
    assert world.index.stats().documents == 400
    assert steps < 400 * 4


def test_struck_documents_are_written_off_in_time() -> None:
    world = filled(200)
    world.index.settle()
    for number in range(200):
        if number % 3:
            world.drop(f"/{number:04}.md")
    world.fold()
    stats = world.index.stats()
    assert stats.documents == 67
    assert stats.postings <= filled(200).index.stats().postings * (67 / 200) * (1 + 1 / STALE)


def test_writes_during_a_merge_are_seen_and_stay() -> None:
    world = filled(100)
    assert world.index.fold()  # a merge is under way
    world.drop("/0001.md")
    world.put("/0002.md", "rewritten")
    world.put("/new.md", "common")
    assert "/0001.md" not in world.paths("common")
    assert world.paths("rewritten") == ["/0002.md"]
    world.fold()
    assert world.paths("rewritten") == ["/0002.md"]
    assert len(world.paths("common")) == 99


def test_all_documents_may_go_during_a_merge() -> None:
    world = filled(30)
    assert world.index.fold()
    for number in range(30):
        world.drop(f"/{number:04}.md")
    world.fold()
    assert world.index.stats().segments == 0
    assert world.paths("common") == []


def test_documents_that_wait_are_found_replaced_and_dropped() -> None:
    world = World()
    for path in ("/a.md", "/c.md", "/b.md"):  # out of order
        world.put(path, "pump", packed=False)
    world.put("/c.md", "hull", packed=False)
    world.drop("/a.md")
    assert world.paths("pump") == ["/b.md"]
    assert world.paths("hull") == ["/c.md"]
    assert world.index.stats().documents == 2


def test_reading_a_world_makes_one_segment() -> None:
    world = World()
    for number in range(300):
        world.put(f"/{number:04}.md", words(number), packed=False)
    world.index.settle()
    assert world.index.stats().segments == 1
    assert world.index.stats().documents == 300


def test_a_document_with_more_sections_than_a_short_number_holds() -> None:
    world = filled(5)
    world.put("/big.md", "\n".join(f"# a{number % 7}\nw{number % 100}" for number in range(66_000)))
    assert world.index.stats().sections == 66_006
    world.index.settle()
    assert len(world.paths("common")) == 5
    assert len(world.paths("w99")) == 660
    world.drop("/big.md")
    world.index.settle()
    assert world.index.stats().sections == 5

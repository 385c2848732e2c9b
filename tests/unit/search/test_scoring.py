"""Bounds are bounds: no record's strength passes what was summed for it in bytes (task §9)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.search.collection import Collection
from app.search.entry import entry_of
from app.search.extract import extract
from app.search.records import Column, Records
from app.search.scoring import Part, Scale, Sheet, measured
from app.search.texts import Texts

_BYTE = st.builds(lambda times, kind: times | kind << 5, st.integers(0, 31), st.integers(0, 4))


def _records(sections: int) -> Records:
    body = "\n\n".join(f"# S\n\n{'word ' * (3**number % 1000)}" for number in range(sections)).encode()
    collection = Collection()
    collection.put(extract(entry_of("/a.md", {}, body, 0), body, 1, "wide"))
    (held,) = collection
    steps = held.records()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            records: Records = done.value
            return records


RECORDS = _records(12)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 32).flatmap(
        lambda terms: st.lists(
            st.lists(_BYTE, min_size=RECORDS.size, max_size=RECORDS.size).map(bytes),
            min_size=terms,
            max_size=terms,
        )
    ),
    st.sets(st.integers(0, 31)),
)
def test_no_value_passes_its_bound(rows: list[bytes], covered: set[int]) -> None:
    part = Part(RECORDS, None, Texts(RECORDS, lambda _: None, lambda *_: None))
    sheet = Sheet(part, None)
    for row in rows:
        sheet.add(Column(row, row, b"\1"))
    scale = Scale([part], sheet.having)
    for _ in measured([sheet], scale):
        pass
    covered = {term for term in covered if term < len(rows)}
    sheet.halve(covered)
    bounds = sheet.bound.to_bytes(sheet.size, "little")
    for record in range(sheet.size):
        parts = sheet.parts(record, scale)
        value = sum(parts) - sum(parts[term] for term in covered) / 2
        assert value <= bounds[record] * scale.unit + 1e-6
        assert sum(parts) <= 1000 + 1e-6

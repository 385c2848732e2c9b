"""Content hashes to paths (store §8)."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from app.world.hashindex import HashIndex

HASHES = ["sha256-" + hashlib.sha256(bytes([n])).hexdigest() for n in range(3)]
PATHS = ["/b", "/a", "/a/b", "/\udcff", "/\U0001f600", "/ä", "/\uffee"]


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([*HASHES, ""])), max_size=40))
def test_it_equals_a_plain_map(changes: list[tuple[str, str]]) -> None:
    index = HashIndex()
    model: dict[str, str] = {}
    for path, content_hash in changes:
        if content_hash:
            index.put(path, content_hash)
            model[path] = content_hash
        else:
            index.drop(path)
            model.pop(path, None)
        assert len(index) == len(model)
        for wanted in HASHES:
            paths = [path for path, held in model.items() if held == wanted]
            assert list(index.paths(wanted)) == sorted(
                paths, key=lambda path: path.encode("utf-8", "surrogateescape")
            )

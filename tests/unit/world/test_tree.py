"""The documents known to be in each directory."""

from hypothesis import given
from hypothesis import strategies as st

from app.world.tree import Tree

PATHS = ["/a", "/b", "/d/a", "/d/b", "/d/e/a", "/d/e/f/a", "/g/h/a"]
DIRECTORIES = ["/", "/d", "/d/e", "/d/e/f", "/g", "/g/h", "/none", "/a", "/d/none"]


@given(st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from([True, False, None])), max_size=40))
def test_it_equals_a_plain_map(changes: list[tuple[str, bool | None]]) -> None:
    tree = Tree()
    model: dict[str, bool] = {}
    for path, live in changes:
        if live is None:
            tree.drop(path)
            model.pop(path, None)
        else:
            tree.put(path, live)
            model[path] = live
        for directory in DIRECTORIES:
            prefix = directory.rstrip("/") + "/"
            below = {path: live for path, live in model.items() if path.startswith(prefix)}
            assert dict(tree.below(directory)) == below
            assert tree.directly_in(directory) == {
                path: live for path, live in below.items() if "/" not in path[len(prefix) :]
            }
    for path in PATHS:
        tree.drop(path)
    assert vars_of(tree) == ({}, {})


def vars_of(tree: Tree) -> tuple[object, object]:
    """What an empty tree still holds."""
    return tree._root.directories, tree._root.documents


def test_a_deep_tree_needs_no_deep_stack() -> None:
    tree = Tree()
    path = "/d" * 2000 + "/a"
    tree.put(path, True)
    assert list(tree.below("/")) == [(path, True)]
    tree.drop(path)
    assert list(tree.below("/")) == []

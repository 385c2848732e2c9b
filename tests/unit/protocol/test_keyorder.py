"""The natural order of keys: the contract's examples, and that it is an order at all (wire §3.2)."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol.keyorder import compare, natural_key

CHAINS = [
    "rel < rel-2 < rel-10 < rel-a < rela",
    "a1 < a1b < a1- < a2 < a10 < ab",
    "content-hash < current-version < etag < modified < status < tags < version < your-version",
    "a < a0 < a00 < a1 < a01 < a001 < a2",  # equal numbers: shorter run first
    "a1- < a10 < a100",  # a zero behind a non-zero digit: both runs start from 1
    "a0b < a0- < a0-b < a00",
    "- < -1 < -a < 0 < 0a < 0- < 1 < a",
    "x9 < x18446744073709551615 < x18446744073709551616 < x99999999999999999999999999",
    "a b < a_b < aB < ab",
    "Z < a < é < ω",
]


def ends(chain: str) -> list[str]:
    return chain.split(" < ")


@pytest.mark.parametrize("chain", CHAINS)
def test_chains(chain: str) -> None:
    keys = ends(chain)
    assert sorted([*keys[2:], *keys[:2]], key=natural_key) == keys
    for a, b in itertools.combinations(keys, 2):
        assert compare(a, b) < 0 < compare(b, a)


def test_it_is_a_total_order_on_all_short_keys() -> None:
    keys = ["".join(letters) for size in range(5) for letters in itertools.product("a-012", repeat=size)]
    keys = sorted(keys, key=natural_key)[::2]  # every other one: the pairs are many
    assert all(compare(a, b) < 0 < compare(b, a) for a, b in itertools.combinations(keys, 2))


keys_ = st.text(st.sampled_from("ab-_0129é٣") | st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=200, deadline=None)
@given(st.lists(keys_, unique=True, max_size=8))
def test_it_is_a_total_order_on_any_keys(keys: list[str]) -> None:
    ordered = sorted(keys, key=natural_key)
    assert all(compare(a, b) < 0 < compare(b, a) for a, b in itertools.combinations(ordered, 2))
    assert all(compare(key, key) == 0 for key in keys)


def test_long_runs_of_digits_cost_nothing_special() -> None:
    assert compare("a" + "9" * 60_000, "a1" + "0" * 60_000) < 0

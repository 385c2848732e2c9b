"""Gives back the roots that a test opened."""

from collections.abc import Iterator

import pytest

from tests.unit.world.roots import close_all


@pytest.fixture(autouse=True)
def _roots_are_closed() -> Iterator[None]:
    yield
    close_all()

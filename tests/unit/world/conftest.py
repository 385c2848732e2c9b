"""A new world, and the roots that a test opened given back."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.world.world import World
from tests.unit.world.roots import close_all, reopen


@pytest.fixture(autouse=True)
def _roots_are_closed() -> Iterator[None]:
    yield
    close_all()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return reopen(tmp_path)


@pytest.fixture
def syncs_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync waits for whatever is written on the whole machine."""
    monkeypatch.setattr(os, "sync", lambda: None)

"""The manual's generated pages are what the code would write now, and the manual's links lead somewhere.

`scripts/manual` writes the pages anew.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands import shapes
from app.markdown.outline import section
from app.server.settings import settings_page

MANUAL = Path(__file__).resolve().parents[2] / "app" / "manual"
GENERATED: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "protocol/json.md": shapes.page,
}


@pytest.mark.parametrize("name", GENERATED)
def test_generated_pages_are_current(name: str) -> None:
    assert (MANUAL / name).read_text("utf-8") == GENERATED[name](), "run scripts/manual"


def test_every_link_leads_to_a_page() -> None:
    broken = [
        f"{page.relative_to(MANUAL)}: {target}"
        for page in MANUAL.rglob("*.md")
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text("utf-8"))
        if not (page.parent / target).is_file()
    ]
    assert broken == []


def test_every_section_that_is_linked_to_is_there() -> None:
    broken = [
        f"{page.relative_to(MANUAL)}: {target}#{anchor}"
        for page in MANUAL.rglob("*.md")
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text("utf-8"))
        if section((page.parent / target if target else page).read_bytes(), anchor) is None
    ]
    assert broken == []


def test_every_page_can_be_reached_and_is_described() -> None:
    pages = {page.relative_to(MANUAL).as_posix() for page in MANUAL.rglob("*.md")}
    index = set(re.findall(r"\]\(([^)#:]+)\)", (MANUAL / "index.md").read_text("utf-8")))
    assert index | {"index.md"} == pages
    assert set(json.loads((MANUAL / "metadata.json").read_text("utf-8"))) == pages


def write() -> None:
    """Writes the generated pages; what `scripts/manual` runs."""
    for name, page in GENERATED.items():
        (MANUAL / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    write()

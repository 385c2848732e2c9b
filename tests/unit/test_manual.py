"""The manual is complete, current and whole: whatever the program takes or says has its place, and links lead somewhere.

Settings, JSON output, commands and error texts are pages that the code writes (`scripts/manual` writes them anew); verbs, statuses, exit codes and the log are
written by hand and held against the code here.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from app.commands import as_client, as_publish, as_token, shapes
from app.commands.outcomes import STATUSES, Exit
from app.commands.program import own_parser
from app.markdown.outline import outline, section
from app.protocol.message import VERBS
from app.server.settings import TABLE, settings_page
from deploy.deb.pages import pages
from deploy.manual import errors, messages
from deploy.manual.commands import commands_page

MANUAL = Path(__file__).resolve().parents[2] / "app" / "manual"
GENERATED: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "protocol/json.md": shapes.page,
    "reference/commands.md": commands_page,
    "reference/errors.md": errors.errors_page,
}
# Messages of the log that are put together when they are written, by the module that does it.
LOGGED_TOGETHER: dict[str, set[str]] = {
    "server/dispatch.py": {
        "malformed request",
        "parse request failed",
        "unauthorized",
        "not-permitted",
        "not found",
        "archived",
    },
    "server/endpoint.py": {"rate limited", "concurrency limited", "connection shed", "connection failed"},
    "server/writes.py": {
        "publish",
        "append",
        "archive",
        "unarchive",
        "publish unchanged",
        *(f"{verb} conflict" for verb in ("publish", "append")),
        *(
            f"{verb} {end}"
            for verb in ("publish", "append", "archive", "unarchive")
            for end in ("rejected", "failed")
        ),
    },
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


def codes(page: str) -> set[str]:
    """What stands in backticks on a page."""
    return set(re.findall(r"`([^`\n]+)`", (MANUAL / page).read_text("utf-8")))


def test_every_command_and_flag_has_its_place() -> None:
    text = (MANUAL / "reference/commands.md").read_bytes()
    seen = {heading.text for heading in outline(text)}
    for page in pages(own_parser()):
        assert page.name in seen
        shown = (section(text, page.name.replace(" ", "-")) or b"").decode()
        flags = [name for option in page.options for name in option.names if name != "-h"]
        assert [name for name in flags if f"`{name}`" not in shown] == []


def test_every_flag_under_an_older_name_has_its_place() -> None:
    text = (MANUAL / "reference/commands.md").read_bytes()
    for name, flags in (
        ("demarkus", as_client._MAIN),
        ("demarkus-lookup", as_client._LOOKUP),
        ("demarkus-publish", as_publish._FLAGS),
        *((f"demarkus-token-{command}", flags) for command, flags in as_token._COMMANDS.items()),
    ):
        shown = (section(text, name) or b"").decode()
        assert [flag.name for flag in flags if f"`-{flag.name}`" not in shown] == []
    server = (section(text, "demarkus-server") or b"").decode()
    assert [one.flag for one in TABLE if one.flag and f"`-{one.flag}`" not in server] == []


def test_every_verb_status_and_exit_code_has_its_place() -> None:
    verbs = set(
        re.findall(r"^\| ([A-Z]+) \|", (MANUAL / "protocol/verbs.md").read_text("utf-8"), re.MULTILINE)
    )
    assert verbs == set(VERBS)
    said = {one.status for one in messages.said() if one.status} | {"conflict", "rate-limited"}
    table = re.findall(
        r"^\| `([a-z-]+)` \|.*\| ([0-9]+) \|$",
        (MANUAL / "protocol/statuses.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert {status: int(code) for status, code in table} == {
        status: STATUSES.get(status, Exit.FAILED) for status in STATUSES.keys() | said
    }
    listed = set(
        re.findall(r"^\| ([0-9]+) \|", (MANUAL / "reference/commands.md").read_text("utf-8"), re.MULTILINE)
    )
    assert listed == {str(code.value) for code in Exit}


def test_every_line_of_the_log_has_its_place() -> None:
    calls = messages.logged()
    known = {call.message for call in calls if call.message is not None}
    together = {call.module for call in calls if call.message is None}
    assert together == LOGGED_TOGETHER.keys(), "say here what a new place puts together"
    for module, texts in LOGGED_TOGETHER.items():
        known |= texts
        single = {text for text in texts if " " not in text}
        assert {text for text in texts - single if text.split()[0] not in single} <= messages.constants(
            module
        ) | {"not found"}
    assert len(known) > 60
    assert sorted(known - codes("reference/log.md")) == [], (
        "these lines are not in app/manual/reference/log.md"
    )


def test_every_message_in_the_manual_s_log_page_is_still_written() -> None:
    known = {call.message for call in messages.logged()} | {
        text for texts in LOGGED_TOGETHER.values() for text in texts
    }
    rows = re.findall(
        r"^\| (?:INFO|WARN|ERROR|DEBUG) \| ([^|]*) \|",
        (MANUAL / "reference/log.md").read_text("utf-8"),
        re.MULTILINE,
    )
    assert len(rows) > 40
    assert [text for row in rows for text in re.findall(r"`([^`]+)`", row) if text not in known] == []


def test_what_is_put_together_is_put_together_there() -> None:
    for module, texts in errors.PUT_TOGETHER.items():
        parts = messages.constants(module)
        for text in texts:
            words = [word for word in re.split(r"…|\{[a-z]+\}", text) if word.strip(" :")]
            assert [word for word in words if not any(word.strip() in part for part in parts)] == [], text


def test_a_text_without_its_meaning_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = [
        messages.Said("x.py", "Fault", "bad-request", "brand new"),
        messages.Said("x.py", "BrandNew", "", "brand new"),
    ]
    for one in extra:
        monkeypatch.setattr(errors, "said", lambda one=one: [*messages.said(), one])
        with pytest.raises(LookupError, match=r"brand new|BrandNew"):
            errors.errors_page()


def write() -> None:
    """Writes the generated pages; what `scripts/manual` runs."""
    for name, page in GENERATED.items():
        (MANUAL / name).write_text(page(), "utf-8")


if __name__ == "__main__":
    write()

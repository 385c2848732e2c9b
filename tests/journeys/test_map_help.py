"""`map` and `help` at the command line: what a world and the manual hold, and which sections cover a task."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.journeys.conftest import PROGRAM, PROJECT, Server, StartServer
from tests.journeys.test_found_sections import import_corpus

Done = subprocess.CompletedProcess[bytes]
Cli = Callable[..., Done]
KEYS = ["query", "scope", "mode", "matches", "truncated", "terms_ignored", "results"]
ROW_KEYS = ["path", "anchor", "title", "importance", "tags", "snippet", "match"]
TASK = "How can I override the syntax highlighting of a code block?"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*line: str) -> Done:
        own = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
        return subprocess.run(
            [*PROGRAM, *line],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**own, "HOME": str(tmp_path / "home")},
            cwd=PROJECT,
            timeout=60,
            check=False,
        )

    return run


@pytest.fixture
def corpus(start_server: StartServer, tmp_path: Path) -> Server:
    import_corpus(tmp_path / "root")
    return start_server()


def test_an_overview_is_the_same_from_a_server_and_from_the_folder(corpus: Server, cli: Cli) -> None:
    served = cli("map", f"{corpus.url}/", "--insecure")
    assert served.returncode == 0, served.stderr
    lines = served.stdout.decode().splitlines()
    assert lines[0] == "50 documents in /"
    assert "/hugo/  27 documents" in lines
    local = cli("map", "--root", str(corpus.root))
    assert local.returncode == 0, local.stderr
    assert local.stdout.decode().splitlines()[1:] == lines[1:]
    from_server, from_folder = (
        json.loads(cli("map", *line, "--json").stdout)
        for line in ((f"{corpus.url}/", "--insecure"), ("--root", str(corpus.root)))
    )
    assert list(from_server) == ["scope", "documents", "sections", "folders", "important"]
    assert from_server.pop("sections") is None
    assert from_folder.pop("sections") > 300
    assert from_server == from_folder
    below = json.loads(cli("map", f"{corpus.url}/hugo/content", "--insecure", "--json").stdout)
    assert (below["scope"], below["documents"]) == ("/hugo/content", 27)


def test_a_task_finds_the_same_sections_from_a_server_and_from_the_folder(corpus: Server, cli: Cli) -> None:
    served, local = (
        cli("map", *line, *TASK.split(), "--json")
        for line in ((f"{corpus.url}/", "--insecure"), ("--root", str(corpus.root)))
    )
    assert (served.returncode, local.returncode) == (0, 0), served.stderr + local.stderr
    found = json.loads(served.stdout)
    assert found == json.loads(local.stdout)
    assert list(found) == KEYS
    assert (found["query"], found["scope"], found["mode"]) == (TASK, "/", "task")
    assert found["truncated"] == (found["matches"] > len(found["results"]))
    assert 0 < len(found["results"]) <= 5
    for row in found["results"]:
        assert list(row) == ROW_KEYS
        assert row["match"] in {"complete", "partial", "metadata"}
        place = f"{corpus.url}{row['path']}" + (f"#{row['anchor']}" if row["anchor"] else "")
        assert cli("fetch", place, "--insecure").returncode == 0
    shown = cli("map", "--root", str(corpus.root), TASK).stdout.decode().splitlines()
    assert shown[0] == f'{found["matches"]} matches for "{TASK}" in /'
    first = found["results"][0]
    place = first["path"] + (f"#{first['anchor']}" if first["anchor"] else "")
    mark = "" if first["match"] == "complete" else f"  [{first['match']}]"
    assert shown[1] == f"{place}  {first['title']}{mark}"


def test_a_single_document_can_be_the_scope(corpus: Server, cli: Cli) -> None:
    path = "/rust-rfcs/text/0344-conventions-galore.md"
    served = json.loads(cli("map", f"{corpus.url}{path}", "naming of getters", "--insecure", "--json").stdout)
    local = json.loads(cli("map", "--root", str(corpus.root), path, "naming of getters", "--json").stdout)
    assert served == local
    assert served["scope"] == path
    assert {row["path"] for row in served["results"]} == {path}


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ((), 2, b"map needs the address of a world first"),
        (("rotate",), 2, b"map needs the address of a world first"),
        (("http://x/",), 2, b"only mark:// is served"),
        (("mark://127.0.0.1:1/",), 6, b"unreachable"),
        (("mark://127.0.0.1:1/", "a task"), 6, b"unreachable"),
        (("--root", "/none"), 1, b"/none"),
    ],
)
def test_a_map_that_cannot_be_drawn_says_why(cli: Cli, line: tuple[str, ...], code: int, said: bytes) -> None:
    done = cli("map", *line)
    assert (done.returncode, done.stdout) == (code, b"")
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_scope_that_is_not_there_and_a_task_of_nothing_are_errors(corpus: Server, cli: Cli) -> None:
    for line, code in (
        ((f"{corpus.url}/none/", "--insecure"), 3),
        ((f"{corpus.url}/none/", "a task", "--insecure"), 3),
        ((f"{corpus.url}/none.md", "a task", "--insecure"), 3),
        (("--root", str(corpus.root), "/none"), 3),
        (("--root", str(corpus.root), "?!"), 1),
        ((f"{corpus.url}/", "?!", "--insecure"), 1),
        (("--root", str(corpus.root), "/rust-rfcs/text/0344-conventions-galore.md"), 2),
    ):
        done = cli("map", *line)
        assert (done.returncode, done.stdout) == (code, b""), line
        assert done.stderr


def test_help_answers_from_the_manual_inside(cli: Cli) -> None:
    pages = cli("help")
    assert pages.returncode == 0
    listed = [line.split()[0] for line in pages.stdout.decode().splitlines()]
    manual = PROJECT / "app" / "manual"
    assert listed == sorted(f"/{page.relative_to(manual).as_posix()}" for page in manual.rglob("*.md"))
    assert json.loads(cli("help", "--json").stdout)["documents"] == len(listed)
    page = cli("help", "/tokens.md")
    assert page.stdout == (manual / "tokens.md").read_bytes()
    assert cli("help", "/tokens.md#sending-a-token").stdout.startswith(b"## Sending a token\n")

    assert cli("help", "tokens.md").stdout == cli("help", "/tokens").stdout == page.stdout
    assert b"perhaps /tokens.md" in cli("help", "token.md").stderr
    asked = cli("help", "how", "do", "I", "give", "an", "agent", "the", "right", "to", "write?")
    assert asked.returncode == 0
    lines = asked.stdout.decode().splitlines()
    assert 'for "how do I give an agent the right to write?" in /' in lines[0]
    assert "/agents.md#letting-it-write" in asked.stdout.decode()
    found = json.loads(cli("help", "how do I give an agent the right to write?", "--json").stdout)
    assert list(found) == KEYS
    first = found["results"][0]
    assert cli("help", f"{first['path']}#{first['anchor']}").returncode == 0
    below = json.loads(cli("help", "/board", "what does a power cut lose", "--json").stdout)
    assert {row["path"].split("/")[1] for row in below["results"]} == {"board"}


@pytest.mark.parametrize(
    "question",
    [
        "LIST cursor does not match this request",
        "--on-conflict or --expected-version",
        "DEMARKUS_RATE_BURST",
        "exit code 7",
        "auth: token reload failed, the old tokens stay in force",
        "restore a backup",
        "connect an MCP client",
    ],
)
def test_help_knows_every_kind_of_thing(cli: Cli, question: str) -> None:
    found = json.loads(cli("help", question, "--json").stdout)
    assert found["matches"] > 0
    assert found["results"][0]["match"] in {"complete", "partial"}


@pytest.mark.parametrize(
    ("question", "place"),
    [
        ("rotate a token", "/tokens.md#rotating-a-token"),
        ("renew the certificate", "/certificates.md#renewing-the-certificate"),
    ],
)
def test_help_leads_to_the_page_and_not_to_an_example(cli: Cli, question: str, place: str) -> None:
    first = json.loads(cli("help", *question.split(), "--json").stdout)["results"][0]
    assert (f"{first['path']}#{first['anchor']}", first["match"]) == (place, "complete")


@pytest.mark.parametrize("line", [("/none.md",), ("/tokens.md#none",), ("/none", "a question"), ("?!",)])
def test_help_that_is_not_there_is_an_error(cli: Cli, line: tuple[str, ...]) -> None:
    done = cli("help", *line)
    assert done.returncode in {1, 3}
    assert done.stdout == b""
    assert done.stderr

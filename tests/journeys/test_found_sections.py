"""What LOOKUP names is what a client then fetches: rows of body mode, passed back verbatim, through the real server.

The world is the sample in tests/corpus: real documentation with its headings, tables and code.
"""

import json
from pathlib import Path

import pytest
import trio

from app.commands import program
from app.markdown.outline import outline, section
from app.markdown.snippet import snippet
from app.markdown.strip import own_text
from app.protocol.tables import parse_lookup_body
from app.world.transfer import import_tree
from app.world.world import World
from tests.journeys.conftest import StartServer

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
WORDS = [
    "template",
    "function",
    "type",
    "page",
    "value",
    "compiler",
    "error",
    "string",
    "default",
    "content",
    "file",
    "code",
    "list",
    "using",
    "name",
]


def import_corpus(root: Path) -> None:
    root.mkdir()
    metadata = json.loads((CORPUS / "metadata.json").read_text())
    world = World.open(str(root), log=lambda *_, **__: None)
    report = import_tree(world, str(CORPUS / "documents"), "/", metadata, now=1_790_000_000.0)
    world.close()
    assert (report.created, list(report.left_out)) == (50, [])


async def test_every_row_fetches_the_section_its_snippet_came_from(
    start_server: StartServer,
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DEMARKUS_AUTH", raising=False)
    import_corpus(tmp_path / "root")
    server = start_server(RATE_LIMIT="0")
    bodies: dict[str, bytes] = {}
    sections: dict[str, bytes] = {}
    walked = 0
    async with server.client() as client:
        for word in WORDS:
            answer = await client.lookup("/", word, match="body", limit=1000)
            rows = parse_lookup_body(answer.body)
            assert (answer.metadata["match"], answer.metadata["matches"]) == ("body", str(len(rows)))
            for row in rows:
                if row.path not in bodies:
                    bodies[row.path] = (await client.fetch(row.path)).body
                if not row.anchor:
                    continue
                body = bodies[row.path]
                heading = next(one for one in outline(body) if one.anchor == row.anchor)
                assert section(body, row.anchor) == body[heading.start : heading.end]
                sections[f"{row.path}#{row.anchor}"] = body[heading.start : heading.end]
                assert row.title.endswith(f" › {heading.text}".replace("\n", " "))
                assert row.snippet == snippet(own_text(body[heading.own_start : heading.own_end]), [word])
                walked += 1
    assert walked >= 500
    # A sample goes as it stands behind the server's address to the command `fetch`, which prints that section and nothing else.
    places = sorted(sections)
    assert len({place.partition("#")[0] for place in places}) > 20
    for place in places[:: len(places) // 50]:
        line = ["fetch", f"{server.url}{place}", "--insecure"]
        assert await trio.to_thread.run_sync(program.main, line) == 0
        assert capsysbinary.readouterr() == (sections[place], b""), place

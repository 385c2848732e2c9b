"""How long other requests wait while hostile documents of 1 MB are published.

`scripts/bench hostile [--json]`. The real server runs as a process of its own. One client sends FETCH after FETCH; another publishes
documents of 1 MB, each made to be slow in its own way. The peer is the same server without such a publisher.

- `worst_wait_longer_ms` (aim: at most 100): the longest FETCH while any of the documents was published, over the longest one without.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import trio

from app.client.client import Client
from app.world.tokenfile import generate
from tests.bench.reload import running
from tests.unit.markdown.hostile import HOSTILE

SIZE = 1_000_000
IDLE_SECONDS = 3.0
ONE = "/one.md"

KINDS: dict[str, bytes] = {name: make(SIZE).encode()[:SIZE] for name, make in HOSTILE.items()} | {
    "different words": b"".join(b"w%d " % number for number in range(SIZE // 7)),
    "joined words": b"a.b" * (SIZE // 3),
    "underscored words": b"a_b " * (SIZE // 4),
    "signs": b"\x01." * (SIZE // 2),
    "accents": "e\u0301a ".encode() * (SIZE // 5),
    "a block of code": b"```\n" + b"foo bar(baz) " * (SIZE // 13),
}


async def longest(client: Client, until: trio.Event) -> float:
    """The longest FETCH until then, in seconds."""
    most = 0.0
    while not until.is_set():
        began = time.perf_counter()
        answer = await client.fetch(ONE)
        most = max(most, time.perf_counter() - began)
        assert answer.status == "ok"
    return most


async def measure(port: int, token: str) -> dict[str, float]:
    waits: dict[str, float] = {}
    async with (
        Client("127.0.0.1", port, insecure=True) as reader,
        Client("127.0.0.1", port, insecure=True, token=token, timeout=120) as writer,
    ):
        await writer.publish(ONE, b"# One\n", expected_version=0)

        async def idle() -> None:
            await trio.sleep(IDLE_SECONDS)

        async def hostile(name: str, body: bytes) -> None:
            path = f"/hostile/{name.replace(' ', '-')}.md"
            answer = await writer.publish(path, body, expected_version=0)
            assert answer.status == "created", answer

        jobs = {"nothing": idle}
        for name, body in KINDS.items():
            jobs[name] = lambda name=name, body=body: hostile(name, body)  # type: ignore[misc]
        for name, job in jobs.items():
            over = trio.Event()
            async with trio.open_nursery() as nursery:

                async def watch(name: str = name, over: trio.Event = over) -> None:
                    waits[name] = await longest(reader, over)

                nursery.start_soon(watch)
                await job()
                over.set()
    return waits


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="one object: figure -> number")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        (scratch / "world").mkdir()
        tokens = str(scratch / "tokens.toml")
        token = generate("bench", ["/**"], ["publish"], tokens).out.strip()
        with running(scratch / "world", scratch, DEMARKUS_TOKENS=tokens) as server:
            waits = trio.run(measure, server.port, token)
    idle = waits.pop("nothing")
    worst = max(waits, key=lambda kind: waits[kind])
    figures = {"worst_wait_longer_ms": (waits[worst] - idle) * 1e3, "idle_longest_ms": idle * 1e3}
    if given.json:
        print(json.dumps(figures | {f"{kind}_ms": wait * 1e3 for kind, wait in waits.items()}))
        return
    for kind, wait in waits.items():
        print(f"{kind:<20}{wait * 1e3:8.1f} ms")
    for figure, value in figures.items():
        print(f"{figure:<28}{value:8.1f}")


if __name__ == "__main__":
    main()

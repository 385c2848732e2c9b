"""How long other requests wait while a server does the worst that can be asked of it.

`scripts/bench hostile [--json] [--only TEXT]`. The real server, as a process of its own, serves the world of `worst_world`. A client in another
process sends FETCH after FETCH of a small document; a third makes the requests of that world, one at a time: every verb and every mode of LOOKUP, and
documents of 1 MB each made to be slow in its own way. The peer is the same server without these requests.

- `asked_worst_longer_ms` (aim: at most 20): the longest FETCH while any of the reads was answered, over the longest one without;
- `published_worst_longer_ms` (aim: at most 100): the same for the writes.

A read is asked several times and counts with its shortest wait, since on shared cores any wait may be somebody else's.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import trio

from app.client.client import Client
from app.protocol.message import Request
from app.world.tokenfile import generate
from tests.bench.reload import running
from tests.bench.watching import Watch, watching
from tests.bench.worst_world import DEEP, asked, published, settle

IDLE_SECONDS = 1.0
ROUNDS = 5
ONE = "/health"


async def waits(
    port: int, token: str, watch: Watch, only: str
) -> tuple[float, dict[str, float], dict[str, float]]:
    """The longest FETCH without requests, during each read, and during each write."""

    async def during(request: Request | None) -> float:
        await trio.to_thread.run_sync(watch.begin)
        if request is None:
            await trio.sleep(IDLE_SECONDS)
        else:
            signed = msgspec.structs.replace(request, metadata={**request.metadata, "auth": token})
            answer = await client.request(signed)
            assert answer.status != "server-error", (request.verb, request.path[:80], answer)
        return await trio.to_thread.run_sync(watch.end)

    async with Client("127.0.0.1", port, insecure=True, timeout=120) as client:
        idle = min([await during(None) for _ in range(ROUNDS)])
        reads = {
            name: min([await during(request) for _ in range(ROUNDS)])
            for name, request in asked()
            if only in name
        }
        writes = {name: await during(request) for name, request in published() if only in name}
    return idle, reads, writes


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--json", action="store_true", help="one object: figure -> number")
    options.add_argument("--only", default="", help="the requests with this in their name")
    given = options.parse_args()
    sys.setrecursionlimit(10 * DEEP)  # folders are made and removed by functions that call themselves
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        settle(scratch / "world")
        tokens = str(scratch / "tokens.toml")
        token = generate("bench", ["/**"], ["publish"], tokens).out.strip()
        with (
            running(
                scratch / "world", scratch, DEMARKUS_TOKENS=tokens, DEMARKUS_REQUEST_TIMEOUT="0"
            ) as server,
            watching(server.port, ONE) as watch,
        ):
            time.sleep(IDLE_SECONDS)
            idle, reads, writes = trio.run(waits, server.port, token, watch, given.only)
    figures = {"idle_longest_ms": idle * 1e3}
    for kind, found in (("asked", reads), ("published", writes)):
        if found:
            figures[f"{kind}_worst_longer_ms"] = (max(found.values()) - idle) * 1e3
    if given.json:
        print(json.dumps(figures | {f"{name}_ms": wait * 1e3 for name, wait in (reads | writes).items()}))
        return
    for name, wait in (reads | writes).items():
        print(f"{name:<50}{wait * 1e3:8.1f} ms")
    for figure, value in figures.items():
        print(f"{figure:<50}{value:8.1f}")


if __name__ == "__main__":
    main()

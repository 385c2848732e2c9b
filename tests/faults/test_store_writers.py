"""Several processes that write to one document at once: nothing guards but what is on the disk (store §5.5)."""

import os
import subprocess
import sys
from pathlib import Path

from app.world.verify import verify
from tests.unit.world.roots import close_all, folder_of, reopen

WRITES = 30
WRITER = """
import sys, time
from app.world.errors import WorldError
from app.world.world import World

world = World.open(sys.argv[1], log=lambda *_, **__: None)
done = 0
while done < int(sys.argv[3]):
    body = f"{sys.argv[2]} {done} ".encode() + b"x" * (done % 3 * 200_000)
    try:
        world.publish("/a.md", body, {"type": "Document"}, None, time.time())
    except WorldError:
        continue
    done += 1
    print(world.current("/a.md").version)
"""


def test_three_processes_write_one_document(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path, name, str(WRITES)], stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    seen = [[int(line) for line in writer.communicate(timeout=50)[0].split()] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    numbers = sorted(int(name[1:]) for name in os.listdir(folder_of(tmp_path, "/a.md")))
    assert numbers == list(range(1, 3 * WRITES + 1))
    assert all(versions == sorted(versions) for versions in seen)
    assert list(verify(str(tmp_path))) == []
    assert reopen(tmp_path).history("/a.md").chain_valid
    close_all()

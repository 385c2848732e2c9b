"""What `scripts/demo` does once there is an environment: a scratch world, a token, a server, and either an invitation or a check.

Everything is done with the product's own command, as a person would, in processes of their own. All that is made lies in one scratch
folder, the client's state too, and goes with it.
"""

import argparse
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn
from urllib.parse import quote

COMMAND = os.path.join(os.path.dirname(sys.executable), "demarkus-appliance")
SAMPLE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "app", "manual")
PORT = 6309
START_SECONDS = 60  # a slow board with a large world
STOP_SECONDS = 15  # the server itself gives running requests less


class Stop(Exception):
    """Ends the demo with a line for the person who started it."""


class Scratch:
    """The folder of one demo and the server that serves it."""

    def __init__(self, port: int) -> None:
        self.folder = tempfile.mkdtemp(prefix="demarkus-demo-")
        self.url = f"mark://127.0.0.1:{port}"
        self.port = port
        self.root = os.path.join(self.folder, "world")
        self.tokens = os.path.join(self.folder, "tokens.toml")
        self.state = os.path.join(self.folder, "state")
        self.log = os.path.join(self.folder, "server.log")
        self.server: subprocess.Popen[bytes] | None = None
        own = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
        self.environment = {**own, "HOME": self.folder}
        os.mkdir(self.root)

    def run(self, *line: str, text: str = "", quiet: bool = True) -> subprocess.CompletedProcess[str]:
        """One command of the product, its answer captured."""
        return subprocess.run(
            [COMMAND, *line],
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if quiet else None,
            encoding="utf-8",
            env=self.environment,
            check=False,
        )

    def load(self, source: str) -> None:
        """Imports the folder."""
        metadata = os.path.join(source, "metadata.json")
        given = ["--metadata", metadata] if os.path.isfile(metadata) else []
        done = self.run("import", source, "--root", self.root, *given, quiet=False)
        print(done.stdout, end="", flush=True)
        if not any(files for _, _, files in os.walk(self.root)):
            raise Stop(f"there is no markdown (*.md) in {source}")

    def fingerprint(self) -> str:
        """Of the certificate that the server has made for itself."""
        done = self.run("fingerprint", "--state-dir", self.state)
        if done.returncode != 0:
            raise Stop(done.stderr.strip())
        return done.stdout.strip()

    def mint(self) -> str:
        """A token that may write everywhere."""
        line = (
            "token",
            "generate",
            "--label",
            "demo",
            "--paths",
            "/**",
            "--ops",
            "publish",
            "--tokens",
            self.tokens,
        )
        done = self.run(*line)
        if done.returncode != 0:
            raise Stop(done.stderr.strip())
        return done.stdout.strip()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        line = [COMMAND, "serve", "--root", self.root, "--port", str(self.port), "--listen", "127.0.0.1"]
        line += ["--tokens", self.tokens, "--state-dir", self.state]
        with open(self.log, "wb") as log:
            # In a session of its own: a Ctrl-C is for this program, which then stops the server in order.
            self.server = subprocess.Popen(line, stderr=log, env=self.environment, start_new_session=True)
        patience = time.monotonic() + START_SECONDS
        while (asked := self.run("fetch", f"{self.url}/health", "--insecure")).returncode != 0:
            if self.server.poll() is not None or time.monotonic() > patience:
                with open(self.log, encoding="utf-8", errors="replace") as log_text:
                    last = "".join(log_text.readlines()[-5:])
                raise Stop(f"the server did not start: {asked.stderr.strip()}\n{last}")
            time.sleep(0.1)

    def stop(self) -> int:
        """Stops the server, removes the folder, and gives the server's exit code."""
        code = 0
        try:
            if self.server is not None:
                self.server.terminate()
                try:
                    code = self.server.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    self.server.kill()
                    code = self.server.wait()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)
        return code


def invite(scratch: Scratch, token: str) -> None:
    """Prints what there is and what to type, and stays until Ctrl-C."""
    command, url = shlex.quote(COMMAND), scratch.url
    rows = answer(scratch, "lookup", f"{url}/", "--query", "*", "--limit", "1", "--insecure")["rows"]
    words = [word for word in rows[0]["title"].split() if word.isalnum()] if rows else []
    query = shlex.quote(max(words, key=len, default="*"))
    print(
        f"""
The world is served.

  address      {url}/
  token        {token}
  certificate  {scratch.fingerprint()}
               (made for this demo and gone with it; hence --insecure below)

Try, in another terminal:

  {command} list {url}/ --insecure
  {command} lookup {url}/ --query {query} --insecure
  echo '# Hello' | DEMARKUS_AUTH={token} {command} put {url}/hello.md --expected-version 0 --insecure

Ctrl-C stops it; everything lies in {scratch.folder} and goes with it.""",
        flush=True,
    )
    assert scratch.server is not None
    code = scratch.server.wait()
    raise Stop(f"the server ended by itself with exit code {code}")


def answer(scratch: Scratch, *line: str, text: str = "", code: int = 0) -> Any:
    """The `--json` document of a command that has to end with this exit code."""
    done = scratch.run(*line, "--json", text=text)
    if done.returncode != code:
        raise Stop(
            f"{line[0]} ended with {done.returncode} instead of {code}: {done.stderr.strip() or done.stdout.strip()}"
        )
    return json.loads(done.stdout)


def check(scratch: Scratch, token: str, source: str) -> None:
    """Asks every verb and compares each answer with what it has to be. Raises `Stop` at the first that is wrong."""
    url = scratch.url
    trust = ("--insecure",)
    scratch.environment["DEMARKUS_AUTH"] = token

    def hold(right: bool, what: str, seen: object) -> None:
        print(f"  {'ok   ' if right else 'WRONG'} {what}", flush=True)
        if not right:
            raise Stop(f"wrong answer: {seen}")

    found = answer(scratch, "lookup", f"{url}/", "--query", "*", "--limit", "1000", *trust)
    paths = [row["path"] for row in found["rows"]]
    hold(bool(paths) and found["matches"] == len(paths), f"LOOKUP *: {len(paths)} documents", found)
    path = min(paths)
    with open(os.path.join(source, *path.split("/")), encoding="utf-8", newline="") as file:
        original = file.read()

    fetched = answer(scratch, "fetch", url + quote(path), *trust)
    right = (fetched["body"], fetched["version"]) == (original, 1)
    hold(right, f"FETCH {path}: v{fetched['version']}, {len(original)} characters, as imported", fetched)

    listed = answer(scratch, "list", f"{url}/", *trust)
    names = {entry["name"] for entry in listed["entries"]}
    right = listed["complete"] and names >= {name.split("/")[1] for name in paths}
    hold(right, f"LIST /: {len(names)} entries, every document below one of them", listed)

    history = answer(scratch, "versions", url + quote(path), *trust)
    hold(
        history["chain_valid"] and history["total"] == 1,
        f"VERSIONS {path}: {history['versions'][0]['modified']}",
        history,
    )

    note = f"{url}/demo-check/note.md"
    title = "Zymurgy notebook"
    put = (
        "put",
        note,
        "--expected-version",
        "0",
        "--meta",
        f"title={title}",
        "--meta",
        "tags=demo,check",
        *trust,
    )
    written = answer(scratch, *put, text="# Note\n\nFirst line.\n")
    hold(
        (written["status"], written["version"]) == ("created", 1),
        "PUBLISH /demo-check/note.md: created v1",
        written,
    )
    again = answer(scratch, *put, text="# Other\n", code=4)
    hold(again["server_version"] == 1, "PUBLISH over it, expecting nothing there: conflict", again)

    appended = answer(scratch, "append", note, "--body", "Second line.\n", *trust)
    body = answer(scratch, "fetch", note, *trust)["body"]
    right = (appended["version"], body) == (2, "# Note\n\nFirst line.\nSecond line.\n")
    hold(right, "APPEND to it: created v2, both lines there", (appended, body))

    looked = answer(scratch, "lookup", f"{url}/demo-check/", "--query", "zymurgy", *trust)
    right = [(row["path"], row["title"], row["tags"]) for row in looked["rows"]] == [
        ("/demo-check/note.md", title, ["demo", "check"])
    ]
    hold(right, "LOOKUP zymurgy: the note, by its title", looked)

    archived = answer(scratch, "archive", note, *trust)
    gone = answer(scratch, "fetch", note, *trust, code=3)
    hold((archived["version"], gone["status"]) == (2, "archived"), "ARCHIVE it: gone from sight at v2", gone)

    del scratch.environment["DEMARKUS_AUTH"]
    refused = answer(scratch, "put", note, "--body", "x", "--force", *trust, code=5)
    hold(refused["status"] == "unauthorized", "PUBLISH without a token: refused", refused)


def port_is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def interrupted(number: int, frame: FrameType | None) -> NoReturn:
    """Makes every stopping signal a Ctrl-C."""
    raise KeyboardInterrupt


def main(line: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/demo", description="Serves a folder of markdown from a scratch world, to try it out."
    )
    parser.add_argument(
        "folder", metavar="DIR", nargs="?", default=SAMPLE, help="the folder; without it the manual"
    )
    parser.add_argument(
        "--check", action="store_true", help="use a free port, ask every verb, check the answers, stop"
    )
    options = parser.parse_args(line)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    if not os.path.isdir(options.folder):
        print(f"scripts/demo: there is no folder {options.folder}", file=sys.stderr)
        return 2
    if not options.check and not port_is_free(PORT):
        print(
            f"scripts/demo: UDP port {PORT} is taken; stop what listens there (another demo?) and try again",
            file=sys.stderr,
        )
        return 1
    scratch = Scratch(free_port() if options.check else PORT)
    code = 1
    try:
        scratch.load(options.folder)
        token = scratch.mint()
        scratch.start()
        if options.check:
            check(scratch, token, options.folder)
        else:
            invite(scratch, token)
        code = 0
    except Stop as stop:
        print(f"scripts/demo: {stop}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130 if options.check else 0
    # From here on nothing may cut the cleaning up short.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ended = scratch.stop()
    if ended != 0:
        print(f"scripts/demo: the server ended with exit code {ended}", file=sys.stderr)
        code = code or 1
    elif options.check and code == 0:
        print("All answers were right; the server stopped in order.")
    elif code == 0:
        print("\nStopped.")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

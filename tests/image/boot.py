"""Boots the image of `deploy/image/build` in a virtual machine and uses the appliance as its owner and its neighbours would.

    python -m tests.image.boot amd64|arm64

Run by scripts/test-image; not part of the suite, for it takes minutes. The neighbours come over a forwarded UDP port, and over a second network
card where they know the board by its name alone; the owner is at the console. The machine has no route to any network but its own.
"""

import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable

import trio

from app import __version__
from app.client.client import Client
from app.client.errors import ClientError, OutcomeUnknown
from app.protocol.message import Response
from app.protocol.tables import parse_lookup_body
from tests.image.machine import BOOT_SECONDS, Machine, Wrong
from tests.image.neighbour import ask

UNIT = "demarkus-appliance.service"
CARD = "demarkus-appliance-card.service"
STATE = "/var/lib/demarkus-appliance"
WORLD = f"{STATE}/world"
UNPACKED = "/var/cache/demarkus-appliance"
HOST = "demarkus.local"
SECOND_BOOT = {"amd64": "efi", "arm64": "u-boot"}


class Test:
    """The steps, each said when it is done."""

    def __init__(self, machine: Machine, package: str, second_boot: str) -> None:
        self.machine = machine
        self.token = ""
        self.pin = ""
        self._package, self._second_boot = package, second_boot
        self._identity = ""
        self._clock = 0
        self._since = time.monotonic()

    def said(self, what: str) -> None:
        now = time.monotonic()
        print(f"ok    {what} ({now - self._since:.1f} s)", flush=True)
        self._since = now

    def hold(self, right: bool, what: str, seen: object) -> None:
        if not right:
            raise Wrong(f"{what}: {seen}")
        self.said(what)

    def ask(self, talk: Callable[[Client], Awaitable[Response]]) -> Response:
        """One exchange with the machine over the forwarded port, patient while it starts."""

        async def session() -> Response:
            async with Client(
                "127.0.0.1", self.machine.port, pin=self.pin or None, token=self.token or None, timeout=60
            ) as client:
                return await talk(client)

        return trio.run(session)

    def run(self) -> None:
        self.machine.boot()
        self.said("boots by EFI to the owner's shell")
        self.said(f"active {self._active()}")
        self._card_shown()
        self._first_contact()
        self._system()
        self._confined()
        self._reload()
        self._large()
        self._killed("the main process", self._main())
        self._killed("its parent", self._loader())
        self._saved()
        self._power_cut()
        self._second_start()
        self._upgraded()
        self._isolated()
        self._ended()

    # What the owner sees

    def _active(self) -> str:
        """Waits for the service to be active; gives the seconds from the kernel's start to then, as systemd has them."""
        self.machine.wait_for("the service is active", f"systemctl is-active -q {UNIT}", within=BOOT_SECONDS)
        moment = self.machine.run(f"systemctl show -P ActiveEnterTimestampMonotonic {UNIT}")
        return f"{int(moment) / 1e6:.1f} s after the kernel"

    def _card_shown(self) -> None:
        """The card is on the console, with what a neighbour needs; its token is nowhere else."""
        machine = self.machine
        machine.wait_for(
            "the card is printed",
            f'test "$(systemctl show -P Result,ActiveState {CARD} | xargs)" = "success inactive" -a -s {STATE}/tokens/tokens.toml',
            within=BOOT_SECONDS,
        )
        console = machine.console()
        tokens = re.findall(r"#token=([0-9a-f]{64})", console)
        pins = re.findall(r"Fingerprint\s+(sha256:[0-9a-f]{64})", console)
        right = len(tokens) == 1 and len(pins) == 1 and f"mark://{HOST}" in console
        self.hold(right, "the card is on the console, with one token", (tokens, pins, console[-2000:]))
        self.token, self.pin = tokens[0], pins[0]
        machine.run(f"demarkus-appliance card >/run/card; grep -q {self.pin} /run/card", code=0)
        kept = machine.run(
            f"{{ journalctl -b --no-pager; cat /run/card; }} | grep -c {self.token}; grep -rl {self.token} /etc /var /run"
        )
        self.hold(kept == "0", "the token is in no file, journal or second card", kept)

    def _system(self) -> None:
        """What the image promises: a root that nobody writes, room for the state, nothing to log in to."""
        machine = self.machine
        mounts = machine.run(
            "findmnt -no OPTIONS /; touch /usr/bin/demarkus-appliance; findmnt -no OPTIONS /var"
        )
        root, refused, state = mounts.splitlines()
        right = root.startswith("ro,") and "Read-only" in refused and state.startswith("rw,")
        self.hold(right, "the root is read-only, /var is not", mounts)
        size = int(machine.run("df --output=size -BM /var | tail -n 1").rstrip("M"))
        self.hold(size > 2000, f"the state partition has grown with the card: {size} MB", size)
        self._identity = machine.run("cat /etc/machine-id")
        kept = machine.run("cat /var/etc/machine-id; ls /var/log/journal; ls /run/log/journal").splitlines()
        right = (
            re.fullmatch("[0-9a-f]{32}", self._identity) is not None
            and kept[0] == kept[-1] == self._identity
            and "No such file" in kept[1]
        )
        self.hold(right, "an identity of its own; the journal in memory", (self._identity, kept))
        listening = machine.run(
            "ss -Hlntu | awk '{print $1, $5}' | grep -v -e '127\\.0\\.0\\.5[34]' | sort -u"
        ).splitlines()
        strange = [one for one in listening if not re.fullmatch(r"udp \S+:(6309|5353|68|546)", one)]
        self.hold(not strange, "only mark, mDNS and DHCP listen", listening)
        address = ask(machine.lan, machine.lan_port, HOST, within=60)
        self.hold(
            address is not None and address.startswith("fe80:"),
            f"a neighbour finds {HOST}: {address}",
            address,
        )
        failed = machine.run("systemctl is-system-running; systemctl --failed --no-pager")
        self.hold(failed.startswith("running"), "no unit has failed", failed)

    # What the neighbours get

    def _first_contact(self) -> None:
        health = self.ask(lambda client: client.fetch("/health"))
        self.hold(health.status == "ok", "FETCH /health from outside, by the fingerprint on the card", health)
        text = b"# Zymurgy\n\nA valve lets the pressure out.\n"
        token, self.token = self.token, ""
        refused = self.ask(lambda client: client.publish("/a.md", text, expected_version=0))
        self.hold(refused.status == "unauthorized", "PUBLISH without a token is refused", refused)
        self.token = token
        written = self.ask(lambda client: client.publish("/a.md", text, expected_version=0))
        self.hold(written.status == "created", "PUBLISH with the token on the card", written)
        for mode, query, row in (
            ("catalog", "zymurgy", ("/a.md", "")),
            ("body", "valve", ("/a.md", "zymurgy")),
            ("task", "how do I let the pressure out", ("/a.md", "zymurgy")),
        ):
            found = self.ask(lambda client, query=query, mode=mode: client.lookup("/", query, match=mode))  # type: ignore[misc]
            rows = [(one.path, one.anchor) for one in parse_lookup_body(found.body)]
            right = (found.status, found.metadata.get("match"), rows) == ("ok", mode, [row])
            self.hold(right, f"LOOKUP, match {mode}: {'#'.join(filter(None, row))}", found)

    def _fetches(self) -> bool:
        return self.ask(lambda client: client.fetch("/a.md")).status == "ok"

    # The service

    def _main(self) -> str:
        """The main process: the one that serves."""
        return self.machine.run(f"systemctl show -P MainPID {UNIT}", code=0)

    def _loader(self) -> str:
        """Its parent, which has unpacked it."""
        return self.machine.run(f"sed -n 's/^PPid:[[:blank:]]*//p' /proc/{self._main()}/status", code=0)

    def _confined(self) -> None:
        machine = self.machine
        python = self._main()
        status = machine.run(f"grep -E 'Seccomp:|NoNewPrivs:|CapEff:|CapBnd:' /proc/{python}/status")
        right = (
            re.search(r"CapEff:\s+0+\n", status) and "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
        )
        self.hold(bool(right), "no capability, no new privileges, system calls filtered", status)
        where = machine.run(f"ls -d {UNPACKED}/_MEI*; ls -d /tmp/_MEI*")
        right = f"{UNPACKED}/" in where and "cannot access '/tmp" in where
        self.hold(right, "unpacked in the cache directory", where)
        resident = machine.run(
            f"grep -E 'VmRSS|RssAnon' /proc/{python}/status; systemctl show -P MemoryCurrent {UNIT}"
        )
        self.said("memory: " + " ".join(resident.split()))

    def _reload(self) -> None:
        machine = self.machine
        machine.run(
            f"runuser -u demarkus -- demarkus-publish -root {WORLD} -path /behind.md -body '# Behind its back'",
            code=0,
        )
        main = self._main()
        unpacked = machine.run(f"ls {UNPACKED}")
        machine.run(f"systemctl reload {UNIT}", code=0)
        found = self.ask(lambda client: client.lookup("/", "behind", match="catalog"))
        self.hold(
            b"/behind.md" in found.body, "systemctl reload shows what was published behind its back", found
        )
        machine.run(f"kill -HUP {main}", code=0)
        same = self._fetches() and self._main() == main and machine.run(f"ls {UNPACKED}") == unpacked
        self.hold(same, "the main process takes a SIGHUP, and its files stay", (main, unpacked))

    def _large(self) -> None:
        """A world so large that its sections are made in a process of their own, under the unit's protections."""
        machine = self.machine
        machine.run(
            'mkdir /run/large && for i in $(seq 70); do yes "word$i pump hull" | head -c 16000 >/run/large/$i.md; done'
        )
        imported = (
            f"runuser -u demarkus -- demarkus-appliance import /run/large --root {WORLD} --prefix /large"
        )
        machine.run(f"{imported} && rm -r /run/large", code=0)
        machine.run(f"systemctl reload {UNIT}", code=0)
        found = self.ask(lambda client: client.lookup("/large", "word70", match="body"))
        self.hold(b"/large/70.md" in found.body, "a megabyte published behind its back, reloaded", found)
        here = machine.run(f"journalctl -u {UNIT} | grep 'built in this process'")
        self.hold(not here, "its sections were made beside the server", here)

    def _killed(self, what: str, victim: str) -> None:
        """Kills one of the two processes: the other one has to go as well, and the service to return with one folder unpacked."""
        machine = self.machine
        both = (self._main(), self._loader())
        machine.run(f"kill -9 {victim}", code=0)
        machine.wait_for(
            "no process is left", f"test ! -e /proc/{both[0]} -a ! -e /proc/{both[1]}", within=10
        )
        left = machine.run(f"ls {UNPACKED}").split()
        self.said(f"kill -9 of {what} ends both processes, {len(left)} folder left")
        machine.wait_for("the end is seen", f"! systemctl is-active -q {UNIT}", within=10)
        self._active()
        fetched = self._fetches()
        unpacked = machine.run(f"ls {UNPACKED}").split()
        right = fetched and len(unpacked) == 1 and unpacked != left
        self.hold(right, "it returns, with one folder of its own", (fetched, unpacked))

    def _saved(self) -> None:
        """A backup, and a clock that has been set."""
        machine = self.machine
        machine.run("demarkus-appliance backup /run/backup.tar", code=0)
        mode = machine.run("stat -c %a /run/backup.tar; rm /run/backup.tar")
        self.hold(mode == "600", "a backup while it runs, for its owner's eyes", mode)
        machine.run("date -s '+40 days' && systemctl start saved-clock.service", code=0)
        self._clock = int(machine.run("date +%s"))
        self.said("the clock is set and saved")

    # The board

    def _power_cut(self) -> None:
        """Publishes until the plug is pulled; every acknowledged version has to be there afterwards."""
        acknowledged = 0
        enough = trio.Event()

        async def publish_on() -> None:
            nonlocal acknowledged
            async with Client(
                "127.0.0.1", self.machine.port, pin=self.pin, token=self.token, timeout=3
            ) as client:
                while True:
                    text = f"# Log\n\nEntry {acknowledged + 1}.\n".encode()
                    answer = await client.publish("/log.md", text, expected_version=acknowledged)
                    if answer.status != "created":
                        raise Wrong(f"PUBLISH: {answer}")
                    acknowledged += 1
                    if acknowledged == 20:
                        enough.set()

        async def cut() -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(publish_on)
                await enough.wait()
                await trio.sleep(0.05)  # somewhere within the next ones
                self.machine.pull_the_plug()

        try:
            trio.run(cut)
        except* (ClientError, OutcomeUnknown):
            pass
        self.machine.boot(self._second_boot)
        self.said(f"power cut; boots by {self._second_boot}")
        self.said(f"active {self._active()}")
        lost = [
            number for number in range(1, acknowledged + 1) if self._entry(f"/log.md/v{number}") != number
        ]
        self.hold(not lost, f"all {acknowledged} acknowledged versions are served", lost)
        served = self._entry("/log.md")
        history = self.ask(lambda client: client.versions("/log.md")).metadata
        current = int(history["current"])
        right = acknowledged <= served <= current <= acknowledged + 1 and history["chain-valid"] == "true"
        self.hold(right, f"at most one version more is there: {current}, served {served}", history)
        verify = f"runuser -u demarkus -- demarkus-appliance verify --root {WORLD}"
        self.machine.run(verify, code=0)
        written = self.ask(lambda client: client.publish("/log.md", b"# Log\n", expected_version=current))
        sound = self.machine.run(verify, code=0)
        self.hold(written.status == "created", f"written to again; verify: {sound}", written)

    def _entry(self, path: str) -> int:
        """The number in a document of the publish loop; 0 if it is not there."""
        found = re.fullmatch(rb"# Log\n\nEntry (\d+)\.\n", self.ask(lambda client: client.fetch(path)).body)
        return int(found[1]) if found else 0

    def _second_start(self) -> None:
        """The same board as before, and silent about its secrets."""
        machine = self.machine
        identity = machine.run("cat /etc/machine-id")
        self.hold(identity == self._identity, "the same identity", identity)
        now = int(machine.run("date +%s"))
        self.hold(now >= self._clock, "the clock goes on from where it was saved", (self._clock, now))
        ran = machine.run(f"systemctl show -P ConditionResult {CARD}")
        console = machine.console()
        self.hold(
            ran == "no" and "token=" not in console, "no card and no token on the console", console[-2000:]
        )

    def _upgraded(self) -> None:
        """The package once more, as its owner would put in another one; the root is writable for that long."""
        machine = self.machine
        size = os.path.getsize(self._package)
        before = self._main()
        machine.run(f"head -c {size} /dev/vdb >/run/package.deb && mount -o remount,rw /", code=0)
        machine.run("dpkg -i /run/package.deb", within=BOOT_SECONDS, code=0)
        machine.run("mount -o remount,ro / && rm /run/package.deb", code=0)
        self._active()
        root = machine.run("findmnt -no OPTIONS /")
        right = root.startswith("ro,") and self._main() != before and self._fetches()
        self.hold(right, "the package is upgraded in place, the root is read-only again", root)

    def _isolated(self) -> None:
        """The socket form: the service has the port, and no network."""
        machine = self.machine
        folder = f"/run/systemd/system/{UNIT}.d"
        machine.run(
            f"mkdir -p {folder} && ln -s /usr/share/demarkus-appliance/isolated.conf {folder}/ && systemctl daemon-reload"
            f" && systemctl restart {UNIT}",
            within=BOOT_SECONDS,
            code=0,
        )
        active = machine.run(f"systemctl is-active demarkus-appliance.socket {UNIT}").split()
        links = machine.run(f"nsenter -t {self._main()} -n ip -o link | cut -d : -f 2").split()
        right = active == ["active", "active"] and links == ["lo"] and self._fetches()
        self.hold(right, "socket form: serves without a network of its own", (active, links))
        written = self.ask(lambda client: client.publish("/b.md", b"# B\n", expected_version=0))
        machine.run(f"systemctl reload {UNIT}", code=0)
        self.hold(written.status == "created", "socket form: PUBLISH and reload", written)
        machine.run(f"kill -9 {self._main()}", code=0)
        machine.wait_for("the end is seen", f"! systemctl is-active -q {UNIT}", within=10)
        self._active()
        self.hold(self._fetches(), "socket form: returns after kill -9", "no answer")

    def _ended(self) -> None:
        machine = self.machine
        machine.run(f"systemctl stop demarkus-appliance.socket {UNIT}", code=0)
        result = machine.run(f"systemctl show -P Result {UNIT}")
        left = machine.run(f"ls -A {UNPACKED}")
        right = (result, left) == ("success", "")
        self.hold(right, "stops in order and leaves nothing unpacked", (result, left))
        machine.switch_off()
        self.said("is switched off in order")


def main(arch: str) -> int:
    """Runs the test against `dist/image-ARCH`; gives the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the machine goes as well
    scratch = tempfile.mkdtemp(prefix="demarkus-image-")
    package = f"dist/demarkus-appliance_{__version__}_{arch}.deb"
    machine = Machine(arch, f"dist/image-{arch}/demarkus-appliance.img", package, scratch)
    try:
        Test(machine, package, SECOND_BOOT[arch]).run()
    except (Wrong, TimeoutError, ClientError) as wrong:
        print(f"WRONG {wrong}\nconsole and card are in {scratch}", file=sys.stderr)
        return 1
    finally:
        machine.pull_the_plug()
    shutil.rmtree(scratch)
    print("all steps passed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

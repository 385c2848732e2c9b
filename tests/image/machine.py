"""A board that is a virtual machine: powered on and off, with a console to read, a root shell, a network card and a neighbour.

Nothing in it knows what is tested. It boots the image as a board does, from a copy written to a larger card, through firmware and the image's own
boot loader: EFI, or U-Boot where boards have that. The processor is emulated, which is the same everywhere. Its clock, like a board's
without a battery, begins in 2001 each time. The image is the one that is flashed: the root shell is the login that its
owner gets, here on the console that hypervisors have (hvc0).
"""

import os
import re
import shutil
import socket
import subprocess
import time

EMULATORS = {"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}
EFI = {
    "amd64": ("/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"),
    "arm64": ("/usr/share/AAVMF/AAVMF_CODE.fd", "/usr/share/AAVMF/AAVMF_VARS.fd"),
}
U_BOOT = "/usr/lib/u-boot/qemu_arm64/u-boot.bin"
CARD_SIZE = "3G"
BOOT_PARTITION = 16 << 20
"""Where it begins; see deploy/image/disk."""

BOOT_SECONDS = 300.0


class Wrong(Exception):
    """The appliance did not do what it has to."""


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Machine:
    """A board with one card, and a stick on which the package is (no file system: its bytes); `boot` and `pull_the_plug` may alternate.

    `port` is where its UDP port 6309 is on 127.0.0.1. `lan` gives and `lan_port` takes the frames of its second network card, each in a datagram.
    """

    def __init__(self, arch: str, image: str, package: str, scratch: str) -> None:
        self.card = os.path.join(scratch, "card")
        subprocess.run(["cp", "--sparse=always", image, self.card], check=True)
        subprocess.run(["truncate", "-s", CARD_SIZE, self.card], check=True)
        if arch == "amd64":  # where nothing but the command line says which console there is
            self._edit_boot("loader/entries/demarkus.conf", r"^options.*", r"\g<0> console=ttyS0")
        self.lan = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.lan.bind(("127.0.0.1", 0))
        self.port, self.lan_port = _free_port(), _free_port()
        self._arch, self._package, self._scratch = arch, package, scratch
        self._boots = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._shell: socket.socket | None = None

    def _edit_boot(self, path: str, pattern: str, text: str) -> None:
        """Changes a file of the boot partition, as anybody with the card in a computer can."""
        partition = f"{self.card}@@{BOOT_PARTITION}"
        before = subprocess.check_output(["mtype", "-i", partition, f"::/{path}"], encoding="utf-8")
        after = re.sub(pattern, text, before, flags=re.MULTILINE)
        subprocess.run(
            ["mcopy", "-o", "-i", partition, "-", f"::/{path}"], input=after, encoding="utf-8", check=True
        )

    def boot(self, firmware: str = "efi") -> None:
        """Powers it on, with `efi` or `u-boot`, and waits for the shell."""
        self._boots += 1
        path = os.path.join(self._scratch, "shell")
        machine = (
            ["-M", "virt", "-cpu", "max,pauth-impdef=on"]
            if self._arch == "arm64"
            else ["-M", "q35", "-cpu", "max"]
        )
        line = [
            EMULATORS[self._arch], *machine, "-accel", "tcg,thread=multi", "-smp", "2", "-m", "512",
            "-nodefaults", "-display", "none", "-no-reboot", "-rtc", "base=2001-01-01",
            *self._firmware(firmware),
            "-serial", f"file:{self._console_file}",
            "-drive", f"file={self.card},format=raw,if=virtio",
            "-drive", f"file={self._package},format=raw,if=virtio,readonly=on",
            "-netdev", f"user,id=net,hostfwd=udp:127.0.0.1:{self.port}-:6309",
            "-device", "virtio-net-pci,netdev=net,romfile=",
            "-netdev", f"dgram,id=lan,local.type=inet,local.host=127.0.0.1,local.port={self.lan_port},"
            f"remote.type=inet,remote.host=127.0.0.1,remote.port={self.lan.getsockname()[1]}",
            "-device", "virtio-net-pci,netdev=lan,romfile=",
            "-device", "virtio-serial-pci", "-chardev", f"socket,id=shell,path={path},server=on,wait=off",
            "-device", "virtconsole,chardev=shell",
        ]  # fmt: skip
        self._process = subprocess.Popen(["nice", "-n", "19", *line], stdin=subprocess.DEVNULL)
        self._shell = self._connected(path)
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            try:
                # The default route goes, so that the machine has no network but its own, and a time server is none of the test.
                self._shell.sendall(b"exec sh\n")
                self.run("PS1=; stty -echo; ip route del default", within=5)
                return
            except TimeoutError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise Wrong(f"no shell within {BOOT_SECONDS:.0f} s: {self.console()[-2000:]}") from None

    def _firmware(self, firmware: str) -> list[str]:
        if firmware == "u-boot":
            return ["-bios", U_BOOT]
        code, variables = EFI[self._arch]
        own = os.path.join(self._scratch, "variables")
        shutil.copyfile(variables, own)
        drive = "if=pflash,format=raw,file="
        return ["-drive", f"{drive}{code},readonly=on", "-drive", f"{drive}{own}"]

    @property
    def _console_file(self) -> str:
        return os.path.join(self._scratch, f"console-{self._boots}")

    def console(self) -> str:
        """What the console has shown since power on."""
        with open(self._console_file, encoding="utf-8", errors="replace") as file:
            return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", file.read())

    def _connected(self, path: str) -> socket.socket:
        shell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        deadline = time.monotonic() + 10
        while True:
            try:
                shell.connect(path)
                return shell
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def run(self, command: str, *, within: float = 120.0, code: int | None = None) -> str:
        """What a command of the owner prints; `code` is the exit code that it has to have."""
        assert self._shell is not None
        mark = f"{time.monotonic_ns():x}"
        self._shell.sendall(f"{{ {command}; }} 2>&1; echo =$?={mark}=\n".encode())
        text = b""
        deadline = time.monotonic() + within
        while not (found := re.search(rb"=(\d+)=" + mark.encode() + rb"=", text)):
            self._shell.settimeout(max(0.01, deadline - time.monotonic()))
            said = self._shell.recv(65536)
            if not said:
                raise Wrong(f"the machine has ended: {self.console()[-2000:]}")
            text += said
        answer = text[: found.start()].decode("utf-8", "replace").replace("\r", "")
        if code is not None and int(found[1]) != code:
            raise Wrong(f"{command}: exit code {found[1].decode()}: {answer}")
        return answer.strip()

    def wait_for(self, what: str, condition: str, *, within: float) -> None:
        """Waits until a command of the owner succeeds."""
        deadline = time.monotonic() + within
        while self.run(f"if {condition}; then echo holds; fi") != "holds":
            if time.monotonic() > deadline:
                story = self.run("systemctl --failed --no-pager; journalctl --no-pager | tail -n 30")
                raise Wrong(f"{what}: not within {within:.0f} s; {story}")
            time.sleep(0.2)

    def switch_off(self) -> None:
        """Has it end in order."""
        assert self._shell is not None
        assert self._process is not None
        self._shell.sendall(b"systemctl poweroff\n")
        try:
            self._process.wait(120)
        except subprocess.TimeoutExpired:
            raise Wrong(f"not off within two minutes: {self.console()[-2000:]}") from None
        self.pull_the_plug()

    def pull_the_plug(self) -> None:
        """Ends it at once, in the middle of whatever it does."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

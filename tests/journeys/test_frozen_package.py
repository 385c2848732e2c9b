"""The Debian package: what is in it, what lintian says, and a life of it: installed, upgraded, downgraded, purged.

The life is led on this machine's own Debian, in a namespace with a layer over the root that is thrown away afterwards: the maintainer scripts
run for real and leave nothing behind. Under a running systemd the package is tested by scripts/test-image.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.debian import need
from tests.journeys.conftest import PROJECT

STATE = "/var/lib/demarkus-appliance"
SETTINGS = "/etc/demarkus-appliance/settings"

# A root that is this machine's to read and a heap of memory to write; everything goes with the last process.
LAYER = """
layer=$1; shift
mount -t tmpfs tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
mount -t proc proc "$layer/root/proc"
mount --rbind /dev "$layer/root/dev"
mount -t tmpfs tmpfs "$layer/root/run"
mount -t tmpfs tmpfs "$layer/root/tmp"
mkdir "$layer/root/tmp/packages"
cp "$@" "$layer/root/tmp/packages"
exec chroot "$layer/root" sh -eu
"""


def run(*command: str | Path, text: str = "", code: int = 0) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, encoding="utf-8", timeout=300, check=False
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def package() -> Path:
    done = subprocess.run(
        [PROJECT / "deploy" / "deb" / "build"], stdout=subprocess.PIPE, encoding="utf-8", check=True
    )
    return PROJECT / done.stdout.strip()


@pytest.fixture(scope="module")
def tree(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package unpacked, with its control files in DEBIAN."""
    folder = tmp_path_factory.mktemp("package") / "tree"
    run("dpkg-deb", "--raw-extract", package, folder)
    return folder


def test_it_holds_what_a_board_needs_and_no_secret(package: Path, tree: Path) -> None:
    paths = {str(path.relative_to(tree)) for path in tree.rglob("*") if not path.is_dir()}
    assert paths >= {
        "usr/bin/demarkus-appliance",
        "lib/systemd/system/demarkus-appliance.service",
        "lib/systemd/system/demarkus-appliance.socket",
        "lib/systemd/system/demarkus-appliance-card.service",
        "usr/share/demarkus-appliance/isolated.conf",
        "usr/lib/sysusers.d/demarkus-appliance.conf",
        "usr/share/man/man8/demarkus-appliance.8.gz",
        "usr/share/bash-completion/completions/demarkus-appliance",
        "etc/demarkus-appliance/settings",
    }
    for older in ("demarkus-server", "demarkus-token", "demarkus-publish"):
        assert (tree / "usr/bin" / older).readlink() == Path("demarkus-appliance")
    assert not [path for path in paths if path.endswith((".pem", ".toml", ".key")) or path.startswith("var/")]
    listing = run("dpkg-deb", "--contents", package)
    assert {line.split()[1] for line in listing.splitlines()} == {"root/root"}


def test_dpkg_can_tell_whether_it_suits_the_machine(tree: Path) -> None:
    """Report 51: its architecture is that of the executable in it, so that dpkg refuses it elsewhere, by name; 64-bit only."""
    header = run("readelf", "--file-header", tree / "usr/bin/demarkus-appliance")
    machine = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}
    control = (tree / "DEBIAN" / "control").read_text()
    found = re.search(r"(?m)^Architecture: (\S+)$", control)
    assert found is not None
    assert re.search(rf"Machine: +{machine[found[1]]}\n", header)
    assert re.search("Class: +ELF64\n", header)


def test_every_setting_is_in_the_example_and_commented_out(tree: Path) -> None:
    from app.server.settings import TABLE

    lines = (tree / SETTINGS.lstrip("/")).read_text().splitlines()
    assert all(line == "" or line.startswith("#") for line in lines)
    named = {line[1:].partition("=")[0] for line in lines if line.startswith("#DEMARKUS_")}
    assert named == {setting.variable for setting in TABLE if setting.variable}


def test_lintian_finds_no_error(package: Path) -> None:
    need("lintian:lintian")
    found = run("lintian", "--allow-root", "--fail-on", "error", package)
    assert not re.search(r"^E:", found, re.MULTILINE), found


def test_the_manual_page_names_every_command(tree: Path) -> None:
    from app.commands.program import own_parser

    page = run("gzip", "-dc", tree / "usr/share/man/man8/demarkus-appliance.8.gz")
    commands = next(action.choices for action in own_parser()._actions if isinstance(action.choices, dict))
    assert "serve" in commands
    for name in commands:
        assert re.search(rf"^\.SS {name}\b", page, re.MULTILINE), name
    assert ".SH SIGNALS" in page


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["demarkus-appliance", "car"], {"card"}),
        (["demarkus-appliance", "card", "--mi"], {"--mint"}),
        (["demarkus-appliance", "self"], {"selftest"}),
        (["demarkus-appliance", "token", ""], {"generate", "list", "revoke"}),
        (["demarkus-appliance", "token", "generate", "--la"], {"--label"}),
        (["demarkus-appliance", "lookup", "--qu"], {"--query"}),
        (["demarkus-appliance", "serve", "--roo"], {"--root"}),
        (["demarkus-appliance", "--ver"], {"--version"}),
        (["demarkus-appliance", "import", "some"], set()),
    ],
    ids=" ".join,
)
def test_bash_completes(tree: Path, words: list[str], wanted: set[str]) -> None:
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _demarkus_appliance; printf "%s\\n" "${COMPREPLY[@]}"'
    completion = tree / "usr/share/bash-completion/completions/demarkus-appliance"
    assert set(run("bash", "-c", script, "bash", completion, *words).split()) == wanted


def test_a_life_of_it(package: Path, tree: Path, tmp_path: Path) -> None:
    newer = tmp_path / "newer.deb"
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub(r"(?m)^Version: .*", "Version: 99.0", control.read_text()))
    run("dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, newer)
    older = tmp_path / "older.deb"
    shutil.copy(package, older)
    (tmp_path / "layer").mkdir()
    life = f"""
        export DEBIAN_FRONTEND=noninteractive
        dpkg -i /tmp/packages/older.deb
        id -u demarkus
        test -L /etc/systemd/system/multi-user.target.wants/demarkus-appliance-card.service
        test ! -e /etc/systemd/system/sockets.target.wants/demarkus-appliance.socket
        test "$(stat -c '%U %a' {STATE}/tokens/tokens.toml)" = "demarkus 600"
        demarkus-token generate -label life -paths '/**' -tokens {STATE}/tokens/tokens.toml >/dev/null
        mkdir {STATE}/world
        demarkus-publish -root {STATE}/world -path /kept.md -body '# Kept'
        echo identity >{STATE}/certificate.pem
        echo DEMARKUS_PORT=6310 >>{SETTINGS}
        find {STATE} {SETTINGS} -type f -exec sha256sum {{}} + | sort >/tmp/before
        for package in newer older; do
            dpkg -i /tmp/packages/$package.deb
            demarkus-appliance --version
            find {STATE} {SETTINGS} -type f -exec sha256sum {{}} + | sort >/tmp/after
            cmp /tmp/before /tmp/after
        done
        demarkus-appliance backup /tmp/board.tar
        dpkg --remove demarkus-appliance
        test -e {STATE}/certificate.pem -a -e {SETTINGS}
        dpkg -i /tmp/packages/older.deb
        dpkg --purge demarkus-appliance
        test ! -e {SETTINGS} -a ! -e {STATE}/certificate.pem -a ! -e {STATE}/tokens -a ! -e /usr/bin/demarkus-server
        test -n "$(find {STATE}/world -type f)"
        rm -r {STATE}
        dpkg -i /tmp/packages/older.deb
        demarkus-appliance restore /tmp/board.tar
        find {STATE} {SETTINGS} -type f -exec sha256sum {{}} + | sort >/tmp/after
        grep -v 'lock$' /tmp/before | cmp - /tmp/after
        test -z "$(find {STATE}/world {STATE}/certificate.pem {STATE}/tokens/tokens.toml ! -user demarkus)"
        test "$(stat -c %a {SETTINGS})" = 644
    """
    script = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc", LAYER, "sh")
    said = run(*script, tmp_path / "layer", older, newer, text=life)
    assert f"the documents stay in {STATE}/world" in said
    assert said.count("card --mint") == 2  # told where there is no token yet, not at an upgrade


def test_the_package_is_the_same_every_time(package: Path) -> None:
    before = package.read_bytes()
    run(PROJECT / "deploy" / "deb" / "build")
    assert package.read_bytes() == before

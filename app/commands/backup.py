"""`backup`: the world, the tokens, the certificate with its key and the settings in one file, beside a running server or without one.

What could not be taken is named, and is the exit code: a backup is looked at when it is too late to make another.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from app.commands import places
from app.commands.outcomes import Exit, Failure
from app.commands.parser import PROGRAM, Command
from app.commands.terminal import Progress, line, note

if TYPE_CHECKING:
    from app.world.backup import BackupReport

_CALLED = {
    "settings": "the settings file",
    "tokens.toml": "the tokens",
    "tls-cert.pem": "the certificate",
    "tls-key.pem": "the certificate's key",
}
"""What the operator's files are; any other is the server's own certificate."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="the backup, a tar file; an earlier one of this name is replaced"
    )
    places.arguments(parser)


def run(options: argparse.Namespace) -> int:
    from app import __version__
    from app.server.runtime import is_below
    from app.world.backup import BackupReport, write_backup
    from app.world.errors import WorldError

    where = places.places(options)
    if is_below(os.path.dirname(os.path.abspath(options.file)), where.root):
        raise Failure(f"{options.file} lies in the content directory; put it somewhere else")
    etc = {name: data for name, path in where.etc.items() if (data := _read(path)) is not None}
    report = BackupReport()
    progress = Progress("backup")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that nothing half is left
    try:
        write_backup(where.root, options.file, etc, time.time(), f"{PROGRAM} {__version__}", progress, report)
    except WorldError as error:
        raise Failure(str(error)) from error
    except FileExistsError as error:
        raise Failure(f"{options.file} is no file; give another name") from error
    except BaseException:
        progress.leave()
        note("stopped before the end; there is no new backup")
        raise
    _tell(report)
    missing = sorted(where.expected - etc.keys())
    for name in missing:
        note(f"left out {_CALLED.get(name, 'the certificate')}: there is no {where.etc[name]}")
    line(f"{report.documents} documents, {report.versions} versions; {len(report.left_out)} left out")
    for told in _beside(where, etc):
        line(told)
    faults = missing or report.left_out or report.curtailed or report.unsound
    return Exit.FAILED if faults else Exit.DONE


def _beside(where: places.Places, etc: Mapping[str, bytes]) -> Iterator[str]:
    """Whether tokens, certificate and settings are in the backup, a line for each."""
    from app.server.certificate import OWN_FILE

    if "tokens.toml" in etc:
        yield f"with tokens from {where.etc['tokens.toml']}"
    else:
        yield "without tokens" + (": name their file with --tokens" if "tokens.toml" not in where.etc else "")
    certificate = "tls-cert.pem" if "tls-cert.pem" in where.etc else OWN_FILE
    if certificate in etc:
        keyless = "tls-key.pem" in where.etc and "tls-key.pem" not in etc
        yield f"with certificate {_fingerprint(etc[certificate])}{', without its key' if keyless else ''}"
    elif certificate in where.expected:
        yield "without certificate"
    else:
        looked = f"there is no {where.etc[OWN_FILE]}; " if OWN_FILE in where.etc else ""
        yield f"without certificate: {looked}name its folder with --state-dir"
    if "settings" in etc:
        yield f"with settings from {where.etc['settings']}"
    else:
        yield "without settings: if the server has a file of them, name it with --config"


def _fingerprint(pem: bytes) -> str:
    from cryptography import x509

    from app.server.certificate import fingerprint_of

    try:
        return fingerprint_of(x509.load_pem_x509_certificates(pem)[0])
    except ValueError:
        return "that no server can use: it is no PEM certificate"


def _tell(report: "BackupReport") -> None:
    for path, why in report.left_out:
        note(f"left out {path}: {why}")
    for path, why in report.curtailed:
        note(f"not all of {path}: {why}")
    for path, why in report.unsound:
        note(f"taken as it is, {path}: {why}")
    if report.plain:
        note(f"passed over {report.plain} files that are no documents")


def _read(path: str) -> bytes | None:
    """The bytes of one of the operator's files, None if there is none. Raises `OSError`."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


COMMAND = Command(
    name="backup",
    summary="write world, tokens, certificate, key and settings to one file, while the server runs or not",
    examples=("backup /media/stick/board.tar", "backup board.tar --root /srv/world --tokens tokens.toml"),
    arguments=arguments,
    run=run,
    notes="Every document is in it with its whole history. The file holds the certificate's key and is readable by you alone; of tokens it has the hashes. "
    "What is in it beside the documents, and what is not, is said at the end. Exit code 1 if a document could not be taken whole, or a file that a flag or "
    "setting names is not there; that is named, and everything else is in it. An interrupted backup leaves the one before it as it was. "
    "`restore` brings it back; any tar can unpack it, and then its folder `world` is one that every server of this protocol can serve.",
)

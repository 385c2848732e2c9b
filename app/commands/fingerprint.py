"""`fingerprint`: what clients of this server pin. Reads the certificate the server would present, and makes none."""

import argparse
import os
from typing import TYPE_CHECKING

from app.commands.outcomes import Failure
from app.commands.parser import Command
from app.commands.terminal import answer, line

if TYPE_CHECKING:
    from app.server.settings import Settings


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--tls-cert", metavar="FILE", default="", help="the server's certificate; else $DEMARKUS_TLS_CERT"
    )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default="",
        help="where its own certificate is; else $DEMARKUS_STATE_DIR",
    )
    parser.add_argument(
        "--config", metavar="FILE", default="", help="the server's settings file, NAME=VALUE lines"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    file, fingerprint = _certificate(options)
    if options.json:
        from app.commands import shapes

        answer(shapes.encode(shapes.Fingerprint(fingerprint, file)))
    else:
        line(fingerprint)
    return 0


def _certificate(options: argparse.Namespace) -> tuple[str, str]:
    """The file and the fingerprint. Only the certificate is read: who asks need not be allowed to read the key."""
    from cryptography import x509

    from app.server.certificate import OWN_FILE, fingerprint_of

    if options.tls_cert:
        file = options.tls_cert
    else:
        settings = _settings(options)
        file = settings.tls_cert or os.path.join(settings.state_dir, OWN_FILE)
    try:
        with open(file, "rb") as source:
            chain = x509.load_pem_x509_certificates(source.read())
    except FileNotFoundError as error:
        raise Failure(
            f"there is no certificate at {file}: a server makes its own when it first starts; "
            "give --state-dir, --tls-cert or --config as the server has it, or run this as the user it runs as"
        ) from error
    except ValueError as error:
        raise Failure(f"{file} is no PEM certificate") from error
    return file, fingerprint_of(chain[0])


def _settings(options: argparse.Namespace) -> "Settings":
    """The server's settings as far as they tell where its certificate is."""
    from app.server.settings import from_command_line

    named = {"state-dir": options.state_dir, "config": options.config}
    return from_command_line([f"--{name}={value}" for name, value in named.items() if value], os.environ)


COMMAND = Command(
    name="fingerprint",
    summary="print the fingerprint of this server's certificate, for clients to pin",
    examples=("fingerprint", "fingerprint --tls-cert /etc/demarkus/cert.pem --json"),
    arguments=arguments,
    run=run,
    shape="fingerprint",
)

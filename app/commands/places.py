"""Where the world on this machine and the operator's files that belong to it are, for commands that take all of them: `backup` and `restore`.

What the command line and the environment name counts, as it does for `serve`. Where neither names a world and the service is
installed, its places are meant: on a board that is all there is, and root's environment knows nothing of it.
"""

import argparse
import os
from typing import NamedTuple

from app.commands.outcomes import Exit, Failure

SERVICE = {
    "DEMARKUS_ROOT": "/var/lib/demarkus-appliance/world",
    "DEMARKUS_TOKENS": "/var/lib/demarkus-appliance/tokens/tokens.toml",
    "DEMARKUS_STATE_DIR": "/var/lib/demarkus-appliance",
}
"""What systemd/demarkus-appliance.service sets."""
SERVICE_SETTINGS = "/etc/demarkus-appliance/settings"


class Places(NamedTuple):
    """The content directory, and the operator's files by the name they have in a backup; a file that has no place is not named.

    `expected` are those that a flag or a setting speaks of, so that they should be there.
    """

    root: str
    etc: dict[str, str]
    expected: frozenset[str]


def arguments(parser: argparse.ArgumentParser) -> None:
    """`--root`, `--tokens`, `--state-dir`, `--config`."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        default="",
        help="the content directory; else $DEMARKUS_ROOT, else the installed service's",
    )
    parser.add_argument("--tokens", metavar="FILE", default="", help="the token file; else $DEMARKUS_TOKENS")
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        default="",
        help="where the server's own certificate is; else $DEMARKUS_STATE_DIR",
    )
    parser.add_argument(
        "--config", metavar="FILE", default="", help="the server's settings file, NAME=VALUE lines"
    )


def places(options: argparse.Namespace) -> Places:
    """Where everything is. Raises `Failure`, `BadSetting`."""
    from app.server.certificate import OWN_FILE
    from app.server.settings import from_command_line, settings_from

    config = options.config
    service: dict[str, str] = {}
    named = options.root or os.environ.get("DEMARKUS_ROOT") or config
    if not named and os.path.isdir(SERVICE["DEMARKUS_STATE_DIR"]):
        service = SERVICE
        config = SERVICE_SETTINGS if os.path.exists(SERVICE_SETTINGS) else ""
    flags = {"root": options.root, "tokens": options.tokens, "state-dir": options.state_dir, "config": config}
    settings = from_command_line(
        [f"--{name}={value}" for name, value in flags.items() if value], os.environ, service
    )
    if not settings.root:
        raise Failure("which content directory? give --root DIR or set DEMARKUS_ROOT", Exit.USAGE)
    etc = {
        "settings": config,
        "tokens.toml": settings.tokens,
        "tls-cert.pem": settings.tls_cert,
        "tls-key.pem": settings.tls_key,
        OWN_FILE: os.path.join(settings.state_dir, OWN_FILE) if settings.state_dir else "",
    }
    etc = {name: path for name, path in etc.items() if path}
    bare = {name: value for name, value in os.environ.items() if not name.startswith("DEMARKUS_")}
    kept_elsewhere = options.state_dir or settings.state_dir != settings_from({}, bare, {}).state_dir
    # A server that is given a certificate makes none of its own.
    own = kept_elsewhere and not settings.tls_cert
    return Places(settings.root, etc, frozenset(etc) - (set() if own else {OWN_FILE}))

"""Certificates a person has decided to trust: one line per server in `~/.mark/pins`.

    # comment
    board.local:6309 sha256:4f2a…

A pin is the SHA-256 of the whole certificate (DER), as `demarkus-appliance fingerprint` prints it on the server. The file is for people
too: what this program does not understand on a line of its own it keeps, except that a broken line for a server is an error, because
taking it for "no pin" would widen trust.
"""

import os

from app.client.statefile import read_text, replace_text, state_directory

_PREFIX = "sha256:"


class BadPin(ValueError):
    """A pin, or a line of the pin file, that cannot be read; the text says which and what is expected."""


def parse_pin(text: str) -> str:
    """The canonical form of a pin: `sha256:` and 64 lower-case digits. Upper case and colons between bytes are taken too."""
    digits = text.strip().lower().removeprefix(_PREFIX).replace(":", "")
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise BadPin(f"not a fingerprint: {text!r} (expected sha256: and 64 hexadecimal digits)")
    return _PREFIX + digits


class PinFile:
    """The pins of one user. `server` is the dial form `host:port`, host in lower case."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path or os.path.join(state_directory(), "pins")

    def get(self, server: str) -> str | None:
        """The pin of this server, if there is one. Raises `BadPin`, `OSError`."""
        for line in self._lines():
            name, _, pin = line.strip().partition(" ")
            if name.lower() == server.lower():
                try:
                    return parse_pin(pin)
                except BadPin as error:
                    raise BadPin(f"{self.path}: line of {server}: {error}") from error
        return None

    def put(self, server: str, pin: str) -> None:
        """Remembers the pin, in the place of an earlier one. Raises `BadPin`, `OSError`."""
        mine = f"{server.lower()} {parse_pin(pin)}"
        kept = [line for line in self._lines() if line.strip().partition(" ")[0].lower() != server.lower()]
        replace_text(self.path, "\n".join([*kept, mine]) + "\n", 0o644)

    def _lines(self) -> list[str]:
        try:
            return read_text(self.path).splitlines()
        except UnicodeDecodeError as error:
            raise BadPin(f"{self.path}: not a text file") from error

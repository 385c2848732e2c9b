"""The tokens a client holds, per server: `~/.mark/tokens.toml` and `~/.mark/tokens.d/` (operations §9).

`tokens.toml` is written by this program (0600, replaced by rename); `tokens.d/<host:port>` holds one raw token per file and is for
other tools to write, read only here. Where both name a server `tokens.toml` wins.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from app.client.statefile import read_text, replace_text, state_directory


class BadTokenStore(ValueError):
    """The store cannot be read; the text names the file and the fault."""


class Secret(NamedTuple):
    """A token, and where it came from, in words for a person."""

    token: str
    origin: str


class TokenStore:
    """The tokens of one user. `server` is the dial form `host:port`."""

    def __init__(self, directory: str | None = None) -> None:
        self.directory = directory or state_directory()
        self.path = os.path.join(self.directory, "tokens.toml")

    def get(self, server: str) -> str | None:
        """The token for this server, if there is one. Raises `BadTokenStore`."""
        return self.all().get(server.lower())

    def all(self) -> dict[str, str]:
        """Every server with a token, by name. Raises `BadTokenStore`."""
        return dict(sorted({**self._dropped(), **self._own()}.items()))

    def add(self, server: str, token: str) -> None:
        """Keeps a token, in the place of an earlier one. Raises `BadTokenStore`, `OSError`."""
        self._write({**self._own(), server.lower(): token})

    def remove(self, server: str) -> bool:
        """Forgets the token in `tokens.toml`; False when there is none. Raises `BadTokenStore`, `OSError`."""
        own = self._own()
        if own.pop(server.lower(), None) is None:
            return False
        self._write(own)
        return True

    def _own(self) -> dict[str, str]:
        try:
            text = read_text(self.path)
            tables = _parsed(text) if text else {}
        except (OSError, ValueError) as error:
            raise BadTokenStore(f"{self.path}: {error}") from error
        own = {}
        for server, table in tables.items():
            token = table.get("token") if isinstance(table, dict) else None
            if not isinstance(token, str) or not token:
                raise BadTokenStore(f"{self.path}: the table of {server!r} has no token")
            own[server.lower()] = token
        return own

    def _dropped(self) -> dict[str, str]:
        directory = os.path.join(self.directory, "tokens.d")
        dropped = {}
        try:
            with os.scandir(directory) as entries:
                names = [
                    entry.name for entry in entries if not entry.name.startswith(".") and entry.is_file()
                ]
            for name in names:
                if token := read_text(os.path.join(directory, name)).strip():
                    dropped[name.lower()] = token
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise BadTokenStore(f"{directory}: {error}") from error
        return dropped

    def _write(self, tokens: Mapping[str, str]) -> None:
        tables = [
            f"[{_quoted(server)}]\ntoken = {_quoted(token)}\n" for server, token in sorted(tokens.items())
        ]
        replace_text(self.path, "\n".join(tables), 0o600)


def resolve_token(
    server: str, explicit: Secret | None, environment: Mapping[str, str], store: TokenStore
) -> Secret | None:
    """The token to show to `server`, the host named on the command line: the explicit one, then `DEMARKUS_AUTH`, then the stored one.

    A server that was only linked to gets `store.get` and nothing else (operations §9).
    """
    if explicit is not None:
        return explicit
    if token := environment.get("DEMARKUS_AUTH"):
        return Secret(token, "DEMARKUS_AUTH")
    stored = store.get(server)
    return None if stored is None else Secret(stored, f"what is stored for {server} in {store.directory}")


def _parsed(text: str) -> dict[str, object]:
    import tomllib  # most people have no such file, and every command would load this

    return tomllib.loads(text)


def _quoted(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's, except that DEL has to be escaped too."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")

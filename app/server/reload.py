"""What can change while the server runs: certificate, token table and content, loaded at start and again on request (operations §3, §4).

The three are independent, and each is loaded completely before it replaces what is in force; what cannot be used costs one line in the log
and changes nothing. At start the same files are mandatory, and the same faults end the process.
"""

import os
import socket
import stat
from collections.abc import Awaitable, Callable

import msgspec
import trio

from app.protocol.text import Log
from app.server.certificate import BadCertificate, Certificate, load_own, load_pair, make_own, self_signed
from app.server.contents import Reloaded
from app.server.settings import Settings
from app.world.tokens import BadTokenFile, TokenTable


def load_certificate(settings: Settings, log: Log) -> Certificate:
    """The configured pair, else the server's own certificate, made on the first start. Raises BadCertificate."""
    if settings.tls_cert:
        log("info", "tls: loading certificate", path=settings.tls_cert)
        certificate = load_pair(settings.tls_cert, settings.tls_key)
        log("info", "tls: certificate loaded", path=settings.tls_cert, fingerprint=certificate.fingerprint)
        return certificate
    own = _own_certificate(settings.state_dir, log)
    log("info", "tls: using self-signed certificate", dir=settings.state_dir, fingerprint=own.fingerprint)
    return own


def _own_certificate(directory: str, log: Log) -> Certificate:
    if directory:
        kept = load_own(directory)
        if kept is not None:
            return kept
    host_name = socket.gethostname()
    try:
        if not directory:
            raise OSError(0, "no state directory is known")
        return make_own(directory, host_name)
    except OSError as error:
        # A board with a read-only or full disk still serves; it only cannot be recognised after a restart.
        log(
            "warn",
            "tls: the self-signed certificate cannot be kept and will change at the next start; set DEMARKUS_STATE_DIR to a directory that can be written",
            dir=directory,
            error=error.strerror,
        )
        return self_signed(host_name)


TOKEN_FILE_MAX = 1024 * 1024
"""Bytes of a token file; some 5,000 entries."""


def read_tokens(path: str) -> bytes:
    """The bytes of the token file. Raises BadTokenFile with one line that names it."""
    try:
        # What waits for a writer, or never ends, is no token file, and must not hold up everybody.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as source:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadTokenFile(f"the token file {path} is not a regular file")
            data = source.read(TOKEN_FILE_MAX + 1)
    except OSError as error:
        raise BadTokenFile(f"cannot read the token file {path} ({error.strerror})") from None
    if len(data) > TOKEN_FILE_MAX:
        raise BadTokenFile(f"the token file {path} is larger than {TOKEN_FILE_MAX} bytes")
    return data


def parse_tokens(path: str, data: bytes, log: Log) -> TokenTable:
    """The token table in these bytes of the file at `path`; what has no effect in it is logged. Raises BadTokenFile with one line that names it."""
    try:
        table = TokenTable.parse(data)
    except BadTokenFile as error:
        raise BadTokenFile(f"token file {path}: {error}") from None
    for warning in table.warnings:
        log("warn", "auth: token file", path=path, error=warning)
    return table


class Outcome(msgspec.Struct, frozen=True):
    """How a reload ended: for each part that there is, why it failed or an empty text; and what the content had new."""

    parts: dict[str, str]
    content: Reloaded

    @property
    def ok(self) -> bool:
        return not any(self.parts.values())


class Reloader:
    """Loads certificate, tokens and content again and hands what is good to `use_certificate` and `use_tokens`.

    `tokens` are the bytes of the token file that are in force. `content` reloads the content, being told why, and logs that itself.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        tokens: bytes,
        use_certificate: Callable[[Certificate], None],
        use_tokens: Callable[[TokenTable], None],
        content: Callable[[str], Awaitable[Reloaded]],
        log: Log,
    ) -> None:
        self._settings = settings
        self._use_certificate = use_certificate
        self._use_tokens = use_tokens
        self._content = content
        self._log = log
        self._in_force = tokens
        self._seen: bytes | str = (
            tokens  # what the last reload found: the file's bytes, or why it could not be read
        )

    async def reload(self, cause: str = "SIGHUP") -> Outcome:
        """All three, as a signal or a command asks for; every outcome is logged."""
        parts = {}
        if self._settings.tls_cert:
            parts["certificate"] = await self._reload_certificate()
        path = self._settings.tokens
        if path:
            parts["tokens"] = error = self._load_tokens(path)
            if error:
                self._log(
                    "warn", "auth: token reload failed, the old tokens stay in force", path=path, error=error
                )
            else:
                self._log("info", "auth: tokens reloaded", path=path)
        content = await self._content(cause)
        parts["content"] = content.error
        return Outcome(parts, content)

    def tokens_changed(self) -> None:
        """The tokens, as the watch on their file asks for; a file that reads as it did before is nothing new."""
        path = self._settings.tokens
        before = self._seen
        error = self._load_tokens(path)
        if self._seen == before:
            return
        if error:
            self._log("warn", "configwatch: reload failed", target=path, error=error)
        else:
            self._log("info", "configwatch: reloaded", target=path)

    async def _reload_certificate(self) -> str:
        chain, key = self._settings.tls_cert, self._settings.tls_key
        try:
            certificate = await trio.to_thread.run_sync(load_pair, chain, key)
        except BadCertificate as error:
            self._log("error", "tls: certificate reload failed", error=str(error))
            return str(error)
        self._use_certificate(certificate)
        self._log("info", "tls: certificate reloaded", path=chain, fingerprint=certificate.fingerprint)
        return ""

    def _load_tokens(self, path: str) -> str:
        """Puts the file's tokens into force; gives the reason if that cannot be."""
        try:
            data = read_tokens(path)
        except BadTokenFile as error:
            self._seen = str(error)
            return self._seen
        self._seen = data
        if self._in_force.strip() and not data.strip():
            # Left by a power cut or caught between truncating and writing; it would open what `read` tokens close.
            return f"token file {path} is empty; to revoke every token, leave the line [tokens] in it"
        try:
            self._use_tokens(parse_tokens(path, data, self._log))
        except BadTokenFile as error:
            return str(error)
        self._in_force = data
        return ""

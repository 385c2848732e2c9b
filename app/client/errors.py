"""What can go wrong between a client and a server before there is an answer.

An answer with an error status is not here: it is a `Response` like any other. Each message is one plain sentence that names the
server, so that a command can print it as it is; where a person can act on it, the class carries what is needed to say how.
"""


class ClientError(Exception):
    """One family for everything `Client` raises; `where` is the server in dial form (`host:port`)."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, reason)
        self.where = where
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


class Unreachable(ClientError):
    """No connection, or no answer in time, and nothing was changed on the server by this request."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(where, f"unreachable: {reason}")


class Untrusted(ClientError):
    """The certificate does not verify against the system's roots; `fingerprint` is the one that was shown."""

    def __init__(self, where: str, reason: str, fingerprint: str) -> None:
        super().__init__(where, f"the certificate cannot be trusted: {reason}")
        self.fingerprint = fingerprint


class IdentityChanged(ClientError):
    """The server's certificate is not the pinned one."""

    def __init__(self, where: str, pinned: str, seen: str) -> None:
        super().__init__(where, f"the server's identity changed: pinned {pinned}, shown {seen}")
        self.pinned = pinned
        self.seen = seen


class OutcomeUnknown(ClientError):
    """A write left this machine and no answer came: it may or may not have happened (wire §1.15)."""


class BadAnswer(ClientError):
    """The server answered with something that is no response of this protocol, or with too much."""

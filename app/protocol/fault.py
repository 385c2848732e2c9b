"""The one protocol error: untrusted input ends in a `Fault`, and the fault knows the answer to send.

Every room raises it for "this request is answered with that error"; nothing else travels from a handler to the
wire. What goes wrong inside the appliance has its own error families, mapped to faults in one table at the edge.
"""

from app.protocol.answer import Response, error_response


class Fault(Exception):
    """A request that cannot be served.

    `status` and `message` are sent; `detail` says more and is for logs only (wire §2.3: never sent).
    """

    def __init__(self, status: str, message: str, detail: str = "") -> None:
        super().__init__(status, message, detail)
        self.status = status
        self.message = message
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.status}: {self.message}" + (f" ({self.detail})" if self.detail else "")

    def response(self) -> Response:
        """The answer to send (wire §3.5)."""
        return error_response(self.status, self.message)


def malformed(detail: str) -> Fault:
    """The fault of a request that breaks the grammar (wire §2.3)."""
    return Fault("bad-request", "bad request", detail)


def unreadable(detail: str) -> Fault:
    """The fault of a request that could not be taken in: empty, broken off, or over a size limit (wire §2.3)."""
    return Fault("server-error", "could not read request", detail)


def not_found(path: str) -> Fault:
    """The fault of a path that leads to nothing the caller may see (wire §5.1 and others)."""
    return Fault("not-found", f"{path} not found")

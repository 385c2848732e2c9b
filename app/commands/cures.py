"""What a person can do about a refusal: a sentence to show below what the server said.

A server's messages are short, fixed by the protocol, and ignorant of how a request came about. The client knows: which command it was, whether
a token was sent and from where. Nothing here asks the server again, so that a hint says "if" where only the server could tell.
"""

import re
from typing import TYPE_CHECKING

from app.commands.remote import self_command
from app.protocol.limits import BODY_MAX

if TYPE_CHECKING:
    from app.client.tokenstore import Secret
    from app.protocol.addresses import Address
    from app.protocol.message import Response

_WRITES = {"PUBLISH", "APPEND", "ARCHIVE"}
_VERSION = re.compile(r"/v[0-9]+\Z")


def cure(response: "Response", verb: str, address: "Address", secret: "Secret | None") -> str:
    """The sentence for an answer to `verb` on `address`, sent with this token; empty if there is none."""
    match response.status:
        case "unauthorized":
            return _unknown(address, secret)
        case "not-permitted":
            return _not_permitted(response, verb, address, secret)
        case "archived":
            versions = "Its versions can still be fetched by their numbers. " if verb == "FETCH" else ""
            return f"{versions}To bring it back: {self_command()} archive --undo {address.identity}"
        case "not-found":
            return _not_found(verb, address)
        case "server-error" if b"content exceeds size limit" in response.body:
            return f"A document holds at most {BODY_MAX} bytes."
    return ""


def _unknown(address: "Address", secret: "Secret | None") -> str:
    if secret is None:
        return f"No token was sent for {address.path}: give one with --auth-file FILE or in DEMARKUS_AUTH."
    return f"The token that was sent, from {secret.origin}, is unknown to this server or has expired."


def _not_permitted(response: "Response", verb: str, address: "Address", secret: "Secret | None") -> str:
    if b"requires auth configuration" in response.body:
        return "The server has no token file, so that nobody may write: start it with --tokens FILE."
    if b"server is read-only" in response.body:
        return "The server takes no writes: it was started so, or may not write to its folder."
    if secret is None:
        return ""
    may = "write" if verb in _WRITES else "read"
    told = (
        f"The token that was sent, from {secret.origin}, may not {may} {address.path}: "
        "`token list` on the server shows what it covers."
    )
    if verb == "APPEND":
        told += " Without --expected-version, append also has to read the document."
    return told


def _not_found(verb: str, address: "Address") -> str:
    path = address.path
    document = path.endswith(".md")
    match verb:
        case "APPEND" if document:
            return (
                f"To create it: {self_command()} put {address.identity} --expected-version 0, with the text."
            )
        case "LIST" if document:
            return "If it is a document, use `fetch` or `versions`."
        case "LOOKUP":
            return "The path is the folder to search" + (
                "; if it is a document, use `fetch`." if document else "."
            )
        case "VERSIONS" if _VERSION.search(path):
            return "The history is that of the document: leave the version out."
        case "VERSIONS" if not document:
            return "If it is a folder, use `list`; the name of a document ends in .md."
        case "FETCH" if not (document or _VERSION.search(path) or path.startswith("/sha256-")):
            return "The name of a document ends in .md."
    return ""

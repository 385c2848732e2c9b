"""`mark://` addresses: parsed once, with an error that names the thing and the cure (wire §1.19).

Clients, commands and agents take addresses from people and documents, so this is a parser of untrusted text. No
name is looked up and nothing is opened. Percent escapes end here: the wire carries decoded paths.
"""

import ipaddress
import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from app.protocol.limits import DEFAULT_PORT, PATH_MAX

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_CONTROL_IN_PATH = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BAD_HOST = re.compile(r"[^A-Za-z0-9._\-\x80-\ud7ff\ue000-\U0010ffff]|\s")
_PATH_SAFE = "/-_.~!$&'()*+,;=:@"
_FRAGMENT_SAFE = _PATH_SAFE + "?"


class BadAddress(ValueError):
    """The text is no usable address; the message is one line for the person who typed it."""


class Address(msgspec.Struct, frozen=True):
    """Where a document is: host (lower case, IPv6 without brackets), port, decoded path, decoded fragment.

    `fragment` selects a section in the client; it is empty if there is none and is never sent. Equal addresses lead
    to the same place.
    """

    host: str
    port: int = DEFAULT_PORT
    path: str = "/"
    fragment: str = ""

    def __str__(self) -> str:
        """The URL with its fragment; `parse_address` gives the same address back."""
        return self.identity + (f"#{_escape(self.fragment, _FRAGMENT_SAFE)}" if self.fragment else "")

    @property
    def identity(self) -> str:
        """The URL without fragment and without the default port: the name of the document."""
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"mark://{self._host_in_url}{port}{_escape(self.path, _PATH_SAFE)}"

    @property
    def dial(self) -> str:
        """`host:port`, always with the port: the name of the server, and the key of tokens and pins."""
        return f"{self._bracketed(self.host)}:{self.port}"

    @property
    def _host_in_url(self) -> str:
        return self._bracketed(self.host.replace("%", "%25"))

    def _bracketed(self, host: str) -> str:
        return f"[{host}]" if ":" in host else host


def parse_address(text: str) -> Address:
    """The address that a `mark://` URL names (wire §1.19).

    A missing port is 6309, a missing path `/`; a query is dropped, as it is never sent. Raises `BadAddress`.
    """
    shown, _, fragment = text.partition("#")  # a fragment may hold a token: errors show what is before it
    authority, slash, path = _behind_scheme(shown).partition("?")[0].partition("/")
    host, port = _authority(authority, shown)
    return Address(host, port, _path(slash + path or "/", shown), _unescape(fragment, shown))


def _behind_scheme(text: str) -> str:
    if _CONTROL.search(text):
        raise BadAddress(f"address {text!r} holds a control character; percent-encode it")
    scheme = _SCHEME.match(text)
    if text[:7].lower() == "mark://":
        return text[7:]
    if scheme and "://" in text:
        raise BadAddress(f"address {text!r} has the scheme {scheme[1]!r}; only mark:// is served")
    if scheme and scheme[1].lower() == "mark":
        raise BadAddress(f"address {text!r} lacks its slashes; write mark://host/path")
    raise BadAddress(f"address {text!r} is not a mark:// URL; write mark://host/path")


def _authority(authority: str, text: str) -> tuple[str, int]:
    if "@" in authority:
        raise BadAddress(
            "address holds user information before '@'; give the token by its own option instead"
        )
    if authority.startswith("["):
        literal, bracket, tail = authority[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise BadAddress(f"address {text!r} has a broken IPv6 host; write [::1] or [::1]:port")
        return _ipv6(literal, text), _port(tail[1:], text)
    host, _, port = authority.partition(":")
    if ":" in port:
        raise BadAddress(
            f"address {text!r} has several colons in its host; write an IPv6 address in brackets"
        )
    if not host:
        raise BadAddress(f"address {text!r} has no host; write mark://host/path")
    if bad := _BAD_HOST.search(host):
        raise BadAddress(f"address {text!r} has {bad[0]!r} in its host, which no host name has")
    return host.lower(), _port(port, text)


def _ipv6(literal: str, text: str) -> str:
    """The address in its shortest form; a zone is written `%25zone` in a URL (RFC 6874)."""
    try:
        return str(ipaddress.IPv6Address(literal.replace("%25", "%", 1)))
    except ValueError:
        raise BadAddress(f"address {text!r} has {literal!r} in brackets, which is no IPv6 address") from None


def _port(digits: str, text: str) -> int:
    if not digits:
        return DEFAULT_PORT
    if not re.fullmatch("[0-9]{1,5}", digits) or not 0 < int(digits) < 65536:
        raise BadAddress(f"address {text!r} has the port {digits!r}; a port is a number from 1 to 65535")
    return int(digits)


def _path(raw: str, text: str) -> str:
    path = _unescape(raw, text)
    if _CONTROL_IN_PATH.search(path):
        raise BadAddress(f"address {text!r} has a control character in its path, which no request can carry")
    if len(path.encode("utf-8", "surrogateescape")) > PATH_MAX:
        raise BadAddress(f"address has a path of more than {PATH_MAX} bytes, which no request can carry")
    return path


def _unescape(raw: str, text: str) -> str:
    if bad := _BAD_ESCAPE.search(raw):
        raise BadAddress(f"address {text!r} has the broken escape {bad[0]!r}; write % as %25")
    return unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def _escape(text: str, safe: str) -> str:
    return quote_from_bytes(text.encode("utf-8", "surrogateescape"), safe)

"""What every command that talks to a server has in common: its options, the token, trust, the conversation, the telling of errors.

A token never has to be on the command line: `--auth -` reads it from stdin, `--auth-file` from a file, `DEMARKUS_AUTH` from the
environment, and what was stored for the server is used last. All of them are for the server named on the command line; these commands
talk to no other.
"""

import argparse
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from app.commands.outcomes import ERRORS, Exit, Failure, exit_of
from app.commands.parser import PROGRAM
from app.commands.terminal import note

if TYPE_CHECKING:
    from app.client.client import Client
    from app.client.errors import IdentityChanged, Unreachable, Untrusted
    from app.client.tokenstore import Secret
    from app.protocol.addresses import Address
    from app.protocol.message import Response

T = TypeVar("T")

_SECRET_MAX = 65536


class Target(NamedTuple):
    """Whom to talk to, with what secret, and whom to believe; `pin_given`: the pin is from the command line."""

    address: "Address"
    secret: "Secret | None"
    insecure: bool = False
    pin: str | None = None
    pin_given: bool = False
    timeout: float | None = None


def arguments(parser: argparse.ArgumentParser, url: str = "mark://host[:port]/path") -> None:
    """The options of every network command, and the URL itself."""
    parser.add_argument("url", metavar="URL", help=url)
    access(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("-v", "--verbose", action="store_true", help="show status and metadata on stderr")


def access(parser: argparse.ArgumentParser) -> None:
    """How a server is reached: with what token, and whom to believe."""
    secret = parser.add_mutually_exclusive_group()
    secret.add_argument("--auth", metavar="TOKEN", help="token for this server; - reads it from stdin")
    secret.add_argument(
        "--auth-file", metavar="FILE", help="read it from a file; else $DEMARKUS_AUTH, else ~/.mark"
    )
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument(
        "--pin", metavar="sha256:HEX", help="take exactly this certificate, and remember it in ~/.mark/pins"
    )
    trust.add_argument("--insecure", action="store_true", help="take any certificate; for trials only")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=None, help="for the whole request (10)"
    )


def target(
    options: argparse.Namespace, url: str | None = None, environment: Mapping[str, str] | None = None
) -> Target:
    """Reads the options; `url` if it is not among them, and another environment than the process's.

    Raises `Failure`, `BadAddress`, `BadPin`, `BadTokenStore`.
    """
    from app.client.tokenstore import Secret

    explicit = Secret(options.auth, "--auth") if options.auth else None
    if options.auth == "-":
        explicit = Secret(_secret_from_stdin(), "stdin")
    elif options.auth_file is not None:
        explicit = Secret(_secret_file(options.auth_file), options.auth_file)
    whom = resolve(
        url or options.url,
        explicit=explicit,
        insecure=options.insecure,
        environment=os.environ if environment is None else environment,
        pin=options.pin,
    )
    return whom._replace(timeout=options.timeout)


def resolve(
    url: str,
    *,
    explicit: "Secret | None",
    insecure: bool,
    environment: Mapping[str, str],
    pin: str | None = None,
) -> Target:
    """The server of a URL named on the command line, with the secret and the pin that are for it (operations §9)."""
    from app.client.pins import PinFile, parse_pin
    from app.client.tokenstore import TokenStore, resolve_token
    from app.protocol.addresses import parse_address

    address = parse_address(url)
    wanted = parse_pin(pin) if pin else None
    if wanted is None and not insecure:
        wanted = PinFile().get(address.dial)
    secret = resolve_token(address.dial, explicit, environment, TokenStore())
    return Target(address, secret, insecure, wanted, pin_given=bool(pin))


def converse(whom: Target, work: "Callable[[Client], Awaitable[T]]") -> T:
    """Runs a conversation with one server and gives its result.

    A pin that was given and that the server stands up to is remembered. Errors of the client come out as `Failure`.
    """
    import trio

    from app.client.client import REQUEST_TIMEOUT, Client
    from app.client.errors import ClientError, IdentityChanged, OutcomeUnknown, Unreachable, Untrusted

    address = whom.address

    async def session() -> T:
        async with Client(
            address.host,
            address.port,
            insecure=whom.insecure,
            pin=whom.pin,
            token=whom.secret.token if whom.secret is not None else None,
            timeout=whom.timeout or REQUEST_TIMEOUT,
        ) as client:
            result = await work(client)
        if whom.pin is not None:
            _remember(address, whom.pin)
        return result

    try:
        return trio.run(session)
    except Unreachable as error:
        raise Failure(_how_to_reach(error, address), Exit.UNREACHABLE) from error
    except Untrusted as error:
        raise Failure(_how_to_trust(error, address), Exit.UNREACHABLE) from error
    except IdentityChanged as error:
        told = _other_than_given if whom.pin_given else _identity_changed
        raise Failure(told(error, address), Exit.IDENTITY_CHANGED) from error
    except OutcomeUnknown as error:
        raise Failure(f"{error}; `{self_command()} versions {address.identity}` shows it") from error
    except ClientError as error:
        raise Failure(str(error), ERRORS.get(type(error).__name__, Exit.FAILED)) from error


def _remember(address: "Address", pin: str) -> None:
    from app.client.pins import PinFile

    pins = PinFile()
    try:
        if pins.get(address.dial) != pin:
            pins.put(address.dial, pin)
            note(f"{address.dial} is pinned to {pin} from now on ({pins.path})")
    except OSError as error:
        note(f"the pin could not be remembered in {pins.path}: {error.strerror}")


def _how_to_reach(error: "Unreachable", address: "Address") -> str:
    return (
        f"{error}\n"
        f"  Is the server running, is {address.host} the right name, and is UDP port {address.port} open on the way to it?"
    )


def _how_to_trust(error: "Untrusted", address: "Address") -> str:
    return (
        f"{error}\n"
        f"  fingerprint shown: {error.fingerprint}\n"
        f"  If this is your own server, compare with `{PROGRAM} fingerprint` on it (with the --state-dir it was started with, if any);\n"
        "  if they are equal, trust it from now on with\n"
        f"    {pin_command(address, error.fingerprint)}\n"
        "  A certificate that should be valid may also be refused because this machine's clock is wrong."
    )


def _identity_changed(error: "IdentityChanged", address: "Address") -> str:
    from app.client.pins import PinFile

    return (
        f"{error.where}: THE SERVER'S IDENTITY CHANGED; nothing was sent to it\n"
        f"  pinned: {error.pinned}\n"
        f"  shown:  {error.seen}\n"
        "  Either its certificate was replaced, or something else answers in its place. Ask `"
        f"{PROGRAM} fingerprint` on the server;\n"
        f"  only if it prints the fingerprint shown here, replace the pin in {PinFile().path} with\n"
        f"    {pin_command(address, error.seen)}"
    )


def _other_than_given(error: "IdentityChanged", address: "Address") -> str:
    """Whoever gives a pin has compared it: that it differs is never a reason to take another."""
    from app.client.pins import PinFile

    pins = PinFile()
    remembered = pins.get(address.dial)
    stays = f"  The pin remembered in {pins.path} stays: {remembered}\n" if remembered else ""
    return (
        f"{error.where}: the server's certificate is not the one given with --pin; nothing was sent to it\n"
        f"  given: {error.pinned}\n"
        f"  shown: {error.seen}\n"
        f"{stays}"
        f"  `{PROGRAM} fingerprint` on the server prints what --pin has to be; if it prints the one given, something else answers here."
    )


def pin_command(address: "Address", fingerprint: str) -> str:
    """The command that pins a server, as it can be pasted into the shell this program was called from."""
    from app.protocol.addresses import Address

    health = Address(address.host, address.port, "/health")
    return f"{self_command()} fetch --pin {fingerprint} {health.identity}"


def self_command() -> str:
    """How to call this program again: by name if the shell finds it, else by its path."""
    import shutil

    called = os.path.abspath(sys.argv[0])
    beside = os.path.join(os.path.dirname(called), PROGRAM)
    return PROGRAM if shutil.which(PROGRAM) or not os.access(beside, os.X_OK) else beside


def report(response: "Response", verbose: bool, verb: str, whom: Target) -> Exit:
    """Tells on stderr what the answer to this verb calls for, and gives the exit code."""
    if verbose:
        note(status_line(response))
    code = exit_of(response.status)
    if code is not Exit.DONE:
        from app.commands.cures import cure

        note(f"{PROGRAM}: {response.status or 'no status'}: {message_of(response)}")
        if told := cure(response, verb, whom.address, whom.secret):
            note(f"  {told}")
    return code


def status_line(response: "Response") -> str:
    """`[status] k=v k=v`, keys sorted (operations §9)."""
    return " ".join(
        [f"[{response.status}]", *(f"{key}={value}" for key, value in sorted(response.metadata.items()))]
    )


def message_of(response: "Response") -> str:
    """What an error body says, without its heading, on one line (wire §3.5)."""
    from app.protocol.answer import message_of as read

    return read(response)


def number(text: str | None) -> int | None:
    """A decimal number of the server's, None if it is none."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,18}", text) else None


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds, more than 0 and at most 3600")
    return seconds


def _secret_from_stdin() -> str:
    if sys.stdin is not None and sys.stdin.isatty():
        import getpass

        typed = getpass.getpass("token: ").encode("utf-8", "surrogateescape")
        return _secret(typed, "what was typed", Exit.USAGE)
    data = sys.stdin.buffer.readline(_SECRET_MAX) if sys.stdin is not None else b""
    return _secret(data, "stdin", Exit.USAGE)


def _secret_file(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return _secret(file.read(_SECRET_MAX), path, Exit.FAILED)
    except OSError as error:
        raise Failure(f"cannot read the token from {path}: {error.strerror}") from error


def _secret(data: bytes, where: str, code: Exit) -> str:
    try:
        token = data.decode("utf-8").strip()
    except UnicodeDecodeError:
        token = ""
    if not token or "\n" in token:
        raise Failure(f"no token in {where}: one line of text is expected", code)
    return token

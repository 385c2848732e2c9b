"""Every setting of the server in one table: name, variable, flag, default, meaning, reason.

The table is the law (operations §1): `--help`, the manual's settings page and the parser all come from it. Precedence is flag, environment,
settings file, default. Nothing here touches a disk but `from_command_line`, which reads the settings file and hands on its text.

Strictness: what cannot be read is refused by name, never replaced by a default. An empty variable counts as unset for numbers, booleans and
durations; for texts it overrides. A flag counts as set when it is neither empty nor zero, and `--read-only` can only switch on.

The file is a systemd EnvironmentFile: KEY=VALUE lines, `#` or `;` comments, optional quotes. A key that is no setting is refused by its
name: a mistyped security setting must not be ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from app.server import values


class BadSetting(Exception):
    """A setting that cannot be used; the text names it and says what would do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What `serve` runs on. Times are seconds; zero has the meaning the table gives it."""

    root: str
    port: int
    listen: str
    tls_cert: str
    tls_key: str
    tokens: str
    state_dir: str
    runtime_dir: str
    watch: str
    lookup_recall: str
    read_only: bool
    max_streams: int
    max_watches: int
    idle_timeout: float
    request_timeout: float
    rate_limit: float
    rate_burst: int
    log_format: str
    log_level: str
    store: str
    debug: bool
    unknown: tuple[str, ...] = ()
    """Variables of the environment that look like settings but are none; worth a warning."""


class Setting(msgspec.Struct, frozen=True):
    """One row of the table. `value` is the placeholder shown in help; empty for a switch."""

    name: str
    variable: str
    flag: str
    default: str
    value: str
    read: Callable[[str], Any]
    meaning: str
    reason: str


_LARGEST = 2**31 - 1

TABLE: tuple[Setting, ...] = (
    Setting(
        "root", "DEMARKUS_ROOT", "root", "", "DIR", values.text,
        "content directory to serve; it must exist",
        "required, so that a mistyped path never serves an empty world",
    ),
    Setting(
        "port", "DEMARKUS_PORT", "port", "6309", "PORT", values.whole(0, 65535),
        "UDP port to listen on; 0 in the environment takes any free one",
        "the protocol's own port",
    ),
    Setting(
        "listen", "DEMARKUS_LISTEN", "listen", "", "ADDRESS", values.address,
        "IP address to listen on; empty means all, IPv4 and IPv6",
        "a board serves its network; 127.0.0.1 keeps a trial to itself",
    ),
    Setting(
        "tls_cert", "DEMARKUS_TLS_CERT", "tls-cert", "", "FILE", values.text,
        "PEM certificate chain, leaf first; goes with the key",
        "empty means the server's own certificate, made once",
    ),
    Setting(
        "tls_key", "DEMARKUS_TLS_KEY", "tls-key", "", "FILE", values.text,
        "PEM private key of that certificate: RSA, P-256, P-384 or Ed25519",
        "a file of its own, so that it can be readable by the server alone",
    ),
    Setting(
        "tokens", "DEMARKUS_TOKENS", "tokens", "", "FILE", values.text,
        "token file; empty means public reads and no writes",
        "a file that is named must exist: a mistyped path must not open a private world",
    ),
    Setting(
        "state_dir", "DEMARKUS_STATE_DIR", "state-dir", "", "DIR", values.text,
        "directory for the server's own certificate; without it $STATE_DIRECTORY, else ~/.local/state/demarkus-appliance",
        "kept apart from the content, which may be read-only or copied elsewhere",
    ),
    Setting(
        "runtime_dir", "DEMARKUS_RUNTIME_DIR", "runtime-dir", "", "DIR", values.text,
        "directory for the socket that status and reload ask; without it $RUNTIME_DIRECTORY, else below $XDG_RUNTIME_DIR or the state directory",
        "what lasts only as long as the process belongs neither to the content nor on the card",
    ),
    Setting(
        "watch", "DEMARKUS_WATCH", "watch", "auto", "MODE", values.one_of("auto", "off"),
        "auto takes over what other programs write to the content directory by itself; off waits for SIGHUP",
        "a document that LOOKUP does not find looks lost",
    ),
    Setting(
        "lookup_recall", "DEMARKUS_LOOKUP_RECALL", "", "wide", "MODE", values.one_of("wide", "reference"),
        "what a word of a LOOKUP in body mode finds: reference is the reference server's rule, wide also finds what that rule loses",
        "Vec<Widget>, _emphasis_ and composed accents are found by typing them",
    ),
    Setting(
        "read_only", "DEMARKUS_READ_ONLY", "read-only", "false", "", values.boolean,
        "refuse every write",
        "the flag can only switch it on, so that a unit's choice stands",
    ),
    Setting(
        "max_streams", "DEMARKUS_MAX_STREAMS", "", "10", "N", values.whole(1, 65535),
        "requests at once on one connection",
        "bounds the memory of one connection; more only wait",
    ),
    Setting(
        "max_watches", "DEMARKUS_MAX_WATCHES", "", "0", "N", values.whole(0, _LARGEST),
        "open watches; 0 means 1024 (this server answers WATCH with unsupported)",
        "read so that existing units keep starting",
    ),
    Setting(
        "idle_timeout", "DEMARKUS_IDLE_TIMEOUT", "", "30s", "DURATION", values.duration,
        "close a connection after this silence; 0 means the 30s of the QUIC library",
        "clients that stay ping every 25 s; one that left must not hold memory for long",
    ),
    Setting(
        "request_timeout", "DEMARKUS_REQUEST_TIMEOUT", "", "10s", "DURATION", values.duration,
        "deadline of one request, reading and writing; 0 means none",
        "a client waits 10 s, so a later answer reaches nobody",
    ),
    Setting(
        "rate_limit", "DEMARKUS_RATE_LIMIT", "", "50", "N", values.rate,
        "requests per second and client address; 0 switches the limit off",
        "one busy client must leave room for the others",
    ),
    Setting(
        "rate_burst", "DEMARKUS_RATE_BURST", "", "100", "N", values.whole(0, _LARGEST),
        "requests that may come at once before the rate counts; 1 or more while there is a limit",
        "an agent's first look at a world is a burst",
    ),
    Setting(
        "log_format", "DEMARKUS_LOG_FORMAT", "", "text", "FORMAT", str.lower,
        "text or json; anything else is text",
        "text for people and journalctl, json for collectors",
    ),
    Setting(
        "log_level", "DEMARKUS_LOG_LEVEL", "", "info", "LEVEL", str.lower,
        "debug, info, warn or error; anything else is info",
        "info shows each request once",
    ),
    Setting(
        "store", "DEMARKUS_STORE", "store", "file", "NAME", values.text,
        "storage backend; file is the only one",
        "read so that existing units keep starting",
    ),
    Setting(
        "debug", "", "debug", "false", "", values.boolean,
        "show tracebacks of start-up errors",
        "an operator wants one line, a developer the place",
    ),
)  # fmt: skip

CONFIG_FLAG = "config"
"""The one flag that is no setting: it names the settings file."""

_BY_VARIABLE = {setting.variable: setting for setting in TABLE if setting.variable}
_BY_FLAG = {setting.flag: setting for setting in TABLE if setting.flag}
# The client's and the tool server's variables share the prefix; they are no mistakes here.
_OTHERS = frozenset({"DEMARKUS_AUTH", "DEMARKUS_CACHE_DIR", "DEMARKUS_MCP_PROFILE"})


def settings_from(flags: Mapping[str, str], environ: Mapping[str, str], file: Mapping[str, str]) -> Settings:
    """The settings that these flags, this environment and this settings file (see `file_settings`) make together.

    Flags are keyed by their name without dashes, a switch has the value "true". Raises BadSetting.
    """
    found: dict[str, Any] = {setting.name: _value(setting, flags, environ, file) for setting in TABLE}
    found["state_dir"] = found["state_dir"] or _state_directory(environ)
    found["runtime_dir"] = found["runtime_dir"] or runtime_directory(environ, found["state_dir"])
    found["unknown"] = tuple(
        sorted(
            name
            for name in environ
            if name.startswith("DEMARKUS_") and name not in _BY_VARIABLE and name not in _OTHERS
        )
    )
    settings = Settings(**found)
    if bool(settings.tls_cert) != bool(settings.tls_key):
        given, absent = ("CERT", "KEY") if settings.tls_cert else ("KEY", "CERT")
        raise BadSetting(
            f"DEMARKUS_TLS_{given} is set without DEMARKUS_TLS_{absent}: give both, or neither for the server's own certificate"
        )
    if settings.rate_limit > 0 and settings.rate_burst < 1:
        raise BadSetting(
            "DEMARKUS_RATE_BURST must be at least 1 while DEMARKUS_RATE_LIMIT is on (0 switches the limit off)"
        )
    if settings.store != "file":
        raise BadSetting(f'DEMARKUS_STORE: unknown store "{settings.store}", the only one is "file"')
    return settings


def _value(
    setting: Setting, flags: Mapping[str, str], environ: Mapping[str, str], file: Mapping[str, str]
) -> object:
    given = flags.get(setting.flag, "")
    if given:
        value = _read(setting, f"--{setting.flag}", given)
        if value:
            return value
    for source, origin in ((environ, ""), (file, " (in the settings file)")):
        text = source.get(setting.variable) if setting.variable else None
        if text is not None and (text or setting.read in _TEXTS):
            return _read(setting, setting.variable + origin, text)
    return _read(setting, setting.name, setting.default)


# For texts an empty variable is a value; for everything else it counts as unset (operations §1).
_TEXTS = (values.text, values.address, str.lower)


def _read(setting: Setting, where: str, text: str) -> object:
    try:
        return setting.read(text)
    except ValueError as error:
        raise BadSetting(f"{where} {error}") from None


def _state_directory(environ: Mapping[str, str]) -> str:
    """Where the state goes when nothing names it: systemd's choice, else the user's; empty if there is neither."""
    given = environ.get("STATE_DIRECTORY", "").split(":")[0]
    if given:
        return given
    base = environ.get("XDG_STATE_HOME", "")
    if not base.startswith("/"):  # the specification tells to ignore a relative one
        home = environ.get("HOME", "")
        base = f"{home.rstrip('/')}/.local/state" if home else ""
    return f"{base}/demarkus-appliance" if base else ""


def runtime_directory(environ: Mapping[str, str], state_dir: str) -> str:
    """Where the control socket goes when nothing names it: systemd's choice, else the user's, else below the state."""
    given = environ.get("RUNTIME_DIRECTORY", "").split(":")[0]
    if given:
        return given
    base = environ.get("XDG_RUNTIME_DIR", "")
    if base.startswith("/"):
        return f"{base.rstrip('/')}/demarkus-appliance"
    return f"{state_dir}/run" if state_dir else ""


def flag_values(arguments: Sequence[str]) -> dict[str, str]:
    """Flags by name from a command line in Go's manner: `-x v`, `-x=v`, `--x v`; a switch needs no value.

    Raises BadSetting for an unknown flag, a missing value or a stray argument.
    """
    found: dict[str, str] = {}
    waiting = list(reversed(arguments))
    while waiting:
        argument = waiting.pop()
        name, equals, value = argument.lstrip("-").partition("=")
        if not argument.startswith("-") or argument.startswith("---") or not name:
            raise BadSetting(f'unexpected argument "{argument}": settings are flags, such as --root DIR')
        setting = _BY_FLAG.get(name)
        if setting is None and name != CONFIG_FLAG:
            raise BadSetting(f"unknown flag --{name}; --help lists them")
        if not equals and setting is not None and not setting.value:
            value = "true"
        elif not equals:
            if not waiting:
                raise BadSetting(f"--{name} needs a value")
            value = waiting.pop()
        found[name] = value
    return found


def file_settings(text: str, name: str) -> dict[str, str]:
    """Variables from the text of a settings file called `name`; raises BadSetting with the line."""
    found: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        key, equals, value = line.partition("=")
        key = key.rstrip()
        if not equals:
            raise BadSetting(f"{name} line {number}: expected NAME=VALUE")
        if key not in _BY_VARIABLE:
            raise BadSetting(f"{name} line {number}: unknown setting {key or '(empty)'}; --help lists them")
        found[key] = _unquoted(value.lstrip(), f"{name} line {number}")
    return found


def _unquoted(value: str, where: str) -> str:
    if value[:1] not in ("'", '"'):
        if value.endswith("\\"):
            raise BadSetting(f"{where}: a value must end on its own line")
        return value
    quote = value[0]
    plain: list[str] = []
    rest = iter(value[1:])
    for char in rest:
        if char == quote:
            if "".join(rest).strip():
                raise BadSetting(f"{where}: text after the closing quote")
            return "".join(plain)
        if char == "\\" and quote == '"':
            char = next(rest, "")
        plain.append(char)
    raise BadSetting(f"{where}: the quote is not closed")


def from_command_line(
    arguments: Sequence[str], environ: Mapping[str, str], beneath: Mapping[str, str] | None = None
) -> Settings:
    """Settings of a command line and environment, with the file that `--config` names. Raises BadSetting.

    `beneath` holds variables that count where the file does not name them.
    """
    flags = flag_values(arguments)
    path = flags.pop(CONFIG_FLAG, "")
    file: dict[str, str] = {}
    if path:
        try:
            with open(path, encoding="utf-8") as source:
                text = source.read()
        except OSError as error:
            raise BadSetting(f"cannot read the settings file {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise BadSetting(f"the settings file {path} is not UTF-8 text") from None
        file = file_settings(text, path)
    return settings_from(flags, environ, {**(beneath or {}), **file})


def help_text() -> str:
    """The settings part of `serve --help`: flags first, then what only the environment or the file can set."""
    rows = [
        (f"--{setting.flag}" + (f" {setting.value}" if setting.value else ""), setting)
        for setting in TABLE
        if setting.flag
    ]
    lines = ["Flags (each may also be written with one dash, and as --flag=value):"]
    lines += [_help_line(shown, setting, setting.variable) for shown, setting in rows]
    lines.append(f"  {'--config FILE':<22} settings file: NAME=VALUE lines, names as below")
    lines += ["", "Environment or settings file only:"]
    lines += [_help_line(setting.variable, setting, "") for setting in TABLE if not setting.flag]
    lines += [
        "",
        "A flag goes before the environment, the environment before the settings file.",
        "SIGHUP reloads the certificate, the token file and the content; SIGTERM and SIGINT finish the running requests and stop.",
    ]
    return "\n".join(lines) + "\n"


def _help_line(shown: str, setting: Setting, variable: str) -> str:
    notes = [note for note in (variable, f"default {setting.default}" if setting.default else "") if note]
    return f"  {shown:<26} {setting.meaning}" + (f" [{', '.join(notes)}]" if notes else "")


def settings_page() -> str:
    """The table as the manual shows it: markdown, one row for each setting, in table order."""
    lines = [
        "# Settings",
        "",
        "A flag goes before the environment, the environment before the settings file (`--config FILE`), the file before the default.",
        "",
        "The settings file holds lines of `NAME=VALUE` with the variables' names, as a systemd EnvironmentFile does; lines that begin with `#` are comments.",
        "",
        "| Variable | Flag | Default | Meaning | Why |",
        "|---|---|---|---|---|",
    ]
    for setting in TABLE:
        cells = (
            f"`{setting.variable}`" if setting.variable else "–",
            f"`--{setting.flag}`" if setting.flag else "–",
            f"`{setting.default}`" if setting.default else "–",
            setting.meaning,
            setting.reason,
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"

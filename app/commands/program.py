"""The program: chooses the subcommand, or the older program whose name it was started under, and turns errors into one line and a code.

Started as `demarkus-server`, `demarkus-token`, `demarkus-publish` or `demarkus` (a link to the same program) it behaves as that program, so
that existing units, installers and scripts keep working. The rooms below are imported by the subcommand that needs them: on a slow board
an import takes longer than most commands.
"""

import os
import sys
from collections.abc import Callable, Sequence

from app.commands.outcomes import ERRORS, Exit, Failure
from app.commands.parser import PROGRAM, Command, Parser, command_parser
from app.commands.terminal import harmless, note

_COMPONENTS = ("aioquic", "trio", "cryptography", "cmarkgfm")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line, by default the process's own, and gives the exit code; never raises."""
    name, line = (os.path.basename(sys.argv[0]), sys.argv[1:]) if argv is None else (PROGRAM, list(argv))
    older = _OLDER.get(name)
    _open_streams()
    try:
        code = older(line) if older is not None else _own(line)
        sys.stdout.flush()
    except BaseException as error:
        if "--debug" in line and not isinstance(error, SystemExit):
            import traceback

            traceback.print_exc()
        code = _exit_of(error, name if older is not None else PROGRAM)
        if older is not None and code not in {Exit.DONE, Exit.INTERRUPTED}:
            code = Exit.FAILED  # the older programs know no finer ones
    return code


def _own(line: list[str]) -> int:
    debug = line[:1] if line[:1] == ["--debug"] else []
    if line[len(debug) :][:1] == ["serve"]:
        from app.commands import serve

        return serve.run(PROGRAM, line[len(debug) + 1 :] + debug)
    parser = command_parser(_commands(), lazy=True)
    options = parser.parse_args(line)
    if options.version:
        print(versions())
        return Exit.DONE
    command: Command | None = getattr(options, "command", None)
    if command is None:
        parser.print_help(sys.stderr)
        return Exit.USAGE
    return command.run(options)


def own_parser() -> Parser:
    """The parser of the program under its own name; man page and shell completions are made from it."""
    return command_parser(_commands())


def _commands() -> tuple[Command, ...]:
    from app.commands import (
        agent_server,
        backup,
        card,
        export_tree,
        fetch,
        fingerprint,
        headings,
        import_tree,
        listing,
        lookup,
        manual_help,
        mapping,
        publish,
        reload,
        restore,
        selftest,
        serve,
        status,
        tokens,
        verify,
        versions,
        writing,
    )

    return (
        serve.COMMAND,
        status.COMMAND,
        reload.COMMAND,
        card.COMMAND,
        tokens.GENERATE,
        tokens.LIST,
        tokens.REVOKE,
        publish.COMMAND,
        import_tree.COMMAND,
        export_tree.COMMAND,
        backup.COMMAND,
        restore.COMMAND,
        verify.COMMAND,
        selftest.COMMAND,
        fingerprint.COMMAND,
        fetch.COMMAND,
        headings.COMMAND,
        listing.COMMAND,
        versions.COMMAND,
        lookup.COMMAND,
        writing.PUT,
        writing.APPEND,
        writing.ARCHIVE,
        mapping.COMMAND,
        agent_server.COMMAND,
        manual_help.COMMAND,
    )


def _as_server(line: list[str]) -> int:
    from app.commands import serve

    return serve.run("demarkus-server", line)


def _as_token(line: list[str]) -> int:
    from app.commands import as_token

    return as_token.run(line)


def _as_publish(line: list[str]) -> int:
    from app.commands import as_publish

    return as_publish.run(line)


def _as_client(line: list[str]) -> int:
    from app.commands import as_client

    return as_client.run(line)


_OLDER: dict[str, Callable[[list[str]], int]] = {
    "demarkus-server": _as_server,
    "demarkus-token": _as_token,
    "demarkus-publish": _as_publish,
    "demarkus": _as_client,
}


def versions() -> str:
    """What `--version` prints: this program, and what it is made of."""
    from importlib.metadata import PackageNotFoundError, version

    from app import __version__

    found = [f"Python {sys.version.split()[0]}"]
    for component in _COMPONENTS:
        try:
            found.append(f"{component} {version(component)}")
        except PackageNotFoundError:  # frozen without its metadata
            found.append(component)
    return f"{PROGRAM} {__version__} ({', '.join(found)})"


def _exit_of(error: BaseException, program: str) -> int:
    """Says what went wrong in one plain line, and gives the exit code."""
    if isinstance(error, BaseExceptionGroup):
        interrupt = error.subgroup(KeyboardInterrupt)
        return _exit_of((interrupt or error).exceptions[0], program)
    match error:
        case SystemExit(code=int(code)):  # argparse has said all there is to say
            return code
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            # The reader has had enough. What Python still holds back for stdout goes nowhere, without a word.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return Exit.DONE
        case Failure():
            note(f"{program}: {error}")
            return error.code
        case OSError():
            name = os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename
            where = f"{name}: " if name is not None else ""
            note(f"{program}: {where}{error.strerror or error}")
            return Exit.FAILED
        case _ if type(error).__module__.startswith("app."):
            note(f"{program}: {error}")
            return ERRORS.get(type(error).__name__, Exit.FAILED)
    note(f"{program}: unexpected error, {type(error).__name__}: {harmless(str(error))}; --debug shows where")
    return Exit.FAILED


def _open_streams() -> None:
    """Gives the program streams even where it was started with closed ones, and a way to print what is not UTF-8."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  it stays open as long as the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())

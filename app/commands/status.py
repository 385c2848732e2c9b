"""`status`: how the server on this machine is, as it says itself."""

import argparse

from app.commands import running
from app.commands.parser import Command
from app.commands.terminal import answer, line


def run(options: argparse.Namespace) -> int:
    from app.commands import shapes

    status = running.status_of(options.root, options.runtime_dir)
    if options.json:
        answer(shapes.encode(status))
        return 0
    share = f", {status.index_bytes / status.body_bytes:.2f} × the text" if status.body_bytes else ""
    rows = {
        "version": f"{status.version}, process {status.pid}, up {_span(status.uptime)}",
        "address": f"{status.address}, {status.connections} connections",
        "root": status.root if status.root == status.folder else f"{status.root} -> {status.folder}",
        "documents": f"{status.documents}, {_size(status.body_bytes)} of text",
        "sections": f"{status.sections}, index {_size(status.index_bytes)}{share}",
        "watching": "yes" if status.watching else "no, SIGHUP only",
        "last reload": (
            f"{status.reloaded} {'' if status.reload_ok else 'FAILED: '}{status.reload_text}"
            if status.reloaded
            else "none since the start"
        ),
        "certificate": f"{status.fingerprint}, expires {status.certificate_expires}",
        "clock": status.clock,
    }
    for name, text in rows.items():
        line(f"{name + ':':<13}{text}")
    return 0


def _span(seconds: int) -> str:
    days, rest = divmod(seconds, 86400)
    return (f"{days} d " if days else "") + f"{rest // 3600}:{rest // 60 % 60:02}:{rest % 60:02}"


def _size(count: int) -> str:
    return f"{count} bytes" if count < 100_000 else f"{count / 1e6:.1f} MB"


COMMAND = Command(
    name="status",
    summary="ask the server that runs on this machine how it is",
    examples=("status", "status --root /srv/world --json"),
    arguments=running.arguments,
    run=run,
    shape="status",
    notes="Only the user that the server runs as, and root, may ask.",
)

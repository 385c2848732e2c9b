"""The hash chain of one document: every version names the hash of the file before it (store §3.5, §7)."""

from collections.abc import Iterable

from app.world.versionfile import fault_of, hash_of, previous_hash_of


def chain_fault(files: Iterable[tuple[int, bytes]]) -> str:
    """What is wrong with the version files present, given newest first; empty if nothing is (store §7).

    The first broken link wins over faults of form. The oldest file's own link cannot be checked: what it names may
    have been pruned.
    """
    link = form = ""
    newer = 0
    named = ""
    for number, data in files:
        if newer and hash_of(data) != named:
            link = f"v{newer} does not name the hash of the version before it"
        if fault := fault_of(data, number):
            form = f"v{number}: {fault}"
        newer, named = number, previous_hash_of(data)
    return link or form

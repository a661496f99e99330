"""Who holds a lock on a file and does nothing: a process that was stopped in the middle of a write.

Blocking; by ``/proc/locks``, where there is one. A process of another machine is never named.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from cockpit.runtime.process import process_facts

LOCKS: Final = Path("/proc/locks")


def stopped_holder(paths: Iterable[Path], locks: Path = LOCKS) -> int | None:
    """Return the process that is stopped and holds one of the files for writing, if one does."""
    inodes = {found for path in paths if (found := _inode(path)) is not None}
    holders = {pid for pid, inode in _writers(locks) if inode in inodes and pid != os.getpid()}
    return next((pid for pid in sorted(holders) if process_facts(pid).stopped), None)


def stopped_words(pid: int) -> str:
    """Return what is to be told of such a process, and what helps."""
    return f"process {pid} holds it and is stopped: continue it (fg, or kill -CONT {pid}) or end it"


def _writers(locks: Path) -> Iterator[tuple[int, int]]:
    """Yield (process id, inode) of each lock for writing that is held, not waited for."""
    try:
        lines = locks.read_text("ascii", "replace").splitlines()
    except OSError:
        return
    for line in lines:
        words = line.split()  # "1: POSIX ADVISORY WRITE 4211 fd:01:1234 120 120"
        if len(words) < 6 or words[1] == "->" or words[3] != "WRITE":
            continue
        inode = words[5].rpartition(":")[2]
        if words[4].isdigit() and inode.isdigit():
            yield int(words[4]), int(inode)


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except OSError:
        return None

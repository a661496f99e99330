"""Tells the others under a run's output root, where every account on it can read (SPEC A).

The same lines as in the logbook (``cockpit.text.logbook_lines``), for runs that have none and for
cockpits whose clone is behind. Appended under a lock; a line that is there is not added again.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cockpit.hosts.own_folder import follow, make_folder
from cockpit.model.lineage import local_root
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import SharedFact
from cockpit.sources.told import BELOW
from cockpit.text.logbook_lines import message_line


def tell_under(run: RunSpec, told: Sequence[SharedFact]) -> bool:
    """Append the messages; False where there is no such folder. Blocking, raises ``OSError``."""
    root = local_root(run)
    if root is None or not Path(root).is_dir():
        return False
    place = Path(root) / BELOW
    make_folder(place.parent, parents=False)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(place, flags, 0o644)
    follow(handle, place.parent)
    try:
        with suppress(OSError):  # a file system without locks: lines this short go in whole
            fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        there = os.pread(handle, size, 0)
        lines = [f"- {message_line(each)}\n".encode() for each in told]
        new = b"".join(line for line in lines if line not in there)
        ends = not there or there.endswith(b"\n")
        if new:
            os.write(handle, new if ends else b"\n" + new)
            os.fsync(handle)
    finally:
        os.close(handle)
    return True

"""What the agent does to processes: it signals exactly these, and runs a recorded command."""

from __future__ import annotations

import errno
import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cockpit.hosts.agent import CALLS, NO_TICKS, PROC, run

_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)


def expanded(command: Sequence[str]) -> list[str]:
    """Return the command with ``$NAME`` and ``${NAME}`` filled in, and ``~`` of its program.

    No shell is involved. Raises ``OSError`` for a variable that is not set.
    """
    try:
        first, *rest = (_VARIABLE.sub(lambda m: os.environ[m[1] or m[2]], one) for one in command)
    except KeyError as error:
        text = f"it uses ${error.args[0]}, which is not set"
        raise OSError(errno.EINVAL, text) from error
    return [_at_home(first), *rest]


def _at_home(path: str) -> str:
    return os.path.expanduser(path)  # noqa: PTH111 - a user that is not there is left as it is


def command(words: Sequence[str], folder: str | None, seconds: float) -> list[Any]:
    """Run a recorded command in a folder and return what ``run`` does."""
    place = None if folder is None else _at_home(folder)
    return run(expanded(words), seconds, english=False, folder=place)


def kill(targets: Sequence[Sequence[Any]], heard: bool = False) -> list[int]:
    """Signal each ``[pid, start in ticks, name]``, never a later process with that id.

    Returns of each 0, or why it was not sent: ``ESRCH`` where that very process has ended,
    ``EPERM`` where it is another user's, and ``ENOTSUP`` where only one that has a handler is
    meant (``heard``) and it has none: unheard, most signals kill.
    """
    found = []
    for pid, ticks, name in targets:
        try:
            _signal(pid, ticks, getattr(signal, "SIG" + name), heard)
            found.append(0)
        except OSError as error:
            found.append(error.errno or errno.EIO)
    return found


def _signal(pid: int, ticks: int, number: int, heard: bool) -> None:
    handle = _handle(pid)
    try:
        start = _start(pid)
        listed = start is not None or ticks != NO_TICKS
        if listed and start != ticks:
            raise ProcessLookupError(errno.ESRCH, "it has ended")
        if heard and not _hears(pid, number):
            raise OSError(errno.ENOTSUP, "it does not handle the signal")
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    finally:
        if handle is not None:
            os.close(handle)


def _handle(pid: int) -> int | None:
    """Return what means this very process from now on, where the kernel has that."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except (AttributeError, OSError):  # an old Python or kernel
        return None


def _start(pid: int) -> int | None:
    try:
        fields = Path(f"{PROC}/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[19]) if len(fields) > 19 and fields[0] not in (b"Z", b"X") else None


def _hears(pid: int, number: int) -> bool:
    """Tell whether a process has a handler for a signal; where that is not told, believe it."""
    try:
        lines = Path(f"{PROC}/{pid}/status").read_bytes().splitlines()
    except OSError:
        return not Path(f"{PROC}/self/status").exists()
    caught = next((line for line in lines if line.startswith(b"SigCgt:")), b"")
    return bool(int(caught.partition(b":")[2].strip() or b"0", 16) >> (number - 1) & 1)


for _each in (command, kill):
    CALLS[_each.__name__] = _each

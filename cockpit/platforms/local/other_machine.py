"""Whether a pid file may speak of another machine: one on a disk that machines share (SPEC J).

A bare number says nothing of its machine. On a disk of this machine alone it is this machine's; on
one that others mount too, that no process here has it proves no end, and one that has it by chance
may be anything. Once it was seen to mean a process of this machine, it is this machine's.
"""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import Final

from cockpit.model.run import RunSpec
from cockpit.platforms.local.files import PidNote
from cockpit.runtime.mounts import file_system
from cockpit.runtime.process import Machine

MOST: Final = 4096
_Key = tuple[Machine, str, PidNote]
_PROVEN: Final[dict[_Key, None]] = {}
"""Pid files that have meant a process of the machine that was looked at, as they were then."""


class SharedDisks:
    """What file systems of this machine others may write to, as found out in one look. Blocking."""

    def __init__(self) -> None:
        self._kinds: dict[int, str | None] = {}

    def of(self, run: RunSpec) -> str | None:
        """Return what network file system holds a run's pid file, ``None`` where that is none.

        A type that nobody knows counts as none: homes are encrypted and boxed in many ways.
        """
        place = None if run.job is None else run.job.pid_file
        folder = "" if place is None else posixpath.dirname(place.path)
        try:
            device = os.stat(folder or ".").st_dev  # noqa: PTH116 - thousands of these
        except OSError:
            return None
        if device not in self._kinds:
            found = file_system(Path(folder or "."))
            self._kinds[device] = found.text if found.shared else None
        return self._kinds[device]


def names_machine(note: PidNote) -> bool:
    """Tell whether a pid file says on which machine it was written, or on which boot."""
    return note.machine is not None or note.boot is not None


def remember(run: RunSpec, note: PidNote, machine: Machine) -> None:
    """Take in that a run's pid file means a process of ``machine``."""
    if len(_PROVEN) >= MOST:
        _PROVEN.clear()
    _PROVEN[_key(run, note, machine)] = None


def proven(run: RunSpec, note: PidNote, machine: Machine) -> bool:
    """Tell whether a run's pid file, as it is, was seen to mean a process of ``machine``."""
    return _key(run, note, machine) in _PROVEN


def _key(run: RunSpec, note: PidNote, machine: Machine) -> _Key:
    return machine, "" if run.job is None else str(run.job.pid_file), note


def doubt(note: PidNote, seen: str, disk: str) -> str:
    """Return why nobody can tell whether the process of a pid file on a shared ``disk`` lives."""
    what = seen or f"no process {note.pid} runs here"
    return f"{what}, but the pid file is on {disk}, and names no machine: it may run on another one"

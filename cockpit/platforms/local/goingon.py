"""Whether the log of a job that is gone goes on all the same: then somebody writes it."""

from __future__ import annotations

from typing import Final, NamedTuple

from cockpit.platforms.local.files import PidNote

LATELY: Final = 60.0
"""Seconds after its last line in which a log may still be written by somebody."""


class _Log(NamedTuple):
    """A log whose job does not live: that job, when it was written, when it was seen to move."""

    note: PidNote | None
    at: float
    moved: float | None = None


class LogsGoingOn:
    """Remembers, of jobs that do not live, when their logs were seen to move."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def forget(self, name: str) -> None:
        """Take in that a run's job lives, or has no log."""
        self._logs.pop(name, None)

    def note(self, name: str, note: PidNote | None, at: float, now: float) -> None:
        """Take in when the log of a run was last written whose recorded job does not live."""
        known = self._logs.get(name)
        if known is None or (known.note and known.note.pid) != (note and note.pid):
            known = _Log(note, at)
        self._logs[name] = _Log(note, at, now if at > known.at else known.moved)

    def recent(self, name: str, now: float) -> bool:
        """Tell whether the log has moved since its job was found gone, or did a moment before."""
        log = self._logs.get(name)
        return log is not None and (log.moved is not None or now - log.at <= LATELY)

    def by_another(self, name: str, now: float) -> bool:
        """Tell whether the log goes on after its job was found gone, and the job may do that.

        A pid file that names its machine speaks of a process that has ended here; another one
        may be of another machine, or of a container.
        """
        log = self._logs.get(name)
        if log is None or log.moved is None or now - log.moved > LATELY:
            return False
        return log.note is not None and log.note.machine is None

"""A job whose process is stopped: by SIGSTOP or Ctrl-Z (state T), or by a debugger (state t).

The process table says so at once, long before a missing step does. Behind a wrapper it is the
trainer below that is stopped, while the wrapper waits. Blocking.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model import wording
from cockpit.model.jobs import Stopped
from cockpit.platforms.local.census import Process
from cockpit.platforms.local.tools import is_cockpit, is_shell, is_tool, is_wrapper
from cockpit.runtime.process import PROC, process_facts
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

STOP_STATES: Final = ("T", "t")
CONFIRM_AFTER: Final = 0.15
"""Seconds after which a process must still be stopped: one that is traced stops all the time."""
_RAN: Final = "se.exec_start"


class Stop(NamedTuple):
    """That a job is stopped, and in words."""

    value: Stopped
    text: str


def workers(members: Sequence[Process]) -> Iterable[Process]:
    """Return the processes of a job that do its work: of a wrapper, what it runs.

    ``members`` begins with the job's own process.
    """
    found = [
        one
        for one in members
        if not (is_tool(one.argv) or is_cockpit(one.argv))
        and not (is_shell(one.argv) or is_wrapper(one.argv))
    ]
    return found or members[:1]


class StoppedSince:
    """Tells since when processes are stopped, the same moment for as long as they are."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._since: dict[tuple[int, int], float] = {}

    def of(self, stopped: Sequence[Process], now: float) -> Stop | None:
        """Return the stop of the first of these that is still stopped after a moment."""
        time.sleep(CONFIRM_AFTER)
        for one in stopped:
            if process_facts(one.pid, self._proc).stopped:
                key = (one.pid, one.ticks)
                since = self._since.setdefault(key, self._last_ran(one.pid, now))
                tracer = self._tracer(one.pid)
                held = one.state == "t" or tracer > 0
                value = Stopped(pid=one.pid, since=since, held=held)
                return Stop(value, _words(one, since, tracer, held=held))
            self._since.pop((one.pid, one.ticks), None)
        return None

    def _last_ran(self, pid: int, now: float) -> float:
        """Return when a process last ran, by the scheduler; where it does not tell, ``now``."""
        threads = [self._ran(path) for path in (self._proc / str(pid) / "task").glob("*/sched")]
        mine = self._ran(self._proc / "thread-self" / "sched")
        known = [at for at in threads if at is not None]
        return now if mine is None or not known else min(now, now - (mine - max(known)))

    def _ran(self, path: Path) -> float | None:
        with suppress(OSError, ValueError, IndexError):
            text = path.read_text(encoding="ascii", errors="replace")
            line = next((each for each in text.splitlines() if each.startswith(_RAN)), "")
            return float(line.split(":")[1]) / 1000
        return None

    def _tracer(self, pid: int) -> int:
        with suppress(OSError, ValueError, IndexError):
            text = (self._proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
            line = next((each for each in text.splitlines() if each.startswith("TracerPid:")), "")
            return int(line.split()[1])
        return 0


def _words(process: Process, since: float, tracer: int, *, held: bool) -> str:
    name = clean(scrub(" ".join(process.argv)), 60)
    when = f"since {wording.moment(since)}"
    if held:
        return f"held by a debugger (state t, pid {tracer}) {when}: pid {process.pid} ({name})"
    return f"stopped by SIGSTOP or Ctrl-Z (state T) {when}: pid {process.pid} ({name})"

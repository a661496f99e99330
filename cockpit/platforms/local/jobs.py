"""Jobs of kind ``local``: a process of this machine, known by its files (SPEC S-5, SPEC J).

The files are written by the wrapper that started the training command:

* ``pid_file``, written atomically at the start::

      12345
      start=1795249501.37
      ticks=4711842
      launch_id=my-run-i003

  The first line is the process id of the *training command* (not of the wrapper), which is
  what must be alive. ``start=`` is when that process started, in seconds since the epoch, as
  ``process_facts(pid).started_at`` gives it; without it the file's mtime is the latest moment
  at which the process can have started. ``ticks=`` is that start as field 22 of
  ``/proc/PID/stat`` tells it; where it is noted it decides whether the process is still the
  same one, since setting the machine's clock does not move it. ``launch_id=`` is optional.
  ``log=inode:byte:checksum`` tells where the job's first line stands in its log.
  Unknown ``key=value`` lines are ignored, so that other tools may add theirs.
* ``exit_file``, written atomically after the end: one integer, the exit status (``-9`` and
  ``137`` both mean "killed by signal 9").
* ``done_marker``: any file that exists only after success.

A relaunch writes a new ``pid_file``. Exit files and markers older than that launch are those
of the former job and do not count.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.observed import JobValue, Phase
from cockpit.model.place import Place
from cockpit.model.query import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.local.files import BadNote, ExitNote, PidNote, read_exit, read_pid
from cockpit.runtime.offload import each, offload
from cockpit.runtime.process import ProcessFacts, process_facts
from cockpit.sources.logs.source import newest_match

DEADLINE: Final = 5.0
START_SLACK: Final = 5.0
"""Seconds by which the recorded start of a process may differ from the kernel's."""
REAP_WAIT: Final = 1.0
"""Seconds that a wrapper is given to write the exit status of a process that has ended."""
_REAP_LOOK: Final = 0.05
GONE: Final = "gone"
STARTING: Final = "starting"
PROCESS_TABLE: Final = "process table"
FILE_SLACK: Final = 2.0
"""Seconds by which an exit file may be older than its launch (coarse file times)."""
AskLive = Callable[[Sequence[RunSpec]], Awaitable[Mapping[str, Live]]]


class LocalJobs:
    """Observes the local jobs among the runs; knows nothing of other kinds."""

    def __init__(self, clock: Clock, live: AskLive, reap_wait: float = REAP_WAIT) -> None:
        self._clock = clock
        self._live = live
        self._reap_wait = reap_wait
        self._gone: dict[str, str | None] = {}
        self._spoken: dict[str, str | None] = {}
        self._since: dict[tuple[str, str], float | None] = {}
        self._jobs: dict[str, tuple[LiveJob, ...]] = {}

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by run name.

        The exit codes of W&B's exit records are not dated, and after a relaunch they are the
        former job's: a living process outweighs them.
        """
        local = [(query, query.run.job) for query in queries if query.run.job is not None]
        facets = await each(
            local, lambda one: self._patiently(one[0].name, one[1], one[0].exit_record)
        )
        answers = zip(local, facets, strict=True)
        spoken = {query.name: self._once_spoken(query.name, facet) for (query, _), facet in answers}
        return await self._with_rivals([query.run for query, _ in local], spoken)

    async def _with_rivals(
        self, runs: Sequence[RunSpec], facets: dict[str, Facet[JobValue]]
    ) -> dict[str, Facet[JobValue]]:
        """Add to each job the others of its lineage that live (C-25), from one look at all."""
        live = await self._live(runs) if runs else {}
        return {name: self._rivalled(name, facet, live.get(name)) for name, facet in facets.items()}

    def _rivalled(self, name: str, facet: Facet[JobValue], live: Live | None) -> Facet[JobValue]:
        value = facet.value
        if value is None or facet.error is not None:
            return facet
        if live is not None and live.unknown is None:
            self._jobs[name] = tuple(self._dated(job) for job in live.jobs)
        rivals = tuple(job for job in self._jobs.get(name, ()) if job.id != value.id)
        same = value.model_copy(update={"rivals": rivals, "rivals_source": PROCESS_TABLE})
        return facet.model_copy(update={"value": same}) if rivals else facet

    def _dated(self, job: LiveJob) -> LiveJob:
        """Return a job whose start does not move when the kernel's idea of the boot does."""
        key = (job.id, job.handle.get("ticks", ""))
        started = self._since.setdefault(key, job.started_at)
        return job.model_copy(update={"started_at": started})

    def _once_spoken(self, name: str, facet: Facet[JobValue]) -> Facet[JobValue]:
        """Return a job that has once written as running, though its log was rotated away."""
        value = facet.value
        if value is None:
            return facet
        if value.phase is Phase.RUNNING:
            self._spoken[name] = _id(facet)
        if value.state != STARTING or self._spoken.get(name, "") != _id(facet):
            return facet
        running = {"state": "running", "phase": Phase.RUNNING, "reason": None}
        spoken = value.model_copy(update={**running, "pending_since": None})
        return facet.model_copy(update={"value": spoken})

    async def _patiently(self, name: str, job: JobSpec, record: int | None) -> Facet[JobValue]:
        """Look again before a job is first called gone: its wrapper may be writing the status."""
        facet = await self._once(job, record)
        loop = asyncio.get_running_loop()  # a writer takes real time, whatever the clock says
        until = loop.time() + self._reap_wait
        while _is_gone(facet) and job.exit_file and self._gone.get(name, "") != _id(facet):
            if loop.time() >= until:
                self._gone[name] = _id(facet)
                break
            await asyncio.sleep(_REAP_LOOK)
            facet = await self._once(job, record)
        return facet

    async def _once(self, job: JobSpec, record: int | None) -> Facet[JobValue]:
        now = self._clock.now()
        try:
            seen = await offload(_look, job, deadline=DEADLINE)
        except TimeoutError as error:
            message = f"the job's files did not answer: {error}"
            return unknown(ErrorKind.TIMEOUT, message, _source(job), now)
        except PermissionError as error:
            message = f"no permission to read {error.filename}"
            return unknown(ErrorKind.PERMISSION, message, _source(job), now)
        except OSError as error:
            message = f"cannot read {error.filename}: {error.strerror}"
            return unknown(ErrorKind.BAD_ANSWER, message, _source(job), now)
        return _judge(job, seen, record, now)


def _is_gone(facet: Facet[JobValue]) -> bool:
    return facet.value is not None and facet.value.state == GONE


def _id(facet: Facet[JobValue]) -> str | None:
    return None if facet.value is None else facet.value.id


class _Seen(NamedTuple):
    """Everything that was read for one job, before anything is believed."""

    pid: PidNote | BadNote | None
    process: ProcessFacts | None
    exit: ExitNote | BadNote | None
    marker_at: float | None
    log_size: int
    log_at: float | None


def _look(job: JobSpec) -> _Seen:
    """Read the files and the process table. Blocking; raises ``OSError``."""
    ended = read_exit(job.exit_file.path) if job.exit_file else None
    marker_at = _mtime(job.done_marker)
    pid = read_pid(job.pid_file.path) if job.pid_file else None
    process = process_facts(pid.pid) if isinstance(pid, PidNote) else None
    if process is not None and not process.alive and job.exit_file:
        ended = read_exit(job.exit_file.path)  # it may have ended between the two looks
        marker_at = _mtime(job.done_marker)
    log = _stat(newest_match(job.log.path) if job.log else None)
    return _Seen(pid, process, ended, marker_at, log[0], log[1])


def _mtime(place: Place | None) -> float | None:
    return _stat(None if place is None else place.path)[1]


def _stat(path: str | None) -> tuple[int, float | None]:
    """Return (size, mtime) of a file, (0, None) if there is none."""
    if path is None:
        return 0, None
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return 0, None
    return found.st_size, found.st_mtime


def _source(job: JobSpec) -> str:
    return f"pid file {job.pid_file}" if job.pid_file else f"exit file {job.exit_file}"


def _judge(job: JobSpec, seen: _Seen, record: int | None, now: float) -> Facet[JobValue]:
    """Apply SPEC J's order of belief: exit file, W&B exit record, marker, process table."""
    launched = _launched_at(seen)
    alive = seen.process is not None and seen.process.alive and not _reused(seen)
    if isinstance(seen.exit, ExitNote) and _counts(seen.exit.written_at, launched):
        return known(
            _ended(seen, seen.exit.status, seen.exit.written_at), f"exit file {job.exit_file}", now
        )
    if record is not None and not alive:
        return known(_ended(seen, record, None), "W&B exit record", now)
    if seen.marker_at is not None and _counts(seen.marker_at, launched):
        return known(_ended(seen, 0, seen.marker_at), f"marker {job.done_marker}", now)
    if alive:
        return known(_living(job, seen), PROCESS_TABLE, now)
    return _without_status(job, seen, now)


def _counts(written_at: float, launched: float | None) -> bool:
    return launched is None or written_at >= launched - FILE_SLACK


def _launched_at(seen: _Seen) -> float | None:
    """Return when the present job started, as far as its pid file tells."""
    if not isinstance(seen.pid, PidNote):
        return None
    return seen.pid.written_at if seen.pid.start is None else seen.pid.start


def _reused(seen: _Seen) -> bool:
    """Tell whether the process id belongs to another process than the one launched."""
    if seen.process is None or not isinstance(seen.pid, PidNote):
        return False
    if seen.pid.ticks is not None and seen.process.ticks is not None:
        return seen.pid.ticks != seen.process.ticks
    if seen.process.started_at is None:
        return False
    if seen.pid.start is None:
        return seen.process.started_at > seen.pid.written_at + START_SLACK
    return abs(seen.process.started_at - seen.pid.start) > START_SLACK


def _value(
    seen: _Seen,
    state: str,
    phase: Phase,
    *,
    reason: str | None = None,
    exit_code: int | None = None,
    ended_at: float | None = None,
    pending_since: float | None = None,
) -> JobValue:
    pid = seen.pid if isinstance(seen.pid, PidNote) else None
    return JobValue(
        id=None if pid is None else f"pid:{pid.pid}",
        state=state,
        phase=phase,
        reason=reason,
        exit_code=exit_code,
        pending_since=pending_since,
        started_at=_launched_at(seen),
        ended_at=ended_at,
        launch_id=None if pid is None else pid.launch_id,
        log_mark=None if pid is None else pid.log,
    )


def _ended(seen: _Seen, status: int, ended_at: float | None) -> JobValue:
    reason = explain_exit(status)
    return _value(
        seen,
        "killed" if reason is not None and reason.startswith("killed") else "exited",
        Phase.SUCCEEDED if status == 0 else Phase.FAILED,
        reason=reason,
        exit_code=status,
        ended_at=ended_at,
    )


def _living(job: JobSpec, seen: _Seen) -> JobValue:
    started = _launched_at(seen)
    if seen.process is not None and seen.process.stopped:
        reason = "the process is stopped (SIGSTOP)"
        return _value(seen, "stopped", Phase.RUNNING, reason=reason)
    if job.log is not None and _silent(seen, started):
        reason = "launched, no log line yet"
        return _value(seen, STARTING, Phase.WAITING, reason=reason, pending_since=started)
    return _value(seen, "running", Phase.RUNNING)


def _silent(seen: _Seen, started: float | None) -> bool:
    """Tell whether the log holds nothing of this launch (it may hold the former job's lines)."""
    if seen.log_size == 0 or seen.log_at is None:
        return True
    return started is not None and seen.log_at < started - FILE_SLACK


def _without_status(job: JobSpec, seen: _Seen, now: float) -> Facet[JobValue]:
    """Return the facet of a job that does not live and left no exit status that counts."""
    source = _source(job)
    for note in (seen.exit, seen.pid):
        if isinstance(note, BadNote):
            return unknown(ErrorKind.BAD_ANSWER, note.reason, source, now)
    if isinstance(seen.pid, PidNote):
        return known(_value(seen, GONE, Phase.FAILED, reason=_gone(seen)), PROCESS_TABLE, now)
    if job.pid_file is not None:
        message = f"no pid file {job.pid_file}: nothing was launched here, or it was removed"
        return unknown(ErrorKind.NOT_FOUND, message, source, now)
    message = "no exit status yet, and the run file names no job.pid_file to find the process by"
    return unknown(ErrorKind.NOT_FOUND, message, source, now)


def _gone(seen: _Seen) -> str:
    reason = "gone without an exit status"
    if seen.process is not None and seen.process.alive:
        reason += f" (pid {seen.process.pid} now belongs to another process)"
    if isinstance(seen.exit, ExitNote):
        reason += " (the exit file is older than this launch)"
    return reason


def explain_exit(status: int) -> str | None:
    """Return what an exit status says: ``None`` for 0, the signal's name for -n and 128+n."""
    number = -status if status < 0 else status - 128
    if status == 0:
        return None
    if number > 0:
        try:
            return f"killed by signal {number} ({signal.Signals(number).name})"
        except ValueError:
            pass
    said = _SHELL_WORDS.get(status)
    return f"exit status {status}" + (f" ({said})" if said else "")


_SHELL_WORDS: Final = {126: "cannot be executed", 127: "command not found"}

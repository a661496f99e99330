"""Jobs of kind ``local``: a process of this machine, known by its files (SPEC S-5, SPEC J).

The files are written by the wrapper that started the training command:

* ``pid_file``, written atomically at the start::

      12345
      start=1795249501.37
      ticks=4711842
      launch_id=my-run-i003

  The first line is the process id of the *training command* (not of the wrapper), which is
  what must be alive. ``ticks=`` is its start as field 22 of ``/proc/PID/stat`` tells it; with
  ``boot=`` and ``machine=`` it decides whether the process is still the same one, since setting
  the machine's clock does not move it. ``start=`` is the same in seconds since the epoch, as
  ``process_facts(pid).started_at`` gives it. Without ``ticks=`` the evidence decides, and the
  file's own time proves nothing (``recorded``). ``launch_id=`` is optional.
  ``log=inode:byte:checksum`` tells where the job's first line stands in its log. Unknown
  ``key=value`` lines are ignored, so that other tools may add theirs.
* ``exit_file``, written atomically after the end: one integer, the exit status (``-9`` and
  ``137`` both mean "killed by signal 9").
* ``done_marker``: any file that exists only after success.

The recorded process, as long as it lives, outweighs any file. A relaunch writes a new
``pid_file``: exit files and markers that were written before it are those of the former job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Final

from cockpit.hosts.agent import newest
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import Live, LiveJob, Query
from cockpit.model.observed import STARTING, UNCLEAR, JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.local import lookup
from cockpit.platforms.local.family import starts_again
from cockpit.platforms.local.files import (
    NOTES,
    PidNote,
    launched_elsewhere,
    mtime_of,
    read_exit,
    read_pid,
    size_and_time,
)
from cockpit.platforms.local.judging import (
    GONE,
    PROCESS_TABLE,
    STOP_STATES,
    LogsGoingOn,
    Seen,
    StoppedSince,
    doubted,
    judge,
    launched_at,
    source_of,
    whose,
    without_trace,
    workers,
)
from cockpit.platforms.local.lineage import by_match
from cockpit.platforms.local.recorded import elsewhere, identify
from cockpit.platforms.local.sight import Identity, Sight, Table, Who, sight_here
from cockpit.runtime.offload import Call, Outcome, each, offload, offload_each
from cockpit.runtime.process import ProcessFacts, here, process_facts

DEADLINE: Final = 5.0
NO_TABLE: Final = "the process table was not told in time"
REAP_WAIT: Final = 1.0
"""Seconds that a wrapper is given to write the exit status of a process that has ended."""
_REAP_LOOK: Final = 0.05
AskLive = Callable[[Sequence[RunSpec], Sight | None], Awaitable[Mapping[str, Live]]]


class LocalJobs:
    """Observes the local jobs among the runs; knows nothing of other kinds."""

    def __init__(self, clock: Clock, live: AskLive, reap_wait: float = REAP_WAIT) -> None:
        self._clock = clock
        self._live = live
        self._reap_wait = reap_wait
        self._gone: dict[str, str | None] = {}
        self._spoken: dict[str, str | None] = {}
        self._since: dict[tuple[str, str], float | None] = {}
        self._jobs: dict[str, Live] = {}
        self._stops = StoppedSince()
        self._matched: dict[str, PidNote] = {}
        """What was seen to live, of runs whose job is found by a pattern."""
        self._logs = LogsGoingOn()

    async def observe(self, queries: Sequence[Query]) -> dict[str, Facet[JobValue]]:
        """Return the job facet of each run, by run name.

        The exit codes of W&B's exit records are not dated, and after a relaunch they are the
        former job's: a living process outweighs them.
        """
        local = [query for query in queries if query.run.job is not None]
        table = Table(await _look_around() if local else None)
        first = await self._looked(local, table)
        facets = await each(local, lambda query: self._patiently(query, table, first[query.name]))
        answers = zip(local, facets, strict=True)
        spoken = {query.name: self._once_spoken(query.name, facet) for query, facet in answers}
        return await self._with_rivals([query.run for query in local], spoken, table)

    async def _with_rivals(
        self, runs: Sequence[RunSpec], facets: dict[str, Facet[JobValue]], table: Table
    ) -> dict[str, Facet[JobValue]]:
        """Add to each job the others of its lineage that live (C-25), from one look at all."""
        look, seen = None if table.spent else table.sight, table.sight is not None
        live = await self._live(runs, look) if runs else {}
        return {
            name: self._rivalled(name, facet, live.get(name), seen=seen)
            for name, facet in facets.items()
        }

    def _rivalled(
        self, name: str, facet: Facet[JobValue], live: Live | None, *, seen: bool
    ) -> Facet[JobValue]:
        """Return a job with its rivals; ``seen``: the processes could be looked at."""
        value = facet.value
        if value is None:
            return facet
        if live is not None and (live.unknown is None or (seen and value.state == UNCLEAR)):
            self._jobs[name] = live  # whom the pid file means is unknown, not what lives beside it
        known_live = self._jobs.get(name, Live())
        here = tuple(self._dated(job) for job in known_live.jobs if job.id != value.id)
        rivals = (*here, *value.rivals)
        possible = tuple(self._dated(job) for job in known_live.possible if job.id != value.id)
        if not rivals and not possible:
            return self._written(name, facet)
        source = PROCESS_TABLE if here or possible else NOTES
        update = {"rivals": rivals, "possible": possible, "rivals_source": source}
        rivalled = facet.model_copy(update={"value": value.model_copy(update=update)})
        now = self._clock.now()
        told = whose(rivalled, here, now) if self._logs.recent(name, now) else rivalled
        return self._written(name, told)

    def _written(self, name: str, facet: Facet[JobValue]) -> Facet[JobValue]:
        """Return a job that is gone here as unknown while its log is written all the same.

        Somebody writes it whom this machine's process table does not show.
        """
        value, now = facet.value, self._clock.now()
        if value is None or value.state != GONE or not self._logs.by_another(name, now):
            return facet
        text = f"{value.reason}, but its log still grows: is it running on another machine?"
        return doubted(facet, value, text, now)

    def _dated(self, job: LiveJob) -> LiveJob:
        """Return a job whose start does not move when the kernel's idea of the boot does."""
        started = self._since.setdefault((job.id, job.handle.get("ticks", "")), job.started_at)
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

    async def _patiently(
        self, query: Query, table: Table, facet: Facet[JobValue]
    ) -> Facet[JobValue]:
        """Look again before a job is first called gone: its wrapper may be writing the status."""
        name, job = query.name, query.run.job
        loop = asyncio.get_running_loop()  # a writer takes real time, whatever the clock says
        until = loop.time() + self._reap_wait
        noted = job is not None and job.exit_file is not None
        while noted and _is_gone(facet) and self._gone.get(name, "") != _id(facet):
            if loop.time() >= until:
                self._gone[name] = _id(facet)
                break
            await asyncio.sleep(_REAP_LOOK)
            table.spent = True
            facet = (await self._looked([query], table))[name]
        return facet

    async def _looked(self, queries: Sequence[Query], table: Table) -> dict[str, Facet[JobValue]]:
        """Return what files and processes tell of each job now, by run name."""
        now = self._clock.now()
        calls = [
            Call(partial(self._seen, query.run, table, now), (_look, query.run.job))
            for query in queries
        ]
        outcomes = await offload_each(calls, deadline=DEADLINE)
        answers = zip(queries, outcomes, strict=True)
        return {query.name: self._judged(query, outcome, now) for query, outcome in answers}

    def _judged(self, query: Query, outcome: Outcome[Seen], now: float) -> Facet[JobValue]:
        job = query.run.job
        assert job is not None
        try:
            seen = outcome.value
        except TimeoutError as error:
            message = f"the job's files did not answer: {error}"
            return unknown(ErrorKind.TIMEOUT, message, source_of(job), now)
        except PermissionError as error:
            message = f"no permission to read {error.filename}"
            return unknown(ErrorKind.PERMISSION, message, source_of(job), now)
        except OSError as error:
            message = f"cannot read {error.filename}: {error.strerror}"
            return unknown(ErrorKind.BAD_ANSWER, message, source_of(job), now)
        facet = judge(job, seen, query.exit_record, now)
        if seen.who.who is Who.SAME and isinstance(seen.pid, PidNote):
            self._matched[query.name] = seen.pid
        return without_trace(facet, seen, seen.absent, self._matched.get(query.name), now)

    def _seen(self, run: RunSpec, table: Table, now: float) -> Seen:
        """Read the files and the process behind the pid file. Blocking; raises ``OSError``."""
        seen = _look(run, table, now)
        if seen.started is not None and isinstance(seen.pid, PidNote):
            key = (f"pid:{seen.pid.pid}", str(seen.ticks))
            seen = seen._replace(started=self._since.setdefault(key, seen.started))
        if seen.who.who is Who.SAME or seen.log_at is None:
            self._logs.forget(run.name)
        else:
            note = seen.pid if isinstance(seen.pid, PidNote) else None
            self._logs.note(run.name, note, seen.log_at, now)
        if seen.who.who is Who.SAME:
            seen = seen._replace(elsewhere=launched_elsewhere(run, launched_at(seen)))
        stopped = [one for one in seen.members if one.state in STOP_STATES]
        return seen._replace(stop=self._stops.of(stopped, now)) if stopped else seen


async def _look_around() -> Sight | None:
    """Return the process table, ``None`` where it cannot be read in time."""
    try:
        return await offload(sight_here, deadline=DEADLINE)
    except (TimeoutError, OSError):
        return None


def _is_gone(facet: Facet[JobValue]) -> bool:
    return facet.value is not None and facet.value.state == GONE


def _id(facet: Facet[JobValue]) -> str | None:
    return None if facet.value is None else facet.value.id


def _look(run: RunSpec, table: Table, now: float) -> Seen:
    """Read the files and the process table. Blocking; raises ``OSError``."""
    job = run.job
    assert job is not None
    ended = read_exit(job.exit_file.path) if job.exit_file else None
    marker_at = mtime_of(job.done_marker)
    pid = read_pid(job.pid_file.path) if job.pid_file else None
    who, facts, noted, look = Identity(Who.GONE), None, None, table.sight
    absent = ""
    if pid is None and job.match is not None and look is not None:
        pid, who, absent = by_match(run, job.match, look, now)
        facts = None if pid is None else process_facts(pid.pid, boot=look.boot)
    elif isinstance(pid, PidNote):
        facts = process_facts(pid.pid, boot=None if look is None else look.boot)
        look = table.showing(pid.pid) if facts.alive else look
        who = _identity(run, pid, facts, look, now)
        if not facts.alive and job.exit_file:
            ended = read_exit(job.exit_file.path)  # it may have ended between the two looks
            marker_at = mtime_of(job.done_marker)
            noted = lookup.noted_exit(run, pid)
    log = size_and_time(newest(job.log.path) if job.log else None)
    seen = Seen(pid, who, ended, marker_at, log[0], log[1], noted, absent=absent)
    if who.who is not Who.SAME or facts is None:
        return seen
    members = () if look is None else tuple(workers(look.below(facts.pid)))
    again = () if look is None else _again(look, facts.pid)
    return seen._replace(started=facts.started_at, ticks=facts.ticks, members=members, again=again)


def _again(look: Sight, pid: int) -> tuple[LiveJob, ...]:
    return starts_again(look.processes, pid, look.children, known=look.again)


def _identity(
    run: RunSpec, note: PidNote, facts: ProcessFacts, look: Sight | None, now: float
) -> Identity:
    """Return whose process it is; without a table the noted ticks tell, of this very boot."""
    if look is not None:
        return identify(run, note, look, now)
    found = elsewhere(note, here())
    if found is not None:
        return found
    if note.ticks is None or (facts.alive and facts.ticks is None):
        return Identity(Who.UNSURE, f"{NO_TABLE}: cannot tell whether pid {note.pid} is the job")
    return Identity(
        Who.GONE if not facts.alive else Who.SAME if note.ticks == facts.ticks else Who.OTHER
    )

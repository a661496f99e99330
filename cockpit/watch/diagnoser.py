"""Why a job ended: its log is read for that, once, and the answer kept until something changes.

The facet of a log holds its last lines, for people; a diagnosis reads far more (SPEC T), so it
is made apart, in threads, and only for a job that is over or stands still. Whoever judges waits
a moment for it; what takes longer is judged again when it is there.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from cockpit.model.facet import Problem
from cockpit.model.logtext import PresentLog
from cockpit.model.observed import JobValue, LogValue, Phase, Triage
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.rules.artifacts.success import fell_short
from cockpit.rules.present import job_of
from cockpit.rules.triage.classify import diagnose, word_of
from cockpit.runtime.offload import offload
from cockpit.sources.logs.anywhere import log_at
from cockpit.sources.logs.file import show
from cockpit.sources.logs.present import read_present
from cockpit.sources.logs.source import TAIL
from cockpit.text.present_log import held
from cockpit.watch.polling.supervise import Supervisor
from cockpit.watch.reports import Case, seen_of
from cockpit.watch.runstate import Diagnosis, RunState

DEADLINE: Final = 15.0
AT_ONCE: Final = 2
"""Diagnoses under way together: each keeps a core busy."""
AWAY_AT_ONCE: Final = 16
"""Logs of other machines that are read together: one trip brings several."""


class _Question(NamedTuple):
    """What a diagnosis depends on: another one of these needs another diagnosis."""

    job: JobValue
    path: str
    size: int
    mtime: float
    inode: int | None
    short: bool | None


class Diagnoser:
    """Reads and diagnoses the logs of jobs that are over; ``ready`` is called with late ones."""

    def __init__(self, supervisor: Supervisor, ready: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._ready = ready
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._trips = asyncio.Semaphore(AWAY_AT_ONCE)

    async def refresh(
        self,
        states: Sequence[RunState],
        cases: Sequence[Case],
        patience: float,
        *,
        stalled: bool = False,
    ) -> None:
        """Diagnose what is not yet, waiting ``patience`` (s); ``stalled``: these stand still."""
        pairs = zip(states, cases, strict=True)
        begun = [task for state, case in pairs if (task := self._begin(state, case, stalled))]
        if begun:
            await asyncio.wait(begun, timeout=patience)

    def _begin(self, state: RunState, case: Case, stalled: bool) -> asyncio.Task[None] | None:
        question = question_of(case, asked(state) or stalled)
        name = state.spec.name
        if question is None:
            if not _outlives(state, case):
                state.diagnosis = None
            return None
        if state.diagnosis is not None and state.diagnosis.question == question:
            return None
        running = self._tasks.get(name)
        if running is None or running.done():
            running = asyncio.ensure_future(self._diagnose(state, question))
            self._tasks[name] = running
        return running

    async def _diagnose(self, state: RunState, question: _Question) -> None:
        name, log = state.spec.name, state.facets.log.value
        if log is None:
            return
        place = _place(state.spec, log)
        async with self._turns if place is None or place.here else self._trips:
            reading = offload(_read, place, question.job, log, deadline=DEADLINE)
            read = await self._supervisor.run(f"the log of {name}", DEADLINE + 1.0, reading)
        if isinstance(read, Problem):
            return
        text, settled = read
        work = functools.partial(diagnosed, state.spec, question.job, text, question.short)
        async with self._turns:
            found = await self._supervisor.run(
                f"triage of {name}", DEADLINE + 1.0, offload(work, deadline=DEADLINE)
            )
        if not isinstance(found, Problem):
            known = question if settled else question._replace(size=-1)
            state.diagnosis = Diagnosis(known, found)
            self._ready(name)


def _outlives(state: RunState, case: Case) -> bool:
    """Tell whether a diagnosis still holds of a log that cannot be read now: its job is the same.

    A link that drops says nothing new about why a job ended.
    """
    job, log = job_of(case.history), case.history.facets.log
    if state.diagnosis is None or job is None or log.value is None or log.error is None:
        return False
    known: JobValue = state.diagnosis.question[0]
    return _alone(job) == known


def _alone(job: JobValue) -> JobValue:
    return job.model_copy(update={"rivals": (), "queued": ()})


def asked(state: RunState) -> bool:
    """Tell whether a job that stood still has been diagnosed: it is kept up to date."""
    return state.diagnosis is not None and not state.diagnosis.over


def question_of(case: Case, stalled: bool) -> _Question | None:
    """Return what is to be found out of a run's log; ``None`` while its job just trains."""
    job, log = job_of(case.history), case.history.facets.log
    if job is None or log.value is None or log.error is not None:
        return None
    if not job.phase.terminal and not (job.phase is Phase.RUNNING and stalled):
        return None
    plain = _alone(job)
    short, value = fell_short(case.spec, seen_of(case)), log.value
    return _Question(plain, value.path, value.size, value.mtime, value.inode, short)


def diagnosed(run: RunSpec, job: JobValue, text: PresentLog, short: bool | None) -> Triage:
    """Return SPEC T's answer for a job from its log. Blocking."""
    found = diagnose(text, word_of(job), job.exit_code, short=short, final=run.final_step)
    lines = tuple(
        line.model_copy(update={"text": show(line.text.encode()).plain}) for line in found.evidence
    )
    return found.model_copy(update={"evidence": lines})


def _place(run: RunSpec, log: LogValue) -> Place | None:
    from cockpit.platforms.table import kind_of

    kind = kind_of(run)
    return None if kind is None else kind.log_place(run, log)


def _read(place: Place | None, job: JobValue, log: LogValue) -> tuple[PresentLog, bool]:
    """Return the present job's lines: from the log where it can be read, else what is at hand.

    False: another look may read more.
    """
    lines = tuple(line.plain for line in log.lines)
    why = f"only its last {len(lines)} lines are available" if len(lines) >= TAIL else None
    if place is None:
        return held(lines, why), True
    try:
        return read_present(log_at(place), job.log_mark, job.started_at), True
    except OSError as error:
        said = (error.strerror or "it cannot be read").lower()
        return held(lines, why and f"{why}: {said}"), place.here

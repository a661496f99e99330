"""Why a job ended: its log is read for that, once, and the answer kept until something changes.

The facet of a log holds its last lines, for people; a diagnosis reads far more (SPEC T), so it
is made apart, in threads, and only for a job that is over or stands still. Whoever judges waits
a moment for it; what takes longer is judged again when it is there.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Final, NamedTuple

from cockpit.model.facet import Problem
from cockpit.model.logtext import LogMark, PresentLog
from cockpit.model.observed import JobValue, LogValue, OtherLog, Phase, Triage
from cockpit.model.own_rules import SignatureSpec
from cockpit.model.place import SSH, Place, place_of
from cockpit.model.run import RunSpec, own_signatures
from cockpit.rules.lineage.success import fell_short
from cockpit.rules.present import job_of
from cockpit.rules.triage.classify import diagnose, word_of
from cockpit.rules.triage.patterns import ALARM
from cockpit.runtime.offload import offload
from cockpit.sources.logs.file import show
from cockpit.sources.logs.pieces import Told
from cockpit.sources.logs.present import MOST_BYTES, bring, read_present
from cockpit.sources.logs.remote import RemoteLog, log_at
from cockpit.sources.logs.source import TAIL
from cockpit.text.progress_lines import log_of_lines, present_log
from cockpit.watch.reports import Case, view_of
from cockpit.watch.runstate import Diagnosis, RunState
from cockpit.watch.sweep import Supervisor

DEADLINE: Final = 15.0
AT_ONCE: Final = 2
"""Diagnoses under way together: each keeps a core busy."""
AWAY_AT_ONCE: Final = 16
"""Logs of other machines that are read at one time."""
ENDS: Final = 200
"""Lines at the end of each of several logs that tell which one says how it ended."""
TOGETHER: Final = 64
ROOM: Final = 8 << 20
"""Logs of one host that a trip brings at most, and their bytes: a fleet may stall all at once."""


class _Question(NamedTuple):
    """What a diagnosis depends on: another one of these needs another diagnosis."""

    job: JobValue
    path: str
    size: int
    mtime: float
    inode: int | None
    short: bool | None
    others: tuple[OtherLog, ...] = ()
    own: tuple[SignatureSpec, ...] = ()


class _AskedQuestion(NamedTuple):
    """A question that a run's log is read for, and where that lies."""

    state: RunState
    question: _Question
    log: LogValue
    place: Place | None

    @property
    def host(self) -> str:
        """The ssh host whose logs are brought together; empty for any other place."""
        return self.place.host if self.place is not None and self.place.scheme == SSH else ""

    @property
    def log_start(self) -> tuple[Place, LogMark | None] | None:
        """Where the present job's lines begin, and in what."""
        return None if self.place is None else (self.place, self.question.job.log_mark)


class Diagnoser:
    """Reads and diagnoses the logs of jobs that are over; ``ready`` is called with new answers."""

    def __init__(self, supervisor: Supervisor, ready: Callable[[str], None]) -> None:
        self._supervisor = supervisor
        self._ready = ready
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._trips = asyncio.Semaphore(AWAY_AT_ONCE)
        self._hosts: dict[str, asyncio.Semaphore] = {}

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
        wanted = [one for state, case in pairs if (one := _asked_of(state, case, stalled))]
        tasks = self._tasks
        for group in _groups([one for one in wanted if not self._under_way(one)]):
            task = asyncio.ensure_future(self._answer(group))
            tasks.update((one.state.spec.name, task) for one in group)
        if wanted:
            begun = {tasks[one.state.spec.name] for one in wanted}
            await asyncio.wait(begun, timeout=patience)

    def _under_way(self, one: _AskedQuestion) -> bool:
        task = self._tasks.get(one.state.spec.name)
        return task is not None and not task.done()

    async def _answer(self, group: Sequence[_AskedQuestion]) -> None:
        """Diagnose a group; what is brought for it is let go before the host's next one."""
        host = group[0].host
        async with self._hosts.setdefault(host, asyncio.Semaphore(1)) if host else nullcontext():
            told = await self._brought(host, group) if len(group) > 1 else {}
            each = (self._diagnose(one, told.get(one.state.spec.name)) for one in group)
            await asyncio.gather(*each)

    async def _brought(self, host: str, group: Sequence[_AskedQuestion]) -> Mapping[str, Told]:
        """Return what one trip brings of a host's logs; the others are asked for alone."""
        work = bring({one.state.spec.name: one.log_start for one in group if one.log_start})
        told = await self._supervisor.run(f"the logs on {host}", DEADLINE + 1.0, work)
        return {} if isinstance(told, Problem) else told

    async def _diagnose(self, one: _AskedQuestion, told: Told | None) -> None:
        state, question, log, place = one
        name = state.spec.name
        async with self._turns if place is None or place.here else self._trips:
            reading = offload(read_log, place, question.job, log, told, deadline=DEADLINE)
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
            known, former = question if settled else question._replace(size=-1), state.diagnosis
            state.diagnosis = Diagnosis(known, found)
            if former is None or former.triage != found:  # else judging, and asking, never rests
                self._ready(name)


def _asked_of(state: RunState, case: Case, stalled: bool) -> _AskedQuestion | None:
    """Return what to find out about a run; an answer that no longer holds is dropped."""
    question, log = question_of(case, has_stall_diagnosis(state) or stalled), state.facets.log.value
    if question is None:
        if not _outlives(state, case):
            state.diagnosis = None
        return None
    if log is None or (state.diagnosis is not None and state.diagnosis.question == question):
        return None
    return _AskedQuestion(state, question, log, place_of_log(state.spec, log))


def _groups(asked: Sequence[_AskedQuestion]) -> Iterator[Sequence[_AskedQuestion]]:
    """Yield what is answered together: the logs of a host, as many as one trip should bring."""
    groups: dict[str, list[_AskedQuestion]] = {}
    for one in asked:
        if not one.host:
            yield [one]
            continue
        group = groups.setdefault(one.host, [])
        sizes = sum(min(each.log.size, MOST_BYTES) for each in (*group, one))
        if group and (len(group) >= TOGETHER or sizes > ROOM):
            yield groups.pop(one.host)
            group = groups.setdefault(one.host, [])
        group.append(one)
    yield from groups.values()


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


def has_stall_diagnosis(state: RunState) -> bool:
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
    short, value = fell_short(case.spec, view_of(case)), log.value
    own = own_signatures(case.spec)
    return _Question(
        plain, value.path, value.size, value.mtime, value.inode, short, value.others, own
    )


def diagnosed(run: RunSpec, job: JobValue, text: PresentLog, short: bool | None) -> Triage:
    """Return SPEC T's answer for a job from its log. Blocking."""
    own, word = own_signatures(run), word_of(job)
    found = diagnose(text, word, job.exit_code, short=short, final=run.final_step, own=own)
    lines = tuple(
        line.model_copy(update={"text": show(line.text.encode()).plain}) for line in found.evidence
    )
    return found.model_copy(update={"evidence": lines})


def place_of_log(run: RunSpec, log: LogValue) -> Place | None:
    """Return where a run's log can be read; ``None``: only the lines at hand are there."""
    from cockpit.platforms.table import kind_of

    kind = kind_of(run)
    return None if kind is None else kind.log_place(run, log)


def read_log(
    place: Place | None, job: JobValue, log: LogValue, told: Told | None = None
) -> tuple[PresentLog, bool]:
    """Return the present job's lines: from the log where it can be read, else what is at hand.

    ``told`` was brought of it. False: another look may read more.
    """
    lines = tuple(line.plain for line in log.lines)
    why = f"only its last {len(lines)} lines are available" if len(lines) >= TAIL else None
    if place is None:
        return log_of_lines(lines, why), True
    try:
        source = log_at(place)
        if told is not None and isinstance(source, RemoteLog):
            source = source.answered(told)
        own = read_present(source, job.log_mark, job.started_at)
        return _with_others(own, job, log.others), True
    except OSError as error:
        said = (error.strerror or "it cannot be read").lower()
        return log_of_lines(lines, why and f"{why}: {said}"), place.here


def _with_others(own: PresentLog, job: JobValue, others: Sequence[OtherLog]) -> PresentLog:
    """Return a job's lines with those of its other logs; what alarms comes last, as it ended.

    Which line of one file came before which of another is not known: a traceback on standard
    error has not been outlived by what a buffer let go of afterwards.
    """
    found = [(own, "")]
    for each in others:
        with suppress(OSError):
            read = read_present(log_at(place_of(each.path)), None, job.started_at)
            found.append((read, each.path))
    if len(found) == 1:
        return own
    found.sort(
        key=lambda each: sum(bool(ALARM.search(line.text)) for line in each[0].lines[-ENDS:])
    )
    lines = [line._replace(file=path or line.file) for log, path in found for line in log.lines]
    size = sum(log.read.bytes for log, _ in found)
    return present_log(lines, own.read.model_copy(update={"lines": len(lines), "bytes": size}))

"""What the facets of a run say together: its phase, since when, and when it last stepped.

A facet that has become unknown keeps its last good value. Rules judge that value as of the moment
it was seen (``seen_at``), never as of now: so what cannot be seen opens no alert, and blindness
closes none.

``StepClock`` says how long a missing training step is still usual, and whether training steps now.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

from cockpit.model import wording
from cockpit.model.alert import Alert, Evidence
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.history import History
from cockpit.model.jobs import Stopped
from cockpit.model.observed import CheckpointState, JobValue, Phase, TrackerValue
from cockpit.model.run import RunSpec

_PHASES = {
    **dict.fromkeys(("running", "starting", "silent", "preempting"), Phase.RUNNING),
    "pending": Phase.WAITING,
    "finished": Phase.SUCCEEDED,
    **dict.fromkeys(("failed", "preempted"), Phase.FAILED),
    "killed": Phase.CANCELLED,
}
"""What W&B's words for a run's state mean. ``crashed`` is none: its server has heard nothing of
the run for some minutes, and the run may go on without it."""
_REASONS = {"crashed": "W&B has heard nothing from the run for some minutes"}
ONE_LOOK: Final = 1.0
"""Seconds within which answers may be of one look: they are asked for together."""
_NOT_TRAINING = (Phase.WAITING, Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)


def job_of(history: History) -> JobValue | None:
    """Return the job as last seen; of a run file that names none, what its tracker says of it.

    That is the exit record, else that it runs if it has ever stepped.
    """
    if history.job_named:
        return history.facets.job.value
    tracker = history.facets.tracker.value
    if tracker is None:
        return None
    if tracker.exit_code is not None:
        return JobValue(
            id=None,
            state="exited",
            phase=Phase.SUCCEEDED if tracker.exit_code == 0 else Phase.FAILED,
            reason="by the tracker's exit record",
            exit_code=tracker.exit_code,
            ended_at=tracker.last_record_at,
        )
    return _by_state(tracker)


def _by_state(tracker: TrackerValue) -> JobValue | None:
    """Return the job by the state in W&B's words; one that is not known is no phase."""
    phase = _PHASES.get(tracker.state, Phase.UNKNOWN)
    if phase is Phase.RUNNING and tracker.last_step_at is None and tracker.state != "running":
        return None
    over, reason = phase.terminal, _REASONS.get(tracker.state, "by the tracker's state")
    return JobValue(
        id=None,
        state=tracker.state,
        phase=phase,
        reason=reason if over or phase is Phase.UNKNOWN else None,
        ended_at=(tracker.heartbeat_at or tracker.last_step_at) if over else None,
    )


def job_source(history: History) -> str:
    """Return who says what ``job_of`` returns."""
    facets = history.facets
    return facets.job.source if history.job_named else facets.tracker.source


def phase_of(history: History) -> Phase:
    """Return the job's phase as last seen."""
    job = job_of(history)
    return Phase.UNKNOWN if job is None else job.phase


def stopped(history: History) -> Stopped | None:
    """Return that the job's process is stopped (SIGSTOP, a debugger), if it is."""
    job = job_of(history)
    return None if job is None or job.phase is not Phase.RUNNING else job.stopped


def goes_on(run: RunSpec, found: Stopped) -> str:
    """Return what lets a stopped process go on, and on which machine."""
    if found.held:
        return "it continues once the debugger detaches"
    host = None if run.job is None else run.job.host
    on = "" if host is None else f" on {host}"
    return f"kill -CONT {found.pid}{on} resumes it"


def may_train(history: History) -> bool:
    """Tell whether the job may be training: it is not known to wait or to be over."""
    return phase_of(history) not in _NOT_TRAINING


def seen_at(facet: Facet[Any], now: float) -> float:
    """Return the moment up to which ``facet``'s value speaks."""
    return now if facet.observed_at is None else min(now, facet.observed_at)


def phase_since(history: History) -> float:
    """Return when the job entered its present phase, as well as that is known.

    A time that is still to come is another clock's, or a file's that was touched: what was first
    seen of the phase stands for it.
    """
    phase, told = phase_of(history), _phase_since(history)
    if told is not None:
        return told
    marks = [mark for mark in history.phases if mark.at <= history.now]
    if marks and marks[-1].phase is phase:
        return marks[-1].at
    return seen_at(history.facets.job, history.now)


def _phase_since(history: History) -> float | None:
    """Return since when the job is in its phase by its own system's word."""
    job, phase = job_of(history), phase_of(history)
    since = None
    if job is not None and phase.terminal:
        since = job.ended_at
    elif job is not None and phase is Phase.WAITING:
        since = job.pending_since
    elif job is not None and phase is Phase.RUNNING:
        since = job.started_at
    return since if since is None or since <= history.now else None


def seen_after_end(facet: Facet[Any], history: History) -> bool:
    """Tell whether ``facet`` was looked at after the job entered its present phase.

    What was seen before a job's end says nothing about what it left behind. Of an end that nothing
    dates, what was seen in the same look tells.
    """
    at, told = facet.observed_at, _phase_since(history)
    since = phase_since(history) - ONE_LOOK if told is None else told
    return facet.value is not None and at is not None and at >= since


def seal_of(history: History) -> str | None:
    """Return what seals the run: its tag, else who sealed it; only success is ever sealed."""
    if phase_of(history) is not Phase.SUCCEEDED:
        return None
    code = history.facets.code.value
    tag = code.sealed if code is not None else None
    return tag or history.sealed_by


def log_behind(run: RunSpec, history: History) -> float | None:
    """Return by how much (s) what is read of a living job's log lags, where that is too much.

    That is more than a cadence, by when at least two looks should have succeeded. A log that is
    not there, or may not be read, does not lag: that is its facet's own error.
    """
    log = history.facets.log
    slow = log.error is None or log.error.kind is ErrorKind.TIMEOUT
    seen = log.observed_at if log.observed_at is not None else log.since
    if not slow or seen is None or phase_of(history).terminal:
        return None
    behind = history.now - seen
    return behind if behind > run.cadence else None


class StepClock:
    """When training last stepped, and until when we would have seen a step.

    ``last`` is the time of the newest training step of any source (tracker, folded rows, log
    rows), ``until`` the newest observation of a source that shows steps; both ``None`` where
    nothing shows steps. ``direct`` tells that the log shows them, which no client holds back.
    """

    def __init__(self, history: History) -> None:
        tracker, log = history.facets.tracker, history.facets.log
        rows = log.value.rows if log.value is not None else ()
        logged = next((row.at for row in reversed(rows) if row.at is not None), None)
        self.direct = logged is not None
        tracked = tracker.value.last_step_at if tracker.value is not None else None
        folded = history.trend.last_step_at
        if history.trend is history.log_trend:
            folded = _written_by(folded, history)
        moments = [tracked, folded, _written_by(logged, history)]
        now = history.now  # a step's time may not lie in the future
        self.last = max((min(at, now) for at in moments if at is not None), default=None)
        looks = [
            seen_at(facet, history.now)
            for facet, shows in ((tracker, True), (log, logged is not None))
            if facet.value is not None and shows
        ]
        folded_log = not looks and log.value is not None and self.last is not None
        self.until = seen_at(log, history.now) if folded_log else max(looks, default=None)


def _written_by(at: float | None, history: History) -> float | None:
    """Return when a line of the log was written that says ``at``; not after its file was.

    A stamp of the future, by another clock or zone, would let a run that hangs move until then.
    """
    log = history.facets.log.value
    return at if at is None or at <= history.now or log is None else min(at, log.mtime)


NODE_LOST: Final = "NODE_FAIL"
_SAVES: Final = (CheckpointState.COMPLETE, CheckpointState.WRITING, CheckpointState.INCOMPLETE)
WRITES_AGAIN: Final = 600.0
QUIET_SAVES: Final = 3.0
"""Save intervals, and seconds at least, for which a writer is silent before it may be gone."""
CLOCK_SKEW = 15.0
"""Seconds by which the clock of a trainer and that of its job's files may differ."""


def trained_after_end(history: History) -> float | None:
    """Return when training last stepped if that was after the recorded job's end.

    Then something trains on this run's outputs that is not the job that was recorded: to
    relaunch would make a second copy (SPEC J "which jobs belong to a run", C-25).
    """
    job = job_of(history)
    ended = job.ended_at if job is not None and job.phase.terminal else None
    last = None if ended is None else StepClock(history).last
    return last if ended is not None and last is not None and last > ended + CLOCK_SKEW else None


class WrittenAfterEnd(NamedTuple):
    """That something was written well after the recorded job's end: when, what, who says so.

    ``still`` says it of the present; ``None`` where nothing was written since for a while.
    """

    at: float
    what: str
    still: str | None
    source: str

    @property
    def text(self) -> str:
        """It in a few words."""
        return f"{self.what} at {wording.moment(self.at)}"


def written_after_end(run: RunSpec, history: History) -> WrittenAfterEnd | None:
    """Return what shows that something trains on this run's outputs though its job is over.

    That is a process that has outlived a lost node, or a job that nobody recorded (C-25). Who
    wrote once and has been silent since for longer than a save takes may be gone.
    """
    job = job_of(history)
    ended = job.ended_at if job is not None and job.phase.terminal else None
    if job is None or ended is None:
        return None
    found = [*_saves(history), *_log_of_lost_node(job, history), *_steps(history)]
    late = [each for each in found if ended + CLOCK_SKEW < each.at <= history.now + CLOCK_SKEW]
    if not late:
        return None
    last = max(late, key=lambda each: each.at)
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    quiet = max(WRITES_AGAIN, QUIET_SAVES * (every or 0.0))
    return last if history.now - last.at <= quiet else last._replace(still=None)


def _steps(history: History) -> Iterator[WrittenAfterEnd]:
    at = StepClock(history).last
    if at is not None:
        still = "steps are still being logged"
        yield WrittenAfterEnd(at, "steps were logged", still, "logged rows")


def _saves(history: History) -> Iterator[WrittenAfterEnd]:
    """Yield when each save was written; a later change of a complete one is a copy, or a tool's."""
    facet = history.facets.checkpoints
    for item in () if facet.value is None else facet.value.items:
        at = item.saved_at if item.state is CheckpointState.COMPLETE else item.touched_at
        if at is not None and item.state in _SAVES and not item.half_deleted:
            step = "a checkpoint" if item.step is None else f"step {wording.step(item.step)}"
            still = "checkpoints are still being saved"
            yield WrittenAfterEnd(at, f"{step} was saved", still, facet.source)


def _log_of_lost_node(job: JobValue, history: History) -> Iterator[WrittenAfterEnd]:
    """Yield when the log of a job whose node was lost was written: its processes may run on."""
    facet = history.facets.log
    if facet.value is not None and job.state == NODE_LOST:
        still = "its log is still being written"
        yield WrittenAfterEnd(facet.value.mtime, "its log was written", still, facet.source)


def of_present(at: float | None, history: History) -> bool:
    """Tell whether what a log said at ``at`` may be of the present job: not from before its start.

    Where either is not known it may.
    """
    job = job_of(history)
    began = None if job is None else job.started_at
    return at is None or began is None or at >= began - CLOCK_SKEW


def still_open(history: History, key: str) -> Alert | None:
    """Return the alert ``key`` as it was at the former judging, ``None`` where it is not open.

    A rule that finds nothing to judge by says it again: unknown never clears.
    """
    return next((each for each in history.open if each.key == key), None)


def first(*instants: float | None) -> float:
    """Return the first instant that is known."""
    return next(instant for instant in instants if instant is not None)


def evidence(source: str, *texts: str) -> tuple[Evidence, ...]:
    """Return one line of evidence for each text."""
    return tuple(Evidence(text=text, source=source) for text in texts)


def gap(history: History) -> tuple[Evidence, ...]:
    """Return the remark that earlier rows were not read, where that is so."""
    if history.rows_from <= 0:
        return ()
    share = min(history.rows_from, 0.99)  # never "100 %": the newest rows have been read
    first = (
        "beginning" if share < 0.005 else f"first {wording.percent(share)}"
    )  # never "the first 0%"
    if history.trend is history.log_trend:
        return evidence("logged rows", f"no rule has seen the steps of the log's {first}")
    return evidence("logged rows", f"the {first} of the rows are not read yet")


def row_alert(
    history: History,
    key: str,
    title: str,
    since: float | None,
    lines: Sequence[str],
    next_action: str,
    **more: object,
) -> Alert:
    """Return an alert on logged rows; ``more`` are fields that the facts decide.

    Where not all of them were read it may have begun before, and is only likely.
    """
    whole = history.rows_from == 0
    found = Alert(
        key=key,
        title=title,
        since=first(since, history.trend.last_step_at, history.now),
        since_or_before=not whole,
        evidence=(*evidence("logged rows", *lines), *gap(history)),
        confidence="sure" if whole else "likely",
        next_action=next_action,
    )
    return found.model_copy(update=more)


CADENCES = 2

LATELY = (60.0, 600.0)
"""Seconds, within these a cadence, after which a step is none of now: pauses may last that long."""

FLUSHING = (0, 31)
"""The first tracker client that writes its file at least every ``FLUSH`` seconds."""

FLUSH = 15.0

BLIND_ROWS = 64
"""Rows that older clients may hold back: a 32 KiB block is about half as many."""


def patience(run: RunSpec, history: History, window: float | None = None) -> float:
    """Return how long (s) a missing step is nothing unusual: ``window``, else two cadences.

    A step that is not logged cannot be seen: the usual time is that between two logged steps;
    and the tracker's client may keep steps to itself for a while.
    """
    least = CADENCES * run.cadence if window is None else window
    limit = max(run.thresholds.stall_factor * _usual(history), least)
    return limit if StepClock(history).direct else limit + held_back(history)


def _usual(history: History) -> float:
    """Return the usual seconds between two logged steps."""
    tracker, pace = history.facets.tracker.value, history.trend.pace
    recorded = tracker.usual_step_s if tracker is not None else None
    return max(pace.usual_gap_s or 0.0, pace.usual_step_s or recorded or 0.0)


def held_back(history: History) -> float:
    """Return how long (s) the tracker's client may keep rows to itself before it writes them."""
    tracker = history.facets.tracker.value
    found = re.search(r"(\d+)\.(\d+)", (tracker.producer or "") if tracker is not None else "")
    if found is None:
        return 0.0
    flushes = (int(found[1]), int(found[2])) >= FLUSHING
    return FLUSH if flushes else BLIND_ROWS * _usual(history)


def steps_now(run: RunSpec, history: History) -> bool:
    """Tell whether the newest training step, of any source, is one of now."""
    last = StepClock(history).last
    if last is None:
        return False
    least, most = LATELY
    return history.now - last <= patience(run, history, max(least, min(run.cadence, most)))


BETWEEN_TASKS: Final = 60.0
"""Seconds within which one task of an array follows another."""
TASKS_CHANGED: Final = "its tasks came and went beside one another"


def tasks_changed(history: History) -> bool:
    """Tell whether an array held now more, now fewer accelerators than it does at present.

    So do tasks that begin and end beside one another, not those that follow one another.
    """
    job = job_of(history)
    if job is None or not job.members:
        return False
    known = {mark.accelerators for mark in history.phases
             if (mark.job_id, mark.phase) == (job.id, Phase.RUNNING)}  # fmt: skip
    begun = [(each.started_at, 1) for each in job.members if each.started_at is not None]
    ended = [(each.ended_at, -1) for each in job.members if each.ended_at is not None]
    events = [*sorted((*begun, *ended)), (history.now, 0)]
    widths = accumulate(change for _, change in events)
    lasted = {wide for wide, (one, next_one) in zip(widths, pairwise(events), strict=False)
              if next_one[0] - one[0] >= BETWEEN_TASKS}  # fmt: skip
    return len(lasted - {0}) > 1 or len({*known, job.accelerators} - {None}) > 1


def accelerators_of(run: RunSpec, history: History) -> tuple[int | None, str]:
    """Return how many accelerators the present job holds and by whose word; else why not.

    A process on a machine of one's own holds all that are listed there, but where its
    environment names some of them.
    """
    job, host = job_of(history), history.facets.host
    if job is not None and (job.accelerators is not None or job.accelerators_by is not None):
        return job.accelerators, job.accelerators_by or f"by {history.facets.job.source}"
    if run.job is None:
        return None, "no job in cockpit.toml"
    before = [m for m in history.phases if job and m.job_id == job.id and m.accelerators]
    if before:
        return before[-1].accelerators, f"as its system said {wording.moment(before[-1].at)}"
    if run.job.kind not in ("box", "local"):
        none = f"{history.facets.job.source or run.job.kind} names none for this job"
        return None, history.facets.job.why_unknown(
            "the job was not asked yet"
        ) if job is None else none
    value = host.value
    if value is None:
        return None, host.why_unknown("the machine was not asked yet")
    count = len(value.gpus) + (value.gpus_lost or 0)
    if value.gpus_lost is None and not value.gpus:
        why = value.gpus_error
        return None, f"no nvidia-smi on {host.source}" if why is None else why.message
    return count or None, f"by nvidia-smi on {host.source}" if count else f"none on {host.source}"

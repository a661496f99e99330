"""Follows a launch: looked at after 120 s and then at the cadence, its outcome written once.

A first step that is not the expected one, and a death, are said at once (SPEC A-2, W, K).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from cockpit.actions.core.action import asked
from cockpit.model import wording
from cockpit.model.base import Frozen, Instant
from cockpit.model.clock import Clock
from cockpit.model.jobs import Bundle
from cockpit.model.observed import JobValue, Phase
from cockpit.model.plan import StepResult, StepState
from cockpit.model.records import EventEntry
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec
from cockpit.records.recorder import RecordWriter
from cockpit.rules.metrics.resume import first_completed, first_step_wrong
from cockpit.runtime.moment import Jumps
from cockpit.store.journal import Journal
from cockpit.store.launches import FIRST_CHECK, Followup, FollowupStore, Progressed
from cockpit.store.memory import Snapshots
from cockpit.store.store import Store, StoreError
from cockpit.text.safe import clean

_LOOK: Final = "check log, tracker and checkpoints"
RETRY_AFTER: Final = 60.0
PLACE: Final = 900
"""Where the outcome stands among an action's steps: behind all of them."""
GRACE_CADENCES: Final = 2
SAVES: Final = 2
CATCH_UP: Final = 1.5
"""How much longer than usual the lost steps may take again before it has not passed."""


def due(followup: Followup, cadence: float, since: Callable[[float], float]) -> bool:
    """Tell whether a launch is to be judged: 120 s after its job began, and every cadence.

    Until a start is seen the submit counts; each new start (a requeue) has its 120 s again.
    ``since`` says how long ago an instant is (s).
    """
    begun = followup.at if followup.started_at is None else followup.started_at
    judged = followup.judged_at
    first = since(begun) >= FIRST_CHECK and (judged is None or judged < begun + FIRST_CHECK)
    return first or (judged is not None and since(judged) >= cadence)


class LaunchChecks:
    """Judges each report of a run against its last launch, and writes the outcome down once.

    ``heard`` is called with every report. Several cockpits may do so: the store decides which
    of them writes. What could not be written is tried again; ``may_log`` tells whether the logbook
    is written into at all, the journal always is.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        recorder: RecordWriter,
        may_log: Callable[[RunSpec], Awaitable[bool]],
    ) -> None:
        self._followups = FollowupStore(store)
        self._journal = Journal(store)
        self._snapshots = Snapshots(store)
        self._clock = clock
        self._jumps = Jumps(clock)
        self._recorder = recorder
        self._may_log = may_log

    async def launched(self) -> frozenset[str]:
        """Return the runs that ``heard`` is to be called for, by their keys: of others none is due.

        Nothing where the store cannot tell: then ``heard`` could do nothing either.
        """
        try:
            return await asked(self._followups.followed) if self._followups.writes else frozenset()
        except StoreError:
            return frozenset()

    async def heard(self, key: str, report: RunReport) -> Followup | None:
        """Return the launch as it is known now, ``None`` without one; never raises for the store.

        ``key`` is the run's ``run_key``. Bad first steps and deaths are judged at once, the rest
        when it is due.
        """
        if not self._followups.writes:
            return None
        try:
            followup = await asked(self._followups.last, key)
            if followup is None:
                return None
            if not followup.recorded:
                return await self._again(key, followup, report)
            if followup.state.final:
                return followup
            return await self._judged(key, followup, report)
        except StoreError:
            return None

    async def _judged(self, key: str, old: Followup, report: RunReport) -> Followup:
        since, now = self._jumps.since, self._clock.now()
        seen = await self._known_stop(key, old, followed(old, report, since))
        if seen.bundle is not None and seen.bundle != old.bundle:
            await asked(self._snapshots.bundled, key, old.launch_id, seen.bundle)
        at_once = seen.state in (Progressed.WRONG_STEP, Progressed.DIED, Progressed.STOPPED)
        news = seen.state is not old.state
        begun = old.model_copy(update={"started_at": seen.started_at})
        if not (at_once and news) and not due(begun, report.spec.cadence, since):
            # The first step and the start are kept at once: what shows them passes by.
            new = old.model_copy(update=seen.kept)
            if new == old:
                return old
            return new if await asked(self._followups.change, key, old, new) else old
        to_record = news and seen.state.recorded
        new = old.model_copy(
            update={
                "state": seen.state,
                "text": seen.text,
                **seen.kept,
                "judged_at": now,
                "changed_at": now if news else old.changed_at,
                "recorded": not to_record,
            }
        )
        if not await asked(self._followups.change, key, old, new):
            return old
        return await self._record(key, new, report) if to_record else new

    async def _known_stop(
        self, key: str, followup: Followup, seen: LaunchProgress
    ) -> LaunchProgress:
        """Return a death that our own journal ordered as what it is: a stop, and by whom."""
        if seen.state is not Progressed.DIED:
            return seen
        entry = await asked(self._journal.last_stop, key, followup.job_id)
        if entry is None:
            return seen
        text = f"{followup.launch_id} was stopped by {entry.operator} through the cockpit"
        return seen.model_copy(update={"state": Progressed.STOPPED, "text": text})

    async def _again(self, key: str, followup: Followup, report: RunReport) -> Followup:
        """Write down what another process, or an earlier try, did not come to write."""
        if self._jumps.since(followup.judged_at or 0.0) < RETRY_AFTER:
            return followup
        retried = followup.model_copy(update={"judged_at": self._clock.now()})
        if not await asked(self._followups.change, key, followup, retried):
            return followup
        return await self._record(key, retried, report)

    async def _record(self, key: str, followup: Followup, report: RunReport) -> Followup:
        at = followup.changed_at or followup.at
        good = followup.state is Progressed.PASSED
        state = StepState.DONE if good else StepState.FAILED
        step = StepResult(name="progress", state=state, at=at, note=followup.text)
        await asked(self._journal.step, followup.entry, PLACE, step)
        if report.spec.records.logbook is not None and await self._may_log(report.spec):
            entry = outcome_entry(followup, at)
            message = f"{followup.run}: log {entry.title}"
            if not (await self._recorder.event(report.spec, entry, message)).lasting:
                return followup
        done = followup.model_copy(update={"recorded": True})
        await asked(self._followups.change, key, followup, done)
        return done


def outcome_entry(followup: Followup, at: float) -> EventEntry:
    """Return what the logbook is told of a launch's outcome."""
    said, advice = {
        Progressed.PASSED: ("confirmed", "regular checks continue"),
        Progressed.NOT_PASSED: ("has not passed", _LOOK),
        Progressed.DIED: (
            "died", "triage the log; the same failure again is escalated (C-14)",
        ),
        Progressed.WRONG_STEP: (
            "began at the wrong step", "stop it before it overwrites good checkpoints",
        ),
    }.get(followup.state, ("", _LOOK))  # fmt: skip
    name = followup.launch_id
    launched = f"launched {wording.moment(followup.at)} by {followup.operator}"
    good = followup.state is Progressed.PASSED
    return EventEntry(
        title=f"{followup.action} {said}: {name}" if said else name,
        at=at,
        status=followup.text,
        evidence="; ".join(filter(None, (launched, bundle_text(followup.bundle)))),
        decision="none needed" if good else "a person must decide",
        next=advice,
    )


def bundle_text(bundle: Bundle | None) -> str:
    """Return the code of a job in words: nothing where none is known."""
    if bundle is None:
        return ""
    commit = f"commit {bundle.commit}" if bundle.commit else ""
    dirty = "of a dirty tree" if bundle.dirty else ""
    named = f"bundle {bundle.id}" if bundle.id else ""
    words = " ".join(filter(None, (named, commit, dirty)))
    return clean(words, 300) and f"it runs {clean(words, 300)}"


class LaunchProgress(Frozen):
    """What one report tells of a launch: its state in words, its first step and its start."""

    state: Progressed
    text: str
    first_step: int | None = None
    started_at: Instant | None = None
    queued: bool = False
    bundle: Bundle | None = None

    @property
    def kept(self) -> dict[str, object]:
        """What of it is kept in the followup as soon as it is seen."""
        names = ("first_step", "started_at", "queued", "bundle")
        return {name: getattr(self, name) for name in names}


def followed(
    followup: Followup, report: RunReport, since: Callable[[float], float] | None = None
) -> LaunchProgress:
    """Judge a launch by a report; pure. A facet that cannot be seen proves nothing.

    ``since`` says how long ago an instant is (s), whatever the clock was set to meanwhile.
    """
    started, queued = _job_start(followup, report)
    begun = followup.at if started is None else started
    waited = report.checked_at - begun if since is None else since(begun)
    found = _followed(followup, report, waited)
    if queued and not found.state.final and found.state is not Progressed.WRONG_STEP:
        found = LaunchProgress(
            state=Progressed.WAITING, text=_waits(report), first_step=found.first_step
        )
    told = {"started_at": started, "queued": queued, "bundle": _bundle(followup, report)}
    return found.model_copy(update=told)


def _bundle(followup: Followup, report: RunReport) -> Bundle | None:
    """Return the code that the launched job itself runs, as far as that was told."""
    job = report.facets.job.value
    told = job.bundle if job is not None and _own(followup, job) else None
    return followup.bundle if told is None else told


def _job_start(followup: Followup, report: RunReport) -> tuple[float | None, bool]:
    """Return when the launched job began, and whether it was last seen waiting for its turn.

    One that was requeued or preempted begins anew: with its new start, or, where its platform
    tells the first one for ever, when it was seen to run again.
    """
    job = report.facets.job
    if not job.known or job.value is None or not _own(followup, job.value):
        return followup.started_at, followup.queued
    started, known = job.value.started_at, followup.started_at
    waits = job.value.phase is Phase.WAITING
    queued = waits and (started is None or bool(job.value.restarts))
    if started is None or queued:
        return known, queued
    if followup.queued and known is not None and started <= known and not waits:
        return report.checked_at, False
    return max(started, known or followup.at), False


def _waits(report: RunReport) -> str:
    job = report.facets.job.value
    reason = job.reason if job is not None and job.phase is Phase.WAITING else None
    return f"waiting to start: {reason}" if reason else "waiting to start"


def _followed(followup: Followup, report: RunReport, waited: float) -> LaunchProgress:
    first = _first_step(followup, report)
    # The first step is wrong by what is seen here, or by the rule, which sees more.
    here = None if first is None else first_step_wrong(followup.launched, first, None, None)
    said = (
        alert.evidence[0].text if alert.evidence else alert.title
        for alert in report.alerts
        if alert.id == "C-12" and alert.key.endswith(f":{followup.launch_id}")
    )
    wrong = here or next(said, None)
    if wrong is not None:
        return LaunchProgress(state=Progressed.WRONG_STEP, text=wrong, first_step=first)
    job = report.facets.job
    own = job.value if job.value is not None and _own(followup, job.value) else None
    if job.known and own is not None and own.phase.terminal:
        return _over(followup, report, own, first)
    beyond, missing = _beyond(followup, report)
    if beyond and not missing:
        text = f"past step {wording.step(_goal(followup))} by {', '.join(beyond)}"
        return LaunchProgress(state=Progressed.PASSED, text=text, first_step=first)
    if waited >= _allowed(followup, report):
        why = "; ".join(missing) or "no step"
        text = f"has not passed step {wording.step(_goal(followup))}: {why}"
        return LaunchProgress(state=Progressed.NOT_PASSED, text=text, first_step=first)
    if first is not None:
        text = f"resumed at step {wording.step(first)}; not yet beyond: {'; '.join(missing)}"
        return LaunchProgress(state=Progressed.RESUMED, text=text, first_step=first)
    alive = job.known and job.value is not None and job.value.phase is Phase.RUNNING
    state = Progressed.ALIVE if alive else Progressed.WAITING
    return LaunchProgress(state=state, text="no step yet" if alive else "not seen running yet")


def _over(
    followup: Followup, report: RunReport, job: JobValue, first: int | None
) -> LaunchProgress:
    """Judge a job that is over; an exit status of 0 short of the final step is no success."""
    if job.phase is not Phase.SUCCEEDED:
        text = _death(followup, job, first)
        return LaunchProgress(state=Progressed.DIED, text=text, first_step=first)
    early = next((alert.title for alert in report.alerts if alert.no_success), None)
    if early is not None:
        text = f"{followup.launch_id} ended with exit code 0, {early}"
        return LaunchProgress(state=Progressed.DIED, text=text, first_step=first)
    text = f"{followup.launch_id} ended with success"
    return LaunchProgress(state=Progressed.PASSED, text=text, first_step=first)


def _goal(followup: Followup) -> int:
    """Return the step to get past: where it failed, else where it resumed, else the start."""
    known = (followup.failed_step, followup.resumes_from, 0)
    return next(step for step in known if step is not None)


def _first_step(followup: Followup, report: RunReport) -> int | None:
    """Return the lowest step seen of this launch, by this report and those before it."""
    tracker, log = report.facets.tracker.value, report.facets.log.value
    steps: list[int | None] = []
    if tracker is not None and (tracker.last_step_at or 0.0) >= followup.at:
        steps.append(tracker.step)
    rows = [] if log is None else [(row.step, row.at or 0.0) for row in log.rows]
    logged = [(step, at) for step, at in rows if step is not None and at >= followup.at]
    completed = first_completed(logged)
    steps.append(None if completed is None else completed[0])
    if all(step != followup.first_step for step, _ in logged):
        steps.append(followup.first_step)  # else the rows that follow it say what it was
    return min((step for step in steps if step is not None), default=None)


def _own(followup: Followup, job: JobValue) -> bool:
    """Tell whether this is the launched job itself, and no end of a former one."""
    own = job.launch_id == followup.launch_id if job.launch_id else job.id == followup.job_id
    return own and (job.ended_at is None or job.ended_at >= followup.at)


def _death(followup: Followup, job: JobValue, first: int | None) -> str:
    how = job.reason or (f"exit code {job.exit_code}" if job.exit_code is not None else job.state)
    where = "before its first step" if first is None else f"after resuming at {wording.step(first)}"
    return f"{followup.launch_id} ended ({how}) {where}"


def _beyond(followup: Followup, report: RunReport) -> tuple[list[str], list[str]]:
    """Return which sources show the run past the failure, and what the others say."""
    goal, facets = _goal(followup), report.facets
    reached: list[tuple[str, int | None]] = []
    log = facets.log.value
    # A log that never shows a step is no witness.
    if log is not None and any(row.step is not None for row in log.rows):
        rows = [row for row in log.rows if (row.at or 0.0) >= followup.at]
        reached.append(
            ("log", max((row.step for row in rows if row.step is not None), default=None))
        )
    if facets.tracker.configured:
        tracker = facets.tracker.value
        fresh = tracker is not None and (tracker.last_step_at or 0.0) >= followup.at
        reached.append(("tracker", tracker.step if tracker is not None and fresh else None))
    if facets.checkpoints.configured:
        reached.append(("checkpoint", _saved(followup, report)))
    beyond = [f"{name} ({wording.step(step)})" for name, step in reached if step and step > goal]
    missing = [
        f"{name} {'has nothing yet' if step is None else f'at {wording.step(step)}'}"
        for name, step in reached
        if step is None or step <= goal
    ]
    return beyond, missing


def _saved(followup: Followup, report: RunReport) -> int | None:
    value = report.facets.checkpoints.value
    saved = [
        item.step
        for item in (value.items if value is not None else ())
        if item.state.value == "complete"
        and item.step is not None
        and (item.saved_at or 0.0) >= followup.at
    ]
    return max(saved, default=None)


def _allowed(followup: Followup, report: RunReport) -> float:
    """Return in how long (s) a launch should have passed: lost steps, a save or two, some cadences.

    Counted from the start of its job: a queue of six hours is nobody's failure.
    """
    run, usual = report.spec, report.usual_step_s
    lost = max(0, _goal(followup) - (followup.resumes_from or 0))
    every = run.checkpoints.save_every if run.checkpoints is not None else None
    wait = FIRST_CHECK + GRACE_CADENCES * run.cadence + run.thresholds.first_step_within
    return wait + CATCH_UP * lost * (usual or 0.0) + SAVES * (every or 0.0)

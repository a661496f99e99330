"""What the engine holds of one run between two checks: the only state that changes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cockpit.model.alert import ClosedAlert
from cockpit.model.facet import OF_A_RUN, Facet, merge
from cockpit.model.goodput import Day, Looks
from cockpit.model.history import (
    CheckpointMark,
    FormerFailure,
    FullDisk,
    History,
    HostMark,
    Outage,
    PhaseMark,
    Settings,
    Sharer,
)
from cockpit.model.observed import (
    CheckpointState,
    HostValue,
    JobValue,
    LogValue,
    Phase,
    Row,
    TrackerValue,
    Triage,
)
from cockpit.model.report import FACETS, ROWS_UNREAD, Facets, RunReport
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import ACKNOWLEDGED, END, SharedFact, instant_in, stop_in
from cockpit.model.trend import Trend
from cockpit.rules.jobs.host import beyond, looked_at, of_job
from cockpit.rules.jobs.jobstate import partial_since
from cockpit.rules.jobs.restarts import identity, restarted, restarts_in
from cockpit.rules.jobs.stall import and_the_job, with_signs_of_life
from cockpit.rules.lineage.drift import leaves
from cockpit.rules.present import CLOCK_SKEW, job_of
from cockpit.rules.replay import Happened, Standing
from cockpit.store.alerts import Kept
from cockpit.store.launches import Ended
from cockpit.store.memory import Configs
from cockpit.watch.store_writer import Shared
from cockpit.watch.sweep import watched_paths

JOB: str = "the config shown by the job"
TRACKER: str = "the tracker's config"


class SettingsSeen:
    """Two configs, bounded by what the sources read; made again only where one has changed.

    What a job shows is its own. What a tracker tells is of the execution in which its launch
    began: systems are asked one after another, so a restart may be seen in the tracker before it
    is seen in the job. A config is taken for a job's only once that job was looked at after the
    config had come; one from before the job's start is a former job's; else it is nobody's.
    """

    def __init__(self) -> None:
        self.present: Settings | None = None
        self.former: Settings | None = None
        self._whose: str | None = None
        self._first_seen: float | None = None
        self._told: Mapping[str, object] = {}

    def recall(self, present: Settings | None, former: Settings | None) -> None:
        """Begin from what a cockpit before this one knew; what was seen since then stays."""
        known = [each for each in (present, former) if each is not None]
        if self._whose is None:
            self.present, self.former = present, former
            return
        own = [each for each in known if each.job == self._whose]
        others = [each for each in known if each.job != self._whose]
        self.present = self.present or next(iter(own), None)
        self.former = self.former or next(iter(others), None)

    def update(self, facets: Facets, *, job_named: bool = True) -> bool:
        """Take a new answer about the job or its tracker; return whether it changes a config.

        Without ``job_named`` the run file names no job: then each launch of the tracker is one.
        """
        before, job, tracker = (self.present, self.former), facets.job.value, facets.tracker.value
        if job is not None:
            self._goes_on_as(identity(job), facets.job.observed_at)
            if job.config:
                self._take(JOB, job.config)
            elif tracker is not None and tracker.config:
                self._by_tracker(job, facets.job.observed_at, tracker)
        elif not job_named and tracker is not None and tracker.config:
            began = tracker.config_since
            self._goes_on_as("tracker" if began is None else f"tracker@{began:.0f}", began)
            self._take(TRACKER, tracker.config)
        return before != (self.present, self.former)

    def _goes_on_as(self, whose: str, at: float | None) -> None:
        if whose == self._whose:
            return
        self._whose, self._first_seen = whose, at
        if self.present is not None and self.present.job != whose:
            self.former, self.present, self._told = self.present, None, {}

    def _by_tracker(self, job: JobValue, looked: float | None, tracker: TrackerValue) -> None:
        """Take a tracker's config for the job's or a former one's, where that can be told."""
        since, started = tracker.config_since, job.started_at
        sign = _newest_sign(tracker) if since is None else since
        began = self._first_seen if started is None else started - CLOCK_SKEW
        if sign is None or looked is None or began is None:
            return
        if sign < began:
            if started is not None and self.former is None:
                values = leaves(tracker.config)
                self.former = Settings(source=TRACKER, job=None, values=values)
            return
        seen_since = looked - (0.0 if since is None else CLOCK_SKEW)
        if sign <= seen_since and (job.ended_at is None or sign <= job.ended_at + CLOCK_SKEW):
            self._take(TRACKER, tracker.config)

    def _take(self, source: str, told: Mapping[str, object]) -> None:
        known = self.present
        if known is not None and known.source == source and told == self._told:
            return
        self._told = told
        self.present = Settings(source=source, job=self._whose, values=leaves(told))


def _newest_sign(tracker: TrackerValue) -> float | None:
    """Return when a tracker was last heard of that does not date its launches."""
    signs = (tracker.last_record_at, tracker.heartbeat_at, tracker.last_step_at)
    return max((at for at in signs if at is not None), default=None)


CORE = frozenset(("job", "log", "tracker", "checkpoints", "monitor"))
"""Facets without which nothing may be concluded: before their first look, old facts stand in."""
LOG_ROWS = 1000
"""Rows of the log that are kept for the rules."""
STOP_SLACK = 5.0
"""Seconds by which a job may seem to have started after it was ordered to stop."""
MARKS = 500
PASSED = 1000
"""Events inside rows that may wait for the next judging; beyond it the oldest are lost."""


class Diagnosis(NamedTuple):
    """Why a job ended or stands still: the answer, and the question that it answers."""

    question: tuple[Any, ...]
    triage: Triage

    @property
    def over(self) -> bool:
        """True when it was asked of a job that was over."""
        job: JobValue = self.question[0]
        return job.phase.terminal


@dataclass
class Rows:
    """The fold of a run's rows: every row once ``complete``, until then the recent ones."""

    trend: Trend = field(default_factory=Trend)
    full: Trend = field(default_factory=Trend)
    complete: bool = False
    skipped: float = 0.0
    any: bool = False
    tried: bool = False
    """True once they were asked for, whether or not any could be read."""
    standing: Standing = field(default_factory=Standing)
    """What is open by the rows of ``full``."""
    passed: list[Happened] = field(default_factory=list)
    """What opened and closed within rows and was not judged yet."""

    def note(self, over: Sequence[Happened]) -> None:
        """Keep what came and went until the run is judged."""
        self.passed = [*self.passed, *over][-PASSED:]


@dataclass
class RunState:
    """One run, as far as it is known. Changed on the event loop only."""

    spec: RunSpec
    key: str
    facets: Facets = field(default_factory=Facets)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    looked: frozenset[str] = frozenset()
    rows: Rows = field(default_factory=Rows)
    log_trend: Trend = field(default_factory=Trend)
    log_rows: tuple[Row, ...] = ()
    """Rows of the log that are not in ``log_trend`` yet."""
    log_standing: Standing = field(default_factory=Standing)
    """What is open by the log's rows."""
    diagnosis: Diagnosis | None = None
    phases: list[PhaseMark] = field(default_factory=list)
    marks: list[CheckpointMark] = field(default_factory=list)
    open: dict[str, Kept] = field(default_factory=dict)
    closed: list[Kept] = field(default_factory=list)
    shared: Shared = field(default_factory=Shared)
    """What the store says of it; of the alerts, ``open`` and ``closed`` are newer."""
    partial_since: float | None = None
    """Since when only some of the job's tasks were seen at work (C-04)."""
    settings: SettingsSeen = field(default_factory=SettingsSeen)
    """The resolved config of the present job and of the one before it (C-16 to C-18)."""
    host: HostMark = field(default_factory=HostMark)
    """What the looks at the job's host add up to (C-22)."""
    sharers: tuple[Sharer, ...] = ()
    """The other runs of the run file that write to the same place, as they are now."""
    outages: tuple[Outage, ...] = ()
    """The places that do not answer for it, nor for any other run."""
    full_disks: tuple[FullDisk, ...] = ()
    """The disks that are nearly full for it and for other runs."""
    attended: bool = False
    """True while a watch looks at it again and again."""
    looks: Looks = field(default_factory=Looks)
    """When the job was looked at, by this engine and by those before it."""
    day: Day = field(default_factory=Day)
    """How it was in the last 24 hours, by this engine and by those before it."""
    answered: frozenset[str] = frozenset()
    """The facets of which this engine was given an answer, good or bad."""
    silent: dict[str, float] = field(default_factory=dict)
    """Since when the place of a facet does not answer at all."""
    execution: JobValue | None = None
    """The job as it was last seen running."""
    seen_restarts: tuple[float, ...] = ()
    """When this engine first saw another execution run; those of another id are in ``phases``."""
    failure: FormerFailure | None = None
    """How the job failed that is, or was, the present one."""
    failures: tuple[FormerFailure, ...] = ()
    """Failures that this engine has seen other jobs of the run begin after, oldest first."""
    remembered: bool = False
    report: RunReport | None = None
    announced: RunReport | None = None
    stored: RunReport | None = None
    kept_face: str = ""
    """What was the same of the moments that were kept last (``cockpit.watch.judge``)."""
    stored_configs: Configs = field(default_factory=Configs)
    judged_at: float = float("-inf")
    next_round: float | None = None
    next_check_at: float | None = None
    away: dict[str, frozenset[str]] = field(default_factory=dict)
    """By facet the places away from here that are asked; worked out once for a ``spec``."""
    _told_log: tuple[LogValue | None, LogValue | None] = (None, None)
    """The last answer about the log, and what was made of it and of those before."""
    _failing: tuple[Facets | None, tuple[str, ...]] = (None, ())
    _presses: tuple[HostValue | None, RunSpec | None, bool] = (None, None, False)
    _unwell: tuple[dict[str, Kept] | None, bool] = (None, False)

    @property
    def failing(self) -> tuple[str, ...]:
        """The facets that are unknown for another reason than the run's own.

        It is asked of every run of a fleet each time that some are judged.
        """
        of, names = self._failing
        if of is not self.facets:
            names = tuple(name for name, facet in self.facets.items() if _is_silent(facet))
            self._failing = self.facets, names
        return names

    @property
    def unwell(self) -> bool:
        """Whether more than a reminder is open.

        It is asked of every run of a fleet several times a second; ``open`` is replaced, never
        changed.
        """
        (of, found), now = self._unwell, self.open  # read once: the sweep's thread asks as well
        if of is not now:
            found = any(kept.alert.severity.rank > 0 for kept in now.values())
            self._unwell = now, found
        return found

    @property
    def presses(self) -> bool:
        """Whether a disk of its host was nearly full at the last look (C-22).

        It is asked of every run of a fleet each time that some are judged.
        """
        host, (of, spec, found) = self.facets.host.value, self._presses
        if of is not host or spec is not self.spec:
            limit = self.spec.thresholds.disk_frac
            disks = () if host is None else host.disks
            found = any(text for disk in disks for text in beyond(disk, limit))
            self._presses = host, self.spec, found
        return found

    @property
    def looked_at_all(self) -> bool:
        """True when every facet has been asked for at least once."""
        return len(self.looked) == len(FACETS)

    @property
    def may_judge(self) -> bool:
        """True when each core facet has answered, or failed to, at least once."""
        return self.looked >= CORE

    @property
    def not_read_yet(self) -> str | None:
        """What was not looked at since the engine started, of what a verdict rests on."""
        missing = [name for name in FACETS if name in CORE and name not in self.looked]
        if missing:
            return f"{', '.join(missing)}: not asked since this engine started"
        if not (self.rows_read or self.rows.tried):
            return ROWS_UNREAD
        return None

    @property
    def rows_read(self) -> bool:
        """True when no row of the tracker is still to be read for the first time."""
        tracker = self.facets.tracker.value
        return self.rows.complete or tracker is None or tracker.step is None

    @property
    def may_close(self) -> bool:
        """True when all has been looked at on which an alert may rest that is open.

        What an engine before this one knew, and nobody has answered since, closes nothing.
        """
        core = [name for name in CORE if getattr(self.facets, name).value is not None]
        return self.looked_at_all and self.rows_read and self.answered.issuperset(core)

    def silent_since(self, name: str) -> float:
        """Return since when a facet that is unknown got no answer at all."""
        facet: Facet[Any] = getattr(self.facets, name)
        return self.silent.get(name, facet.since or facet.observed_at or 0.0)

    @property
    def exit_record(self) -> int | None:
        """The exit code that the tracker recorded."""
        tracker = self.facets.tracker.value
        return None if tracker is None else tracker.exit_code

    @property
    def job_may_differ(self) -> bool:
        """True when news of the log or the tracker may be news of the job: not while it runs."""
        job = self.facets.job
        plain = job.known and job.value is not None and job.value.phase is Phase.RUNNING
        resting = job.value is not None and job.value.reason is not None
        return not plain or resting or self.exit_record is not None

    @property
    def former_failures(self) -> tuple[FormerFailure, ...]:
        """The failures of former jobs, recorded or seen; each once, oldest first."""
        recorded = {each.job_id for each in self.shared.failures}
        seen = (each for each in self.failures if each.job_id not in recorded)
        return tuple(sorted((*self.shared.failures, *seen), key=lambda each: each.at))

    def mark_failure(
        self, now: FormerFailure | None, former: FormerFailure | None
    ) -> FormerFailure | None:
        """Remember how the present job failed, and the ``former`` one's failure; return that."""
        self.failure = now
        if former is not None:
            self.failures = (*self.failures[1 - MARKS :], former)
        return former

    def take(self, name: str, facet: Facet[Any]) -> bool:
        """Merge a new answer; return whether it says anything new (a mere look is not news)."""
        old: Facet[Any] = getattr(self.facets, name)
        first = name not in self.looked
        self.looked = _joined(self.looked, name)
        told = facet.value
        facet = self._completed(name, old, facet)
        merged = merge(None if first and not old.observed_at else old, facet)
        if merged.value is not old.value and merged.value == old.value:
            merged = merged.model_copy(update={"value": old.value})  # known again as the same one
        if name == "log" and told is not None:
            self._told_log = told, merged.value
        self.host = of_job(self.host, (merged if name == "job" else self.facets.job).value)
        if name == "host":
            self.host = looked_at(self.host, facet)
        self._mark_silence(name, old, facet)
        if name == ("tracker" if self.spec.job is None else "job") and facet.known:
            at = facet.observed_at
            self.looks = self.looks if at is None else self.looks.with_one(at, self.spec.cadence)
        before, self.facets = self.facets, and_the_job(self.facets, {name: merged})
        if self._failing[0] is before and _is_silent(old) == _is_silent(merged):
            self._failing = self.facets, self._failing[1]
        if merged.value is not old.value:
            self.paths = watched_paths(self.spec, self.facets)
        configured = name in ("job", "tracker") and self.settings.update(
            self.facets, job_named=self.spec.job is not None
        )
        return first or configured or (merged.value, merged.error) != (old.value, old.error)

    def _completed(self, name: str, old: Facet[Any], facet: Facet[Any]) -> Facet[Any]:
        """Return an answer with what the looks before it, and other facets, add to it."""
        if name == "log" and facet.value is not None:
            return facet.model_copy(update={"value": self._with_rows(old.value, facet.value)})
        if name != "job":
            return facet
        if facet.known:
            self.partial_since = partial_since(self.partial_since, old.value, facet)
        return with_signs_of_life(facet, self.facets)

    def _with_rows(self, old: LogValue | None, told: LogValue) -> LogValue:
        """Return what is known of the log with the rows of former looks before its own.

        Each answer holds only the rows of new lines; most are the very answer of the look before.
        """
        former, joined = self._told_log
        if joined is not None and joined is old and former is told and not told.rows:
            return joined
        self.log_rows = (*self.log_rows, *told.rows)
        if old is None:
            return told
        return told.model_copy(update={"rows": (*old.rows, *told.rows)[-LOG_ROWS:]})

    def _mark_silence(self, name: str, old: Facet[Any], new: Facet[Any]) -> None:
        """Note whether the place of a facet answered: that a thing is not there is an answer."""
        if not _is_silent(new):
            self.answered = _joined(self.answered, name)
            self.silent.pop(name, None)
        elif name not in self.silent:
            first = old.since if _is_silent(old) else None
            self.silent[name] = first or new.since or 0.0

    def mark_phase(self, now: float) -> PhaseMark | None:
        """Remember the job's phase if it is another than before; return the new mark."""
        job = self.facets.job
        if not job.known or job.value is None:
            return None
        self._mark_start(now, job.value)
        phase, began = job.value.phase, job.value.dates
        mark = PhaseMark(
            at=now,
            phase=phase,
            job_id=job.value.id,
            since=began.get(phase),
            accelerators=job.value.accelerators,
        )
        last = self.phases[-1] if self.phases else None
        if last is not None and (last.phase, last.job_id) == (mark.phase, mark.job_id):
            return None
        self.phases = [*self.phases[1 - MARKS :], mark]
        return mark

    def _mark_start(self, now: float, job: JobValue) -> None:
        if job.phase is not Phase.RUNNING:
            return
        if self.execution is not None and restarted(self.execution, job):
            self.seen_restarts = (*self.seen_restarts[1 - MARKS :], now)
        self.execution = job

    @property
    def restarts(self) -> tuple[float, ...]:
        """When other executions were first seen running, by this engine or one before it."""
        return tuple(sorted({*restarts_in(self.phases), *self.seen_restarts}))

    def mark_checkpoints(self, now: float) -> CheckpointMark | None:
        """Remember the set of complete checkpoints if it changed; return the new mark."""
        found = self.facets.checkpoints
        if not found.known or found.value is None:
            return None
        complete = sum(item.state is CheckpointState.COMPLETE for item in found.value.items)
        mark = CheckpointMark(at=now, complete=complete, newest=found.value.latest_complete)
        last = self.marks[-1] if self.marks else None
        if last is not None and (last.complete, last.newest) == (mark.complete, mark.newest):
            return None
        self.marks = [*self.marks[1 - MARKS :], mark]
        return mark

    @property
    def over(self) -> bool:
        """True when the job is over and a person knows it (SPEC W)."""
        facets = self.facets
        said = facets.job if self.spec.job is not None else facets.tracker
        job = job_of(History(now=0.0, facets=facets, job_named=self.spec.job is not None))
        if job is None or not said.known or not job.phase.terminal:
            return False
        ended = (*self.shared.ended, *_ends(self.shared_facts))
        if any(end.covers(job.id, job.started_at) for end in ended):
            return True
        serious = [kept.alert for kept in self.open.values() if kept.alert.severity.rank > 0]
        return bool(serious) and all(alert.acknowledged is not None for alert in serious)

    @property
    def shared_facts(self) -> tuple[SharedFact, ...]:
        """What other cockpits reported of the run, in its records and under its output root."""
        records = self.facets.records.value
        return () if records is None else records.told

    @property
    def stop_ordered_by(self) -> str | None:
        """Who ordered the present job to stop through a cockpit, if somebody did.

        Process ids are used again: a stop from before the job's start was another one's.
        """
        job = self.facets.job.value
        if job is None or job.id is None:
            return None
        since = (job.started_at or 0.0) - STOP_SLACK
        mine = (each for each in self.shared.stops if job.id in each.job_ids and each.at >= since)
        by = next((each.by for each in mine), None)
        told = stop_in(self.shared_facts, job.id, since)
        return by or (None if told is None else told.typed_by)

    def see(self) -> list[str]:
        """Note in memory that a person has seen all alerts; return the keys that were unseen."""
        unseen = [kept for kept in (*self.open.values(), *self.closed) if not kept.seen]
        self.open = {key: _marked_seen(kept) for key, kept in self.open.items()}
        self.closed = [_marked_seen(kept) for kept in self.closed]
        return [kept.alert.key for kept in unseen]

    def closed_alerts(self) -> tuple[ClosedAlert, ...]:
        """Return the alerts that are over, newest first."""
        return tuple(alert for kept in self.closed if (alert := kept.closed) is not None)


@functools.cache
def _joined(facets: frozenset[str], name: str) -> frozenset[str]:
    """Return facets and one more; runs of which the same ones are known share one set."""
    return facets | {name}


def _ends(told: Sequence[SharedFact]) -> list[Ended]:
    """Return the ends of jobs that others have acknowledged, and not taken back."""
    newest: dict[str, SharedFact] = {}
    for each in told:  # the newest first
        if each.what == ACKNOWLEDGED and each.value == END:
            newest.setdefault(each.parts.get("job", ""), each)
    return [
        Ended(job_id=job, started_at=instant_in(each.parts.get("started")), at=each.at)
        for job, each in newest.items()
        if not each.parts.get("until")
    ]


def _marked_seen(kept: Kept) -> Kept:
    return kept if kept.seen else kept.model_copy(update={"seen": True})


def _is_silent(facet: Facet[Any]) -> bool:
    return facet.error is not None and facet.error.kind not in OF_A_RUN

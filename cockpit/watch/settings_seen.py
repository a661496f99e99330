"""The resolved config of a run's present job, and of the job before it (SPEC C-16 to C-18)."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.history import Settings
from cockpit.model.observed import JobValue, TrackerValue
from cockpit.model.report import Facets
from cockpit.rules.jobs.repeated import identity
from cockpit.rules.lineage.settings import leaves
from cockpit.rules.present import CLOCK_SKEW

JOB: str = "the config shown by the job"
TRACKER: str = "the tracker's config"


class SettingsSeen:
    """Two configs, bounded by what the sources read; made anew only where one has changed.

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

    def look(self, facets: Facets, *, job_named: bool = True) -> bool:
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

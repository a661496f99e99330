"""The resolved config of a run's present job, and of the job before it (SPEC C-16 to C-18)."""

from __future__ import annotations

from collections.abc import Mapping

from cockpit.model.history import Settings
from cockpit.model.report import Facets
from cockpit.rules.jobs.repeated import identity
from cockpit.rules.lineage.settings import leaves

JOB: str = "the config that the job itself shows"
TRACKER: str = "the tracker's config"


class SettingsSeen:
    """Two configs, bounded by what the sources read; made anew only where one has changed.

    A config that the tracker has kept from a former job counts as the present one's until it
    changes: then the two differ, and what differs is the drift.
    """

    def __init__(self) -> None:
        self.present: Settings | None = None
        self.former: Settings | None = None
        self._told: Mapping[str, object] = {}

    def look(self, facets: Facets) -> None:
        """Take a new answer about the job or its tracker."""
        job, tracker = facets.job.value, facets.tracker.value
        told, source = (job.config, JOB) if job is not None and job.config else ({}, TRACKER)
        if not told and tracker is not None:
            told = tracker.config
        if not told:
            return
        known = self.present
        whose = identity(job) if job is not None else None if known is None else known.job
        if known is not None and known.source == source and told == self._told:
            if known.job == whose:
                return
            values = known.values
        else:
            values, self._told = leaves(told), told
        if known is not None and known.job != whose and known.job is not None:
            self.former = known
        self.present = Settings(source=source, job=whose, values=values)

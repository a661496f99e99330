"""What a source is asked about a run: its settings, and what is known of its current job."""

from __future__ import annotations

from cockpit.model.base import Frozen
from cockpit.model.observed import JobValue, Phase
from cockpit.model.records import Rejected
from cockpit.model.run import RunSpec


class Query(Frozen):
    """One run in a request to a source (SPEC J, "Which jobs belong to a run").

    ``job`` is the current job as it was last observed, ``None`` while nothing certain is known
    of it: its id, start, output file and node say where its log and its files are.
    ``exit_record`` is the exit code of the tracker's exit record; it is not dated. ``rejected``
    is what the store and the logbook's remote know of rejected checkpoints. ``last_log`` is where
    the current job's log was read last, told only while ``job`` is not: it lies there still.
    """

    run: RunSpec
    job: JobValue | None = None
    exit_record: int | None = None
    rejected: tuple[Rejected, ...] = ()
    last_log: str | None = None

    @property
    def name(self) -> str:
        """The run's name: what answers are keyed by."""
        return self.run.name

    @property
    def alive(self) -> bool | None:
        """Whether the current job lives (``False``: it is over); ``None`` if that is not known."""
        if self.job is None or self.job.phase is Phase.UNKNOWN:
            return None
        return not self.job.phase.terminal

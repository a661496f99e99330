"""What a source is asked about a run: its settings, and what is known of its current job."""

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
    ``ended`` is the current job as some cockpit saw it end, told only to the job's own source: a
    system that has forgotten it since does not make its end unknown.
    """

    run: RunSpec
    job: JobValue | None = None
    exit_record: int | None = None
    rejected: tuple[Rejected, ...] = ()
    last_log: str | None = None
    ended: JobValue | None = None

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

    @property
    def over(self) -> JobValue | None:
        """The end that was seen of the job that the run names; of its last where it names none."""
        named = self.run.job.id if self.run.job is not None else None
        seen = self.ended
        return seen if seen is not None and named in (None, seen.id) else None

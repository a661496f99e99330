"""Jobs as an action sees them: what lives, what was launched, what a source is asked.

These are the values of the one interface through which every platform is acted on
(``cockpit.platforms.base``).
"""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import Field

from cockpit.model.base import Frozen, Instant
from cockpit.model.observed import Bundle as Bundle
from cockpit.model.observed import JobValue, Phase, Pick
from cockpit.model.observed import LiveJob as LiveJob
from cockpit.model.observed import Stopped as Stopped
from cockpit.model.records import Rejected
from cockpit.model.run import RunSpec


class Live(Frozen):
    """The living jobs of a lineage, and those that look like them but do not belong to it.

    ``possible`` are jobs that may or may not write to it: shown, warned about, never stopped.
    ``leftovers`` are helpers that have outlived the job they served: they train nothing, and go by
    themselves. ``held`` were accepted for a launch and never released: they never start by
    themselves (``stop --only held`` cancels them). ``unknown`` says why the answer is incomplete,
    if it is: then ``jobs`` may lack some.
    """

    jobs: tuple[LiveJob, ...] = ()
    possible: tuple[LiveJob, ...] = ()
    spared: tuple[LiveJob, ...] = ()
    leftovers: tuple[LiveJob, ...] = ()
    held: tuple[LiveJob, ...] = ()
    unknown: str | None = None

    def without_waiting(self, queued: Iterable[LiveJob]) -> "Live":
        """Return what lives but for what only waits for the end of the current job (SPEC J).

        A platform that is asked of a run by the job in its file lists that as a job of the lineage.
        One that has begun lives.
        """
        waiting = {job.id for job in queued}
        jobs = (job for job in self.jobs if job.started_at is not None or job.id not in waiting)
        return self.model_copy(update={"jobs": tuple(jobs)})

    @property
    def alike(self) -> tuple[LiveJob, ...]:
        """The possible ones that run what the run's own job runs: nothing starts beside them."""
        return tuple(job for job in self.possible if job.alike)

    @property
    def unlike(self) -> tuple[LiveJob, ...]:
        """The possible ones that only name what is the run's: a plan warns of them."""
        return tuple(job for job in self.possible if not job.alike)

    @property
    def beside(self) -> tuple[LiveJob, ...]:
        """What lives and is no job: named in a plan, left alone."""
        return (*self.possible, *self.leftovers, *self.held, *self.spared)


class NamedJob(Frozen):
    """A job that a person has named, as its system reports it now.

    ``id`` is the system's name for it; ``lives`` is ``None`` where that is unknown, and
    ``text`` says in one line how it is, or why that is not known. ``launch_id`` is the one it
    carries, of whatever run; ``values`` are (name, value) of its arguments, its environment and
    its comment, which may show whose it is.
    """

    id: str
    text: str
    lives: bool | None = None
    launch_id: str | None = None
    started_at: float | None = None
    values: tuple[tuple[str, str], ...] = ()
    handle: dict[str, str] = Field(default_factory=dict)


class LaunchState(StrEnum):
    """Result of a look-up by launch id. ``absent`` is definite: it never ran and never will."""

    LIVE = "live"
    ENDED = "ended"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class LookUp(Frozen):
    """Result of looking up a launch id: the job, and the evidence for the answer (one line).

    A live job ``waits`` while it is accepted and has not begun, however long; ``reason`` is the
    platform's own word for why. ``final`` is an *unknown* that no later look-up can improve:
    the system has forgotten the job, and a person decides. ``bundle`` is the code that travels
    with the job, if any does.
    """

    found: LaunchState
    text: str
    job_id: str | None = None
    waits: bool = False
    reason: str | None = None
    final: bool = False
    bundle: str | None = None


class Submission(Frozen):
    """A job to start. ``command`` is filled in and holds no secret: ``$NAME`` resolves on use."""

    run: str
    launch_id: str
    command: tuple[str, ...]
    workdir: str | None = None
    env: dict[str, str] = Field(default_factory=dict)


class Accepted(Frozen):
    """A submission that was taken in and does not run yet: ``go`` lets it, a look-up ends it.

    ``id`` is journaled before ``go``: whatever happens between the two, the job can be found,
    and one that was never let go never runs. ``handle`` is for the platform that gave it; it is
    journaled too, and holds no secret.
    """

    id: str
    submission: Submission
    handle: dict[str, str] = Field(default_factory=dict)


class SchedulerOrder(Frozen):
    """What a scheduler is asked to do with a job: hold, release, requeue, extend.

    ``limit`` is its whole time limit in seconds, for *extend*.
    """

    verb: str
    limit: float | None = None


class OwnJob(Frozen):
    """A job of this user that a system lists, as a new run file may begin from it.

    ``settings`` are what it tells of a run, by the dotted names of ``[[run]]``: ``job.id``,
    ``job.log``, ``output_root``. ``name`` is the system's, which a person may take for the run's.
    """

    id: str
    name: str
    text: str
    settings: dict[str, str] = Field(default_factory=dict)


class Snapshot(Frozen):
    """One launch. ``command`` and ``config`` hold no secret; ``config`` has dotted keys.

    ``template`` is the command with its placeholders as the run file had them, ``resubmit`` the
    one that it had for going on, where that was another. ``config`` is
    ``None`` where none is known; ``config_sha256`` is the digest of the values as they are
    here, so that anyone can make it again.
    """

    launch_id: str
    at: Instant
    action: str
    command: tuple[str, ...]
    template: tuple[str, ...] = ()
    resubmit: tuple[str, ...] = ()
    sha: str | None = None
    branch: str | None = None
    patch_id: str | None = None
    dirty: tuple[str, ...] = ()
    config: dict[str, str] | None = None
    config_source: str | None = None
    config_sha256: str | None = None
    checkpoint: Pick | None = None
    hardware: str | None = None
    output_root: str | None = None
    wandb_id: str | None = None
    wandb_project: str | None = None
    bundle: Bundle | None = None
    """The code that went with the job, by its platform's word, once that is known."""


class Query(Frozen):
    """One run in a request to a source (SPEC J, "Which jobs belong to a run").

    ``job`` is the current job as it was last observed, ``None`` while nothing certain is known
    of it: its id, start, output file and node say where its log and its files are.
    ``exit_record`` is the exit code of the tracker's exit record; it is not dated. ``rejected``
    is what the store and the logbook's remote know of rejected checkpoints. ``last_log`` is where
    the current job's log was read last, given only while ``job`` is not.
    ``ended`` is the current job as some cockpit saw it end, given only to the job's own source: its
    end stays known when the system forgets the job.
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
    def has_own_log(self) -> bool:
        """True when the run file names a log, beside what the platform keeps."""
        return self.run.job is not None and self.run.job.log is not None

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

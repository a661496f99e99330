"""What a kind of job is to the rest of the house: one class per kind, listed in ``table.py``.

Everything that differs by kind stands behind this class, reading and acting; nothing else asks
"which kind is it?". What a kind does not do yet it answers with *unsupported*, which is never
taken for an answer about a run. A kind that this version knows by name only (its fields, its
row in ``kinds.py``) is a class with its name and nothing else.

Reading never raises: what cannot be told is a facet with a reason, ``Live.unknown``,
``Found.UNKNOWN``. Acting has its own deadlines, never hangs, and says of every failure whether
something may have happened (``LostError``) or not (``CannotError``). Nothing here restarts,
recreates or changes a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, NoReturn

from cockpit.model.base import Frozen
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.jobs import (
    Accepted,
    LaunchState,
    Live,
    LiveJob,
    LookUp,
    NamedJob,
    OwnJob,
    Query,
    SchedulerOrder,
    Submission,
)
from cockpit.model.observed import HostValue, JobValue, LogValue
from cockpit.model.place import FILE, SSH, Place, on_host, place_of
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec

if TYPE_CHECKING:
    from cockpit.sources.logs.source import Logs

UNSUPPORTED: Final = "is not supported yet"
LOOK_THERE: Final = "check there by hand: this version reads jobs and files of this machine"


class CannotError(Exception):
    """It was definitely not done, and will not happen by itself; the text is one line."""


class LostError(Exception):
    """The answer was lost: it may have happened or still happen. Look it up; never retry."""


class CommandError(Exception):
    """The recorded command cannot be run as it is; the text is one line that says why."""


class EndpointFinding(Frozen):
    """What ``doctor`` says of one system; ``remedy`` is ``None`` where all is well."""

    endpoint: str
    text: str
    remedy: str | None = None


class Platform:
    """One kind of job (``[run.job] kind``). Every call has its own deadline and never hangs.

    What a kind does not answer by a method of its own is *unsupported*; a log that is a file, here
    or over ssh, is read all the same.
    """

    kind: ClassVar[str]
    acts: ClassVar[bool] = False
    """True if this version can act on its jobs."""
    found_by_files: ClassVar[bool] = False
    """True if its job is found by files or a session; else ``job.id`` is the newest recorded."""
    bundled: ClassVar[bool] = True
    """True if code travels with the job in a bundle or container of its own (SPEC A-1)."""
    look_every: ClassVar[float] = 2.0
    """Seconds between two look-ups while a launch is awaited: gentle on a shared controller."""
    definite_within: ClassVar[float] = 10.0
    """Seconds for which a launch whose answer was lost is looked up before it is left unknown.

    At least what the fence behind ``Found.ABSENT`` needs before it can say so.
    """
    shared: ClassVar[bool] = True
    """True if a look-up from any machine finds what was launched from another one."""
    forgets: ClassVar[bool] = False
    """True if what it lists no more can be told by nobody: a person may say that it is over."""
    log_every: ClassVar[float | None] = None
    """Seconds between two looks at a log that is not on this machine; ``None``: the usual."""
    log_needs_job: ClassVar[bool] = False
    """True if a log is found by the job's id, node or output file: the job is asked for first."""

    def __init__(self, clock: Clock, logs: Logs) -> None:
        self._clock = clock
        self._logs = logs

    def endpoint(self, run: RunSpec) -> str:
        """Return the system that answers for its jobs: all that share one share its fate."""
        job = run.job
        named = job and (job.controller_url or job.cluster or job.address or job.host)
        return f"{self.kind} {named or 'here'}"

    async def jobs(self, queries: Sequence[Query]) -> Mapping[str, Facet[JobValue]]:
        """Return the job facet of each run, by name, from one bulk answer per endpoint.

        With its children, its rivals (C-25), what is queued behind it, and whether it can start.
        """
        message, now = f"reading {self.kind} jobs {UNSUPPORTED}", self._clock.now()
        facet = unknown(ErrorKind.UNSUPPORTED, message, self.kind, now)
        return {query.name: facet for query in queries}

    async def logs(self, queries: Sequence[Query]) -> Mapping[str, Facet[LogValue]]:
        """Return the log facet of each run, by name."""
        return await self._logs.observe(queries)

    async def hosts(self, queries: Sequence[Query]) -> Mapping[str, Facet[HostValue]]:
        """Return the host facet of each run, by name."""
        message, now = f"reading the hosts of {self.kind} jobs {UNSUPPORTED}", self._clock.now()
        where = {query.name: query.run.job and query.run.job.host for query in queries}
        return {
            name: unknown(ErrorKind.UNSUPPORTED, message, host or self.kind, now)
            for name, host in where.items()
        }

    @classmethod
    def log_place(cls, run: RunSpec, log: LogValue | None) -> Place | None:
        """Return where the run's log can be read in pages, ``None`` if it cannot.

        ``log`` is what was last read of it; without it, the place that the run file names (a
        pattern perhaps). A file of this machine (what was fetched by cursor is one), or over ssh.
        """
        job = run.job
        if job is None:
            return None
        place = job.log if log is None else place_of(log.path)
        if place is not None and place.here and log is None:
            place = on_host(job.host, place.path)
        return place if place is not None and place.scheme in (FILE, SSH) else None

    @classmethod
    def watched_files(cls, run: RunSpec, job: JobValue | None) -> tuple[str, ...]:
        """Return files of this machine whose change says something about the job."""
        return ()

    async def findings(self, runs: Sequence[RunSpec]) -> Sequence[EndpointFinding]:
        """Return what ``doctor`` says of the systems behind these runs, each asked once."""
        named: dict[str, list[str]] = {}
        for run in runs if not self.acts else ():
            named.setdefault(self.endpoint(run), []).append(run.name)
        text = f"{self.kind} jobs are not supported yet"
        return [
            EndpointFinding(endpoint=where, text=f"{text}: {', '.join(names)}", remedy=LOOK_THERE)
            for where, names in named.items()
        ]

    async def launch_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that the system itself knows: none is given out again.

        Raises ``CannotError`` where they cannot be listed; the text is one line that says why.
        """
        return frozenset()

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return this user's jobs, living ones first, at the system that ``job`` names.

        Raises ``CannotError`` where they cannot be listed; the text is one line that says why.
        """
        raise CannotError(f"jobs of kind {self.kind} cannot be listed by their owner")

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        """Return what the run's system tells of a job that a person names. Never raises."""
        return NamedJob(id=job_id, text=f"jobs of kind {self.kind} cannot be looked at by their id")

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Make a named job the run's own where jobs are found by files; else the records do.

        Raises ``CannotError`` where it cannot be noted.
        """
        return

    # Acting.

    def name_for(self, launch_id: str) -> str:
        """Return the launch id as this kind can spell it; raises ``CannotError`` if it cannot."""
        return launch_id

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words of a filled command as they are sent; raises ``CommandError``."""
        return tuple(words)

    def unformed(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return words without what ``formed`` adds: what one launch is compared with another by.

        A logbook has the words of a launch as they were sent.
        """
        return tuple(words)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against the recorded words (placeholders unfilled)."""
        return []

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        """Return what lives of each run's lineage (SPEC J), by run name. Never raises.

        The one answer to "which jobs live": the job facet's rivals come from it too.
        """
        return {run.name: Live(unknown=f"reading {self.kind} jobs {UNSUPPORTED}") for run in runs}

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        """Return what became of a launch id. Never raises.

        ``Found.ABSENT`` only behind a fence: when nothing can appear under it any more. So what
        was accepted and not let go is ended by looking; a ``go`` that comes later is refused.
        ``handle`` is what the journal keeps of its accept (``Accepted.handle``), empty where it
        was never let go; ``None`` says that its journal is another's. Without ``settle`` looking
        changes nothing at the platform: what only a fence could tell is unknown then.
        """
        text = f"looking up {self.kind} jobs {UNSUPPORTED}"
        return LookUp(found=LaunchState.UNKNOWN, text=text)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that ``accept`` and ``go`` could do their work, trying what they open.

        Asked for a plan, and again before anything is stopped for a start. What is not tried here
        is told by ``accept`` alone. Raises ``CannotError``, ``LostError``.
        """

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        """Take a submission in without running it; the same launch id starts one job, ever.

        Raises ``CannotError`` when nothing was taken in and nothing will be, ``LostError`` when
        that is not known.
        """
        self._refuse()

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let an accepted job run, and return its id; raises as ``accept`` does.

        With ``CannotError`` what was accepted is cancelled or closed: it never runs.
        """
        self._refuse()

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        """Stop exactly these jobs and their true descendants, gracefully first (``job.grace``).

        They are live ones, or wait behind one (``JobValue.queued``): those are cancelled.
        Returns when they are gone, by the platform's own word. Raises ``CannotError`` when one
        still lives and will not be touched, ``LostError`` when this is not known.
        """
        self._refuse()

    def can_save(self, run: RunSpec, job: LiveJob) -> str | None:
        """Return why a living job cannot be asked to save now; ``None``: it can."""
        return f"acting on {self.kind} jobs {UNSUPPORTED}"

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        """Ask a living job to save a checkpoint now; returns when it was asked.

        Raises ``CannotError`` when the trainer has no way, ``LostError`` without an answer.
        """
        self._refuse()

    async def why_no_order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return why its scheduler would not do that with the job now; ``None``: it may."""
        return f"{self.kind} jobs have no {order.verb}: no scheduler holds them in a queue"

    async def order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str:
        """Have the scheduler do that with the job; returns, in one line, what it shows then.

        Raises ``CannotError`` when it was refused, ``LostError`` when that is not known.
        """
        self._refuse()

    async def shown_order(self, run: RunSpec, job: LiveJob, order: SchedulerOrder) -> str | None:
        """Return that an order shows at the scheduler; raises as ``order`` does."""
        self._refuse()

    async def describe(self, run: RunSpec, job_id: str) -> str:
        """Return what its system tells of a job, as the system's own tools would print it.

        Only looks; an empty id asks for what is known without one. The text may still hold
        secrets and control characters. Raises ``CannotError`` where it cannot be had.
        """
        raise CannotError(f"jobs of kind {self.kind} cannot be described")

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        """Return what a later reader needs, by file name; never raises.

        The platform's answer, a stack dump and the device state where possible; what could not
        be had is a note in the file.
        """
        return {}

    def _refuse(self) -> NoReturn:
        raise CannotError(f"acting on {self.kind} jobs {UNSUPPORTED}")

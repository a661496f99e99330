"""The values of the eight facets, in the shapes of INTERFACE.

The job and the jobs beside it, the log, checkpoints, the monitor, the host (disks, memory, load and
accelerators, SPEC S-14), the code and the records. The tracker's value is in ``facet``.
"""

from enum import StrEnum
from typing import Any, Literal, NamedTuple

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from cockpit.model.base import Frozen, Instant, SafeText, Seconds
from cockpit.model.facet import Column as Column
from cockpit.model.facet import Problem, true_loss
from cockpit.model.facet import TrackerValue as TrackerValue
from cockpit.model.facet import Writer as Writer
from cockpit.model.logtext import LogMark, Read, Skipped
from cockpit.model.shared_facts import Announced, Rejected, SharedFact


class Disk(Frozen):
    """A mounted disk; ``free`` in bytes, fractions from 0 to 1."""

    mount: str
    free: int
    used_frac: float
    inodes_frac: float | None = None
    holds: tuple[str, ...] = Field(default=(), exclude=True)
    """The run's places that lie on it, as the run file spells them."""
    shared: str | None = Field(default=None, exclude=True)
    """What a network file system is mounted from (``nas:/export``): the same on every machine."""


class Gpu(Frozen):
    """One accelerator."""

    index: int
    name: str
    util_frac: float | None = None
    mem_frac: float | None = None


class HostValue(Frozen):
    """The health of the box that the job runs on."""

    disks: tuple[Disk, ...] = ()
    mem_frac: float | None = None
    oom_kills: int | None = None
    load: float | None = None
    out_of_service: str | None = None
    """Why its scheduler starts nothing on it any more, by its own word; one line."""
    gpus: tuple[Gpu, ...] = ()
    gpus_error: Problem | None = None
    """Why the list of accelerators is not whole, in the words of the program that lists them."""
    gpus_lost: int | None = Field(default=None, exclude=True)
    """How many more that program says do not answer; ``None`` where it has counted nothing."""


class OtherMonitor(Frozen):
    """Another monitor's state file that names the same job."""

    path: str
    owner: str | None = None
    last_update: Instant | None = None
    fresh: bool


class MonitorValue(Frozen):
    """The monitor that watches this run; never says anything about the run's own health."""

    fresh: bool
    last_update: Instant | None
    cadence_s: Seconds
    owner: str | None = None
    restart_count: int | None = None
    job_id: str | None = None
    path: str | None = None
    others: tuple[OtherMonitor, ...] = ()
    last_signal: str | None = Field(default=None, exclude=True)
    tunnel_session: str | None = Field(default=None, exclude=True)
    server_session: str | None = Field(default=None, exclude=True)
    mcp_url: str | None = Field(default=None, exclude=True)
    wandb: str | None = Field(default=None, exclude=True)
    """The address of the W&B run that its state file holds (C-13)."""
    retired: str | None = Field(default=None, exclude=True)
    """The job that a relaunch has retired: a monitor that still names it has not heard yet."""
    doubt: str | None = Field(default=None, exclude=True)
    """Why it may be fresh although its stamp is old; the next write of its file tells (C-03)."""
    gone: tuple[str, ...] = Field(default=(), exclude=True)
    """What it needs to live and that is gone: its tunnel, its server; one line each (C-03)."""
    notes: tuple[str, ...] = Field(default=(), exclude=True)
    """What was odd about the clocks or files that this rests on, one line each."""


class Stopped(Frozen):
    """A process that is stopped: by SIGSTOP or Ctrl-Z, or ``held`` by a debugger."""

    pid: int
    since: Instant
    held: bool = False


class Bundle(Frozen):
    """The code that a job runs, where it travels with the job: by its platform's word (C-15).

    ``id`` tells the uploaded files apart, ``commit``, ``dirty`` and ``branch`` are the checkout
    they were taken from, ``tree`` is the hash of its files.
    """

    id: str | None = None
    commit: str | None = None
    dirty: bool | None = None
    branch: str | None = None
    tree: str | None = None


class LiveJob(Frozen):
    """A job that lives now. ``name`` is for people, ``why`` says how it was recognised (SPEC J).

    ``handle`` is what the platform stops it by: exact, and never a pattern.
    """

    id: str
    name: str
    why: str
    launch_id: str | None = None
    started_at: Instant | None = None
    proven: bool = True
    """False where only a note says that it lives: a machine that died cannot take it back."""
    beyond: str | None = None
    """Why this user may not stop it, where that is so."""
    needs_success: bool = Field(default=False, exclude=True)
    """It waits for the current job's success: behind one that is stopped it never starts."""
    alike: bool = Field(default=False, exclude=True)
    """It runs what the run's job runs, and nothing shows where it writes, or names the run as its
    output and runs something else: a person decides."""
    part_of: str | None = Field(default=None, exclude=True)
    """The job (its ``id``) whose waiting part this is: what stops that one ends this too."""
    recorded: bool = Field(default=False, exclude=True)
    """The run file or its pid file names this very job as the run's own."""
    starter: str | None = Field(default=None, exclude=True)
    """The program that has started it and outlives a stop: it may start the next one."""
    handle: dict[str, str] = Field(default_factory=dict)


class Phase(StrEnum):
    """A job's phase: SPEC J, the one mapping that the states of every platform are reduced to."""

    WAITING = "waiting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """True when the job is over, however it ended."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED)

    @property
    def lives(self) -> bool:
        """True when the job runs or waits to."""
        return self in (Phase.RUNNING, Phase.WAITING)


UNCLEAR = "unclear"
"""The state of a job that was looked at and is still unknown."""
STARTING = "starting"
"""The state of a process that lives and has written nothing yet: it waits in no queue."""


class Tasks(Frozen):
    """How many of a job's tasks run, and how many are over: those wait for nothing."""

    running: int
    total: int
    over: int = Field(default=0, exclude=True)
    failed: int = Field(default=0, exclude=True)


class TaskValue(Frozen):
    """A task of an array, or ``count`` of them that wait; ``state`` is the orchestrator's word."""

    id: str
    state: str
    phase: Phase
    count: int = 1
    exit_code: int | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    node: str | None = None
    output: str | None = None
    """The file of its host that its output goes to, where the platform tells one."""


class JobValue(Frozen):
    """One job, as its orchestrator tells it. ``state`` is the orchestrator's own word."""

    id: str | None
    state: str
    phase: Phase
    tasks: Tasks | None = None
    members: tuple[TaskValue, ...] = Field(default=(), exclude=True)
    """The tasks of an array, as far as its orchestrator still lists them."""
    reason: str | None = None
    exit_code: int | None = None
    pending_since: Instant | None = None
    started_at: Instant | None = None
    ended_at: Instant | None = None
    restarts: int | None = None
    accelerators: int | None = None
    """How many it holds over all its tasks, by its system's own word."""
    accelerators_by: str | None = Field(default=None, exclude=True)
    """Whose word that is, where it is not its source's; where there is no number, why."""
    launch_id: str | None = None
    children: tuple[str, ...] = ()
    diagnostic: tuple[str, ...] = ()
    bundle: Bundle | None = None
    """The code that travels with it, where its platform tells that."""
    config: dict[str, object] = Field(default_factory=dict, exclude=True)
    """Its resolved config, where the trainer tells it while it runs (C-18)."""
    rivals: tuple[LiveJob, ...] = Field(default=(), exclude=True)
    """Other live jobs of the lineage (C-25); not part of the document, like all below."""
    rivals_source: str = Field(default="", exclude=True)
    """Where the rivals were seen: the process table, the controller's list."""
    possible: tuple[LiveJob, ...] = Field(default=(), exclude=True)
    """Others that live and may be jobs of the lineage: nothing proves that they write to it."""
    held: tuple[LiveJob, ...] = Field(default=(), exclude=True)
    """What was accepted for a launch of the run and never let go: it never starts by itself."""
    stopped: Stopped | None = Field(default=None, exclude=True)
    """That its process is stopped, if it is: it lives, and runs no step."""
    processes: tuple[int, ...] = Field(default=(), exclude=True)
    """The processes of its machine whose state is the job's: its own and those below it."""
    queued: tuple[LiveJob, ...] = Field(default=(), exclude=True)
    """What starts by itself once this job is over: dependants, requeues (SPEC J)."""
    never: bool = Field(default=False, exclude=True)
    """True when it waits for something that can never come (C-04)."""
    output: str | None = Field(default=None, exclude=True)
    """The file of its host that its output goes to, where the platform tells one."""
    error_output: str | None = Field(default=None, exclude=True)
    """The same for its standard error, where that is a file of its own."""
    node: str | None = Field(default=None, exclude=True)
    """The machine it runs on, where that is not the run's own host."""
    ends_by: Instant | None = Field(default=None, exclude=True)
    """When its time limit ends it (C-26), where it runs under one."""
    signal_before_end: tuple[str, float] | None = Field(default=None, exclude=True)
    """The signal that its scheduler sends it before the time limit, and so many seconds before."""
    preempted_at: Instant | None = Field(default=None, exclude=True)
    """When its scheduler told it to make room (C-26), where it still runs after that."""
    expected_start: Instant | None = Field(default=None, exclude=True)
    """When its scheduler means to start it (C-04), if it says so while the job waits."""
    queue: dict[str, str] = Field(default_factory=dict, exclude=True)
    """How it stands with its scheduler, in that one's own terms: partition, QOS, priority."""
    held_by_person: bool = Field(default=False, exclude=True)
    """True when it waits only because somebody holds it: ``release`` lets it start."""
    log_mark: LogMark | None = Field(default=None, exclude=True)
    """Where its first line stands in its log, where its launcher has noted that."""

    @property
    def dates(self) -> dict[Phase, float]:
        """When its phases began, as far as its system dates them."""
        ended = self.ended_at if self.phase.terminal else None
        found = {
            Phase.WAITING: self.pending_since,
            Phase.RUNNING: self.started_at,
            self.phase if self.phase.terminal else Phase.UNKNOWN: ended,
        }
        return {phase: at for phase, at in found.items() if at is not None}


class Triage(Frozen):
    """SPEC T: one class, one action, and the lines it rests on."""

    class Line(Frozen):
        """A line of the log by its number in the file; ``None`` where that is not known."""

        line: int | None
        text: str
        offset: int | None = Field(default=None, exclude=True)
        """Where it starts in the file."""
        file: str | None = Field(default=None, exclude=True)
        """The file that it stands in, where that was rotated away from the log's place."""

    class Place(Frozen):
        """Where in the code."""

        file: str
        line: int | None

    name: str = Field(serialization_alias="class")
    action: Literal["relaunch", "fix_then_relaunch", "escalate", "wait", "none"]
    confidence: Literal["sure", "likely", "guess"]
    yours: bool = False
    """Whether a signature of the run file decided it: then it is at most likely."""
    evidence: tuple[Line, ...] = ()
    code_location: Place | None = None
    step: int | None = None
    read: Read | None = None

    @property
    def basis(self) -> str:
        """How sure it is, and whether on your own word: ``likely, yours``."""
        return f"{self.confidence}, yours" if self.yours else self.confidence


class Row(NamedTuple):
    """One logged row: the trainer's step, its time (epoch seconds), and the metrics rules read.

    A metric that the row did not carry is ``None``; one that is not a number is NaN or ±inf.
    ``bar`` marks a training's progress bar: a trained step, whatever it carries. ``skipped`` is
    what was logged of optimizer steps that were left out: a flag, or how many. ``lr`` is the
    learning rate, ``batch`` the samples of a step: no line of a log tells them here.
    """

    step: int | None
    at: float | None
    loss: float | None = None
    throughput: float | None = None
    grad_norm: float | None = None
    bar: bool = False
    z_loss: float | None = None
    router_loss: float | None = None
    router_entropy: float | None = None
    skipped: float | None = None
    lr: float | None = None
    batch: float | None = None
    limited: tuple[tuple[str, float], ...] | None = None
    """Values of metrics that have a limit (C-27), by the metric that the limit names."""

    @property
    def trains(self) -> bool:
        """True where it carries a metric of training, so that its step is one of training."""
        return self.bar or self[2:5] != (None, None, None)

    @property
    def true_loss(self) -> float | None:
        """The loss; NaN where it was logged as exactly 0 beside a gradient that is no number.

        Trainers that leave non-finite losses out of their mean write such a zero.
        """
        return self.loss if self.loss != 0.0 else true_loss(self.loss, self.grad_norm)


class OtherLog(Frozen):
    """A log that the job writes beside the one that is shown: read for a diagnosis."""

    path: str
    size: int
    mtime: Instant


class LogValue(Frozen):
    """The tail of the job's own log, its size (bytes) and clocks."""

    path: str
    size: int
    mtime: Instant
    last_line_at: Instant | None = None
    lines: tuple[SafeText, ...] = ()
    triage: Triage | None = None
    offsets: tuple[int, ...] = Field(default=(), exclude=True)
    """Where each line starts in the file; the last one ends at ``size``. Not remembered."""
    inode: int | None = Field(default=None, exclude=True)
    rows: tuple[Row, ...] = Field(default=(), exclude=True)
    """Training progress read from lines that are new since the former observation."""
    newest_loss: Row | None = Field(default=None, exclude=True)
    """The newest row with a loss that was ever read of it: ``rows`` has only what is new."""
    told_step: int | None = Field(default=None, exclude=True)
    """The last step in its lines, of a log that only an engine before this one has read."""
    torn: bool = Field(default=False, exclude=True)
    """True where the last line breaks off: what comes after it is not written yet."""
    skipped: Skipped | None = None
    """What was not read line by line since it is followed; ``None`` for a log read in full."""
    rows_begin: int = Field(default=0, exclude=True)
    """The offset from which every line was read for rows; what stands before it was not."""
    announced: Announced = Field(default=Announced.model_construct(), exclude=True)
    """What the lines that were read announce besides steps."""
    clock_offset_s: Seconds | None = None
    """The writer's clock minus ours where it is off: the times of lines are on ours."""
    moved_from: str | None = None
    """Where it lay before it was renamed under its writer, which goes on in it."""
    begun_anew_at: Instant | None = None
    """When it was last seen to have been truncated: what stood in it before is gone."""
    former_end: tuple[str, ...] = Field(default=(), exclude=True)
    """The last lines that were seen of it before that."""
    others: tuple[OtherLog, ...] = ()
    """What the job writes besides: standard error of its own, other ranks."""


class CheckpointState(StrEnum):
    """SPEC K."""

    COMPLETE = "complete"
    WRITING = "writing"
    INCOMPLETE = "incomplete"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


class Whose(StrEnum):
    """Which trajectory a save belongs to.

    ``AGAIN``: this run made it, in a stretch that it has trained again since. ``OTHER``: another
    lineage made it. ``UNSURE``: it may be this run's.
    """

    OWN = "own"
    AGAIN = "again"
    OTHER = "other"
    UNSURE = "unsure"


class Checkpoint(Frozen):
    """One checkpoint. ``step`` is from its marker, ``name_step`` from its name; size in bytes.

    ``suspect`` is why its weights may be spoilt (SPEC K): it was saved at or after the first
    non-finite step, or in an open spike. Only who knows the run's rows can tell.
    ``lineage`` is why it is not, or not surely, a save of the run's present lineage.
    """

    step: int | None
    name_step: int | None
    path: str
    root: str
    state: CheckpointState
    marker: str | None = None
    saved_at: Instant | None = None
    size: int | None = None
    permanent: bool | None = None
    protected: tuple[str, ...] = ()
    suspect: str | None = None
    lineage: str | None = None
    note: str | None = None
    touched_at: Instant | None = Field(default=None, exclude=True)
    """The newest change of any of its files: the age of one that is not complete."""
    ordered_at: Instant | None = Field(default=None, exclude=True)
    """When it was written, as well as its files tell: one that was added later changes nothing."""
    whose: Whose = Field(default=Whose.OWN, exclude=True)
    layout: str = Field(default="", exclude=True)
    """The layout that it was judged by."""
    doubt: str | None = Field(default=None, exclude=True)
    """Why a good one may be spoilt all the same: saved where no row tells."""
    emptied: bool = Field(default=False, exclude=True)
    """True for one whose marker is there and whose data is gone."""
    half_deleted: bool = Field(default=False, exclude=True)
    """True for one that a clean-up has begun to delete where nothing can be renamed."""
    archived: bool = Field(default=False, exclude=True)
    """True for one that must be restored from an archive before it can be loaded."""
    unrecognised: bool = Field(default=False, exclude=True)
    """True for what looks like a save and is of no known layout."""
    files: int = Field(default=1, exclude=True)
    """Of how many files beside each other it is one save; its path is the first one's."""

    @property
    def any_step(self) -> int | None:
        """The step of its marker, else that of its name."""
        return self.name_step if self.step is None else self.step

    @property
    def complete(self) -> bool:
        """True for one that can be loaded, whatever its weights are worth."""
        return self.state is CheckpointState.COMPLETE

    @property
    def good(self) -> bool:
        """True for a complete one that nothing is said against: it counts as rollback cover."""
        return self.complete and self.suspect is None

    @property
    def own(self) -> bool:
        """True for one that nothing keeps from being a save of the run's present lineage."""
        return self.whose is Whose.OWN

    @property
    def written_at(self) -> float | None:
        """When it was written, as well as that is known: its place in the order of saves."""
        known = (self.ordered_at, self.saved_at, self.touched_at)
        return next((at for at in known if at is not None), None)


class Pick(Frozen):
    """A checkpoint that would be loaded, and by which rule; ``step`` is not always known."""

    path: str
    step: int | None
    why: str

    @property
    def place(self) -> str:
        """Where it lies and its step, as records have it: ``/c/step-700 (step 700)``."""
        return f"{self.path} (step {'unknown' if self.step is None else self.step})"


class CheckpointsValue(Frozen):
    """All checkpoints of a run over its roots, ascending by step.

    ``unlisted`` names the roots that could not be listed: what is missing here may lie there,
    so nothing is picked. It is part of the document only where there is such a root.
    """

    latest_complete: int | None
    relaunch_from: Pick | None = None
    trainer_would_load: Pick | None = None
    items: tuple[Checkpoint, ...] = ()
    unlisted: tuple[str, ...] = ()
    unjudged: int = 0
    """How many folders have not been looked at yet: there are very many, the newest come first."""
    notes: tuple[str, ...] = ()
    """What else there is to say of the roots; in the document only where there is something."""
    mixed: str | None = None
    """Which saves are whose where not all are surely this run's: then nothing may be deleted."""
    unreached: str | None = None
    """Why what a relaunch would take may be another run's: no row of this run came so far."""

    @property
    def unrecognised(self) -> tuple[Checkpoint, ...]:
        """What looks like saves and is of no known layout."""
        return tuple(item for item in self.items if item.unrecognised)

    def at(self, path: str) -> Checkpoint | None:
        """Return the checkpoint that lies at ``path``."""
        return next((item for item in self.items if item.path == path), None)

    @model_serializer(mode="wrap")
    def _document(self, plain: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = plain(self)
        rare = ("unlisted", "unjudged", "notes", "mixed", "unreached")
        return {k: v for k, v in document.items() if k not in rare or v}


class CodeValue(Frozen):
    """The code repository's state: what a launch now would run."""

    sha: str | None
    branch: str | None = None
    dirty: tuple[str, ...] = ()
    unpushed: int | None = None
    record_sha: str | None = None
    patch_id: str | None = None
    changed: tuple[str, ...] | None = Field(default=None, exclude=True)
    """Files that differ from the recorded commit to the present one; ``None``: not known."""
    ahead_files: tuple[str, ...] | None = Field(default=None, exclude=True)
    """Files of the commits that are not pushed; ``None``: not known."""
    untracked: tuple[str, ...] = Field(default=(), exclude=True)
    """Those of ``dirty`` that git does not know."""
    base: str | None = Field(default=None, exclude=True)
    """The recorded commit that ``changed`` and ``alike`` compare with."""
    alike: tuple[str, ...] = Field(default=(), exclude=True)
    """Commits around it that differ from it by nothing but files that are no code."""
    sealed: str | None = None
    """The run's own seal tag (``seal/<run>/<step>``), if there is one (SPEC A-7)."""
    sealed_steps: tuple[int, ...] | None = Field(default=(), exclude=True)
    """The steps of all its seal tags; ``None``: git could not tell."""


class RecordsValue(Frozen):
    """The logbook and the issue: when they last moved, if all is pushed (``held``: why not)."""

    logbook: str | None
    last_entry_at: Instant | None = None
    pushed: bool | None = None
    held: str | None = None
    issue: str | None = None
    issue_updated_at: Instant | None = None
    told: tuple[SharedFact, ...] = ()
    """Facts shared in the logbook, its remote and the output root, the newest first."""
    unheard: str | None = None
    """Why it is not known, or not newly, what the logbook's remote tells; one line."""
    output_root: str | None = Field(default=None, exclude=True)
    """Where the output goes by the logbook's run contract, as it is written there (C-16)."""
    rejected: tuple[Rejected, ...] = Field(default=(), exclude=True)
    """What the logbook rejects on its remote."""
    issue_seen_at: Instant | None = Field(default=None, exclude=True)
    """When ``issue_updated_at`` was read."""
    notes: tuple[str, ...] = Field(default=(), exclude=True)
    """Why the issue is not known, or not newly; one line each."""

"""A run over time: what a rule is given, what happened to a run, what a backtest found."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.base import Frozen, Instant, Printed, PrintedInstant
from cockpit.model.facet import ErrorKind
from cockpit.model.goodput import JobStart, Looks
from cockpit.model.jobs import Snapshot
from cockpit.model.logtext import LogPage
from cockpit.model.observed import Column, Phase
from cockpit.model.report import Facets, RunReport, Verdict
from cockpit.model.trend import Trend


class PhaseMark(Frozen):
    """When a job was first seen in a phase; ``since`` is when its system says that began."""

    at: Instant
    phase: Phase
    job_id: str | None = None
    since: Instant | None = None
    accelerators: int | None = None
    """How many accelerators the job held then, where its system told that."""

    @property
    def began(self) -> float:
        """When it began, as well as that is known."""
        return self.at if self.since is None else min(self.at, self.since)


class CheckpointMark(Frozen):
    """When the set of complete checkpoints was seen to change."""

    at: Instant
    complete: int
    newest: int | None


class FormerFailure(Frozen):
    """A failure of an earlier job of the run: its class (SPEC T), its signature and its step.

    ``signature`` is the class and its decisive evidence line with all figures taken out, so
    that the same fault is known again; ``None`` where nothing decisive was said.
    """

    at: Instant
    job_id: str
    name: str
    signature: str | None = None
    step: int | None = None


class Launched(Frozen):
    """The last launch that a cockpit made: when, from which checkpoint, and what it follows.

    ``resumes_from`` is the step of the checkpoint that it was to load (``None``: from scratch);
    ``failed_step`` is how far the job before it had come; ``first_step`` is the first step
    that any cockpit has seen of it, ``started_at`` when its job began, as far as that was seen:
    a queue may lie between the two.
    """

    at: Instant
    job_id: str
    launch_id: str
    resumes_from: int | None = None
    failed_step: int | None = None
    first_step: int | None = None
    started_at: Instant | None = None

    @property
    def begun(self) -> float:
        """When its job began to train at the earliest."""
        return self.at if self.started_at is None else max(self.at, self.started_at)


class UnsettledLaunch(Frozen):
    """A launch that no record tells the end of: its answer was lost, or its cockpit is gone.

    ``since`` is when it was sent; ``text`` is what was known of it last. A launch that is being
    made is none.
    """

    launch_id: str
    action: str
    by: str
    since: Instant
    text: str = ""


class Sharer(Frozen):
    """Another run of the run file with the same output root or W&B run (C-25).

    ``same_job`` tells that both name one job; without ``certain`` the two places only look the
    same: W&B runs of one id that are written offline, and into no project yet.
    """

    run: str
    what: str
    lives: bool = False
    same_job: bool = False
    certain: bool = True
    job_id: str | None = None
    started_at: Instant | None = None


class Outage(Frozen):
    """A place that answers for none of the runs that live there, since when and why.

    ``facets`` is what is asked there; ``told_by`` names the one run that tells of it, so that
    one cause opens one alert (SPEC C).
    """

    place: str
    facets: tuple[str, ...]
    runs: tuple[str, ...]
    since: Instant
    kind: ErrorKind
    why: str
    told_by: str

    @staticmethod
    def key_of(place: str) -> str:
        """Return the identity of the alert about a place."""
        return f"C-02:{place}"


class FullDisk(Frozen):
    """A disk of a machine that is nearly full for several runs (C-22).

    ``key`` is the alert of the one run that tells of it, so that one cause opens one alert.
    """

    machine: str
    mount: str
    runs: tuple[str, ...]
    key: str


class Settings(Frozen):
    """The resolved config of one job: dotted keys with JSON text, shown already; who tells it."""

    source: str
    job: str | None
    values: dict[str, str]


class HostMark(Frozen):
    """What the looks at a host have shown since the present job came to it (C-22).

    ``job`` is whose looks they are. ``oom_kills`` is the kernel's newest count, ``oom_from`` what
    it was before it last rose, ``oom_at`` when that was seen. ``gpus`` are the most that were
    listed at once, ``fewer_since`` is since when there are fewer, ``idle_since`` since when each
    look has found all of them at 0 %.
    """

    job: str | None = None
    oom_kills: int | None = None
    oom_from: int | None = None
    oom_at: Instant | None = None
    gpus: int = 0
    fewer_since: Instant | None = None
    idle_since: Instant | None = None


class History(Frozen):
    """Everything that a rule may look at. Times are data time; ``now`` is the time of judging.

    ``rows_from`` is 0.0 when ``trend`` was folded from every logged row, else the share of
    the rows before the first one folded (a gap: what it hides is unknown, not fine).
    """

    now: Instant
    facets: Facets = Facets.model_construct()
    trend: Trend = Trend.model_construct()
    log_trend: Trend = Trend.model_construct()
    """The fold of the log's own rows, as far as they were read; ``trend`` where it has no other."""
    phases: tuple[PhaseMark, ...] = ()
    checkpoints: tuple[CheckpointMark, ...] = ()
    stop_ordered_by: str | None = None
    rows_from: float = 0.0
    log_from: float = 0.0
    """The same of ``log_trend``: the share of the log before the first line read for rows."""
    job_named: bool = True
    """False when the run file names no job: then the tracker's word is all there is."""
    former_failures: tuple[FormerFailure, ...] = ()
    """Failures that this run has recovered from, oldest first."""
    restarts: tuple[Instant, ...] = ()
    """When other executions of the run were first seen running after one had run, oldest first."""
    launched: Launched | None = None
    unsettled: tuple[UnsettledLaunch, ...] = ()
    """Launches of this store of which nobody has written down what became of them."""
    sharers: tuple[Sharer, ...] = ()
    """The other runs of the run file that write to the same place."""
    not_read_yet: str | None = None
    """What of the facets that a verdict rests on nobody has looked at since the engine started."""
    outages: tuple[Outage, ...] = ()
    """The places away from here that do not answer for this run, nor for any other."""
    full_disks: tuple[FullDisk, ...] = ()
    """The disks of its machine that are nearly full for it and for other runs."""
    looks: Looks = Looks.model_construct()
    """When somebody looked at the job."""
    starts: tuple[JobStart, ...] = ()
    """The jobs that cockpits started for the run, oldest first."""
    used: Snapshot | None = None
    """What the last launch that a cockpit made really used (C-15 to C-18)."""
    settings: Settings | None = None
    """The resolved config of the present job, as itself or its tracker tells it (C-16 to C-18)."""
    former_settings: Settings | None = None
    """That of the job before it, where this engine has seen it."""
    partial_since: Instant | None = None
    """Since when each look has found only some of a running job's tasks at work (C-04)."""
    host: HostMark = HostMark.model_construct()
    """What the looks at the job's host add up to."""
    open: tuple[Alert, ...] = ()
    """What was open at the former judging: an open alert closes later than it opens."""
    attended: bool = False
    """True in a watch, which looks again by itself; ``check`` looks once."""
    sealed_by: str | None = None
    """Who sealed the run as it is, by the store: given where no code repository holds a tag."""


class Kind(StrEnum):
    """What a happening is about; a person sifts by it."""

    ALERT = "alerts"
    ACTION = "actions"
    JOB = "jobs"
    CHECKPOINT = "checkpoints"
    ENTRY = "log entries"
    HANDOFF = "handoffs"


class Sign(StrEnum):
    """How a happening is marked: by what it means for the run."""

    CRITICAL = "critical"
    ATTENTION = "attention"
    GOOD = "good"
    UNKNOWN = "unknown"
    PLAIN = "plain"


class Happening(Frozen):
    """One thing that happened; ``text`` and ``note`` are one safe line each.

    ``key`` is the alert's that it is about; ``code`` its rule's (C-05).
    """

    at: Instant
    kind: Kind
    sign: Sign
    text: str
    note: str = ""
    code: str = ""
    key: str = ""


class Moment(NamedTuple):
    """A moment that is kept; ``changed``: the verdict, the phase or the alerts became others."""

    at: float
    verdict: Verdict
    changed: bool


class Timeline(Frozen):
    """What happened to a run, newest first, and the moments that are kept, oldest first.

    ``begins`` is when any cockpit first saw the run, as far back as is kept; ``lacks`` are the
    reasons why something is missing, one line each.
    """

    run: str
    happenings: tuple[Happening, ...] = ()
    moments: tuple[Moment, ...] = ()
    begins: Instant | None = None
    lacks: tuple[str, ...] = ()

    def of_kind(self, kind: Kind | None) -> tuple[Happening, ...]:
        """Return the happenings of one kind (``None``: all)."""
        return tuple(each for each in self.happenings if kind is None or each.kind is kind)

    @property
    def times(self) -> tuple[float, ...]:
        """Every moment that something is known of, oldest first: kept ones and happenings."""
        stamps = {each.at for each in self.moments} | {each.at for each in self.happenings}
        return tuple(sorted(stamps))


class KeptFigures(Frozen):
    """The few figures kept from every observation, for longer than whole moments are."""

    at: Instant
    verdict: Verdict
    phase: Phase | None = None
    step: int | None = None


class PastLog(NamedTuple):
    """Lines of a log up to a moment of the past; ``told`` says which, and how that is known.

    The page's ``size`` is what the log had then.
    """

    page: LogPage
    told: str


class Then(Frozen):
    """A run as it was at ``at``: never anything that was learned later.

    ``report`` is ``None`` where nothing is known. ``recorded_at`` is when it was kept; ``None``
    where only the few figures of ``seen`` and the alerts are. ``lacks`` says what is not known of
    the moment and why, one line each.
    """

    run: str
    at: Instant
    report: RunReport | None = None
    recorded_at: Instant | None = None
    seen: KeptFigures | None = None
    watched: bool = False
    """Whether a cockpit looked at the run at that time."""
    lacks: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as JSON: the run as ``check --json`` tells it, and how it is known."""
        plain = self.model_copy(update={"report": None}).to_json()
        return {**plain, "report": None if self.report is None else self.report.document()}


NEXT_KIND: Final[Mapping[Kind | None, Kind | None]] = dict(
    zip((None, *Kind), (*Kind, None), strict=True)
)
"""The kind that is shown alone after another one; after the last one all are."""


def timeline_in(content: Mapping[str, Any]) -> Timeline:
    """Return the timeline that crossed to a window; raises ``ValueError``."""
    moments = tuple(
        Moment(float(at), Verdict(verdict), bool(changed))
        for at, verdict, changed in content["moments"]
    )
    return Timeline.model_validate({**content, "moments": moments})


class WouldTell(Printed):
    """One alert as it would have been raised, with where it opened and, if ``closed``, closed."""

    id: str
    severity: Severity
    title: str
    opened_step: int | None = None
    opened_at: PrintedInstant | None = None
    closed_step: int | None = None
    closed_at: PrintedInstant | None = None
    closed: bool = False
    evidence: tuple[Evidence, ...] = ()


class Backtested(Printed):
    """A run's whole past replayed; ``steps`` rows, ``timed`` where they tell their own times."""

    run: str
    steps: int
    last_step: int | None = None
    final_step: int | None = None
    timed: bool = False
    not_replayed: tuple[str, ...] = ()
    alerts: tuple[WouldTell, ...] = ()
    curve: tuple[Column, ...] = ()
    """The loss over the steps."""

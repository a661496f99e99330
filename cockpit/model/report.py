"""One run, judged: what ``check --json`` prints and what every widget is given; the view."""

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Any, Final

from cockpit.model.acts import AgentAct
from cockpit.model.alert import Alert, ClosedAlert
from cockpit.model.base import Frozen, Instant, Seconds, rfc3339
from cockpit.model.cost import Cost
from cockpit.model.facet import UNASKED, Facet, not_configured
from cockpit.model.goodput import Day, Goodput, Looks
from cockpit.model.observed import (
    CheckpointsValue,
    CodeValue,
    HostValue,
    JobValue,
    LogValue,
    MonitorValue,
    Phase,
    RecordsValue,
    Row,
    TrackerValue,
)
from cockpit.model.run import RunSpec
from cockpit.model.shared_facts import OwnerNow
from cockpit.model.standing import StandingOrder
from cockpit.model.wording import utc_minute

REMEMBERED = {"remembered": True}
NOT_ASKED = "nothing of it has been asked since this engine started"
ROWS_UNREAD = "the tracker's rows are not read yet"
"""All else was looked at, and judged: what is critical then is so now."""

FACETS = ("job", "log", "tracker", "checkpoints", "monitor", "host", "code", "records")


class Verdict(StrEnum):
    """SPEC C: the one word for a run's health. The job's phase is another word."""

    HEALTHY = "healthy"
    ATTENTION = "attention"
    CRITICAL = "critical"
    UNKNOWN = "unknown"
    FINISHED = "finished"
    SEALED = "sealed"


URGENCY = (
    Verdict.CRITICAL,
    Verdict.ATTENTION,
    Verdict.UNKNOWN,
    Verdict.FINISHED,
    Verdict.HEALTHY,
    Verdict.SEALED,
)
"""Verdicts in the order in which a person turns to them."""


class Facets(Frozen):
    """The eight facets of a run."""

    job: Facet[JobValue] = not_configured("[run.job]")
    log: Facet[LogValue] = not_configured("job.log")
    tracker: Facet[TrackerValue] = not_configured("[run.wandb]")
    checkpoints: Facet[CheckpointsValue] = not_configured("[run.checkpoints]")
    monitor: Facet[MonitorValue] = not_configured("[run.monitor]")
    host: Facet[HostValue] = not_configured("the job's host")
    code: Facet[CodeValue] = not_configured("[run.code]")
    records: Facet[RecordsValue] = not_configured("[run.records]")

    def items(self) -> list[tuple[str, Facet[Any]]]:
        """Return (name, facet) in INTERFACE's order."""
        return [(name, getattr(self, name)) for name in FACETS]

    def read_as(self, former: "Facets", but: Collection[str] = ()) -> bool:
        """Return whether each says what it said; observed at another time, but not before.

        Whatever the facets named ``but`` say does not matter.
        """
        theirs = former.__dict__
        return all(
            each is theirs[name] or name in but or each.reads_as(theirs[name])
            for name, each in self.__dict__.items()
        )

    def as_unasked(self, run: RunSpec, asked: Collection[str] = ()) -> "Facets":
        """Return them with what the run file names, and nobody has asked for, as just that."""
        log = run.job is not None and run.job.log is not None
        named = {
            "job": run.job, "log": log or None, "checkpoints": run.checkpoints,
            "tracker": run.trackers or None,
            "monitor": run.monitor, "host": run.job, "code": run.code,
        }  # fmt: skip
        news = {
            name: _UNASKED
            for name, spec in named.items()
            if spec is not None and name not in asked and not getattr(self, name).configured
        }
        return self.model_copy(update=news)

    def as_remembered(self) -> "Facets":
        """Return them as what a store remembers: nobody has asked since."""
        known = {name: facet.model_copy(update=REMEMBERED) for name, facet in self.items()}
        return self.model_copy(update=known)


_UNASKED: Final = Facet[Any].model_construct(source="cockpit", error=UNASKED)
"""No attempt has failed: it is unknown since no time that anybody could tell."""
_OF_LOOKS: Final = frozenset({"checked_at", "facets", "looks", "day"})
"""Of a report, what another look alone makes another one, or holds such a thing."""


class Progress(Frozen):
    """How far: ``text`` has no separators (``~4600/5155``, ``~4600/unknown``; C-20), ``words`` has.

    ``step_source`` says who tells the step: ``tracker``, ``log`` or ``checkpoints``.
    """

    step: int | None
    step_source: str | None = None
    final_step: int | None
    final_step_source: str | None
    final_step_doubt: str | None = None
    """What another source says that differs, or where a job ends before; one line."""
    text: str
    eta_s: Seconds | None = None

    @property
    def words(self) -> str:
        """The same as a person reads it: ``~4,600/5,155``."""
        done = "unknown" if self.step is None else f"~{self.step:,}"
        return f"{done}/{'unknown' if self.final_step is None else f'{self.final_step:,}'}"


class RunReport(Frozen):
    """Everything that is known of one run at ``checked_at``: the snapshot that crosses to a UI."""

    spec: RunSpec
    checked_at: Instant
    verdict: Verdict
    facets: Facets
    progress: Progress
    alerts: tuple[Alert, ...] = ()
    closed: tuple[ClosedAlert, ...] = ()
    next_action: str
    next_check_at: Instant | None = None
    watched_by: str | None = None
    owner: OwnerNow | None = None
    """Who answers for the run (``spec.dri``) by whose word; ``None`` before anything was judged."""
    goodput: Goodput | None = None
    cost: Cost | None = None
    """What it has cost; ``None`` without a price in the run file."""
    looks: Looks = Looks.model_construct()
    """When its job was looked at; not part of the document."""
    day: Day = Day.model_construct()
    """How it was in the last 24 hours; not part of the document."""
    stopped_by: str | None = None
    """Who had the job stopped from here, once it is over."""
    verdict_reason: str | None = None
    """Why the verdict is the one it is, in one line."""
    agents: tuple[AgentAct, ...] = ()
    """What agents plan, are about to do or did of late on it, newest first."""
    standing: StandingOrder | None = None
    """The standing order that is in force."""
    not_read_yet: str | None = None
    """Why it counts neither as well nor as sick: what nobody has asked since the engine started."""

    def as_remembered(self) -> "RunReport":
        """Return it as what a store remembers: no verdict that it is well, no time left.

        An alert stays open until it is seen to have closed.
        """
        well = self.verdict is Verdict.HEALTHY
        changes: dict[str, Any] = {
            "facets": self.facets.as_remembered(),
            "verdict": Verdict.UNKNOWN if well else self.verdict,
            "verdict_reason": NOT_ASKED if well else self.verdict_reason,
            "progress": self.progress.model_copy(update={"eta_s": None}),
            "agents": (),
            "standing": None,
            "not_read_yet": NOT_ASKED,
        }
        if not self.alerts:
            changes["next_action"] = f"wait for the first look: {NOT_ASKED}"
        return self.model_copy(update=changes)

    def reads_as(self, former: "RunReport", but: Collection[str] = ()) -> bool:
        """Return whether it says what ``former`` said: looked at again, all was as it was.

        That is most reports. One whose looks are older than the former's is another one.
        Whatever the facets named ``but`` say does not matter.
        """
        ours, theirs = self.__dict__, former.__dict__
        same = all(
            each is theirs[name] or each == theirs[name]
            for name, each in ours.items()
            if name not in _OF_LOOKS
        )
        days = (self.day.end, self.day.cells) == (former.day.end, former.day.cells)
        later = self.checked_at >= former.checked_at
        return same and days and later and self.facets.read_as(former.facets, but)

    @property
    def usual_step_s(self) -> float | None:
        """Seconds from one step to the next, as the tracker tells or the time left was reckoned."""
        tracker, progress = self.facets.tracker.value, self.progress
        if tracker is not None and tracker.usual_step_s is not None:
            return tracker.usual_step_s
        left = (progress.final_step or 0) - (progress.step or 0)
        return progress.eta_s / left if progress.eta_s and left > 0 else None

    @property
    def name(self) -> str:
        """The run's slug."""
        return self.spec.name

    @property
    def rows_unread(self) -> bool:
        """True when the tracker has rows that were not read: what they hold is unknown."""
        tracker = self.facets.tracker
        value = tracker.value
        return value is not None and tracker.known and value.step is not None and value.scanned < 1

    @property
    def worst(self) -> Alert | None:
        """The alert to read first (monitor staleness last: it never changes the verdict)."""
        return self.alerts[0] if self.alerts else None

    def document(self) -> dict[str, Any]:
        """Return one entry of ``check --json``'s ``runs``."""
        now = self.checked_at
        waits = {} if self.not_read_yet is None else {"not_read_yet": self.not_read_yet}
        acts = {"agents": [act.to_json() for act in self.agents]} if self.agents else {}
        order = {} if self.standing is None else {"standing": self.standing.to_json()}
        return {
            "name": self.name,
            "verdict": self.verdict.value,
            "verdict_reason": self.verdict_reason,
            "facets": {name: facet.document(now) for name, facet in self.facets.items()},
            "progress": self.progress.to_json(),
            "alerts": [alert.to_json() for alert in self.alerts],
            "next_action": self.next_action,
            "owner": None if self.owner is None else self.owner.to_json(),
            "goodput": None if self.goodput is None else self.goodput.document(),
            "cost": None if self.cost is None else self.cost.to_json(),
            **acts,
            **order,
            **waits,
        }


_LOOKS, _DAY = Looks.model_construct(), Day.model_construct()


def unread(run: RunSpec, facets: Facets, now: float) -> RunReport:
    """Return the report of a run that no rule has seen yet."""
    final = run.final_step
    return RunReport.model_construct(
        spec=run,
        checked_at=now,
        verdict=Verdict.UNKNOWN,
        facets=facets.as_unasked(run),
        progress=Progress.model_construct(
            step=None,
            final_step=final,
            final_step_source=None if final is None else run.final_step_source,
            text=f"unknown/{'unknown' if final is None else final}",
        ),
        next_action="wait for the first look",
        looks=_LOOKS,  # else each report would have copies of its own
        day=_DAY,
        verdict_reason=NOT_ASKED,
        not_read_yet=NOT_ASKED,
    )


class FleetReport(Frozen):
    """One check of many runs."""

    checked_at: Instant
    runs: tuple[RunReport, ...]

    def document(self) -> dict[str, Any]:
        """Return the whole of ``check --json``."""
        return {
            "schema": 1,
            "checked_at": rfc3339(self.checked_at),
            "runs": [run.document() for run in self.runs],
        }


def orders_in_force(reports: Iterable[RunReport], now: float, ends: str) -> list[str]:
    """Return a line for each standing order; ``ends`` says how a person ends it."""
    return [
        f"{each.name}: {each.standing.text(now)}{ends}"
        for each in reports
        if each.standing is not None
    ]


def present_tracker(report: RunReport) -> TrackerValue | None:
    """Return the tracker's value, unless its newest row is known to be a former job's."""
    found = report.facets.tracker.value
    return None if found is None or _is_former(report, found) else found


def present_loss(report: RunReport) -> tuple[str, float | None]:
    """Return the present job's newest loss, and which facet tells it: the tracker, else the log."""
    current = present_tracker(report)
    if current is not None and current.loss is not None:
        return "tracker", current.true_loss
    row = _newest_row(report)
    return "log", None if row is None else row.true_loss


def loss_at(report: RunReport) -> float | None:
    """Return when that loss was logged (s since the epoch); ``None``: unknown.

    When its file was looked at, or written, is another time: a run may stand still for hours.
    """
    current = present_tracker(report)
    if current is not None and current.loss is not None:
        return current.last_step_at
    row = _newest_row(report)
    return None if row is None else row.at


def phase_text(job: Facet[JobValue]) -> str:
    """Return a job's phase for a text that is read elsewhere and later: ``running``, ``failed``.

    A job that gave no answer is not said to be alive: the text says when it was last seen so.
    """
    value = job.value
    if value is None or value.phase is Phase.UNKNOWN:
        return Phase.UNKNOWN.value
    word = "stopped" if value.stopped is not None else value.phase.value
    if job.known or not (job.remembered or value.phase.lives):
        return word
    return f"unknown (was {word} {utc_minute(job.observed_at)})"


def _newest_row(report: RunReport) -> Row | None:
    """Return the present job's newest row of the log with a loss."""
    log = report.facets.log.value
    rows, began = log.rows if log is not None else (), _began(report)
    if report.facets.tracker.value is not None and present_tracker(report) is None:
        rows = tuple(row for row in rows if row.at is not None and row.at >= (began or 0.0))
    last = log.newest_loss if log is not None else None
    if last is not None and (last.at or 0.0) < (began or 0.0):
        last = None  # a former job's, in the same file
    return next((row for row in reversed(rows) if row.loss is not None), last)


def _is_former(report: RunReport, tracker: TrackerValue) -> bool:
    began, source = _began(report), report.progress.step_source
    if began is None or tracker.last_step_at is None or (source or "").startswith("tracker"):
        return False
    return tracker.last_step_at < began


def _began(report: RunReport) -> float | None:
    job = report.facets.job.value
    return None if job is None else job.started_at


SORTS: Final = ("need", "name", "file", "time left")
"""How runs can be sorted; equals keep the run file's order."""
GROUPS: Final = ("", "cluster", "dri", "group")
"""By what runs can be grouped; ``""``: not at all."""


class View(Frozen):
    """What is shown of a fleet, how, and where the cursor stood."""

    filter: str = ""
    sort: str = SORTS[0]
    group: str = GROUPS[0]
    hide_finished: bool = False
    favourites: tuple[str, ...] = ()
    selected: str | None = None
    """The run that the cursor stood on."""
    critical: tuple[str, ...] = ()
    """The runs that were critical then: another one is news, and takes the cursor."""

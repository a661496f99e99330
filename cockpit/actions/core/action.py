"""What an action is: its context, its parameters, a draft that is shown, steps that are done."""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, ParamSpec, Protocol, TypeVar

from cockpit.model.base import parse_duration, rfc3339
from cockpit.model.clock import Clock
from cockpit.model.jobs import Live
from cockpit.model.observed import Pick
from cockpit.model.plan import REMARKS, Approval, Draft, Level, Plan, Request
from cockpit.model.records import Claim
from cockpit.model.report import RunReport
from cockpit.model.run import CockpitFile, RunSpec
from cockpit.model.shared_facts import OWNER, own_word, typist
from cockpit.model.wording import duration
from cockpit.model.wording import plural as plural
from cockpit.platforms.base import CannotError, Platform
from cockpit.runtime.offload import offload
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.store import Store, StoreError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

if TYPE_CHECKING:
    from cockpit.notify.notifier import Notifications
    from cockpit.records.recorder import RecordWriter


STARTED: Final = "started"


class Guard(Protocol):
    """A claim on a lineage that other machines can see. Never raises; each call has a deadline."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands, changing nothing."""

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim by compare-and-swap; ``over`` replaces one that someone else left."""

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim is still ours (``None``: cannot be told)."""

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Give the claim back if it is ours; ``used``: its launch id may have started a job."""

    async def clear(self, run: RunSpec) -> None:
        """Remove the claim if a process of this machine left it that lives no more."""


@dataclass(frozen=True)
class Dependencies:
    """The services that actions use, fixed for the life of a cockpit.

    ``store`` is ``None`` when it cannot be used; ``notifier`` returns the notifications of the
    run file in use.
    """

    clock: Clock
    store: Store | None
    journal: Journal | None
    platforms: Callable[[RunSpec], Platform | None]
    guards: tuple[Guard, ...]
    recorder: RecordWriter
    notifier: Callable[[], Notifications]
    look: Callable[[str], Awaitable[RunReport]]
    login: str = ""
    """The account of this machine that acts, whatever name the operator goes by."""
    reread: Callable[[], CockpitFile] | None = None
    """Reads the run file as it lies there now, whatever is in use; raises ``ConfigError``."""
    drafts: Path | None = None
    """The folder with entries that were begun and not saved; ``None``: not looked for."""


@dataclass(frozen=True)
class ActionContext:
    """One run at the moment of planning."""

    file: CockpitFile
    spec: RunSpec
    report: RunReport
    key: str
    now: float
    operator: str
    parts: Dependencies
    live: Live
    entries: tuple[JournalEntry, ...] = ()
    launch_id: str | None = None
    claims: tuple[Claim, ...] = ()
    ids_unread: tuple[str, ...] = ()
    """Where launch ids may stand that were given out and could not be looked up, and why not."""

    @property
    def typed_by(self) -> str:
        """Who is at the keyboard: the operator's name, and the account where it differs."""
        return typist(self.operator, self.parts.login)

    @property
    def people(self) -> frozenset[str]:
        """Those whom the run file and the records of this run name."""
        return people_of(self.file, self.report)

    def is_word_of(self, name: str) -> bool:
        """Tell whether what is typed now is ``name``'s own word."""
        return own_word(name, self.typed_by, self.people)

    @property
    def platform(self) -> Platform | None:
        """The platform of the run's job; ``None`` for a run that names no job."""
        return self.parts.platforms(self.spec)

    @property
    def acting_platform(self) -> Platform | None:
        """The platform if this version can act on its jobs."""
        return acting(self.platform)

    @property
    def job_id(self) -> str:
        """The id of the present job; empty without one."""
        job = self.report.facets.job.value
        return (job.id if job is not None else None) or ""

    @property
    def job_start(self) -> str:
        """When the present job began, for a fact; empty if that is not known."""
        job = self.report.facets.job.value
        return "" if job is None or job.started_at is None else f"{job.started_at:.3f}"


def people_of(file: CockpitFile, report: RunReport | None) -> frozenset[str]:
    """Return the people that a run file names and, with a report, those that its run was handed."""
    named = {run.dri for run in file.runs} | {file.notify.second}
    records = None if report is None else report.facets.records.value
    for told in () if records is None else records.told:
        if told.what == OWNER:
            named |= {told.value, told.parts.get("from")}
    return frozenset(name for name in named if name)


def job_in(facts: Mapping[str, str]) -> tuple[str, float | None]:
    """Return the job that a plan's facts name: its id, and when it began."""
    started = facts.get(STARTED)
    return facts.get("job", ""), float(started) if started else None


def acting(platform: Platform | None) -> Platform | None:
    """Return a platform if this version can act on its jobs."""
    return platform if platform is not None and platform.acts else None


def living(report: RunReport, live: Live) -> Live:
    """Return what lives of a run's lineage: what waits for its job's end is told with that job."""
    job = report.facets.job.value
    return live if job is None else live.without_waiting(job.queued)


REACH: Final = "reach"
"""The step that sees whether anybody has been told."""
ANSWER_WITHIN: Final = 15.0
PAGE_FRESH_FOR: Final = 900.0
"""Seconds for which a page that was shown may still be used: its figures have ages of their own."""
Failpoint = Callable[[str], None]
"""Called at every point where a crash could fall, with its name: tests kill the process there."""
P = ParamSpec("P")
T = TypeVar("T")


class SkipStep(Exception):  # noqa: N818 - it is an answer, not an error
    """The step has nothing to do; the text says why."""


class StepError(Exception):
    """The step did not do what it should, and it is known that nothing more will come of it."""


class StepUnknownError(Exception):
    """It is not known what the step did: it must be looked up before anything else."""


class RefuseError(Exception):
    """The request makes no sense (a step that is no number); nothing is planned."""


class UnansweredError(StoreError):
    """The store did not answer in time: what it was asked to write may be written yet."""


async def asked(ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Ask the store in a thread; raises ``StoreError``, ``UnansweredError`` if none came."""
    try:
        return await offload(functools.partial(ask, *args, **kwargs), deadline=ANSWER_WITHIN)
    except TimeoutError as error:
        raise UnansweredError(f"the journal did not answer within {ANSWER_WITHIN:g} s") from error


class Held(Protocol):
    """What an action holds of its run, so that nobody else acts on it meanwhile."""

    async def lost(self) -> str | None:
        """Say why the run is not ours any more, asked right before a job is let go."""

    async def lost_since(self) -> str | None:
        """Say the same between two steps: who was stopped for a while finds out."""


class Unheld(Held):
    """Nothing is held, and nothing can be lost: what is left of an action after a crash."""

    async def lost(self) -> str | None:
        """Return ``None``."""
        return None

    async def lost_since(self) -> str | None:
        """Return ``None``."""
        return None


@dataclass
class Execution:
    """What the steps of one action share; everything in it is in the journal already."""

    context: ActionContext
    plan: Plan
    entry: JournalEntry
    journal: Journal
    facts: dict[str, str] = field(default_factory=dict)
    job_id: str | None = None
    trouble: str | None = None
    unknown: bool = False
    at: Failpoint = lambda point: None
    pushing: set[Path] = field(default_factory=set)
    held: Held = field(default_factory=Unheld)

    @property
    def launch_id(self) -> str:
        """The launch id that this action was given."""
        return self.entry.launch_id or ""

    @property
    def platform(self) -> Platform:
        """Its platform; raises ``CannotError`` where this version cannot act on its jobs."""
        found = self.context.acting_platform
        if found is None:
            raise CannotError("this kind of job is not supported yet")
        return found

    async def live(self, run: RunSpec | None = None) -> Live:
        """Return what lives of a run (this one, if none is named) at this moment."""
        asked_for = run or self.context.spec
        return (await self.platform.live([asked_for]))[asked_for.name]

    async def note(self, **facts: str) -> None:
        """Write into the journal what was learned, before going on."""
        self.facts.update(facts)
        await asked(self.journal.note, self.entry.number, self.facts, self.job_id)


@dataclass(frozen=True)
class Step:
    """One thing to do. ``run`` returns one line about what was seen, or ``None``.

    A step that ``records`` may be done again after a crash (it finds what is there already),
    and when it fails the action was still done. ``after_failure`` marks one that is also done
    when a step before it has failed (``Execution.trouble`` says how): a failure is recorded too.

    Where a crash has cut an action short, the next cockpit does what is ``again`` (harmless when
    it is done twice: marks, intents) up to the first step that is not. ``seen`` looks whether a
    step that was begun has happened (the text says what is there; ``None``: not whole).
    """

    name: str
    run: Callable[[Execution], Awaitable[str | None]]
    records: bool = False
    after_failure: bool = False
    again: bool = False
    seen: Callable[[Execution], Awaitable[str | None]] | None = None


def looking_first(step: Step, look: Callable[[Execution], Awaitable[None]]) -> Step:
    """Return a step that looks first; ``look`` raises ``SkipStep`` where nothing is to be done."""

    async def run(execution: Execution) -> str | None:
        await look(execution)
        return await step.run(execution)

    return replace(step, run=run)


class Action(ABC):
    """One guarded action. ``exclusive`` ones hold the run's lease; ``launches`` get a launch id."""

    verb: ClassVar[str]
    exclusive: ClassVar[bool] = False
    launches: ClassVar[bool] = False

    @abstractmethod
    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be done and what speaks for and against it; changes nothing.

        Raises ``RefuseError`` with one line for a request that makes no sense.
        """

    @abstractmethod
    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return the steps in their order; the same plan always gives the same steps."""

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what has changed between two plans so that the first may not be done, if any.

        Unless an action says otherwise, everything that matters must be the same.
        """
        return unchanged(shown, now)

    def measured(self, plan: Plan, report: RunReport) -> Plan:
        """Return the plan with the figures that a living run moves, as the report has them."""
        return plan


class PageAction(Action):
    """An action whose plan is a page with figures that go on moving with a living run."""

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return why a page that was shown may not be used: it is old, or something blocks now."""
        old = now.made_at - shown.made_at
        if not -PAGE_FRESH_FOR <= old <= PAGE_FRESH_FOR:
            return f"the page is {duration(old)} old"
        fresh = {check.id for check in now.checks if check.level is Level.BLOCK}
        new = fresh - {check.id for check in shown.checks if check.level is Level.BLOCK}
        return f"{min(new)} blocks it now" if new else None


def unchanged(shown: Plan, now: Plan) -> str | None:
    """Return what differs between two plans, but for figures that move by themselves."""
    if shown.plan_id == now.plan_id:
        return None
    was = {check.id: check for check in shown.checks}
    for check in now.checks:
        if check.about_acting:
            continue
        old = was.get(check.id)
        if old is None or (check.level, check.value, check.text) != (
            old.level, old.value, old.text,
        ):  # fmt: skip
            if check.moves and old is not None and old.level is check.level:
                continue
            return f"{check.id}: {check.text}"
    return other_than(shown, now)


def grown(shown: Plan, now: Plan) -> str | None:
    """Return what would be lost now, if that is past what was shown by a checkpoint's worth."""
    if now.lost is None or shown.lost is None or not now.lost.beyond(shown.lost):
        return None
    return f"it would now lose {now.lost.text}; the plan said {shown.lost.text}"


def other_than(shown: Plan, now: Plan) -> str:
    """Return in one line what differs between two plans that are not the same."""
    if shown.facts.get("launch_id") != now.facts.get("launch_id"):
        was, new = (plan.facts.get("launch_id", "none") for plan in (shown, now))
        return f"the launch id is now {new}; {was} was used or given up meanwhile"
    for name, what in _NAMED.items():
        was, new = getattr(shown, name), getattr(now, name)
        if was != new:
            return f"{what}: was {_in_few_words(was)}, is now {_in_few_words(new)}"
    gone = {check.id for check in shown.checks} - {check.id for check in now.checks}
    if gone:
        return f"the check {min(gone)} is no longer in the plan"
    facts = {*shown.facts.items()} ^ {*now.facts.items()}
    other = sorted({name for name, _ in facts} - REMARKS)
    if not other:
        return "it was requested differently"
    return f"{', '.join(other).replace('_', ' ')} changed"


_NAMED: Final = {
    "stops": "what will be stopped",
    "checkpoint": "the checkpoint",
    "command": "the command",
    "trainer_would_load": "what the trainer would load",
    "targets": "what will be deleted or moved",
    "spares": "what is not touched",
    "keeps": "what is kept",
    "differences": "what differs from what ran",
    "page": "the page",
    "can_save_first": "whether it can save first",
    "can_cancel_next": "whether what starts by itself can be cancelled",
}


def _in_few_words(value: object) -> str:
    """Return one field of a plan in few words."""
    if isinstance(value, Pick):
        return f"step {value.step} ({value.path})"
    if isinstance(value, tuple) and not all(isinstance(each, str) for each in value):
        return f"{len(value)} of them"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "nothing" if value is None else str(value)[:200]


_STEP: Final = re.compile(r"(?:step[-_ ]?)?(\d[\d,_]{0,18})", re.ASCII)


def step_param(text: str | None, name: str) -> int:
    """Return a step that a person typed (``46000``, ``46,000``, ``step-46000``).

    Raises ``RefuseError`` for anything else.
    """
    found = _STEP.fullmatch((text or "").strip().lower())
    if found is None:
        raise RefuseError(f"--{name} is {clean(text)!r}; expected a step such as 46000")
    return int(re.sub(r"[,_]", "", found[1]))


def yes_param(text: str | None, name: str) -> bool:
    """Return whether an option says yes; raises ``RefuseError`` for what is neither."""
    word = (text or "no").strip().lower()
    if word in ("yes", "true", "y", "1", "on"):
        return True
    if word in ("no", "false", "n", "0", "off", ""):
        return False
    raise RefuseError(f"--{name} is {clean(text)!r}; expected yes or no")


NOW: Final = "now"
_LONG: Final = re.compile(r"[+]?[\d.]+\s*(?:ms|[smhdw]).*", re.I)


def until_param(text: str | None, now: float) -> str | None:
    """Return RFC 3339 or a duration as it was meant; raises ``RefuseError``.

    A duration stays one until it is done: planning it again does not make another plan.
    """
    word = (text or "").strip()
    if not word or word.lower() == NOW:
        return word.lower() or None
    try:
        if _LONG.fullmatch(word):
            parse_duration(word.lstrip("+"))
            return word.lstrip("+").lower()
        moment = datetime.fromisoformat(word.replace("Z", "+00:00"))
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        expected = "a time such as 2026-03-11T09:00:00Z, a duration such as 2h, or now"
        raise RefuseError(f"--until is {safe(word)!r}; expected {expected}") from error
    return rfc3339(at)


def until_instant(until: str, now: float) -> float | None:
    """Return the instant that ``until_param`` meant, counted from ``now`` (s since the epoch)."""
    if not until:
        return None
    if until == NOW:
        return now
    if _LONG.fullmatch(until):
        return now + parse_duration(until)
    return datetime.fromisoformat(until.replace("Z", "+00:00")).timestamp()


def text_param(request: Request, name: str, *, lines: bool = False) -> str:
    """Return an option as safe text, its secrets masked; one line unless ``lines``."""
    given = request.params.get(name, "")
    if lines:
        return scrub("\n".join(clean(line, 4000) for line in given.splitlines()))
    return scrub(clean(given, 1000)).strip()


def required_param(request: Request, name: str, what: str) -> str:
    """Return an option that must be given; raises ``RefuseError`` that says what is expected."""
    found = text_param(request, name)
    if not found:
        raise RefuseError(f"--{name} is missing: {what}")
    return found


def masked_plan(plan: Plan) -> Plan:
    """Return a plan as it may be shown: also what an action finds things by, masked."""
    masked: Plan = Plan.model_validate(_masked(plan.model_dump()))
    return masked


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_masked, value))
    return scrub(value) if type(value) is str else value


def safe(text: object) -> str:
    """Return one safe line with its secrets masked."""
    return scrub(clean(text, 4096))


def masked_request(
    request: Request, approvals: Sequence[Approval]
) -> tuple[Request, tuple[Approval, ...]]:
    """Return both as they may be kept: what a person typed can hold a secret too."""
    params = {name: scrub(value) for name, value in request.params.items()}
    given = (
        each.model_copy(update={"by": scrub(each.by), "reason": scrub(each.reason)})
        for each in approvals
    )
    return request.model_copy(update={"params": params}), tuple(given)

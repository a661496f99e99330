"""What an action is: a draft that is shown, and steps that are done (SPEC A)."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final, ParamSpec, Protocol, TypeVar

from cockpit.actions.core.context import ActionContext
from cockpit.model.observed import Pick
from cockpit.model.plan import REMARKS, Draft, Level, Plan, Request
from cockpit.model.report import RunReport
from cockpit.model.wording import duration
from cockpit.runtime.offload import offload
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.store import StoreError

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
            return f"{what}: was {_said(was)}, is now {_said(new)}"
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


def _said(value: object) -> str:
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

"""What an action is: a draft that is shown, and steps that are done (SPEC A)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cockpit.actions.ground import Ground
from cockpit.model.plan import Draft, Plan, Request
from cockpit.store.journal import JournalEntry


class SkipStep(Exception):  # noqa: N818 - it is an answer, not an error
    """The step has nothing to do; the text says why."""


class StepError(Exception):
    """The step did not do what it should, and it is known that nothing more will come of it."""


class StepUnknownError(Exception):
    """It is not known what the step did: it must be looked up before anything else."""


class RefuseError(Exception):
    """The request makes no sense (a step that is no number); nothing is planned."""


@dataclass
class Doing:
    """What the steps of one action share; everything in it is in the journal already."""

    ground: Ground
    plan: Plan
    entry: JournalEntry
    save: Callable[[], Awaitable[None]]
    facts: dict[str, str] = field(default_factory=dict)
    job_id: str | None = None
    trouble: str | None = None

    @property
    def launch_id(self) -> str:
        """The launch id that this action was given."""
        return self.entry.launch_id or ""

    async def note(self, **facts: str) -> None:
        """Write into the journal what was learned, before going on."""
        self.facts.update(facts)
        await self.save()


@dataclass(frozen=True)
class Step:
    """One thing to do. ``run`` returns one line about what was seen, or ``None``.

    A step that ``records`` may be done again after a crash (it finds what is there already),
    and when it fails the action was still done. ``after_failure`` marks one that is also done
    when a step before it has failed (``Doing.trouble`` says how): a failure is recorded too.
    """

    name: str
    run: Callable[[Doing], Awaitable[str | None]]
    records: bool = False
    after_failure: bool = False


class Action(Protocol):
    """One guarded action. ``exclusive`` ones hold the run's lease; ``launches`` get a launch id."""

    verb: str
    title: str
    exclusive: bool
    launches: bool

    async def draft(self, ground: Ground, request: Request) -> Draft:
        """Return what would be done and what speaks for and against it; changes nothing.

        Raises ``RefuseError`` with one line for a request that makes no sense.
        """

    def steps(self, ground: Ground, plan: Plan) -> Sequence[Step]:
        """Return the steps in their order; the same plan always gives the same steps."""

    def still_holds(self, shown: Plan, now: Plan) -> str | None:
        """Return what has changed between two plans so that the first may not be done, if any."""


def unchanged(shown: Plan, now: Plan) -> str | None:
    """Return the plain answer of ``still_holds``: everything that matters must be the same."""
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
    return "the plan is another one now"

"""A guarded action as values: what was asked, the plan, the approvals, and how it ended (SPEC A).

The JSON shapes are INTERFACE's ("Actions without the UI"), extended, never renamed. Every text
in here is one safe line with its secrets masked, unless it says otherwise.
"""

import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from cockpit.model.base import Frozen, Instant
from cockpit.model.observed import Pick
from cockpit.model.outcome import Outcome as Outcome
from cockpit.model.outcome import Records, ending, records_of
from cockpit.model.people import is_agent, same_person, worded
from cockpit.model.plan_words import summary

ID_LENGTH = 12
REMARKS: Final = frozenset({"reason", "note"})
"""What is only said of an action: without it, or with another one, the same is done."""


class Level(StrEnum):
    """What a check says: go on, go on although it warns, or stop."""

    PASS = "pass"
    WARN = "warn"
    BLOCK = "block"


class Basis(StrEnum):
    """Where a check's value comes from; inferred ones are labelled wherever shown."""

    RECORDED = "recorded"
    OBSERVED = "observed"
    INFERRED = "inferred"


class Approval(Frozen):
    """Who lets a block pass, and why: it goes into the logbook and the issue by name.

    ``typed_by`` is who was at the keyboard (``cockpit.model.people.typist``), set by whoever acts
    on it; ``own`` is False where that was another than ``by``. ``seen`` is the block as it was
    shown (``Check.standing``): one that has changed since needs a new approval.
    """

    check: str
    by: str
    reason: str
    typed_by: str | None = None
    own: bool = True
    seen: str | None = Field(default=None, exclude=True)

    @property
    def whose(self) -> str:
        """``ada``, or ``ada, typed by bob``: whose word it is said to be, and who typed it."""
        return worded(self.by, self.typed_by)


class Check(Frozen):
    """One line of a plan. ``id`` is SPEC's (``C-15``, ``C-18:optimizer.lr``) or a short word.

    ``moves`` marks a figure that a living run changes by itself (its step, an age): such a check
    takes part in the plan's identity by its level alone. ``about_acting`` marks one that speaks
    of who else acts: it may block, but is no part of what would be done. ``approver`` is the one
    person whose approval counts, typed by that person, where it is not anybody's.
    """

    id: str
    level: Level
    text: str
    basis: Basis
    value: str | None = None
    overridable: bool = False
    approved: Approval | None = None
    approver: str | None = None
    moves: bool = Field(default=False, exclude=True)
    about_acting: bool = Field(default=False, exclude=True)

    @property
    def stands_in_the_way(self) -> bool:
        """True for a block that nobody has approved, or that cannot be."""
        return self.level is Level.BLOCK and (self.approved is None or not self.overridable)

    @property
    def standing(self) -> str | None:
        """What an approval of this block is an approval of; ``None`` where nothing blocks."""
        if self.level is not Level.BLOCK:
            return None
        return self.value or self.text


ABOUT_BEFORE: Final = frozenset(
    {"command", "commit", "dirty files that matter", "checkpoint", "W&B id", "hardware",
     "output root"}
)  # fmt: skip
"""What a launch leaves a record of: without one, it is not that it was not there."""


class Difference(Frozen):
    """One thing side by side: what ran, and what would run (``None``: not known or not there)."""

    what: str
    ran: str | None
    would_run: str | None

    @property
    def same(self) -> bool:
        """True when both are known and equal."""
        return self.ran is not None and self.ran == self.would_run

    @property
    def unrecorded(self) -> bool:
        """True when nobody knows what ran, of what every launch has."""
        return self.ran is None and self.what in ABOUT_BEFORE


class Target(Frozen):
    """Something that will be deleted or moved: its path, why it may be, and its size in bytes."""

    path: str
    step: int | None
    size: int | None
    why: str


class Loss(Frozen):
    """What stopping now would lose: steps since the last complete checkpoint, as one line.

    ``worth`` is how many steps lie between two checkpoints, where that is known: a loss that has
    grown by more than this since it was shown is another one, and is asked for again.
    """

    count: int
    text: str
    worth: int | None = None

    def beyond(self, shown: "Loss") -> bool:
        """Tell whether this is past what was shown, by more than a checkpoint's worth.

        Where that is not known, past twice as much: the figure that was agreed to is no measure
        any more.
        """
        return self.count - shown.count > (self.worth or max(1, shown.count))


class Draft(Frozen):
    """What an action wants to do, before it has an identity.

    ``command`` is scrubbed and whole. ``stops`` and ``spares`` name jobs: what will die and what
    will not. ``targets`` will be deleted or moved, ``keeps`` will not, each with its reason.
    ``page`` is Markdown to preview (a handoff, a comment, an entry), scrubbed, several lines.
    ``facts`` are values that the steps need; they are part of the identity and are journaled.
    """

    words: str
    checks: tuple[Check, ...] = ()
    command: str | None = None
    stops: tuple[str, ...] = ()
    spares: tuple[str, ...] = ()
    checkpoint: Pick | None = None
    trainer_would_load: Pick | None = None
    differences: tuple[Difference, ...] = ()
    loses: str | None = None
    lost: Loss | None = None
    targets: tuple[Target, ...] = ()
    keeps: tuple[Target, ...] = ()
    page: str | None = None
    can_save_first: bool = False
    can_cancel_next: bool = False
    """True where something starts by itself after the job, and can be cancelled with it."""
    facts: dict[str, str] = Field(default_factory=dict)


class Request(Frozen):
    """What a person asks for. ``params`` are the verb's options by their long names, as text."""

    action: str
    run: str
    operator: str
    params: dict[str, str] = Field(default_factory=dict)


class Plan(Draft):
    """A draft with its identity: the same ``plan_id`` means that nothing that matters changed."""

    plan_id: str
    action: str
    run: str
    made_at: Instant
    operator: str = ""
    params: dict[str, str] = Field(default_factory=dict)

    @property
    def blocked(self) -> bool:
        """True while a block stands in the way."""
        return any(check.stands_in_the_way for check in self.checks)

    @property
    def summary(self) -> str:
        """What it does, in one plain sentence or two; no part of its identity."""
        return summary(self)

    def approved(self, approvals: tuple[Approval, ...]) -> "Plan":
        """Return the plan with approvals put to the blocks that they name and that allow one."""
        by_check = {approval.check: approval for approval in approvals}
        checks = tuple(
            check.model_copy(update={"approved": by_check[check.id]})
            if _may_approve(check, by_check.get(check.id))
            else check
            for check in self.checks
        )
        return self.model_copy(update={"checks": checks})

    def document(self) -> dict[str, Any]:
        """Return INTERFACE's plan."""
        said = {"summary": self.summary, "blocked": self.blocked}
        return {"schema": 1, **said, **self.to_json()}


def plan_of(request: Request, draft: Draft, now: float) -> Plan:
    """Return the plan that a request and its draft make."""
    fields = {name: getattr(draft, name) for name in Draft.model_fields}
    return Plan(
        **fields,
        plan_id=_identity(request, draft),
        action=request.action,
        run=request.run,
        made_at=now,
        operator=request.operator,
        params=request.params,
    )


def _may_approve(check: Check, approval: Approval | None) -> bool:
    if approval is None or not check.overridable or is_agent(approval.typed_by or approval.by):
        return False
    if approval.seen is not None and approval.seen != check.standing:
        return False
    return check.approver is None or (approval.own and same_person(approval.by, check.approver))


def deeds(values: Mapping[str, str]) -> dict[str, str]:
    """Return options or facts without the remarks."""
    return {name: value for name, value in values.items() if name not in REMARKS}


def _identity(request: Request, draft: Draft) -> str:
    """Return a digest of everything but the words and the figures that move by themselves."""
    plain = draft.to_json()
    for moving in ("words", "loses", "lost"):
        plain.pop(moving)
    plain["facts"] = deeds(plain["facts"])
    plain["checks"] = [
        [
            check.id,
            check.level.value,
            None if check.moves else (check.value or check.text),
            check.approver,
        ]
        for check in draft.checks
        if not check.about_acting
    ]
    asked = [request.action, request.run, deeds(request.params)]
    text = json.dumps([asked, plain], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:ID_LENGTH]


class StepState(StrEnum):
    """How one step of an action ended; ``begun`` means that nobody has said how."""

    BEGUN = "begun"
    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNKNOWN = "unknown"


class StepResult(Frozen):
    """One step: ``note`` is one line, what was seen."""

    name: str
    state: StepState
    at: Instant
    note: str | None = None


class Result(Frozen):
    """How an action ended. ``recorded`` is False when it was done but not written down.

    ``records`` says how far it is. ``waiting`` are the files whose push goes on behind, ``entry``
    is its number in the journal.
    """

    plan_id: str
    outcome: Outcome
    job_id: str | None = None
    launch_id: str | None = None
    steps: tuple[StepResult, ...] = ()
    message: str = ""
    recorded: bool = True
    records: Records | None = None
    waiting: tuple[str, ...] = Field(default=(), exclude=True)
    entry: int | None = Field(default=None, exclude=True)

    @property
    def written(self) -> Records:
        """How far it is written down."""
        return self.records or records_of(None, recorded=self.recorded)

    @property
    def text(self) -> str:
        """How it ended, in the words that stand everywhere."""
        return ending(self.outcome, self.written)

    def document(self) -> dict[str, Any]:
        """Return INTERFACE's result."""
        return {"schema": 1, **self.to_json()}

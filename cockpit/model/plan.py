"""A guarded action as values and in plain sentences: asked, planned, approved, ended (SPEC A).

The JSON shapes are INTERFACE's ("Actions without the UI"), extended, never renamed.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from cockpit.model.acts import Outcome as Outcome
from cockpit.model.acts import Records, ending, records_of
from cockpit.model.base import Frozen, Instant
from cockpit.model.lineage import named
from cockpit.model.observed import Pick
from cockpit.model.shared_facts import is_agent, same_person, worded
from cockpit.model.wording import duration, plural, size, steps

NAMED: Final = 2
"""Jobs that a sentence names; more are counted."""
LONG: Final = 48
"""Characters from which on a job goes by its id in a sentence: its name stands below, whole."""
UNTOUCHED: Final = "The job is not touched."


class _Tense:
    """Says what a plan does, or, while it is blocked, what it would do."""

    def __init__(self, blocked: bool) -> None:
        self._blocked = blocked

    def __call__(self, verb: str) -> str:
        """Return ``stops``, or ``would stop``."""
        return f"would {verb}" if self._blocked else f"{verb}s"

    def also(self, verb: str) -> str:
        """Return the same behind an ``and``: ``stops``, or ``stop`` after a ``would``."""
        return verb if self._blocked else f"{verb}s"

    @property
    def will(self) -> str:
        """``will``, or ``would``."""
        return "would" if self._blocked else "will"


def summary(plan: "Plan") -> str:
    """Return what the plan does, in one plain sentence or two; a blocked one says so first."""
    words = _SENTENCES.get(plan.action, _other)(plan, _Tense(plan.blocked))
    said = " ".join(f"{each[:1].upper()}{each[1:]}" for each in words if each)
    count = sum(check.stands_in_the_way for check in plan.checks)
    blocks = f"{count} checks block it" if count > 1 else "1 check blocks it"
    return f"Cannot run now: {blocks}. {said}".rstrip() if plan.blocked else said


def _launch(plan: "Plan", does: _Tense) -> list[str]:
    return [f"{does('start')} {plan.run} by its recorded command.", _stopped(plan, does)]


def _relaunch(plan: "Plan", does: _Tense) -> list[str]:
    stops = f"{does('stop')} {_jobs(plan.stops)}. Then it " if plan.stops else ""
    loss = "" if _loads_another(plan) else _loss(plan, does)
    begins = f"{stops}{_begins(plan, does)}{loss}."
    return [_asks(plan, does), begins, "" if plan.stops else _stopped(plan, does)]


def _saves(plan: "Plan") -> bool:
    return plan.facts.get("save-first") == "yes"


def _asks(plan: "Plan", does: _Tense) -> str:
    return f"{does('ask')} the trainer for a checkpoint first." if _saves(plan) else ""


def _begins(plan: "Plan", does: _Tense) -> str:
    """Return where a resumed run begins, as sure as that is; at what is saved first, if it is."""
    ours, its = plan.checkpoint, plan.trainer_would_load
    if ours is None:
        return f"{does('start')} without a checkpoint that is known"
    where = f"that one (newest now: {named(ours)})" if _saves(plan) else named(ours)
    if (its is not None and its.path == ours.path) or _names(plan.command or "", ours.path):
        return f"{does('start')} from {where}"
    if its is None:
        return f"is meant to start from {where} (not known what the trainer picks itself)"
    return f"is meant to start from {where}, though the trainer would load {named(its)}"


def _loads_another(plan: "Plan") -> bool:
    """Tell whether the trainer would load another one: then nobody knows what is lost."""
    ours, its = plan.checkpoint, plan.trainer_would_load
    if ours is None or its is None or its.path == ours.path:
        return False
    return not _names(plan.command or "", ours.path)


def _names(command: str, path: str) -> bool:
    """Return whether a command names a path, not only one that begins alike."""
    return re.search(rf"{re.escape(path)}(?![\w.-])", command) is not None


def _loss(plan: "Plan", does: _Tense) -> str:
    """Return what is lost besides, without the step that the sentence has named already.

    What is lost by now is not, where a checkpoint comes first.
    """
    if _saves(plan):
        return f" and {does.also('lose')} only the steps after that checkpoint"
    if plan.loses is None:
        return ""
    pick = plan.checkpoint
    same = "" if pick is None or pick.step is None else f" since step {steps(pick.step)}"
    lost = plan.loses.replace(same, "", 1) if same else plan.loses
    return f" and {does.also('lose')} {lost.replace('(≈ ', '(about ')}"


def _stopped(plan: "Plan", does: _Tense) -> str:
    """Return what is stopped; that nothing is, only of a plan that could be done."""
    if plan.stops:
        return f"{does('stop')} {_jobs(plan.stops)}."
    return "" if plan.blocked else f"Nothing {does.will} be stopped."


def _jobs(names: tuple[str, ...]) -> str:
    if len(names) > NAMED:
        return plural(len(names), "job")
    return " and ".join(map(_short, names))


def _short(name: str) -> str:
    """Return a job's id alone where its name is a whole command line."""
    before, _, last = name.rpartition(" (")
    return last.removesuffix(")") if len(before) > LONG and name.endswith(")") else name


def _lineage(plan: "Plan", does: _Tense) -> list[str]:
    new, pick = plan.params.get("run-id", "a new run"), plan.checkpoint
    source = "a checkpoint that is not known" if pick is None else named(pick)
    begins = f"{does('start')} {new} from {source} of {plan.run}, with an identity of its own."
    return [begins, f"Nothing of {plan.run} itself {does.will} be stopped or changed."]


def _rollback(plan: "Plan", does: _Tense) -> list[str]:
    to = "an older checkpoint" if plan.checkpoint is None else named(plan.checkpoint)
    count = plural(len(plan.targets), "newer checkpoint")
    moves = " and moved aside" if plan.facts.get("move") == "yes" else ", not moved"
    gone = f": {count} {does.will} be marked rejected{moves}" if plan.targets else ""
    lost = f"{does('lose')} {plan.loses}." if plan.loses else ""
    return [f"the next relaunch {does('start')} from {to}{gone}.", lost,
            "" if plan.blocked else f"Nothing {does.will} be started or stopped."]  # fmt: skip


def _stop(plan: "Plan", does: _Tense) -> list[str]:
    if plan.facts.get("only") == "held":
        held = _jobs(plan.stops)
        return [f"{does('cancel')} only what is held of a launch: {held}." if held else ""]
    if not plan.stops:
        return []
    waiting = plan.facts.get("successors")
    if waiting and waiting == plan.facts.get("stops"):
        return [f"{does('cancel')} {_jobs(plan.stops)}, which would start by itself.",
                "" if plan.blocked else "No running job is stopped."]  # fmt: skip
    lost = _loss(plan, does) or ", and it is not known what is lost"
    return [_asks(plan, does), f"{does('stop')} {_jobs(plan.stops)}{lost}."]


def _retain(plan: "Plan", does: _Tense) -> list[str]:
    known = [each.size for each in plan.targets if each.size is not None]
    unknown = len(plan.targets) - len(known)
    total = f" ({size(sum(known))}{' or more' if unknown else ''})" if known else ""
    count = plural(len(plan.targets), "checkpoint")
    kept = f" {plural(len(plan.keeps), 'other')} {does.will} stay." if plan.keeps else ""
    return [f"{does('delete')} {count}{total} for good.{kept}"]


def _seal(plan: "Plan", does: _Tense) -> list[str]:
    step = plan.facts.get("step", "")
    at = f" at step {steps(int(step))}" if step.isdecimal() else ""
    tags = "a tag on its code and the final figures in its records, as far as it has them"
    return [f"{does('close')} {plan.run}{at}: {tags}.",
            "" if plan.blocked else f"Nothing {does.will} be stopped or deleted."]  # fmt: skip


def _handoff(plan: "Plan", does: _Tense) -> list[str]:
    to, of = plan.facts.get("to", "somebody"), plan.facts.get("of", "")
    now = f" (now {of})" if of else ""
    page = f"{does.also('write')} this page into its records"
    return [f"{does('make')} {to} the DRI of {plan.run}{now} and {page}.", UNTOUCHED]


def _escalate(plan: "Plan", does: _Tense) -> list[str]:
    who = next((check.value for check in plan.checks if check.id == "dri" and check.value), None)
    return [f"{does('tell')} {who or 'the DRI'} by notification, issue and logbook, as far as the "
            "run has them.", UNTOUCHED]  # fmt: skip


def _log(plan: "Plan", does: _Tense) -> list[str]:
    return [f"{does('append')} one entry to the logbook, then {does.also('commit')} it and "
            f"{does.also('start')} its push.", UNTOUCHED]  # fmt: skip


def _autolog(plan: "Plan", does: _Tense) -> list[str]:
    if plan.facts.get("off") == "yes":
        return [f"{does('end')} the automatic entries of the run file.", UNTOUCHED]
    return [f"{does('let')} the cockpit write and commit entries that nobody types, for all runs "
            "of the run file.", UNTOUCHED]  # fmt: skip


def _standing(plan: "Plan", does: _Tense) -> list[str]:
    if plan.facts.get("off") == "yes":
        return [f"{does('end')} the standing order of {plan.run}.", UNTOUCHED]
    may = next((check.text for check in plan.checks if check.id == "standing"), "")
    until = plan.facts.get("until", "")
    how_long = f"{'until' if 'T' in until else 'for'} {until}"
    return [f"{does('let')} the cockpit act on {plan.run} by itself {how_long}: {may}.", UNTOUCHED]


def _sync(plan: "Plan", does: _Tense) -> list[str]:
    to = "/".join(filter(None, (plan.facts.get("entity"), plan.facts.get("project"))))
    folders = _folders(plan.facts)
    if folders is None:
        return []
    what = f"{plural(folders, 'offline folder')} to {to} at W&B" if folders else "nothing"
    return [f"{does('upload')} {what}.", UNTOUCHED]


def _folders(facts: Mapping[str, str]) -> int | None:
    """Return how many folders would be sent, ``None`` where that was not looked at."""
    try:
        found = json.loads(facts["send"])
    except (KeyError, ValueError):
        return None
    return len(found) if isinstance(found, list) else None


def _teardown(plan: "Plan", does: _Tense) -> list[str]:
    kind, host = plan.facts.get("kind"), plan.facts.get("host")
    if kind is None:
        return []
    lost = f"; {does('lose')} {plan.loses}" if plan.loses else ""
    return [f"{does('run')} the recorded command to {kind.replace('_', ' ')} {host}{lost}."]


def _publish(plan: "Plan", does: _Tense) -> list[str]:
    return [f"{does('write')} TRAINING_LOG.md beside the model. Nothing {does.will} be uploaded."]


def _ack(plan: "Plan", does: _Tense) -> list[str]:
    key, by, until = (plan.facts.get(name, "") for name in ("key", "by", "until"))
    what = "the run's end" if key == "end" else f"the alert {key}"
    if until == "now":
        return [f"{does('end')} the acknowledgement of {what}: it asks for attention again."]
    how_long = f" {'until' if 'T' in until else 'for'} {until}" if until else ""
    return [f"{does('acknowledge')} {what} as {by}{how_long}: it stays open, but quiet."]


def _adopt(plan: "Plan", does: _Tense) -> list[str]:
    job, former = plan.facts.get("job", "a job"), plan.facts.get("former", "")
    now = f" (now {former})" if former and former != job else ""
    return [f"{does('make')} {job} the current job of {plan.run}{now}.", UNTOUCHED]


def _order(plan: "Plan", does: _Tense) -> list[str]:
    job = plan.facts.get("stops") or "the job"
    if plan.action == "extend":
        limit = duration(float(plan.facts.get("limit") or 0))
        return [f"{does('lengthen')} the time limit of {job} to {limit} in all.", UNTOUCHED]
    return [f"{does(plan.action)} {job} in the queue of its scheduler.", UNTOUCHED]


def _requeue(plan: "Plan", does: _Tense) -> list[str]:
    if not plan.stops:
        return []
    lost = _loss(plan, does) or ", and it is not known what is lost"
    again = "Its scheduler starts it again under the same id, with the code as it is then."
    return [_asks(plan, does), f"{does('end')} {_jobs(plan.stops)}{lost}.", again]


def _other(plan: "Plan", does: _Tense) -> list[str]:
    return [f"{does('run')} {plan.action} on {plan.run}."]


_SENTENCES: "Final[Mapping[str, Callable[[Plan, _Tense], list[str]]]]" = {
    "launch": _launch, "relaunch": _relaunch, "lineage": _lineage, "rollback": _rollback,
    "stop": _stop, "retain": _retain, "seal": _seal, "handoff": _handoff, "escalate": _escalate,
    "log": _log, "autolog": _autolog, "sync": _sync, "teardown": _teardown, "publish": _publish,
    "ack": _ack, "adopt": _adopt, "hold": _order, "release": _order, "extend": _order,
    "requeue": _requeue, "standing": _standing,
}  # fmt: skip


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

    ``typed_by`` is who was at the keyboard (``cockpit.model.shared_facts.typist``), set by whoever
    acts on it; ``own`` is False where that was another than ``by``. ``seen`` is the block as it was
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

"""A plan in one plain sentence or two: what happens if it is confirmed (SPEC A). Pure.

Made from the plan's own facts, so that it says the same on a screen, in ``--plan`` and in
``--json``, and never more than the plan knows: what is not known is called so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from cockpit.model.picking import named
from cockpit.model.wording import plural, size, steps

if TYPE_CHECKING:
    from cockpit.model.plan import Plan

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


def summary(plan: Plan) -> str:
    """Return what the plan does, in one plain sentence or two; a blocked one says so first."""
    words = _SENTENCES.get(plan.action, _other)(plan, _Tense(plan.blocked))
    said = " ".join(f"{each[:1].upper()}{each[1:]}" for each in words if each)
    count = sum(check.stands_in_the_way for check in plan.checks)
    blocks = f"{count} checks block it" if count > 1 else "1 check blocks it"
    return f"Cannot run now: {blocks}. {said}".rstrip() if plan.blocked else said


def _launch(plan: Plan, does: _Tense) -> list[str]:
    return [f"{does('start')} {plan.run} by its recorded command.", _stopped(plan, does)]


def _relaunch(plan: Plan, does: _Tense) -> list[str]:
    stops = f"{does('stop')} {_jobs(plan.stops)}. Then it " if plan.stops else ""
    loss = "" if _loads_another(plan) else _loss(plan, does)
    begins = f"{stops}{_begins(plan, does)}{loss}."
    return [_asks(plan, does), begins, "" if plan.stops else _stopped(plan, does)]


def _saves(plan: Plan) -> bool:
    return plan.facts.get("save-first") == "yes"


def _asks(plan: Plan, does: _Tense) -> str:
    return f"{does('ask')} the trainer for a checkpoint first." if _saves(plan) else ""


def _begins(plan: Plan, does: _Tense) -> str:
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


def _loads_another(plan: Plan) -> bool:
    """Tell whether the trainer would load another one: then nobody knows what is lost."""
    ours, its = plan.checkpoint, plan.trainer_would_load
    if ours is None or its is None or its.path == ours.path:
        return False
    return not _names(plan.command or "", ours.path)


def _names(command: str, path: str) -> bool:
    """Return whether a command names a path, not only one that begins alike."""
    return re.search(rf"{re.escape(path)}(?![\w.-])", command) is not None


def _loss(plan: Plan, does: _Tense) -> str:
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


def _stopped(plan: Plan, does: _Tense) -> str:
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


def _lineage(plan: Plan, does: _Tense) -> list[str]:
    new, pick = plan.params.get("run-id", "a new run"), plan.checkpoint
    source = "a checkpoint that is not known" if pick is None else named(pick)
    begins = f"{does('start')} {new} from {source} of {plan.run}, with an identity of its own."
    return [begins, f"Nothing of {plan.run} itself {does.will} be stopped or changed."]


def _rollback(plan: Plan, does: _Tense) -> list[str]:
    to = "an older checkpoint" if plan.checkpoint is None else named(plan.checkpoint)
    count = plural(len(plan.targets), "newer checkpoint")
    moves = " and moved aside" if plan.facts.get("move") == "yes" else ", not moved"
    gone = f": {count} {does.will} be marked rejected{moves}" if plan.targets else ""
    lost = f"{does('lose')} {plan.loses}." if plan.loses else ""
    return [f"the next relaunch {does('start')} from {to}{gone}.", lost,
            "" if plan.blocked else f"Nothing {does.will} be started or stopped."]  # fmt: skip


def _stop(plan: Plan, does: _Tense) -> list[str]:
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


def _retain(plan: Plan, does: _Tense) -> list[str]:
    known = [each.size for each in plan.targets if each.size is not None]
    unknown = len(plan.targets) - len(known)
    total = f" ({size(sum(known))}{' or more' if unknown else ''})" if known else ""
    count = plural(len(plan.targets), "checkpoint")
    kept = f" {plural(len(plan.keeps), 'other')} {does.will} stay." if plan.keeps else ""
    return [f"{does('delete')} {count}{total} for good.{kept}"]


def _seal(plan: Plan, does: _Tense) -> list[str]:
    step = plan.facts.get("step", "")
    at = f" at step {steps(int(step))}" if step.isdecimal() else ""
    tags = "a tag on its code and the final figures in its records, as far as it has them"
    return [f"{does('close')} {plan.run}{at}: {tags}.",
            "" if plan.blocked else f"Nothing {does.will} be stopped or deleted."]  # fmt: skip


def _handoff(plan: Plan, does: _Tense) -> list[str]:
    to, of = plan.facts.get("to", "somebody"), plan.facts.get("of", "")
    now = f" (now {of})" if of else ""
    page = f"{does.also('write')} this page into its records"
    return [f"{does('make')} {to} the DRI of {plan.run}{now} and {page}.", UNTOUCHED]


def _escalate(plan: Plan, does: _Tense) -> list[str]:
    who = next((check.value for check in plan.checks if check.id == "dri" and check.value), None)
    return [f"{does('tell')} {who or 'the DRI'} by notification, issue and logbook, as far as the "
            "run has them.", UNTOUCHED]  # fmt: skip


def _log(plan: Plan, does: _Tense) -> list[str]:
    return [f"{does('append')} one entry to the logbook, then {does.also('commit')} it and "
            f"{does.also('start')} its push.", UNTOUCHED]  # fmt: skip


def _autolog(plan: Plan, does: _Tense) -> list[str]:
    if plan.facts.get("off") == "yes":
        return [f"{does('end')} the automatic entries of the run file.", UNTOUCHED]
    return [f"{does('let')} the cockpit write and commit entries that nobody types, for all runs "
            "of the run file.", UNTOUCHED]  # fmt: skip


def _sync(plan: Plan, does: _Tense) -> list[str]:
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


def _teardown(plan: Plan, does: _Tense) -> list[str]:
    kind, host = plan.facts.get("kind"), plan.facts.get("host")
    if kind is None:
        return []
    lost = f"; {does('lose')} {plan.loses}" if plan.loses else ""
    return [f"{does('run')} the recorded command to {kind.replace('_', ' ')} {host}{lost}."]


def _publish(plan: Plan, does: _Tense) -> list[str]:
    return [f"{does('write')} TRAINING_LOG.md beside the model. Nothing {does.will} be uploaded."]


def _ack(plan: Plan, does: _Tense) -> list[str]:
    key, by, until = (plan.facts.get(name, "") for name in ("key", "by", "until"))
    what = "the run's end" if key == "end" else f"the alert {key}"
    if until == "now":
        return [f"{does('end')} the acknowledgement of {what}: it asks for attention again."]
    how_long = f" {'until' if 'T' in until else 'for'} {until}" if until else ""
    return [f"{does('acknowledge')} {what} as {by}{how_long}: it stays open, but quiet."]


def _adopt(plan: Plan, does: _Tense) -> list[str]:
    job, former = plan.facts.get("job", "a job"), plan.facts.get("former", "")
    now = f" (now {former})" if former and former != job else ""
    return [f"{does('make')} {job} the current job of {plan.run}{now}.", UNTOUCHED]


def _other(plan: Plan, does: _Tense) -> list[str]:
    return [f"{does('run')} {plan.action} on {plan.run}."]


_SENTENCES: Final[Mapping[str, Callable[[Plan, _Tense], list[str]]]] = {
    "launch": _launch, "relaunch": _relaunch, "lineage": _lineage, "rollback": _rollback,
    "stop": _stop, "retain": _retain, "seal": _seal, "handoff": _handoff, "escalate": _escalate,
    "log": _log, "autolog": _autolog, "sync": _sync, "teardown": _teardown, "publish": _publish,
    "ack": _ack, "adopt": _adopt,
}  # fmt: skip

"""What logbook and issue are told of a launch: the same words whenever they are made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cockpit.actions.action import Doing
from cockpit.actions.recording import approvals_text
from cockpit.actions.submitting import DIED, UNSEEN, snapshot_in
from cockpit.model.plan import Level, Plan
from cockpit.model.records import EventEntry

MOST: Final = 10
FIRST_CHECK: Final = "120 s"


def job_of(doing: Doing) -> str:
    """Return the id of the job that was started."""
    return doing.job_id or doing.entry.job_id or doing.launch_id


def launch_event(word: str) -> Callable[[Doing], EventEntry]:
    """Return what makes the logbook's entry; ``word`` is what the action is called there."""

    def entry(doing: Doing) -> EventEntry:
        trouble = doing.facts.get(DIED) or doing.facts.get(UNSEEN)
        return EventEntry(
            title=f"{word} {doing.launch_id}",
            at=doing.entry.begun_at,
            status=trouble or f"{doing.launch_id} runs as {job_of(doing)}, {_origin(doing)}",
            evidence="\n".join(_evidence(doing)),
            decision="\n".join(filter(None, (_decision(doing, word), approvals_text(doing.plan)))),
            next=f"check after {FIRST_CHECK}, then every cadence, until it is past the failure",
        )

    return entry


def _origin(doing: Doing) -> str:
    used = snapshot_in(doing)
    if used.checkpoint is None:
        return "from scratch"
    return f"from {used.checkpoint.path} (step {used.checkpoint.step})"


def _evidence(doing: Doing) -> Sequence[str]:
    """Return why it could be done: what was not simply in order, and where the evidence is."""
    spoken = [check for check in doing.plan.checks if check.id in ("T", "job-state", "C-17")]
    warned = [check for check in doing.plan.checks if check.level is not Level.PASS]
    lines = [f"{check.id}: {check.text}" for check in dict.fromkeys((*spoken, *warned))]
    where = doing.facts.get("evidence")
    used = snapshot_in(doing)
    return [
        *lines,
        *_differing(doing.plan),
        *([f"commit {used.sha}"] if used.sha is not None else []),
        *([f"archived in {where}"] if where else []),
    ]


def _differing(plan: Plan) -> list[str]:
    """Return what is another than before, old and new; settings have their checks already."""
    known = [each for each in plan.differences if each.ran is not None and not each.same]
    checked = {check.id.partition(":")[2] for check in plan.checks}
    return [
        f"{each.what}: {each.ran} → {each.would_run or 'not set'}"
        for each in known
        if each.what not in checked
    ][:MOST]


def _decision(doing: Doing, word: str) -> str:
    reason = doing.plan.params.get("reason")
    return f"{word} by {doing.entry.operator}" + (f": {reason}" if reason else "")


def launch_comment(word: str) -> Callable[[Doing], str]:
    """Return what makes the issue's comment."""

    def body(doing: Doing) -> str:
        entry = launch_event(word)(doing)
        lines = (
            f"**{doing.plan.run}**: {entry.title}",
            f"- Status: {entry.status}",
            f"- Decision: {entry.decision}".replace("\n", "; "),
            f"- Evidence: {entry.evidence}".replace("\n", "; "),
            f"- Next: {entry.next}",
        )
        return "\n".join(lines) + "\n"

    return body

"""What logbook and issue are told of a launch: the same words whenever they are made again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from cockpit.actions.action import Doing
from cockpit.actions.recording import approvals_text
from cockpit.actions.submitting import DIED, UNSEEN, snapshot_in
from cockpit.model.plan import Approval, Level, Plan
from cockpit.model.records import EventEntry
from cockpit.model.words import steps
from cockpit.records import issue_text
from cockpit.records.markdown import prose

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
            next=f"check after {FIRST_CHECK}, then every cadence, until {_goal(doing)}",
        )

    return entry


def _goal(doing: Doing) -> str:
    """Return what is waited for: not every launch follows a failure."""
    failed = doing.facts.get("failed_step", "")
    if failed.isdigit():
        return f"it is past step {steps(int(failed))}, where the last one failed"
    return "its steps advance and a checkpoint is saved"


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
        make = {"launch": _launched, "relaunch": _relaunched}.get(word, _new_lineage)
        trouble = doing.facts.get(DIED) or doing.facts.get(UNSEEN)
        told = "" if trouble is None else f"\n\n**Trouble**: {prose(trouble)}"
        return f"{make(doing)}{told}"

    return body


def _launched(doing: Doing) -> str:
    used = snapshot_in(doing)
    values = {
        "Job": job_of(doing),
        "Command": " ".join(used.command),
        "Git SHA": used.sha or "unknown",
        "Output root": used.output_root or "unknown",
        "Begins with": "nothing: from scratch" if used.checkpoint is None else used.checkpoint.path,
        "Launched by": doing.entry.operator,
    }
    told = issue_text.launched(doing.ground.spec, doing.launch_id, values)
    return "\n\n".join(filter(None, (told, issue_text.approved(_approvals(doing.plan)))))


def _relaunched(doing: Doing) -> str:
    used, job = snapshot_in(doing), doing.ground.report.facets.job.value
    checks = {check.id: check.text for check in doing.plan.checks}
    at = used.checkpoint
    return issue_text.relaunched(
        doing.ground.spec,
        doing.launch_id,
        recoverable=checks.get("T") or checks.get("job-state") or "unknown",
        checkpoint=None if at is None else f"{at.path} (step {at.step})",
        sha=used.sha,
        approvals=_approvals(doing.plan),
        former=None if job is None or job.id == job_of(doing) else job.id,
    )


def _new_lineage(doing: Doing) -> str:
    used, pairs = snapshot_in(doing), doing.plan.differences
    return issue_text.new_lineage(
        doing.ground.spec,
        reason=doing.plan.params.get("reason", ""),
        old={each.what: each.ran or "unknown" for each in pairs},
        new={each.what: each.would_run or "unknown" for each in pairs},
        source=None if used.checkpoint is None else used.checkpoint.path,
        sha=used.sha,
        approvals=_approvals(doing.plan),
    )


def _approvals(plan: Plan) -> list[Approval]:
    return [check.approved for check in plan.checks if check.approved is not None]

"""Who answers for it: the DRI, and whether the DRI knows (SPEC A)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cockpit.actions.core.context import ActionContext
from cockpit.model import wording
from cockpit.model.plan import Basis, Check, Outcome, StepState
from cockpit.text.checks import blocked, passed

NOTIFIED_WITHIN = 24 * 3600.0
"""Seconds for which a notification of the DRI holds."""


def has_dri(context: ActionContext) -> list[Check]:
    """Check that somebody answers for the run: never overridable."""
    if context.spec.dri is None:
        return [blocked("dri", "no DRI: name one in the run file (dri)", Basis.RECORDED)]
    return [passed("dri", f"DRI {context.spec.dri}", Basis.RECORDED, context.spec.dri)]


def dri_knows(context: ActionContext) -> list[Check]:
    """Check, where the operator is not the DRI, that the DRI was notified and that is recorded."""
    dri, run = context.spec.dri, context.spec.name
    if dri is None or dri.strip().casefold() == context.operator.strip().casefold():
        return []
    since = context.now - NOTIFIED_WITHIN
    for entry in reversed(context.entries):
        step = entry.step("notify")
        notified = step is not None and step.state is StepState.DONE
        done = entry.action == "escalate" and entry.outcome is Outcome.DONE
        if entry.begun_at >= since and (notified or done):
            text = f"{dri} was notified at {wording.moment(entry.begun_at)} by {entry.operator}"
            return [passed("dri-notified", text, Basis.RECORDED)]
    text = f"you are not the DRI; notify {dri} first: "
    text += f'cockpit escalate {run} --confirm "escalate {run}"'
    return [blocked("dri-notified", text, Basis.RECORDED)]


def for_dri(checks: Iterable[Check], only: Collection[str], dri: str | None) -> tuple[Check, ...]:
    """Return the checks, those named marked that nobody but the DRI may approve (SPEC C-15, A)."""
    return tuple(
        check.model_copy(update={"approver": dri}) if check.id in only else check
        for check in checks
    )

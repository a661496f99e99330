"""Who answers for it: the DRI, and whether the DRI knows (SPEC A)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from cockpit.actions.core.context import ActionContext
from cockpit.model import wording
from cockpit.model.plan import Basis, Check, Outcome, StepState
from cockpit.model.shared_facts import NOTIFIED, same_person
from cockpit.store.journal import JournalEntry
from cockpit.text.checks import blocked, passed, warned

NOTIFIED_WITHIN = 24 * 3600.0
"""Seconds for which a notification of the DRI holds."""


def has_dri(context: ActionContext) -> list[Check]:
    """Check that somebody answers for the run: never overridable."""
    if context.spec.dri is None:
        return [blocked("dri", "no DRI: set dri in cockpit.toml", Basis.RECORDED)]
    owner = context.report.owner
    text = f"DRI {context.spec.dri}"
    if owner is not None and owner.why:
        text += f", {owner.why} ({owner.source})"
    if owner is not None and owner.differs is not None:
        text = f"{text}; {owner.differs} ({owner.remedy})"
        return [warned("dri", text, Basis.RECORDED, context.spec.dri)]
    return [passed("dri", text, Basis.RECORDED, context.spec.dri)]


def dri_knows(context: ActionContext) -> list[Check]:
    """Check, where the operator is not the DRI, that the DRI was notified and that is recorded."""
    dri, run = context.spec.dri, context.spec.name
    if dri is None or context.is_word_of(dri):
        return []
    told = max(_notifications(context, dri), default=None)
    if told is not None and told[0] >= context.now - NOTIFIED_WITHIN:
        text = f"{dri} was notified at {wording.moment(told[0])} by {told[1]}"
        return [passed("dri-notified", text, Basis.RECORDED)]
    who = "" if not same_person(dri, context.operator) else f": typed by {context.typed_by}"
    text = f"you are not the DRI{who}; notify {dri} first: "
    text += f'cockpit escalate {run} --confirm "escalate {run}"'
    return [blocked("dri-notified", text, Basis.RECORDED)]


def _notifications(context: ActionContext, dri: str) -> Iterator[tuple[float, str]]:
    """Yield when this DRI, not a former one, was notified, and by whom; also by other accounts."""
    for entry in context.entries:
        step = entry.step("notify")
        notified = step is not None and step.state is StepState.DONE
        done = entry.action == "escalate" and entry.outcome is Outcome.DONE
        if (notified or done) and same_person(_told_whom(entry) or dri, dri):
            yield entry.begun_at, entry.operator
    records = context.report.facets.records.value
    for told in () if records is None else records.told:
        if told.what == NOTIFIED and same_person(told.value, dri):
            yield told.at, f"{told.typed_by} ({told.source})"


def _told_whom(entry: JournalEntry) -> str | None:
    """Return the DRI of the plan that notified; ``None`` for a plan that names none."""
    return next((check.value for check in entry.plan.checks if check.id == "dri"), None)


def for_dri(checks: Iterable[Check], only: Collection[str], dri: str | None) -> tuple[Check, ...]:
    """Return the checks, those named marked that nobody but the DRI may approve (SPEC C-15, A)."""
    return tuple(
        check.model_copy(update={"approver": dri}) if check.id in only else check
        for check in checks
    )

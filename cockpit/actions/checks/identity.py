"""The tracker's identity and its resume policy: metrics must land where they belong (C-13)."""

from __future__ import annotations

from cockpit.actions.core.context import ActionContext
from cockpit.model.plan import Basis, Check
from cockpit.rules.lineage.identity import drift, since_launch
from cockpit.store.memory import Snapshot
from cockpit.text.checks import blocked, passed, warned

POLICY = "resume-policy"


def may_resume(context: ActionContext) -> list[Check]:
    """Check that the same W&B run may be written again (SPEC A-2)."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker
    if spec is None:
        return [passed(POLICY, "the run has no W&B run", Basis.RECORDED)]
    if spec.resume == "allow":
        return [passed(POLICY, "resume policy allow", Basis.RECORDED, "allow")]
    if spec.resume == "never":
        text = "resume policy never: it cannot resume, only start a new lineage (cockpit lineage)"
        return [blocked(POLICY, text, Basis.RECORDED, "never")]
    if tracker.value is None or tracker.error is not None:
        why = tracker.error.message if tracker.error is not None else "not seen yet"
        text = f"resume policy must, but it is unknown whether its W&B run exists: {why}"
        return [blocked(POLICY, text, Basis.RECORDED, "must")]
    if tracker.value.id is None:
        return [blocked(POLICY, "resume policy must, but W&B has no run with this id",
                        Basis.RECORDED, "must")]  # fmt: skip
    text = f"resume policy must, and W&B run {tracker.value.id} exists"
    return [passed(POLICY, text, value="must")]


def same_tracker(context: ActionContext, prior: Snapshot | None) -> list[Check]:
    """Check that the recorded identity, the active one and that of the last launch agree."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker.value
    if spec is None:
        return []
    found = [*drift(spec, tracker), *since_launch(spec, prior)]
    if found:
        return [blocked("C-13", f"W&B id does not match: {'; '.join(found)}")]
    if tracker is None:
        text = f"W&B id {spec.id or 'not set'}; W&B not read, so not compared"
        return [warned("C-13", text, Basis.RECORDED)]
    if spec.id is None:
        text = f"no W&B id recorded (wandb.id); the active one is {tracker.id}"
        return [warned("C-13", text, Basis.INFERRED)]
    return [passed("C-13", f"W&B id {spec.id} matches", value=spec.id)]


def unused_tracker(context: ActionContext) -> list[Check]:
    """Check, before a first launch, that the W&B id is nobody's yet."""
    spec, tracker = context.spec.wandb, context.report.facets.tracker.value
    if spec is None:
        return [warned("C-13", "no W&B run set ([run.wandb])", Basis.RECORDED)]
    if spec.id is None:
        text = "no W&B id set (wandb.id): it would be generated at launch"
        return [blocked("C-13", text, Basis.RECORDED) if context.spec.tier == "hero"
                else warned("C-13", text, Basis.RECORDED)]  # fmt: skip
    if tracker is not None and tracker.step is not None:
        return [warned("C-13", f"W&B id {spec.id} has logged steps before", value=spec.id)]
    text = f"W&B id {spec.id}, name {spec.name or spec.id}, resume policy {spec.resume}"
    return [passed("C-13", text, Basis.RECORDED, spec.id)]

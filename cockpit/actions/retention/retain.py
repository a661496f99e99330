"""A-6, retention clean-up: a list with reasons is shown, and what was listed is deleted."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import Field

from cockpit.actions.core.action import (
    Action,
    Execution,
    RefuseError,
    Step,
    StepError,
    StepUnknownError,
)
from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural, safe
from cockpit.actions.core.recording import comment_step, event_name, log_step
from cockpit.actions.retention.at_rest import CHECKPOINT, listing, local_roots, remote_root
from cockpit.actions.retention.deleting import (
    Identity,
    NotDeletedError,
    delete,
    identity_of,
    left_over,
    size_of,
)
from cockpit.actions.retention.needed import RecoverySources, sources_of
from cockpit.model.base import Frozen
from cockpit.model.observed import CheckpointsValue
from cockpit.model.plan import Basis, Check, Draft, Plan, Request, Target
from cockpit.model.records import EventEntry
from cockpit.model.wording import size, steps
from cockpit.records.issue.text import retained
from cockpit.records.logbook.markdown import prose
from cockpit.rules.artifacts.retention import Decision, Needed, decide, depth_of, policy_of
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, passed, warned

RETENTION: Final = "retention"
DEADLINE: Final = 30.0
IDENTITIES: Final = "identities"
DELETED: Final = "deleted"
DELETE_WITHIN: Final = 3600.0
"""Seconds for one checkpoint: a large one on a network file system takes its time."""


class ToDelete(Frozen):
    """What may be deleted: the listed ones with their identities, and half deleted leftovers."""

    targets: tuple[Target, ...] = ()
    identities: dict[str, str] = Field(default_factory=dict)
    spared: tuple[Target, ...] = ()


class Retain(Action):
    """Deletes the checkpoints that the policy does not keep."""

    verb = "retain"
    exclusive = True

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        """Return what would be deleted and what stays, each with its reason."""
        keep = _keep_param(request.params.get("keep"))
        value = listing(context)
        sources = await sources_of(context)
        hard = tuple(_hard(context, value, sources))
        if isinstance(value, Check) or hard:
            return Draft(words=f"delete 0 from {request.run}", checks=hard)
        decisions = _decide(context, value, sources, keep)
        try:
            to_delete = await offload(_look, decisions, local_roots(context), deadline=DEADLINE)
        except TimeoutError:
            slow = blocked(CHECKPOINT, f"the candidates gave no answer within {DEADLINE:g} s")
            return Draft(words=f"delete 0 from {request.run}", checks=(slow,))
        kept = tuple(_target(each) for each in decisions if not each.delete)
        count = len(to_delete.targets)
        return Draft(
            words=f"delete {count} from {request.run}",
            checks=(*_policy(context, keep), _freed(to_delete), _left(context, decisions)),
            targets=to_delete.targets,
            keeps=(*kept, *to_delete.spared),
            trainer_would_load=value.trainer_would_load,
            facts={IDENTITIES: json.dumps(to_delete.identities, sort_keys=True)},
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        """Return: delete one after another, log, comment."""
        return (
            Step("delete", _delete, seen=_all_gone),
            log_step(_entry, f"{plan.run}: log retention", after_failure=True),
            comment_step(event_name, _comment, after_failure=True),
        )

    def revalidate(self, shown: Plan, now: Plan) -> str | None:
        """Return what changed: each that was listed must still be a candidate, and the same one.

        What has appeared since does not matter: it was not listed, so it is not deleted.
        """
        here = {target.path for target in now.targets}
        gone = [target.path for target in shown.targets if target.path not in here]
        if gone:
            why = {kept.path: kept.why for kept in now.keeps}
            return f"{gone[0]} is no candidate any more: {why.get(gone[0], 'it is gone')}"
        was, is_now = (json.loads(plan.facts.get(IDENTITIES, "{}")) for plan in (shown, now))
        other = [path for path in was if was[path] != is_now.get(path)]
        if other:
            return f"{other[0]} is another one than was listed"
        return next((c.text for c in now.checks if c.stands_in_the_way), None)


def _keep_param(text: str | None) -> int | None:
    if text is None or not text.strip():
        return None
    if not text.strip().isascii() or not text.strip().isdigit() or len(text) > 9:
        raise RefuseError(f"--keep is {safe(text)!r}; expected how many of the newest to keep")
    return int(text)


def _hard(
    context: ActionContext, value: CheckpointsValue | Check, sources: RecoverySources
) -> Iterator[Check]:
    """Yield what must be known before anything may be deleted, and is not."""
    if isinstance(value, Check):
        yield value
    remote = remote_root(context)
    if remote is not None:
        yield blocked(
            CHECKPOINT, f"{remote} is not on this machine: it is not cleaned up from here"
        )
    if sources.unknown is not None:
        yield blocked("logbook", f"recovery sources are not known: {sources.unknown}")


def _decide(
    context: ActionContext, value: CheckpointsValue, sources: RecoverySources, keep: int | None
) -> tuple[Decision, ...]:
    load = value.trainer_would_load
    needed = Needed(
        now=context.now,
        trainer_would_load=None if load is None else load.path,
        sources={item.path: why for item in value.items if (why := sources.why(item)) is not None},
    )
    return decide(value.items, policy_of(context.spec, keep), needed)


def _look(decisions: Sequence[Decision], roots: Sequence[str]) -> ToDelete:
    """Return the candidates as they lie on the disk; one that is a link is spared. Blocking."""
    targets, spared, identities = [], [], {}
    for each in decisions:
        if not each.delete:
            continue
        try:
            markers = () if each.item.marker is None else (each.item.marker,)
            identities[each.item.path] = identity_of(each.item.path, markers).model_dump_json()
            targets.append(_target(each))
        except NotDeletedError as error:
            spared.append(_target(each).model_copy(update={"why": safe(error)}))
    inner = [each.item.root for each in decisions]
    for path in left_over((*roots, *inner)):
        try:
            identities[path] = identity_of(path).model_dump_json()
        except NotDeletedError:
            continue
        why = "left half deleted by an earlier clean-up"
        targets.append(Target(path=safe(path), step=None, size=size_of(path), why=why))
    return ToDelete(targets=tuple(targets), identities=identities, spared=tuple(spared))


def _target(each: Decision) -> Target:
    item = each.item
    step = item.name_step if item.step is None else item.step
    return Target(path=item.path, step=step, size=item.size, why=each.why)


def _policy(context: ActionContext, keep: int | None) -> Iterator[Check]:
    policy, depth = policy_of(context.spec, keep), depth_of(context.spec)
    text = f"keeps the newest {policy.keep}; rollback depth {depth}"
    own = context.spec.checkpoints is not None and context.spec.checkpoints.keep is not None
    if keep is not None and policy.keep != keep:
        yield warned(RETENTION, f"{text}: never fewer than the rollback depth", Basis.RECORDED)
    elif keep is None and not own:
        yield warned(RETENTION, f"{text}; the run file names no number", Basis.INFERRED)
    else:
        yield passed(RETENTION, text, Basis.RECORDED)


def _freed(to_delete: ToDelete) -> Check:
    if not to_delete.targets:
        return blocked("candidates", "nothing to delete: the policy keeps everything there is")
    known = [target.size for target in to_delete.targets if target.size is not None]
    unsure = " at least" if len(known) < len(to_delete.targets) else ""
    text = f"{plural(len(to_delete.targets), 'candidate')}; frees{unsure} {size(sum(known))}"
    return warned("candidates", f"{text}; this cannot be undone", value=str(len(to_delete.targets)))


def _left(context: ActionContext, decisions: Sequence[Decision]) -> Check:
    left = [each.item for each in decisions if not each.delete and each.item.good]
    newest = max((item.step for item in left if item.step is not None), default=None)
    text = f"{plural(len(left), 'complete checkpoint')} will be left, up to step {steps(newest)}"
    suspect = sum(each.item.complete and not each.item.good for each in decisions)
    text += f"; {plural(suspect, 'suspect one')} not counted" if suspect else ""
    here = [each for each in decisions if each.item.good]
    if len(left) < min(depth_of(context.spec), len(here)):
        return blocked("C-08", f"{text}: fewer than the rollback depth {depth_of(context.spec)}")
    # The number left grows while the run saves: it moves by itself.
    return passed("C-08", text).model_copy(update={"moves": True})


async def _delete(execution: Execution) -> str:
    identities = json.loads(execution.facts[IDENTITIES])
    roots = local_roots(execution.context)
    spec = execution.context.spec.checkpoints
    markers = () if spec is None or spec.custom is None else (spec.custom.marker,)
    done: list[Target] = []
    for target in execution.plan.targets:
        was = Identity.model_validate_json(identities[target.path])
        mine = {*markers, *(name for name, *_ in was.markers)}
        one = functools.partial(delete, target.path, roots, was, execution.plan.plan_id, mine)
        try:
            await offload(one, deadline=DELETE_WITHIN)
        except TimeoutError as error:
            text = f"{target.path} is still being deleted; {_so_far(execution.plan.targets, done)}"
            raise StepUnknownError(safe(text)) from error
        except (NotDeletedError, OSError) as error:
            raise StepError(safe(f"{error}; {_so_far(execution.plan.targets, done)}")) from error
        done.append(target)
        await execution.note(**{DELETED: json.dumps([each.path for each in done])})
    return f"{plural(len(done), 'checkpoint')} deleted, {_bytes(done)} freed"


async def _all_gone(execution: Execution) -> str | None:
    """Return that nothing of what was listed is there, if a clean-up cut short has come so far."""
    paths = [target.path for target in execution.plan.targets]
    left = await offload(lambda: any(map(os.path.lexists, paths)), deadline=DEADLINE)
    if left:
        return None
    await execution.note(**{DELETED: json.dumps(paths)})
    return f"{plural(len(paths), 'checkpoint')} deleted"


def _so_far(all_of_them: Sequence[Target], done: Sequence[Target]) -> str:
    left = len(all_of_them) - len(done)
    return f"{plural(len(done), 'checkpoint')} deleted before it, {left} not deleted"


def _bytes(targets: Sequence[Target]) -> str:
    return size(sum(target.size or 0 for target in targets))


def _deleted(execution: Execution) -> list[Target]:
    paths = set(json.loads(execution.facts.get(DELETED, "[]")))
    if execution.trouble is not None:  # cut short, the last one may not have been noted
        paths |= {each.path for each in execution.plan.targets if not os.path.lexists(each.path)}
    return [target for target in execution.plan.targets if target.path in paths]


def _entry(execution: Execution) -> EventEntry:
    done = _deleted(execution)
    lines = [f"step {steps(each.step)}: {each.path} ({each.why})" for each in done]
    counted = f"{plural(len(execution.plan.targets), 'checkpoint')} deleted"
    trouble = ""
    if execution.trouble:
        counted, trouble = f"{len(done)} of {counted}", f"; {execution.trouble}"
    return EventEntry(
        title="retention clean-up",
        at=execution.entry.begun_at,
        status=f"{counted} by {execution.entry.operator}, {_bytes(done)} freed{trouble}",
        evidence="\n".join(lines) or "nothing was deleted",
        decision=f"confirmed as: {execution.plan.words}",
        next=f"{plural(len(execution.plan.keeps), 'checkpoint')} kept",
    )


def _comment(execution: Execution) -> str:
    done = _deleted(execution)
    text = retained(
        execution.context.spec,
        deleted=[each.step for each in done if each.step is not None],
        kept=[each.step for each in execution.plan.keeps if each.step is not None],
        freed=sum(each.size or 0 for each in done),
        by=execution.entry.operator,
    )
    return text + (
        f"\n\nIt did not finish: {prose(execution.trouble)}" if execution.trouble else ""
    )

"""What a clean-up does: one checkpoint after another, each looked at again right before (A-6)."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Final

from cockpit.actions.action import Doing, Step, StepError, StepUnknownError
from cockpit.actions.at_rest import local_roots
from cockpit.actions.deleting import Identity, NotDeletedError, delete
from cockpit.actions.recording import comment_step, event_name, log_step
from cockpit.actions.saying import plural, safe
from cockpit.model.plan import Plan, Target
from cockpit.model.records import EventEntry
from cockpit.model.words import size, steps
from cockpit.records.issue_text import retained
from cockpit.records.markdown import prose
from cockpit.sources.offload import offload

IDENTITIES: Final = "identities"
DELETED: Final = "deleted"
DEADLINE: Final = 3600.0
"""Seconds for one checkpoint: a large one on a network file system takes its time."""


def steps_of(plan: Plan) -> Sequence[Step]:
    """Return the steps; what was deleted is recorded also when it ended in the middle."""
    return (
        Step("delete", _delete),
        log_step(_entry, f"{plan.run}: log retention", after_failure=True),
        comment_step(event_name, _comment, after_failure=True),
    )


async def _delete(doing: Doing) -> str:
    identities = json.loads(doing.facts[IDENTITIES])
    roots = local_roots(doing.ground)
    spec = doing.ground.spec.checkpoints
    markers = () if spec is None or spec.custom is None else (spec.custom.marker,)
    done: list[Target] = []
    for target in doing.plan.targets:
        was = Identity.model_validate_json(identities[target.path])
        mine = {*markers, *(name for name, *_ in was.markers)}
        one = functools.partial(delete, target.path, roots, was, doing.plan.plan_id, mine)
        try:
            await offload(one, deadline=DEADLINE)
        except TimeoutError as error:
            text = f"{target.path} is still being deleted; {_so_far(doing.plan.targets, done)}"
            raise StepUnknownError(safe(text)) from error
        except (NotDeletedError, OSError) as error:
            raise StepError(safe(f"{error}; {_so_far(doing.plan.targets, done)}")) from error
        done.append(target)
        await doing.note(**{DELETED: json.dumps([each.path for each in done])})
    return f"{plural(len(done), 'checkpoint')} deleted, {_bytes(done)} freed"


def _so_far(all_of_them: Sequence[Target], done: Sequence[Target]) -> str:
    left = len(all_of_them) - len(done)
    return f"{plural(len(done), 'checkpoint')} deleted before it, {left} not deleted"


def _bytes(targets: Sequence[Target]) -> str:
    return size(sum(target.size or 0 for target in targets))


def _deleted(doing: Doing) -> list[Target]:
    paths = set(json.loads(doing.facts.get(DELETED, "[]")))
    return [target for target in doing.plan.targets if target.path in paths]


def _entry(doing: Doing) -> EventEntry:
    done = _deleted(doing)
    lines = [f"step {steps(each.step)}: {each.path} ({each.why})" for each in done]
    trouble = f"; {doing.trouble}" if doing.trouble else ""
    return EventEntry(
        title="retention clean-up",
        at=doing.entry.begun_at,
        status=f"{_counted(doing, done)} by {doing.entry.operator}, {_bytes(done)} freed{trouble}",
        evidence="\n".join(lines) or "nothing was deleted",
        decision=f"confirmed as: {doing.plan.words}",
        next=f"{plural(len(doing.plan.keeps), 'checkpoint')} kept",
    )


def _counted(doing: Doing, done: Sequence[Target]) -> str:
    listed = plural(len(doing.plan.targets), "checkpoint")
    return f"{len(done)} of {listed} deleted" if doing.trouble else f"{listed} deleted"


def _comment(doing: Doing) -> str:
    done = _deleted(doing)
    text = retained(
        doing.ground.spec,
        deleted=[each.step for each in done if each.step is not None],
        kept=[each.step for each in doing.plan.keeps if each.step is not None],
        freed=sum(each.size or 0 for each in done),
        by=doing.entry.operator,
    )
    return text + (f"\n\nIt did not finish: {prose(doing.trouble)}" if doing.trouble else "")

"""Which runs of one run file write to the same place, and whether both live (C-25). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations

from cockpit.model.history import Sharer
from cockpit.model.lineage import shared_place, wandb_key
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.watch.runstate import RunState


def find_sharers(states: Iterable[RunState]) -> dict[str, tuple[Sharer, ...]]:
    """Return, for each run that has any, the other runs that write to its place."""
    found: dict[str, list[Sharer]] = defaultdict(list)
    for one, other in _pairs(list(states)):
        shared = shared_place(one.spec, other.spec)
        if shared is not None:
            found[one.spec.name].append(_sharer(one, other, *shared))
            found[other.spec.name].append(_sharer(other, one, *shared))
    return {name: tuple(each) for name, each in found.items()}


def _pairs(states: list[RunState]) -> Iterator[tuple[RunState, RunState]]:
    """Yield the pairs that have a root or a W&B id in common: of a hundred runs few do."""
    groups: dict[object, list[RunState]] = defaultdict(list)
    for state in states:
        for key in _keys(state.spec):
            groups[key].append(state)
    seen = set()
    for group in groups.values():
        for one, other in combinations(group, 2):
            if (pair := (one.spec.name, other.spec.name)) not in seen:
                seen.add(pair)
                yield one, other


def _keys(run: RunSpec) -> Iterator[object]:
    if run.output_root is not None:
        yield ("root", str(run.output_root.normal().path))
    if run.wandb is not None and run.wandb.id:
        yield ("wandb", run.wandb.id)
    if (key := wandb_key(run)) is not None:
        yield key


def _sharer(one: RunState, other: RunState, what: str, certain: bool) -> Sharer:
    mine, theirs = one.facets.job.value, other.facets.job.value
    return Sharer(
        run=other.spec.name,
        what=what,
        certain=certain,
        lives=theirs is not None and other.facets.job.known and theirs.phase.lives,
        same_job=_same(one.spec, mine, other.spec, theirs),
        job_id=None if theirs is None else theirs.id,
        started_at=None if theirs is None else theirs.started_at,
    )


def _same(run: RunSpec, mine: JobValue | None, other: RunSpec, theirs: JobValue | None) -> bool:
    """Tell whether two runs name one job: the same id, or one process below the other."""
    if mine is None or theirs is None or mine.id is None or theirs.id is None:
        return False
    where = [(spec.job.kind, spec.job.host) if spec.job else None for spec in (run, other)]
    if where[0] != where[1]:
        return False
    nested = not set(mine.processes).isdisjoint(theirs.processes)
    return mine.id == theirs.id or nested

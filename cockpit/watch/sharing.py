"""Which runs of one run file write to the same place, and whether both live (C-25). Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from cockpit.model.history import Sharer
from cockpit.model.lineage import shared_place, wandb_key
from cockpit.model.observed import JobValue
from cockpit.model.run import RunSpec
from cockpit.watch.runstate import RunState


class Pair(NamedTuple):
    """Two runs that write to the same place: which one, and whether that is certain."""

    one: str
    other: str
    what: str
    certain: bool


def find_sharers(states: Iterable[RunState]) -> dict[str, tuple[Sharer, ...]]:
    """Return, for each run that has any, the other runs that write to its place."""
    by_name = {state.spec.name: state for state in states}
    return sharers_of(by_name, pairs_of(state.spec for state in by_name.values()))


def sharers_of(
    states: Mapping[str, RunState], pairs: Iterable[Pair]
) -> dict[str, tuple[Sharer, ...]]:
    """Return the same where the pairs are known: they follow from the run file alone."""
    found: dict[str, list[Sharer]] = defaultdict(list)
    for pair in pairs:
        one, other = states[pair.one], states[pair.other]
        found[pair.one].append(_sharer(one, other, pair.what, pair.certain))
        found[pair.other].append(_sharer(other, one, pair.what, pair.certain))
    return {name: tuple(each) for name, each in found.items()}


def pairs_of(runs: Iterable[RunSpec]) -> tuple[Pair, ...]:
    """Return the runs that have a place in common, in pairs: of a hundred runs few do."""
    groups: dict[object, list[RunSpec]] = defaultdict(list)
    for run in runs:
        for key in _keys(run):
            groups[key].append(run)
    found: dict[tuple[str, str], Pair] = {}
    for group in groups.values():
        for one, other in combinations(group, 2):
            names = one.name, other.name
            if names not in found and (shared := shared_place(one, other)) is not None:
                found[names] = Pair(*names, *shared)
    return tuple(found.values())


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

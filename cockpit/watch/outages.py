"""Which places away from here answer for none of their runs: one cause, however many runs. Pure.

A controller, a bucket or a host that is gone is gone for all that live there; each run finding
that out by itself would be a hundred alerts for one (SPEC C, "One cause opens one alert").
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from cockpit.model.facet import OF_A_RUN, ErrorKind, Facet
from cockpit.model.history import Outage
from cockpit.model.place import HERE, place_of
from cockpit.model.report import FACETS
from cockpit.model.run import RunSpec
from cockpit.platforms.base import Platform
from cockpit.watch.polling.places import fate_of, places_of
from cockpit.watch.runstate import RunState

PlatformOf = Callable[[RunSpec], Platform | None]

_OF_ONE_ANSWER: Final = OF_A_RUN | {ErrorKind.BAD_ANSWER}
"""Of a place with one run an answer that cannot be read may be that run's fault."""


def find_outages(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[str, tuple[Outage, ...]]:
    """Return, by run name, the places that answer for no run that lives there.

    One run of each place is to tell of it (``told_by``): the one that does already, else one
    without another alert, of these the one with the shortest cadence.
    """
    dark = _dark(states, platform_of)
    places = {place for _, place in dark}
    wider = _servers(states, places, platform_of) if places else {}
    by_place: dict[str, dict[str, list[RunState]]] = defaultdict(dict)
    for (facet, place), group in dark.items():
        host = place.rpartition(" ")[2]  # "slurm login1" is dark because login1 is
        cause = wider.get(place) or (host if host in places else place)
        by_place[cause].setdefault(facet, []).extend(group)
    found: dict[str, list[Outage]] = defaultdict(list)
    for place, facets in by_place.items():
        outage = _outage(place, facets)
        for name in outage.runs if outage is not None else ():
            assert outage is not None
            found[name].append(outage)
    return {name: tuple(each) for name, each in found.items()}


def _servers(
    states: Collection[RunState], dark: Collection[str], platform_of: PlatformOf
) -> dict[str, str]:
    """Return, by place, the server of which several places are asked, and all of them are dark."""
    shared: dict[str, set[str]] = defaultdict(set)
    for state in states:
        for place in _away("tracker", state, platform_of):
            shared[fate_of(place)].add(place)
    gone = {fate: places for fate, places in shared.items() if len(places) > 1}
    gone = {fate: places for fate, places in gone.items() if places <= set(dark)}
    return {place: fate for fate, places in gone.items() for place in places}


def _dark(
    states: Collection[RunState], platform_of: PlatformOf
) -> dict[tuple[str, str], list[RunState]]:
    """Return the runs of each facet and place of which all that are asked there are unknown."""
    failing: dict[tuple[str, str], list[RunState]] = defaultdict(list)
    for state in states:
        for facet in state.failing:
            for place in _failed_places(facet, state, platform_of):
                failing[facet, place].append(state)
    for facet in {facet for facet, _ in failing}:
        silent = {place for name, place in failing if name == facet}
        for state in states:
            if not silent.isdisjoint(_away(facet, state, platform_of)):
                answering = silent.intersection(_answering(facet, state, platform_of))
                silent -= answering
                for place in answering:
                    del failing[facet, place]
    return failing


def _failed_places(facet: str, state: RunState, platform_of: PlatformOf) -> Iterable[str]:
    found: Facet[Any] = getattr(state.facets, facet)
    if facet not in state.looked or found.error is None or found.error.kind in OF_A_RUN:
        return ()
    places = _away(facet, state, platform_of)
    return places if len(places) < 2 else places & _unlisted(state)


def _answering(facet: str, state: RunState, platform_of: PlatformOf) -> Iterable[str]:
    """Return the places that have answered for a facet, or were not asked for it yet."""
    found: Facet[Any] = getattr(state.facets, facet)
    if not found.configured:
        return ()
    return _away(facet, state, platform_of).difference(_failed_places(facet, state, platform_of))


def _away(facet: str, state: RunState, platform_of: PlatformOf) -> frozenset[str]:
    """Return where else than here a facet is asked for: it follows from the run file alone."""
    places = state.away.get(facet)
    if places is None:
        found = places_of(facet, state.spec, platform_of(state.spec))
        places = state.away[facet] = frozenset(found) - {HERE}
    return places


def _unlisted(state: RunState) -> set[str]:
    """Return the places of those checkpoint roots that could not be listed."""
    value = state.facets.checkpoints.value
    return set() if value is None else {place_of(root).endpoint for root in value.unlisted}


def _rank(state: RunState, key: str) -> tuple[bool, bool, float, str]:
    """Return the order in which runs tell of a place: beside a worse alert it would not be seen."""
    other = bool(state.open.keys() - {key})
    return key not in state.open, other, state.spec.cadence, state.spec.name


def _outage(place: str, facets: dict[str, list[RunState]]) -> Outage | None:
    ranked = [name for name in FACETS if name in facets]
    runs = {state.spec.name: state for name in ranked for state in facets[name]}
    errors = [
        (state.silent_since(name), getattr(state.facets, name).error)
        for name in ranked
        for state in facets[name]
    ]
    if len(runs) == 1 and ("job" in facets or any(e.kind in _OF_ONE_ANSWER for _, e in errors)):
        return None  # the run's own C-02, or its own fault
    key = Outage.key_of(place)
    teller = min(runs.values(), key=lambda state: _rank(state, key))
    return Outage(
        place=place,
        facets=tuple(ranked),
        runs=tuple(runs),
        since=min(since for since, _ in errors),
        kind=errors[0][1].kind,
        why=errors[0][1].message,
        told_by=teller.spec.name,
    )

"""C-02, state unknown: said as such, with what the other facets show side by side."""

from __future__ import annotations

from collections.abc import Iterator

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.history import History
from cockpit.model.observed import Phase
from cockpit.model.run import RunSpec
from cockpit.rules import say
from cockpit.rules.present import StepClock, phase_of, phase_since, seen_at

CADENCES = 2


def state_unknown(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-02: the job's state has not been known for more than two cadences."""
    facet = history.facets.job
    if not facet.configured:
        return
    if not facet.known:
        why = facet.error.message if facet.error is not None else "never answered"
        since = say.first(facet.since, facet.observed_at, history.now)
    elif facet.value is not None and phase_of(history) is Phase.UNKNOWN:
        why = f'state "{facet.value.state}"'
        why += f": {facet.value.reason}" if facet.value.reason else ""
        since = phase_since(history)
    else:
        return
    if history.now - since <= CADENCES * run.cadence:
        return
    yield Alert(
        id="C-02",
        key=f"C-02:{run.name}",
        severity=Severity.WARNING,
        title="the job's state is unknown",
        since=since,
        evidence=(Evidence(text=why, source=facet.source), *side_by_side(run, history)),
        confidence="sure",
        next_action="do not assume failure: look at the other facets, then repair the query",
    )


def side_by_side(run: RunSpec, history: History) -> tuple[Evidence, ...]:
    """Return one line per other facet that tells whether the run lives."""
    facets = history.facets
    clock = StepClock(history)
    log = None if facets.log.value is None else facets.log.value.mtime
    saved = None
    if facets.checkpoints.value is not None:
        times = [item.saved_at for item in facets.checkpoints.value.items]
        saved = max((at for at in times if at is not None), default=None)
    lines = (
        ("log", facets.log, log),
        ("training steps", facets.tracker, clock.last),
        ("checkpoints", facets.checkpoints, saved),
    )
    return tuple(
        Evidence(
            text=f"{name}: {_moving(at, seen_at(facet, history.now), run.cadence)}",
            source=facet.source,
        )
        for name, facet, at in lines
    )


def _moving(at: float | None, seen: float, cadence: float) -> str:
    if at is None:
        return "unknown"
    if seen - at <= CADENCES * cadence:
        return "moving"
    return f"still since {say.moment(at)}"

"""One cause, one alert: which open conditions only follow from another one of the run (SPEC C).

Each condition keeps its identity; the one that it follows from carries it (``consequences``), and
people are told of that one. This is the dependency suppression of monitoring systems (Nagios'
*host and service dependencies*, Alertmanager's *inhibition*): what follows is muted, not hidden,
and speaks for itself as soon as the cause is over.

Only what holds by definition while the other holds is listed, never a guess about why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.model.alert import Alert
from cockpit.model.run import RunSpec

FOLLOWS: Final[Mapping[str, tuple[str, ...]]] = {
    # Nothing trains any more: no step, no rate, no line, no save; the same end again is that end.
    "C-01": ("C-05", "C-06", "C-07", "C-14", "C-22:gpu-idle", "C-23", "C-26"),
    # Two jobs write one lineage: rows of both, and the other's identity, are what is seen of it.
    "C-25": ("C-12", "C-13"),
    # It has loaded other weights: that the loss does not go on is how that shows.
    "C-17": ("C-12",),
    # The loss is no number: what led up to it is the same trouble.
    "C-09": ("C-10", "C-11"),
    # No step is trained: no rate, no line, no save in time, an idle accelerator.
    "C-06": ("C-05", "C-07", "C-22:gpu-idle", "C-23", "C-26"),
    # The loss has left its level: the norms beside it have, too.
    "C-11": ("C-10",),
}
"""By cause, what follows from it: conditions by id, or by the beginning of their key without the
run (``C-22:gpu-idle``). The causes stand in the order in which they win."""
BY_DEFINITION: Final = frozenset((("C-06", "C-22:gpu-idle"),))
"""Consequences that are found only while their cause holds, whenever they were seen to begin."""
CADENCES: Final = 2
"""How much earlier (in cadences) a consequence may be seen to begin than its cause: each is found
by a window of its own. One that was open long before has a cause of its own."""


def with_causes(run: RunSpec, alerts: Sequence[Alert]) -> tuple[Alert, ...]:
    """Return the alerts, each with what it follows from and what follows from it.

    A consequence never is more severe than its cause: then it is told for itself.
    """
    cause_of: dict[str, str] = {}
    for alert in alerts:
        cause = next((each for each in _ranked(alerts) if _follows(run, alert, each)), None)
        if cause is not None:
            cause_of[alert.key] = cause.key
    roots = {key: _root(cause_of, key) for key in cause_of}
    return tuple(
        alert.model_copy(
            update={
                "caused_by": roots.get(alert.key, alert.caused_by),
                "consequences": tuple(key for key, root in roots.items() if root == alert.key),
            }
        )
        if roots
        else alert
        for alert in alerts
    )


def _ranked(alerts: Sequence[Alert]) -> list[Alert]:
    order = list(FOLLOWS)
    return sorted(
        (each for each in alerts if each.id in FOLLOWS), key=lambda each: order.index(each.id)
    )


def _follows(run: RunSpec, alert: Alert, cause: Alert) -> bool:
    if alert.severity.rank > cause.severity.rank or alert.key == cause.key:
        return False
    named = [what for what in FOLLOWS[cause.id] if _is(run, alert, what)]
    if any((cause.id, what) in BY_DEFINITION for what in named):
        return True
    return bool(named) and alert.since >= cause.since - CADENCES * run.cadence


def _is(run: RunSpec, alert: Alert, what: str) -> bool:
    """Tell whether an alert is the condition ``C-06``, or one part of it (``C-22:gpu-idle``)."""
    condition, part, kind = what.partition(":")
    return alert.id == condition and (not part or alert.key == f"{condition}:{run.name}:{kind}")


def _root(cause_of: Mapping[str, str], key: str) -> str:
    """Return the first cause; causes only ever lead to earlier ones in the table."""
    seen = {key}
    while (above := cause_of.get(key)) is not None and above not in seen:
        seen.add(above)
        key = above
    return key

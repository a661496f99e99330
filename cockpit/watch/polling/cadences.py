"""How often each facet is asked for, and how long an answer may take (INTERFACE "Cadences")."""

from __future__ import annotations

from cockpit.model.run import RunSpec

USUAL = {
    "log": 1.0,
    "job": 30.0,
    "tracker": 30.0,
    "checkpoints": 60.0,
    "monitor": 30.0,
    "host": 60.0,
    "code": 60.0,
    "records": 60.0,
}
SLOWEST = max(USUAL.values())
SWEPT_LOG = 15.0
"""A log whose changes the sweep announces is asked for on change, and this often besides."""

DEADLINES = {
    "log": 5.0,
    "job": 10.0,
    "tracker": 10.0,
    "checkpoints": 15.0,
    "monitor": 5.0,
    "host": 10.0,
    "code": 10.0,
    "records": 10.0,
}
FASTEST = 1.0
BACK_OFF_LIMIT = 300.0


def cadence_of(facet: str, run: RunSpec, *, swept: bool = True) -> float:
    """Return seconds between two looks at one facet: never slower than half the run's cadence."""
    usual = SWEPT_LOG if facet == "log" and swept else USUAL[facet]
    if facet == "monitor":
        usual = min(usual, run.monitor_cadence / 2)
    return max(FASTEST, min(usual, run.cadence / 2))


def back_off(cadence: float, failures: int, jitter: float, run: RunSpec) -> float:
    """Return the wait after ``failures`` refusals in a row; ``jitter`` is in [0, 1).

    It doubles, is spread by ± 20 %, and ends at five minutes or the run's cadence.
    """
    limit = max(cadence, min(BACK_OFF_LIMIT, run.cadence))
    wait = min(limit, cadence * 2.0 ** min(failures, 12))
    return wait * (0.8 + 0.4 * jitter)

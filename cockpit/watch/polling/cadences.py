"""How often each facet is asked for, and how long an answer may take (INTERFACE "Cadences").

Here is this machine; away is any other place, which is asked in one request for all its runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from cockpit.model.place import HERE
from cockpit.model.run import RunSpec


class Seconds(NamedTuple):
    """A figure for this machine and one for every other place."""

    here: float
    away: float

    def at(self, place: str) -> float:
        """Return the figure for a place."""
        return self.here if place == HERE else self.away


USUAL: Final = {
    "log": Seconds(here=1.0, away=15.0),
    "job": Seconds(here=30.0, away=30.0),
    "tracker": Seconds(here=30.0, away=30.0),
    "checkpoints": Seconds(here=60.0, away=60.0),
    "monitor": Seconds(here=30.0, away=30.0),
    "host": Seconds(here=60.0, away=60.0),
    "code": Seconds(here=60.0, away=60.0),
    "records": Seconds(here=60.0, away=60.0),
}
SLOWEST: Final = max(usual.here for usual in USUAL.values())
SWEPT_LOG: Final = 15.0
"""A log whose changes the sweep announces is asked for on change, and this often besides."""
UNSEEN_LOG: Final = 30.0
"""The same in a large fleet, for well runs on no screen: their files are looked at by turns."""

DEADLINES: Final = {
    "log": Seconds(here=5.0, away=15.0),
    "job": Seconds(here=10.0, away=20.0),
    "tracker": Seconds(here=10.0, away=20.0),
    "checkpoints": Seconds(here=15.0, away=30.0),
    "monitor": Seconds(here=5.0, away=15.0),
    "host": Seconds(here=10.0, away=20.0),
    "code": Seconds(here=10.0, away=20.0),
    "records": Seconds(here=10.0, away=20.0),
}
"""A source gives up before: its facet then says what did not answer, these only that nothing did.

An answer from another machine takes longer: a hung Slurm controller is given up by ``squeue``
after 10 s, a dead ssh connection is noticed after 9 to 14 s.
"""
FASTEST: Final = Seconds(here=1.0, away=5.0)
BACK_OFF_LIMIT: Final = 300.0


def cadence_of(facet: str, run: RunSpec, *, swept: bool = True, seen: bool = True) -> float:
    """Return seconds between two looks here: never slower than half the run's cadence."""
    usual = USUAL[facet].here
    if facet == "log" and swept:
        usual = SWEPT_LOG if seen else UNSEEN_LOG
    if facet == "monitor":
        usual = min(usual, run.monitor_cadence / 2)
    return max(FASTEST.here, min(usual, run.cadence / 2))


def cadence_away(facet: str, run: RunSpec, log_every: float | None = None) -> float:
    """Return seconds between two looks at another place; ``log_every`` is its platform's own."""
    usual = USUAL[facet].away
    if facet == "log" and log_every is not None:
        usual = log_every
    return max(FASTEST.away, min(usual, run.cadence / 2))


def back_off(cadence: float, failures: int, jitter: float, run: RunSpec) -> float:
    """Return the wait after ``failures`` refusals in a row; ``jitter`` is in [0, 1).

    It doubles, is spread by ± 20 %, and ends at five minutes or the run's cadence.
    """
    limit = max(cadence, min(BACK_OFF_LIMIT, run.cadence))
    wait = min(limit, cadence * 2.0 ** min(failures, 12))
    return wait * (0.8 + 0.4 * jitter)

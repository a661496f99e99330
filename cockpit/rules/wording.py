"""How rules word their evidence: figures, moments and names, none of which tick.

An alert is compared by value before anything is painted or stored, so its text holds moments
and limits, never ages.
"""

from __future__ import annotations

from cockpit.model.alert import Evidence
from cockpit.model.base import rfc3339
from cockpit.model.history import History
from cockpit.model.run import RunSpec

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SPANS = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"))


def figure(value: float) -> str:
    """Return ``1.21M`` for 1210345: three digits, for rates and losses."""
    for scale, letter in _SCALES:
        if abs(value) >= scale:
            return f"{value / scale:.3g}{letter}"
    return f"{value:.3g}"


def span(seconds: float) -> str:
    """Return ``15m``, ``2h``, ``9d``, ``5s``: the largest unit that it is at least two of."""
    for size, letter in _SPANS:
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:.3g}{letter}"
    return f"{seconds:.3g}s"


def moment(instant: float) -> str:
    """Return an instant as ``2026-03-11 08:41:07Z``."""
    text = rfc3339(instant)
    return text if text == "unknown" else text[:19].replace("T", " ") + "Z"


def step(number: int | None) -> str:
    """Return a step with separators."""
    return "unknown" if number is None else f"{number:,}"


def person(run: RunSpec) -> str:
    """Return the DRI's name, or who they are."""
    return run.dri or "the DRI"


def first(*instants: float | None) -> float:
    """Return the first instant that is known."""
    return next(instant for instant in instants if instant is not None)


def evidence(source: str, *texts: str) -> tuple[Evidence, ...]:
    """Return one line of evidence for each text."""
    return tuple(Evidence(text=text, source=source) for text in texts)


def gap(history: History) -> tuple[Evidence, ...]:
    """Return the remark that earlier rows were not read, where that is so."""
    if history.rows_from <= 0:
        return ()
    share = min(history.rows_from, 0.99)  # never "100 %": the newest rows have been read
    return evidence("logged rows", f"the first {share:.0%} of the rows are not read yet")

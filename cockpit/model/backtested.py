"""What the rules would have told of a run's past: ``backtest --json``, as a screen is given it."""

from datetime import datetime
from typing import Annotated

from pydantic import BeforeValidator, ConfigDict

from cockpit.model.alert import Evidence, Severity
from cockpit.model.base import Frozen
from cockpit.model.observed import Column


def _instant(told: object) -> object:
    return datetime.fromisoformat(told).timestamp() if isinstance(told, str) else told


At = Annotated[float | None, BeforeValidator(_instant)]


class _Told(Frozen):
    """A part of the verb's document: what a later one adds is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class WouldTell(_Told):
    """One alert as it would have been told: where it opened and, ``closed``, where it closed."""

    id: str
    severity: Severity
    title: str
    opened_step: int | None = None
    opened_at: At = None
    closed_step: int | None = None
    closed_at: At = None
    closed: bool = False
    evidence: tuple[Evidence, ...] = ()


class Backtested(_Told):
    """A run's whole past replayed; ``steps`` rows, ``timed`` where they tell their own times."""

    run: str
    steps: int
    last_step: int | None = None
    final_step: int | None = None
    timed: bool = False
    not_replayed: tuple[str, ...] = ()
    alerts: tuple[WouldTell, ...] = ()
    curve: tuple[Column, ...] = ()
    """The loss over the steps."""

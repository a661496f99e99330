"""Dates as run logs name them for people: ``Friday, Feb 20th`` (HPC), in any locale the same."""

from __future__ import annotations

from datetime import date
from typing import Final

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_ENDINGS: Final = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def human_date(day: date, *, year: bool = False) -> str:
    """Return ``Friday, Feb 20th``, or with its year ``Friday, Feb 20th, 2026``."""
    text = (
        f"{_DAYS[day.weekday()]}, {_MONTHS[day.month - 1]} {day.day}{_ENDINGS.get(day.day, 'th')}"
    )
    return f"{text}, {day.year}" if year else text

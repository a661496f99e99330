"""Quiet hours: over midnight, in a zone, and what is none of them."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from cockpit.model.notify import Quiet, QuietHours

HOURS: TypeAdapter[Quiet] = TypeAdapter(QuietHours)
MIDNIGHT = 1_800_057_600.0  # a midnight in UTC, in winter


def at(text: str, hour: float) -> bool:
    return HOURS.validate_python(text).at(MIDNIGHT + hour * 3600.0)


def test_midnight_is_one() -> None:
    assert MIDNIGHT % 86400.0 == 0.0


@pytest.mark.parametrize(
    ("hour", "quiet"), [(21.99, False), (22, True), (23.5, True), (6.99, True), (7, False)]
)
def test_they_may_go_over_midnight(hour: float, quiet: bool) -> None:
    assert at("22:00-07:00 UTC", hour) is quiet


def test_they_may_lie_within_a_day_and_in_a_zone() -> None:
    assert at("12:00-13:00 UTC", 12.5)
    assert not at("12:00-13:00 UTC", 13)
    assert at("22:00-07:00 Asia/Tokyo", 13.5)  # 22:30 there
    assert not at("22:00-07:00 Asia/Tokyo", 23)


@pytest.mark.parametrize("text", ["22-7", "25:00-07:00", "07:00-07:00", "22:00-07:00 Nowhere/X", 5])
def test_what_is_no_hours_is_refused(text: object) -> None:
    with pytest.raises(ValidationError):
        HOURS.validate_python(text)

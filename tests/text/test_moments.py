"""Moments as a person types them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from cockpit.text.times import read_moment

NOW = datetime(2026, 3, 11, 8, 57, tzinfo=UTC).timestamp()
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("03:12", "2026-03-11T03:12Z"),
        (" 08:57:00 ", "2026-03-11T08:57Z"),
        ("09:00", "2026-03-10T09:00Z"),
        ("03:12Z", "2026-03-11T03:12Z"),
        ("03:12 UTC", "2026-03-11T03:12Z"),
        ("-2h", "2026-03-11T06:57Z"),
        ("2h ago", "2026-03-11T06:57Z"),
        ("-1h30m", "2026-03-11T07:27Z"),
        ("2026-03-10 03:12", "2026-03-10T03:12Z"),
        ("2026-03-10T03:12:00+01:00", "2026-03-10T02:12Z"),
    ],
)
def test_a_moment_is_read(typed: str, expected: str) -> None:
    assert read_moment(typed, NOW) == datetime.fromisoformat(expected).timestamp()


def test_a_clock_time_is_the_readers_unless_it_says_utc() -> None:
    assert read_moment("03:12", NOW, EAST) == read_moment("01:12", NOW)
    assert read_moment("03:12Z", NOW, EAST) == read_moment("03:12", NOW)
    assert read_moment("10:58", NOW, EAST) == read_moment("08:58", NOW), "yesterday"


@pytest.mark.parametrize("typed", ["", "-", "soon", "25:00", "-2 parsecs", "\x1b[2J"])
def test_what_is_no_time_says_what_is_expected(typed: str) -> None:
    with pytest.raises(ValueError, match="is not a time; expected 03:12, 2h ago"):
        read_moment(typed, NOW)


def test_a_moment_to_come_is_none_of_the_past() -> None:
    with pytest.raises(ValueError, match="still to come"):
        read_moment("2026-03-12", NOW)
    assert read_moment("2026-03-12", NOW, ahead=True) > NOW


def test_a_clock_time_that_the_clock_left_out_is_that_of_the_day_before() -> None:
    zone = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 29, 8, 0, tzinfo=zone).timestamp()
    shown = datetime(2026, 3, 28, 2, 30, tzinfo=zone).timestamp()
    assert read_moment("02:30", now, zone) == shown
    assert read_moment("03:30", now, zone) == datetime(2026, 3, 29, 3, 30, tzinfo=zone).timestamp()

"""The wording of everything."""

from __future__ import annotations

import ast
import math
import time
from collections.abc import Callable
from datetime import UTC, timedelta, timezone
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model import wording
from cockpit.model.facet import known
from cockpit.model.goodput import Day
from cockpit.model.logtext import Skipped
from cockpit.model.observed import JobValue, Phase
from cockpit.model.report import Facets, unread
from cockpit.model.run import RunSpec
from cockpit.model.wording import GLYPHS, age, day_time, glyph, lasts, to_ascii
from cockpit.model.wording import text_lifetime as lasting
from widgets.painting.facts import freshness_of

NAN, INF = math.nan, math.inf
NOON = 1_773_230_400.0
"""2026-03-11 12:00 UTC."""


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "?"), (0, "now"), (14.9, "now"), (15, "15s"), (29, "15s"), (30, "30s"),
        (59, "30s"), (60, "1m"), (119, "1m"), (3599, "59m"), (3600, "1h 00m"),
        (11_040, "3h 04m"), (273_600, "3d 04h"), (NAN, "?"), (INF, "?"), (-5, "now"),
    ],
)  # fmt: skip
def test_ages_step(seconds: float | None, shown: str) -> None:
    assert wording.age(seconds) == shown


def test_an_age_changes_only_at_its_steps() -> None:
    assert len({wording.age(second) for second in range(60)}) == 3
    assert len({wording.age(second) for second in range(60, 3600)}) == 59


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, "?"), (-1, "?"), (NAN, "?"), (0, "<1m"), (59, "<1m"), (61, "2m"), (3060, "51m"),
     (273_600, "3d 04h")],
)  # fmt: skip
def test_time_to_come(seconds: float | None, shown: str) -> None:
    assert wording.eta(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "?"), (NAN, "NaN"), (INF, "inf"), (-INF, "−inf"), (0.0, "0.000"), (2.3141, "2.314"),
     (11.0234, "11.02"), (0.0123, "0.0123"), (0.00012, "1.20e-04"), (123_456.0, "123,456"),
     (-0.5, "−0.500"), (1e9, "1.00e+09")],
)  # fmt: skip
def test_metrics(value: float | None, shown: str) -> None:
    assert wording.number(value) == shown


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [(1.21e6, "tok/s", "1.21M tok/s"), (88_000, "tok/s", "88.0k tok/s"),
     (999.9, "it/s", "1.00k it/s"),
     (2.5, None, "2.50"), (None, "tok/s", "?"), (NAN, "tok/s", "NaN tok/s")],
)  # fmt: skip
def test_rates_have_magnitude_and_unit(value: float | None, unit: str | None, shown: str) -> None:
    assert wording.rate(value, unit) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [(None, "?"), (0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (16_400_000_000, "16.4 GB"),
     (999_960_000, "1.0 GB"), (10**19, "10000.0 PB")],
)  # fmt: skip
def test_sizes(count: int | None, shown: str) -> None:
    assert wording.size(count) == shown


def test_progress_is_never_rounded_up_to_done() -> None:
    assert wording.share(0.386) == "38.6 %"
    assert wording.share(0.99999) == "99.9 %"
    assert wording.share(1.0) == "100.0 %"
    assert wording.share(None) == "?"


def test_change_against_a_baseline() -> None:
    assert wording.change(0.83, 1.2) == "−31 %"
    assert wording.change(1.25, 1.2) == "+4 %"
    assert wording.change(1.2001, 1.2) == "±0 %"
    assert wording.change(1.0, 0.0) == "?"
    assert wording.change(1e139, -3e-273) == ">−9,999 %"
    assert wording.change(NAN, 1.0) == "?"


def test_times_are_in_the_readers_zone() -> None:
    assert wording.clock_time(NOON, UTC) == "12:00"
    assert wording.clock_time(NOON, timezone(timedelta(hours=-7))) == "05:00"
    assert wording.clock_time(NOON, UTC, seconds=True) == "12:00:00"
    assert wording.day_time(NOON - 86_400, NOON, UTC) == "10 Mar 12:00"
    assert wording.day_time(NOON - 60, NOON, UTC) == "11:59"
    assert wording.day_time(NOON - 300 * 86_400, NOON, UTC) == "15 May 12:00"
    assert wording.day_time(NOON - 301 * 86_400, NOON, UTC) == "14 May 2025 12:00"
    assert wording.day_time(NOON + 301 * 86_400, NOON, UTC) == "6 Jan 2027 12:00"
    assert wording.clock_time(1e300, UTC) == "?"


def test_settings_read_as_they_are_written() -> None:
    assert [wording.duration(s) for s in (5, 570, 600, 7200, 777_600)] == [
        "5s", "9m 30s", "10m", "2h", "9d",
    ]  # fmt: skip


def test_each_state_has_a_glyph_and_an_ascii_twin() -> None:
    for state, (shape, twin) in GLYPHS.items():
        assert glyph(state) == shape
        assert glyph(state, ascii_only=True) == twin == to_ascii(shape)
        assert twin.isascii()
    states = ("healthy", "attention", "critical", "unknown", "finished", "sealed")
    assert len({glyph(state) for state in states}) == len(states)
    assert len({glyph(state, ascii_only=True) for state in states}) == len(states)


def test_frames_and_charts_have_twins() -> None:
    assert to_ascii("╭─┤ ⣿⠁⠀▁█ · −…→ │╯").isascii()


def test_what_is_cut_in_ascii_reads_as_neither_a_folder_nor_a_whole_sentence() -> None:
    assert to_ascii("…/demo-torn/run.log Saved checkpoint to…") == (
        "+/demo-torn/run.log Saved checkpoint to+"
    )


@given(st.floats() | st.none())
def test_property_every_float_can_be_written(value: float | None) -> None:
    for write in (wording.age, wording.eta, wording.number, wording.share, wording.short_number):
        assert write(value)
    assert wording.change(value, 3e-200)
    assert wording.clock_time(value)
    assert wording.day_time(value, 0.0)


def test_of_what_was_not_searched_nothing_is_said_to_be_there_or_not() -> None:
    found = Skipped(bytes=1000, ranges=((0, 1000),), unscanned=1000)
    assert wording.skipped(found) == "1.0 kB, bytes 0 to 1,000: not searched"
    part = found.model_copy(update={"bytes": 3000})
    said = "3.0 kB, the last of it bytes 0 to 1,000: no alarming line; 1.0 kB not searched"
    assert wording.skipped(part) == said


def test_a_rules_instants_stand_on_the_readers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "loss inf at step 9 at 2026-03-11 11:41:07Z; 5 rows since 2026-03-10 23:00:59Z"
    assert (
        wording.clocked(said, NOON)
        == "loss inf at step 9 at 11:41:07; 5 rows since 10 Mar 23:00:59"
    )
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        shown = wording.clocked(said, NOON)
    finally:
        monkeypatch.setenv("TZ", "UTC")
        time.tzset()
    assert shown == "loss inf at step 9 at 12:41:07; 5 rows since 00:00:59"
    assert wording.clocked("no Z but 2026-03-11 11:41:07", NOON) == "no Z but 2026-03-11 11:41:07"
    for far in ("2026-19-39 29:59:59Z", "2025-03-11 11:41:07Z", "0001-01-01 00:00:00Z"):
        assert wording.clocked(f"at {far}", NOON) == f"at {far}"


def test_a_records_minutes_stand_on_the_readers_clock_with_their_age() -> None:
    said = "seen 2026-03-11 11:59 UTC, since 2026-03-10 11:00 UTC, due 2026-03-11 12:10 UTC"
    told = "seen 11:59 (1m ago), since 10 Mar 11:00 (1d 01h ago), due 12:10"
    assert wording.clocked_minutes(said, NOON + 20) == told
    assert wording.clocked_minutes("at 2026-03-11 12:00 UTC", NOON + 59) == "at 12:00 (just now)"
    for far in ("2026-19-39 29:59 UTC", "2025-03-11 11:41 UTC", "0001-01-01 00:00 UTC"):
        assert wording.clocked_minutes(f"at {far}", NOON) == f"at {far}"


def test_each_sign_that_is_painted_has_a_twin_in_ascii() -> None:
    root = Path(wording.__file__).parents[2]
    painters = (*(root / "widgets").rglob("*.py"), *(root / "screens").rglob("*.py"))
    words = (
        each.value
        for path in painters
        for each in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )
    signs = {letter for said in words for letter in said if "\u2190" <= letter <= "\u2bff"}
    assert {"┈", "↻", "○", "●"} <= signs
    assert [each for each in sorted(signs) if not to_ascii(each).isascii()] == []


NOW = 1_800_000_000.0
JOB = known(JobValue(id="1", state="running", phase=Phase.RUNNING), "local", NOW)
REPORT = unread(RunSpec(name="a"), Facets(job=JOB), NOW)


def aged(old: float, now: float) -> str:
    return age(now - NOW + old)


WORDS: dict[str, Callable[[float], object]] = {
    **{f"an age of {old:g} s": partial(aged, old)
       for old in (-7, 0, 14.5, 20, 59, 61, 3599, 7000, 86_399, 200_000)},
    "a moment of today": lambda now: day_time(NOW, now),
    "the last 24 hours": Day().with_look(NOW, "healthy", 900.0).until,
    "fresh or stale": lambda now: freshness_of(JOB, REPORT, now),
}  # fmt: skip


@pytest.mark.parametrize("what", WORDS)
def test_words_say_when_they_change(what: str) -> None:
    with lasting() as found:
        words = WORDS[what](NOW)
    assert WORDS[what](NOW + found.seconds - 0.01) == words
    assert WORDS[what](NOW + found.seconds + 0.01) != words


def test_the_first_to_change_counts_and_each_asks_for_its_own() -> None:
    with lasting() as outer:
        lasts(50.0)
        with lasting() as inner:
            lasts(3.0)
        lasts(20.0)
    assert (outer.seconds, inner.seconds) == (20.0, 3.0)
    lasts(1.0)  # nobody asks
    with lasting() as untold:
        day_time(None, NOW)
    assert untold.seconds == math.inf

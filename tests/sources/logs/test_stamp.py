from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from cockpit.sources.logs.stamp import clock_offset, line_time, writes_utc

NEAR = datetime(2026, 11, 21, 8, 10, tzinfo=UTC).timestamp()


def at(hour: int, minute: int, second: float = 0.0, day: int = 21) -> float:
    return datetime(2026, 11, day, hour, minute, tzinfo=UTC).timestamp() + second


@pytest.mark.parametrize(
    ("line", "instant"),
    [
        ("2026-11-21T08:06:59.250Z step 3", at(8, 6, 59.25)),
        ("2026-11-21T10:06:59+02:00 step 3", at(8, 6, 59)),
        ("2026-11-21 03:06:59 -0500 step 3", at(8, 6, 59)),
        ("2026-11-21 08:06:59,123 INFO step 3", at(8, 6, 59.123)),
        ("[2026-11-21 08:06:59,123][trainer][INFO] - step 3", at(8, 6, 59.123)),
        ("INFO 2026/11/21 08:06:59 step 3", at(8, 6, 59)),
        ("I20261121 08:06:59.123456 139 trainer.py:55] step 3", at(8, 6, 59.123456)),
        ("W1121 08:06:59.123456 139 trainer.py:55] step 3", at(8, 6, 59.123456)),
        ("08:06:59 step 3", at(8, 6, 59)),
        ("[08:06:59] step 3", at(8, 6, 59)),
        ("[rank0]: 2026-11-21 08:06:59 step 3", at(8, 6, 59)),
        ("23:59:58 step 3", at(23, 59, 58, day=20)),
        (
            "E1231 23:59:58.1 7 x.py:5] bad",
            datetime(2025, 12, 31, 23, 59, 58, 100000, UTC).timestamp(),
        ),
    ],
)
def test_the_usual_forms(line: str, instant: float) -> None:
    assert line_time(line, NEAR, utc=True) == pytest.approx(instant, abs=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        "step 3 loss 2.5",
        "",
        "00:03<01:20, 5.1it/s",
        " 45%|####  | 45/100 [00:00:03<00:00:20]",
        "2026-13-41 08:06:59 no such day",
        "2026-11-21 25:06:59 no such hour",
        "loss at 2026-11-21",
        "2027-11-21 08:06:59 a year ahead of the file",
        "x" * 200 + " 2026-11-21 08:06:59",
        "I0230 08:06:59.1 7 x.py:5] no such day",
    ],
)
def test_no_believable_time(line: str) -> None:
    assert line_time(line, NEAR, utc=True) is None


def test_a_local_time_is_not_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Etc/GMT-2")
    time.tzset()
    try:
        assert line_time("2026-11-21 10:06:59 x", NEAR, utc=False) == at(8, 6, 59)
        assert not writes_utc(["trace", "2026-11-21 10:09:00 x"], NEAR)
        assert writes_utc(["trace", "2026-11-21 08:09:00 x"], NEAR)
        assert writes_utc(["08:09:00 x"], NEAR) and not writes_utc(["10:09:00 x"], NEAR)
        assert not writes_utc(["2026-11-21T08:09:00Z x", "nothing"], NEAR)
    finally:
        monkeypatch.undo()
        time.tzset()


def stamped(at: float) -> str:
    return f"{datetime.fromtimestamp(at, tz=UTC):%Y-%m-%dT%H:%M:%S}Z step 1"


def test_the_last_line_was_written_by_the_last_write() -> None:
    near = 1_800_000_000.0
    assert clock_offset([stamped(near - 2)], near, False, 0.0, grown=True) == 0.0
    assert clock_offset([stamped(near + 7200)], near, False, 0.0, grown=False) == 7200.0
    assert clock_offset([stamped(near - 1234)], near, False, 0.0, grown=True) == -1234.0
    assert clock_offset([stamped(near - 1234)], near, False, 0.0, grown=False) == 0.0
    assert clock_offset([stamped(near - 8 * 3600)], near, False, 0.0, grown=False) == -28800.0
    assert clock_offset(["", "no time here"], near, False, 7200.0, grown=True) == 7200.0
    assert clock_offset([stamped(near + 7190)], near, False, 7200.0, grown=True) == 7200.0

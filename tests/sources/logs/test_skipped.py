"""A log that is written faster than it can be parsed: the newest lines, and what was left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.observed import LogValue
from cockpit.rules.triage.classify import alarms_in
from cockpit.sources.logs import follow
from cockpit.sources.logs.follow import LEAST
from cockpit.sources.logs.source import Logs
from tests.queries import queries_of
from tests.sources.logs.test_source import run_of

TROUBLE = "Traceback (most recent call last):"


def train(first: int, count: int, **odd: str) -> bytes:
    """Return nanoGPT's lines from a step on; ``odd`` has others, by their step (``s500``)."""
    steps = range(first, first + count)
    lines = (odd.get(f"s{n}", f"iter {n}: loss 2.5, time 13.12ms, mfu 38.10%") for n in steps)
    return "".join(f"{line}\n" for line in lines).encode()


async def look(logs: Logs, log: Path) -> LogValue:
    facet = (await logs.observe(queries_of([run_of(log)])))["r"]
    assert facet.value is not None and facet.error is None, facet.error
    return facet.value


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log").write_bytes(train(0, 10))
    return tmp_path / "log"


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let any log be read line by line for its last few hundred lines only."""
    monkeypatch.setattr(follow, "MOST_SEARCHED", LEAST)


def size_of(log: Path) -> int:
    return log.stat().st_size


def content(log: Path) -> bytes:
    return log.read_bytes()


def replace(log: Path, data: bytes) -> None:
    log.write_bytes(data)


def append(log: Path, data: bytes) -> None:
    with log.open("ab") as file:
        file.write(data)


@pytest.mark.usefixtures("slow")
async def test_the_newest_lines_are_read_and_the_range_before_them_is_told(log: Path) -> None:
    logs = Logs(SystemClock(), alarms_in)
    assert (await look(logs, log)).skipped is None
    begin = size_of(log)
    append(log, train(10, 5000))
    value = await look(logs, log)
    assert value.rows[-1].step == 5009 and len(value.rows) < 500
    assert value.skipped is not None
    ((left, right),) = value.skipped.ranges
    assert left == begin and value.skipped.bytes == right - left
    oldest = f"iter {value.rows[0].step}:".encode()
    assert content(log)[right:].startswith(oldest), "rows begin right where the range ends"
    append(log, train(5010, 3))
    value = await look(logs, log)
    assert [row.step for row in value.rows] == [5010, 5011, 5012]
    assert value.skipped is not None and value.skipped.ranges == ((left, right),)


@pytest.mark.usefixtures("slow")
async def test_alarming_lines_are_found_in_what_is_skipped(log: Path) -> None:
    logs = Logs(SystemClock(), alarms_in)
    await look(logs, log)
    append(log, train(10, 5000, s700="iter 700: loss nan, time 13.12ms", s800=TROUBLE))
    value = await look(logs, log)
    assert value.skipped is not None and value.skipped.unscanned == 0
    assert [(one.name, one.text) for one in value.skipped.found] == [
        ("numeric_instability", "iter 700: loss nan, time 13.12ms"),
        ("traceback", TROUBLE),
    ]
    for one in value.skipped.found:
        assert content(log)[one.offset :].startswith(one.text.encode())
    lost = [row for row in value.rows if row.loss is not None and math.isnan(row.loss)]
    assert [row.step for row in lost] == [700], "no rule may miss a loss that is no number"
    assert value.model_dump(mode="json", by_alias=True)["skipped"]["found"][1] == {
        "offset": value.skipped.found[1].offset,
        "class": "traceback",
        "text": TROUBLE,
    }


@pytest.mark.usefixtures("slow")
async def test_a_log_that_begins_anew_has_left_out_nothing(log: Path) -> None:
    logs = Logs(SystemClock(), alarms_in)
    await look(logs, log)
    append(log, train(10, 5000))
    assert (await look(logs, log)).skipped is not None
    replace(log, train(0, 5))
    assert (await look(logs, log)).skipped is None

"""What a W&B server did not send: rows that are read later, a summary that is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")

from cockpit.sources.wandb.online import Wandb
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.runstate import Rows
from tests.sources.wandb.fake_wandb import NOW_S, FakeRun, FakeWandb, Made, serving
from tests.sources.wandb.test_online import Clock, Looking, row, run_of


@pytest.fixture
def wandb() -> Iterator[FakeWandb]:
    with serving() as fake:
        fake.now = lambda: NOW_S
        yield fake
        assert fake.wrong == []


async def test_after_a_long_silence_the_newest_step_is_shown_and_the_hole_is_said(
    wandb: FakeWandb,
) -> None:
    kept = wandb.add(FakeRun("abc", [row(step) for step in range(100)]))
    look = Looking(run_of(wandb))
    tracker, rows = Wandb(Clock(), server=look.source), Rows()

    async def fed() -> tuple[bool, float]:
        while not (await feed_chunk(tracker, look.runs[0], rows)).caught_up:
            pass
        return rows.complete, round(rows.skipped, 1)

    await look.value()
    assert await fed() == (True, 0.0)
    kept.add(*(row(step, 9.0) for step in range(100, 9000)))
    value = await look.value()
    assert (value.step, value.loss, value.last_step_at) == (17_998, 9.0, NOW_S)
    assert await fed() == (False, 0.9) and value.scanned < 0.2
    for _ in range(3):
        await look.value()
        told = await fed()
    assert told == (True, 0.0) and rows.trend.rows == 9000


async def test_a_run_whose_summary_is_lost_is_not_one_without_rows(wandb: FakeWandb) -> None:
    def fail(info: object, keys: object = None) -> str:
        raise RuntimeError("summary timed out")

    run = wandb.add(FakeRun("abc", [row(step) for step in range(30)]))
    vars(run)["summaryMetrics"] = fail
    look = Looking(run_of(wandb))
    facet = await look.facet()
    assert facet.error is not None and "summary timed out" in facet.error.message
    del vars(run)["summaryMetrics"]
    assert (await look.value()).step == 58
    vars(run)["summaryMetrics"] = fail  # the newest rows tell it
    run.add(row(30))
    assert (await look.value()).step == 60


async def test_too_long_an_answer_is_asked_for_in_smaller_pieces(
    wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[[int], dict[str, Any]] = lambda step: row(step, note="n" * 900)  # noqa: E731
    wandb.add(FakeRun("abc", Made(60_000, make)))
    for name, size in {"CAP": 700_000, "BUDGET": 1_200_000, "FIRST_BUDGET": 600_000}.items():
        monkeypatch.setattr(f"cockpit.sources.wandb.online.{name}", size)
    look = Looking(run_of(wandb))
    known = 0
    for _ in range(6):
        known += (await look.facet()).known
    assert known >= 3
    await look.read()
    assert len(look.rows) > 1000


@pytest.mark.parametrize("at", [math.inf, math.nan, -5.0, NOW_S * 1000])
async def test_a_time_that_is_none_moves_no_other(wandb: FakeWandb, at: float) -> None:
    rows = [*(row(step) for step in range(30)), {**row(30), "_timestamp": at}]
    wandb.add(FakeRun("abc", rows))
    look = Looking(run_of(wandb))
    value = await look.value()
    assert (value.step, value.clock_offset_s, value.last_step_at) == (60, None, NOW_S - 971)
    assert await look.read() and look.rows[29].at == NOW_S - 971 and look.rows[30].at is None

"""A failure that a watch has seen counts for C-14, whoever has started the next job."""

from __future__ import annotations

from pathlib import Path

from bench.judgement.clock import HOUR, MINUTE, START
from bench.judgement.scenarios.alike import suspend
from bench.judgement.scenarios.jobs import failing_again, requeue
from bench.judgement.stage import CADENCE, Stage
from bench.judgement.watching import Watch
from cockpit.store.launches import Failures
from cockpit.store.store import Store


async def test_it_is_stored_when_another_job_begins_and_told_when_that_one_fails_too(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "run", seed=1)
    failing_again(stage, 1.1, 2.1)
    store = Store(tmp_path / "store.sqlite")
    watch = Watch(stage, store)
    await watch.begin()
    kept: list[int] = []
    for look in range(1, int(2.5 * HOUR / CADENCE)):
        stage.advance(START + look * CADENCE)
        await watch.look()
        kept.append(len(Failures(store).of(watch.state.key)))
    store.close()
    assert kept[0] == 0 and kept[-1] == 1
    (alert,) = (seen.alert for seen in watch.seen.values() if seen.alert.id == "C-14")
    assert alert.evidence[0].text.startswith("same failure as lm-1b-i001 at 2025-")
    assert ": code bug at train.py" in alert.evidence[0].text


async def test_restarts_under_one_number_are_counted_and_a_suspension_is_none(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path / "run", seed=1)
    stage.begin()
    stage.at(0.6 * HOUR, lambda: requeue(stage, 1))
    stage.at(1.3 * HOUR, lambda: suspend(stage, 20 * MINUTE))
    watch = Watch(stage, Store(tmp_path / "store.sqlite"))
    for look in range(1, 9):
        stage.advance(START + look * CADENCE)
        await watch.look()
    assert [at - START for at in watch.state.restarts] == [3 * CADENCE]

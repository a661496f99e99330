"""A job that is requeued keeps its id and its launch id, and may die again (SPEC J)."""

from __future__ import annotations

from pathlib import Path

from cockpit.model.alert import Acknowledgement
from cockpit.model.observed import JobValue, Phase
from cockpit.store.alerts import Alerts
from cockpit.store.store import Store, run_key
from tests.watch.fakes import World, until
from tests.watch.test_engine import run_of, watching


def died(world: World, restarts: int) -> JobValue:
    now = world.clock.now()
    return JobValue(
        id="12", state="FAILED", phase=Phase.FAILED, exit_code=1, launch_id="r-i001",
        started_at=now - 60, ended_at=now, restarts=restarts,
    )  # fmt: skip


async def test_a_death_that_was_acknowledged_does_not_hide_the_next(tmp_path: Path) -> None:
    """It ran again and died between two looks: nobody has seen it alive."""
    world, store = World(cadence=4.0), Store(tmp_path / "store.sqlite")
    world.fakes["job"].value = died(world, restarts=0)
    async with watching(world, store) as engine:
        key = run_key(world.file.path, "r")
        await until(lambda: Alerts(store).open(key))
        (first,) = (alert.key for alert in run_of(engine).alerts if alert.id == "C-01")
        ada = Acknowledgement(by="ada", at=world.clock.now())
        assert Alerts(Store(store.path)).acknowledge(key, first, ada)
        await until(lambda: engine.over("r"))
        world.fakes["job"].value = died(world, restarts=1)
        await engine.poke("r")
        await until(lambda: not engine.over("r"))
        (again,) = (alert for alert in run_of(engine).alerts if alert.id == "C-01")
    assert again.key != first and again.acknowledged is None

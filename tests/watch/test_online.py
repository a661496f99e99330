"""Online W&B under a watch: rows ride in one query per cadence; a server that is gone rests."""

from __future__ import annotations

import dataclasses
import functools

import pytest

from cockpit.model.facet import ErrorKind
from cockpit.model.report import RunReport
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.wandb.online import OnlineWandb, Wandb
from cockpit.watch.poller import DEADLINES, Seconds
from tests.sources.wandb.fake_wandb import KEY, FakeRun, FakeWandb, Reply, serving
from tests.watch.fakes import START, SteppedClock, World, until
from tests.watch.test_poller import LATE, watching

pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")


CADENCE = 30.0


@pytest.fixture(autouse=True)
def _slow_machines_fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give requests the time that they really take: the clock of these tests runs ahead."""
    monkeypatch.setitem(DEADLINES, "tracker", Seconds(here=1e6, away=1e6))


def row(step: int) -> dict[str, float]:
    return {"_step": step, "_timestamp": START + step, "global_step": step, "train/loss": 2.5}


def world_of(server: FakeWandb, projects: tuple[str, ...], speed: float) -> World:
    world = World("r", clock=SteppedClock(speed))
    runs = []
    for project in projects:
        wandb = WandbSpec(entity="acme", project=project, id="abc", base_url=server.base)
        runs.append(RunSpec(name=project, cadence=2 * CADENCE, wandb=wandb, final_step=1000))
        server.add(FakeRun("abc", [row(step) for step in range(9)]), project=project)
    env = {"WANDB_API_KEY": KEY, "HOME": "/nonexistent"}
    tracker = Wandb(world.clock, server=OnlineWandb(world.clock, env=env))
    world.file = world.file.model_copy(update={"runs": tuple(runs)})
    world.sources = dataclasses.replace(world.sources, tracker=tracker)
    return world


async def test_new_rows_wake_nobody_and_are_judged_all_the_same() -> None:
    with serving() as server:
        server.now = lambda: START
        world = world_of(server, ("hero",), speed=100.0)
        kept = server.runs["acme", "hero", "abc"]
        async with watching(world) as engine:
            for step in range(9, 13):
                await until(functools.partial(_more, server, len(server.asked)))
                kept.add({**row(step), "train/loss": float("nan") if step == 11 else 2.5})
            await until(lambda: any(a.id == "C-09" for a in engine.report().runs[0].alerts))
            passed = world.clock.monotonic()
        assert len(server.asked) <= passed / (LATE * CADENCE) + 2
        assert server.wrong == []


def _more(server: FakeWandb, asked: int) -> bool:
    return len(server.asked) > asked


def _refused(run: RunReport) -> bool:
    error = run.facets.tracker.error
    return error is not None and error.kind is ErrorKind.UNAUTHORIZED


async def test_a_server_that_is_gone_is_asked_once_per_back_off_for_all_its_projects() -> None:
    least = LATE * 0.8 * 2 * CADENCE  # between two requests, once the server is known to be gone
    with serving() as server:
        world = world_of(server, ("one", "two", "three"), speed=120.0)
        server.reply = Reply(401, b"{}")
        async with watching(world) as engine:
            await until(lambda: all(map(_refused, engine.report().runs)))
            first, began = len(server.asked), world.clock.monotonic()
            await until(functools.partial(_more, server, first + 2))
            passed = world.clock.monotonic() - began
            server.reply = None
            await engine.poke("two", "tracker")
            await until(lambda: engine.report().runs[1].facets.tracker.known)
        # Nothing was known of the server yet; the clock may run on before we see the answers.
        assert first <= 3 + began / least
        assert passed >= 2 * least, "three requests are three back-offs"

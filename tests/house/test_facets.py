"""Every facet is asked, arrives and is shown; none can be unwired unseen."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.facet import ErrorKind, Facet, unknown
from cockpit.model.observed import CodeValue, Disk, HostValue, RecordsValue
from cockpit.model.report import RunReport
from cockpit.watch.engine import Engine
from tests.screens.stand_in import cockpit, text_of
from tests.watch.fakes import World, until
from tests.widgets import reports as made

FACETS = ("job", "log", "tracker", "checkpoints", "monitor", "host", "code", "records")
"""The eight facets of the public interface."""


def refused(facet: str, now: float) -> Facet[Any]:
    return unknown(ErrorKind.REFUSED, f"no {facet} today", facet, now)


def refusing() -> World:
    """A fleet whose every source answers with a reason of its own."""
    world = World()
    for facet in FACETS:
        world.fakes[facet].answers["r"] = refused(facet, world.clock.now())
    return world


def reasons(report: RunReport) -> dict[str, str]:
    return {name: facet.error.message for name, facet in report.facets.items() if facet.error}


EVERY_REASON = {facet: f"no {facet} today" for facet in FACETS}


async def test_one_check_asks_for_every_facet() -> None:
    world = refusing()
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    report = await engine.check()
    assert reasons(report.runs[0]) == EVERY_REASON


async def test_a_watch_asks_for_every_facet() -> None:
    world = refusing()
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    loop = asyncio.create_task(engine.run())
    try:
        await until(lambda: reasons(engine.report().runs[0]) == EVERY_REASON)
    finally:
        loop.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await loop


@pytest.mark.parametrize("facet", FACETS)
async def test_a_source_that_breaks_costs_its_own_facet_alone(facet: str) -> None:
    world = refusing()
    world.fakes[facet].raising = RuntimeError("a fault of ours")
    engine = Engine(world.file, store=None, clock=world.clock, sources=world.sources)
    told = reasons((await engine.check()).runs[0])
    assert world.fakes[facet].asked
    assert told.pop(facet) != EVERY_REASON[facet]
    assert told == {name: text for name, text in EVERY_REASON.items() if name != facet}


async def test_every_facet_has_its_place_in_the_table() -> None:
    report = made.report("run-a")
    facets = {facet: refused(facet, made.NOW) for facet in FACETS}
    app = cockpit(report.model_copy(update={"facets": report.facets.model_copy(update=facets)}))
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("enter", "4")
        await pilot.pause()
        shown = text_of(app)
    assert [facet for facet in FACETS if f"refused: no {facet} today" not in shown] == []


async def test_every_value_can_be_shown() -> None:
    seen = made.facets(
        host=made.observed(HostValue(disks=(Disk(mount="/", free=1, used_frac=0.5),))),
        code=made.observed(CodeValue(sha="3fa2c1e", branch="main")),
        records=made.observed(RecordsValue(logbook="/data/book.md", pushed=True)),
    )
    assert [name for name, facet in seen.items() if facet.value is None] == []
    report = made.report("run-a", seen=seen)
    app = cockpit(report)
    async with app.run_test(size=(120, 60)) as pilot:
        await pilot.press("enter", "4")
        await pilot.pause()
        shown = text_of(app)
    assert [facet for facet in FACETS if f"{facet:<13}" not in shown] == []
    assert "not in the run file" not in shown


def test_the_documents_name_every_facet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "toy"\n')
    main(["check", "--json", "--config", str(path)])
    checked = capsys.readouterr().out
    main(["doctor", "--config", str(path)])
    findings = capsys.readouterr().out
    assert tuple(json.loads(checked)["runs"][0]["facets"]) == FACETS
    for facet in FACETS:
        assert f"toy {facet} " in findings

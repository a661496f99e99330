"""The charts of a run: any metric, two at once, cursor, zoom; and the loss of a real file."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.content import Content
from textual.pilot import Pilot

from cockpit.config.file import load
from cockpit.model.clock import FixedClock
from cockpit.model.curve import USUAL, Curve, Part
from cockpit.model.report import RunReport
from cockpit.verbs.check import checked
from screens.run_keys import metrics_like
from tests.screens.stand_in import StandIn, cockpit, text_of
from tests.verbs.seen_run import SeenRun, living
from tests.widgets import reports as made
from tests.widgets.test_figures import a_curve
from widgets.metric_charts import MetricCharts


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunReport]:
    """45 rows, the last at step 88, one of them a spike to 495 at step 44."""
    for process in living():
        yield asyncio.run(_checked(tmp_path_factory.mktemp("seen"), process))


async def _checked(folder: Path, process: subprocess.Popen[bytes]) -> RunReport:
    seen = SeenRun(folder, process)
    seen.log("loading\n", 0.5)
    losses = {step: 5 - step / 40 for step in range(0, 90, 2)} | {44: 495.0}
    seen.tracked([seen.row(step, f"{loss}", 1 + step) for step, loss in losses.items()], 90)
    (run,) = (await checked(load(seen.config), [], FixedClock(seen.start + 91))).runs
    return run


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_on_the_run_screen(report: RunReport, size: tuple[int, int]) -> None:
    app = cockpit(report, run=report.name)
    async with app.run_test(size=size) as pilot:
        await pilot.press("2")
        await pilot.pause(0.1)
        lines = [line for line in text_of(app).splitlines() if "│" in line]
    top = next(at for at, line in enumerate(lines) if "┤" in line)
    bottom = next(at for at, line in enumerate(lines) if "└" in line)
    drawn = [line.split("│")[2] if line.count("│") > 2 else line for line in lines[top:bottom]]
    begin, end = lines[bottom].index("└") + 1, lines[bottom].rindex("─") + 1
    spike = lines[top].index("↑")
    assert abs(spike - (begin + (end - begin) // 2)) <= 1
    assert lines[bottom + 1].split("│")[1].split()[-1] == "88"
    columns = [lines[at][begin:end] for at in range(top, bottom)]
    assert all(any(row[at] not in " │" for row in columns) for at in (0, -1)), drawn
    assert "↑ 1 beyond, to 495" in lines[bottom + 2]


async def test_in_a_panel_and_in_the_list(report: RunReport) -> None:
    app = cockpit(report)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.1)
        assert text_of(app).count("↑") == 1
    many = [report.model_copy(update={"spec": report.spec.model_copy(update={"name": f"run-{n}"})})
            for n in range(12)]  # fmt: skip
    app = cockpit(*many)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.1)
        (first, *_) = (line for line in text_of(app).splitlines() if "run-1" in line)
        curve = first.split("5.0")[-1]
        assert "↑" in curve


LOGGED = (*USUAL, "eval/accuracy")


def engine() -> StandIn:
    made_up = StandIn(made.report())
    made_up.curves.known = {each: a_curve()._replace(metric=f"train/{each}") for each in LOGGED}
    return made_up


async def charts(pilot: Pilot[Any], *keys: str) -> str:
    await pilot.press(*keys)
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()
    return text_of(pilot.app)


async def test_keys_of_the_charts() -> None:
    source = engine()
    app = cockpit(engine=source, run="run-a")
    async with app.run_test(size=(80, 24)) as pilot:
        assert "╭ loss 999.0 nats 1m ago · step 999" in await charts(pilot, "2")
        assert "╭ throughput 999" in await charts(pilot, "m")
        both = await charts(pilot, "d")
        assert "╭ throughput" in both and "╭ loss" in both
        assert source.curves.asked[-1][0] == ("throughput", "loss")
        assert "╭ loss" not in await charts(pilot, "d")
        assert "─ 999 nats · step 999" in await charts(pilot, "right")
        near = await charts(pilot, "z", "left")
        assert "25 % of the run" in near
        span = source.curves.asked[-1][1]
        assert (span.low, span.high) == (749.25, 999.0)
        assert "by time" in await charts(pilot, "a")
        assert source.curves.asked[-1][1].by_time
        assert "linear: not all above 0" in await charts(pilot, "l")


async def test_a_metric_is_found_by_some_of_its_letters() -> None:
    source = engine()
    app = cockpit(engine=source, run="run-a")
    async with app.run_test(size=(80, 24)) as pilot:
        await charts(pilot, "2")
        offered = await charts(pilot, "F", *"accu")
        assert " eval/accuracy" in offered
        assert "╭ eval/accuracy 999" in await charts(pilot, "enter")
        both = await charts(pilot, "F", *"grad,lrn", "enter")
        assert "╭ grad norm" in both and "╭ learning rate" in both
        assert "no metric has a name like zzz" in await charts(pilot, "F", *"zzz", "enter")
        await pilot.press("F", "escape")
        assert "╭ grad norm" in await charts(pilot, "1", "2")


async def test_a_wall_screen_shows_all_usual_metrics() -> None:
    source = engine()
    app = cockpit(engine=source, run="run-a")
    async with app.run_test(size=(200, 50)) as pilot:
        shown = await charts(pilot, "2")
    assert all(f"╭ {each} 999" in shown for each in USUAL)
    assert source.curves.asked[-1][0] == USUAL


def spiked(spread: float) -> Curve:
    """A climb with one value far above it, which a climb of less ``spread`` leaves off the axis."""
    values = [1 + spread * at / 400 for at in range(400)]
    values[200] = 4.5
    parts = tuple(Part(at, at, None, None, it, it, it, 1, 0) for at, it in enumerate(values))
    return Curve("train/loss", parts=parts, extent=(0, 399), rows=400)


async def test_another_size_has_its_own_axis_from_its_first_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = engine()
    source.curves.known["loss"] = spiked(1.0)
    app = cockpit(engine=source, run="run-a")
    async with app.run_test(size=(80, 25)) as pilot:
        await charts(pilot, "2")
        source.curves.known["loss"] = spiked(0.8)
        drawn = app.screen.query_one(MetricCharts)
        drawn.take((), ("loss",), [spiked(0.8)])
        assert "4.0 ┤" in text_of(app), "while the size stands, so does the axis"
        paint, painted = drawn.paint, []

        def noting(width: int, height: int) -> list[Content]:
            lines = paint(width, height)
            if width == 100:
                painted.append([line.plain for line in lines])
            return lines

        monkeypatch.setattr(drawn, "paint", noting)
        await pilot.resize_terminal(100, 30)
        await charts(pilot)
        assert "4.0 ┤" not in text_of(app)
    assert len(painted) > 1 and all(each == painted[0] for each in painted)


async def test_why_there_is_no_such_curve_is_said() -> None:
    source = StandIn(made.report())
    source.curves.known = {"throughput": Curve("throughput", why="no throughput was logged")}
    app = cockpit(engine=source, run="run-a")
    async with app.run_test(size=(80, 24)) as pilot:
        assert "? no throughput was logged" in await charts(pilot, "2", "m")


@pytest.mark.parametrize(
    ("typed", "first"),
    [("loss", "loss"), ("acc", "eval/acc"), ("elo", "eval/loss"), ("optlr", "optim/lr"), ("", "x")],
)
def test_names_are_ranked_by_how_well_they_fit(typed: str, first: str) -> None:
    names = ("train/loss", "eval/loss", "loss", "optim/lr", "x", "eval/acc", "eval/accuracy")
    assert metrics_like(typed, names)[0] == first
    assert metrics_like("lossy", names) == ()

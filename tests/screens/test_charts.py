"""The three places where a loss is drawn, of a real file: a point stands where its step is."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.model.clock import FixedClock
from cockpit.model.report import RunReport
from cockpit.verbs.check import checked
from tests.screens.stand_in import cockpit, text_of
from tests.verbs.seen_run import SeenRun, living


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

"""Presenting enlarges what matters where there is room, and changes nothing where there is none."""

from __future__ import annotations

import pytest

from screens.run_layout import has_room
from tests.screens.stand_in import cockpit, text_of
from tests.widgets import reports as made
from widgets.metric_charts import LossChart
from widgets.painting.big import enlarged
from widgets.run_header import BigFigures


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50)])
@pytest.mark.parametrize("present", [False, True])
async def test_figures_are_enlarged_for_those_who_look_on(
    size: tuple[int, int], present: bool
) -> None:
    report = made.fleet()[0]
    app = cockpit(report, run=report.name, present=present)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        big = present and has_room(*size)
        assert app.screen.query_one(BigFigures).display is big
        step = [row.strip() for row in enlarged("8,004", plain=False)]
        assert all(row in text_of(app) for row in step) is big


async def test_the_loss_gets_more_room() -> None:
    report, areas = made.fleet()[0], {}
    for present in (False, True):
        app = cockpit(report, run=report.name, present=present)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.pause()
            size = app.screen.query_one(LossChart).size
            areas[present] = size.width * size.height
    assert areas[True] > 1.5 * areas[False]


async def test_a_terminal_without_box_lines_has_figures_in_ascii() -> None:
    report = made.fleet()[0]
    app = cockpit(report, run=report.name, present=True, ascii=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert all(row.strip() in text_of(app) for row in enlarged("8,004", plain=True))


@pytest.mark.parametrize("present", [False, True])
@pytest.mark.parametrize("size", [(159, 50), (160, 47), (160, 48), (200, 50)])
async def test_the_selected_run_of_the_fleet_is_enlarged_above_all_where_there_is_room(
    size: tuple[int, int], present: bool
) -> None:
    runs = (made.failed(), made.report("run-b"))
    app = cockpit(*runs, present=present)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        above = present and size[0] >= 160 and size[1] >= 48
        assert any(each.display for each in app.screen.query(BigFigures)) is above
        for key, name in (("home", "run-failed"), ("end", "run-b")):
            await pilot.press(key)
            await pilot.pause()
            assert (name in text_of(app).partition("cockpit")[0]) is above
        assert "? keys" in text_of(app).splitlines()[-1]  # nothing is pushed off the screen

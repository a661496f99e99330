from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest
from textual.color import Color
from textual.content import Content
from textual.filter import Monochrome
from textual.geometry import Region

from cockpit.app.application import CockpitApp
from cockpit.model.alert import Severity
from cockpit.model.report import RunReport, Verdict, View
from screens import fleet
from screens.acting.form import AckScreen
from screens.fleet import HELD, FleetScreen
from screens.help import HelpScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import StandInService
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, StillClock, cockpit, screen_of, text_of
from tests.widgets import reports as made
from widgets import fleet_header, run_list
from widgets.painting.panel import paint_panel, tiling
from widgets.run_list import RunPanel


async def test_many_runs_become_a_list_and_few_become_panels() -> None:
    runs = [made.report(f"run-{n:02d}") for n in range(30)]
    app = cockpit(*runs)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "╭" not in text_of(app)
        await pilot.press("/", *"run-07", "enter")
        assert "┍▸● run-07" in text_of(app)
        assert "/run-07 1 of 30" in text_of(app)
        await pilot.press("escape")
        assert "╭" not in text_of(app)


async def test_a_key_counts_no_run_anew_and_news_do(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    counts = fleet_header._counts

    def counting(reports: Sequence[RunReport], wide: bool) -> list[Content]:
        counted.append(len(reports))
        return counts(reports, wide)

    monkeypatch.setattr(fleet_header, "_counts", counting)
    runs = [made.report(f"run-{n:03d}") for n in range(200)]
    engine = StandIn(*runs)
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        before = len(counted)
        assert before
        await pilot.press(*"jjkG")
        assert len(counted) == before and "▌● run-199" in text_of(app)
        engine.tell(made.report("run-150", Verdict.CRITICAL, (made.alert("C-01"),)))
        await until(pilot, lambda: "■ 1 critical" in text_of(app))
        assert len(counted) > before


async def test_a_key_costs_what_is_in_sight_however_many_runs_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sorts, measured = Counter[str](), Counter[str]()
    sort, height = fleet.ordered, run_list.height_of

    def counted_sort(reports: Sequence[RunReport], view: View) -> list[RunReport]:
        sorts[view.sort] += 1
        return sort(reports, view)

    def counted_height(report: RunReport, width: int) -> int:
        measured[report.name] += 1
        return height(report, width)

    monkeypatch.setattr(fleet, "ordered", counted_sort)
    monkeypatch.setattr(run_list, "height_of", counted_height)
    engine = StandIn(*(made.report(f"run-{n:04d}") for n in range(1000)))
    app = cockpit(engine=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j")
        sorts.clear()
        measured.clear()
        await pilot.press(*["j"] * 10, "G", "g", "ctrl+d", "ctrl+u")
        assert "▌● run-0000" in text_of(app)
        assert not sorts
        assert measured.total() < 14 * 5 * 24
        engine.tell(made.report("run-0500", verdict=Verdict.CRITICAL))
        await until(pilot, lambda: "run-0500" in engine.preferred)
        assert sorts and len(engine.preferred) < 24
        shown = text_of(app)
        assert shown.index("run-0000") < shown.index("run-0500") < shown.index("run-0001")


async def test_a_key_paints_the_rows_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    painted: list[str] = []
    paint = run_list.paint_row

    def counted(report: RunReport, *rest: Any) -> list[Content]:
        painted.append(report.name)
        return paint(report, *rest)

    monkeypatch.setattr(run_list, "paint_row", counted)
    engine = StandIn(*(made.report(f"run-{n:03d}") for n in range(200)))
    app = cockpit(engine=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j")
        painted.clear()
        await pilot.press("j")
        assert painted == ["run-001", "run-002"] and "▌● run-002" in text_of(app)
        painted.clear()
        engine.tell(made.report("run-003", step=9_123))
        await until(pilot, lambda: "9123" in text_of(app).replace(",", ""))
        assert painted == ["run-003"]


async def test_the_selection_follows_the_run_when_the_order_changes() -> None:
    engine = StandIn(made.report("run-a"), made.report("run-b"))
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("right")
        assert screen_of(app, FleetScreen).selected == "run-b"
        engine.tell(made.report("run-b", Verdict.CRITICAL, (made.alert("C-01"),)))
        app.show_news()
        await pilot.pause()
        shown = text_of(app)
        assert shown.index("run-b") < shown.index("run-a")
        assert "┍▸■ run-b" in shown


async def test_a_run_that_falls_sick_gets_a_wide_panel_and_one_that_is_well_again_a_few_lines() -> (
    None
):
    runs = [made.failed("r-0"), *(made.report(f"r-{at}") for at in range(1, 6))]
    engine = StandIn(*runs)
    app = cockpit(engine=engine)
    app._clock = clock = StillClock()
    async with app.run_test(size=(200, 50)) as pilot:
        for report in (made.failed("r-3"), made.diverged("r-4"), made.report("r-3")):
            engine.tell(report)
            clock.at += HELD
            app._show()
            await pilot.pause()
            fleet = screen_of(app, FleetScreen)
            wanted = tiling(fleet.shown, (), 198, 48)
            panels = [each for each in fleet.query(RunPanel) if each.display]
            where = [each.region.translate((-1, -1)) for each in panels]
            assert wanted is not None
            assert [(at.x, at.y, at.width, at.height) for at in where] == list(wanted.tiles)
            assert [each.report for each in panels] == fleet.shown


async def test_a_run_keeps_its_place_and_size_for_a_minute_unless_one_turns_critical() -> None:
    """Cards that change places with every look make the eye lose its run."""
    engine = StandIn(made.report("run-a"), made.report("run-b"), made.report("run-c"))
    app = cockpit(engine=engine)
    app._clock = clock = StillClock()

    def places() -> dict[str, object]:
        panels = [each for each in app.screen.query(RunPanel) if each.display and each.report]
        return {each.report.name: each.region for each in panels if each.report is not None}

    async def told(report: RunReport, later: float) -> None:
        clock.at += later
        engine.tell(report)
        app._show()
        await pilot.pause()

    async with app.run_test(size=(200, 50)) as pilot:
        await told(made.report("run-a"), 0.0)
        first = places()
        slow = made.report("run-c", Verdict.ATTENTION, (made.alert("C-05"),))
        await told(slow, 30.0)
        assert places() == first, "what is not critical waits until the minute is over"
        await told(slow, HELD)
        second = places()
        assert second != first and list(second) == ["run-c", "run-a", "run-b"]
        await pilot.press("right")
        await told(made.report("run-c"), HELD + 1)
        assert screen_of(app, FleetScreen).selected == "run-a"
        third = places()
        await told(made.report("run-b", Verdict.CRITICAL, (made.alert("C-01"),)), 1.0)
        assert next(iter(places())) == "run-b" and places() != third, "a critical one comes at once"


async def test_until_somebody_moves_the_worst_run_is_selected() -> None:
    engine = StandIn(made.report("run-a"), made.report("run-b"))
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        assert screen_of(app, FleetScreen).selected == "run-a"
        engine.tell(made.report("run-b", Verdict.CRITICAL, (made.alert("C-01"),)))
        app.show_news()
        await pilot.pause()
        assert screen_of(app, FleetScreen).selected == "run-b"


async def test_sorting_goes_round() -> None:
    app = cockpit(made.report("b", eta=60.0), made.report("a", eta=9000.0), made.failed("c"))
    async with app.run_test(size=(200, 50)) as pilot:
        orders = []
        for _ in range(4):
            orders.append([each.name for each in screen_of(app, FleetScreen).shown])
            await pilot.press("s")
        assert orders == [["c", "b", "a"], ["a", "b", "c"], ["b", "a", "c"], ["b", "a", "c"]]
        assert [each.name for each in screen_of(app, FleetScreen).shown] == ["c", "b", "a"]


async def test_enter_opens_the_selected_run_and_escape_comes_back() -> None:
    engine = StandIn(*made.fleet())
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("right", "enter")
        assert screen_of(app, RunScreen).selected == "run-nan"
        assert engine.seen == ["run-nan"]
        await pilot.press("escape")
        assert screen_of(app, FleetScreen).selected == "run-nan"


async def test_help_palette_check_theme_and_copy() -> None:
    engine = StandIn(*made.fleet())
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("?")
        assert screen_of(app, HelpScreen)
        assert "query every source again now" in text_of(app)
        await pilot.press("?")
        await pilot.press("c")
        assert engine.poked == ["run-failed"]
        await pilot.press("t")
        assert app.theme == "cockpit-light"
        await pilot.press(":", *"run-lo", "enter")
        assert screen_of(app, RunScreen).selected == "run-lost"
        await pilot.press(":", *"open alerts, then", "enter")
        assert "5 timeline" in text_of(app) and "all that happened" in text_of(app)


async def test_nothing_is_repainted_when_nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    app = cockpit()
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause(0.2)
        painted: list[object] = []
        for widget in app.screen.query("*"):
            monkeypatch.setattr(widget, "refresh", lambda *regions, **_: painted.append(regions))
        app._take_all()
        assert painted == []


async def test_an_age_that_steps_repaints_one_line_of_its_panel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = cockpit(made.report("run-a"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause(0.2)
        painted: list[Region] = []
        for widget in app.screen.query("RunPanel"):
            monkeypatch.setattr(widget, "refresh", lambda *regions, **_: painted.extend(regions))
        assert isinstance(app._clock, StillClock)
        app._clock.at += 45
        app._take_all()
        assert 1 <= len(painted) <= 2
        assert all(region.height == 1 for region in painted)


async def test_ages_are_shown_when_one_steps_and_else_only_what_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = StandIn(made.report("run-a"), made.report("run-b"))
    app = cockpit(engine=engine)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause(0.2)
        fleet, clock = screen_of(app, FleetScreen), app._clock
        assert isinstance(clock, StillClock)
        shown = Mock(wraps=fleet.show)
        monkeypatch.setattr(fleet, "show", shown)

        def looks() -> int:
            shown.reset_mock()
            app._in_time()
            return shown.call_count

        app._in_time()
        assert [looks(), looks()] == [0, 0]
        end = min(panel._kept.end for panel in fleet.query(RunPanel) if panel._kept)
        clock.at = math.nextafter(end, 0.0)
        assert looks() == 0
        clock.at = end
        assert [looks(), looks()] == [1, 0]
        clock.at -= 3600.0
        assert [looks(), looks()] == [1, 0], "the clock was set back"
        engine.notices = ("a notice",)
        assert looks() == 1 and "a notice" in text_of(app)
        engine.notices = ()
        assert looks() == 1
        engine.runs = [engine.runs[1]]  # an order tells of no report
        assert looks() == 1 and "run-a" not in text_of(app)


async def test_a_run_file_with_other_keys() -> None:
    app = cockpit(keys={"sort": "O"})
    async with app.run_test(size=(120, 40)) as pilot:
        assert "O sort" in text_of(app)
        await pilot.press("O")
        assert app.view.sort == "name"
        await pilot.press("s")
        assert app.view.sort == "name"


async def test_no_runs_is_a_fleet_of_none() -> None:
    app = cockpit(engine=StandIn())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "down", "pagedown", "c", "y", "s")
        assert "0 runs" in text_of(app)


async def test_a_watch_that_ends_is_told_and_ends_nothing_else() -> None:
    engine = StandIn(*made.fleet())
    engine.fault = RuntimeError("boom")
    app = cockpit(engine=engine)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause(0.3)
        assert "watch: STOPPED" in text_of(app)
        assert "run-failed" in text_of(app)
        assert "RuntimeError" in text_of(app)


async def test_a_long_notice_is_read_whole_and_gives_its_rows_back() -> None:
    engine = StandIn(*made.fleet())
    wrong = "cockpit.toml:7: run.job.kind: expected one of iris, ray, slurm, box, local"
    told = f"{wrong}; the previous version of the run file stays in use"
    app = cockpit(engine=engine)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "? keys" in text_of(app))
        plain = text_of(app)
        engine.notices = (told,)
        app.repaint_footer()
        await until(pilot, lambda: "stays in use" in text_of(app))
        lines = text_of(app).splitlines()
        assert " ".join(each.strip() for each in lines[-3:-1]) == told
        assert lines[-1] == plain.splitlines()[-1], "the keys stand where they were"
        await pilot.resize_terminal(200, 24)
        await until(pilot, lambda: told in text_of(app).splitlines()[-1])
        await pilot.resize_terminal(80, 24)
        engine.notices = ()
        app.repaint_footer()
        await until(pilot, lambda: text_of(app) == plain)


async def test_ascii_draws_with_ascii_only() -> None:
    app = cockpit(made.report("run-a"), made.failed(), made.diverged(), ascii=True)
    async with app.run_test(size=(200, 50)) as pilot:
        await pilot.pause()
        assert text_of(app).isascii()
        await pilot.press("enter", "2")
        assert text_of(app).isascii()
        await pilot.press("?")
        assert text_of(app).isascii()


async def test_present_masks_people_hosts_and_paths_but_no_run() -> None:
    seen = made.facets(log=made.log("saved to /home/ada/x/step-9 by ada@box", "10.1.2.3 up"))
    app = cockpit(made.report("run-ada", seen=seen), present=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        shown = text_of(app)
        assert "run-ada" in shown and "~8,004/20,000" in shown and "2m, every 10m" in shown
        assert "READ-ONLY" in shown
        for secret in ("/home", "ada@box", "10.1.2.3", " ada "):
            assert secret not in shown.replace("run-ada", "")
        await pilot.press("enter", "4")
        assert "/data" not in text_of(app)


async def test_behind_a_dialog_the_fleet_goes_on_living() -> None:
    engine = StandIn(made.report("run-a"), made.report("run-b"))
    app = cockpit(engine=engine, service=StandInService())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("A")
        await until(pilot, lambda: isinstance(app.screen, AckScreen))
        assert screen_of(app, AckScreen) and "log now" in text_of(app)
        assert isinstance(app._clock, StillClock)
        app._clock.at += 600
        engine.tell(made.failed("run-b"))
        app.show_news()
        await pilot.pause()
        assert screen_of(app, AckScreen)
        shown = text_of(app)
        assert "log now" not in shown and "run-b" in shown and "FAILED" in shown
        assert "1 critical" in shown


@pytest.mark.parametrize("theme", ["cockpit-dark", "cockpit-light", "cockpit-dark-safe"])
async def test_without_colour_what_needs_a_person_stands_out_most(
    theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    alert = made.alert("C-05", Severity.ALERT)
    app = cockpit(
        made.failed(), made.report("run-b", Verdict.ATTENTION, (alert,)), made.report("c")
    )
    async with app.run_test(size=(200, 50)) as pilot:
        app.theme = theme
        await pilot.pause(0.2)
        critical, attention = contrast(app, "■ 1 critical"), contrast(app, "▲ 1 attention")
        assert critical >= attention >= contrast(app, "RUNNING") > contrast(app, "loss")
        await pilot.press("t")
        assert contrast(app, "■ 1 critical") >= contrast(app, "RUNNING")


def contrast(app: CockpitApp, words: str) -> float:
    """Return how much the words stand out from their ground, as the terminal is sent them."""
    for strip in app.screen._compositor.render_strips():
        for segment in Monochrome().apply(list(strip), Color.parse("black")):
            if words in segment.text and segment.style is not None:
                ink, ground = segment.style.color, segment.style.bgcolor
                assert ink is not None and ground is not None
                light = [Color.from_rich_color(each).brightness for each in (ink, ground)]
                return max(light) - min(light)
    raise AssertionError(f"{words!r} is not there")


async def test_a_key_paints_the_panels_that_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixty panels two: what stood there stands, until a report says something else of it."""
    painted: list[str] = []

    def counted(report: RunReport, *rest: Any) -> list[Content]:
        painted.append(report.name)
        return paint_panel(report, *rest)

    monkeypatch.setattr("widgets.run_list.paint_panel", counted)
    runs = [made.report(f"run-{n:02d}") for n in range(8)]
    engine = StandIn(*runs)
    app = cockpit(engine=engine)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        assert "╭" in text_of(app)
        painted.clear()
        await pilot.press("j")
        before = screen_of(app, FleetScreen).selected
        painted.clear()
        await pilot.press("j")
        assert set(painted) == {before, screen_of(app, FleetScreen).selected}
        painted.clear()
        engine.tell(made.report("run-05", step=9_321))
        app.show_news()
        await pilot.pause()
        assert set(painted) == {"run-05"} and "~9,321" in text_of(app)

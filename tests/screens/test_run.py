from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.app.application import CockpitApp
from cockpit.model.logtext import LogPage
from cockpit.model.observed import Pick
from cockpit.model.place import place_of
from cockpit.model.report import RunReport, Verdict
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.logs.source import Logs
from screens.log_reader import LogReader, read_book
from screens.run import RunScreen
from tests.queries import queries_of
from tests.screens.stand_in import SIZES, StandIn, StillClock, app_of, cockpit, screen_of, text_of
from tests.widgets import reports as made
from widgets.log_view import LogView


def with_log(path: Path, name: str = "run-a", **changes: object) -> RunReport:
    status = path.stat()
    return made.report(name, seen=made.facets(log=made.log(path=str(path), size=status.st_size)))


def with_book(path: Path) -> RunReport:
    report = made.report("run-a")
    records = report.spec.records.model_copy(update={"logbook": str(path)})
    spec = report.spec.model_copy(update={"records": records})
    return report.model_copy(update={"spec": spec})


def write_log(path: Path, count: int) -> Path:
    path.write_text("".join(f"line {n:06d} of the log\n" for n in range(count)))
    return path


async def until(pilot: Pilot[Any], true: Callable[[], bool]) -> None:
    for _ in range(200):
        if true():
            return
        await pilot.pause(0.02)
    raise AssertionError(f"never true; on the screen:\n{text_of(pilot.app)}")


@asynccontextmanager
async def opened(*runs: RunReport, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Pilot[Any]]:
    app = cockpit(*runs, run=runs[0].name)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.1)
        yield pilot


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("report", made.fleet(), ids=lambda each: each.name)
async def test_every_tab_of_every_kind_of_run(report: RunReport, size: tuple[int, int]) -> None:
    async with opened(report, size=size) as pilot:
        for key, words in zip("123456", ("log ", "loss ", "checkpoints", "sources", "timeline",
                                         "logbook"), strict=True):  # fmt: skip
            await pilot.press(key)
            assert f"╭ {words}" in text_of(pilot.app)
        await pilot.press("tab")
        assert "╭ log " in text_of(pilot.app)


async def test_wide_screens_show_what_is_wrong_beside_the_log() -> None:
    async with opened(made.failed(), size=(200, 50)) as pilot:
        shown = text_of(pilot.app)
        assert "╭ what is wrong" in shown
        assert "╭ checkpoints" in shown
        assert "▸ 8,000" in shown
        await pilot.press("3")
        assert text_of(pilot.app).count("╭ checkpoints") == 1


@pytest.mark.parametrize("key", ["1", "2", "3", "4", "5", "6"])
async def test_a_strip_below_every_tab_says_what_is_wrong_and_what_to_do(key: str) -> None:
    """120x40: no empty rows while alerts, loss and checkpoints hide behind tabs."""
    async with opened(made.failed(), size=(120, 40)) as pilot:
        await pilot.press(key)
        shown = text_of(pilot.app)
        for frame in ("loss ", "checkpoints", "timeline" if key == "5" else "what is wrong"):
            assert shown.count(f"╭ {frame}") == 1
        assert "killed by signal 9" in shown and "look at the input pipeline" in shown


async def test_the_next_action_and_the_key_to_its_evidence_stand_on_a_laptop_too() -> None:
    action = "escalate to ada; this is not an infrastructure failure, do not relaunch it as one"
    report = made.failed().model_copy(update={"next_action": action})
    async with opened(report, size=(80, 24)) as pilot:
        lines = text_of(pilot.app).splitlines()
        assert " ".join(f"{lines[3]} {lines[4]}".split()) == f"→ {action}"
    async with opened(made.failed(), size=(80, 24)) as pilot:
        figures, line = (text_of(pilot.app).splitlines()[at] for at in (1, 3))
        assert "loss 2.314" in figures and "ckpt 8,000 ✓ 14m · 8,004 ✗ torn" in figures
        assert "→ relaunch from step 8000" in line and line.rstrip().endswith("enter evidence")


def view_of(app: CockpitApp) -> LogView:
    return app.screen.query_one(LogView)


async def test_the_log_follows_pauses_and_pages(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 5000)
    engine = StandIn(with_log(path))
    app = cockpit(engine=engine, run="run-a")
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: "line 004999" in text_of(app))
        assert "log · following" in text_of(app)
        with path.open("a") as file:
            file.write("line last [/] [bold\n")
        engine.tell(with_log(path))
        await until(pilot, lambda: "line last [/] [bold" in text_of(app))
        await pilot.press("f")
        assert "log · paused" in text_of(app)
        for _ in range(30):
            await pilot.press("pageup")
            await pilot.pause(0.02)
        assert "line 004999" not in text_of(app)
        await pilot.press("g")
        await until(pilot, lambda: "line 000000" in text_of(app))
        for _ in range(40):
            await pilot.press("pagedown")
            await pilot.pause(0.01)
        await until(pilot, lambda: "line 0009" in text_of(app) or "line 0010" in text_of(app))
        await pilot.press("G")
        await until(pilot, lambda: "line last" in text_of(app))
        assert view_of(app).following


async def test_what_the_source_has_read_of_the_log_is_not_read_again(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 5000)
    report, source = with_log(path), Logs(StillClock())
    assert report.spec.job is not None
    job = report.spec.job.model_copy(update={"log": place_of(str(path))})
    spec = report.spec.model_copy(update={"job": job})

    async def looked() -> RunReport:
        facet = (await source.observe(queries_of([spec])))["run-a"]
        page = LogFile(LocalLog(path)).tail(50)
        assert facet.value is not None
        assert (facet.value.offsets, facet.value.size) == (page.offsets, page.end)
        seen = report.facets.model_copy(update={"log": facet})
        return report.model_copy(update={"spec": spec, "facets": seen})

    engine = StandIn(await looked())
    app = cockpit(engine=engine, run="run-a")
    async with app.run_test(size=(100, 50)) as pilot:
        await until(pilot, lambda: "line 004999" in text_of(app))
        await until(pilot, lambda: len(view_of(app).offsets) == 650)
        with path.open("a") as file:
            file.write("line last\n")
        engine.tell(await looked())
        await until(pilot, lambda: "line last" in text_of(app))
        held = view_of(app).offsets
        assert held == list(LogFile(LocalLog(path)).tail(651).offsets)
        path.write_text("a new beginning\n")
        engine.tell(await looked())
        await until(pilot, lambda: "a new beginning" in text_of(app))
        assert len(held) == 651 and view_of(app).offsets == [0]


async def test_a_step_moves_the_cursor_and_not_the_page(tmp_path: Path) -> None:
    async with opened(with_log(write_log(tmp_path / "run.log", 500))) as pilot:
        await until(pilot, lambda: "line 000499" in text_of(pilot.app))
        before = text_of(pilot.app).splitlines()[5:23]
        await pilot.press("up", "up")
        assert text_of(pilot.app).splitlines()[5:23] == before


async def test_search_goes_to_matches_up_and_down(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    write_log(path, 20_000)
    raw = path.read_bytes().replace(b"line 000100 of", b"line \x1b[31mNEEDLE\x1b[0m of")
    path.write_bytes(raw.replace(b"line 015000 of", b"line needle of"))
    async with opened(with_log(path), size=(100, 30)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "line 019999" in text_of(app))
        await pilot.press("/", *"needle", "enter")
        await until(pilot, lambda: "line 014999" in text_of(app))
        await until(pilot, lambda: '"needle" 2 of 2' in text_of(app))
        await pilot.press("N")
        await until(pilot, lambda: "line 000101" in text_of(app))
        await pilot.press("N")
        await until(pilot, lambda: "no match above" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "line 015001" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: "no match below" in text_of(app))


async def test_search_takes_a_regular_expression(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    write_log(path, 20_000)
    path.write_bytes(path.read_bytes().replace(b"line 000100 of", b"loss=nan at 000100 of"))
    async with opened(with_log(path), size=(100, 30)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "line 019999" in text_of(app))
        await pilot.press("/", *r"/LOSS=(nan|inf) at \d+/", "enter")
        await until(pilot, lambda: "loss=nan at 000100" in text_of(app))
        await until(pilot, lambda: r"/LOSS=(nan|inf) at \d+/ 1 of 1" in text_of(app))
        await pilot.press("/", *"/(/", "enter")
        await until(pilot, lambda: "not a regular expression" in text_of(app))


async def test_an_expression_that_never_ends_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cockpit.sources.logs.search.PATIENCE", 1.0)
    path = write_log(tmp_path / "run.log", 300)
    path.write_bytes(path.read_bytes() + b"a" * 60 + b"!\n")
    async with opened(with_log(path), size=(100, 30)) as pilot:
        await until(pilot, lambda: "aaaa" in text_of(pilot.app))
        await pilot.press("/", *"/(a+)+$/", "enter")
        await until(pilot, lambda: "is too slow" in text_of(pilot.app))
        await pilot.press("/", *"/^a+!$/", "enter")
        await until(pilot, lambda: "/^a+!$/ 1 o" in text_of(pilot.app))


async def test_esc_stops_the_search_that_took_the_place_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_for: list[str] = []

    async def find(_: LogReader, term: str, *_rest: object) -> None:
        looked_for.append(term)
        await asyncio.Event().wait()

    monkeypatch.setattr(LogReader, "find", find)
    async with opened(with_log(write_log(tmp_path / "run.log", 300))) as pilot:
        await until(pilot, lambda: "line 000299" in text_of(pilot.app))
        for term in ("one", "two"):
            await pilot.press("/", *term, "enter")
            await until(pilot, lambda: looked_for[-1:] == [term])  # noqa: B023 - awaited at once
        await pilot.press("escape")
        await until(pilot, lambda: "search stopped" in text_of(pilot.app))
        assert isinstance(pilot.app.screen, RunScreen)


async def test_evidence_that_cannot_be_read_is_not_said_to_be_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def around(_: LogReader, offset: int) -> LogPage:
        raise TimeoutError

    monkeypatch.setattr(LogReader, "around", around)
    path = write_log(tmp_path / "run.log", 3000)
    quoted = made.alert("C-01", evidence=(("line 000777 of the log", f"{path}:778"),))
    async with opened(with_log(path).model_copy(update={"alerts": (quoted,)})) as pilot:
        await pilot.press("enter")
        await until(pilot, lambda: "the file did not answer in time" in text_of(pilot.app))
        await pilot.pause(0.05)
        assert "line 778" not in text_of(pilot.app)


async def test_enter_jumps_to_the_evidence(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 3000)
    quoted = made.alert("C-01", evidence=(("line 000777 of the log", f"{path}:778"),))
    report = with_log(path).model_copy(update={"alerts": (quoted,), "verdict": Verdict.CRITICAL})
    async with opened(report) as pilot:
        await pilot.press("5", "enter")
        await until(pilot, lambda: "line 000777" in text_of(pilot.app))
        assert "line 000776" in text_of(pilot.app)


def steps_log(path: Path) -> Path:
    """Steps 10, 20, … 30000: ``step 1305`` and its like begin as ``step 130`` does."""
    lines = (
        f"2026-01-01T00:{n // 60 % 60:02d}:{n % 60:02d}Z step {n}0 | loss 2.{n % 10}"
        for n in range(1, 3001)
    )
    path.write_text("".join(f"{line}\n" for line in lines))
    os.utime(path, (1_767_229_000, 1_767_229_000))
    return path


async def test_evidence_is_found_by_its_step_and_each_alert_in_turn(tmp_path: Path) -> None:
    log = with_log(steps_log(tmp_path / "run.log"))
    told = (
        made.alert("C-09", title="loss nan at step 130", evidence=(("3 rows", "logged rows"),)),
        made.alert("C-11", title="a spike at step 1,304", evidence=(("3 rows", "logged rows"),)),
        made.alert("C-05", since=1_767_225_600 + 601.0),
        made.alert("C-01", evidence=(("step 20000 | loss 2.0", f"{tmp_path / 'run.log'}:2000"),)),
    )
    async with opened(log.model_copy(update={"alerts": told})) as pilot:
        for words in ("alert 1 of 4: step 130", "alert 2 of 4: step 1,300, the nearest to 1,304",
                      "alert 3 of 4: the line nearest to", "alert 4 of 4: line 2,000",
                      "alert 1 of 4"):  # fmt: skip
            await pilot.press("enter")
            await until(pilot, lambda: words in text_of(pilot.app))  # noqa: B023 - awaited at once
        await pilot.press("5", "down", "down", "down", "down", "down", "down", "down", "enter")
        await until(pilot, lambda: "alert 2 of 4: step 1,300" in text_of(pilot.app))
        assert "step 1300 | loss 2.0" in text_of(pilot.app)


async def test_nothing_open_is_said() -> None:
    async with opened(made.report("run-a")) as pilot:
        await pilot.press("enter")
        await pilot.pause()
        assert "no alert on this run has log evidence" in text_of(pilot.app)


async def test_a_log_that_is_gone_says_so_and_keeps_the_last_lines() -> None:
    async with opened(made.report("run-a")) as pilot:
        await until(pilot, lambda: "no such file or directory" in text_of(pilot.app))
        assert "step 8004 loss=2.314" in text_of(pilot.app)


async def test_the_foot_of_the_table_counts_checkpoints_and_not_the_remark_above_them() -> None:
    found = made.checkpoints(*(made.checkpoint(step) for step in range(100, 2600, 100)))
    assert found.value is not None
    its = Pick(path="/elsewhere", step=2600, why="greatest step")
    value = found.value.model_copy(update={"trainer_would_load": its})
    seen = made.facets(checkpoints=found.model_copy(update={"value": value}))
    async with opened(made.report("run-a", seen=seen), size=(80, 24)) as pilot:
        await pilot.press("3")
        await until(pilot, lambda: "25 in all" in text_of(pilot.app))
        await pilot.press("G")
        await until(pilot, lambda: "25 of 25 " in text_of(pilot.app))
        await pilot.press("k")
        await until(pilot, lambda: "24 of 25 " in text_of(pilot.app))


async def test_chart_keys_change_axis_and_range() -> None:
    async with opened(made.report("run-a"), size=(80, 24)) as pilot:
        await pilot.press("2")
        assert " linear │" in text_of(pilot.app) and "whole run" in text_of(pilot.app)
        await pilot.press("l", "z")
        assert "   log │" in text_of(pilot.app) and "25 % of the run" in text_of(pilot.app)


async def test_the_logbook_is_read_and_nothing_in_it_is_markup(tmp_path: Path) -> None:
    book = tmp_path / "book.md"
    book.write_text("# Run\n\n## Event Log\n\n### 2026-03-11 08:55 UTC - drop [/]\n- [bold]x\n")
    async with opened(with_book(book)) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: "drop [/]" in text_of(pilot.app))
        assert "- [bold]x" in text_of(pilot.app)


@pytest.mark.parametrize("newest_first", [False, True])
async def test_a_huge_logbook_shows_its_newest_entries_at_once(
    tmp_path: Path, newest_first: bool
) -> None:
    book = tmp_path / "book.md"
    entry = (
        "### 2026-{:02d}-{:02d} {:02d}:55 UTC - number {}\n- Status: " + "RUNNING " * 60 + "\n\n"
    )
    days = [
        (month, day, hour) for month in range(1, 13) for day in range(1, 28) for hour in range(24)
    ]
    entries = [entry.format(*when, n) for n, when in enumerate(days)]
    count = len(entries)
    body = "".join(reversed(entries) if newest_first else entries)
    book.write_text("# Run\n\n## Event Log\n\n" + body)
    assert book.stat().st_size > 3_000_000
    report = with_book(book)
    async with opened(report) as pilot:
        begun = time.process_time()
        await pilot.press("6")
        for _ in range(5):
            app_of(pilot)._news.take(report)
            await pilot.pause(0.02)
        await until(pilot, lambda: "Status: RUNNING" in text_of(pilot.app))
        assert time.process_time() - begun < 5
        shown = text_of(pilot.app)
        assert f"number {count - 1}" in shown or f"number {count - 2}" in shown
        assert ("only the beginning" if newest_first else "only the end") in shown


def test_a_logbook_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "book.md"
    path.write_text("# Run\n")
    first = asyncio.run(read_book(str(path)))
    assert asyncio.run(read_book(str(path), first)) is first
    path.write_text("# Run\n\nmore\n")
    assert [line.plain for line in asyncio.run(read_book(str(path), first)).lines][-1] == "more"


async def test_brackets_go_round_the_fleet() -> None:
    async with opened(made.report("run-a"), made.report("run-b")) as pilot:
        await pilot.press("2", "]")
        await pilot.pause()
        assert screen_of(pilot.app, RunScreen).selected == "run-b"
        assert "╭ loss" in text_of(pilot.app)
        await pilot.press("[")
        await pilot.pause()
        assert screen_of(pilot.app, RunScreen).selected == "run-a"


async def test_a_run_that_leaves_the_run_file_is_told() -> None:
    engine = StandIn(made.report("run-a"), made.report("run-b"))
    app = cockpit(engine=engine, run="run-a")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        engine.runs = engine.runs[1:]
        app._take_all()
        assert "run-a is no longer in the run file" in text_of(app)
        await pilot.press("c", "y", "]", "escape")
        assert "run-b" in text_of(app)


async def test_a_log_paused_at_once_tells_its_place_in_the_whole_file(tmp_path: Path) -> None:
    """Of remembered lines the place is not known: nothing is claimed until the file was read."""
    path = write_log(tmp_path / "run.log", 700)
    engine = StandIn(with_log(path))
    app = cockpit(engine=engine, run="run-a")
    async with app.run_test(size=(100, 30)) as pilot:
        view = view_of(app)
        view.hold()
        assert "% of" not in text_of(app) or "of 16.1 kB" in text_of(app)
        await until(pilot, lambda: "of 16.1 kB" in text_of(app))
        assert "line 000699" in text_of(app)
        assert "log · paused" in text_of(app)
        with path.open("a") as file:
            file.write("line more\n" * 5000)
        engine.tell(with_log(path))
        await until(pilot, lambda: "of 66.1 kB" in text_of(app))
        assert "24." in text_of(app)

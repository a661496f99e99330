"""The log tab: counted matches, levels, this job, places, bookmarks, files and pager."""

from __future__ import annotations

import re
import shlex
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.content import Content

from cockpit.model.logtext import LogMark, LogPage
from cockpit.model.report import RunReport
from cockpit.text.safe import safe_line
from screens.log_reader import Share, Target, begin_of, quotes_of, target_of
from screens.run_keys import just, page_through, place_of, save
from tests.screens.stand_in import StandIn, cockpit, text_of
from tests.screens.test_run import opened, steps_log, until, with_log, write_log
from tests.widgets import reports as made
from widgets.alert_list import TimelineView
from widgets.log_view import Buffer, paint_log_line
from widgets.painting.logline import dressed

STACK = "Traceback (most recent call last):\n  File x\nKeyError: 'storm'\n"
NOW = datetime(2026, 3, 11, 8, 57, tzinfo=UTC).timestamp()


async def test_only_errors_are_shown_and_what_is_hidden_is_counted(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 3000)
    path.write_text(STACK + path.read_text() + STACK)
    async with opened(with_log(path), size=(100, 30)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "KeyError" in text_of(app))
        await pilot.press("L")
        await until(pilot, lambda: "warnings and errors only, 3,000 lines hidden ─" in text_of(app))
        assert text_of(app).count("KeyError: 'storm'") == 2 and "line 00" not in text_of(app)
        await pilot.press("/", *"000123", "enter")
        await until(pilot, lambda: "all levels are shown" in text_of(app))
        assert "line 000124" in text_of(app) and "errors only" not in text_of(app).splitlines()[3]


def of_job(report: RunReport, path: Path, offset: int) -> RunReport:
    job, log = report.facets.job, report.facets.log
    assert job.value is not None and log.value is not None
    mark = LogMark(path.stat().st_ino, offset, 0)
    job = job.model_copy(update={"value": job.value.model_copy(update={"log_mark": mark})})
    value = log.value.model_copy(update={"inode": mark.inode})
    seen = {"job": job, "log": log.model_copy(update={"value": value})}
    return report.model_copy(update={"facets": report.facets.model_copy(update=seen)})


async def test_this_job_alone_begins_where_its_launcher_noted_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 900)
    report = of_job(with_log(path), path, 600 * len("line 000000 of the log\n"))
    assert begin_of(report) == 600 * 23
    async with opened(report, size=(100, 30)) as pilot:
        app = pilot.app
        await until(pilot, lambda: "line 000899" in text_of(app))
        await pilot.press("i", "g")
        await until(pilot, lambda: "line 000600" in text_of(app))
        assert "this job only" in text_of(app) and "line 000599" not in text_of(app)
        await pilot.press("/", *"0005", "enter", "N")
        await until(pilot, lambda: "no match" in text_of(app))
        await pilot.press("i", "g")
        await until(pilot, lambda: "line 000000" in text_of(app))
        assert "this job only" not in text_of(app)


async def test_steps_times_and_bookmarks_are_gone_to(tmp_path: Path) -> None:
    async with opened(with_log(steps_log(tmp_path / "run.log")), size=(100, 30)) as pilot:
        app = pilot.app
        await pilot.press("T", *"130", "enter")
        await until(pilot, lambda: "step 130 | loss" in text_of(app))
        await pilot.press("M", "T", *"2026-01-01", "space", *"00:20:05Z", "enter")
        await until(pilot, lambda: "step 12050 | loss" in text_of(app))
        await pilot.press("M", "'")
        await until(pilot, lambda: "bookmark 1 of 2" in text_of(app))
        assert "step 130 | loss" in text_of(app) and "⚑" in text_of(app)
        await pilot.press("5")
        await until(pilot, lambda: "all that happened" in text_of(app))
        await pilot.press("G")
        timeline = app.screen.query_one(TimelineView)
        for _ in range(9):
            if timeline.at_cursor.bookmark is None:
                await pilot.press("k")
        await pilot.press("enter")
        await until(pilot, lambda: "step 12050 | loss" in text_of(app))


@pytest.mark.parametrize(
    ("typed", "target"),
    [
        ("8,004", Target("step", 8004)),
        ("step 12", Target("step", 12)),
        (":88214", Target("line", 88214)),
        ("40 %", Share(0.4)),
        ("2h ago", Target("time", NOW - 7200)),
        ("03:12Z", Target("time", datetime(2026, 3, 11, 3, 12, tzinfo=UTC).timestamp())),
        ("23:59 UTC", Target("time", datetime(2026, 3, 10, 23, 59, tzinfo=UTC).timestamp())),
        ("12-31 10:00Z", Target("time", datetime(2025, 12, 31, 10, 0, tzinfo=UTC).timestamp())),
        ("2026-02-30 10:00Z", None),
        ("nonsense", None),
    ],
)
def test_what_is_typed_is_a_place_or_nothing(typed: str, target: Target | Share | None) -> None:
    assert target_of(typed, NOW) == target


async def test_a_saved_log_is_masked_private_and_never_overwrites(tmp_path: Path) -> None:
    path, told = tmp_path / "out.txt", list[float]()
    lines = [safe_line("\x1b[31mred\x1b[0m [b]"), safe_line("two")]
    count = await save(path, just(lines), lambda line: line.plain.replace("two", "•"), told.append)
    assert (count, path.read_text(), told) == (2, "red [b]\n•\n", [1.0])
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        await save(path, just(lines), str, told.append)
    assert path.read_text() == "red [b]\n•\n"
    assert str(place_of("", "../run [x]")) == "-run--x--log.txt"


async def test_a_save_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken(_: object) -> str:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        await save(tmp_path / "out.txt", just([safe_line("x")]), broken, lambda share: None)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a test waits for nobody


def same(one: Path, other: Path) -> bool:
    return one.read_text() == other.read_text()


async def test_the_whole_log_is_saved_as_it_is_shown(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 2000)
    target = tmp_path / "mine.txt"
    async with opened(with_log(path), size=(100, 30)) as pilot:
        await until(pilot, lambda: "line 001999" in text_of(pilot.app))
        await pilot.press("s", "ctrl+u", *str(target), "enter")
        await until(pilot, lambda: "saved 2,000 lines" in text_of(pilot.app))
        assert same(target, path)


def test_the_pager_is_given_a_file_of_what_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "seen"
    code = f"import shutil, sys; shutil.copy(sys.argv[-1], {str(copy)!r})"
    monkeypatch.setenv("PAGER", shlex.join([sys.executable, "-c", code]))
    assert page_through([safe_line("a\x1b[2J"), safe_line("b")], str, 1) is None
    assert copy.read_text() == "a\nb\n"
    monkeypatch.setenv("PAGER", "no-such-pager-here")
    said = page_through([], str, 0)
    assert said == "no-such-pager-here cannot be run: no such file or directory"


def test_lines_are_quoted_by_open_alerts_of_this_log_alone() -> None:
    evidence = (("Killed by the kernel", "run.log:3"), ("exit code 1", "run.exit"))
    seen = made.facets(log=made.log(path="run.log"))
    report = made.report(alerts=(made.alert("C-01", evidence=evidence),), seen=seen)
    assert [quote.text for quote in quotes_of(report)] == ["Killed by the kernel"]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("I20260311 08:41:07.123 5300 train.py:88] x", "08:41:07 train.py:88] x"),
        ("2026-03-11T08:41:07.5Z - step 3", "08:41:07 step 3"),
        ("[2026/03/11 08:41:07] step 3", "08:41:07 step 3"),
        ("loss at 2026-03-11 08:41:07", "loss at 2026-03-11 08:41:07"),
        ("2026-03-11 08:41:07", "2026-03-11 08:41:07"),
    ],
)
def test_a_stamp_is_shortened_where_it_leads_and_the_day_shown_where_it_changes(
    line: str, shown: str
) -> None:
    def painted(former: str, term: str = "") -> str:
        return paint_log_line(Content(line), 80, 0, term, former, False)[0].plain.rstrip()

    day = dressed(line).day
    assert painted(day) == shown
    assert painted("03-10") == (f"03-11 {shown}" if day else shown)
    assert painted(day, "2026") == (line if "2026" in line else shown)


def part(start: int, end: int, kept: dict[int, int], rest: int) -> LogPage:
    """A page of lines at these offsets, each with how many are left out before it."""
    lines = tuple(safe_line(str(at)) for at in kept)
    return LogPage(lines, tuple(kept), start, end, 100, tuple(kept.values()), rest)


def test_what_is_left_out_is_counted_across_pages_and_forgotten_with_them() -> None:
    held = Buffer()
    held.take(part(40, 60, {50: 2}, 3))
    assert held.add_before(part(20, 40, {}, 5)) == 0 and (held.start, held.hidden) == (20, 10)
    assert held.add_after(part(60, 80, {70: 4}, 1)) and held.gaps == [7, 7]
    assert held.hidden == 15
    held.drop_first(1)
    assert (held.start, held.hidden, held.offsets) == (70, 1, [70])
    assert held.add_after(part(70, 90, {70: 0, 85: 2}, 0)), "its last line was unfinished"
    assert held.offsets == [70, 85] and held.end == 90


def rows_of_log(app: App[Any]) -> list[str]:
    """Return the numbers of the lines in sight, from the top."""
    shown = (re.search(r"line (\d{6}) of the log", row) for row in text_of(app).splitlines())
    return [found[1] for found in shown if found is not None]


def shows(app: App[Any], words: str) -> bool:
    return words in text_of(app)


@pytest.mark.parametrize(("size", "stands"), [((200, 50), True), ((80, 24), False)])
async def test_beside_other_panels_lines_stand_still_while_there_is_room(
    tmp_path: Path, size: tuple[int, int], stands: bool
) -> None:
    path = write_log(tmp_path / "run.log", 3000)
    engine = StandIn(with_log(path))
    app = cockpit(engine=engine, run="run-a")
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: "line 002999" in text_of(app))
        moves, firsts, room = 0, rows_of_log(app)[:1], len(rows_of_log(app))
        for count in range(3001, 3001 + room):
            write_log(path, count)
            engine.tell(with_log(path))
            app.show_news()
            await until(pilot, partial(shows, app, f"line {count - 1:06d}"))
            shown = rows_of_log(app)
            assert shown == [f"{n:06d}" for n in range(int(shown[0]), count)], "all, to the end"
            assert len(shown) >= room - room // 4
            moves += shown[:1] != firsts
            firsts = shown[:1]
        assert moves <= 5 if stands else moves == room
        app.say("news of something else")
        await pilot.press("f", "f")
        await until(pilot, lambda: len(rows_of_log(app)) == room)


async def test_a_log_without_a_row_to_stand_in_is_followed_all_the_same(tmp_path: Path) -> None:
    path = write_log(tmp_path / "run.log", 3000)
    async with opened(with_log(path), size=(200, 50)) as pilot:
        await until(pilot, lambda: "line 002999" in text_of(pilot.app))
        for size in ((1, 1), (200, 3), (200, 50)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        await until(pilot, lambda: "line 002999" in text_of(pilot.app))

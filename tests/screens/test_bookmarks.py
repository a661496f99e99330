"""Bookmarks in logs: kept between sessions, and never shown at a line that is another one."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.app import session_files
from cockpit.app.application import CockpitApp
from cockpit.app.session_files import BookmarkFile, KeptBookmarks
from cockpit.model.logtext import Bookmark, Key, bookmark
from cockpit.model.wording import percent
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.pieces import LocalLog
from cockpit.text.safe import safe_line
from screens.bookmarks import GONE, MOST, MOST_OF_ALL, UNSEEN, Bookmarks, RunMarks
from tests.screens.stand_in import StandIn, app_of, cockpit, text_of
from tests.screens.test_run import until, with_log, write_log
from tests.watch.fakes import until as fulfilled
from widgets.alert_list import TimelineView
from widgets.log_view import LogView

LINE = len("line 000000 of the log\n")


@pytest.fixture(autouse=True)
def time_to_save(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is looked at here, not how long leaving may take."""
    monkeypatch.setattr(session_files, "SAVE_WITHIN", 30.0)


def mark(offset: int, words: str = "x", path: str = "/a.log", run: str = "r") -> Bookmark:
    return bookmark(run, path, [safe_line(words)], [offset], last=False)


def session(path: Path, kept: BookmarkFile) -> CockpitApp:
    return cockpit(engine=StandIn(with_log(path)), run="run-a", bookmarks=kept)


async def set_at(pilot: Pilot[Any], number: int, count: int = 1) -> None:
    words = f":{number + 1}"
    await pilot.press("T", *words, "enter")
    await until(pilot, lambda: f"{percent(number / 3000, 1)} of" in text_of(pilot.app))
    await pilot.press("M")
    await until(pilot, lambda: f"bookmark set ({count} in" in text_of(pilot.app))


async def test_the_next_session_has_the_bookmarks_and_one_removed_is_gone(tmp_path: Path) -> None:
    path, kept = write_log(tmp_path / "run.log", 3000), BookmarkFile(tmp_path, "/c.toml")
    first = session(path, kept)
    async with first.run_test(size=(100, 30)) as pilot:
        await set_at(pilot, 1200)
        await set_at(pilot, 2400, count=2)
    await first.stop_work()
    assert [each.offset for each in kept.load()] == [1200 * LINE, 2400 * LINE]
    assert kept.path.stat().st_mode & 0o777 == 0o600
    second = session(path, kept)
    async with second.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(app_of(pilot).bookmarks.of("run-a")) == 2)
        await pilot.press("g", "'")
        await until(pilot, lambda: "bookmark 1 of 2" in text_of(pilot.app))
        assert "⚑ line 001200" in " ".join(text_of(pilot.app).split())
        await pilot.press("M")
        await until(pilot, lambda: "bookmark removed" in text_of(pilot.app))
    await second.stop_work()
    assert [each.offset for each in kept.load()] == [2400 * LINE]


async def test_a_line_that_has_gone_is_said_to_be_gone_and_nothing_is_marked(
    tmp_path: Path,
) -> None:
    path, kept = write_log(tmp_path / "run.log", 3000), BookmarkFile(tmp_path, "/c.toml")
    first = session(path, kept)
    async with first.run_test(size=(100, 30)) as pilot:
        await set_at(pilot, 2400)
    await first.stop_work()
    path.write_text("".join(f"line {n:06d} of another\n" for n in range(3000)))
    second = session(path, kept)
    async with second.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: bool(app_of(pilot).bookmarks.of("run-a")))
        await pilot.press("5")
        await until(pilot, lambda: "rotated or truncated · line 002400" in text_of(pilot.app))
        await pilot.press("1", "'")
        await until(pilot, lambda: "no bookmark left in this log: gone" in text_of(pilot.app))
        assert "⚑" not in text_of(pilot.app)
        await pilot.press("5", "G")
        timeline = pilot.app.screen.query_one(TimelineView)
        for _ in range(9):
            if timeline.at_cursor.bookmark is None:
                await pilot.press("k")
        await pilot.press("enter")
        await until(pilot, lambda: "bookmark removed" in text_of(pilot.app))
    await second.stop_work()
    assert kept.load() == ()


async def test_a_log_truncated_under_the_window_is_found_out_when_it_is_gone_to(
    tmp_path: Path,
) -> None:
    path, kept = write_log(tmp_path / "run.log", 3000), BookmarkFile(tmp_path, "/c.toml")
    async with session(path, kept).run_test(size=(100, 30)) as pilot:
        await set_at(pilot, 2400)
        path.write_text("".join(f"other {n:05d} of the log\n" for n in range(3000)))
        await pilot.press("g", "'")
        await until(pilot, lambda: "bookmark 1 of 1: gone" in text_of(pilot.app))
        assert "⚑" not in text_of(pilot.app)


class OneLog:
    """The pages of one file, or a host that does not answer."""

    def __init__(self, path: Path) -> None:
        self.file = LogFile(LocalLog(path))
        self.fault: Exception | None = None

    async def page(self, run: str, offset: int, count: int, back: bool) -> Any:
        if self.fault is not None:
            raise self.fault
        return self.file.page(offset, count, back)


def marks_of(path: Path, *marks: Bookmark) -> tuple[RunMarks, OneLog]:
    kept, log = Bookmarks(), OneLog(path)
    kept.load(marks)
    marked = RunMarks(kept, log, "r")  # type: ignore[arg-type]
    marked.show(str(path), path.stat().st_size)
    return marked, log


def mark_in(path: Path, number: int) -> Bookmark:
    page = LogFile(LocalLog(path)).page(number * LINE, 4, back=False)
    before = LogFile(LocalLog(path)).page(number * LINE, 3, back=True)
    lines, offsets = (*before.lines, page.lines[0]), (*before.offsets, page.offsets[0])
    last = page.offsets[0] + LINE >= page.size
    return bookmark("r", str(path), lines, offsets, last=last)


async def test_what_cannot_be_read_is_unknown_not_gone(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.log", 20)
    one = mark_in(path, 10)
    marks, log = marks_of(path, one, mark_in(path, 12))
    assert marks.why(one) == UNSEEN and marks.there == []
    log.fault = OSError(113, "No route to host")
    await marks.look_up()
    assert marks.why(one) == "unknown: no route to host" and len(marks.unseen) == 2
    log.fault = None
    await marks.look_up()
    assert [each.offset for each in marks.there] == [10 * LINE, 12 * LINE]


async def test_a_bookmark_of_another_log_is_said_to_be_there(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.log", 20)
    other = mark(0, path="/data/b\x1b[2J.log")
    marks, _ = marks_of(path, other)
    await marks.look_up()
    assert marks.why(other).startswith("in another log: /data/b") and "\x1b" not in marks.why(other)
    assert marks.here == marks.unseen == []


@pytest.mark.parametrize(
    ("edit", "stands"),
    [
        (lambda text: text + "more\n", True),
        (lambda text: text.replace("line 000010 of the log", "line 000010 of a log!!"), False),
        (lambda text: text.replace("line 000008", "line x00008"), False),
        (lambda text: text[LINE:], False),
        (lambda text: text[: 10 * LINE], False),
        (lambda text: text[: 4 * LINE], False),
        (lambda text: "", False),
    ],
)
async def test_a_line_stands_where_it_stood_only_if_it_and_those_before_it_do(
    tmp_path: Path, edit: Any, stands: bool
) -> None:
    path = write_log(tmp_path / "a.log", 20)
    one = mark_in(path, 10)
    path.write_text(edit(path.read_text()))
    marks, _ = marks_of(path, one)
    await marks.look_up()
    assert (one in marks.there, marks.why(one)) == (stands, "" if stands else GONE)


async def test_a_last_line_may_grow_and_a_blank_one_is_only_a_blank_one(tmp_path: Path) -> None:
    path = write_log(tmp_path / "a.log", 20)
    last = mark_in(path, 19)
    text = path.read_text()
    path.write_text(text[:-4] + "\rline 000019, 100%\n")
    marks, _ = marks_of(path, last)
    assert last.last and await marks.stands(last)
    blank = mark(0, words="")
    assert blank.begins("") and not blank.begins("anything")


def test_bookmarks_are_bounded_and_gone_ones_make_room() -> None:
    told: list[Any] = []
    marks = Bookmarks(told.append)
    for at in range(MOST):
        marks.toggle(mark(at))
    assert "the limit" in marks.toggle(mark(MOST))
    assert "(1 in this log)" in marks.toggle(mark(0, path="/b.log"))
    assert marks.toggle(mark(3)) == "bookmark removed" and told[-1] == {mark(3).key: None}
    assert "(100 in" in marks.toggle(mark(3))
    assert "(100 in" in marks.toggle(mark(MOST), gone=[mark(7).key])
    assert mark(7) not in marks.of("r")
    many = Bookmarks()
    many.load(mark(0, run=f"r{n}") for n in range(MOST_OF_ALL))
    many.toggle(mark(0))
    assert many.of("r0") == [] and many.of("r") == [mark(0)] and len(many.of("r1")) == 1


@pytest.mark.parametrize(
    "words", [b"", b"{", b"[]", b'{"bookmarks": [{"run": 3}]}', b"\xff\x00", b"{" * 99_999]
)
def test_a_file_that_is_broken_has_none_and_is_written_anew(words: bytes, tmp_path: Path) -> None:
    kept = BookmarkFile(tmp_path, "/c.toml")
    kept.path.write_bytes(words)
    assert kept.load() == ()
    kept.change({mark(1).key: mark(1)})
    assert kept.load() == (mark(1),)


async def test_two_windows_keep_each_others_bookmarks(tmp_path: Path) -> None:
    file = BookmarkFile(tmp_path, "/c.toml")
    one, other = KeptBookmarks(file), KeptBookmarks(file)
    one.keep({mark(1).key: mark(1)})
    other.keep({mark(2).key: mark(2)})
    await one.save()
    await other.save()
    one.keep({mark(1).key: None})
    await one.save()
    assert await other.load() == (mark(2),)


async def test_one_write_follows_the_other_and_none_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, gate = BookmarkFile(tmp_path, "/c.toml"), threading.Event()
    kept, change, begun = KeptBookmarks(file), file.change, list[int]()

    def slowly(changes: Mapping[Key, Bookmark | None]) -> None:
        begun.append(len(changes))
        assert gate.wait(30.0)
        change(changes)

    monkeypatch.setattr(file, "change", slowly)
    kept.keep({mark(1).key: mark(1)})
    first = asyncio.create_task(kept.save())
    await fulfilled(lambda: begun)
    kept.keep({mark(2).key: mark(2)})
    second = asyncio.create_task(kept.save())
    gate.set()
    await asyncio.gather(first, second)
    assert file.load() == (mark(1), mark(2))


async def test_what_was_not_written_in_time_is_written_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BookmarkFile(tmp_path, "/c.toml")
    kept = KeptBookmarks(file)
    kept.keep({mark(1).key: mark(1)})
    monkeypatch.setattr(session_files, "SAVE_WITHIN", 0.0)
    await kept.save()
    monkeypatch.setattr(session_files, "SAVE_WITHIN", 30.0)
    kept.keep({mark(2).key: mark(2)})
    await kept.save()
    assert file.load() == (mark(1), mark(2))


def test_words_that_were_tampered_with_are_made_safe(tmp_path: Path) -> None:
    file = BookmarkFile(tmp_path, "/c.toml")
    file.change({mark(1).key: mark(1).model_copy(update={"words": "a\x1b[2Jb\u202e"})})
    assert all(each.words.isprintable() and "\x1b" not in each.words for each in file.load())


async def test_marks_set_in_a_burst_are_all_kept_by_two_windows_too(tmp_path: Path) -> None:
    file = BookmarkFile(tmp_path, "/c.toml")
    windows = [KeptBookmarks(file), KeptBookmarks(BookmarkFile(tmp_path, "/c.toml"))]
    saving = []
    for at in range(60):
        windows[at % 2].keep({mark(at).key: mark(at)})
        saving.append(asyncio.create_task(windows[at % 2].save()))
        await asyncio.sleep(0)
    await asyncio.gather(*saving)
    assert {each.offset for each in file.load()} == set(range(60))


async def test_a_mark_that_cannot_be_kept_is_said_and_lasts_as_long_as_the_window(
    tmp_path: Path,
) -> None:
    path, kept = write_log(tmp_path / "run.log", 3000), BookmarkFile(tmp_path, "/c.toml")
    os.mkfifo(kept.path)
    async with session(path, kept).run_test(size=(120, 30)) as pilot:
        view = pilot.app.screen.query_one(LogView)
        await until(pilot, lambda: bool(view.up_to_cursor[1]))  # where its lines stand is read
        await pilot.press("M")
        told = "bookmarks last as long as this window: not a regular file"
        await until(pilot, lambda: told in text_of(pilot.app))
        assert len(app_of(pilot).bookmarks.of("run-a")) == 1
    assert kept.path.is_fifo()


def test_a_file_that_cannot_be_read_now_is_not_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = BookmarkFile(tmp_path, "/c.toml")
    file.change({mark(1).key: mark(1)})
    with monkeypatch.context() as patch, pytest.raises(OSError, match="stale"):
        patch.setattr(session_files, "open_regular", _stale)
        file.change({mark(2).key: mark(2)})
    assert file.load() == (mark(1),)


def _stale(path: str) -> Any:
    raise OSError(errno.ESTALE, "stale file handle", path)

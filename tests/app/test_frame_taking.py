"""What is kept of a fleet says later what the fleet itself would say."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.segment import Segment
from textual.content import Content
from textual.strip import Strip

from cockpit.app.frame_taking import FrameFile, NotKeptError, filtered, taken, words_and_ages
from cockpit.app.kept_frame import Call, Frame, frames_dir, load, opened, place_of, text_of
from cockpit.model.wording import Noting, age
from cockpit.text.safe import Charset
from screens.fleet import FleetScreen
from tests.screens.stand_in import StillClock, app_of, cockpit, screen_of
from tests.screens.stand_in import text_of as shown_by
from tests.widgets import reports as made

MINUTE = 60.0
PLAIN = Call()


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    found = tmp_path / "cockpit.toml"
    found.write_text("[[run]]\n")
    os.utime(found, (made.NOW - 99, made.NOW - 99))
    return found


def found(run_file: Path, size: tuple[int, int], call: Call = PLAIN) -> Frame | None:
    return load(place_of(frames_dir(), run_file, opened(call), size), made.NOW + 1)


def lines(frame: Frame, now: float) -> list[str]:
    return ["".join(text for text, _ in text_of(row, now)) for row in frame.rows]


def edit(run_file: Path) -> None:
    run_file.write_text("[[run]]\n# edited\n")


async def left(
    run_file: Path, size: tuple[int, int], keys: Sequence[str] = (), **options: Any
) -> str:
    """Open a fleet, press keys, leave; return what stood there before."""
    call = Call(present=options.get("present", False))
    app = cockpit(frames=FrameFile(str(run_file), call), **options)
    async with app.run_test(size=size) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
        text = shown_by(app)
        app.exit()
        await pilot.pause()
    await app.stop_work()
    return text


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
@pytest.mark.parametrize("options", [{}, {"present": True}, {"ascii": True}], ids=str)
async def test_it_is_what_stood_there(
    size: tuple[int, int], options: dict[str, Any], run_file: Path
) -> None:
    text = await left(run_file, size, **options)
    kept = found(run_file, size, Call(present=options.get("present", False)))
    assert kept is not None
    assert lines(kept, made.NOW) == text.split("\n")
    assert sum(piece.aged is not None for row in kept.rows for piece in row) >= 5


@pytest.mark.parametrize("later", [MINUTE, 7 * MINUTE])
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_its_ages_go_on(size: tuple[int, int], later: float, run_file: Path) -> None:
    """What is kept, told anew, has the very words that the fleet shows by then."""
    await left(run_file, size)
    kept = found(run_file, size)
    assert kept is not None
    async with cockpit().run_test(size=size) as pilot:
        app = app_of(pilot)
        clock = app._clock
        assert isinstance(clock, StillClock)
        clock.at += later
        screen_of(app, FleetScreen).show()
        await pilot.pause()
        wanted = shown_by(app).split("\n")
    told_then = lines(kept, made.NOW + later)
    aged = [any(piece.aged for piece in row) for row in kept.rows]
    assert any(aged)
    for y, row in enumerate(told_then):
        if aged[y]:
            words = row.split()
            assert wanted[y].split()[: len(words)] == words, "an age that is new may follow"


async def test_the_fleet_is_kept_whatever_stands_over_it(run_file: Path) -> None:
    await left(run_file, (80, 24))
    text = found(run_file, (80, 24))
    shutil.rmtree(frames_dir())
    await left(run_file, (80, 24), ["enter"])
    assert text is not None
    over = found(run_file, (80, 24))
    assert over is not None
    assert lines(over, made.NOW)[:-1] == lines(text, made.NOW)[:-1]


async def test_it_has_the_terminals_own_colours(run_file: Path) -> None:
    app = cockpit(frames=FrameFile(str(run_file), PLAIN))
    app.console._color_system = ColorSystem.EIGHT_BIT
    async with app.run_test(size=(80, 24)) as pilot:
        app.exit()
        await pilot.pause()
    await app.stop_work()
    frame = found(run_file, (80, 24))
    assert frame is not None
    styles = {frame.mark, *(piece.style for row in frame.rows for piece in row)}
    assert any("38;5;" in each for each in styles)
    assert not any("8;2;" in each for each in styles)


async def test_nothing_is_kept_of_another_edition_or_theme(run_file: Path) -> None:
    frames = FrameFile(str(run_file), Call())
    edit(run_file)
    app = cockpit(frames=frames)
    async with app.run_test() as pilot:
        app.exit()
        await pilot.pause()
    await app.stop_work()
    await left(run_file, (80, 24), ["t"])
    await left(run_file, (80, 24), [":", *"theme cockpit-light", "enter"])
    assert not frames_dir().exists()


async def test_what_says_the_same_is_not_written_again(run_file: Path) -> None:
    await left(run_file, (80, 24))
    kept = next(frames_dir().iterdir())
    before = kept.stat()
    await left(run_file, (80, 24))
    assert kept.stat().st_ino == before.st_ino
    await left(run_file, (80, 24), ["j"])
    assert kept.stat().st_ino != before.st_ino


async def test_a_fault_of_the_screen_keeps_nobody_from_leaving(
    run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = cockpit(frames=FrameFile(str(run_file), PLAIN))
    async with app.run_test():
        fleet = screen_of(app, FleetScreen)
        with monkeypatch.context() as broken:
            broken.setattr(fleet, "show", lambda: 1 // 0)
            app.on_exit_app()
        assert len(list((frames_dir().parent / "crashes").iterdir())) == 1
    assert app.crash_line is None


def painter(*words: str) -> Any:
    return lambda now: [Strip([Segment(f"{word} {age(now - (made.NOW - 90))}")]) for word in words]


def test_what_cannot_be_told_anew_is_not_kept() -> None:
    frame = taken(painter("a"), made.NOW, Charset.UNICODE, True, "")
    assert lines(frame, made.NOW + 3600) == ["a 1h"]
    with pytest.raises(NotKeptError):  # a foreign text with such a letter
        taken(painter("\U00100000"), made.NOW, Charset.UNICODE, True, "")
    with pytest.raises(NotKeptError):  # words that depend on the words of an age
        taken(
            lambda now: [Strip([Segment(age(now - (made.NOW - 90)).replace("1m", "a minute"))])],
            made.NOW, Charset.UNICODE, True, "",
        )  # fmt: skip


def test_a_filter_is_asked_about_the_words_themselves() -> None:
    now = Noting(made.NOW)
    line = Content(f"{age(now - (made.NOW - 90))}/10m /data")
    asked = []

    def keep(line: Content) -> Content:
        asked.append(line.plain)
        return Content(line.plain.replace("/data", "•••••"))

    kept = filtered(line, now, keep)
    assert asked == ["1m/10m /data"]
    assert "".join(part for part, _ in words_and_ages(kept.plain, now)) == "1m/10m •••••"
    assert now.of(kept.plain[0]) == ("age", made.NOW - 90)
    with pytest.raises(NotKeptError):
        filtered(line, now, lambda line: Content("shorter"))

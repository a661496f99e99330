"""In a real terminal: the kept frame stands first, the live one follows, all is given back."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from pathlib import Path

import pytest

from cockpit.app.frames.early import TAKEN_WITHIN, Writing, frames_dir
from cockpit.app.frames.kept import Aged, Call, Frame, Piece, place_of, save
from tests.emulator import Emulator
from tests.terminal_probe import Terminal

pytestmark = pytest.mark.tty
ROOT = Path(__file__).resolve().parents[3]
SIZE = (80, 24)
WHOLE = b"\x1b[r\x1b[H"
"""How a frame begins that takes nothing for granted of what stands there."""
RUN_FILE = """
[cockpit]
operator = "ada"
[[run]]
name = "run-here"
job = { kind = "local", log = "run.log", pid_file = "run.pid" }
"""
ENVIRONMENT = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run file, and a frame kept of it an hour ago."""
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    before = time.time() - 7200
    os.utime(tmp_path / "cockpit.toml", (before, before))
    for name in ("TMUX", "NO_COLOR", "COLORFGBG", "LC_CTYPE", "LANG", "TZ", "TEXTUAL_COLOR_SYSTEM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (ENVIRONMENT | {"XDG_STATE_HOME": str(tmp_path / "state")}).items():
        monkeypatch.setenv(name, value)
    at = time.time() - 3600
    age = Piece("30s", "1", Aged("age", at - 35, False))
    rows = [(Piece("kept log ", ""), age, Piece(" " * 68, "")), *[(Piece(" " * 80, ""),)] * 23]
    place = place_of(frames_dir(), tmp_path / "cockpit.toml", Call(), SIZE)
    save(place, Frame(at, True, "7", tuple(rows)))
    return tmp_path


def start(home: Path, *words: str, size: tuple[int, int] = SIZE, shell: str = "") -> Terminal:
    argv = [sys.executable, str(ROOT / "run_cockpit.py"), *words]
    begin = ["sh", "-c", f'cd "$0" && {shell or "exec"} "$@"', str(home), *argv]
    return Terminal(begin, {"XDG_RUNTIME_DIR": str(home), "PYTHONPATH": ""}, size)


def test_it_stands_first_and_the_live_screen_follows_without_a_flash(home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    assert b"kept log" in terminal.output and b"1h 00m" in terminal.output
    first = len(terminal.output)
    assert b"\x1b[?1004h" not in terminal.output  # nothing of the app's own yet
    os.write(terminal.fd, b"?")  # the help, for the live screen
    terminal.wait_for("run-here")
    terminal.wait_for("Keys, codes and signs")
    screen = Emulator(*SIZE)
    for at in range(0, terminal.output.index(b"run-here"), 16):
        screen.feed(terminal.output[at : at + 16])
        assert at < first or screen.text().strip(), "it was cleared in between"
    assert terminal.output.count(b"\x1b[?1049h") == 1
    assert b"?" not in terminal.output[:first].rpartition(b"looking")[2]  # nor is a key echoed
    terminal.type("\x1b")
    terminal.idle(0.3)
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())
    assert terminal.output.count(b"\x1b[?1049l") == 1


def test_another_size_does_not_see_it(home: Path) -> None:
    terminal = start(home, size=(81, 24))
    terminal.wait_for("run-here")
    assert b"kept log" not in terminal.output
    terminal.type("q")
    terminal.end()
    assert terminal.status == 0


def test_without_a_terminal_nothing_is_painted(home: Path) -> None:
    terminal = start(home, shell="cat | ")
    terminal.type("\x04")
    terminal.end()
    assert b"kept log" not in terminal.output
    assert b"\x1b[?1049h" not in terminal.output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_who_ends_it_before_the_app_has_it_gets_the_terminal_back(number: int, home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    terminal.signal(number)
    terminal.end()
    assert terminal.left_on == set()
    assert terminal.status in (-number, 128 + number)
    assert terminal.output.count(b"\x1b[?1049l") == 1


def test_a_terminal_that_takes_nothing_keeps_nobody_from_ending(home: Path) -> None:
    terminal = start(home)
    terminal.wait_for("looking")
    follower = os.open(f"/proc/{terminal.pid}/fd/1", os.O_RDWR | os.O_NOCTTY)
    termios.tcflow(follower, termios.TCOOFF)
    terminal.signal(signal.SIGTERM)
    assert terminal.end() < TAKEN_WITHIN + 5
    assert terminal.status == -signal.SIGTERM
    os.close(follower)


def test_a_terminal_left_non_blocking_by_another_program_gets_all_of_it(home: Path) -> None:
    """It refuses what it has no room for: that was lost, and the live frame left it blank."""
    pieces = [tuple(Piece("x", f"38;2;{y};{x};1") for x in range(80)) for y in range(24)]
    place = place_of(frames_dir(), home / "cockpit.toml", Call(), SIZE)
    save(place, Frame(time.time() - 60, True, "7", tuple(pieces)))
    terminal = start(home, shell=f"{sys.executable} -c 'import os; os.set_blocking(1, 0)'; exec")
    until = time.monotonic() + 20
    follower = os.open(f"/proc/{terminal.pid}/fd/1", os.O_RDWR | os.O_NOCTTY)
    while select.select([], [follower], [], 0)[1]:  # until it has no room: the frame is larger
        assert time.monotonic() < until, "the frame never came"
        select.select([], [], [], 0.01)
    os.close(follower)
    terminal.wait_for("run-here")
    screen = Emulator(*SIZE)
    screen.feed(terminal.output.partition(b"\x1b[?1004h")[0])
    assert screen.lines()[:23] == ["x" * 80] * 23
    terminal.type("q")
    terminal.end()


def test_what_the_terminal_refused_is_not_taken_as_shown() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    writing = Writing(write, b"x" * (1 << 20))
    writing.run()
    assert not writing.whole
    os.close(write)
    with os.fdopen(read, "rb") as file:
        assert len(file.read()) < 1 << 20


def test_a_size_that_comes_and_goes_meanwhile_leaves_no_holes(home: Path) -> None:
    """A terminal that was made smaller has lost lines, though it has its size again."""
    terminal = start(home)
    terminal.wait_for("looking")
    for rows in (8, 24):
        terminal.resize(80, rows)
    terminal.wait_for("run-here")
    assert terminal.output.count(WHOLE) == 2
    terminal.type("q")
    terminal.end()


def test_what_is_wrong_is_told_on_the_terminal_as_it_was(home: Path) -> None:
    """A run file that was right when the frame was kept, by a cockpit with another key table."""
    keys = RUN_FILE + '[keys]\nfiltre = "x"\n'
    (home / "cockpit.toml").write_text(keys)
    before = time.time() - 7200
    os.utime(home / "cockpit.toml", (before, before))
    place = place_of(frames_dir(), home / "cockpit.toml", Call(), SIZE)
    save(place, Frame(time.time() - 60, True, "7", ((Piece("kept log", ""),),) * 24))
    terminal = start(home)
    terminal.end()
    assert b"kept log" in terminal.output
    assert (terminal.status, terminal.left_on) == (2, set())
    assert "did you mean" in terminal.after_the_screen()

"""The program in a real terminal: whatever ends it, the terminal is given back whole."""

from __future__ import annotations

import os
import signal
import stat
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.app.kept_frame import CLEAR
from tests.e2e.tiny_fleet import until
from tests.emulator import Emulator
from tests.terminal_probe import Terminal
from themes.loader import load_themes

pytestmark = pytest.mark.tty
ROOT = Path(__file__).resolve().parents[2]
APP = str(ROOT / "tests" / "terminal_app.py")
LEAVE_WITHIN = 0.5
BUSY = 0.2
TRIES = 4
"""The machine may be busy with other tests: a hang must cost nothing beside a calm exit."""


def around(home: Path, **more: str) -> dict[str, str]:
    env = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT)}
    env |= {"XDG_STATE_HOME": str(home), "TMUX": "", "LC_ALL": "C.UTF-8", **more}
    return env


def start(
    what: str, home: Path, size: tuple[int, int] = (80, 24), background: str = "", **more: str
) -> Terminal:
    argv = [sys.executable, APP, what]
    return Terminal(argv, around(home, **more), size, background=background)


ENDINGS: dict[str, tuple[Callable[[Terminal], None], int]] = {
    "q": (lambda terminal: terminal.type("q"), 0),
    "ctrl-q": (lambda terminal: terminal.type("\x11"), 0),
    "ctrl-c": (lambda terminal: terminal.type("\x03"), 130),
    "sigint": (lambda terminal: terminal.signal(signal.SIGINT), 130),
    "sigterm": (lambda terminal: terminal.signal(signal.SIGTERM), 143),
    "sighup": (lambda terminal: terminal.signal(signal.SIGHUP), 129),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_every_ending_gives_the_terminal_back(how: str, tmp_path: Path) -> None:
    end, status = ENDINGS[how]
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    assert terminal.left_on
    end(terminal)
    terminal.end()
    assert (terminal.status, terminal.left_on) == (status, set())
    assert terminal.after_the_screen().count("\n") == 0
    last_frame = terminal.output.rpartition(b"\x1b[?1049l")[0].rpartition(CLEAR.encode())
    assert last_frame[1], "in a pane that has grown tmux would leave rows of the fleet behind"
    assert b"run-failed" not in last_frame[2]


def test_a_terminal_that_vanishes_takes_the_program_along(tmp_path: Path) -> None:
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    terminal.hang_up()
    assert terminal.status in (129, -signal.SIGHUP)


def test_a_crash_prints_one_line_and_no_local_variable(tmp_path: Path) -> None:
    terminal = start("crash", tmp_path)
    terminal.end()
    said = terminal.after_the_screen().strip()
    assert (terminal.status, terminal.left_on) == (70, set())
    assert b"SECRET" not in terminal.output
    assert b"Traceback" not in terminal.output
    *former, details = sorted((tmp_path / "cockpit" / "crashes").iterdir())
    assert len(former) <= 1  # the first fault is survived, the second within a moment is not
    assert said.endswith(f"RuntimeError; details in {details}")
    assert "\n" not in said
    assert stat.S_IMODE(details.stat().st_mode) == 0o600
    kept = details.read_text()
    assert "a fault beside a key of 17 characters" in kept
    assert "SECRET-0" not in kept


@pytest.mark.parametrize("errors", ["2>/dev/null", "2>&-", "2>errors"])
def test_errors_that_go_elsewhere_do_not_take_the_screen_along(errors: str, tmp_path: Path) -> None:
    words = ["sh", "-c", f'cd "$1" && exec "$2" "$3" well {errors}', "sh", str(tmp_path)]
    terminal = Terminal([*words, sys.executable, APP], around(tmp_path), (80, 24))
    terminal.wait_for("run-failed")
    assert terminal.left_on
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())
    assert not (tmp_path / "errors").exists() or not (tmp_path / "errors").read_text()


def test_a_worker_that_fails_is_told_and_the_program_lives(tmp_path: Path) -> None:
    terminal = start("well", tmp_path, (160, 40))
    terminal.wait_for("run-failed")
    terminal.type("c")
    terminal.wait_for("an internal error: RuntimeError")
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


def test_a_source_that_hangs_does_not_keep_anyone(tmp_path: Path) -> None:
    hanging, calm = [], []
    for _ in range(TRIES):
        hanging.append(time_to_leave("hang", tmp_path))
        if hanging[-1] < LEAVE_WITHIN:
            return
        calm.append(time_to_leave("well", tmp_path))
    assert min(hanging) < min(calm) + BUSY


def time_to_leave(what: str, home: Path) -> float:
    terminal = start(what, home)
    terminal.wait_for("run-failed")
    terminal.type("q")
    took = terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())
    return took


def test_a_still_fleet_writes_nothing(tmp_path: Path) -> None:
    terminal = start("still", tmp_path, (200, 50))
    terminal.wait_for("run-failed")
    until(lambda: not terminal.idle(0.5), lambda: "it never came to rest")
    assert terminal.idle(6.0) == b""
    terminal.type("q")
    terminal.end()


def test_nothing_is_animated_and_the_mouse_is_left_alone(tmp_path: Path) -> None:
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    terminal.type("?\x1b")
    terminal.idle(1.0)
    terminal.type("q")
    terminal.end()
    for mode in (b"?1000h", b"?1003h"):
        assert mode not in terminal.output
    assert terminal.titles_and_clipboards == 0


def test_copying_sends_one_clipboard_sequence(tmp_path: Path) -> None:
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    terminal.type("yy")
    terminal.wait_for("\x1b]52;c;")
    terminal.wait_for("copied by OSC 52; else: cat")
    kept = tmp_path / "cockpit" / "copied.txt"
    assert kept.read_text().startswith("run run-failed: critical\n")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    terminal.type("q")
    terminal.end()
    assert terminal.titles_and_clipboards == 1


def test_the_welcome_offers_the_demo_and_leaves(tmp_path: Path) -> None:
    terminal = start("welcome", tmp_path)
    terminal.wait_for("No cockpit.toml found here")
    terminal.wait_for("seven small real training runs")
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


def test_wrong_keys_in_the_run_file_end_it_before_it_begins(tmp_path: Path) -> None:
    terminal = start("keys", tmp_path)
    terminal.end()
    assert terminal.status == 2
    assert terminal.output.decode().strip() == (
        '/data/cockpit.toml: keys.filtre: there is no such action; did you mean "filter"?'
    )


def test_a_line_that_takes_nothing_gets_one_newest_frame_and_blocks_nobody(
    tmp_path: Path,
) -> None:
    """Nobody reads for as long as thirty frames take; the keys are answered all the same.

    Some of them the terminal's own buffer takes before it is full.
    """
    (tmp_path / "calm").mkdir()
    calm = start("marks", tmp_path / "calm", (200, 50))
    calm.wait_for("run-failed")
    frozen = start("marks", tmp_path, (200, 50))
    frozen.wait_for("run-failed")
    calm.idle(0.5)
    before = len(calm.output)
    for _ in range(2):
        calm.type("?")
        calm.idle(0.5)
    every = 15 * (len(calm.output) - before)
    calm.type("tc")
    frozen.idle(0.5)
    seen = len(frozen.output)
    for _ in range(15):
        os.write(frozen.fd, b"?")
        time.sleep(0.02)
        os.write(frozen.fd, b"?")
        time.sleep(0.02)
    os.write(frozen.fd, b"tc")
    until((tmp_path / "poked").exists, lambda: "the keys were not answered")
    calm.idle(0.5)
    frozen.idle(1.5)
    backlog = len(frozen.output) - seen
    assert backlog < every / 2

    def alike() -> bool:
        frozen.read(0.05)  # an age may tick in one of them a moment before the other
        calm.read(0.05)
        return frozen.screen.seen() == calm.screen.seen()

    until(alike, lambda: "the newest frame did not come")
    for each in (calm, frozen):
        each.type("q")
        each.end()
        assert (each.status, each.left_on) == (0, set())


def test_esc_and_a_key_that_came_as_one_are_two_keys(tmp_path: Path) -> None:
    terminal = start("well", tmp_path, (120, 40))
    terminal.wait_for("run-failed")
    terminal.type("?")
    terminal.wait_for("Keys, codes and signs")
    terminal.type("\x1bq")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


PLAIN = {
    "no locale": {"LC_ALL": "", "LANG": "", "LC_CTYPE": ""},
    "POSIX": {"LC_ALL": "POSIX"},
}


@pytest.mark.parametrize("how", PLAIN)
def test_a_locale_without_utf_8_gets_ascii(how: str, tmp_path: Path) -> None:
    terminal = start("well", tmp_path, (80, 24), **PLAIN[how])
    terminal.wait_for("run-failed")
    kept = terminal.screen.text()
    terminal.type("q")
    terminal.end()
    assert terminal.output.isascii()
    assert "# run-failed" in kept


def test_the_console_of_linux_gets_what_its_fonts_have(tmp_path: Path) -> None:
    terminal = start("well", tmp_path, (200, 50), TERM="linux", COLORTERM="")
    terminal.wait_for("run-failed")
    terminal.type("q")
    terminal.end()
    beyond = {each for each in terminal.output.decode() if not each.isascii()}
    assert beyond and beyond <= set("─│┌┐└┘├┤┬┴┼█■▲→←↑↓·•±")


PAPER = {"rgb:ffff/ffff/ffff": "cockpit-light", "rgb:0000/0000/0000": "cockpit-dark"}


@pytest.mark.parametrize("background", PAPER)
def test_it_is_light_on_a_light_terminal_and_the_answer_is_no_key(
    background: str, tmp_path: Path
) -> None:
    terminal = start("well", tmp_path, background=background)
    terminal.type("j")
    terminal.wait_for("run-failed")
    paper = load_themes()[PAPER[background]].colors.background
    colour = ";".join(str(each) for each in bytes.fromhex(paper[1:]))
    terminal.wait_for(f"48;2;{colour}m")
    assert "rgb" not in terminal.screen.text()
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_ctrl_z_gives_the_terminal_to_the_shell_and_comes_back_whole(tmp_path: Path) -> None:
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    terminal.type("\x1a")
    until(lambda: terminal.read(0.05) and state_of(terminal.pid) == "T", lambda: "it goes on")
    terminal.idle(0.1)
    assert terminal.left_on == set()
    stopped = len(terminal.output)

    def since(at: int) -> str:
        """Return what a screen shows that has got nothing before."""
        screen = Emulator(80, 24)
        screen.feed(terminal.output[at:])
        return screen.text()

    terminal.signal(signal.SIGCONT)
    until(lambda: terminal.read(0.05) and "run-failed" in since(stopped), lambda: "?")
    assert terminal.left_on
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


def test_what_something_else_wrote_is_painted_over(tmp_path: Path) -> None:
    """By ``ctrl+l``; after a resize that ends where it began; after a stop that nobody told of."""
    terminal = start("well", tmp_path)
    terminal.wait_for("run-failed")
    until(lambda: not terminal.idle(0.5), lambda: "it never came to rest")
    whole = terminal.screen.seen()
    ways = {
        "ctrl+l": ("\x0c", ()),
        "resize": ("\x1b[48;24;80;480;640t", (signal.SIGWINCH,)),
        "stop": ("", (signal.SIGSTOP, signal.SIGCONT)),
    }
    for name, (told, signals) in ways.items():
        terminal.screen.feed("\x1b[2;5r\x1b[7mBroadcast message\r\n\n\n\n\n\x1b[10H\x1b[33m\x1b[J")
        for each in signals:
            terminal.signal(each)
        terminal.type(told)
        until(lambda: terminal.read(0.05) and terminal.screen.seen() == whole, lambda: name)  # noqa: B023
    terminal.type("q")
    terminal.end()
    assert (terminal.status, terminal.left_on) == (0, set())


def test_without_the_output_stage_textual_writes_itself(tmp_path: Path) -> None:
    plain = start("well", tmp_path, COCKPIT_OUTPUT="plain")
    cells = start("well", tmp_path)
    for each in (plain, cells):
        each.wait_for("run-failed")
    until(lambda: not plain.idle(0.5) and not cells.idle(0.1), lambda: "it never came to rest")
    assert plain.screen.seen() == cells.screen.seen()
    assert len(plain.output) > 4 * len(cells.output)
    for each in (plain, cells):
        each.type("q")
        each.end()
        assert (each.status, each.left_on) == (0, set())

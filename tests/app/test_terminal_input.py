"""What arrives from the terminal: keys joined with Esc, pastes, answers, the end of the input."""

from __future__ import annotations

import os
import pty
import threading
import tty
from collections.abc import Iterable, Iterator
from queue import Empty, SimpleQueue

import pytest
from textual import events
from textual.color import Color
from textual.constants import ESCAPE_DELAY
from textual.css.stylesheet import Stylesheet
from textual.message import Message

from cockpit.app.application import CockpitApp
from cockpit.app.terminal_input import (
    ANSWER_WITHIN,
    HELD,
    BackgroundAnswer,
    EndOfInput,
    KeyParser,
    behind_escape,
    dark_by,
    question,
    read_keys,
)
from cockpit.model.run import CockpitFile, UiSpec
from tests.screens.stand_in import StandIn
from tests.widgets import reports as made
from themes.loader import load_themes


def keys(monkeypatch: pytest.MonkeyPatch, sent: str) -> list[str]:
    """Return the keys of what a terminal sent, once nothing more can belong to it."""
    now = [100.0]
    for room in ("textual._parser", "cockpit.app.terminal_input"):
        monkeypatch.setattr(f"{room}.get_time", lambda: now[0])
    parser = KeyParser()
    found = list(parser.feed(sent))
    now[0] += 2 * ESCAPE_DELAY
    found += parser.tick()
    return [key for each in found if isinstance(each, events.Key) for key in _apart(each)]


def _apart(event: events.Key) -> list[str]:
    behind = behind_escape(event)
    return [event.key] if behind is None else ["escape", behind.key]


@pytest.mark.parametrize(
    ("sent", "heard"),
    [
        ("\x1bx", ["escape", "x"]),
        ("\x1bR", ["escape", "R"]),
        ("\x1b\r", ["escape", "enter"]),
        ("\x1b\t", ["escape", "tab"]),
        ("\x1b:", ["escape", "colon"]),
        ("\x1b1", ["escape", "1"]),
        ("\x1bb", ["escape", "b"]),
        ("\x1bqj", ["escape", "q", "j"]),
        ("\x1b[1;3A", ["escape", "up"]),
        ("\x1b[120;3u", ["escape", "x"]),
        ("\x1b\x1b[A", ["escape", "up"]),
        ("\x1b", ["escape"]),
        ("\x1b[A", ["up"]),
        ("\x1bOP", ["f1"]),
        ("\x1b[Z", ["shift+tab"]),
        ("\x1b\x7f", ["ctrl+w"]),
    ],
)
def test_esc_and_a_key_are_two_and_the_terminals_own_sequences_stay(
    sent: str, heard: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keys(monkeypatch, sent) == heard


COLOURED = "\x1b[200~a \x1b[31mred\x1b[0m log\r\x1b]0;title\x07 relaunch run-a\r\x1bx\x1b[201~"


@pytest.mark.parametrize("cut", range(1, len(COLOURED)))
def test_nothing_in_a_paste_is_pressed_wherever_a_read_cuts_it(cut: int) -> None:
    parser = KeyParser()
    told = [*parser.feed(COLOURED[:cut]), *parser.feed(COLOURED[cut:]), *parser.feed("j")]
    (paste, key) = told
    assert isinstance(paste, events.Paste) and isinstance(key, events.Key) and key.key == "j"
    assert paste.text == "a red log\r relaunch run-a\rx"


@pytest.mark.parametrize("cut", range(1, len(COLOURED)))
def test_what_was_read_of_a_paste_by_now_stays_its_beginning(
    cut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in ("textual._parser", "cockpit.app.terminal_input"):
        monkeypatch.setattr(f"{room}.get_time", lambda: 100.0)
    parser, told = KeyParser(), list[Message]()
    for read in (COLOURED[:cut], COLOURED[cut:], "j"):  # as the thread does that reads
        told += [*parser.feed(read), *parser.tick()]
    (paste, key) = told
    assert isinstance(paste, events.Paste) and isinstance(key, events.Key) and key.key == "j"
    assert paste.text == "a red log\r relaunch run-a\rx"


def test_an_escape_that_was_pressed_begins_no_paste(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    for room in ("textual._parser", "cockpit.app.terminal_input"):
        monkeypatch.setattr(f"{room}.get_time", lambda: now[0])
    parser, told = KeyParser(), list[Message]()
    for read in ("\x1b", "[200~\x1b[A"):
        told += [*parser.feed(read), *parser.tick()]
        now[0] += 2 * ESCAPE_DELAY
        told += parser.tick()
    assert [each.key for each in told if isinstance(each, events.Key)][-1] == "up"


LIGHT = "\x1b]11;rgb:ffff/ffff/dddd\x1b\\"
DARK = "\x1b]11;rgb:1e/1e/2e\x07"
Heard = list[str]


class Typing:
    """A parser on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for room in ("textual._parser", "cockpit.app.terminal_input"):
            monkeypatch.setattr(f"{room}.get_time", lambda: self.now)
        self._parser = KeyParser()
        self.heard: Heard = []

    def send(self, data: str) -> None:
        self._note(self._parser.feed(data))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for _ in range(3):
            self._note(self._parser.tick())
            self.now += 0.11

    def _note(self, found: Iterable[Message]) -> None:
        for each in found:
            if isinstance(each, BackgroundAnswer):
                self.heard.append("dark" if each.dark else "light")
            elif isinstance(each, events.Key):
                self.heard.append(each.key)


@pytest.mark.parametrize(("answer", "said"), [(LIGHT, "light"), (DARK, "dark")])
@pytest.mark.parametrize("before", ["", "j"])
def test_an_answer_in_any_two_parts_is_an_answer_and_the_keys_around_it_are_keys(
    answer: str, said: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cut in range(1 - len(before), len(answer) + 1):
        typing = Typing(monkeypatch)
        sent = before + answer + "k"
        typing.send(sent[: len(before) + cut])
        typing.send(sent[len(before) + cut :])
        typing.wait(1.0)
        assert typing.heard == [*before, said, "k"], cut


def test_a_late_answer_is_one_too_and_nobody_waited_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    typing = Typing(monkeypatch)
    typing.send("j")
    typing.wait(10 * ANSWER_WITHIN)
    assert typing.heard == ["j"]
    typing.send(LIGHT[:7])
    typing.send(LIGHT[7:] + "q")
    assert typing.heard == ["j", "light", "q"]


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("\x1b", ["escape"]),
        ("\x1b]", ["alt+right_square_bracket"]),
        ("\x1bx", ["alt+x"]),
        ("\x1b[A", ["up"]),
    ],
)
def test_what_only_begins_like_an_answer_is_what_was_pressed(
    sent: str, keys: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    typing = Typing(monkeypatch)
    typing.send(sent)
    typing.wait(HELD)
    typing.wait(HELD)
    assert typing.heard == keys
    typing.send("q")
    assert typing.heard[-1] == "q"


@pytest.mark.parametrize(
    ("variable", "dark"),
    [("15;0", True), ("0;15", False), ("0;default;15", False), ("7;8", True), ("12;7", False),
     ("", None), ("15;default", None), ("1;99", None)],
)  # fmt: skip
def test_colorfgbg_is_read_as_terminals_write_it(variable: str, dark: bool | None) -> None:
    assert dark_by({"COLORFGBG": variable}) is dark


def test_a_console_that_would_show_the_question_is_not_asked() -> None:
    assert question({"TERM": "linux"}) == "" == question({"TERM": "dumb"})
    assert question({"TERM": "xterm"}) == "\x1b]11;?\x1b\\"
    in_screen = {"TERM": "screen", "TMUX": "/tmp/t,1,0", "STY": "1.pts-0"}
    assert question(in_screen) == "\x1b]11;?\x1b\\"
    inside = question({"TERM": "tmux-256color", "TMUX": "/tmp/t,1,0"})
    assert inside == "\x1b]11;?\x1b\\\x1bPtmux;\x1b\x1b]11;?\x1b\x1b\\\x1b\\"


@pytest.mark.parametrize(
    ("theme", "fgbg", "told", "shown"),
    [
        ("auto", "", None, "cockpit-dark"),
        ("auto", "", False, "cockpit-light"),
        ("auto", "0;15", None, "cockpit-light"),
        ("auto", "0;15", True, "cockpit-dark"),
        ("auto-safe", "", False, "cockpit-light-safe"),
        ("cockpit-dark", "0;15", False, "cockpit-dark"),
        ("cockpit-light-safe", "15;0", True, "cockpit-light-safe"),
    ],
)
async def test_the_terminal_is_followed_unless_the_run_file_names_a_theme(
    theme: str, fgbg: str, told: bool | None, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", fgbg)
    file = CockpitFile(path="/data/cockpit.toml", operator="ada", ui=UiSpec(theme=theme))
    app = CockpitApp(file, StandIn(*made.fleet()))
    async with app.run_test() as pilot:
        if told is not None:
            app.post_message(BackgroundAnswer(told))
            await pilot.pause()
        assert app.theme == shown
        await pilot.press("t")
        chosen = app.theme
        assert chosen != shown
        app.post_message(BackgroundAnswer(True))
        app.post_message(BackgroundAnswer(False))
        await pilot.pause()
        assert app.theme == chosen


async def test_a_theme_from_the_palette_is_a_choice_as_good_as_the_key() -> None:
    app = CockpitApp(CockpitFile(path="/data/cockpit.toml"), StandIn(*made.fleet()))
    async with app.run_test() as pilot:
        await pilot.press(":", *"theme cockpit-light", "enter")
        app.post_message(BackgroundAnswer(True))
        await pilot.pause()
        assert (app.theme, app.theme_chosen) == ("cockpit-light", True)
        await pilot.press("t")
        assert not app.theme_chosen


async def test_what_a_start_shows_is_styled_once_and_anew_for_another_theme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anew = []
    reparse = Stylesheet.reparse

    def counted(each: Stylesheet) -> None:
        anew.append(1)
        reparse(each)

    monkeypatch.setattr(Stylesheet, "reparse", counted)
    file = CockpitFile(path="/data/cockpit.toml", operator="ada", ui=UiSpec(theme="cockpit-light"))
    papers = {name: each.colors.background for name, each in load_themes().items()}
    app = CockpitApp(file, StandIn(made.report("a")))
    async with app.run_test() as pilot:
        assert not anew
        assert app.screen.styles.background == Color.parse(papers["cockpit-light"])
        app.choose_theme("cockpit-dark")
        await pilot.pause()
        assert anew
        assert app.screen.styles.background == Color.parse(papers["cockpit-dark"])


WITHIN = 10.0


class Reading:
    """A thread that reads a terminal of our own, and what it has told so far."""

    def __init__(self) -> None:
        self.typed, self.terminal = pty.openpty()
        tty.setraw(self.terminal)
        self.end = EndOfInput()
        self.told: SimpleQueue[Message] = SimpleQueue()
        self.looks = 0
        parser = KeyParser()
        tick = parser.tick

        def counted() -> object:
            self.looks += 1
            return tick()

        parser.tick = counted  # type: ignore[assignment, method-assign]
        work = (self.terminal, self.end, parser, self.told.put)
        self.thread = threading.Thread(target=read_keys, args=work, daemon=True)
        self.thread.start()

    def key(self) -> str:
        told = self.told.get(timeout=WITHIN)
        assert isinstance(told, events.Key)
        return told.key

    def stop(self) -> None:
        self.end.set()
        self.thread.join(WITHIN)
        assert not self.thread.is_alive()


@pytest.fixture
def reading() -> Iterator[Reading]:
    found = Reading()
    yield found
    found.stop()
    os.close(found.typed)
    os.close(found.terminal)


def test_keys_come_in_their_order_and_an_escape_alone_comes_too(reading: Reading) -> None:
    os.write(reading.typed, b"j\x1b[A\xff\xc3")
    os.write(reading.typed, b"\xa9\x1b")
    assert [reading.key() for _ in range(2)] == ["j", "up"]
    keys = [reading.key() for _ in range(3)]
    assert keys[-1] == "escape", keys


def test_nobody_looks_while_nothing_is_typed(reading: Reading) -> None:
    os.write(reading.typed, b"j")
    assert reading.key() == "j"
    os.write(reading.typed, b"k")
    assert reading.key() == "k"
    looks = reading.looks
    reading.thread.join(0.35)  # three looks, were it ten a second
    assert reading.looks <= looks + 1


def test_what_was_typed_before_the_end_is_told_and_it_can_begin_anew(reading: Reading) -> None:
    reading.stop()
    with pytest.raises(Empty):
        reading.told.get_nowait()
    reading.end.clear()
    os.write(reading.typed, b"q")
    reading.end.set()
    read_keys(reading.terminal, reading.end, KeyParser(), reading.told.put)
    assert reading.key() == "q"

"""The terminal says whether its background is light; its answer is never taken for keys."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from textual import events
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.message import Message

from cockpit.app.alt import KeyParser
from cockpit.app.application import CockpitApp
from cockpit.app.background import HELD, WITHIN, BackgroundTold, dark_by, is_dark, question
from cockpit.model.run import CockpitFile, UiSpec
from tests.screens.stand_in import StandIn
from tests.widgets import reports as made
from themes.loader import load_themes

LIGHT = "\x1b]11;rgb:ffff/ffff/dddd\x1b\\"
DARK = "\x1b]11;rgb:1e/1e/2e\x07"
NONE_OF_OURS = "\x1b]11;?\x1b\\"
Heard = list[str]


class Typing:
    """A parser on a clock of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        for room in ("textual._parser", "cockpit.app.alt"):
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
            if isinstance(each, BackgroundTold):
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
    typing.wait(10 * WITHIN)
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


def test_an_answer_that_says_nothing_is_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    typing = Typing(monkeypatch)
    typing.send(NONE_OF_OURS + "q")
    assert typing.heard == ["q"]


@pytest.mark.parametrize(
    ("variable", "dark"),
    [("15;0", True), ("0;15", False), ("0;default;15", False), ("7;8", True), ("12;7", False),
     ("", None), ("15;default", None), ("1;99", None)],
)  # fmt: skip
def test_colorfgbg_is_read_as_terminals_write_it(variable: str, dark: bool | None) -> None:
    assert dark_by({"COLORFGBG": variable}) is dark


def test_colours_of_any_depth_have_a_brightness() -> None:
    assert is_dark("0", "0", "0") and not is_dark("f", "f", "f")
    assert is_dark("2828", "2c2c", "3434") and not is_dark("fd", "f6", "e3")


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
            app.post_message(BackgroundTold(told))
            await pilot.pause()
        assert app.theme == shown
        await pilot.press("t")
        chosen = app.theme
        assert chosen != shown
        app.post_message(BackgroundTold(True))
        app.post_message(BackgroundTold(False))
        await pilot.pause()
        assert app.theme == chosen


async def test_a_theme_from_the_palette_is_a_choice_as_good_as_the_key() -> None:
    app = CockpitApp(CockpitFile(path="/data/cockpit.toml"), StandIn(*made.fleet()))
    async with app.run_test() as pilot:
        await pilot.press(":", *"theme cockpit-light", "enter")
        app.post_message(BackgroundTold(True))
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

"""The output stage, part by part, and against what Textual itself would write."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import _compositor
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.geometry import Region
from textual.strip import Strip

from cockpit.app.cell_output import CellOutput, colours_here, placed, wanted_here
from cockpit.app.output.encoder import Pen, cells_of
from cockpit.app.output.stage import BEGIN, END, Stage, erases_coloured, stage_here
from tests.app.recorded import Line
from tests.emulator import Emulator

INK = Pen("38;2;140;150;165", "48;2;18;21;26")


def test_the_private_parts_of_textual_are_as_they_are_read_here() -> None:
    """Fails when another Textual paints otherwise: then ``textual_frames`` is to be read again."""
    told = "Textual's updates have changed: read cockpit/app/cell_output.py again"
    known = {"LayoutUpdate": ["strips", "region"], "ChopsUpdate": ["chops", "spans", "chop_ends"]}
    for name, fields in known.items():
        taken = list(inspect.signature(getattr(_compositor, name)).parameters)
        assert taken == fields, f"{told}: {name} takes {taken}"
    kinds = {each.__name__ for each in _compositor.CompositorUpdate.__subclasses__()}
    assert kinds == {*known, "InlineUpdate"}, f"{told}: there are {sorted(kinds)}"
    shown = inspect.getsource(App._display)
    for part in ("_begin_update", "render_segments", "clamp_offset", "post_display_hook"):
        assert part in shown, f"Textual's App._display has changed ({part}): see CellApp"
    with pytest.raises(TypeError, match="InlineUpdate"):
        list(placed(_compositor.InlineUpdate([]), None))  # type: ignore[arg-type]


def painted(*rows: str, width: int = 60, pen: Pen = INK) -> Stage:
    stage = Stage()
    stage.resize(width, len(rows))
    for y, row in enumerate(rows):
        stage.put(y, 0, cells_of(row.ljust(width), pen))
    return stage


def test_a_whole_screen_is_written_once_pen_by_pen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A first frame waits for it: to write it row by row as well took as long again."""

    def refuse(*_: object) -> None:
        raise AssertionError("it is written row by row, too")

    monkeypatch.setattr("cockpit.app.output.stage._by_rows", refuse)
    other = Pen("38;2;213;218;225", INK.bg)
    stage = painted(*("step" for _ in range(24)))
    for y in range(24):
        stage.put(y, 10, cells_of("8,003", other))
    first = stage.frame((0, 0))
    assert (first.count(INK.fg), first.count(other.fg)) == (1, 1)
    screen = Emulator(60, 24)
    screen.feed("\x1b[?7l" + first)
    rows = screen.text().splitlines()
    assert [row.rstrip() for row in rows] == ["step      8,003"] * 24


def test_lines_that_move_together_are_moved_by_the_terminal() -> None:
    lines = [f"{n * 7919 % 997:03d} some words of line {n * n}" for n in range(60)]
    for step in (1, 3, -1, -2):
        first, then = (5, 5 + step)
        stage, screen = painted("title", *lines[first : first + 20], "foot"), Emulator(60, 22)
        screen.feed("\x1b[?7l" + stage.frame((0, 0)))
        for y in range(20):
            stage.put(1 + y, 0, cells_of(lines[then + y].ljust(60), INK))
        text = stage.frame((0, 0))
        screen.feed(text)
        fresh = Emulator(60, 22)
        stage.doubt()
        fresh.feed("\x1b[?7l" + stage.frame((0, 0)))
        assert screen.seen() == fresh.seen() and len(text) < 50 + 40 * abs(step)


def test_blanks_that_take_the_place_of_words_are_erased() -> None:
    """A run that is opened, or left, is mostly blanks where other words stood."""
    stage, screen = painted(*[f"{'some words':<20}" * 3] * 10), Emulator(60, 10)
    screen.feed("\x1b[?7l" + stage.frame((0, 0)))
    for y in range(10):
        stage.put(y, 2, cells_of(f"{'left':<30}│{'right':<20}".ljust(58), INK))
    text = stage.frame((0, 0))
    screen.feed(text)
    assert screen.text().splitlines() == [f"so{'left':<30}│right".ljust(60)] * 10
    assert text.count(" ") < 30 and len(text) < 450


@pytest.mark.parametrize("narrow", [True, False])
def test_a_sign_of_which_terminals_differ_how_wide_it_is_shifts_nothing(narrow: bool) -> None:
    def measure(letter: str) -> int:
        taken = {"🫨": 1 if narrow else 2, "⚠": 1, "\ufe0f": 0}
        return taken.get(letter, 1)

    stage, screen = painted("a 🫨 b ⚠\ufe0f c", "x", width=30), Emulator(30, 2, measure=measure)
    screen.feed("\x1b[?7l" + stage.frame((0, 0)))
    line = screen.lines()[0] if narrow else screen.text()
    places = {letter: [cell[0] for cell in screen.cells[0]].index(letter) for letter in "abc"}
    assert places == {"a": 0, "b": 5, "c": 10}, line


@pytest.mark.parametrize("letter", ["👍🏽", "🇩", "🫨"])
def test_a_sign_that_takes_more_cells_spoils_none_behind_it(letter: str) -> None:
    """As tmux 3.3 does it: a skin tone stands for itself there, beside the hand."""
    lines = ["   bcdefgh"] * 30

    def measure(part: str) -> int:
        return 2 if part in "👍🏽🇩🫨" else 1

    stage, screen = painted(*lines, width=30), Emulator(30, 30, measure=measure)
    screen.feed("\x1b[?7l" + stage.frame((0, 0)))
    for y in range(30):
        stage.put(y, 1, cells_of(letter, INK))
    screen.feed(stage.frame((0, 0)))
    behind = 1 + len(cells_of(letter))
    for y in range(30):
        shown = "".join(cell[0] for cell in screen.cells[y][behind:12])
        assert shown == lines[y].ljust(12)[behind:], screen.text()


def test_controls_in_a_text_never_reach_the_terminal() -> None:
    hostile = "a\x1b[2J\x07\x9b31m\r\n\tb\u200d\u0301"
    assert "".join(letter for letter, _ in cells_of(hostile)) == "a[2J31mb\u200d\u0301".replace(
        "\u200d\u0301", "\u200d\u0301"
    )
    assert all(each.isprintable() or each in "\u200d" for each, _ in cells_of("\x00é\x85世"))


TERMS = [
    ({"TERM": "xterm-256color"}, True),
    ({"TERM": "screen", "TMUX": "/tmp/tmux-0/default,1,0"}, True),
    ({"TERM": "screen-256color"}, False),
    ({"TERM": "xterm-256color", "STY": "1.pts-0"}, False),
    ({"TERM": "screen", "STY": "1.pts-0", "TMUX": "/tmp/tmux-0/default,1,0"}, False),
    ({"TERM": "tmux-256color", "STY": "1.pts-0", "TMUX": "/tmp/tmux-0/default,1,0"}, True),
    ({"TERM": "vt100"}, False),
    ({}, False),
]


@pytest.mark.parametrize(("variables", "erases"), TERMS)
def test_where_an_erased_cell_keeps_no_colour_none_is_erased(
    variables: dict[str, str], erases: bool
) -> None:
    assert erases_coloured(variables) is erases


@pytest.mark.parametrize(
    ("variables", "colours"),
    [
        ({"TERM": "screen", "STY": "1.pts-0"}, ColorSystem.EIGHT_BIT),
        ({"STY": "1.pts-0", "TEXTUAL_COLOR_SYSTEM": "truecolor"}, ColorSystem.TRUECOLOR),
        ({"TERM": "tmux-256color", "STY": "1", "TMUX": "/tmp/t,1,0"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm-256color"}, ColorSystem.TRUECOLOR),
    ],
)
def test_no_true_colours_are_sent_where_they_become_others(
    variables: dict[str, str], colours: ColorSystem
) -> None:
    assert colours_here(variables, ColorSystem.TRUECOLOR) is colours
    assert colours_here(variables, ColorSystem.STANDARD) is ColorSystem.STANDARD
    assert colours_here(variables, None) is None


def test_long_frames_alone_are_told_apart_where_the_terminal_can() -> None:
    stage = painted(*["some words " * 4] * 30)
    whole = stage.frame(synchronized=True)
    assert whole.startswith(BEGIN) and whole.endswith(END)
    stage.put(0, 0, cells_of("S", INK))
    assert BEGIN not in stage.frame(synchronized=True)


def test_a_terminal_says_whether_it_repeats_and_only_then_it_is_asked_to() -> None:
    for repeats in (True, False):
        output, screen = CellOutput(Line()), Emulator(80, 24, repeats=repeats)
        screen.feed(output.question(24))
        (answer,) = screen.answers
        output.answered(5, 0)  # what F3 reads like, with ctrl and shift
        output.stage.resize(80, 1)
        output.stage.put(0, 0, cells_of("─" * 80, INK))
        assert "\x1b[79b" not in output.stage.frame()
        output.stage.doubt()
        y, x = answer.removeprefix("\x1b[").removesuffix("R").split(";")
        output.answered(int(x) - 1, int(y) - 1)
        output.stage.resize(80, 1)
        output.stage.put(0, 0, cells_of("─" * 80, INK))
        assert len(output.stage.frame()) < 70 if repeats else "\x1b[79b" not in output.stage.frame()


class Asked(Stage):
    """The answer comes while a frame is made: another thread reads what a terminal says."""

    def _scroll(self) -> None:
        self.can_repeat()


def test_inside_tmux_a_line_that_goes_down_is_written_row_by_row() -> None:
    """tmux passes a step down and back on as a whole place: twice the bytes."""
    frames = []
    for variables in ({"TERM": "xterm"}, {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default"}):
        stage, line = stage_here(variables), Pen("38;2;213;218;225", INK.bg)
        stage.resize(40, 6)
        for y in range(6):
            stage.put(y, 0, cells_of(("row" + " " * 5 + "words of it").ljust(40), INK))
            stage.put(y, 5, cells_of("│", line))
            stage.put(y, 30, cells_of("│", line))
        frames.append(stage.frame())
        screen = Emulator(40, 6)
        screen.feed("\x1b[?7l" + frames[-1])
        assert all(row[5] == row[30] == "│" for row in screen.text().splitlines())
    assert re.findall("│[^│]+│", frames[0])[0] == "│\x1b[B\b│"
    assert "│\x1b[31G│" in frames[1] and "\x1b[B\b" not in frames[1]


def test_it_can_be_left_out() -> None:
    assert wanted_here({}) and wanted_here(dict(os.environ, COCKPIT_OUTPUT="cells"))
    assert not wanted_here({"COCKPIT_OUTPUT": "plain"})


WHAT = ["chops", "chops", "layout", "doubt", "resize", "late", "asked"]
COLOURS = [None, "red", "bright_blue", "color(99)", "#102030", "#102031"]
LETTERS = [*"ab  .─│█⣿é", "世", "語", "e\u0301", "👍", "❤\ufe0f", "1\u20e3"]

styles = st.builds(
    Style,
    color=st.sampled_from(COLOURS),
    bgcolor=st.sampled_from(COLOURS),
    bold=st.booleans(),
    dim=st.booleans(),
    underline=st.booleans(),
    reverse=st.sampled_from([False, False, True]),
    link=st.sampled_from([None, None, None, "https://example.org/a"]),
)
texts = st.lists(st.sampled_from(LETTERS), max_size=12).map("".join)
segments = st.builds(
    lambda text, style: Segment(text, style), texts, st.none() | styles
) | st.builds(lambda style, count: Segment(" " * count, style), styles, st.integers(1, 12))


def strip_of(parts: list[Segment], width: int) -> Strip:
    return Strip(parts).adjust_cell_length(width, parts[-1].style if parts else None)


@dataclass
class Both:
    """The same updates on two terminals: written by Textual, and by the stage."""

    width: int
    height: int
    bce: bool = True
    repeats: bool = True
    downwards: bool = True
    plain: Emulator = field(init=False)
    ours: Emulator = field(init=False)
    stage: Stage = field(init=False)

    def __post_init__(self) -> None:
        self.stage = Stage(erases=self.bce, downwards=self.downwards)
        if self.repeats:
            self.stage.can_repeat()
        self.console = Console(color_system="truecolor")
        self.resize(self.width, self.height)

    def resize(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.plain = Emulator(width, height, bce=self.bce)
        self.ours = Emulator(width, height, bce=self.bce, repeats=self.repeats)
        self.ours.cells = [[("?", ("1", "2", frozenset({7}), "x"))] * width for _ in range(height)]
        for each in (self.plain, self.ours):
            each.feed("\x1b[?7l")
        self.stage.resize(width, height)
        self.stage.doubt()

    def paint(self, update: LayoutUpdate | ChopsUpdate, *, sent: bool = True) -> str:
        self.plain.feed(update.render_segments(self.console) + "\x1b[1;1H")
        for y, x, cells in placed(update, ColorSystem.TRUECOLOR):
            self.stage.put(y, x, cells)
        if not sent:
            return ""
        text = self.stage.frame((0, 0))
        self.ours.feed(text)
        assert self.ours.seen() == self.plain.seen()
        assert (self.ours.y, self.ours.x) == (0, 0)
        return text


def whole(rows: list[list[Segment]], width: int) -> LayoutUpdate:
    strips: list[Iterable[Strip]] = [[strip_of(parts, width)] for parts in rows]
    return LayoutUpdate(strips, Region(0, 0, width, len(rows)))


@st.composite
def layouts(draw: st.DrawFn, width: int, height: int) -> LayoutUpdate:
    rows = st.lists(segments, max_size=4)
    return whole(draw(st.lists(rows, min_size=height, max_size=height)), width)


@st.composite
def chops(draw: st.DrawFn, width: int, height: int) -> ChopsUpdate:
    """Some rows cut at some columns, some of the pieces rendered, and spans of that."""
    lines: list[dict[int, Strip | None]] = []
    ends: list[list[int]] = []
    for _ in range(height):
        cuts = [0, *sorted(draw(st.sets(st.integers(1, width - 1), max_size=2))), width]
        parts = st.lists(segments, max_size=3)
        lines.append({x: strip_of(draw(parts), to - x) for x, to in pairwise(cuts)})
        ends.append(cuts[1:])
    places = draw(st.sets(st.integers(0, height - 1), min_size=1))
    spans = []
    for y in sorted(places):
        start = draw(st.integers(0, width - 1))
        spans.append((y, start, draw(st.integers(start + 1, width))))
    return ChopsUpdate(lines, spans, ends)


@given(st.data())
def test_any_frames_are_shown_as_textual_shows_them(data: st.DataObject) -> None:
    width, height = data.draw(st.integers(4, 24)), data.draw(st.integers(1, 6))
    both = Both(width, height, *data.draw(st.tuples(*[st.booleans()] * 3)))
    both.paint(data.draw(layouts(width, height)))
    for _ in range(data.draw(st.integers(1, 5))):
        what = data.draw(st.sampled_from(WHAT))
        if what == "doubt":
            both.stage.doubt()
            both.ours.feed(
                "\x1b[4;31mfrom elsewhere\r\n\x1b[m\n\n" + "\x1b[2;3r" * (both.height > 2)
            )
        if what == "asked":
            both.ours.feed(f"\x1b[{both.height};1Hxxx")
            both.ours.feed(both.stage.overwritten(both.height - 1, 3))
            assert both.ours.seen() == both.plain.seen()
        if what == "resize":
            both.resize(data.draw(st.integers(4, 24)), data.draw(st.integers(1, 6)))
            both.paint(data.draw(layouts(both.width, both.height)))
        if what == "layout":
            both.paint(data.draw(layouts(both.width, both.height)))
        else:
            update = data.draw(chops(both.width, both.height))
            both.paint(update, sent=what != "late")
    both.paint(data.draw(chops(both.width, both.height)))


@st.composite
def sparse(draw: st.DrawFn, width: int) -> LayoutUpdate:
    """Screens of few words, other ones each time: what is blank now had letters."""
    gaps = st.integers(8, 30).map(lambda size: Segment(" " * size))
    rows = st.lists(segments | gaps, min_size=2, max_size=6)
    return whole(draw(st.lists(rows, min_size=4, max_size=4)), width)


@settings(max_examples=40)
@given(st.data())
def test_one_screen_after_another_is_shown_as_textual_shows_it(data: st.DataObject) -> None:
    both = Both(48, 4, *data.draw(st.tuples(*[st.booleans()] * 3)))
    for _ in range(4):
        both.paint(data.draw(sparse(both.width)))

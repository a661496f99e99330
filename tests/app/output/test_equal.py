"""Whatever is painted, in whatever order: the terminal shows what Textual would have written."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.geometry import Region
from textual.strip import Strip

from cockpit.app.output.stage import Stage
from cockpit.app.output.textual_frames import placed
from tests.emulator import Emulator

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

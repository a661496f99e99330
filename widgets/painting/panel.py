"""The panel of a run and the grid of panels: what each shows, in which order, as room allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, zip_longest
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.base import SafeText
from cockpit.model.goodput import CELLS, UNSEEN, WORST_LAST
from cockpit.model.report import RunReport, Verdict
from cockpit.model.wording import glyph
from widgets.painting import facts, rows
from widgets.painting.big import paint_cost
from widgets.painting.facts import VERDICT_MARKS, Freshness, freshness_of
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    LINE,
    brief,
    cut,
    fit,
    foreign,
    frame,
    hung,
    one_line,
    selected,
    side_by_side,
    text,
    that_fit,
)
from widgets.painting.run_line import run_line
from widgets.painting.series import LABELS, has_curve, loss_columns, one_row, paint_loss

AN_HOUR: Final = 3
"""Cells of half an hour, the first of which has hardly begun: less of a day says nothing."""


def paint_day(report: RunReport, now: float, width: int) -> Content:
    """Return the strip, newest last, with a legend of the marks in it as far as that fits.

    Nothing before there is an hour to show, or where there is no room. A narrow one shows the
    worse of two.
    """
    cells = report.day.until(now)
    if len(cells.lstrip(UNSEEN)) < AN_HOUR or width < CELLS // 2:
        return EMPTY
    if width < CELLS:
        pairs = zip(cells[::2], cells[1::2], strict=True)
        cells = "".join(max(pair, key=WORST_LAST.index) for pair in pairs)
    pieces = ((*VERDICT_MARKS[letter][:2], len(list(same))) for letter, same in groupby(cells))
    strip = text(*((mark * count, style) for mark, style, count in pieces))
    legend = [
        text(VERDICT_MARKS[letter][:2], (f" {VERDICT_MARKS[letter][2]}", DIM))
        for letter in reversed(WORST_LAST)
        if letter in cells
    ]
    room = width - len(cells) - 2
    shown = [each for each in legend if each.cell_length <= room]
    return text(strip, "  ", that_fit(shown, room, "  ")) if shown else strip


LABEL: Final = 6
METRICS: Final = 22
LOG: Final = 2
"""Lines of its log that a panel shows whatever else is wrong, where it has two at all."""
WELL: Final = (Verdict.HEALTHY, Verdict.FINISHED, Verdict.SEALED)
"""Verdicts of runs that need a few lines only."""
_QUIET: Final = (Verdict.HEALTHY, Verdict.SEALED)
_ALL: Final = 999
Wishes = Sequence[tuple[str, int]]
"""What lines are spent on, one wish after the other: a block, and how many it may have by then."""
_ROOM: Final[Wishes] = (
    ("day", 1), ("figures", 4), ("log", 4), ("proof", 4), ("figures", 6), ("log", 6),
    ("more", _ALL), ("figures", 10), ("log", 10), ("proof", _ALL), ("figures", 14),
    ("log", _ALL), ("figures", _ALL),
)  # fmt: skip
_SICK: Final[Wishes] = (
    ("title", 1), ("act", 1), ("log", 1), ("step", 1), ("act", 2), ("log", LOG), ("proof", 1),
    ("cost", 1), ("state", 1), ("more", 1), ("figures", 1), ("proof", 2), ("title", 2),
    ("figures", 3), ("state", 2), ("log", 3), ("more", 2), ("act", 3), *_ROOM,
)  # fmt: skip
_WELL: Final[Wishes] = (
    ("step", 1), ("title", 1), ("log", 1), ("act", 1), ("log", LOG), ("act", 2), ("state", 1),
    ("figures", 2), ("state", 2), ("cost", 1), ("log", 3), ("proof", 1), *_ROOM,
)  # fmt: skip
_ORDER: Final = ("title", "proof", "act", "more", "step", "figures", "state", "cost", "day",
          "log")  # fmt: skip
"""The blocks from top to bottom."""
_WHOLE: Final = frozenset({"proof", "more", "step", "state", "day"})
"""Blocks that read the same given all the lines they have, and given more than those."""


def needs_person(report: RunReport) -> bool:
    """Tell whether a run is not well, or nobody knows."""
    return report.verdict not in WELL


def needs_room(report: RunReport) -> bool:
    """Tell whether a run gets a wide, full panel: one that is not read yet stands as if well.

    Most are, and then nothing moves once they are read.
    """
    return needs_person(report) and not facts.unread(report)


def paint_panel(
    report: RunReport,
    now: float,
    width: int,
    height: int,
    chosen: bool = False,
    liked: bool = False,
) -> list[Content]:
    """Return the panel's lines, exactly ``height`` of ``width`` cells (frame included)."""
    mark, style = facts.verdict_mark(report)
    name = (report.name, f"bold {ACCENT}" if chosen else "bold")
    title = text((f"{mark} ", style), name, (f" {glyph('liked')}" if liked else "", ACCENT))
    note = _note(report, now, width)
    line = "$critical-line" if report.verdict is Verdict.CRITICAL else LINE
    body = Body(report, now, max(1, width - 4)).lines(height - 2)
    lines = frame(body, width, height, title, note, foot=rows.where(report), line=line)
    return selected(lines, width, title, note, line) if chosen else lines


def _note(report: RunReport, now: float, width: int) -> Content:
    """Return verdict and phase, two words; the verdict goes first where it is narrow."""
    words = facts.phase_words(report, now)
    phase = text((words, facts.phase_style(report, now)))
    word = facts.verdict_word(report)
    if word == words:
        return phase
    verdict = text((word, facts.VERDICT_STYLE[report.verdict]), (" · ", DIM))
    room = width - 12 - len(report.name)
    return text(verdict, phase) if verdict.cell_length + len(words) <= room else phase


class Body:
    """What stands in a panel of ``width`` cells: each block painted for the lines it is given."""

    def __init__(self, report: RunReport, now: float, width: int, *, worded: bool = False) -> None:
        self._report, self._now, self._width, self._worded = report, now, width, worded
        self._charted = report.facets.tracker.value is not None or bool(loss_columns(report))
        self._drawn = self._charted and has_curve(report, width - LABEL - METRICS - LABELS)
        self._over = facts.is_over(report)
        self._known: dict[str, int] = {}
        self._full: dict[str, list[Content]] = {}

    def lines(self, height: int, wishes: Wishes = ()) -> list[Content]:
        """Return at most ``height`` lines: what one wish takes is not there for the next."""
        wishes = wishes or self._wishes()
        given: dict[str, int] = {}
        left = max(0, height)
        for name, most in wishes:
            had = given.get(name, 0)
            given[name] = max(had, min(most, had + left, self._there_is(name)))
            left -= given[name] - had
        painted = {name: self._painted(name, count) for name, count in given.items() if count}
        if "step" in painted and "figures" not in painted and self._charted:
            painted["step"] = self._step(1, ("loss", "curve", "rate"))
        return [line for name in _ORDER for line in painted.get(name, ())]

    def _wishes(self) -> Wishes:
        """Return what lines are spent on; of a run that is being read as little as will change.

        That it is not read yet stands in its frame: it is not said again of each source.
        """
        if facts.unasked(self._report):
            return (("step", 1),)
        if facts.waits(self._report):
            without = {"act"} if self._charted else {"act", "figures"}
            return [wish for wish in _WELL if wish[0] not in without]
        return _SICK if needs_room(self._report) else _WELL

    def there_are(self, wishes: Wishes) -> int:
        """Return how many lines these wishes take where there is room for all."""
        most: dict[str, int] = {}
        for name, count in wishes:
            most[name] = max(most.get(name, 0), count)
        return sum(min(count, self._there_is(name)) for name, count in most.items())

    def _there_is(self, name: str) -> int:
        """Return how many lines a block has at most; painted once, but for curve and log."""
        if name not in self._known:
            if name == "log":
                known = self._report.facets.log.value
                there = 1 if known is None else max(1, len(_last(known.lines, _ALL)))
            elif name == "figures" and self._drawn:
                there = _ALL
            else:
                found = self._block(name, 4 if name == "figures" else _ALL)
                there = len(found)
                if name in _WHOLE:
                    self._full[name] = found
            self._known[name] = there
        return self._known[name]

    def _painted(self, name: str, count: int) -> list[Content]:
        """Return a block in so many lines: as it was measured, if those are all it has."""
        whole = self._full.get(name, ())
        return list(whole) if len(whole) == count else self._block(name, count)

    def _block(self, name: str, most: int) -> list[Content]:
        paint: Callable[[int], list[Content]] = getattr(self, f"_{name}")
        return paint(most)

    def _title(self, most: int) -> list[Content]:
        titled = (
            rows.alert_titled(each, self._now, self._width, most, self._worded)
            for each in self._report.alerts
        )
        return next(titled, [])

    def _proof(self, most: int) -> list[Content]:
        proofs = (rows.proof(each, self._now, self._width - 2) for each in self._report.alerts)
        return [text("  ", line) for line in next(proofs, [])[:most]]

    def _act(self, most: int) -> list[Content]:
        if not self._report.alerts and self._report.verdict in _QUIET:
            return []
        return rows.next_lines(self._report, self._width, most, self._worded)

    def _more(self, most: int) -> list[Content]:
        others = self._report.alerts[1:]
        hidden = len(others) - max(0, most)
        rest = text((f"  +{hidden} more", DIM)) if hidden > 0 and most > 0 else EMPTY
        shown = others[: max(0, most)]
        rooms = [self._width] * (len(shown) - 1) + [self._width - rest.cell_length]
        lines = [
            rows.alert_titled(each, self._now, room, 1, self._worded)[0]
            for each, room in zip(shown, rooms, strict=False)
        ]
        return [*lines[:-1], *(text(line, rest) for line in lines[-1:])]

    def _step(self, most: int, beside: Sequence[str] = ()) -> list[Content]:
        """Return the line of the step, with other facts behind it."""
        if most < 1:
            return []
        names = ("step", "share", "source", *beside)
        line = run_line(self._report, self._now, self._width - LABEL, names, ("eta",), gap=2)
        return [_labelled("step", line, self._width)]

    def _figures(self, most: int) -> list[Content]:
        """Return the figures, one a line, and the loss curve beside them."""
        report, width = self._report, self._width
        if most < 1:
            return []
        if not self._charted:
            return [_labelled("loss", rows.unknown(report.facets.tracker), width)]
        rate = EMPTY if self._over else rows.throughput(report, self._now)
        loss, room = rows.loss(report, self._now), width - LABEL - METRICS
        if most == 1:
            value = text(fit(loss, max(8, loss.cell_length + 1)), rate)
            line = text(fit(value, METRICS + 3), one_row(report, room - 3))
            return [_labelled("loss", line, width)]
        figures = {"loss": loss, "rate": rate, "grad": rows.grad(report.facets.tracker.value)}
        named = [
            _labelled(label, figure, LABEL + METRICS - 1)
            for label, figure in figures.items()
            if figure.plain
        ]
        chart = paint_loss(report, room, most)
        count = most if self._drawn else min(most, max(len(named), len(chart)))
        pairs = zip_longest(named[:count], chart[:count], fillvalue=EMPTY)
        lines = [text(fit(left, LABEL + METRICS), right) for left, right in pairs]
        return [*lines, *[EMPTY] * (count - len(lines))]

    def _state(self, most: int) -> list[Content]:
        """Return the checkpoints and the ages of the sources: on one line if both fit."""
        report, width = self._report, self._width
        facet = report.facets.checkpoints
        named = freshness_of(facet, report, self._now) is not Freshness.ABSENT
        saved = that_fit(rows.checkpoints(report, self._now), width - LABEL)
        saved = _labelled("ckpt", saved, width) if named else EMPTY
        ages = that_fit(rows.ages(report, self._now), width - LABEL)
        updated = text(("updated ", DIM), ages) if ages.plain else EMPTY
        return side_by_side(saved, updated, width)[:most]

    def _cost(self, most: int) -> list[Content]:
        lines = paint_cost(self._report, self._width - LABEL, min(1, most))
        return [_labelled("cost", line, self._width) for line in lines]

    def _day(self, most: int) -> list[Content]:
        strip = paint_day(self._report, self._now, self._width - LABEL)
        return [_labelled("24h", strip, self._width)] if strip.plain and most else []

    def _log(self, most: int) -> list[Content]:
        """Return the last log lines, newest last; dim, since they are only the last words."""
        facet, width = self._report.facets.log, self._width
        if most < 1:
            return []
        if facet.value is None:
            return [_labelled("log", rows.unknown(facet), width)]
        lines = _last(facet.value.lines, most)
        if not lines:
            return [_labelled("log", text(("empty", DIM)), width)]
        shown = [
            one_line(brief(foreign(line)).stylize_before(DIM), width - LABEL) for line in lines
        ]
        return hung(text((f"{'log':<{LABEL}}", DIM)), shown)


def _last(lines: Sequence[SafeText], most: int) -> list[SafeText]:
    """Return the last lines that say something: below a traceback's line stand only marks."""
    return [line for line in lines if line.plain.strip(" ~^")][-most:]


def _labelled(label: str, line: Content, width: int) -> Content:
    return text((f"{label:<{LABEL}}", DIM), cut(line, width - LABEL))


NARROWEST: Final = 58
"""Cells below which a panel says too little."""
WIDE: Final = 90
"""Cells that a sick run gets where all have room then."""
LEAST_SICK: Final = 9
LEAST_WELL: Final = 3 + LOG
GAP: Final = 1

Groups = Sequence[tuple[str, int]]
"""Titles, and how many runs stand below each; none where runs are not grouped."""


class Tile(NamedTuple):
    """A panel's place, in cells."""

    x: int
    y: int
    width: int
    height: int


class Title(NamedTuple):
    """A group's line."""

    y: int
    words: str


class Tiling(NamedTuple):
    """One tile for each run, in their order, and the groups' titles."""

    tiles: tuple[Tile, ...]
    titles: tuple[Title, ...] = ()

    def below(self, place: int, rows: int) -> int:
        """Return the run that many rows below (above if negative), nearest to the same column."""
        heights = sorted({tile.y for tile in self.tiles})
        here = self.tiles[place]
        row = heights.index(here.y) + rows
        if not 0 <= row < len(heights):
            return place
        middle = here.x * 2 + here.width
        there = [at for at, tile in enumerate(self.tiles) if tile.y == heights[row]]
        return min(there, key=lambda at: abs(self.tiles[at].x * 2 + self.tiles[at].width - middle))


class _Row(NamedTuple):
    """Panels side by side: how many, and the lines that they need and could well use."""

    panels: int
    least: int
    want: int
    sick: bool
    title: str = ""


def stretches(reports: Sequence[RunReport]) -> int:
    """Return how many stretches of runs of one size follow each other: each begins a row."""
    return sum(1 for _ in groupby(reports, needs_room))


def tiling(reports: Sequence[RunReport], groups: Groups, width: int, height: int) -> Tiling | None:
    """Return where the panels of all runs stand in a space, ``None`` if they do not fit.

    Sick ones are wide where they have what they could use then, else as many stand side by side
    as can.
    """
    across = _side_by_side(width, NARROWEST)
    if not reports or not across or -(-len(reports) // across) * LEAST_WELL > height:
        return None
    shapes = [list(_rows(reports, groups, width, wide)) for wide in (WIDE, NARROWEST)]
    fit = [each for each in shapes if sum(row.least + bool(row.title) for row in each) <= height]
    roomy = [each for each in fit if sum(row.want + bool(row.title) for row in each) <= height]
    shape = next(iter([*roomy, *fit[::-1]]), None)
    return None if shape is None else _placed(shape, width, height)


def _side_by_side(width: int, least: int) -> int:
    """Return how many panels of at least so many cells fit beside each other, gaps between."""
    return (width + GAP) // (least + GAP)


def _rows(reports: Sequence[RunReport], groups: Groups, width: int, wide: int) -> Iterator[_Row]:
    """Yield the rows: runs that follow each other and are sized alike share one."""
    begin = 0
    for words, count in groups or [("", len(reports))]:
        title = words
        for sick, found in groupby(reports[begin : begin + count], needs_room):
            runs = list(found)
            most = max(1, _side_by_side(width, wide if sick else NARROWEST))
            across = -(-len(runs) // -(-len(runs) // most))
            for at in range(0, len(runs), across):
                row = runs[at : at + across]
                least = max(map(_least, row))
                yield _Row(len(row), least, max(least, *map(_want, row)), sick, title)
                title = ""
        begin += count


def _least(report: RunReport) -> int:
    if needs_room(report):
        return LEAST_SICK
    return LEAST_WELL + (2 if report.alerts else 1 if report.verdict.value == "finished" else 0)


def _want(report: RunReport) -> int:
    """Return the lines in which all that is wrong stands, with a curve and the log."""
    if not needs_room(report):
        return _least(report) + 3
    alert = report.alerts[0] if report.alerts else None
    proof = 0 if alert is None else min(4, len(alert.evidence))
    return LEAST_SICK + proof + min(3, max(0, len(report.alerts) - 1)) + 4


def _placed(rows: Sequence[_Row], width: int, height: int) -> Tiling:
    """Give every row its lines, and every panel its cells; what is left is shared out."""
    heights = _heights(rows, height - sum(bool(row.title) for row in rows))
    tiles: list[Tile] = []
    titles: list[Title] = []
    y = 0
    for each, high in zip(rows, heights, strict=True):
        if each.title:
            titles.append(Title(y, each.title))
            y += 1
        room = width - GAP * (each.panels - 1)
        ends = [room * at // each.panels for at in range(each.panels + 1)]
        tiles += [
            Tile(ends[at] + GAP * at, y, ends[at + 1] - ends[at], high) for at in range(each.panels)
        ]
        y += high
    return Tiling(tuple(tiles), tuple(titles))


def _heights(rows: Sequence[_Row], height: int) -> list[int]:
    """Return each row's lines: first what it needs, then what it wants, then the rest is shared.

    Of what is left rows of sick runs get two lines where healthy ones get one.
    """
    heights = [row.least for row in rows]
    left = height - sum(heights)
    while left > 0:
        wanting = [at for at, row in enumerate(rows) if heights[at] < row.want]
        turns = [at for at, row in enumerate(rows) for _ in range(2 if row.sick else 1)]
        for at in (wanting or turns)[:left]:
            heights[at] += 1
            left -= 1
    return heights

"""Where each run's panel stands: sick runs wide and high, healthy ones a few lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from cockpit.model.report import RunReport
from widgets.painting.panel import LOG, needs_room

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


def tiling(reports: Sequence[RunReport], groups: Groups, width: int, height: int) -> Tiling | None:
    """Return where the panels of all runs stand in a space, ``None`` if they do not fit.

    Sick ones are wide where they have what they could use then, else as many stand side by side
    as can.
    """
    across = width // NARROWEST
    if not reports or not across or -(-len(reports) // across) * LEAST_WELL > height:
        return None
    shapes = [list(_rows(reports, groups, width, wide)) for wide in (WIDE, NARROWEST)]
    fit = [rows for rows in shapes if _sum(row.least for row in rows) + _titles(rows) <= height]
    roomy = [rows for rows in fit if _sum(row.want for row in rows) + _titles(rows) <= height]
    rows = next(iter([*roomy, *fit[::-1]]), None)
    return None if rows is None else _placed(rows, width, height)


def _sum(counts: Iterator[int]) -> int:
    return sum(counts)


def _titles(rows: Sequence[_Row]) -> int:
    return sum(bool(row.title) for row in rows)


def _rows(reports: Sequence[RunReport], groups: Groups, width: int, wide: int) -> Iterator[_Row]:
    """Yield the rows: runs that follow each other and are sized alike share one."""
    begin = 0
    for words, count in groups or [("", len(reports))]:
        title = words
        for sick, found in groupby(reports[begin : begin + count], needs_room):
            runs = list(found)
            most = max(1, width // (wide if sick else NARROWEST))
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
    return LEAST_WELL + (2 if report.alerts else 1 if _has_next(report) else 0)


def _has_next(report: RunReport) -> bool:
    return bool(report.alerts) or report.verdict.value == "finished"


def _want(report: RunReport) -> int:
    """Return the lines in which all that is wrong stands, with a curve and the log."""
    if not needs_room(report):
        return _least(report) + 3
    alert = report.alerts[0] if report.alerts else None
    proof = 0 if alert is None else min(4, len(alert.evidence))
    return LEAST_SICK + proof + min(3, max(0, len(report.alerts) - 1)) + 4


def _placed(rows: Sequence[_Row], width: int, height: int) -> Tiling:
    """Give every row its lines, and every panel its cells; what is left is shared out."""
    heights = _heights(rows, height - _titles(rows))
    tiles: list[Tile] = []
    titles: list[Title] = []
    y = 0
    for row, high in zip(rows, heights, strict=True):
        if row.title:
            titles.append(Title(y, row.title))
            y += 1
        room = width - GAP * (row.panels - 1)
        ends = [room * at // row.panels for at in range(row.panels + 1)]
        tiles += [
            Tile(ends[at] + GAP * at, y, ends[at + 1] - ends[at], high) for at in range(row.panels)
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

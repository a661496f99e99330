"""One line about a run: its facts in a table, each in the longest words that have room.

The run page's head, the card and the row of the list take their facts from it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.model.wording import glyph
from widgets.painting import facts, rows
from widgets.painting.line import DIM, EMPTY, STRONG, cut, fit, row, text
from widgets.painting.series import one_row


class Words(NamedTuple):
    """The cells that a fact can take, none where there is nothing to say, and how it reads then."""

    sizes: Sequence[int]
    within: Callable[[int], Content]


def _words(*forms: Content) -> Words:
    """Return a fact that reads in one of these forms, the longest first."""
    return Words([form.cell_length for form in forms if form.plain], partial(longest, forms))


def longest(forms: Sequence[Content], cells: int) -> Content:
    """Return the first form that fits, else what fits of the last."""
    fits = (form for form in forms if form.cell_length <= cells)
    return next(fits, cut(forms[-1], cells) if forms else EMPTY)


class Fact(NamedTuple):
    """One fact: how early it gets a place (0 first), its words, and what its column needs."""

    rank: int
    words: Callable[[RunReport, float], Words]
    titles: tuple[str, ...] = ()
    """The heading of its column, the longest form first."""
    cells: Sequence[int] = ()
    """The cells that its column can take, if not as many as the words of all runs."""
    at_right: bool = False
    label: str = ""
    """What stands before it on a line that has no heading above."""


def _name(report: RunReport, now: float) -> Words:
    """Return the name; a long one is cut where other facts need the room."""
    name = text((report.name, STRONG))
    least = min(NAME, name.cell_length)
    return Words(range(least, name.cell_length + 1), partial(longest, [name]))


def _verdict(report: RunReport, now: float) -> Words:
    mark, style = facts.verdict_mark(report)
    return _words(text((f"{mark} {facts.verdict_word(report)}", style)))


def _phase(report: RunReport, now: float) -> Words:
    words = facts.phase_words(report, now), facts.brief_phase(report, now)
    return _words(*(text((each, facts.phase_style(report, now))) for each in words))


def _source(report: RunReport, now: float) -> Words:
    """Return where the step is from, where that is news; that no source has one."""
    missing = report.progress.step is None and not facts.unasked(report)
    return _words(text(("no step seen", DIM)) if missing else rows.step_source(report))


def _rate(report: RunReport, now: float) -> Words:
    if facts.is_over(report):
        return _words()
    return _words(rows.throughput(report, now), rows.throughput(report, now, alone=True))


def _checkpoints(report: RunReport, now: float) -> Words:
    if not report.facets.checkpoints.configured:
        return _words()
    items = rows.checkpoints(report, now)
    return _words(*(text((" · ", DIM)).join(items[:most]) for most in range(len(items), 0, -1)))


def _records(report: RunReport, now: float) -> Words:
    """Return that records stay on this machine, where commits wait that others wrote."""
    records = report.facets.records.value
    held = records is not None and records.pushed is False and records.held is not None
    return _words(text(("records not pushed", "$attention") if held else ""))


def _job(report: RunReport, now: float) -> Words:
    spec, job = report.spec.job, report.facets.job.value
    if spec is None:
        return _words()
    return _words(text((f"{spec.kind} ", DIM), (job.id if job is not None else spec.id) or "?"))


def _tracker(report: RunReport, now: float) -> Words:
    """Return the W&B identity, and whether it is the recorded one."""
    spec, found = report.spec.wandb, report.facets.tracker.value
    if spec is None or found is None or found.id is None:
        return _words()
    place = "/".join(part for part in (found.entity, found.project, found.id) if part)
    same = spec.id is None or spec.id == found.id
    verdict = (f" {glyph('complete')} same run", "$well") if spec.id and same else ""
    other = "" if same else (f" {glyph('rejected')} not {spec.id}", "$critical")
    return _words(*(text(("W&B ", DIM), each, verdict, other) for each in (place, found.id)))


def _owner(report: RunReport, now: float) -> Words:
    """Return who owns the run, and whether the run file names somebody else."""
    who, owner = report.spec.dri, report.owner
    if not who:
        return _words()
    differs = (" (the run file says otherwise)", "$attention") if owner and owner.differs else ""
    return _words(text(("owner ", DIM), who, differs))


NAME: Final = 20
"""Cells that a name has however narrow the line is."""
CURVES: Final = range(8, 41)
"""The cells that a curve among other facts can take."""
MARGIN: Final = 3
"""Cells of a row before its columns."""
FACTS: Final = {
    "name": Fact(0, _name, ("run",)),
    "verdict": Fact(1, _verdict),
    "phase": Fact(2, _phase, ("job",)),
    "step": Fact(
        3,
        lambda report, now: _words(rows.progress(report), rows.progress(report, short=True)),
        ("step",),
        at_right=True,
    ),
    "loss": Fact(
        4,
        lambda report, now: _words(text(("loss ", DIM), rows.loss(report, now))),
        ("loss",),
    ),
    "eta": Fact(
        5,
        lambda report, now: _words(rows.time_left(report), rows.time_left(report, short=True)),
        ("left",),
        at_right=True,
    ),
    "share": Fact(6, lambda report, now: _words(text(rows.percent(report)))),
    "curve": Fact(
        7,
        lambda report, now: Words(CURVES, partial(one_row, report)),
        ("over all steps", "curve"),
        cells=CURVES,
    ),
    "source": Fact(8, _source),
    "rate": Fact(9, _rate, ("rate",), cells=(22,), label="rate "),
    "checkpoints": Fact(10, _checkpoints, ("checkpoints",), cells=(34,), label="ckpt "),
    "records": Fact(11, _records),
    "owner": Fact(12, _owner),
    "job": Fact(13, _job),
    "tracker": Fact(14, _tracker),
}
"""What can be said of a run on one line."""


def fitted_cells(
    names: Sequence[str], sizes: Sequence[Sequence[int]], width: int, gap: int
) -> list[int]:
    """Return the cells of each fact, of the ``sizes`` that it can have; 0 where it has no room.

    By rank each gets its least while that has room, then each what it can use of the rest.
    """
    cells, left = [0] * len(names), width + gap
    order = sorted(range(len(names)), key=lambda at: FACTS[names[at]].rank)
    for at in order:
        least = min(sizes[at], default=0)
        if least and (least + gap <= left or left == width + gap):
            cells[at], left = least, left - least - gap
    for at in order:
        fitting = (each for each in sizes[at] if each <= cells[at] + left)
        most = max(fitting, default=cells[at]) if cells[at] else 0
        cells[at], left = most, left - most + cells[at]
    return cells


def run_line(
    report: RunReport,
    now: float,
    width: int,
    names: Sequence[str],
    right: Sequence[str] = (),
    gap: int = 3,
) -> Content:
    """Return a line of facts, those of ``right`` at its right edge."""
    every = (*names, *right)
    found = [FACTS[name].words(report, now) for name in every]
    labels = [len(FACTS[name].label) for name in every]
    sizes = [
        [each + more for each in words.sizes] for words, more in zip(found, labels, strict=True)
    ]
    cells = fitted_cells(every, sizes, width, gap)
    shown = {
        name: text((FACTS[name].label, DIM), words.within(wide - more))
        for name, words, wide, more in zip(every, found, cells, labels, strict=True)
        if wide
    }
    left, aside = (
        Content(" " * gap).join([shown[name] for name in side if name in shown])
        for side in (names, right)
    )
    return row(left, aside, width, gap)


COLUMNS: Final = ("name", "phase", "step", "eta", "rate", "loss", "curve", "checkpoints")
"""The facts of a row of the list."""


class ListColumns(NamedTuple):
    """The cells of each column, the same in all rows: figures stand below each other."""

    gap: int
    cells: tuple[int, ...]

    def filled(self, words: Callable[[str, int], Content]) -> Content:
        """Return a row in which ``words`` of a fact stand in its cells."""
        return Content(" " * self.gap).join(
            row(EMPTY, words(name, wide), wide, gap=0)
            if FACTS[name].at_right
            else fit(words(name, wide), wide)
            for name, wide in zip(COLUMNS, self.cells, strict=True)
            if wide
        )


def columns(reports: Sequence[RunReport], now: float, width: int) -> ListColumns:
    """Return the columns for these runs in ``width`` cells; what does not fit is left out."""
    room = width - MARGIN
    sizes = [FACTS[name].cells or _widest(name, reports, now) for name in COLUMNS]
    sizes[0] = [each for each in sizes[0] if each <= max(NAME, width // 4)]
    found = [ListColumns(gap, tuple(fitted_cells(COLUMNS, sizes, room, gap))) for gap in (2, 1)]
    return next((each for each in found if each.cells[COLUMNS.index("curve")]), found[-1])


def _widest(name: str, reports: Sequence[RunReport], now: float) -> list[int]:
    """Return what a fact of all these runs takes in their longest words, then in shorter ones."""
    sizes = [found for each in reports if (found := FACTS[name].words(each, now).sizes)]
    levels = max(map(len, sizes), default=0)
    return [max(each[min(at, len(each) - 1)] for each in sizes) for at in range(levels)]


def paint_columns(report: RunReport, now: float, shared: ListColumns) -> Content:
    """Return a run's row, each fact in its column."""
    return shared.filled(lambda name, wide: FACTS[name].words(report, now).within(wide))


def paint_heading(shared: ListColumns) -> Content:
    """Return the line above the rows, a word over each column."""
    return shared.filled(
        lambda name, wide: longest([text((each, DIM)) for each in FACTS[name].titles], wide)
    )

"""Enlarged figures, and goodput."""

from __future__ import annotations

from typing import Final, NamedTuple

from textual.content import Content
from textual.renderables.digits import DIGITS, DIGITS3X3_BOLD

from cockpit.model.cost import burning, spending
from cockpit.model.goodput import Goodput, headline, losses, parts
from cockpit.model.report import RunReport, loss_at, present_loss, present_tracker
from cockpit.model.wording import ago, day_time, eta, number, rate, share, steps
from widgets.painting import facts, rows
from widgets.painting.line import DIM, EMPTY, STRONG, cut, in_rows, text, wrapped

ROWS: Final = 3
"""Rows of a figure."""
HEIGHT: Final = ROWS + 3
"""Rows of the band: what each figure is, the figure, what belongs to it, a blank."""
LEAST: Final = 9
"""Columns of a figure at least."""
NAME: Final = 28
"""Columns that a run's name may take."""
GAP: Final = 5
_ASCII: Final = {
    "0": (" _ ", "| |", "|_|"), "1": ("   ", "  |", "  |"), "2": (" _ ", " _|", "|_ "),
    "3": (" _ ", " _|", " _|"), "4": ("   ", "|_|", "  |"), "5": (" _ ", "|_ ", " _|"),
    "6": (" _ ", "|_ ", "|_|"), "7": (" _ ", "  |", "  |"), "8": (" _ ", "|_|", "|_|"),
    "9": (" _ ", "|_|", " _|"), "-": ("   ", "---", "   "),
}  # fmt: skip
_BOX: Final = {
    digit: tuple(row.ljust(3) for row in DIGITS3X3_BOLD[3 * at : 3 * at + 3])
    for at, digit in enumerate(DIGITS)
    if digit in "0123456789-"
}


class Figure(NamedTuple):
    """One figure: what it is, how it reads, what belongs to it (unit, age, or why unknown)."""

    name: str
    words: str
    style: str
    under: Content


def paint_big(report: RunReport, now: float, width: int, *, plain: bool) -> list[Content]:
    """Return the band: the verdict, the step, the loss, and what else there is room for.

    ``plain``: in letters that every terminal has.
    """
    # The verdict's word on a field of its colour, and the phase below
    mark, style = facts.verdict_mark(report)
    word = f"  {mark} {facts.verdict_word(report)}  "
    wide = max(len(word), min(NAME, Content(report.name).cell_length))
    field = [text((each.center(wide), f"bold {style} reverse")) for each in ("", word, "")]
    columns = [[_padded(each, wide) for each in (text((report.name, STRONG)), *field, EMPTY)]]
    for figure in _figures(report, now):
        column = _column(figure, plain=plain)
        taken = sum(each[0].cell_length + GAP for each in columns)
        if taken + column[0].cell_length + 2 <= width:
            columns.append(column)
    gap = " " * GAP
    return [cut(text("  ", Content(gap).join(row)), width) for row in zip(*columns, strict=True)]


def enlarged(words: str, *, plain: bool) -> tuple[str, ...]:
    """Return words three rows high, as far as they are digits; other letters stand at the foot."""
    font = _ASCII if plain else _BOX
    blank = (" ", " ")
    parts = [font.get(letter, (*blank, letter)) for letter in words.replace("−", "-")]
    return tuple("".join(part[at] for part in parts) for at in range(ROWS))


def _column(figure: Figure, *, plain: bool) -> list[Content]:
    """Return a figure's rows, all of one width; what is no number stands in its middle row."""
    if any(letter.isdigit() for letter in figure.words):
        big = [text((row, figure.style)) for row in enlarged(figure.words, plain=plain)]
    else:
        big = [EMPTY, text((figure.words, f"bold {figure.style} reverse")), EMPTY]
    lines = [text((figure.name, DIM)), *big, figure.under]
    width = max(LEAST, *(each.cell_length for each in lines[:-1]))
    width = max(width, min(lines[-1].cell_length, width + GAP + LEAST))
    return [_padded(cut(each, width), width) for each in lines]


def _padded(line: Content, width: int) -> Content:
    return cut(line, width).pad_right(max(0, width - line.cell_length))


def _figures(report: RunReport, now: float) -> list[Figure]:
    found = report.progress
    final = "unknown" if found.final_step is None else steps(found.final_step)
    share = rows.percent(report)
    under = text((f"of {final}", DIM), f" · {share}" if share else "")
    known = found.step is not None
    step = (rows.step_done(report), STRONG) if known else (" unknown ", "$unknown")
    figures = [Figure("step", *step, under), _loss(report, now)]
    if not facts.is_over(report):
        figures += _throughput(report, now)
        if found.eta_s is not None:
            figures.append(Figure("time left", eta(found.eta_s), STRONG, EMPTY))
    return figures


def _loss(report: RunReport, now: float) -> Figure:
    source, value = present_loss(report)
    facet = report.facets.tracker if source == "tracker" else report.facets.log
    if value is None:
        return Figure("loss", " unknown ", "$unknown", text((_why_no_loss(report), "$unknown")))
    at = loss_at(report)
    under = text(("age unknown", "$unknown")) if at is None else text((ago(now - at), DIM))
    if not facts.finite(value):
        return Figure("loss", f" {number(value)} ", "$critical", under)
    stale = facts.freshness_of(facet, report, now) is facts.Freshness.STALE
    return Figure("loss", number(value), DIM if stale else STRONG, under)


def _why_no_loss(report: RunReport) -> str:
    """Return why none is known: of a log's rows only those of its new lines are kept, if any."""
    tracker, log = report.facets.tracker, report.facets.log
    if tracker.value is not None and present_tracker(report) is None:
        return "none of this job seen"
    asked = tracker if tracker.configured else log
    if not asked.known:
        return facts.reason(asked)
    return "none seen yet" if asked is tracker else "none known from the log"


def _throughput(report: RunReport, now: float) -> list[Figure]:
    found = present_tracker(report)
    if found is None or found.throughput is None:
        return []
    words, _, unit = rate(found.throughput, found.throughput_unit).partition(" ")
    against, style = facts.pace(report)
    under = EMPTY if against == "?" else text((against, style), (" of its baseline", DIM))
    stale = facts.freshness_of(report.facets.tracker, report, now) is facts.Freshness.STALE
    return [Figure(unit or "throughput", words, DIM if stale else STRONG, under)]


BLOCKS: Final = {
    "productive_s": ("█", "$spark"), "rework_s": ("▅", "$attention"),
    "spoilt_s": ("▆", "$critical"), "stalled_s": ("▄", "$attention"), "starting_s": ("▃", DIM),
    "waiting_s": ("▂", DIM), "down_s": ("▁", "$critical"), "unwatched_s": ("?", "$unknown"),
}  # fmt: skip
"""By part: a block, lower the less it helped, and its style."""


def account_of(report: RunReport) -> Goodput | None:
    """Return a run's account; ``None`` before all is read: steps unread would count as lost."""
    return None if report.not_read_yet is not None else report.goodput


def paint_short(report: RunReport, room: int) -> Content:
    """Return ``goodput 92.3 %``; ``goodput 92 %`` in less room, and nothing in too little."""
    found = account_of(report)
    if found is None or found.share is None:
        return text("")
    said = share(found.share)
    whole = f"{said.partition('.')[0]} %"
    forms = [text(("goodput ", DIM), each) for each in (f"{said} ", said, whole)]
    return next((form for form in forms if form.cell_length <= room), text(""))


def paint_goodput(report: RunReport, width: int) -> list[Content]:
    """Return the bar with what its parts are, and what was lost; why there is none, else."""
    found = account_of(report)
    if found is None:
        return wrapped(text((report.not_read_yet or "no step known yet", DIM)), width, 2)
    return [
        paint_bar(found, width),
        *in_rows((text(BLOCKS[name], " ", words) for name, words, _ in parts(found)), width),
        *wrapped(text((losses(found), DIM)), width, 2),
        *paint_cost(report, width, 3),
    ]


def paint_cost(report: RunReport, width: int, most: int = 2) -> list[Content]:
    """Return what burns now, and what a run has cost; nothing without a price."""
    found = None if report.not_read_yet is not None else report.cost
    if found is None:
        return []
    since = (
        None if found.burning_since is None else day_time(found.burning_since, report.checked_at)
    )
    parts = [text((each, "$attention")) for each in burning(found, since or "")]
    parts += [text((each, DIM)) for each in spending(found)]
    return wrapped(text((" · ", DIM)).join(parts), width, most)


def paint_account(report: RunReport, width: int) -> list[Content]:
    """Return the account in words."""
    found = account_of(report)
    words = "" if found is None else headline(found, day_time(found.since, report.checked_at))
    return wrapped(text((words, DIM)), width, 2)


def paint_bar(found: Goodput, width: int) -> Content:
    """Return what the time went to, to scale; what there is of has at least one cell.

    By the largest remainder (Hamilton), so that the cells add up to the width.
    """
    shares = [(name, seconds) for name, _, seconds in parts(found)]
    if not shares or width < len(shares):
        return text("")
    whole = sum(seconds for _, seconds in shares)
    exact = [seconds / whole * (width - len(shares)) for _, seconds in shares]
    cells = [int(each) for each in exact]
    order = sorted(range(len(exact)), key=lambda at: cells[at] - exact[at])
    for at in order[: width - len(shares) - sum(cells)]:
        cells[at] += 1
    drawn = (
        text((BLOCKS[name][0] * (count + 1), BLOCKS[name][1]))
        for (name, _), count in zip(shares, cells, strict=True)
    )
    return text(*drawn)

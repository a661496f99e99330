"""A run's goodput as it is painted: one figure, or a bar of what the time went to. Pure."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.goodput import Goodput
from cockpit.model.goodput_words import headline, losses, parts
from cockpit.model.report import RunReport
from cockpit.model.wording import day_time, share
from widgets.painting.line import DIM, cut, text, wrapped

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
        *_packed([text(BLOCKS[name], " ", words) for name, words, _ in parts(found)], width),
        *wrapped(text((losses(found), DIM)), width, 2),
    ]


def _packed(items: list[Content], width: int) -> list[Content]:
    """Return the items over as few lines as hold them whole."""
    lines: list[Content] = []
    for item in items:
        if lines and lines[-1].cell_length + 2 + item.cell_length <= width:
            lines[-1] = text(lines[-1], "  ", item)
        else:
            lines.append(cut(item, width))
    return lines


def paint_line(report: RunReport, width: int) -> Content:
    """Return the account in one line."""
    found = account_of(report)
    if found is None:
        return text("")
    words = headline(found, day_time(found.since, report.checked_at))
    return cut(text((words, DIM)), width)


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

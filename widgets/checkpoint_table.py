"""A run's checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from textual.content import Content

from cockpit.model.observed import Checkpoint, CheckpointsValue
from cockpit.model.picking import named as called
from cockpit.model.report import RunReport
from cockpit.model.wording import age, glyph, size, steps
from widgets.base.scrolled import ReportView
from widgets.painting import facts, rows
from widgets.painting.facts import Look, look
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, cut, text, whole, within, wrapped

PROSE: Final = 14
ROOM: Final = 8
NARROW: Final = 46
"""Cells below which a checkpoint's figures stand in no columns: its state and age come first."""


class CheckpointTable(ReportView):
    """All checkpoints, newest first; ``▸`` is the one that a relaunch takes."""

    HEADING = "checkpoints"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the table."""
        return paint_checkpoints(report, self.now, width)

    def note(self) -> Content:
        """Return how many are whole and how much they take."""
        found = self.report.facets.checkpoints.value if self.report is not None else None
        if found is None or not found.items:
            return EMPTY
        complete = sum(item.state.value == "complete" for item in found.items)
        if self.size.width < NARROW:
            return text((f"{complete} of {len(found.items)}", DIM))
        total = sum(item.size or 0 for item in found.items)
        suspect = sum(item.complete and item.suspect is not None for item in found.items)
        doubt = f" · {suspect} suspect" if suspect else ""
        left = f", {found.unjudged:,} not judged yet" if found.unjudged else ""
        counted = f"{complete} of {len(found.items)} complete{left}"
        return text((counted, DIM), (doubt, "$attention"), (f" · {size(total)}", DIM))

    def place(self, lines: int) -> str:
        """Return which checkpoint the cursor is at: remarks above the table are none."""
        found = self.report.facets.checkpoints.value if self.report is not None else None
        items = len(found.items) if found is not None else 0
        at = self.cursor - (lines - items) + 1
        return f"{at:,} of {items:,}" if at > 0 else f"{items:,} in all"


def paint_checkpoints(report: RunReport, now: float, width: int) -> list[Content]:
    """Return the table, or why there is none."""
    facet = report.facets.checkpoints
    found = facet.value
    if found is None:
        return wrapped(rows.unknown(facet), width, 4)
    lines = [_stale(report, now), *_warnings(found, width), *_notes(found, width)]
    lines = [line for line in lines if line.plain]
    if not found.items and not found.unlisted:
        return within([*lines, text(("no checkpoint yet", DIM))], width)
    widest = max((len(facts.step_words(item)) for item in found.items), default=0)
    items = [_item(each, found, widest, now, width) for each in reversed(found.items)]
    return within([*lines, *items], width)


def _stale(report: RunReport, now: float) -> Content:
    facet = report.facets.checkpoints
    if look(facet, report, now) is not Look.STALE:
        return EMPTY
    return text(rows.stale(age(facet.age(now))), ("  ", DIM), (facts.reason(facet), DIM))


def _warnings(found: CheckpointsValue, width: int) -> list[Content]:
    """Say it where the trainer itself would load another one than a relaunch should."""
    ours, its = found.relaunch_from, found.trainer_would_load
    whole = [item for item in found.items if item.complete]
    if ours is None and whole and not found.unlisted:
        said = f"{glyph('warning')} every complete one is suspect: a relaunch takes none by itself"
        return wrapped(text((said, "$attention")), width, 2)
    if its is None or (ours is not None and ours.path == its.path):
        return []
    taken = "" if ours is None else f"a relaunch takes {called(ours)}, "
    said = f"{glyph('warning')} {taken}the trainer would load {called(its)} instead: "
    line = text((said, "$attention"), its.why)
    return wrapped(line, width, 2)


def _notes(found: CheckpointsValue, width: int) -> Iterator[Content]:
    """Yield what else there is to say of the roots: unknown layouts, pointers to nothing."""
    for note in found.notes:
        yield from wrapped(text((f"{glyph('warning')} {note}", "$attention")), width, 2)


def _item(
    item: Checkpoint, found: CheckpointsValue, widest: int, now: float, width: int
) -> Content:
    taken = found.relaunch_from is not None and found.relaunch_from.path == item.path
    style = facts.item_style(item)
    word = facts.item_word(item)
    kind = (
        {True: "perm", False: "temp"}.get(item.permanent, "") if item.permanent is not None else ""
    )
    since = item.saved_at if item.saved_at is not None else item.touched_at
    old = age(None if since is None else now - since)
    head = text(
        (f"{glyph('pick')} " if taken else "  ", ACCENT),
        (f"{facts.step_words(item):>{widest}}", STRONG if taken else ""),
        "  ",
    )
    if width < NARROW:
        state = text((f"{glyph(facts.item_state(item))} {word}", style))
        size_of = text((size(item.size), DIM))
        told = [state, text(old), size_of, text((kind, DIM))]
        return cut(text(head, whole(told, width - head.cell_length)), width)
    figures = text(
        head,
        (f"{glyph(facts.item_state(item))} {word:<10}", style),
        (f"{kind:<5}", DIM),
        f"{size(item.size):>9}",
        f"{old:>8}",
    )
    room = width - figures.cell_length - 2
    remarks = whole(_remarks(item, taken), room, prose=PROSE) if room >= ROOM else ""
    return cut(text(figures, "  ", remarks), width)


def _remarks(item: Checkpoint, taken: bool) -> list[Content]:
    parts = [text(("relaunch", ACCENT))] if taken else []
    parts += [text((item.suspect, "$attention"))] if item.suspect else []
    parts += [text((f"kept: {why}", DIM)) for why in item.protected]
    parts += [text((item.note, DIM))] if item.note else []
    if item.step is not None and item.name_step is not None and item.step != item.name_step:
        parts.append(text((f"named {steps(item.name_step)}", "$attention")))
    return parts

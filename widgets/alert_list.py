"""Lists of alerts and of what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.alert import Alert
from cockpit.model.goodput import losses
from cockpit.model.history import NEXT_KIND, Happening, Kind, Timeline
from cockpit.model.logtext import Bookmark
from cockpit.model.report import RunReport
from cockpit.model.wording import SURE_WORD, age, day_of, day_time, glyph, steps
from widgets.painting import facts, rows
from widgets.painting.big import account_of, paint_account, paint_cost
from widgets.painting.journal import paint_happening, when_width
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    Once,
    cut,
    cut_start,
    placed,
    row,
    text,
    within,
    wrapped,
)
from widgets.painting.logline import dressed
from widgets.painting.logline import paint_line as paint_log
from widgets.scrolled import ReportView, Scrolled


class HappeningLines:
    """The lines of a timeline, painted once for as long as they read the same."""

    def __init__(self) -> None:
        self._lines = Once[list[Content]]()

    def painted(
        self, found: Timeline, kind: Kind | None, now: float, width: int
    ) -> tuple[Sequence[Happening], list[Content]]:
        """Return the happenings of a kind (``None``: all), and each one's line."""
        listed = found.of_kind(kind)

        def paint() -> list[Content]:
            when, named = when_width(listed, now), kind is None
            return [paint_happening(each, now, width, when, named=named) for each in listed]

        return listed, self._lines.of((found,), (kind, day_of(now), width), paint)


class HappeningList(Scrolled):
    """A timeline; its cursor stands on a happening."""

    POINTS = True

    def __init__(self) -> None:
        super().__init__()
        self.found: Timeline | None = None
        self.kind: Kind | None = None
        self.why = "reading the store"
        self._now = 0.0
        self._painted = HappeningLines()

    @property
    def happenings(self) -> Sequence[Happening]:
        """What is listed, newest first."""
        return () if self.found is None else self.found.of_kind(self.kind)

    @property
    def at_cursor(self) -> Happening | None:
        """What the cursor stands on."""
        listed = self.happenings
        return listed[self.cursor] if self.cursor < len(listed) else None

    def show(self, found: Timeline | None, now: float, why: str = "") -> None:
        """Show a timeline; ``why`` says why there is none."""
        self.found, self._now, self.why = found, now, why or self.why
        self.repaint()

    def only(self) -> None:
        """Show one kind alone: the next that there is something of, in the end all again."""
        self.kind = next_kind(() if self.found is None else self.found.happenings, self.kind)
        self.cursor = 0
        self.repaint()

    def stand_at(self, at: float) -> None:
        """Put the cursor on the newest happening that is not after ``at``."""
        listed = self.happenings
        places = (place for place, each in enumerate(listed) if each.at <= at)
        self.cursor = next(places, max(0, len(listed) - 1))
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the happenings, or why there are none."""
        listed = self.happenings
        if self.found is None or not listed:
            said = self.why if self.found is None else "nothing has happened yet"
            return wrapped(text((said, DIM)), width, 4)
        return self._painted.painted(self.found, self.kind, self._now, width)[1]

    def place(self, lines: int) -> str:
        """Return where the cursor is among what is listed."""
        return f"{self.cursor + 1:,} of {lines:,}"

    def title(self) -> Content:
        """Return what is listed."""
        only = "" if self.kind is None else f" · {self.kind.value} only"
        return text(("timeline", STRONG), (only, DIM))

    def note(self) -> Content:
        """Return what is missing."""
        lacks = () if self.found is None else self.found.lacks
        return text((lacks[0], "$attention")) if lacks else text("")


def next_kind(happenings: Iterable[Happening], kind: Kind | None) -> Kind | None:
    """Return the kind to show after ``kind``, of those that something has happened of."""
    there = {each.kind for each in happenings}
    kind = NEXT_KIND[kind]
    while kind is not None and kind not in there:
        kind = NEXT_KIND[kind]
    return kind


TITLE: Final = 20
"""Cells below which a title is cut rather than broken."""


class AlertList(ReportView):
    """The open alerts."""

    HEADING = "what is wrong"

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the open alerts."""
        return paint_open(report, self.now, width)


class TimelineView(ReportView):
    """The open alerts, then all that happened, newest first."""

    HEADING = "timeline"
    past: Timeline | None = None
    kind: Kind | None = None
    _why = ""
    bookmarks: Sequence[tuple[Bookmark, str]] = ()
    _shown: Sequence[Block] = ()

    def __init__(self) -> None:
        super().__init__()
        self._lines_of = HappeningLines()

    @property
    def at_cursor(self) -> Block:
        """What the cursor stands on: an alert, a bookmark, a happening or none of them."""
        ends = accumulate(len(block.lines) for block in self._shown)
        found = (block for block, end in zip(self._shown, ends, strict=True) if self.cursor < end)
        return next(found, NONE)

    def show_past(self, past: Timeline | None, why: str = "") -> None:
        """Show all that happened to the run; ``why`` says that it cannot be read any more."""
        past = past or self.past
        if (past, why) != (self.past, self._why):
            self.past, self._why = past, why
            self.repaint()

    def only_next(self) -> None:
        """List one kind of happening alone, or all again."""
        self.kind = next_kind(() if self.past is None else self.past.happenings, self.kind)
        self.repaint()

    def show_kept(self, kept: Sequence[tuple[Bookmark, str]]) -> None:
        """Show the bookmarks in the log, and why a line cannot be gone to, where it cannot."""
        if kept != self.bookmarks:
            self.bookmarks = kept
            self.repaint()

    def lines_of(self, report: RunReport, width: int) -> list[Content]:
        """Return the account, the open alerts, the bookmarks, then what happened."""
        account = [*_account(report, width), EMPTY]
        top = [Block(account)] if len(account) > 1 else []
        kept = [Block([EMPTY, text(("bookmarks in the log", STRONG))])] if self.bookmarks else []
        for mark, why in self.bookmarks:  # what they read is asked about as a line of the log is
            reason = text((why, "$attention"), (" · ", DIM)) if why else EMPTY
            line = self.kept(text(("⚑ ", ACCENT), reason, Content(mark.words)))
            kept.append(Block([cut(line, width)], bookmark=mark))
        open_now = [Block([text(("open", STRONG))]), *_open(report, self.now, width)]
        self._shown = [*top, *open_now, *kept, *self._happened(report, width)]
        return within([line for block in self._shown for line in block.lines], width)

    def _happened(self, report: RunReport, width: int) -> list[Block]:
        """Return what happened, newest first, and what is missing of it."""
        title = "all that happened" if self.kind is None else f"{self.kind.value} only"
        head = [Block([EMPTY, text((title, STRONG))])]
        head += [Block(wrapped(text((self._why, "$attention")), width, 2))] if self._why else []
        if self.past is None:
            return head if self._why else [*head, Block([text(("reading the store", DIM))])]
        head += [Block(wrapped(text((each, "$attention")), width, 2)) for each in self.past.lacks]
        known = {each.alert.key: each.alert for each in report.closed}
        known |= {each.key: each for each in report.alerts}
        listed, shown = self._lines_of.painted(self.past, self.kind, self.now, width)
        if not listed:
            return [*head, Block([text(("nothing yet", DIM))])]
        pairs = zip(listed, shown, strict=True)
        return [*head, *(Block([line], known.get(each.key), each.at) for each, line in pairs)]

    def note(self) -> Content:
        """Return how many."""
        if self.report is None:
            return text("")
        only = "" if self.kind is None else f" · {self.kind.value} only"
        events = "" if self.past is None else f" · {len(self.past.of_kind(self.kind)):,} events"
        return text((f"{len(self.report.alerts)} open{events}{only}", DIM))


def _account(report: RunReport, width: int) -> list[Content]:
    """Return the goodput, what was lost, and what is said against the final step."""
    lines, found, account = paint_account(report, width), report.progress, account_of(report)
    if account is not None and (account.restarts.total or account.steps_lost):
        lines += wrapped(text((losses(account), DIM)), width, 2)
    lines += paint_cost(report, width)
    if found.final_step_doubt is not None:
        said = f"final step {steps(found.final_step)} by {found.final_step_source}; but "
        lines += wrapped(text((said, "$attention"), found.final_step_doubt), width, 2)
    return [line for line in lines if line.plain]


class Block(NamedTuple):
    """Lines that belong together, and the alert or the place in the log that they are about."""

    lines: list[Content]
    alert: Alert | None = None
    at: float | None = None
    bookmark: Bookmark | None = None


NONE: Final = Block([])


def paint_open(report: RunReport, now: float, width: int) -> list[Content]:
    """Return the open alerts, worst first, each with its evidence and next action."""
    blocks = _open(report, now, width)
    return within([line for block in blocks for line in block.lines], width)


def _open(report: RunReport, now: float, width: int) -> list[Block]:
    if not report.alerts:
        said = report.verdict_reason or ""
        why = [] if "no open alerts" in said else wrapped(text((said, DIM)), width, 2)
        return [
            Block([text(("no open alerts", DIM)), *why, *wrapped(rows.next_step(report), width, 2)])
        ]
    by_key = {alert.key: alert for alert in report.alerts}
    blocks: list[Block] = []
    for alert in report.alerts:
        if alert.caused_by in by_key:
            continue  # it stands below its cause
        blocks.append(Block([*([EMPTY] if blocks else []), *_alert(alert, now, width)], alert))
        below = (by_key[key] for key in alert.consequences if key in by_key)
        blocks += [Block([_following(each, now, width)], each) for each in below]
    return blocks


def _following(alert: Alert, now: float, width: int) -> Content:
    """Return the line of an alert that only follows from the one above."""
    mark, style = facts.alert_mark(alert)
    taken = text(" ", (rows.acknowledged(alert, now), DIM)) if alert.acknowledged else EMPTY
    head = text(("  follows ", DIM), (f"{mark} ", style), (alert.title, DIM), taken)
    when = text((age(now - alert.since), DIM))
    return row(placed(head, width - when.cell_length - 1), when, width)


def _alert(alert: Alert, now: float, width: int) -> list[Content]:
    mark, style = facts.alert_mark(alert)
    when = text((f"{age(now - alert.since)} · {day_time(alert.since, now)}", DIM))
    head = text((f"{mark} ", style), (alert.title, STRONG))
    below, taken = _evidence(alert, now, width - 2), alert.acknowledged
    if taken is not None:
        until = f", snoozed until {day_time(taken.until, now)}" if taken.until is not None else ""
        why = f": {taken.reason}" if taken.reason else ""
        said = f"acknowledged by {taken.by} {day_time(taken.at, now)}{until}{why}"
        below.append(text((said, DIM)))
    below += _action(alert, width - 2)
    return [*_headed(head, when, width), *(_under(line, width) for line in below)]


def _headed(head: Content, when: Content, width: int) -> list[Content]:
    """Return an alert's title over at most two lines, since when at the end of the first."""
    room = width - when.cell_length - 1
    most = 1 if head.cell_length <= room or room < TITLE else 2
    first, *rest = wrapped(head, room, 2) if most > 1 else [placed(head, room)]
    return [row(first, when, width), *(_under(placed(piece, width - 2), width) for piece in rest)]


def _evidence(alert: Alert, now: float, width: int) -> list[Content]:
    """Return what an alert rests on, each source once, at the right, by its last part."""
    lines, former = list[Content](), ""
    for each in alert.evidence:
        name = each.source.rstrip("/").rpartition("/")[2]
        source = text(("" if name == former else cut_start(name, max(8, width // 3)), DIM))
        former = name
        room = width - source.cell_length - (2 if source.plain else 0)
        words = rows.in_clock_times(each.text, each.source, now)
        said = paint_log(Content(words), dressed(words).day, None)
        first, *rest = wrapped(said, room, 3) or [EMPTY]
        lines += [row(first, source, width, gap=2), *rest]
    return lines


def _action(alert: Alert, width: int) -> list[Content]:
    """Return what to do, and how sure it is that the alert is right, where that fits."""
    act = text((f"{glyph('next')} ", ACCENT), alert.next_action)
    severity = facts.SEVERITY_WORD[alert.severity]
    sure = text((f"{severity} · {SURE_WORD[alert.confidence]}", DIM))
    lines = wrapped(act, width, 3) or [EMPTY]
    if lines[-1].cell_length + sure.cell_length + 2 <= width:
        return [*lines[:-1], row(lines[-1], sure, width, gap=2)]
    return [*lines, row(EMPTY, sure, width)]


def _under(line: Content, width: int) -> Content:
    return text("  ", cut(line, width - 2))

"""The head of the fleet, and the line of keys at the foot of every screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.report import SORTS, RunReport, Verdict, View
from cockpit.model.wording import clock_time, glyph
from widgets.painted import Painted, stands_for
from widgets.painting.facts import VERDICT_STYLE, unread
from widgets.painting.line import ACCENT, DIM, EMPTY, Once, Part, cut, row, text, that_fit, wrapped

WIDE: Final = 100
"""Cells from which the header uses whole words."""

WORDS = {
    Verdict.CRITICAL: "critical",
    Verdict.ATTENTION: "attention",
    Verdict.UNKNOWN: "unknown",
    Verdict.FINISHED: "finished",
    Verdict.HEALTHY: "healthy",
    Verdict.SEALED: "sealed",
}


WELL: Final = (Verdict.HEALTHY, Verdict.FINISHED, Verdict.SEALED)
"""What needs nobody."""


class Watch(NamedTuple):
    """Who sits at this cockpit, and whether it is watching."""

    operator: str = ""
    read_only: bool = False
    stopped: str = ""
    view: View = View.model_construct()


def paint_header(
    reports: Sequence[RunReport], watch: Watch, shown: Sequence[RunReport], width: int
) -> Content:
    """Return the header line; ``shown`` are the runs that the view lets pass."""
    name = [(" cockpit   ", f"bold {ACCENT}")] if width >= WIDE else [" "]
    modes = ("READ-ONLY", "READ-WRITE") if width >= WIDE else ("RO", "RW")
    mode = modes[0] if watch.read_only else modes[1]
    me = text(
        f"{watch.operator}  " if watch.operator else "",
        (mode, "$attention" if watch.read_only else ""),
        " ",
    )
    begin = text(*name)
    view = text(*_view(watch.view, reports, shown, width))
    forms = [text(*parts, "   ", me) for parts in _watching(reports, watch, wide=width >= WIDE)]
    room = width - begin.cell_length - 2
    needed = _needed([*_counts(reports, wide=True), *([view] if view.plain else [])])
    right = next((each for each in forms if needed + each.cell_length <= room), forms[-1])
    left = text(begin, _fitting_counts(reports, view, room - right.cell_length))
    return row(left, right, width, gap=2)


def paint_news(words: str, bad: bool, width: int) -> Content:
    """Return the line of something that was left; of a long one the end stays, with its key."""
    mark, style = (glyph("critical"), "bold $critical") if bad else (glyph("next"), ACCENT)
    said, _, key = words.rpartition(" · ")
    end = text((f" · {key} " if said else "", DIM))
    line = cut(Content(said or words), max(0, width - 3 - end.cell_length))
    return text((f" {mark} ", style), line, end)


def _fitting_counts(reports: Sequence[RunReport], view: Content, room: int) -> Content:
    """Return counts and filter, in words where they fit."""
    view_items = [view] if view.plain else []
    items = [*_counts(reports, wide=True), *view_items]
    if _needed(items) > room:
        runs, *counts = _counts(reports, wide=False)
        items = [*view_items, *([] if " of " in view.plain else [runs]), *counts]
        if not view_items and _needed(items) - len(items) + 1 > room:
            items = counts
    gap = "   " if _needed(items) <= room else "  "
    return that_fit(items, room, gap)


def _needed(items: Sequence[Content]) -> int:
    return sum(each.cell_length + 3 for each in items) - 3


def _counts(reports: Sequence[RunReport], wide: bool) -> list[Content]:
    """Return how many runs are how; on a narrow screen those that need nobody are one number.

    One that nobody has looked at yet is neither well nor sick: those are counted apart, but a sick
    one is sick whatever else of it is to be read.
    """
    found = Counter(each.verdict for each in reports if not unread(each))
    to_read = len(reports) - found.total()
    calm = [verdict for verdict in WELL if found[verdict]]
    words = dict(WORDS)
    if len(calm) > 1 and not wide:
        found[calm[0]], words[calm[0]] = sum(found.pop(verdict) for verdict in calm), "well"
    parts = [text((f"{len(reports)} run{'' if len(reports) == 1 else 's'}", "bold"))]
    for verdict, word in words.items():
        if to_read and verdict is Verdict.UNKNOWN:
            said = "not read yet" if wide else "unread"
            parts.append(text((f"{glyph('stale')} {to_read} {said}", "$unknown")))
        if found[verdict]:
            mark = f"{glyph(verdict.value)} {found[verdict]} {word}"
            parts.append(text((mark, VERDICT_STYLE[verdict])))
    return parts


def _view(
    view: View, reports: Sequence[RunReport], shown: Sequence[RunReport], width: int
) -> list[Part]:
    """Return what the view leaves out, above all runs that need a person, and how it sorts."""
    parts: list[Part] = []
    if view.filter:
        parts.append((f"/{view.filter}", ACCENT))
    if view.filter or len(shown) != len(reports):
        noun = "" if width >= WIDE else " runs"
        parts.append((f"{' ' if parts else ''}{len(shown)} of {len(reports)}{noun}", DIM))
    hidden = _critical(reports) - _critical(shown)
    if hidden > 0:
        parts.append((f" hides {glyph('critical')} {hidden}", VERDICT_STYLE[Verdict.CRITICAL]))
    if width >= WIDE:
        by = [f"sorted by {view.sort}"] if view.sort != SORTS[0] else []
        by += [f"by {'owner' if view.group == 'dri' else view.group}"] if view.group else []
        parts.append((f"{' ' if parts else ''}{', '.join(by)}" if by else "", DIM))
    return parts


def _critical(reports: Sequence[RunReport]) -> int:
    return sum(each.verdict is Verdict.CRITICAL for each in reports)


def _watching(reports: Sequence[RunReport], watch: Watch, wide: bool) -> list[list[Part]]:
    """Return who watches and when next, the fullest form first: where, then who gives way."""
    if watch.stopped:
        said = f"watch: STOPPED {watch.stopped}" if wide else "watch STOPPED"
        return [[(said, "bold $critical")]]
    owners = {each.watched_by for each in reports if each.watched_by is not None}
    who = "this cockpit" if not owners else owners.pop() if len(owners) == 1 else "several"
    read = [each for each in reports if each.not_read_yet is None]
    coming = [each.next_check_at for each in read if each.next_check_at is not None]
    due: list[Part] = [("check ", DIM), clock_time(min(coming)) if coming else "soon"]
    name, _, place = who.partition(" (watch on ")
    host = place.rpartition(", pid ")[0]
    named = dict.fromkeys((f"{name} on {host}" if host else who, name)) if wide else {}
    return [*([("watch: ", DIM), each, (" · ", DIM), *due] for each in named), due]


class FleetHeader(Painted):
    """One line at the top of the fleet, and one more for each thing that was left undone."""

    DEFAULT_CSS = """
    FleetHeader { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._reports: Sequence[RunReport] = ()
        self._state = Watch()
        self._shown: Sequence[RunReport] = ()
        self._news: Sequence[tuple[str, bool]] = ()
        self._head = Once[Content]()
        """The first line: a key that moves the cursor changes nothing of it."""

    def show(
        self,
        reports: Sequence[RunReport],
        watch: Watch,
        shown: Sequence[RunReport],
        news: Sequence[tuple[str, bool]] = (),
    ) -> None:
        """Show the whole fleet's counts; ``shown`` are those that the view lets pass.

        ``news`` is what a former cockpit left, and whether that is bad.
        """
        self._reports, self._state, self._shown = reports, watch, shown
        if len(news) != len(self._news):
            self.styles.height = 1 + len(news)
        self._news = tuple(news)
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the lines."""
        paint = partial(paint_header, self._reports, self._state, self._shown, width)
        about = (self._state, width, len(self._shown))
        head = self._head.of((*self._reports, *self._shown), about, paint)
        return [head, *(paint_news(words, bad, width) for words, bad in self._news)]


Key = tuple[str, str]
KEYS = 24
"""Columns that are left to the keys beside a long notice."""
LAST = 11
"""Columns that are left, for the key to all keys, beside one that has no room otherwise."""
SHARE = 4
"""A longer notice has rows of its own: with the keys' at most one of so many of the screen."""
WAYS = ("palette", "keys")
"""Titles of the keys that lead to all others: in sight whatever else does not fit."""


@lru_cache(maxsize=8)
def paint_keys(keys: tuple[Key, ...], notice: str, width: int) -> Content:
    """Return keys with their titles, as many as fit whole, and a notice at the right."""
    said = text((notice, "$attention")) if notice else EMPTY
    most = _most(width, said.cell_length)
    room = width - 2 - (min(said.cell_length, most) + 3 if notice else 0)
    needed = sum(each.cell_length for each in map(paint_key, keys))
    gap = "   " if needed + 3 * len(keys) <= room + 3 else "  "
    shown = that_fit(map(paint_key, _fitting_keys(keys, room, len(gap))), room, gap)
    return row(text(" ", shown), said.truncate(most, ellipsis=True), width - 1)


@lru_cache(maxsize=8)
def notice_rows(notice: str, width: int, most: int) -> tuple[Content, ...]:
    """Return a notice over at most ``most`` rows; none where it fits beside the keys."""
    said = text((notice, "$attention"))
    fits = said.cell_length <= _most(width, said.cell_length)
    return tuple(text(" ", each) for each in wrapped(said, width - 2, 0 if fits else most))


def paint_key(key: Key) -> Content:
    """Return a key and what it does."""
    return stands_for(key[0], text((key[0], f"bold {ACCENT}"), (f" {key[1]}", DIM)))


def _fitting_keys(keys: Sequence[Key], room: int, gap: int) -> Sequence[Key]:
    """Return the keys that fit, in their order, those that lead to all others before any."""
    chosen, left = list[Key](), room + gap
    ways = [each for each in reversed(keys) if each[1] in WAYS]
    for each in (*ways, *(key for key in keys if key not in ways)):
        needed = paint_key(each).cell_length + gap
        if needed > left and each not in ways:
            break
        if needed <= left:
            chosen.append(each)
            left -= needed
    return [each for each in keys if each in chosen]


def _most(width: int, needed: int) -> int:
    """Return how much of a line a notice may take: it is read now, the keys are known soon."""
    return max(0, width // 2, width - (KEYS if needed <= width - KEYS else LAST))


class KeyLine(Painted):
    """The footer: a line, and above it a notice that needs more than its share of that."""

    DEFAULT_CSS = """
    KeyLine { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._keys: tuple[Key, ...] = ()
        self._notice = ""
        self._rows = 1

    def show(self, keys: Sequence[Key], notice: str = "") -> None:
        """Show keys and, if there is one, a notice."""
        self._keys, self._notice = tuple(keys), notice
        self._take_rows()
        self.repaint()

    def on_resize(self) -> None:
        """Paint for the new size, in the rows that are needed there."""
        super().on_resize()
        self._take_rows()

    def _take_rows(self) -> None:
        """Have as many rows as are needed; another number of them is another layout."""
        rows = 1 + len(self._above(self.size.width))
        if rows != self._rows:
            self._rows = rows
            self.styles.height = rows

    def _above(self, width: int) -> tuple[Content, ...]:
        return notice_rows(self._notice, width, self.app.size.height // SHARE - 1)

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the line, and before it the rows that there are for a long notice."""
        above = self._above(width) if height > 1 else ()
        return [*above, paint_keys(self._keys, "" if above else self._notice, width)]

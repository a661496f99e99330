"""Text within a width: spans, rows with a right part, cutting, wrapping; what gives way first."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from operator import is_not
from typing import Final, Generic, TypeVar

from textual.content import Content

from cockpit.model.base import SafeText
from cockpit.model.late_regex import late_regex
from cockpit.model.wording import glyph

Part = str | tuple[str, str] | Content
T = TypeVar("T")

EMPTY: Final = Content("")
DIM: Final = "$dim"
LINE: Final = "$line"
ACCENT: Final = "$accent"
STRONG: Final = "bold"
HEAVY: Final = 12
"""Cells of a selected panel's top that are heavy: each is written twice at a step."""

_COLOURS: Final[Mapping[str, str]] = {
    name: f"$log-{name}" for name in ("red", "green", "yellow", "blue", "magenta", "cyan")
}


def text(*parts: Part) -> Content:
    """Return parts, each a string, a (string, style) or a Content, as one line."""
    kept = [part for part in parts if _says_something(part)]
    if len(kept) == 1 and isinstance(kept[0], Content):
        return kept[0]
    plain = [part for part in kept if not isinstance(part, Content)]
    return _text(*plain) if len(plain) == len(kept) else Content.assemble(*kept)


@lru_cache(maxsize=1024)
def _text(*parts: str | tuple[str, str]) -> Content:
    """Return what is painted again and again: labels, and what reads as it did before.

    Never of a ``Content``: two of them are equal if their words are, whatever their colours.
    """
    return Content.assemble(*parts)


def _says_something(part: Part) -> bool:
    """Return whether a part has any words; to compare a Content with "" costs far more."""
    if isinstance(part, tuple):
        return part[0] != ""
    return bool(part if isinstance(part, str) else part.plain)


def fit(line: Content, width: int) -> Content:
    """Return ``line`` in exactly ``width`` cells: padded, or cut with ``…``."""
    return line.truncate(max(0, width), ellipsis=True, pad=True)


_PLACE: Final = re.compile(r"[\w.-]+\.\w+:\d+$")


def cut(line: Content, width: int) -> Content:
    """Return ``line`` in at most ``width`` cells."""
    return line.truncate(max(0, width), ellipsis=True)


def prose(line: Content, width: int) -> Content:
    """Return ``line`` in at most ``width`` cells, cut between words, no figure halved."""
    if line.cell_length <= width:
        return line
    short = cut(line, width)
    before = short.plain[:-1].rstrip()
    if line.plain[len(short.plain) - 1 : len(short.plain)].isspace():
        return text(short[: len(before)], ("…", DIM))
    space = before.rfind(" ")
    if space < len(before) * 2 // 3:
        return short
    return text(short[: len(before[:space].rstrip())], ("…", DIM))


def placed(line: Content, width: int) -> Content:
    """Return ``line`` in at most ``width`` cells; a ``file.py:14`` at its end stays whole."""
    found = _PLACE.search(line.plain)
    if line.cell_length <= width or found is None:
        return line
    before = prose(line[: found.start()].rstrip(), width - len(found.group()) - 2)
    begun = before.plain.rstrip("…").strip()
    return text(before, "… " if before.plain == begun else " ", found.group()) if begun else line


def cut_start(words: str, width: int) -> str:
    """Return the end of ``words`` in at most ``width`` cells: of a path the end says most."""
    line = Content(words)
    if line.cell_length <= width:
        return words
    while words and Content(words).cell_length > width - 1:
        words = words[1:]
    return f"…{words}" if width > 0 else ""


def row(left: Content, right: Content, width: int, gap: int = 1) -> Content:
    """Return ``left`` and, at the right edge, ``right``; ``left`` is cut first."""
    right = cut(right, width)
    room = width - right.cell_length
    if not right.plain:
        return fit(left, width)
    return fit(text(fit(left, max(0, room - gap)), " " * min(gap, room), right), width)


def that_fit(
    items: Iterable[Content], width: int, separator: str = " · ", prose: int = 0
) -> Content:
    """Return as many items as fit whole, in order; the first is cut if even it does not fit.

    With ``prose`` the first one that does not fit is cut if that many cells are left for it.
    """
    shown: list[Part] = []
    used = 0
    for item in items:
        extra = len(separator) if shown else 0
        if shown and used + extra + item.cell_length > width:
            if prose and width - used - extra >= prose:
                shown += [(separator, DIM), cut(item, width - used - extra)]
            break
        if shown:
            shown.append((separator, DIM))
        shown.append(item)
        used += extra + item.cell_length
    return cut(text(*shown), width)


def within(lines: Iterable[Content], width: int) -> list[Content]:
    """Return ``lines``, each in at most ``width`` cells."""
    return [cut(line, width) for line in lines]


def in_rows(items: Iterable[Content], width: int, gap: int = 2) -> list[Content]:
    """Return items beside each other, none broken over two rows."""
    rows: list[Content] = []
    for item in items:
        if rows and rows[-1].cell_length + gap + item.cell_length <= width:
            rows[-1] = text(rows[-1], " " * gap, item)
        else:
            rows.append(cut(item, width))
    return rows


def hung(head: Content, pieces: Iterable[Content]) -> list[Content]:
    """Return lines behind a head that stands before the first one."""
    indent = Content(" " * head.cell_length)
    return [text(indent if at else head, piece) for at, piece in enumerate(pieces)]


def wrapped(line: Content, width: int, most: int) -> list[Content]:
    """Return ``line`` over at most ``most`` lines, broken between words; the last may be cut."""
    if width <= 0 or most <= 0 or not line.plain:
        return []
    broken = line.wrap(width)
    if len(broken) <= most:
        return [cut(piece.rstrip(), width) for piece in broken]
    rest = Content(" ").join(broken[most - 1 :])
    return [cut(piece.rstrip(), width) for piece in [*broken[: most - 1], rest]]


def beside(label: str, words: Content, column: int, width: int, most: int) -> list[Content]:
    """Return words over at most ``most`` lines, a label in a ``column`` before the first one."""
    return hung(fit(text((label, DIM)), column), wrapped(words, width - column, most))


def foreign(line: SafeText) -> Content:
    """Return foreign text with its colours as theme variables; never parsed as markup."""
    shown = Content(line.plain)
    for start, end, style in line.spans:
        themed = " ".join(_COLOURS.get(word, word) for word in style.split())
        shown = shown.stylize(themed, start, end)
    return shown


def group_line(words: str, width: int) -> Content:
    """Return a group's title, a rule behind it."""
    line = text(" ", (words, STRONG), " ")
    return cut(text(line, ("─" * max(0, width - line.cell_length), LINE)), width)


def frame(
    body: Iterable[Content],
    width: int,
    height: int,
    title: Content = EMPTY,
    note: Content = EMPTY,
    foot: Content = EMPTY,
    line: str = LINE,
) -> list[Content]:
    """Return ``body`` in a thin rounded frame of exactly ``width`` by ``height`` cells."""
    if width < 8 or height < 3:
        return [fit(piece, width) for piece in list(body)[:height]]
    inner = width - 4
    side = text(("│", line), " "), text(" ", ("│", line))
    lines = [_edge("╭╮", title, note, width, line)]
    lines += [text(side[0], fit(piece, inner), side[1]) for piece in islice(body, height - 2)]
    bare = text(("│", line), " " * (inner + 2), ("│", line))
    lines += [bare] * (height - 1 - len(lines))
    lines.append(_edge("╰╯", EMPTY, foot, width, line))
    return lines


def selected(
    framed: list[Content], width: int, title: Content, note: Content, line: str = LINE
) -> list[Content]:
    """Return a frame whose top begins heavy, behind a pointer: it is seen without any colour.

    Nothing else of it moves: over a thin line each step of the selection is paid by the cell.
    """
    if width < 8 or len(framed) < 3:
        return framed
    return [_edge("┍╮", title, note, width, line, HEAVY), *framed[1:]]


def _edge(
    corners: str, left: Content, right: Content, width: int, line: str, heavy: int = 0
) -> Content:
    """Return a frame's edge with texts set in: ``╭ left ──── right ╮``, its begin ``heavy``."""
    right = cut(right, max(0, width - 6)) if right.plain else right
    end = text(" ", right, " ") if right.plain else EMPTY
    room = width - 2 - end.cell_length
    before = (glyph("pick"), ACCENT) if heavy else " "
    begin = text(before, cut(left, max(0, room - 3)), " ") if left.plain and room > 5 else EMPTY
    rule = room - begin.cell_length
    marked = ("━" * min(heavy, rule), ACCENT)
    corner = (corners[0], ACCENT if heavy else line)
    thin = ("─" * (rule - len(marked[0])), line)
    return text(corner, begin, marked, thin, end, (corners[1], line))


_PATH: Final = late_regex(r"(?<![\w/…])[\w.~…@%+=:-]*(?:/[\w.@%+=:-]*[\w@%+=]){2,}/?")
"""A path or address of at least two parts below something: ``tok/s`` and ``C-01/C-02`` are none."""
_WHOLE: Final = 99
KEPT: Final = (3, 2, 1)
"""How many parts of a path's end stay, the more the better."""
_STAMP: Final = late_regex(
    r"(?:(?P<glog>[IWEF])\d{4}(?:\d{4})? (?P<at>\d\d:\d\d:\d\d)(?:\.\d+)? +\d+ "
    r"|\[?\d{4}-\d\d-\d\d[T ](?P<iso>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ -]*)"
    r"(?=\S)"
)
_UNBROKEN: Final = frozenset("\n\t")
"""What makes a line that is short enough another one when it is wrapped."""
LONGEST: Final = 600
"""Characters of a line whose paths are looked for: a longer one has no end on any screen."""


def shortened(line: Content, parts: int) -> Content:
    """Return ``line`` with each path cut from the left to its last ``parts`` parts."""
    if len(line.plain) > LONGEST:
        return line
    done, at = EMPTY, 0
    for found in _PATH.finditer(line.plain):
        path = found.group().rstrip("/")
        ends = [place for place, letter in enumerate(path) if letter == "/"]
        if len(ends) <= parts or path[: ends[-parts]] in ("", "…"):
            continue
        begin = found.start() + ends[-parts]
        done = text(done, line[at : found.start()], "…")
        at = begin
    return text(done, line[at:]) if at else line


def fitted(line: Content, width: int, most: int) -> list[Content]:
    """Return ``line`` over at most ``most`` lines; its paths give way before its words do."""
    if width <= 0 or most <= 0 or not line.plain:
        return []
    if line.cell_length <= width and _UNBROKEN.isdisjoint(line.plain):
        return [line.rstrip()]  # most are short, and wrapping takes a hundred times as long
    broken: list[Content] = []
    for form in _forms(line):
        broken = list(form.wrap(width))
        if len(broken) <= most:
            return [cut(piece.rstrip(), width) for piece in broken]
    last = Content(" ").join(piece.rstrip() for piece in broken[most - 1 :])
    return [
        *(cut(piece.rstrip(), width) for piece in broken[: most - 1]),
        prose(placed(last, width), width),
    ]


def _forms(line: Content) -> Iterator[Content]:
    """Yield ``line``, then with shorter and shorter paths."""
    return (shortened(line, parts) for parts in (_WHOLE, *KEPT))


def unbroken(line: Content, width: int, most: int) -> list[Content]:
    """Return ``line`` over at most ``most`` lines; a path longer than one keeps its end."""

    def fits(form: Content) -> bool:
        return all(Content(word).cell_length <= width for word in form.plain.split())

    return wrapped(next(filter(fits, _forms(line)), line), width, most)


def lines_of(line: Content, width: int, most: int) -> int:
    """Return over how many lines ``fitted`` would set it."""
    return 1 if line.cell_length <= width else len(fitted(line, width, most))


def one_line(line: Content, width: int, *, indented: bool = False) -> Content:
    """Return ``line`` in at most ``width`` cells: shorter paths first, then cut between words.

    Blanks at its begin go first of all, unless it shall stay ``indented``.
    """
    if line.cell_length <= width:
        return line
    line = line if indented else line[len(line.plain) - len(line.plain.lstrip()) :]
    fits = (form for form in _forms(line) if form.cell_length <= width)
    return next(fits, prose(line, width))


def side_by_side(left: Content, right: Content, width: int, gap: int = 2) -> list[Content]:
    """Return both on one line, ``right`` at its edge, where they fit; else one below the other."""
    if not right.plain or not left.plain:
        return [cut(each, width) for each in (left, right) if each.plain]
    room = width - left.cell_length - right.cell_length
    if room >= gap:
        return [text(left, " " * room, right)]
    return [cut(left, width), cut(right, width)]


def brief(line: Content) -> Content:
    """Return ``line`` with a leading date, thread id and "info" cut; the time of day stays."""
    found = _STAMP.match(line.plain)
    if found is None:
        return line
    level = found["glog"] if found["glog"] not in (None, "I") else ""
    start = " ".join(part for part in (found["at"] or found["iso"], level) if part)
    return Content(f"{start} ") + line[found.end() :]


class Once(Generic[T]):
    """What was made of some objects, for as long as they are still the same ones.

    Of ``most`` such things; beyond that all are forgotten.
    """

    def __init__(self, most: int = 1) -> None:
        self._most = most
        self._made: dict[tuple[object, ...], tuple[tuple[object, ...], T]] = {}

    def of(self, objects: tuple[object, ...], about: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returns, or has returned for these objects and ``about``."""
        key = (about, *map(id, objects))
        kept = self._made.get(key)
        if kept is None or any(map(is_not, kept[0], objects)):
            if len(self._made) >= self._most:
                self._made.clear()
            kept = self._made[key] = objects, make()
        return kept[1]


def chosen_row(line: Content, width: int, chosen: bool) -> Content:
    """Return a row of a list, marked and on the cursor's ground where it is the chosen one."""
    shown = cut(text(("▸ " if chosen else "  ", ACCENT), line), width)
    return shown.truncate(width, pad=True).stylize_before("on $cursor") if chosen else shown

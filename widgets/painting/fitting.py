"""Words in the room there is: what decides (the end of a path, file and line) stays. Pure."""

from __future__ import annotations

from typing import Final

from textual.content import Content

from cockpit.model.late_regex import late_regex
from widgets.painting.line import EMPTY, cut, placed, prose, text, wrapped

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
    for parts in (_WHOLE, *KEPT):
        broken = list(shortened(line, parts).wrap(width))
        if len(broken) <= most:
            return wrapped(shortened(line, parts), width, most)
    last = Content(" ").join(piece.rstrip() for piece in broken[most - 1 :])
    return [
        *(cut(piece.rstrip(), width) for piece in broken[: most - 1]),
        prose(placed(last, width), width),
    ]


def unbroken(line: Content, width: int, most: int) -> list[Content]:
    """Return ``line`` over at most ``most`` lines; a path longer than one keeps its end."""
    forms = (shortened(line, parts) for parts in (_WHOLE, *KEPT))
    fits = (
        form
        for form in forms
        if all(Content(word).cell_length <= width for word in form.plain.split())
    )
    return wrapped(next(fits, line), width, most)


def lines_of(line: Content, width: int, most: int) -> int:
    """Return over how many lines ``fitted`` would set it."""
    return 1 if line.cell_length <= width else len(fitted(line, width, most))


def one_line(line: Content, width: int) -> Content:
    """Return ``line`` in at most ``width`` cells: shorter paths first, then cut between words."""
    if line.cell_length <= width:
        return line
    line = line[len(line.plain) - len(line.plain.lstrip()) :]
    forms = (shortened(line, parts) for parts in (_WHOLE, *KEPT))
    return next((form for form in forms if form.cell_length <= width), prose(line, width))


def beside(left: Content, right: Content, width: int, gap: int = 2) -> list[Content]:
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

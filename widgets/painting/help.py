"""The page of keys: actions first, in as many columns as fit, then codes and signs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.conditions import CONDITIONS, limits
from cockpit.model.run import Thresholds
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, fit, in_rows, text, wrapped

Section = tuple[str, Sequence[tuple[str, str, str]]]
"""A title, and (keys, what it is, what it does or why not now) of each line."""
COLUMN: Final = 48
"""Columns that a section needs."""
GAP: Final = 3
MOST: Final = 4
"""Lines that one text may take."""
NOT_NOW: Final = "▲ "
"""What begins a text that says why something cannot be done now."""
SIGNS: Final = (
    ("■", "$critical", "critical; in a plan: blocks"), ("▲", "$attention", "attention; suspect"),
    ("●", "$well", "healthy"), ("◆", "$well", "finished"), ("?", "$unknown", "unknown, with why"),
    ("✓", "$well", "complete; passed; sealed"), ("✗", "$critical", "torn; rejected; failed"),
    ("◌", DIM, "being written"), ("~", "", "about: not exact"), ("▸", ACCENT, "selected; picked"),
    ("→", ACCENT, "next safe action"), ("◷", DIM, "stale: last known, with its age"),
    ("×", "$critical", "NaN or inf"), ("·", DIM, "information"), ("!", "$attention", "warning"),
    ("▌", ACCENT, "selected run; in a log: evidence"), ("⚑", ACCENT, "bookmark"),
    ("★", ACCENT, "favourite"),
)  # fmt: skip
"""Every sign of the screens, its style, and what it means."""


class Help(NamedTuple):
    """What the page holds: ``here`` works now, ``elsewhere`` on other screens.

    ``open_codes`` are the conditions open on the selected run, whose ``thresholds`` give the
    figures. With ``words`` only what has all of them is shown, every condition included.
    """

    here: Sequence[Section]
    elsewhere: Sequence[Section] = ()
    open_codes: Sequence[str] = ()
    thresholds: Thresholds | None = None
    words: str = ""


def paint_help(page: Help, width: int) -> list[Content]:
    """Return the lines of the page, or that nothing has the words."""
    wanted = page.words.casefold().split()
    codes = [each for each in _codes(page) if _has(" ".join(each), wanted)]
    signs = [(mark, style, said) for mark, style, said in SIGNS if _has(f"{mark} {said}", wanted)]
    blocks = (
        _columns(_kept(page.here, wanted), width),
        _coded(codes, width, "conditions" if wanted else "open on this run: what the codes mean"),
        _signs(signs, width),
        _columns([(f"{title} (elsewhere)", rows)
                  for title, rows in _kept(page.elsewhere, wanted)], width),
    )  # fmt: skip
    lines: list[Content] = []
    for block in blocks:
        lines += [EMPTY, *block] if lines and block else block
    return lines or [text(("no match", DIM))]


def _has(words: str, wanted: Sequence[str]) -> bool:
    folded = words.casefold()
    return all(each in folded for each in wanted)


def _kept(sections: Sequence[Section], wanted: Sequence[str]) -> list[Section]:
    """Return the sections with the rows that have what is wanted, none without any."""
    kept = [
        (title, [each for each in rows if _has(f"{title} {' '.join(each)}", wanted)])
        for title, rows in sections
    ]
    return [section for section in kept if section[1]]


def _columns(sections: Sequence[Section], width: int) -> list[Content]:
    """Return sections beside each other, in their order from the left, about equally long."""
    count = max(1, min(len(sections), (width + GAP) // (COLUMN + GAP)))
    each = (width - GAP * (count - 1)) // count
    painted = [_section(section, each) for section in sections]
    share = -(-sum(len(lines) + 1 for lines in painted) // count)
    columns: list[list[Content]] = [[]]
    for lines in painted:
        full = columns[-1] and len(columns[-1]) + len(lines) // 2 >= share
        if full and len(columns) < count:
            columns.append([])
        columns[-1] += [EMPTY, *lines] if columns[-1] else lines
    if len(columns) == 1:
        return columns[0]
    rows = []
    for at in range(max(map(len, columns))):
        cells = [fit(column[at] if at < len(column) else EMPTY, each) for column in columns]
        rows.append(Content(" " * GAP).join(cells))
    return rows


def _section(section: Section, width: int) -> list[Content]:
    title, rows = section
    keys = min(max(Content(key).cell_length for key, _, _ in rows) + 2, max(4, width // 4))
    names = min(max(Content(name).cell_length for _, name, _ in rows) + 2, max(4, width // 3))
    lines = [text((title, STRONG))]
    for key, name, does in rows:
        style = "$attention" if does.startswith(NOT_NOW) else DIM
        left = text(" ", fit(text((key, f"bold {ACCENT}")), keys), fit(Content(name), names))
        pieces = wrapped(text((does, style)), width - left.cell_length, MOST) or [EMPTY]
        lines.append(text(left, pieces[0]))
        lines += [text(" " * left.cell_length, piece) for piece in pieces[1:]]
    return [fit(line, width) for line in lines]


def _codes(page: Help) -> list[tuple[str, str, str, str]]:
    """Return (id, what, opens, severity): of what is open, or of all that is looked for."""
    return [
        (each.id, each.what, limits(each, page.thresholds), each.severity)
        for each in CONDITIONS
        if page.words or set(each.id.split(", ")) & set(page.open_codes)
    ]


def _coded(codes: Sequence[tuple[str, str, str, str]], width: int, title: str) -> list[Content]:
    lines = [text((title, STRONG))] if codes else []
    for code, what, opens, severity in codes:
        head = text(" ", (code, f"bold {ACCENT}"), "  ", what, (f"  {severity}", DIM))
        lines += wrapped(head, width, MOST)
        lines += [text("   ", piece) for piece in wrapped(text((opens, DIM)), width - 3, MOST)]
    return [fit(line, width) for line in lines]


def _signs(signs: Sequence[tuple[str, str, str]], width: int) -> list[Content]:
    if not signs:
        return []
    items = [text((mark, style), f" {said}") for mark, style, said in signs]
    lines = [text(("signs", STRONG)), *(text(" ", row) for row in in_rows(items, width - 1))]
    return [fit(line, width) for line in lines]

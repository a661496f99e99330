"""What ran beside what would run: only the rows that differ, and how many are equal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.content import Content

from cockpit.model.plan import Difference
from widgets.line import ACCENT, DIM, EMPTY, STRONG, Part, fit, text, wrapped

ABOUT_BEFORE: Final = frozenset(
    {"command", "commit", "dirty files that matter", "checkpoint", "W&B id", "hardware",
     "output root"}
)  # fmt: skip
"""What a launch leaves a record of: without one, it is not that it was not there."""
BESIDE: Final = 72
"""Columns from which both stand on one line, if they fit."""
MOST: Final = 12


def paint_differences(
    found: Sequence[Difference], width: int, changed: bool = False
) -> list[Content]:
    """Return the differing rows side by side, or below each other where they are too long."""
    if not found:
        return []
    unknown = [each.what for each in found if each.ran is None and each.what in ABOUT_BEFORE]
    found = [each for each in found if each.what not in unknown]
    lines = _differing(found, width, changed) if found else []
    return [*lines, *_not_recorded(unknown, width)]


def _not_recorded(names: Sequence[str], width: int) -> list[Content]:
    """Say in one line of what it is not known how it was."""
    if not names:
        return []
    listed = ", ".join("dirty files" if name.startswith("dirty") else name for name in names)
    return wrapped(text((f"what ran before is not recorded: {listed}", DIM)), width, 2)


def _differing(found: Sequence[Difference], width: int, changed: bool) -> list[Content]:
    differing = [each for each in found if not each.same]
    equal = len(found) - len(differing)
    count = f"{equal:,} {'key' if equal == 1 else 'keys'} equal"
    mark: list[Part] = [("changed ", f"bold {ACCENT}")] if changed else []
    if not differing:
        return [text(*mark, ("nothing differs ", STRONG), (f"({count})", DIM))]
    name = min(max(Content(each.what).cell_length for each in differing) + 2, width // 3)
    half = max(1, (width - name - 3) // 2)
    beside = width >= BESIDE and all(_fits(each, half) for each in differing)
    head = [text(*mark, ("differs", STRONG), (f" · {count}", DIM))]
    if beside:
        head.append(_three(EMPTY, text(("ran", DIM)), text(("would run", DIM)), name, half))
    for each in differing:
        head += [_beside(each, name, half)] if beside else _stacked(each, width)
    return head


def _fits(each: Difference, half: int) -> bool:
    return all(Content(side or "").cell_length <= half for side in (each.ran, each.would_run))


def _beside(each: Difference, name: int, half: int) -> Content:
    return _three(
        Content(each.what), _side(each.ran, ""), _side(each.would_run, STRONG), name, half
    )


def _three(what: Content, ran: Content, would: Content, name: int, half: int) -> Content:
    if what.cell_length > name:
        name = min(what.cell_length + 1, name + half)
        half = max(1, half - 1)
    return text(fit(what, name), fit(ran, half), (" │ ", DIM), fit(would, half))


def _stacked(each: Difference, width: int) -> list[Content]:
    lines = wrapped(Content(each.what), width, 2)
    for label, side, style in (("ran", each.ran, ""), ("would run", each.would_run, STRONG)):
        pieces = wrapped(_side(side, style), width - 13, MOST) or [EMPTY]
        heads = [f"  {label:<11}", *[" " * 13] * (len(pieces) - 1)]
        lines += [text((head, DIM), piece) for head, piece in zip(heads, pieces, strict=True)]
    return lines


def _side(value: str | None, style: str) -> Content:
    return text(("not there", DIM)) if value is None else text((value, style))

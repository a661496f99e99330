"""Checks of a plan, made from their rows: their texts are safe and without secrets.

What finds something names the row (``cockpit.model.check_rows``) and gives the facts. A row with
one level needs no more (``finding``); where the facts decide between the levels of a row, the
function that is called says which one it is.
"""

from __future__ import annotations

from cockpit.model.check_rows import CheckRow
from cockpit.model.plan import Basis, Check, Level
from cockpit.model.run import RunSpec
from cockpit.text.scrub import shown


def finding(
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    of: str = "",
    moves: bool = False,
) -> Check:
    """Return a check of a row that has only one level. ``of`` stands for the ``*`` of its id."""
    return _check(row, row.level, text, basis, value, of, moves)


def passed(
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    moves: bool = False,
) -> Check:
    """Return a check that lets the plan go on."""
    return _check(row, Level.PASS, text, basis, value, "", moves)


def warned(
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    moves: bool = False,
) -> Check:
    """Return a check that a person should read before going on."""
    return _check(row, Level.WARN, text, basis, value, "", moves)


def blocked(
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    moves: bool = False,
) -> Check:
    """Return a check that stops the plan; the row says whether it can be approved."""
    return _check(row, Level.BLOCK, text, basis, value, "", moves)


def lacking(run: RunSpec, row: CheckRow, text: str) -> Check:
    """Return what a hero run may not be without, and an ordinary one is only warned of."""
    make = blocked if run.tier == "hero" else warned
    return make(row, text, Basis.RECORDED)


def _check(
    row: CheckRow, level: Level, text: str, basis: Basis | None, value: object, of: str, moves: bool
) -> Check:
    masked = None if value is None else shown(value)
    name = shown(of, 201 - len(row.id)) if of else ""
    return row.check(level, shown(text), basis, masked, of=name, moves=moves)

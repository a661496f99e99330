"""Checks of a plan, made from their rows: their texts are safe and without secrets.

What finds something names the row (``cockpit.model.check_rows``) and gives the facts. A row with
one level needs no more (``finding``); where the facts decide between the levels of a row, the
function that is called says which one it is.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from cockpit.model.check_rows import CheckRow
from cockpit.model.plan import Basis, Check, Level
from cockpit.model.run import RunSpec
from cockpit.text.scrub import shown


def _check(
    level: Level,
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    of: str = "",
    moves: bool = False,
) -> Check:
    """Return a check of a row. ``of`` stands for the ``*`` of its id."""
    masked = None if value is None else shown(value)
    name = shown(of, 201 - len(row.id)) if of else ""
    return row.check(level, shown(text), basis, masked, of=name, moves=moves)


passed: Final = partial(_check, Level.PASS)
"""A check that lets the plan go on."""
warned: Final = partial(_check, Level.WARN)
"""A check that a person should read before going on."""
blocked: Final = partial(_check, Level.BLOCK)
"""A check that stops the plan; the row says whether it can be approved."""


def finding(
    row: CheckRow,
    text: str,
    basis: Basis | None = None,
    value: object = None,
    *,
    of: str = "",
    moves: bool = False,
) -> Check:
    """Return a check of a row that has only one level."""
    return _check(row.level, row, text, basis, value, of=of, moves=moves)


def lacking(run: RunSpec, row: CheckRow, text: str) -> Check:
    """Return what a hero run may not be without, and an ordinary one is only warned of."""
    make = blocked if run.tier == "hero" else warned
    return make(row, text, Basis.RECORDED)

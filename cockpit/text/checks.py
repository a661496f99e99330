"""Checks of a plan: their texts are safe and without secrets, whatever they were made from."""

from __future__ import annotations

from cockpit.model.plan import Basis, Check, Level
from cockpit.model.run import RunSpec
from cockpit.text.scrub import shown


def passed(check: str, text: str, basis: Basis = Basis.OBSERVED, value: object = None) -> Check:
    """Return a check that lets the plan go on."""
    return _check(check, Level.PASS, text, basis, value)


def warned(check: str, text: str, basis: Basis = Basis.OBSERVED, value: object = None) -> Check:
    """Return a check that a person should read before going on."""
    return _check(check, Level.WARN, text, basis, value)


def blocked(
    check: str,
    text: str,
    basis: Basis = Basis.OBSERVED,
    value: object = None,
    *,
    overridable: bool = False,
) -> Check:
    """Return a check that stops the plan; only an ``overridable`` one can be approved."""
    return _check(check, Level.BLOCK, text, basis, value, overridable)


def lacking(run: RunSpec, check: str, text: str) -> Check:
    """Return what a hero run may not be without, and an ordinary one is only warned of."""
    make = blocked if run.tier == "hero" else warned
    return make(check, text, Basis.RECORDED)


def _check(
    check: str, level: Level, text: str, basis: Basis, value: object, overridable: bool = False
) -> Check:
    return Check(
        id=shown(check, 200),
        level=level,
        text=shown(text),
        basis=basis,
        value=None if value is None else shown(value),
        overridable=overridable,
    )

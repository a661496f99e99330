"""Makes checks: their texts safe, their secrets masked, whatever they were put together from."""

from __future__ import annotations

from cockpit.model.plan import Basis, Check, Level
from cockpit.model.run import RunSpec
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

LONGEST = 600
_WHOLE = 20_000
"""Characters that are scrubbed together: a secret that was cut is not recognised any more."""


def shown(text: object, limit: int = LONGEST) -> str:
    """Return foreign text as one safe line without secrets."""
    line = scrub(clean(text, _WHOLE))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


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

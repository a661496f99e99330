"""What a person typed, read strictly; and counted things in words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.model.plan import Approval, Plan, Request
from cockpit.model.wording import plural as plural
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_STEP: Final = re.compile(r"(?:step[-_ ]?)?(\d[\d,_]{0,18})", re.ASCII)


def step_param(text: str | None, name: str) -> int:
    """Return a step that a person typed (``46000``, ``46,000``, ``step-46000``).

    Raises ``RefuseError`` for anything else.
    """
    found = _STEP.fullmatch((text or "").strip().lower())
    if found is None:
        raise RefuseError(f"--{name} is {clean(text)!r}; expected a step such as 46000")
    return int(re.sub(r"[,_]", "", found[1]))


def yes_param(text: str | None, name: str) -> bool:
    """Return whether an option says yes; raises ``RefuseError`` for what is neither."""
    word = (text or "no").strip().lower()
    if word in ("yes", "true", "y", "1", "on"):
        return True
    if word in ("no", "false", "n", "0", "off", ""):
        return False
    raise RefuseError(f"--{name} is {clean(text)!r}; expected yes or no")


def text_param(request: Request, name: str, *, lines: bool = False) -> str:
    """Return an option as safe text, its secrets masked; one line unless ``lines``."""
    given = request.params.get(name, "")
    if lines:
        return scrub("\n".join(clean(line, 4000) for line in given.splitlines()))
    return scrub(clean(given, 1000)).strip()


def required_param(request: Request, name: str, what: str) -> str:
    """Return an option that must be given; raises ``RefuseError`` that says what is expected."""
    found = text_param(request, name)
    if not found:
        raise RefuseError(f"--{name} is missing: {what}")
    return found


def masked_plan(plan: Plan) -> Plan:
    """Return a plan as it may be shown: also what an action finds things by, masked."""
    masked: Plan = Plan.model_validate(_masked(plan.model_dump()))
    return masked


def _masked(value: object) -> object:
    if isinstance(value, dict):
        return {key: _masked(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(_masked, value))
    return scrub(value) if type(value) is str else value


def safe(text: object) -> str:
    """Return one safe line with its secrets masked."""
    return scrub(clean(text, 4096))


def masked_request(
    request: Request, approvals: Sequence[Approval]
) -> tuple[Request, tuple[Approval, ...]]:
    """Return both as they may be kept: what a person typed can hold a secret too."""
    params = {name: scrub(value) for name, value in request.params.items()}
    given = (
        each.model_copy(update={"by": scrub(each.by), "reason": scrub(each.reason)})
        for each in approvals
    )
    return request.model_copy(update={"params": params}), tuple(given)

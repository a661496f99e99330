"""Whether a new lineage's W&B run begins as a fork of the old one, at one of its steps (SPEC A-3).

The client takes it from ``WANDB_FORK_FROM`` (0.31, offline and online: seen in the run's record).
It refuses to begin where the trainer's own code also says ``resume``, and what the trainer's code
says goes first: neither can be told from outside.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.parameters import step_param
from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference
from cockpit.model.run import RunSpec
from cockpit.text.checks import blocked, warned
from cockpit.text.scrub import shown

PARAM: Final = "fork-wandb"
VARIABLE: Final = "WANDB_FORK_FROM"
FACT: Final = "fork_from"
ID: Final = "fork"
_AGAINST: Final = ("WANDB_RESUME", "WANDB_RESUME_FROM")
"""Variables beside which the client takes no fork."""
_BREAKS: Final = (
    "a trainer that passes resume to wandb.init ends at its start, one that passes fork_from goes"
    " by its own; which of them it is cannot be told from here"
)


def fork_of(
    run: RunSpec, params: Mapping[str, str], pick: Pick | None
) -> tuple[str | None, list[Check]]:
    """Return ``<old id>?_step=N`` and what is to be said of it; nothing unless it is asked for.

    ``run`` is the old one. Raises ``RefuseError`` for what is no step.
    """
    text = params.get(PARAM, "").strip()
    if text.lower() in ("", "no"):
        return None, []
    guessed = text.lower() == "yes"
    if guessed and pick is None:
        return None, [blocked(ID, "no checkpoint chosen, so no step to fork at")]
    step = pick.step if guessed and pick is not None else step_param(text, PARAM)
    old = run.wandb.run_id if run.wandb is not None else None
    if old is None:
        text = "no W&B id of the old run is recorded (wandb.id): nothing to fork from"
        return None, [blocked(ID, text, Basis.RECORDED)]
    if any(char in old for char in "?=&/ "):
        raise RefuseError(f"the old W&B id {shown(old)!r} cannot be named in {VARIABLE}")
    fork = f"{old}?_step={step}"
    taken = "the checkpoint's step taken for W&B's own _step" if guessed else "W&B's own _step"
    said = f"{VARIABLE}={fork} is set ({taken}): the new W&B run begins with the old one's history"
    return fork, [warned(ID, f"{said}; {_BREAKS}", Basis.INFERRED, fork)]


def fork_allowed(words: Sequence[str], fork: str | None) -> list[Check]:
    """Check that nothing that can be seen from here keeps the client from forking."""
    if fork is None:
        return []
    refuses = "the client refuses a fork beside it"
    named = [name for name in _AGAINST if any(word.startswith(f"{name}=") for word in words)]
    if named:
        return [blocked(f"{ID}:resume", f"the command sets {', '.join(named)}: {refuses}")]
    here = [name for name in _AGAINST if os.environ.get(name)]
    if here:
        text = f"{', '.join(here)} is set here, and a job may inherit it: {refuses}; unset it"
        return [warned(f"{ID}:resume", text)]
    return []


def fork_difference(fork: str | None) -> list[Difference]:
    """Return the row that shows it beside old and new identity."""
    return [] if fork is None else [Difference(what="W&B fork", ran=None, would_run=shown(fork))]


def fork_environment(facts: Mapping[str, str]) -> dict[str, str]:
    """Return what the client takes the planned fork from."""
    return {VARIABLE: facts[FACT]} if facts.get(FACT) else {}

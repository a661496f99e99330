"""Which jobs an action has told to end, as its records say it (SPEC J, A).

A plan names what would end; what had ended before it was told to was not stopped by anybody here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from cockpit.actions.core.action import Execution, StepError
from cockpit.model.jobs import LiveJob
from cockpit.store.store import StoreError

STOPS: Final = "stops"
"""The fact that holds the ids of all that are told to end: as planned, then as they were told."""
ORDERED: Final = "ordered"
"""The fact that something was told to end."""


async def order(execution: Execution, jobs: Iterable[LiveJob]) -> None:
    """Note that these are told to end, before they are; what was told before stays noted.

    Raises ``StepError`` where it cannot be noted: then nothing may be told.
    """
    told = dict.fromkeys((*(job.id for job in jobs), *ordered(execution)))
    try:
        await execution.note(**{STOPS: "\n".join(told), ORDERED: "yes"})
    except StoreError as error:
        text = f"nothing was told to stop: the journal could not be written: {error}"
        raise StepError(text) from error


def ordered(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what this action has told to end."""
    return ids_in(execution.facts, STOPS) if execution.facts.get(ORDERED) else ()


def planned(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what was to end by the plan."""
    return ids_in(execution.plan.facts, STOPS)


def ids_in(facts: Mapping[str, str], name: str) -> tuple[str, ...]:
    """Return the ids of jobs that a fact holds."""
    return tuple(filter(None, facts.get(name, "").split("\n")))


def told_words(execution: Execution, done: str, left: str) -> str:
    """Return which jobs of the plan were told to end, behind ``done``, and which behind ``left``.

    They are named as the plan names them.
    """
    names = dict(zip(planned(execution), execution.plan.stops, strict=False))
    told = [names.get(each, each) for each in ordered(execution)]
    parts = ((done, told), (left, [names[each] for each in spared(execution) if each in names]))
    return "; ".join(f"{what}: {', '.join(who)}" for what, who in parts if who)


def spared(execution: Execution) -> tuple[str, ...]:
    """Return the ids of what was to end by the plan, and was not told to."""
    return tuple(each for each in planned(execution) if each not in ordered(execution))

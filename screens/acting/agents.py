"""What agents are about, as a person is told of it, and the veto that stops them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cockpit.model.acts import AgentAct, going_on
from cockpit.model.report import RunReport

if TYPE_CHECKING:
    from cockpit.actions.core.service import ActionService


def agent_news(
    reports: Sequence[RunReport], now: float, veto_key: str | None
) -> list[tuple[str, bool]]:
    """Return a line for each thing that an agent is about, and whether a veto can stop it.

    ``veto_key`` is the key that vetoes; ``None`` where nothing may be done.
    """
    veto = "not to be vetoed here" if veto_key is None else f"{veto_key} vetoes"
    acts = [act for report in reports for act in report.agents]
    lines = going_on(acts, now, veto)
    waiting = sum(act.waits(now) for act in acts)
    return [(line, place < waiting) for place, line in enumerate(lines)]


def to_veto(reports: Sequence[RunReport], now: float, selected: str | None) -> list[str]:
    """Return the run that a veto is meant for, or those among which a person has to say.

    The key stands on the screen beside what will happen: where one agent waits, it means that one,
    whichever run is selected.
    """
    waiting = [each.name for each in reports if any(act.waits(now) for act in each.agents)]
    if selected is not None and (selected in waiting or not waiting):
        return [selected]
    return waiting


async def vetoed(service: ActionService, run: str, operator: str) -> tuple[str, bool]:
    """Veto what agents are about on a run; return what to say, and whether that is bad news."""
    from cockpit.actions.core.action import RefuseError, UnansweredError
    from cockpit.store.store import StoreError

    try:
        stopped = await service.veto(run, operator)
    except (UnansweredError, TimeoutError) as error:
        return f"cannot tell whether it was vetoed, veto again: {error}", True
    except (RefuseError, StoreError) as error:
        return f"not vetoed: {error}", True
    if not stopped:
        return f"no agent is waiting to act on {run} in this account's store", False
    return f"vetoed, and held off for an hour: {', '.join(map(_named, stopped))}", False


def _named(act: AgentAct) -> str:
    return f"{act.action} {act.run} by {act.agent}"

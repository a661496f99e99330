"""Plans that stand open here, noted where the next start finds them; and what the last one left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cockpit.model.wording import day_time
from cockpit.runtime.offload import offload

if TYPE_CHECKING:
    from cockpit.actions.core.open_plans import HeldNote, OpenPlans
    from cockpit.actions.core.service import ActionService
    from cockpit.model.plan import Request

WITHIN: Final = 5.0


class Planning:
    """The open plans of this cockpit; ``None`` for plans: nothing is noted."""

    def __init__(self, plans: OpenPlans | None) -> None:
        self._plans = plans
        self._wanted: dict[tuple[str, str], bool] = {}
        self._held: dict[tuple[str, str], HeldNote] = {}

    async def begin(self, request: Request, now: float) -> None:
        """Note that this is being planned, unless that has ended by the time it is noted."""
        about = request.action, request.run
        if self._plans is None or about in self._wanted:
            return
        self._wanted[about] = True
        try:
            held = await offload(self._plans.hold, *about, now, deadline=WITHIN)
        except (OSError, TimeoutError):  # without the note only the reminder is lost
            self._wanted.pop(about, None)
            return
        if about in self._wanted:
            self._held[about] = held
        else:
            held.forget()

    def end(self, request: Request) -> None:
        """Take the note away: a person has left the plan, or it is done and journaled."""
        about = request.action, request.run
        self._wanted.pop(about, None)
        held = self._held.pop(about, None)
        if held is not None:
            held.forget()

    def end_all(self) -> None:
        """Take all notes away: a person leaves with these plans open, and knows."""
        self._wanted.clear()
        while self._held:
            self._held.popitem()[1].forget()

    async def left(self, service: ActionService, now: float) -> list[str]:
        """Return, once, what cockpits that are gone were planning and did not do; a line each.

        Raises what reading the journal raises: then the next start asks again.
        """
        if self._plans is None:
            return []
        try:
            found = await offload(self._plans.left, deadline=WITHIN)
        except (OSError, TimeoutError):
            return []
        said: list[str] = []
        try:
            while found:
                if not await _was_done(service, found[0]):
                    said.append(_line(found[0], now))
                found.pop(0).forget()
        finally:
            for each in found:
                each.release()
        return said


async def _was_done(service: ActionService, held: HeldNote) -> bool:
    """Return whether the journal knows more of it: then it tells, and not this note."""
    note = held.note
    entries = await service.history(note.run)
    return any(each.action == note.action and each.begun_at >= note.at for each in entries)


def _line(held: HeldNote, now: float) -> str:
    note = held.note
    kind = "an" if note.action[:1] in "aeiou" else "a"
    planned = f"{kind} {note.action} of {note.run} was being planned"
    return f"{planned}, nothing was done (at {day_time(note.at, now)})"

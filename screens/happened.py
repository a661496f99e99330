"""The past of the whole fleet: what happened to any run, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual.binding import BindingType
from textual.content import Content

from cockpit.model.history import Happening, Kind, Timeline
from screens.base import spawn
from screens.dialog import ListScreen
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.alert_list import next_kind
from widgets.painting.journal import paint_happening, when_width
from widgets.painting.line import DIM, EMPTY, STRONG, chosen_row, fit, text, wrapped
from widgets.scrolled import Row

MOST: Final = 500
"""Events that are listed; each run's own timeline has all of its own."""
EVERY: Final = 60.0
AGAIN: Final = 5.0
"""Seconds after which the runs are asked anew: with all answers, and without some."""
FEW: Final = 6
"""Runs that are named where a reason is that of many."""
NAME: Final = 24
"""Columns that a run's name may take."""


class HappenedScreen(ListScreen):
    """Asks for each run's timeline, once in a while anew; Enter shows the run as it was then."""

    SCOPES = ("happened", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("happened", "list")

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._found: dict[str, Timeline] = {}
        self._troubles: dict[str, str] = {}
        self._kind: Kind | None = None
        self._left = 0
        """Runs whose past is still to be read."""
        self._asked = float("-inf")

    def show(self) -> None:
        """Show what is known by now, and ask anew where that is old or could not be read."""
        now, every = self.cockpit.now(), AGAIN if self._troubles else EVERY
        if self.is_mounted and not self._left and abs(now - self._asked) >= every:
            self._asked = now
            spawn(self, self._read)
        super().show()

    async def _read(self) -> None:
        names = [each.name for each in self.cockpit.reports]
        self._left = len(names)
        for gone in (self._found.keys() | self._troubles.keys()) - set(names):
            self._found.pop(gone, None)
            self._troubles.pop(gone, None)
        for name in names:
            try:
                self._found[name] = await self.cockpit.pasts.timeline(name)
                self._troubles.pop(name, None)
            except (OSError, TimeoutError, ValueError) as error:
                said = getattr(error, "strerror", None) or str(error) or "no answer in time"
                self._troubles[name] = said
            self._left -= 1
            self.show()

    @property
    def selected(self) -> str | None:
        """Return the run of the chosen event."""
        return self.chosen.partition(" ")[2] or None

    def _events(self) -> list[tuple[str, int, Happening]]:
        """Return all events of the kind that is listed, newest first.

        Each with its run, and its number among that run's from the oldest on: what is read of
        another run moves no cursor.
        """
        found = []
        for run, past in self._found.items():
            listed = past.of_kind(self._kind)
            found += [(run, len(listed) - at, each) for at, each in enumerate(listed)]
        return sorted(found, key=lambda one: -one[2].at)

    def _missing(self) -> list[str]:
        """Return what is missing and why, a line for each reason with the runs that lack it."""
        unread, lacking = dict[str, list[str]](), dict[str, list[str]]()
        for run, why in self._troubles.items():
            unread.setdefault(why, []).append(run)
        for run, past in self._found.items():
            for why in past.lacks:
                lacking.setdefault(why, []).append(run)
        return [
            *(f"cannot read the past of {_named(runs)}: {why}" for why, runs in unread.items()),
            *(f"{_named(runs)}: {why}" for why, runs in lacking.items()),
        ]

    def rows(self) -> list[Row]:
        """Return the events, and above them why some are missing."""
        every, now = self._events(), self.cockpit.now()
        events = every[:MOST]
        wide = min(NAME, max((Content(run).cell_length for run, _, _ in events), default=0))
        when = when_width([each for *_, each in events], now)

        def paint(run: str, each: Happening, width: int, chosen: bool) -> list[Content]:
            line = paint_happening(each, now, width - wide - 4, when, named=self._kind is None)
            return [chosen_row(text(fit(text((run, STRONG)), wide), "  ", line), width, chosen)]

        said, read = self._missing(), self._found.keys() | self._troubles.keys()
        if not events and not said:
            all_read = all(each.name in read for each in self.cockpit.reports)
            said = ["nothing has happened yet" if all_read else "reading the store"]
        told = [Row("", partial(_remark, each)) for each in said]
        found = [
            Row(f"{number}:{each.at} {run}", partial(paint, run, each))
            for run, number, each in events
        ]
        return [*told, *found]

    def heading(self) -> Content:
        """Return what is listed."""
        only = "" if self._kind is None else f" · {self._kind.value} only"
        return text(("past of the fleet", STRONG), (only, DIM))

    def note(self) -> Content:
        """Return how many runs are still to be read, else how much of all is listed."""
        if self._left:
            return text((f"{self._left} runs still to read", DIM))
        every = len(self._events())
        return text((f"the newest {MOST:,} of {every:,}", DIM)) if every > MOST else EMPTY

    def action_happened_open(self) -> None:
        """Show the run of the chosen event as it was then."""
        from screens.past import PastScreen

        at, _, run = self.chosen.partition(":")[2].partition(" ")
        if run:
            self.app.push_screen(PastScreen(self.cockpit, run, float(at)))
        else:
            self.cockpit.say("nothing has happened yet")

    def action_happened_only(self) -> None:
        """List one kind of event alone, in turn, or all again."""
        every = [each for past in self._found.values() for each in past.happenings]
        self._kind = next_kind(every, self._kind)
        self.show()


def _named(runs: Sequence[str]) -> str:
    """Return the names of a few runs, and how many more there are."""
    more = f" and {len(runs) - FEW} more" if len(runs) > FEW + 1 else ""
    return ", ".join(runs[:FEW] if more else runs) + more


def _remark(words: str, width: int, chosen: bool) -> list[Content]:
    return [*wrapped(text((words, DIM)), width, 3), EMPTY]

"""The open points of a run before it is handed over, one by one; ends in the typed transfer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from textual import events, on
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from cockpit.model.records import Point, PointMark, Unfinished, note_of, points_of
from cockpit.model.wording import moment
from screens.base import spawn
from screens.dialog import ListScreen, Prompt
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.painted import Filter
from widgets.painting.line import DIM, text
from widgets.painting.plan import paint_point
from widgets.scrolled import Row

NOTE_MOST: Final = 300
"""Letters of a note; the rest is cut off."""


class PointsScreen(ListScreen):
    """Goes through what is open; ``marks`` outlive the screen: a look elsewhere costs nothing.

    Returns the handoff's note, or ``None`` for going back.
    """

    NAME = "open points"
    ASKS = "why it stays open, and who owns it   enter keep · esc cancel"
    SCOPES = ("points", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("points", "list")

    def __init__(self, cockpit: Cockpit, run: str, marks: dict[str, PointMark]) -> None:
        super().__init__(cockpit)
        self._run = run
        self._marks = marks
        self._draft: Unfinished | None = None
        self._noted_of = ""
        """Of which point the line asks for a note: it may go while that is typed."""

    @on(events.ScreenResume)
    def _look_for_draft(self) -> None:
        """Look whether an entry was begun and not saved: again after the editor."""
        spawn(self, self._read_draft, group="draft", exclusive=True)

    async def _read_draft(self) -> None:
        report = self.cockpit.report_of(self._run)
        if report is not None:
            self._draft = await self.cockpit.actions.unfinished(report)
            self.show()

    @property
    def selected(self) -> str | None:
        """Return the run that the points are of."""
        return self._run

    @property
    def points(self) -> tuple[Point, ...]:
        """The points as they are by now."""
        report = self.cockpit.report_of(self._run)
        actions = self.cockpit.actions.interrupted
        unresolved = [
            (f"{each.entry.action} of {moment(each.entry.begun_at)}", each.text)
            for each in actions
            if each.entry.plan.run == self._run and each.outcome is not None
        ]
        return () if report is None else points_of(report, unresolved, self._draft)

    def instead(self, keys: Sequence[str], former: Sequence[str]) -> str:
        """Return the first point that is not marked: the one that was at hand is gone."""
        return next((key for key in keys if key not in self._marks), keys[0] if keys else "")

    def rows(self) -> list[Row]:
        """Return the points as they are by now."""
        now, kept = self.cockpit.now(), self.page.kept
        return [
            Row(each.key, partial(paint_point, _shown(each, kept), self._marks.get(each.key), now))
            for each in self.points
        ]

    def heading(self) -> Content:
        """Return whose points they are, and how many were reviewed."""
        points = self.points
        gone = sum(each.key in self._marks for each in points)
        return text(super().heading(), (f"  {gone} of {len(points)} reviewed", DIM))

    def note(self) -> Content:
        """Return what follows."""
        return text(("then hand off, by typing", DIM))

    def action_point_discussed(self) -> None:
        """Mark the point at hand as discussed, and go to the next."""
        self._mark_point(self.chosen, PointMark(discussed=True))

    def action_point_left(self) -> None:
        """Leave the point at hand open, with a note."""
        if self.chosen:
            self._noted_of = self.chosen
            mark = self._marks.get(self._noted_of)
            self.query_one(Prompt).ask(mark.note if mark is not None else "")

    @on(Input.Submitted)
    def _noted(self, event: Input.Submitted) -> None:
        self.query_one(Prompt).close()
        note = " ".join(event.value.split())[:NOTE_MOST]
        self._mark_point(self._noted_of, PointMark(discussed=False, note=note))

    def _mark_point(self, key: str, mark: PointMark) -> None:
        """Mark the point that was shown, not another one that stands in its place by now."""
        if key in {each.key for each in self.points}:
            self._marks[key] = mark
            self.action_step(1)
        else:
            self.cockpit.say("that point is gone: nothing was noted")
            self.show()

    def action_act(self, verb: str) -> None:
        """Go on to the transfer: its form holds what was left open as the note."""
        self.dismiss(note_of(self.points, self._marks))


def _shown(point: Point, kept: Filter) -> Point:
    """Return a point as it may be shown: masked before it is wrapped, half a path is none."""

    def shown(words: str) -> str:
        return kept(Content(words)).plain

    evidence = tuple((shown(words), shown(source)) for words, source in point.evidence)
    return point._replace(title=shown(point.title), evidence=evidence, next=shown(point.next))

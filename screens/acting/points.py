"""The open points of a run before it is handed over, one by one; ends in the typed transfer."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.widgets import Input

from cockpit.model.records import Point, PointMark, Unfinished, note_of, points_of
from cockpit.model.wording import moment
from screens.base import CockpitScreen, spawn
from screens.dialog import Prompt
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import KeyLine
from widgets.painted import Filter
from widgets.painting.line import DIM, STRONG, text
from widgets.painting.plan import paint_points, point_row
from widgets.scrolled import Paged, Sheet

NOTE_MOST: Final = 300
"""Letters of a note; the rest is cut off."""


class PointsScreen(CockpitScreen):
    """Goes through what is open; ``marks`` outlive the screen: a look elsewhere costs nothing.

    Returns the handoff's note, or ``None`` for going back.
    """

    SCOPES = ("points", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("points")

    def __init__(self, cockpit: Cockpit, run: str, marks: dict[str, PointMark]) -> None:
        super().__init__(cockpit)
        self._run = run
        self._marks = marks
        self._at = ""
        self._draft: Unfinished | None = None
        self._noted_of = ""
        """Of which point the line asks for a note: it may go while that is typed."""

    def compose(self) -> ComposeResult:
        """Lay out the points, the line for a note, the footer."""
        yield Paged()
        yield Prompt("why it stays open, and who owns it   enter keep · esc cancel")
        yield KeyLine()

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

    @property
    def place(self) -> int:
        """Which point is at hand: one that is gone gives way to the first that is not marked."""
        points = self.points
        keys = [each.key for each in points]
        if self._at not in keys:
            free = (key for key in keys if key not in self._marks)
            self._at = next(free, keys[0] if keys else "")
        return keys.index(self._at) if self._at in keys else 0

    def show(self) -> None:
        """Show the points as they are by now, the one at hand in sight."""
        if not self.is_mounted:
            return
        page, points, at = self.query_one(Paged), self.points, self.place
        marks, kept = dict(self._marks), page.kept
        points = tuple(_shown(each, kept) for each in points)
        gone = sum(each.key in marks for each in points)
        title = text(
            (f"open points · {self._run}", STRONG), (f"  {gone} of {len(points)} gone through", DIM)
        )
        now = self.cockpit.now()
        body = partial(paint_points, points, marks, at, now)
        top = point_row(points, marks, at, now, max(1, page.size.width - 4))
        page.top = max(0, top - max(0, page.room // 2))
        page.show(Sheet(body, title, text(("then the transfer, typed", DIM))))
        self.show_keys()

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        return self.cockpit.keys.footer("points")

    def action_point(self, steps: int) -> None:
        """Go to another point."""
        points = self.points
        if points:
            self._at = points[max(0, min(self.place + steps, len(points) - 1))].key
        self.show()

    def action_point_discussed(self) -> None:
        """Mark the point at hand as discussed, and go to the next."""
        self._mark_point(self._at, PointMark(discussed=True))

    def action_point_left(self) -> None:
        """Leave the point at hand open, with a note."""
        points = self.points
        if points:
            self._noted_of = points[self.place].key
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
            self.action_point(1)
        else:
            self.cockpit.say("that point is gone: nothing was noted")
            self.show()

    def action_act(self, verb: str) -> None:
        """Go on to the transfer: its form holds what was left open as the note."""
        self.dismiss(note_of(self.points, self._marks))

    def action_point_back(self) -> None:
        """Close the note's line, else go back; marks are kept."""
        if self.query_one(Prompt).is_open:
            self.query_one(Prompt).close()
        else:
            self.dismiss(None)


def _shown(point: Point, kept: Filter) -> Point:
    """Return a point as it may be shown: masked before it is wrapped, half a path is none."""

    def shown(words: str) -> str:
        return kept(Content(words)).plain

    evidence = tuple((shown(words), shown(source)) for words, source in point.evidence)
    return point._replace(title=shown(point.title), evidence=evidence, next=shown(point.next))

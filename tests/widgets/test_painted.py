"""Widgets paint whole lines, and again only what has changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region

from cockpit.model.report import RunReport
from tests.widgets import anything
from tests.widgets import reports as made
from widgets.painted import UNPAINTED, Painted, kept
from widgets.painting.panel import paint_panel
from widgets.painting.run_line import columns
from widgets.run_list import paint_row


class Lines(Painted):
    def __init__(self) -> None:
        super().__init__()
        self.content = [Content("one"), Content("two"), Content("three")]
        self.refreshed: list[int] = []

    def paint(self, width: int, height: int) -> list[Content]:
        return list(self.content)

    def refresh(self, *regions: Region, **options: bool) -> Self:
        self.refreshed += [region.y for region in regions]
        return super().refresh(*regions, **options)


class Holder(App[None]):
    def compose(self) -> ComposeResult:
        yield Lines()


async def test_only_changed_lines_are_refreshed() -> None:
    app = Holder()
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        lines = app.query_one(Lines)
        lines.refreshed.clear()
        lines.repaint()
        assert lines.refreshed == []
        lines.content[1] = Content("2")
        lines.repaint()
        assert lines.refreshed == [1]
        lines.content[1] = Content("2").stylize("bold")
        lines.repaint()
        assert lines.refreshed == [1, 1]
        lines.content.pop()
        lines.repaint()
        assert lines.refreshed == [1, 1, 2]


class Sized(Painted):
    def paint(self, width: int, height: int) -> list[Content]:
        return [Content(f"{width} wide")] * height


class Frames(App[None]):
    """Keeps what stood in each frame."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[list[str]] = []

    def compose(self) -> ComposeResult:
        yield Sized()

    def post_display_hook(self) -> None:
        rows = self.screen._compositor.render_strips()
        self.frames.append([strip.text.rstrip() for strip in rows])


async def test_no_frame_shows_the_lines_of_another_size() -> None:
    """Textual paints a layout before its widgets know their sizes: they stood empty in it."""
    app = Frames()
    async with app.run_test(size=(40, 4)) as pilot:
        await pilot.pause()
        app.frames.clear()
        beside = Sized()
        app.screen.styles.layout = "horizontal"
        await app.screen.mount(beside)
        await pilot.pause()
        assert app.frames and all(
            rows == ["20 wide             20 wide"] * 4 for rows in app.frames
        )


class Told(Sized):
    words = "first"

    def paint(self, width: int, height: int) -> list[Content]:
        return [Content(self.words)] * height

    def on_resize(self) -> None:
        if self.words == "first":
            self.words = f"told of {self.size.width}"


async def test_what_came_while_it_was_hidden_stands_there_when_it_is_back() -> None:
    app = Frames()
    async with app.run_test(size=(40, 4)) as pilot:
        told = Told()
        await app.screen.mount(told)
        await pilot.pause()
        assert "told of 40" in app.frames[-1], "a size that is told of changes what is said"
        told.display = False
        await pilot.pause()
        told.words = "news"
        told.repaint()
        app.frames.clear()
        told.display = True
        await pilot.pause()
        assert app.frames and all("told of 40" not in rows for rows in app.frames)
        assert "news" in app.frames[-1]


async def test_no_control_character_reaches_the_terminal() -> None:
    app = Holder()
    async with app.run_test(size=(60, 5)) as pilot:
        lines = app.query_one(Lines)
        lines.content = [Content("a\x1b]52;c;x\x07b\x9b31m\u202ec"), Content("[/] [bold")]
        lines.repaint()
        await pilot.pause()
        shown = [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]
        assert shown[0] == "a\ufffd]52;c;xb\ufffd31m\ufffdc"
        assert shown[1] == "[/] [bold"


class Masked(Holder):
    word, asked = "one", 0

    @property
    def paint_form(self) -> object:
        return self.word

    def paint_filter(self, line: Content) -> Content:
        self.asked += 1
        return Content(line.plain.replace(self.word, "***"))


async def test_a_line_is_filtered_once_and_again_when_the_filter_would_say_something_else() -> None:
    app = Masked()
    async with app.run_test(size=(20, 5)) as pilot:
        await pilot.pause()
        lines = app.query_one(Lines)
        asked = app.asked
        lines.repaint()
        assert (app.asked, lines.lines[0].plain) == (asked, "***")
        lines.content[1] = Content("one more")
        lines.repaint()
        assert (app.asked, lines.lines[1].plain) == (asked + 1, "*** more")
        app.word = "three"
        lines.repaint()
        assert [line.plain for line in lines.lines] == ["one", "one more", "***"]


HOPS = 4
AFTER = (0.0, 1800.0, 86_400.0)
"""Seconds after a report at which it is still shown."""


def panel(report: RunReport, now: float) -> list[Content]:
    return paint_panel(report, now, 120, 24)


def listed(report: RunReport, now: float) -> list[Content]:
    return paint_row(report, now, 160, columns([report], now, 160), high=9)


def narrow(report: RunReport, now: float) -> list[Content]:
    return paint_row(report, now, 80, columns([report], now, 80))


def moments(begin: float, end: float) -> Iterator[float]:
    """Some moments between two, the last possible one among them."""
    end = min(end, begin + 1e6)
    yield from (begin + (end - begin) * share for share in (0.1, 0.5, 0.9))
    yield max(begin, math.nextafter(end, begin) - 1e-3)


@pytest.mark.parametrize("painted", [panel, listed, narrow])
@pytest.mark.parametrize("report", made.fleet(), ids=lambda report: report.name)
def test_what_is_kept_is_what_painting_anew_would_give(
    report: RunReport, painted: Callable[[RunReport, float], list[Content]]
) -> None:
    for after in AFTER:
        now = report.checked_at + after
        for _ in range(HOPS):
            found = kept(report, now, (), partial(painted, report, now))
            for moment in moments(found.begin, found.end):
                assert found.holds(report, moment, ())
                assert [line.markup for line in painted(report, moment)] == [
                    line.markup for line in found.lines
                ]
            if math.isinf(found.end):
                break
            now = found.end


def looked_again(report: RunReport, after: float) -> RunReport:
    """Return a report as another look makes it that finds all as it was."""
    facets = {
        name: facet.model_copy(update={"observed_at": facet.observed_at + after})
        for name, facet in report.facets.items()
        if facet.observed_at is not None
    }
    return report.model_copy(
        update={
            "checked_at": report.checked_at + after,
            "facets": report.facets.model_copy(update=facets),
            "day": report.day.model_copy(update={"at": report.checked_at + after}),
            "looks": report.looks.model_copy(update={"last": report.checked_at + after}),
        }
    )


PAINTED: tuple[Callable[[RunReport, float], list[Content]], ...] = (panel, listed, narrow)


@given(anything.any_report(), st.sampled_from([1.0, 15.0, 600.0, 7200.0]), st.floats(0.0, 1e5))
def test_another_look_that_finds_all_as_it_was_paints_the_same_or_is_painted(
    report: RunReport, after: float, late: float
) -> None:
    now, again = report.checked_at + after + late, looked_again(report, after)
    for painted in PAINTED:
        found = kept(report, now, (), partial(painted, report, now))
        if found.holds(again, now, ()):
            same = [line.markup for line in found.lines]
            assert [line.markup for line in painted(again, now)] == same, painted


@given(anything.any_report(), anything.any_report(), st.floats(0.0, 1e5))
def test_what_is_said_to_be_unpainted_is(report: RunReport, other: RunReport, late: float) -> None:
    unseen = {name: facet for name, facet in other.facets.items() if name in UNPAINTED}
    facets = report.facets.model_copy(update=unseen)
    again, now = report.model_copy(update={"facets": facets}), report.checked_at + late
    for painted in PAINTED:
        found = kept(report, now, (), partial(painted, report, now))
        assert found.of_look or found.holds(again, now, ())
        same = [line.markup for line in found.lines]
        assert [line.markup for line in painted(again, now)] == same, painted


def test_who_tells_the_step_goes_by_when_was_looked() -> None:
    """The log is ahead of the tracker for a moment all the time; for longer it is told."""
    report = made.report(
        "ahead", seen=made.facets(tracker=made.tracker(last_step_at=made.NOW - 10))
    )
    told = report.progress.model_copy(update={"step_source": "log"})
    report, now = report.model_copy(update={"progress": told}), report.checked_at + 15.0
    found = kept(report, now, (), partial(panel, report, now))
    again = looked_again(report, 15.0)
    assert not found.holds(again, now, ())
    assert any("by log" in line.plain for line in panel(again, now))
    assert not any("by log" in line.plain for line in found.lines)


def test_most_looks_are_not_painted() -> None:
    """A run that stands still is looked at again and again."""
    seen = made.facets()
    report = made.report("still", seen=seen)
    now = report.checked_at + 20.0
    for painted in (panel, listed, narrow):
        found = kept(report, now, (), partial(painted, report, now))
        assert found.holds(looked_again(report, 15.0), now, ())


def test_what_is_kept_holds_for_no_other_report_size_or_time() -> None:
    report = made.fleet()[0]
    found = kept(report, 100.0, (80, 24), list)
    assert not found.holds(report.model_copy(update={"next_action": "other"}), 100.0, (80, 24))
    assert not found.holds(looked_again(report, -15.0), 100.0, (80, 24)), "an older one"
    assert not found.holds(report, 100.0, (80, 25))
    assert not found.holds(report, 99.0, (80, 24)), "the clock was set back"

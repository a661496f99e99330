from __future__ import annotations

from typing import Self

from textual.app import App, ComposeResult
from textual.content import Content
from textual.geometry import Region

from widgets.base.painted import Painted


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

"""Takes and saves the frame of the fleet when the app ends, with the times its ages count from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from rich.color import ColorSystem
from textual.content import Content
from textual.strip import Strip

from cockpit.app.colours import NoticeApp
from cockpit.app.kept_frame import (
    Aged,
    Call,
    Frame,
    Place,
    StyledText,
    frames_dir,
    load,
    opened,
    place_of,
    save,
)
from cockpit.app.typeahead import stands
from cockpit.model.late_regex import late_regex
from cockpit.model.wording import Noting, aged, brief, clock_time
from cockpit.runtime.offload import offload
from cockpit.text.safe import Charset, drawn
from screens.fleet import FleetScreen
from screens.ports import Cockpit

SAVE_WITHIN: Final = 0.3
"""Seconds that leaving waits for it."""
_NOTED: Final = late_regex("([\U00100000-\U0010fffd])\\1*(?: \\1+)*")
Strips = Sequence[Strip]


class NotKeptError(Exception):
    """What is on the screen cannot be painted again later."""


class FrameFile:
    """Where one session keeps its frame; none once the run file has been edited meanwhile.

    What was shown of its former edition may not be so any more.
    """

    def __init__(self, run_file: str, call: Call) -> None:
        self._place = partial(place_of, frames_dir(), Path(run_file), opened(call))
        self._began = self._edition()

    async def save(self, frame: Frame, size: tuple[int, int]) -> None:
        """Write a frame, off the event loop, unless it says what the kept one says."""
        if self._began is not None and self._edition() == self._began:
            with suppress(TimeoutError, OSError):
                await offload(_save_if_new, self._place(size), frame, deadline=SAVE_WITHIN)

    def _edition(self) -> object:
        with suppress(OSError):
            return self._place((0, 0)).about["seen"]
        return None


def taken(
    paint: Callable[[float], Strips],
    now: float,
    charset: Charset,
    dark: bool,
    mark: str,
    colours: ColorSystem = ColorSystem.TRUECOLOR,
) -> Frame:
    """Return the frame that ``paint`` gives for a moment; raises ``NotKeptError``.

    It is painted twice, for that moment and for one that notes each age: every cell
    must be the same, or an age would stand there for ever.
    """
    plain = [strip.text for strip in paint(now)]
    noting = Noting(now)
    rows = tuple(tuple(_pieces(strip, noting, charset, colours)) for strip in paint(noting))
    if ["".join(piece.text for piece in row) for row in rows] != [drawn(t, charset) for t in plain]:
        raise NotKeptError("what was noted is not what is shown")
    return Frame(now, dark, mark, rows)


def words_and_ages(text: str, noting: Noting) -> Iterator[tuple[str, Aged | None]]:
    """Yield the parts of a painted text: words as they stand, and ages with what they are of.

    Raises ``NotKeptError`` for a letter that was not noted.
    """
    at = 0
    for found in _NOTED.finditer(text):
        if found.start() > at:
            yield text[at : found.start()], None
        at = found.end()
        about = noting.of(found[1])
        if about is None:
            raise NotKeptError("a letter that stands for nothing")
        form, since = about
        words = aged(form, since, float(noting))
        short = len(found[0]) <= len(brief(words))
        yield words[: len(found[0])], Aged(form, since, short)
    if at < len(text):
        yield text[at:], None


def filtered(line: Content, noting: Noting, keep: Callable[[Content], Content]) -> Content:
    """Return what a filter makes of a line in which ages were noted: it is asked about the words.

    Raises ``NotKeptError`` where the filter moves them.
    """
    words = "".join(part for part, _ in words_and_ages(line.plain, noting))
    if words == line.plain:
        return keep(line)
    kept = keep(Content(words, list(line.spans)))
    if len(kept.plain) != len(words):
        raise NotKeptError("what is masked has another length")
    shown = zip(kept.plain, words, line.plain, strict=True)
    return Content("".join(n if k == w else k for k, w, n in shown), list(kept.spans))


def style_of(strip: Strip, colours: ColorSystem) -> str:
    """Return how the first cell of a strip is styled, as SGR parameters."""
    style = next((segment.style for segment in strip), None)
    return "" if style is None else Strip.render_ansi(style, colours)


def _pieces(
    strip: Strip, noting: Noting, charset: Charset, colours: ColorSystem
) -> Iterator[StyledText]:
    cells = ((each.text, style_of(Strip([each]), colours)) for each in strip if each.text)
    for style, group in groupby(cells, key=lambda each: each[1]):
        for text, about in words_and_ages("".join(each for each, _ in group), noting):
            yield StyledText(drawn(text, charset), style, about)


def _save_if_new(place: Place, frame: Frame) -> None:
    kept = load(place, frame.at)
    if kept is None or _content_of(kept) != _content_of(frame):
        save(place, frame)


def _content_of(frame: Frame) -> tuple[object, ...]:
    """Return what a frame says: its rows, of which minute."""
    return clock_time(frame.at), int(frame.at // 3600), frame.dark, frame.mark, frame.rows


class LeftFrame:
    """Takes the frame once, when the app ends: nothing is painted from then on."""

    def __init__(self, file: FrameFile | None, app: NoticeApp, cockpit: Cockpit) -> None:
        self._file = file
        self._app = app
        self._cockpit = cockpit
        self._taken: Frame | None = None
        self.now: float | None = None
        """The moment to paint for while the frame is taken, and ever after."""

    def take(self) -> None:
        """Take the frame of the fleet, if it can be painted again later."""
        fleet = next(
            (each for each in self._app.screen_stack if isinstance(each, FleetScreen)), None
        )
        fits = fleet is not None and stands(fleet) and fleet.size == self._app.size
        if self._file is None or fleet is None or not fits or self._app.theme_chosen:
            return
        if all(each.not_read_yet is not None for each in self._cockpit.reports):
            return  # nothing is known yet: what was kept before says more

        def paint(now: float) -> Sequence[Strip]:
            self.now = now
            fleet.show()
            return fleet._compositor.render_strips()

        at, app = self._cockpit.now(), self._app
        try:
            mark = style_of(paint(at)[-1], app.colours) + ";7"
            dark = app.current_theme.dark
            self._taken = taken(paint, at, app.charset, dark, mark, app.colours)
        except NotKeptError:
            return
        except Exception as error:  # noqa: BLE001 - no fault of a screen keeps anybody from leaving
            self._app.keep_fault(error)

    def filtered(self, line: Content, keep: Callable[[Content], Content]) -> Content:
        """Return a line as it may be shown, whatever was noted in it."""
        return filtered(line, self.now, keep) if isinstance(self.now, Noting) else keep(line)

    async def save(self) -> None:
        """Write what was taken."""
        if self._file is not None and self._taken is not None:
            await self._file.save(self._taken, self._app.size)

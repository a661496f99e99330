"""Widgets that paint lines of their own, and only what has changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import ClassVar, Final, NamedTuple

from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from cockpit.model.late_regex import late_regex
from cockpit.model.report import RunReport
from cockpit.model.wording import Noting, text_lifetime

_CONTROL: Final = late_regex("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What no line may hold: the model's text is safe already, this is the last door."""

Filter = Callable[[Content], Content]
KEY: Final = "key"
"""The part of a style that names the key for which its text stands."""


class KeyClicked(Message):
    """A person clicked on what stands for a key; ``key`` is its name as it is shown."""

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key


def stands_for(key: str, line: Content) -> Content:
    """Return a line that presses a key where it is clicked."""
    return line.stylize(Style.from_meta({KEY: key}))


class Painted(Widget):
    """A widget that is a list of lines.

    A subclass returns its lines from ``paint``; ``repaint`` compares them with what stands on
    the screen and refreshes the differing ones, so that nothing is written for nothing. The
    app's ``paint_filter`` (ASCII, masking for a shared screen) is applied to every line.
    """

    ALLOW_SELECT: ClassVar[bool] = False
    DEFAULT_CSS = """
    Painted { width: 1fr; height: 1fr; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[Content] = []
        self._unfiltered: list[Content] = []
        """The lines before the app's filter."""
        self._form: object = None
        self._painted_for = Size(0, 0)

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the lines for this size."""
        raise NotImplementedError

    @property
    def lines(self) -> tuple[Content, ...]:
        """The lines as they were painted last."""
        return tuple(self._lines)

    def repaint(self) -> None:
        """Paint again and refresh the lines that changed."""
        width, height = self.size
        if not width or not height:
            self._painted_for = self.size  # it may come back in the size that it had
            return
        former, self._lines = self._lines, self._filtered(width, height)
        self._painted_for = self.size
        changed = [
            Region(0, y, width, 1)
            for y, (old, new) in enumerate(zip_longest(former, self._lines))
            if old is not new and (old is None or new is None or not old.is_same(new))
        ]
        if changed:
            self.refresh(*changed)

    def on_resize(self) -> None:
        """Paint for the new size; if it is painted already, only what changed since."""
        if self._painted_for == self.size:
            self.repaint()
        else:
            self._fit()
            self.refresh()

    def _fit(self) -> None:
        width, height = self._painted_for = self.size
        self._lines = self._filtered(width, height) if width and height else []

    def render_line(self, y: int) -> Strip:
        """Return one line, its styles resolved against the theme.

        A layout is painted before its widgets know their sizes: what would stand there
        until then is the former size's lines, or none.
        """
        if self._painted_for != self.size:
            self._fit()
        base, width = self.visual_style, self.size.width
        if y >= len(self._lines):
            return Strip.blank(width, base.rich_style)
        line = self._lines[y].truncate(width, pad=True)
        parse = self.app.stylesheet.parse_style
        pieces = line.render(base, end="", parse_style=parse)
        return Strip([Segment(piece, style.rich_style) for piece, style in pieces], width)

    def on_click(self, event: events.Click) -> None:
        """Press the key that is painted where a person clicked."""
        key = event.style.meta.get(KEY)
        if key is not None:
            self.post_message(KeyClicked(key))

    def kept(self, line: Content) -> Content:
        """Return a line as the app lets it be shown.

        Foreign lines are asked about before they are wrapped: half a path is no path any more.
        """
        keep: Filter | None = getattr(self.app, "paint_filter", None)
        return line if keep is None else keep(line)

    def _filtered(self, width: int, height: int) -> list[Content]:
        """Return the lines as they may be shown; one that is the same as before is not asked about.

        The app's ``paint_form`` is another one whenever its filter would say something else.
        """
        form: object = getattr(self.app, "paint_form", None)
        former = zip(self._unfiltered, self._lines, strict=False) if form == self._form else ()
        known = {id(painted): line for painted, line in former}
        painted = self.paint(width, height)[:height]
        lines = [known.get(id(line)) or self.kept(_harmless(line)) for line in painted]
        self._unfiltered, self._form = painted, form
        return lines


def _harmless(line: Content) -> Content:
    """Return ``line`` with every control character, one for one, made visible."""
    plain = line.plain
    if plain.isprintable() or _CONTROL.search(plain) is None:
        return line
    return Content(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", plain), list(line.spans))


UNPAINTED: Final = frozenset({"host", "code", "records"})
"""Facets of which nothing stands in a panel or a row: the load of a host moves with each look."""


class Kept(NamedTuple):
    """Painted lines, what they were painted from, and between which moments they are true.

    ``of_look`` tells that they go by when was looked, too.
    """

    report: RunReport
    about: tuple[object, ...]
    begin: float
    end: float
    lines: list[Content]
    of_look: bool

    def lasts(self, now: float) -> bool:
        """Return whether all ages in it read by now as they are painted."""
        return self.begin <= now < self.end

    def holds(self, report: RunReport, now: float, about: tuple[object, ...]) -> bool:
        """Return whether painting anew could only give the same."""
        if about != self.about or not self.lasts(now) or isinstance(now, Noting):
            return False
        return alike([report], [self.report], self.of_look)


def alike(reports: Sequence[RunReport], former: Sequence[RunReport], of_look: bool) -> bool:
    """Return whether what is painted of reports reads as of the former ones.

    ``of_look``: when was looked matters, too.
    """
    return len(reports) == len(former) and all(
        new is old or (not of_look and new.reads_as(old, UNPAINTED))
        for new, old in zip(reports, former, strict=True)
    )


def kept(
    report: RunReport,
    now: float,
    about: tuple[object, ...],
    paint: Callable[[], list[Content]],
    former: Kept | None = None,
) -> Kept:
    """Return what ``paint`` makes of a report ``now``, or ``former`` as long as that holds.

    Ages in it say for how long it lasts.
    """
    if former is not None and former.holds(report, now, about):
        return former._replace(report=report)  # the next question is a short one
    with text_lifetime() as words:
        lines = paint()
    return Kept(report, about, now, now + words.seconds, lines, words.of_look)

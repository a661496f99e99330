"""A logbook as it stands in its file, to be read."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from cockpit.model.safetext import SafeText
from widgets.base.painted import Filter
from widgets.base.scrolled import Scrolled
from widgets.painting.line import ACCENT, DIM, EMPTY, STRONG, foreign, text, wrapped

LONGEST = 12


class LogbookView(Scrolled):
    """Lines of Markdown, headings marked, long lines wrapped."""

    def __init__(self) -> None:
        super().__init__()
        self._text: Sequence[SafeText] = ()
        self._path = ""
        self._note = ""
        self._wrapped: tuple[int, list[Content]] | None = None

    def show(self, lines: Sequence[SafeText], path: str, note: str, at_end: bool) -> None:
        """Show a file's lines; ``at_end`` goes to the newest entry of an appended book."""
        if (tuple(lines), path) != (tuple(self._text), self._path):
            self._text, self._path, self._wrapped = lines, path, None
            self.cursor = 1 << 30 if at_end else 0
        self._note = note
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the wrapped lines."""
        if self._wrapped is None or self._wrapped[0] != width:
            lines = [piece for line in self._text for piece in _line(line, width, self.kept)]
            self._wrapped = (width, lines)
        return list(self._wrapped[1])

    def title(self) -> Content:
        """Return which file."""
        return text(("logbook ", STRONG), (self._path, DIM))

    def note(self) -> Content:
        """Return how it stands with it."""
        return text((self._note, DIM)) if self._note else EMPTY


def _line(line: SafeText, width: int, kept: Filter) -> list[Content]:
    shown = kept(foreign(line))
    if line.plain.startswith("#"):
        shown = shown.stylize(f"bold {ACCENT}" if line.plain.startswith("##") else STRONG)
    return wrapped(shown, width, LONGEST) or [EMPTY]

"""Small widgets of logbook and past: entries, how far a save has come, the band of the past."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from textual.content import Content

from cockpit.model.base import SafeText
from cockpit.model.history import Moment, Then
from cockpit.model.records import Recorded, SaveStage
from widgets.painted import Painted
from widgets.painting.journal import paint_band, paint_strip
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    Once,
    Part,
    foreign,
    row,
    text,
    wrapped,
)
from widgets.scrolled import Scrolled

LONGEST = 12


class LogbookView(Scrolled):
    """Lines of Markdown, headings marked, long lines wrapped."""

    def __init__(self) -> None:
        super().__init__()
        self._text: Sequence[SafeText] = ()
        self._path = ""
        self._note = ""
        self._wrapped = Once[list[Content]]()

    def show(self, lines: Sequence[SafeText], path: str, note: str, at_end: bool) -> None:
        """Show a file's lines; ``at_end`` goes to the newest entry of an appended book."""
        if (tuple(lines), path) != (tuple(self._text), self._path):
            self._text, self._path = lines, path
            self.cursor = 1 << 30 if at_end else 0
        self._note = note
        self.repaint()

    def body(self, width: int) -> list[Content]:
        """Return the wrapped lines."""
        return list(self._wrapped.of((self._text,), width, partial(self._rows, width)))

    def _rows(self, width: int) -> list[Content]:
        rows = list[Content]()
        for line in self._text:
            shown = self.kept(foreign(line))
            if line.plain.startswith("#"):
                shown = shown.stylize(f"bold {ACCENT}" if line.plain.startswith("##") else STRONG)
            rows += wrapped(shown, width, LONGEST) or [EMPTY]
        return rows

    def title(self) -> Content:
        """Return which file."""
        return text(("logbook ", STRONG), (self._path, DIM))

    def note(self) -> Content:
        """Return how it stands with it."""
        return text((self._note, DIM)) if self._note else EMPTY


_STAGES = (
    (SaveStage.SAVED, "saved"),
    (SaveStage.COMMITTED, "committed"),
    (SaveStage.PUSHED, "pushed"),
)
_RANK = {stage: place for place, stage in enumerate(SaveStage)}


def paint_save(recorded: Recorded | None, note: str, bad: bool, width: int) -> Content:
    """Return the line; ``note`` stands there until something is known of saving."""
    if recorded is None:
        return row(text(" ", (note, "$attention" if bad else DIM)), text(""), width)
    parts: list[Part] = [" "]
    for stage, word in _STAGES:
        if _RANK[recorded.stage] >= _RANK[stage]:
            commit = f" {recorded.commit[:7]}" if word == "committed" and recorded.commit else ""
            parts += [(f"✓ {word}{commit}", "$well"), "  "]
    if recorded.busy:
        parts.append((f"◌ {recorded.busy}…", ACCENT))
    elif recorded.trouble:
        missing = next((w for s, w in _STAGES if _RANK[s] > _RANK[recorded.stage]), "")
        parts += [(f"✗ not {missing}: ", "bold $critical"), recorded.trouble]
    left, right = text(*parts), text((note, "$attention" if bad else DIM) if note else "")
    if recorded.trouble and left.cell_length + 1 + right.cell_length > width:
        right = text("")
    return row(left, right, width)


class SaveState(Painted):
    """The line."""

    DEFAULT_CSS = """
    SaveState { height: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._recorded: Recorded | None = None
        self._text = ""
        self._bad = False

    def show(self, recorded: Recorded) -> None:
        """Show how far it has come."""
        self._recorded, self._text, self._bad = recorded, "", False
        self.repaint()

    def show_text(self, note: str, *, bad: bool = False) -> None:
        """Say something beside it."""
        self._text, self._bad = note, bad
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the line."""
        return [paint_save(self._recorded, self._text, self._bad, width)]


class PastBand(Painted):
    """A band that nobody takes for the present, and the strip that is scrubbed."""

    DEFAULT_CSS = """
    PastBand { height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: Then | None = None
        self._moments: Sequence[Moment] = ()
        self._at = self._now = 0.0
        self._why = ""

    def show(
        self, found: Then | None, at: float, now: float, moments: Sequence[Moment], why: str
    ) -> None:
        """Show a moment (``at``) among those kept; ``why``: what keeps it from being read."""
        self._found, self._at, self._now = found, at, now
        self._moments, self._why = moments, why
        self.repaint()

    def paint(self, width: int, height: int) -> list[Content]:
        """Return the band and the strip."""
        band = paint_band(self._found, self._at, self._now, width, self._why)
        return [band, paint_strip(self._moments, self._at, self._now, width)]

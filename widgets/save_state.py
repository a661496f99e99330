"""How saving stands, in one line that is always in sight: saved, committed, pushed, or why not."""

from __future__ import annotations

from textual.content import Content

from cockpit.model.records import Recorded, SaveStage
from widgets.base.painted import Painted
from widgets.painting.line import ACCENT, DIM, Part, row, text

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

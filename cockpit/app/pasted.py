"""Escape sequences in what is pasted: taken out, so that nothing behind them counts as a key.

Textual reads on for a sequence inside a bracketed paste, too, and tells what it does not know as
keys that were pressed: a coloured log lost half of its text, and a paste could type a confirmation.
"""

from __future__ import annotations

from typing import Final

from cockpit.model.late_regex import late_regex

START: Final = "\x1b[200~"
END: Final = "\x1b[201~"
LONGEST: Final = 64
"""Letters of a sequence for whose end the next read is waited for."""
_SEQUENCE: Final = late_regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\))?")
_BEGUN: Final = late_regex(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\r\n]*\x1b?)?\Z")


class Pastes:
    """Follows where pastes begin and end in what a terminal sends, however reads cut it."""

    def __init__(self) -> None:
        self._inside = False
        self._seen = ""
        self._held = ""

    def cleaned(self, data: str) -> str:
        """Return ``data`` without the sequences of pasted text; an unfinished one waits."""
        done: list[str] = []
        while data:
            part, data = self._pasted(data) if self._inside else self._typed(data)
            done.append(part)
        return "".join(done)

    def forget(self) -> None:
        """Take what was sent so far for no beginning of a paste: nothing came behind it in time."""
        self._seen = ""

    def _typed(self, data: str) -> tuple[str, str]:
        """Return what stands up to a paste's text, and the rest; a start may come in two reads."""
        seen = self._seen + data
        at = seen.find(START)
        if at < 0:
            self._seen = seen[1 - len(START) :]
            return data, ""
        text = at + len(START) - len(self._seen)
        self._inside, self._seen = True, ""
        return data[:text], data[text:]

    def _pasted(self, data: str) -> tuple[str, str]:
        """Return the text up to the paste's end with that end, and the rest."""
        text, end, rest = (self._held + data).partition(END)
        self._inside, self._held = not end, ""
        begun = None if end else _BEGUN.search(text, max(0, len(text) - LONGEST))
        if begun is not None:
            text, self._held = text[: begun.start()], text[begun.start() :]
        return _SEQUENCE.sub("", text) + end, rest

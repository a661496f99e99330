"""Esc and a key that came as one: tmux and slow lines join what is pressed within half a second.

Taken as alt+key it would be lost, and with it the wish to leave; or worse, only the Esc would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from textual import events
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.message import Message

from cockpit.app.background import Answers
from cockpit.app.pasted import Pastes

_ESC: Final = "\x1b"
_ALT: Final = "alt+"
_SHIFTED: Final = "shift+"
_OPENERS: Final = frozenset("[O]PX^_" + _ESC)
"""What begins a longer sequence behind Esc; the terminal's own, never two keys."""
_AS_IT_IS: Final = frozenset({"\x1b\x7f"})
"""alt+backspace deletes a word wherever text is typed."""
_CHARACTERS: Final = {"space": " ", "enter": "\r", "tab": "\t", "backspace": "\x7f"}
WORD_MOTION: Final = {"alt+b": "ctrl+left", "alt+f": "ctrl+right"}
"""What a terminal of a Mac sends for option and an arrow: by words, where text is edited."""


class KeyParser(XTermParser):
    """Textual's parser, which tells of Esc and a key in one as alt+key, whatever the key.

    Textual itself drops the Esc before Enter, Tab, signs and digits: Esc, Enter confirmed.
    """

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._answers = Answers(get_time())
        self._pastes = Pastes()

    def feed(self, data: str) -> Iterable[Message]:
        """Yield what was typed, and what the terminal has answered; no data is the end."""
        if not data:
            yield from super().feed(data)
        for part in self._answers.apart(self._pastes.cleaned(data), get_time()) if data else ():
            if isinstance(part, Message):
                yield part
            else:
                yield from super().feed(part)

    def patience(self) -> float | None:
        """Return the seconds after which ``tick`` has something to tell; ``None``: never."""
        due = [at for at in (self._timeout_time, self._answers.held_until) if at is not None]
        return max(0.0, min(due) - get_time()) if due else None

    def tick(self) -> Iterable[Message]:
        """Yield what nothing more belongs to, by now."""
        held = self._answers.late(get_time())
        if held == _ESC:  # held for as long as Textual itself waits for what comes behind it
            yield events.Key("escape", _ESC)
        elif held:
            yield from super().feed(held)
        yield from super().tick()
        if self.patience() is None:  # it comes after every read: a paste may just have begun
            self._pastes.forget()

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        joined = len(sequence) == 2 and sequence[0] == _ESC and sequence not in _AS_IT_IS
        if joined and sequence[1] not in _OPENERS:
            sequence, alt = sequence[1], True
        found = super()._sequence_to_key_events(sequence, alt=False)
        return map(_with_alt, found) if alt else found


def _with_alt(event: events.Key) -> events.Key:
    return events.Key(f"{_ALT}{event.key}", event.character)


def behind_escape(event: events.Key) -> events.Key | None:
    """Return the key that stood behind Esc, read when both were; ``None`` if this is no such."""
    if not event.key.startswith(_ALT):
        return None
    key = event.key[len(_ALT) :]
    letter = key.removeprefix(_SHIFTED)
    if letter != key and len(letter) == 1:
        key = letter.upper()
    one = event.character if event.character is not None and len(event.character) == 1 else None
    character = one or _CHARACTERS.get(key) or (key if len(key) == 1 else None)
    behind = events.Key(key, character)
    behind.time = event.time
    return behind

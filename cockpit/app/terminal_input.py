"""Reads the terminal: a thread that sleeps until a key comes, and a parser that mends what arrives.

Escape sequences inside a paste are removed, the answer to the question for the background colour is
taken out, and Esc joined with a key (tmux and slow lines do that) becomes alt+key, which the app
splits again.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from threading import Event
from typing import Final

from textual import events
from textual._parser import ParseError
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.constants import ESCAPE_DELAY
from textual.message import Message

from cockpit.app.output.stage import in_gnu_screen
from cockpit.model.late_regex import late_regex

QUESTION: Final = "\x1b]11;?\x1b\\"
ANSWER_WITHIN: Final = 3.0
"""Seconds after the question in which the first bytes of an answer are distinguished from keys."""
HELD: Final = ESCAPE_DELAY
"""Seconds for which what may be the beginning of an answer is held back."""
_ANSWER: Final = late_regex(
    r"\x1b\]11;(?:rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})"
    r"(?:/[0-9a-fA-F]{1,4})?|[^\x07\x1b]{0,64})(?:\x07|\x1b\\)"
)
_PARTIAL_ANSWER: Final = late_regex(r"\x1b(\](1(1(;[^\x07\x1b]{0,80}\x1b?)?)?)?)?\Z")
_SURE: Final = len("\x1b]1")
"""Characters from which on a beginning is an answer's, at any time: no keys come like that."""
_MUTE: Final = late_regex(r"linux|dumb|unknown|cons25|vt\d+.*")
"""Terminals that would show the question instead of answering it."""


class BackgroundAnswer(Message):
    """The terminal has said what its background is."""

    def __init__(self, dark: bool) -> None:
        super().__init__()
        self.dark = dark


def may_ask(variables: Mapping[str, str]) -> bool:
    """Return whether this terminal can be asked."""
    return not _MUTE.fullmatch(variables.get("TERM", ""))


def question(variables: Mapping[str, str]) -> str:
    """Return what to write: inside tmux also past it, to the terminal around it.

    GNU screen would write what is meant for tmux on the screen.
    """
    if not may_ask(variables):
        return ""
    if variables.get("TMUX") and not in_gnu_screen(variables):
        return QUESTION + f"\x1bPtmux;{QUESTION.replace(chr(27), chr(27) * 2)}\x1b\\"
    return QUESTION


def dark_by(variables: Mapping[str, str]) -> bool | None:
    """Return what ``COLORFGBG`` says (``15;0``, ``0;default;15``), ``None`` for nothing."""
    last = variables.get("COLORFGBG", "").rpartition(";")[2]
    if not last.isdecimal() or int(last) > 15:
        return None
    return int(last) <= 6 or int(last) == 8


class Answers:
    """Separates the terminal's answers from its keys; times are seconds of one clock."""

    def __init__(self, now: float) -> None:
        self._until = now + ANSWER_WITHIN
        self._held = ""
        self._held_at = now

    def apart(self, data: str, now: float) -> Iterator[str | BackgroundAnswer]:
        """Yield what was typed, and answers, in their order."""
        data, self._held = self._held + data, ""
        at = 0
        for found in _ANSWER.finditer(data):
            if data[at : found.start()]:
                yield data[at : found.start()]
            at = found.end()
            if found[1]:
                yield BackgroundAnswer(is_dark(*found.groups()))
        rest = data[at:]
        begun = _PARTIAL_ANSWER.search(rest)
        if begun is not None and (now < self._until or len(begun[0]) >= _SURE):
            self._held, self._held_at = begun[0], now
            rest = rest[: begun.start()]
        if rest:
            yield rest

    @property
    def held_until(self) -> float | None:
        """When what is held back is no answer any more; ``None`` while nothing is."""
        return self._held_at + HELD if self._held else None

    def late(self, now: float) -> str:
        """Return what was held back and is no answer after all."""
        if not self._held or now < self._held_at + HELD:
            return ""
        held, self._held = self._held, ""
        return held


def is_dark(red: str, green: str, blue: str) -> bool:
    """Return whether a colour (hexadecimal, 1 to 4 digits each) is rather dark than light."""
    parts = [int(each, 16) / float(16 ** len(each) - 1) for each in (red, green, blue)]
    shares = (0.299, 0.587, 0.114)
    return sum(share * part for share, part in zip(shares, parts, strict=True)) < 0.5


START: Final = "\x1b[200~"
END: Final = "\x1b[201~"
LONGEST: Final = 64
"""Letters of a sequence for whose end the next read is waited for."""
_SEQUENCE: Final = late_regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\))?")
_PARTIAL_SEQUENCE: Final = late_regex(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b\r\n]*\x1b?)?\Z")


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
        begun = None if end else _PARTIAL_SEQUENCE.search(text, max(0, len(text) - LONGEST))
        if begun is not None:
            text, self._held = text[: begun.start()], text[begun.start() :]
        return _SEQUENCE.sub("", text) + end, rest


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
        if not alt:
            return found
        return [events.Key(f"{_ALT}{each.key}", each.character) for each in found]


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


LOOK_AGAIN: Final = 0.1
"""Seconds between two looks at an input that has ended."""
_CHUNK: Final = 4096


class EndOfInput(Event):
    """An event that also wakes who waits for a descriptor."""

    def __init__(self) -> None:
        super().__init__()
        self.descriptor, self._bell = os.pipe()
        os.set_blocking(self._bell, False)

    def set(self) -> None:
        """Set it, and let ``descriptor`` be readable."""
        super().set()
        with suppress(BlockingIOError):
            os.write(self._bell, b"\0")

    def clear(self) -> None:
        """Take it back."""
        super().clear()
        while select.select([self.descriptor], [], [], 0)[0]:
            os.read(self.descriptor, _CHUNK)


def read_keys(
    terminal: int, end: EndOfInput, parser: KeyParser, take: Callable[[Message], object]
) -> None:
    """Hand what is typed to ``take`` until ``end`` is set; what came before that is taken too.

    Raises ``OSError`` when the terminal has gone.
    """
    decode = getincrementaldecoder("utf-8")("replace").decode

    def taken(messages: Iterable[Message]) -> None:
        for message in messages:
            take(message)

    try:
        ending = False
        while not ending:
            ending = end.is_set()
            patience = 0.0 if ending else parser.patience()
            ready, _, _ = select.select([terminal, end.descriptor], [], [], patience)
            if terminal in ready:
                typed = decode(os.read(terminal, _CHUNK), final=ending)
                if not typed and not ending:
                    end.wait(LOOK_AGAIN)  # nothing comes from where it has ended
                taken(parser.feed(typed) if typed else ())
            taken(parser.tick())
    finally:
        with suppress(EOFError, ParseError):
            taken(parser.feed(""))

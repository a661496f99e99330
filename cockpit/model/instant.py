"""Instants as text, and painted ages that note what they are reckoned from; light, loaded early."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

NO_TIME: Final = "unknown"
_FIRST: Final = 0x100000
"""The first of the letters that stand for what was noted: the last plane for private use."""
_MOST: Final = 0xFFFD


def rfc3339(instant: float) -> str:
    """Return ``instant`` (seconds since the epoch) as RFC 3339 in UTC, whole milliseconds."""
    try:
        moment = datetime.fromtimestamp(instant, tz=UTC)
    except (OverflowError, ValueError, OSError):
        return NO_TIME
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Noting(float):
    """A moment to paint for, which notes every age and day that is told of it.

    Painters are given it as ``now``. What they tell has its usual length, but a letter in place of
    its words, so that it is found again wherever it was put; ``of`` says what each stands for.
    """

    def __init__(self, _: float) -> None:
        self._letters: dict[tuple[str, float], str] = {}
        self._about: dict[str, tuple[str, float]] = {}

    def __sub__(self, since: float, /) -> Elapsed:
        """Return the seconds since then, which know when that was."""
        return Elapsed.of(self, since)

    def note(self, form: str, since: float, words: str) -> str:
        """Return what stands for words of this form about an instant."""
        letter = self._letters.get((form, since))
        if letter is None:
            letter = chr(_FIRST + min(len(self._letters), _MOST))
            self._letters[form, since] = letter
            self._about[letter] = form, since
        return " ".join(letter * len(word) for word in words.split(" "))

    def of(self, letter: str) -> tuple[str, float] | None:
        """Return form and instant of a letter; none, too, where there were too many to tell."""
        return self._about.get(letter) if len(self._about) == len(self._letters) else None


class Elapsed(float):
    """Seconds since an instant, at a moment that notes what is told of them."""

    now: Noting
    since: float

    @classmethod
    def of(cls, now: Noting, since: float) -> Elapsed:
        """Return the seconds from ``since`` to ``now``."""
        made = cls(float(now) - since)
        made.now, made.since = now, since
        return made

    def note(self, form: str, words: str) -> str:
        """Return what stands for words of this form."""
        return self.now.note(form, self.since, words)

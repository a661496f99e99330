"""Mask secrets in text that is shown, logged, committed or posted: the one place for it.

Scrub after escape sequences are gone (``safe``) and before text is cut to a tail, since a key
whose beginning was cut off is no longer recognised.
"""

from __future__ import annotations

import re

from cockpit.model.safetext import SafeText, Span
from cockpit.text.secret_names import is_placeholder
from cockpit.text.secret_rules import Range, secrets_in

__all__ = ["MASK", "Scrubber", "is_placeholder", "scrub", "scrub_line"]

MASK = "****"
"""What stands where a secret stood. It reads as a placeholder, so masking twice is harmless."""

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_LOG_PREFIX = r"(?:\[[^\]]*\]:?\s*)?"
_BODY = re.compile(r"[A-Za-z0-9+/]{32,}={0,2}")
_TAIL = re.compile(rf"^\s*{_LOG_PREFIX}(?P<value>[A-Za-z0-9+/]{{1,76}}={{0,2}})\s*$")
_FULL = re.compile(r"(?<![A-Za-z0-9+/=])(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{64}\s*$")
_LABEL = re.compile(rf"\s*{_LOG_PREFIX}(?:[\w-]+:\s|$)")


class Scrubber:
    """Masks line after line of one text, remembering when it is inside a private key."""

    def __init__(self) -> None:
        self._in_key = False

    def line(self, line: str) -> str:
        """Return ``line`` (no line break in it) with its secrets masked."""
        return _masked(line, self.ranges(line))

    def ranges(self, line: str) -> list[Range]:
        """Return what of ``line`` to mask, and follow a private key across lines."""
        if not self._in_key and "-----" not in line:
            return secrets_in(line)
        ranges: list[Range] = []
        at = 0
        while True:
            edge = (_END if self._in_key else _BEGIN).search(line, at)
            ranges += self._part(line, at, len(line) if edge is None else edge.start())
            if edge is None:
                return ranges
            self._in_key, at = edge.re is _BEGIN, edge.end()

    def _part(self, line: str, start: int, end: int) -> list[Range]:
        part = line[start:end]
        if self._in_key and "\\n" in part:  # a whole key in one line, its breaks written out
            return [(start, end)]
        if self._in_key:
            body = key_ranges(part)
            self._in_key = bool(body) or _LABEL.match(part) is not None
        if not self._in_key:  # never was, or the key was cut off and this is other text
            body = secrets_in(part)
        return [(start + low, start + high) for low, high in body]


def key_ranges(part: str) -> list[Range]:
    """Return the ranges of one line that are lines of a private key's body."""
    body = [found.span() for found in _BODY.finditer(part)]
    tail = None if body else _TAIL.match(part)
    return body if tail is None else [tail.span("value")]


def scrub(text: str) -> str:
    """Return ``text`` (one or many lines) with every secret replaced by :data:`MASK`.

    Private keys are followed across lines, also one whose first lines were cut off.
    """
    lines = text.split("\n")
    if len(lines) > 1:
        _mask_headless_keys(lines)
    scrubber = Scrubber()
    return "\n".join(map(scrubber.line, lines))


def scrub_line(line: SafeText) -> SafeText:
    """Return ``line`` with its secrets masked and its colour spans moved along."""
    ranges = Scrubber().ranges(line.plain)
    if not ranges:
        return line
    spans = (
        Span(_moved(span.start, ranges), _moved(span.end, ranges), span.style)
        for span in line.spans
    )
    kept = tuple(span for span in spans if span.start < span.end)
    return SafeText(plain=_masked(line.plain, ranges), spans=kept)


def _masked(line: str, ranges: list[Range]) -> str:
    for start, end in reversed(ranges):
        line = line[:start] + MASK + line[end:]
    return line


def _moved(place: int, ranges: list[Range]) -> int:
    """Return where ``place`` is after masking; inside a secret it is the mask's end."""
    shift = 0
    for start, end in ranges:
        if place <= start:
            break
        if place < end:
            return start + shift + len(MASK)
        shift += len(MASK) - (end - start)
    return place + shift


def _mask_headless_keys(lines: list[str]) -> None:
    """Mask key lines, in place, whose BEGIN is missing: above an END, or two full ones."""
    begun = False
    for number, line in enumerate(lines):
        if _BEGIN.search(line):
            begun = True
        if _END.search(line):
            if not begun:
                _mask_upwards(lines, number - 1)
            begun = False
        if number and not begun and _FULL.search(line) and _FULL.search(lines[number - 1]):
            _mask_upwards(lines, number)


def _mask_upwards(lines: list[str], number: int) -> None:
    """Mask the key line ``number``, which may be a short last one, and the full ones above."""
    while number >= 0 and (ranges := key_ranges(lines[number])):
        lines[number] = _masked(lines[number], ranges)
        number -= 1
        if number >= 0 and not _BODY.search(lines[number]):
            return

"""What was told to all, as lines of a logbook that anybody can read and every cockpit finds again.

``- owner: `bob`, from `ada` (2026-03-11T08:55:31.250000Z, typed by `ada (login root)`)``.
Values stand in code spans that they cannot leave. A line in a fence, a comment, a quote or a
table is not one. All other text that a program writes into a logbook passes ``quoted``, at its
one door (``cockpit.records.logbook.forms.foreign``): what a trainer prints hands nothing over and
rejects nothing. Only what a person types into the file itself is taken at its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from cockpit.model.shared_facts import KINDS, Told, instant_in
from cockpit.text.code_span import code_span, value_of
from cockpit.text.logbook_scan import read_entries, scan
from cockpit.text.markdown_blocks import Blocks, split_lines
from cockpit.text.rejections import whole_lines
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

MOST: Final = 2000
"""Lines that are kept of one file: the newest ones by their own time."""
_SPAN: Final = r"(?P<{0}ticks>`+)(?!`)(?P<{0}text>.*?[^`])(?P={0}ticks)(?!`)"
_LABEL: Final = r"(?:[*_`]{0,3}[A-Za-z][A-Za-z /]{0,30}[*_`]{0,3}:[*_`]{0,3}[ \t]+)?"
_LINE: Final = re.compile(
    rf"[ \t]*(?:[-*+][ \t]+)?{_LABEL}(?P<what>{'|'.join(KINDS)}):[ \t]+{_SPAN.format('v')}"
    rf"(?P<rest>.*?)[ \t]+\((?P<at>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{{1,6}})?Z), "
    rf"typed by {_SPAN.format('t')}\)[ \t]*"
)
_PART: Final = re.compile(rf",[ \t]+(?P<name>[a-z][a-z ]{{0,30}}?)[ \t]+{_SPAN.format('p')}")
_WORDS: Final = (
    *(rf"{what[0]}(?={what[1:]}:\s+`)" for what in KINDS),
    *(rf"(?i:{word[0]}(?={word[1:]}[*_]{{0,3}}\s*[:—–-]))"
      for word in (r"rejected\s+checkpoint", r"rejection\s+withdrawn")),
)  # fmt: skip
_READ: Final = re.compile("|".join(_WORDS))
_APART: Final = "\N{ZERO WIDTH SPACE}"


def told_line(told: Told) -> str:
    """Return the line, without a bullet; ``read_told`` gives back what was told."""
    parts = "".join(f", {name} {_span(text)}" for name, text in told.parts.items() if text)
    moment = datetime.fromtimestamp(told.at, UTC).isoformat(timespec="microseconds")
    at = moment.replace("+00:00", "Z")
    return f"{told.what}: {_span(told.value)}{parts} ({at}, typed by {_span(told.typed_by)})"


def told_lines(told: Iterable[Told]) -> str:
    """Return the Markdown for an entry: a bullet each."""
    return "\n".join(f"- {told_line(each)}" for each in told)


def read_told(text: str, source: str, until: float) -> tuple[Told, ...]:
    """Return what a logbook's entries tell; what lies after ``until`` was not told by then."""
    if not any(f"{what}:" in text for what in KINDS):
        return ()
    found = [
        told
        for entry in read_entries(text)
        for line in whole_lines(scan(split_lines(entry.text), Blocks(), entry.line + 1))
        if (told := _told(line, source)) is not None and told.at <= until
    ]
    return _newest(found)


def read_plain(text: str, source: str, until: float) -> tuple[Told, ...]:
    """Return what a plain file of such lines tells."""
    found = (_told(line, source) for line in split_lines(text))
    return _newest([each for each in found if each is not None and each.at <= until])


def quoted(text: str) -> str:
    """Return text that, in an entry, neither tells nor rejects anything, however it is wrapped.

    Every word that a reader looks for, wherever it stands, is split by what nobody sees.
    """
    return _READ.sub(lambda found: found[0] + _APART, text)


def _newest(found: list[Told]) -> tuple[Told, ...]:
    return tuple(sorted(found, key=lambda each: each.at)[-MOST:])


def _told(line: str, source: str) -> Told | None:
    match = _LINE.fullmatch(line)
    at = None if match is None else instant_in(match["at"])
    if match is None or at is None:
        return None
    parts = dict(_parts(match["rest"]))
    return Told(
        what=match["what"],
        value=_safe(match["vtext"]),
        at=at,
        typed_by=_safe(match["ttext"]),
        parts=parts,
        source=source,
    )


def _parts(text: str) -> Iterator[tuple[str, str]]:
    for found in _PART.finditer(text):
        yield found["name"], _safe(found["ptext"])


def _span(text: str) -> str:
    return code_span(text or "?")


def _safe(text: str) -> str:
    """Return a span's text: what was escaped is shown, never sent to a terminal as it is."""
    return scrub(clean(value_of(text), 1000))

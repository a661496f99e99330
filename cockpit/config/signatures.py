"""Signatures of one's own: each is tried on its own lines, and on long ones, before it counts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from time import thread_time
from typing import Any, Final

from cockpit.config.check import Trouble, checked, unknown_key
from cockpit.config.reading import KeyPath
from cockpit.model.own_rules import SignatureSpec, expression

LONGEST: Final = 1000
"""Characters of a line that a pattern is tried on."""
SLOW: Final = 0.02
"""Seconds of work that a pattern may take for one line: a log has 20,000."""
TRIES: Final = 3
"""Trials of which the quickest counts: the machine may be busy."""
_GROWTH: Final = 1.4
"""Each line is so much longer than the one before: what grows fast is caught while it is short."""
_FIRST: Final = 16
_CUTS: Final = 4
"""Places of an example behind which a long line goes on."""
_MARKS: Final = re.compile(r"[^\w\s]")
_MOST_MARKS: Final = 32
"""Signs of the pattern and its lines, as of a ruler (``####``), that make a line long."""
_WORD_END: Final = re.compile(r"\b")
_MOST: Final = 1000
"""Signatures of a run that are read."""


def signature_file(data: Mapping[str, Any]) -> tuple[SignatureSpec, ...] | list[Trouble]:
    """Return the signatures of a team's file, or of a run file's runs, or what is wrong."""
    troubles: list[Trouble] = []
    found: list[SignatureSpec] = []
    runs = data.get("run")
    for key in () if isinstance(runs, list) else data.keys() - {"signature"}:
        troubles.append(Trouble((key,), unknown_key((key,), ["signature"])))
    tables: list[tuple[KeyPath, object]] = [((), data)]
    tables += [(("run", at), run) for at, run in enumerate(runs if isinstance(runs, list) else ())]
    for at, table in tables:
        rows = table.get("signature", []) if isinstance(table, dict) else []
        if not isinstance(rows, list):
            wrong = "expected [[signature]], in double brackets, for each"
            troubles.append(Trouble((*at, "signature"), wrong))
            continue
        for place, row in enumerate(rows[:_MOST]):
            made = checked(SignatureSpec, row, (*at, "signature", place))
            if isinstance(made, list):
                troubles += made
            else:
                troubles += _row_troubles(made, (*at, "signature", place))
                found.append(made)
    if not troubles and not found:
        troubles.append(Trouble((), "has no [[signature]]; expected at least one"))
    return troubles or tuple(found)


def signature_troubles(rows: Sequence[SignatureSpec], at: KeyPath) -> Iterator[Trouble]:
    """Yield what is wrong with the patterns and lines of a run's signatures."""
    for place, row in enumerate(rows[:_MOST]):
        yield from _row_troubles(row, (*at, place))


def _row_troubles(row: SignatureSpec, at: KeyPath) -> Iterator[Trouble]:
    if not row.examples:
        yield Trouble((*at, "examples"), "expected at least one line that the pattern finds")
    wrong = pattern_trouble(row.pattern, (*row.examples, *row.others))
    if wrong is not None:
        yield Trouble((*at, "pattern"), wrong)
        return
    compiled = re.compile(expression(row.pattern), re.I)
    for index, line in enumerate(row.examples):
        if compiled.search(line[:LONGEST]) is None:
            yield Trouble((*at, "examples", index), "its own pattern does not find this line")
    for index, line in enumerate(row.others):
        if compiled.search(line[:LONGEST]) is not None:
            yield Trouble((*at, "others", index), "its own pattern finds this line")


@lru_cache(maxsize=4096)
def pattern_trouble(pattern: str, lines: tuple[str, ...]) -> str | None:
    """Return why a pattern cannot be used, ``None`` where it can.

    ``lines`` are like those that it meets. Each pattern is tried once: a run file is read again
    whenever it changes.
    """
    try:
        compiled = re.compile(expression(pattern), re.I)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression: {error}"
    if compiled.search("") is not None:
        return "finds every line, an empty one too; expected words that only such a line has"
    if _is_slow(compiled, _long_lines(pattern, lines)):
        return (
            "is slow on long lines; bound what stands between words"
            " (.{0,80}), and repeat nothing that repeats itself, such as (a+)+"
        )
    return None


def _long_lines(pattern: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield beginnings of lines, and what makes them long.

    A pattern is slow where it has come far and then fails: behind a part of a line that it finds.
    """
    words = tuple(dict.fromkeys(re.findall(r"\w+", pattern)))[:_CUTS]
    marks = tuple(dict.fromkeys(_MARKS.findall(" ".join((pattern, *lines[:_CUTS])))))[:_MOST_MARKS]
    usual = ("a", "0", " ", "\t", "a ", "0.", *words, *marks, *(f"{mark} " for mark in marks))
    for text in lines[:_CUTS] or ("",):
        ends = [found.start() for found in _WORD_END.finditer(text[:LONGEST])]
        for cut in sorted({0, *ends[:: max(1, len(ends) // _CUTS)], len(text)}):
            own = {text[max(0, cut - 1) : cut], text[:cut].rpartition(" ")[2]} - {""}
            yield from ((text[:cut], filler) for filler in (*usual, *own))
    for before in words:
        yield from ((before, filler) for filler in usual)


def _is_slow(pattern: re.Pattern[str], lines: Iterable[tuple[str, str]]) -> bool:
    """Tell whether some line takes long, each begun short: what explodes is caught early."""
    for text, filler in lines:
        length = float(_FIRST)
        while length < LONGEST * _GROWTH:
            line = (text + filler * (int(length) // len(filler)) + "\x00")[-LONGEST:]
            if (
                _seconds(pattern, line) > SLOW
                and min(_seconds(pattern, line) for _ in range(TRIES)) > SLOW
            ):
                return True
            length *= _GROWTH
    return False


def _seconds(pattern: re.Pattern[str], line: str) -> float:
    begun = thread_time()
    pattern.search(line)
    return thread_time() - begun

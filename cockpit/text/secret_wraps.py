"""Secrets torn by a line break: a continued command, a folded line, a value below its name.

Only what is left over from the line before is kept, never more than ``KEPT`` characters of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder

TOLD: Final = 120
"""Characters of a line's end in which such a name is looked for."""
KEPT: Final = 512
"""Characters of a line's end that the next line is read behind."""
_LINES_BESIDE: Final = 4
"""Lines that may stand between a name and its value: a type, a description."""
Range = tuple[int, int]

_AWAITS: Final = late_regex(
    r"(?P<flag>--?)?\b(?P<name>[A-Za-z_][\w.-]*)(?P<end>[\"']?\s*(?::=|=>|[:=])\s*[\"']?"
    r"|[\"']?,?)\s*$"
)
_BLOCK: Final = late_regex(r"\b(?P<name>[A-Za-z_][\w.-]*)[\"']?:\s+[|>][-+]?\s*$")
_NAMED: Final = late_regex(
    r"^[\s\-{]*[\"']?(?:name|key)[\"']?\s*[:=]\s*[\"']?(?P<name>[A-Za-z_][\w.-]*)[\"']?,?\s*$"
    r"|^\s*variable\s+\"(?P<variable>[A-Za-z_][\w.-]*)\"\s*\{$",
    re.I,
)
_VALUE: Final = late_regex(
    r"^\s*[\"']?(?:value|default)[\"']?\s*[:=]\s*(?:\"(?P<d>[^\"]+)|'(?P<s>[^']+)"
    r"|(?P<b>[^\s\"',}]+))",
    re.I,
)
_PAIR: Final = late_regex(
    r"[\"']?\b(?:name|key)[\"']?\s{0,3}[:=]\s{0,3}[\"']?"
    r"(?P<name>[A-Za-z_][\w.-]{0,80}+)[\"']?[\s,;]{1,4}"
    r"[\"']?value[\"']?\s{0,3}[:=]\s{0,3}(?:\"(?P<d>[^\"]+)|'(?P<s>[^']+)|(?P<b>[^\s\"',}\]]+))",
    re.I,
)
_BESIDE: Final = late_regex(
    r"^\s*[\"']?(?:permissions|type|description|sensitive)[\"']?\s*[:=]", re.I
)
_ALONE: Final = late_regex(r"[A-Za-z_][\w.-]*$")
_INPUT: Final = late_regex(r"\binput_value=(?P<quote>[\"'])(?P<value>(?:(?!(?P=quote)).)+)")
"""What pydantic quotes below the name of a field that it rejects."""
_REST: Final = late_regex(r"^\s*(?P<rest>[\w+/=.-]{4,})[\"']?[,;)\]}]*\s*$")
_FIRST: Final = late_regex(r"^\s*[\"']?(?P<first>[\w+/=.~-]{12,})")
_WHOLE: Final = late_regex(
    r"(?:hf_\w{34}|gh[pousr]_\w{36}|github_pat_\w{82}|glpat-[\w-]{20}|A[KS]IA\w{16}|AIza[\w-]{35}"
    r"|[0-9a-f]{40}|[0-9a-f]{64})$"
)
"""Formats of a known length that are complete."""


def may_wrap(line: str, ranges: list[Range]) -> bool:
    """Return whether the next line may have to be read behind this one: mostly not."""
    return (
        bool(ranges)
        or " " not in line
        or not line[-1:].isalnum()
        or " --" in line[-TOLD:]
        or "name" in line
    )


class Wraps:
    """Remembers how a line ended, and tells what of the next one still belongs to a secret."""

    def __init__(self) -> None:
        self._tail = ""
        self._kind = ""
        self._left = 0

    @property
    def open(self) -> bool:
        """True when the last line may go on in the next one."""
        return bool(self._kind)

    def ranges(self, line: str, find: Callable[[str], list[Range]]) -> list[Range]:
        """Return where a secret of the line before goes on in ``line``; ``find`` looks in text."""
        if self._kind == "value":
            return _value(line)
        if self._kind == "input":
            return [found.span("value") for found in _INPUT.finditer(line)]
        if self._kind == "block":
            body = line.strip()
            return [(line.index(body), line.index(body) + len(body))] if body else []
        if self._kind == "torn":
            return self._torn(line)
        if self._kind == "awaited":
            first = _FIRST.match(line)
            return [first.span("first")] if first and is_dense(first["first"]) else []
        joined = self._tail + line.lstrip()
        shift = len(self._tail) - (len(line) - len(line.lstrip()))
        return [
            (max(low, len(self._tail)) - shift, high - shift)
            for low, high in find(joined)
            if high > len(self._tail)
        ]

    def remember(self, line: str, ranges: list[Range]) -> None:
        """Keep what the next line has to be read behind: mostly nothing."""
        ended = line.rstrip()
        if self._kind == "value" and self._left and _BESIDE.match(line):
            self._left -= 1
            return
        self._kind, self._tail, self._left = "", "", _LINES_BESIDE
        if ended.endswith("\\") and not ended.endswith("\\\\"):
            self._kind, self._tail = "continued", ended[-KEPT:-1]
        elif ranges and ranges[-1][1] == len(line):
            if not _WHOLE.search(line[-KEPT:]):
                self._kind, self._tail = "torn", line[ranges[-1][0] : ranges[-1][1]][-KEPT:]
        elif ended:
            self._kind = _awaited(ended[-TOLD:])

    def _torn(self, line: str) -> list[Range]:
        rest = _REST.match(line)
        if rest is None:
            return []
        whole = self._tail + rest["rest"]
        alike = _WHOLE.search(whole) or (is_dense(self._tail) or is_dense(rest["rest"]))
        mixed = re.search(r"\d", rest["rest"]) and re.search(r"[A-Za-z]", rest["rest"])
        return [rest.span("rest")] if alike and mixed else []


def _awaited(end: str) -> str:
    """Return in what way the next line may be the value of a name that this line ends with."""
    last = end[-1]
    if last in "|>-+" and (block := _BLOCK.search(end)):
        return "block" if is_named_secret(block["name"]) else ""
    if (last in ":=\"'>," or " --" in end) and (awaits := _AWAITS.search(end)):
        joined = any(sign in awaits["end"] for sign in ":=")
        if (awaits["flag"] or joined) and is_named_secret(awaits["name"]):
            return "awaited"
    if (last == "{" or "name" in end.lower()) and (named := _NAMED.match(end)):
        return "value" if is_named_secret(named["name"] or named["variable"]) else ""
    return "input" if _ALONE.match(end) and is_named_secret(end) else ""


def _value(line: str) -> list[Range]:
    value = _VALUE.match(line)
    if value is None:
        return []
    start, end = _span(value)
    return [] if is_placeholder(line[start:end]) else [(start, end)]


def pairs_in(line: str) -> Iterator[Range]:
    """Yield the values of ``{"name": "DB_PASSWORD", "value": …}``."""
    for pair in _PAIR.finditer(line):
        start, end = _span(pair)
        if is_named_secret(pair["name"]) and not is_placeholder(line[start:end]):
            yield start, end


def _span(value: re.Match[str]) -> Range:
    return value.span(next(name for name in "dsb" if value[name] is not None))

"""Secrets by the place they stand in: a tool's command line, a line below a name, a torn line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, is_tight
from cockpit.text.secret_rows import tools

_PIPED: Final = late_regex(
    r"(?:\becho\s+(?:-\w+\s+)?|\bprintf\s+(?:[\"']?%\w+(?:\\n)?[\"']?\s+)?)(?:\"(?P<vd>[^\"]+)\""
    r"|'(?P<vs>[^']+)'|(?P<vb>[^\s\"'|]+))"
    r"\s*\|\s*[^|]{0,120}?(?:-stdin\b|--with-token\b|\bsudo\b[^|]{0,20}\s-S\b|\blogin\b"
    r"|\b(?:chpasswd|kinit)\b"
    r"|\bsecrets? (?:set|create|add)\b"
    r"|\bsecrets?\b[^|]{0,120}(?:stdin|=-))"
)
"""A secret that is written into a pipe: ``echo "$PASSWORD" | docker login``."""
_FED: Final = late_regex(
    r"\bsecrets?\b[^<]{0,160}<\(\s*(?:echo|printf)\s+(?:-n\s+)?"
    r"(?:\"(?P<vd>[^\"]+)|'(?P<vs>[^']+)|(?P<vb>[^\s\"')]+))"
)
_HERE: Final = late_regex(
    r"(?:--with-token|-stdin|\blogin)\b[^<]{0,40}<<<\s*"
    r"(?:\"(?P<vd>[^\"]+)|'(?P<vs>[^']+)|(?P<vb>[^\s\"']+))"
)


def tool_secrets(line: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges in ``line`` that its commands take as secrets; ``words``: it, split."""
    by_tool = tools()
    if not by_tool.keys().isdisjoint(words) or "/" in line:
        for tool in by_tool.keys() & line.replace("/", " ").split():
            for rule in by_tool[tool]:
                yield from _secret_ranges(rule, line)
    if "echo" in line or "printf" in line:
        yield from _secret_ranges(_PIPED, line)
        yield from _secret_ranges(_FED, line)
    if "<<<" in line:
        yield from _secret_ranges(_HERE, line)


def _secret_ranges(rule: re.Pattern[str], line: str) -> Iterator[tuple[int, int]]:
    at = 0
    while match := rule.search(line, at):
        group = next(name for name in ("vd", "vs", "vb") if match[name] is not None)
        if not is_placeholder(match[group]):
            yield match.span(group)
        at = match.end()


Range = tuple[int, int]

_OPENS: Final = late_regex(
    r"(?P<indent>[\s-]*)[\"']?(?P<name>data|stringData|secrets?|credentials|tokens|passwords"
    r"|api_?keys)[\"']?\s{0,3}[:=]\s{0,3}\{?\s*$",
    re.I,
)
_ENTRY: Final = late_regex(
    r"(?P<indent>\s*)[\"']?[\w.-]{1,80}[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<value>[^\s\"',]+)[\"']?,?"
    r"\s*$"
)
_ENCODED: Final = late_regex(r"(?=[A-Za-z0-9+/]*\d)[A-Za-z0-9+/]{16,}={0,2}$")
_CELL: Final = late_regex(r"\s*[\"']?(?P<name>[A-Za-z][A-Za-z _.-]{0,40})[\"']?\s*$")
"""A column's head: `` API key ``."""
_RULER: Final = late_regex(r"[\s|:+=-]+$")
"""The line below a table's head: ``|---|---|``."""
_NOUNS: Final = ("ecret", "ECRET", "assw", "ASSW", "oken", "OKEN", "key", "KEY", "Key")


def may_begin(line: str) -> bool:
    """Return whether a block or a table may begin with ``line``: mostly not."""
    if line[-1:] in (":", "{"):
        return True
    if "," not in line and "|" not in line:
        return False
    for noun in _NOUNS:  # noqa: SIM110 - a plain loop is twice as fast
        if noun in line:
            return True
    return False


class Blocks:
    """Remembers the head of a block or of a table while its lines last."""

    def __init__(self) -> None:
        self._indent: int | None = None
        self._encoded = False
        self._mark = ""
        self._cells: tuple[str, ...] = ()

    @property
    def open(self) -> bool:
        """True while what a line above has named may still come."""
        return self._indent is not None or bool(self._cells)

    def ranges(self, line: str) -> list[Range]:
        """Return what of ``line`` is secret by a line above, and remember what it begins."""
        found = self._entry(line) if self._indent is not None else self._row(line)
        if not self.open:
            self._begin(line)
        return found

    def _entry(self, line: str) -> list[Range]:
        entry = _ENTRY.match(line)
        if entry is None or len(entry["indent"]) <= (self._indent or 0):
            if line.strip():
                self._indent = None
            return []
        made = _ENCODED.match(entry["value"]) if self._encoded else is_tight(entry["value"])
        if not made or is_placeholder(entry["value"]):
            return []
        return [entry.span("value")]

    def _row(self, line: str) -> list[Range]:
        if not self._cells or (self._mark == "|" and _RULER.match(line)):
            return []
        cells = line.split(self._mark)
        if len(cells) != len(self._cells):
            self._cells = ()
            return []
        found, at = [], 0
        for name, cell in zip(self._cells, cells, strict=True):
            value = cell.strip().strip("\"'")
            if name and is_dense(value) and is_named_secret(name, value):
                start = at + cell.index(value)
                found.append((start, start + len(value)))
            at += len(cell) + 1
        return found

    def _begin(self, line: str) -> None:
        opens = _OPENS.match(line)
        if opens:
            self._indent, self._encoded = len(opens["indent"]), opens["name"].lower() == "data"
            return
        mark = "|" if "|" in line else ","
        cells = line.split(mark)
        names = [_CELL.match(cell) for cell in cells]
        if len(cells) > 1 and all(names[1:-1]) and (names[-1] or not cells[-1].strip()):
            told = tuple(_name(each) for each in names)
            if any(told):
                self._mark, self._cells = mark, told


def _name(cell: re.Match[str] | None) -> str:
    """Return the name of a column that holds secrets, else an empty one."""
    name = cell["name"].strip().replace(" ", "_") if cell else ""
    return name if name and is_named_secret(name) else ""


TAIL_READ: Final = 120
"""Characters of a line's end in which such a name is looked for."""
KEPT: Final = 512
"""Characters of a line's end that the next line is read behind."""
_LINES_NEAR: Final = 4
"""Lines that may stand between a name and its value: a type, a description."""

_AWAITS: Final = late_regex(
    r"(?P<flag>--?)?\b(?P<name>[A-Za-z_][\w.-]*)(?P<end>[\"']?\s*(?::=|=>|[:=])\s*[\"']?"
    r"|[\"']?,?)\s*$"
)
_BLOCK: Final = late_regex(r"\b(?P<name>[A-Za-z_][\w.-]*)[\"']?:\s+[|>][-+]?\s*$")
"""YAML's block: the value follows on the next lines: ``token: |``."""
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
        or " --" in line[-TAIL_READ:]
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
            value = _VALUE.match(line)
            if value is None:
                return []
            start, end = _span(value)
            return [] if is_placeholder(line[start:end]) else [(start, end)]
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
        self._kind, self._tail, self._left = "", "", _LINES_NEAR
        if ended.endswith("\\") and not ended.endswith("\\\\"):
            self._kind, self._tail = "continued", ended[-KEPT:-1]
        elif ranges and ranges[-1][1] == len(line):
            if not _WHOLE.search(line[-KEPT:]):
                self._kind, self._tail = "torn", line[ranges[-1][0] : ranges[-1][1]][-KEPT:]
        elif ended:
            self._kind = _awaited(ended[-TAIL_READ:])

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


def pairs_in(line: str) -> Iterator[Range]:
    """Yield the values of ``{"name": "DB_PASSWORD", "value": …}``."""
    for pair in _PAIR.finditer(line):
        start, end = _span(pair)
        if is_named_secret(pair["name"]) and not is_placeholder(line[start:end]):
            yield start, end


def _span(value: re.Match[str]) -> Range:
    return value.span(next(name for name in "dsb" if value[name] is not None))

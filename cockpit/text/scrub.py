"""Mask secrets in text that is shown, logged, committed or posted: the one place for it.

Scrub after escape sequences are gone (``safe``) and before text is cut to a tail: a key whose
beginning was cut off is no longer recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.model.base import SafeText, Span, listed
from cockpit.model.late_regex import late_regex
from cockpit.text.safe import clean
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, named_secrets
from cockpit.text.secret_places import Blocks, Wraps, may_begin, may_wrap, pairs_in, tool_secrets
from cockpit.text.secret_shapes import formed_secrets, holds_any, may_hold_key, shaped_secrets

MASK = "****"
"""What stands where a secret stood. It reads as a placeholder, so masking twice is harmless."""

_BEGIN = late_regex(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-Lines: \d+")
"""Such as ``-----BEGIN OPENSSH PRIVATE KEY-----``."""
_END = late_regex(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
"""Such as ``-----END OPENSSH PRIVATE KEY-----``."""
_LOG_PREFIX = r"(?:\[[^\]]*\]:?\s*)?"
_BODY = late_regex(r"[A-Za-z0-9+/]{32,}={0,2}")
_TAIL = late_regex(
    rf"^\s*(?:{_LOG_PREFIX}|\S+ std(?:out|err) [FP] )(?P<value>[A-Za-z0-9+/]{{1,76}}={{0,2}})\s*$"
)
_FULL = late_regex(r"(?<![A-Za-z0-9+/=])(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{64}\s*$")
_LABEL = late_regex(rf"\s*{_LOG_PREFIX}(?:[\w-]+:\s|$)")


class Scrubber:
    """Masks line after line of one text, remembering when it is inside a private key."""

    def __init__(self) -> None:
        self._in_key = False
        self._wraps = Wraps()
        self._blocks = Blocks()

    def line(self, line: str) -> str:
        """Return ``line`` (no line break in it) with its secrets masked."""
        return _masked(line, self.ranges(line))

    def ranges(self, line: str) -> list[Range]:
        """Return what of ``line`` to mask, and follow a private key across lines."""
        if not self._in_key and "-----" not in line and "Private-Lines" not in line:
            return self._plain(line)
        ranges: list[Range] = []
        at = 0
        while True:
            inside = self._in_key
            edge = (_END if inside else _BEGIN).search(line, at)
            ranges += self._part(line, at, len(line) if edge is None else edge.start())
            if edge is None:
                return ranges
            self._in_key, at = not inside, edge.end()

    def _plain(self, line: str) -> list[Range]:
        ranges = secrets_in(line)
        if self._wraps.open:
            ranges = _apart([*ranges, *self._wraps.ranges(line, secrets_in)])
        if self._blocks.open or may_begin(line):
            ranges = _apart([*ranges, *self._blocks.ranges(line)])
        if self._wraps.open or may_wrap(line, ranges):
            self._wraps.remember(line, ranges)
        return ranges

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


Range = tuple[int, int]

_USERINFO = late_regex(r"://(?P<who>[^\s/'\"<>?#`\\]+)@(?!sha256:)")
"""A password in an address: ``https://ada:secret@host/x``."""
_SLASHED = late_regex(r"://[\w.%+-]{0,80}:(?P<value>(?!\d{1,5}/)[^\s'\"<>?#\\@:]{1,4096})@[\w-]")
"""A password with slashes in it, which no address may have and tools print all the same."""
_ELEMENT = late_regex(r"<(?P<name>[A-Za-z_][\w.:-]{0,80})(?:\s[^<>]{0,200})?>(?P<value>[^<\s]+)</")
"""Such as ``<password>hunter2</password>``."""
_NAMED_ELEMENT = late_regex(
    r"(?:<name>\s*(?P<name>[\w.:-]{1,80})\s*</name>\s*<value|\b(?:name"
    r"|key)=[\"'](?P<key>[\w.:-]{1,80})[\"'])"
    r"\s*>(?P<value>[^<\s]+)</"
)
"""A value whose name stands in a neighbour or an attribute: Hadoop, .NET, Java's properties."""
_ROW = late_regex(
    r"^\s*[\"']?(?P<name>[A-Za-z_][\w.-]{0,60})[\"']?\s?[,;]\s?[\"']?"
    r"(?P<value>[^\s\"',;]+)[\"']?\s*$"
)
"""A name and its value, as a table of two columns has them."""
_PGPASS = late_regex(
    r"^\s*[\w.*-]+:(?:\d{2,5}"
    r"|\*):[A-Za-z_*][\w.*-]*:[A-Za-z_*][\w.*-]*:(?P<value>(?=\S*[a-z])(?=\S*[\dA-Z])\S{8,})\s*$"
)
"""``host:port:database:user:password``, as PostgreSQL's file of passwords has it."""
_PROSE = late_regex(
    r"(?P<pass>pass(?:word|phrase|code|wd)|pwd)?(?:secret|token|key)?"
    r"(?: for (?:[^:]|:(?=//)){1,60}?)?(?: is(?: now)?:?|:| was"
    r"| =)\s{1,4}[\"'`]?(?P<value>[^\s\"'`,;]{6,})",
    re.I,
)
"""What a program tells in words: ``the password for ada is …``."""
_HUMPS = late_regex("[a-z][A-Z]")
_PROSE_WORDS = listed("password|passphrase|passcode|passwd|pwd|secret|token| key|-key", "|")
_LOOSE = late_regex(r"(?:secret|token)\s{1,4}[\"'`]?(?P<value>[^\s\"'`,;]{16,})", re.I)
_TELLING = (" is", " was", " =", ": ")
_HEX_40 = late_regex(r"\b[0-9a-f]{40}\b")
"""A W&B key looks like a commit: words decide: ``0123456789abcdef0123456789abcdef01234567``."""
_WANDB_CONTEXT = late_regex(r"(?i:wandb|w&b).*?(?i:login|key|password)", re.DOTALL)
"""Words that make such a word a key: ``wandb: paste an API key``."""

_HINTS = ("tok =", *listed(
    "token secret pass key auth bearer basic cookie wandb :// w&b identified cred tok= pwd sig "
    "jwt _pat hook curl hc-ping digest login client( psk"
))  # fmt: skip


def secrets_in(line: str) -> list[Range]:
    """Return the ranges of one line that are secrets, in order and apart from each other."""
    found: list[Range] = []
    words = line.split()
    if may_hold_key(words):
        found += shaped_secrets(line)
    low = line.lower()
    if holds_any(low, _HINTS):
        found += _by_context(line, low)
        found += formed_secrets(line, low)
        found += _userinfo(line)
        found += _wandb_keys(line)
        found += named_secrets(line)
        found += pairs_in(line) if "value" in low else ()
        found += _elements(line) if "</" in line else ()
        found += _row(line) if len(words) < 3 else ()
    if len(words) > 1:
        found += tool_secrets(line, words)
    elif ":" in line:
        found += _values(_PGPASS, line)
    return _apart(found) if found else found


def _by_context(line: str, low: str) -> Iterator[Range]:
    if holds_any(low, _TELLING):
        yield from _prose_secrets(line, low)
    for match in _LOOSE.finditer(line) if "secret " in low or "token " in low else ():
        if _is_secret_word(match["value"], password=False):
            yield match.span("value")


def _values(rule: re.Pattern[str], line: str) -> Iterator[Range]:
    for match in rule.finditer(line):
        if not is_placeholder(match["value"]):
            yield match.span("value")


def _prose_secrets(line: str, low: str) -> Iterator[Range]:
    for word in _PROSE_WORDS:
        at = low.find(word)
        while at >= 0:
            match = _PROSE.match(line, at + (word[0] in " -"))
            if match and _is_secret_word(match["value"], password=bool(match["pass"])):
                yield match.span("value")
            at = low.find(word, at + 1)


def _is_secret_word(value: str, *, password: bool) -> bool:
    """Return whether a word that follows ``password is`` is one: a sentence goes on in words."""
    mixed = value != value.lower() and value != value.upper()
    if is_placeholder(value) or value.startswith(("/", "~", "$", "http")):
        return False
    figures = any(map(str.isdigit, value)) or (password and len(_HUMPS.findall(value)) > 1)
    return figures and (any(map(str.isalpha, value)) if password else mixed and is_dense(value))


def _userinfo(line: str) -> Iterator[Range]:
    for match in _USERINFO.finditer(line):
        start, end = match.span("who")
        user, colon, password = match["who"].partition(":")
        if colon and password and not is_placeholder(password):
            yield (start if is_dense(user) else start + len(user) + 1), end
        elif is_dense(user):
            yield start, start + len(user)

    for match in _SLASHED.finditer(line) if "@" in line else ():
        if "/" in match["value"]:
            yield match.span("value")


def _elements(line: str) -> Iterator[Range]:
    for match in _ELEMENT.finditer(line):
        if is_named_secret(match["name"], match["value"]):
            yield match.span("value")
    for match in _NAMED_ELEMENT.finditer(line):
        if is_named_secret(match["name"] or match["key"], match["value"]):
            yield match.span("value")


def _row(line: str) -> Iterator[Range]:
    row = _ROW.match(line)
    if row and is_dense(row["value"]) and is_named_secret(row["name"], row["value"]):
        yield row.span("value")


def _wandb_keys(line: str) -> Iterator[Range]:
    """Yield 40-hex words that the words before them call a W&B key; others are commits."""
    for match in _HEX_40.finditer(line):
        before = line[max(0, match.start() - 100) : match.start()]
        if _WANDB_CONTEXT.search(before):
            yield match.span()


def _apart(found: list[Range]) -> list[Range]:
    """Return ``found`` sorted, overlapping ranges joined."""
    apart: list[Range] = []
    for start, end in sorted(found):
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        elif end > start:
            apart.append((start, end))
    return apart


LONGEST = 600
_WHOLE = 20_000
"""Characters that are scrubbed together: a secret that was cut is not recognised any more."""


def shown(text: object, limit: int = LONGEST) -> str:
    """Return foreign text as one safe line without secrets."""
    line = scrub(clean(text, _WHOLE))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"

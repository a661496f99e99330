"""Mask secrets in text that is shown, logged, committed or posted: the one place for it.

Scrub after escape sequences are gone (``safe``) and before text is cut to a tail, since a key
whose beginning was cut off is no longer recognised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.model.safetext import SafeText, Span
from cockpit.text.secret_names import is_dense, is_placeholder, named_secrets

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


Range = tuple[int, int]

_PREFIXES = (
    r"wandb_v1_[\w-]{16,}",
    r"\blocal-[0-9a-f]{40}\b",
    r"\bhf_[A-Za-z0-9]{20,}\b",
    r"\bapi_org_[A-Za-z0-9]{20,}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",
    r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}\b",
    r"\bAIza[\w-]{30,}",
    r"\bya29\.[\w.-]{16,}",
    r"\bGOCSPX-[\w-]{16,}",
    r"\bxox[a-z]-[\w-]{10,}",
    r"\bxapp-[\w-]{10,}",
    r"\bsk-ant-[\w-]{16,}",
    r"\bsk-(?:proj|svcacct|admin|or)-[\w-]{16,}",
    r"\bsk-[A-Za-z0-9]{20,}",
    r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"\bgsk_[A-Za-z0-9]{20,}",
    r"\br8_[A-Za-z0-9]{20,}",
    r"\bnvapi-[\w-]{20,}",
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{40,}",
    r"\bdckr_pat_[\w-]{20,}",
    r"\bdop_v1_[0-9a-f]{40,}",
    r"\btskey-[\w-]{16,}",
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?",
    r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}",
    r"\b\d{8,10}:AA[\w-]{30,}",
)
_SHAPE = re.compile("|".join(_PREFIXES))
_SHAPE_HINTS = (
    *("wandb_v1_", "local-", "hf_", "api_org_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-"),
    *("github_pat_", "AKIA", "ASIA", "ABIA", "ACCA", "A3T", "AIza", "ya29.", "GOCSPX-", "xox"),
    *("xapp-", "sk-", "sk_", "rk_", "gsk_", "r8_", "nvapi-", "npm_", "pypi-", "dckr_pat_"),
    *("dop_v1_", "tskey-", "SG.", "eyJ", "AGE-SECRET", ":AA"),
)
_CUT_SHAPE = re.compile(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-|xox[a-z]-|AKIA|AIza|ya29\.)[\w.-]{2,}…$"
)
"""A key whose end was cut off with the line."""

_HOOK = re.compile(
    r"(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/webhooks/|\.webhook\.office\.com/webhookb2/"
    r"|api\.telegram\.org/bot|hc-ping\.com/)(?P<value>[\w/@:.-]{8,})"
)
_USERINFO = re.compile(r"://(?P<who>[^\s/'\"<>?#`\\]+)@(?!sha256:)")
_BEARER = re.compile(
    r"\b(?i:bearer|basic|token|digest|apikey|negotiate)\s+(?P<value>[\w.~+/=-]{16,})"
)
_HEADER = re.compile(
    r"\b(?i:(?:proxy-)?authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?"
    r"(?:bearer|basic|token|apikey|digest|negotiate)\s+)(?P<value>[^\s\"',;}]+)"
)
_COOKIE = re.compile(r"\b(?i:(?:set-)?cookie[\"']?\s{0,4}:)\s*[\"']?(?P<value>[\w.-]+=[^\"'\r\n]+)")
_NETRC = re.compile(r"\b(?:login|account)\s+\S+\s+password\s+(?P<value>\S+)")
_NETRC_LINE = re.compile(r"^\s*password\s+(?P<value>\S+)\s*$")
_CURL_USER = re.compile(
    r"\b(?:curl|wget|http)\s[^|;]{0,120}?(?:-u|--user|--proxy-user)[ =]?[\"']?[\w.@-]*:"
    r"(?P<value>[^\s\"']+)"
)
_LOGIN_FLAG = re.compile(r"\b(?:sshpass|login)\s[^|;&]{0,120}?(?<=\s)-p\s*(?P<value>[^\s\"']+)")
_WANDB_LOGIN = re.compile(r"\bwandb\s+login\s+(?:--?[\w-]+(?:[= ]\S+)?\s+)*(?P<value>\w[\w-]{19,})")
_CONTEXTS = (
    *(_HOOK, _HEADER, _COOKIE, _NETRC, _NETRC_LINE, _CURL_USER, _LOGIN_FLAG, _WANDB_LOGIN),
)
_HEX_40 = re.compile(r"\b[0-9a-f]{40}\b")
_WANDB_CONTEXT = re.compile(r"(?i:wandb|w&b).*?(?i:login|key|password)", re.DOTALL)

_HINTS = (
    *("token", "secret", "pass", "key", "auth", "bearer", "basic", "cookie", "wandb", "://", "w&b"),
    *("credential", "pwd", "sig", "jwt", "_pat", "hook", "curl", "hc-ping", "digest", "login"),
)


def secrets_in(line: str) -> list[Range]:
    """Return the ranges of one line that are secrets, in order and apart from each other."""
    found: list[Range] = []
    if any(hint in line for hint in _SHAPE_HINTS):
        found += (match.span() for match in _SHAPE.finditer(line))
    if line.endswith("…"):
        found += (match.span() for match in _CUT_SHAPE.finditer(line))
    low = line.lower()
    if any(hint in low for hint in _HINTS):
        found += _by_context(line)
        found += _userinfo(line)
        found += _wandb_keys(line)
        found += named_secrets(line)
    return _apart(found)


def _by_context(line: str) -> Iterator[Range]:
    for rule in _CONTEXTS:
        for match in rule.finditer(line):
            if not is_placeholder(match["value"]):
                yield match.span("value")
    for match in _BEARER.finditer(line):
        if is_dense(match["value"]):
            yield match.span("value")


def _userinfo(line: str) -> Iterator[Range]:
    for match in _USERINFO.finditer(line):
        start, end = match.span("who")
        user, colon, password = match["who"].partition(":")
        if colon and password and not is_placeholder(password):
            yield start + len(user) + 1, end
        elif not colon and is_dense(user):
            yield start, end


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

"""The rules that find secrets in one line of text: by name, by context and by known shape.

Own rules on the standard library, since finders made for source code miss command lines and
logs. A bare 40-hex word is a git commit unless its context says that it is a W&B key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from cockpit.text.secret_names import is_dense, is_placeholder, named_secrets

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

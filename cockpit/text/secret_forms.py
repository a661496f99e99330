"""Secrets by the form of what they stand in: a pair of credentials, a statement, a sentence.

No name stands right before these: ``HTTPBasicAuth('ada', …)``, ``%26access_token%3D…`` in an
address inside an address, ``IDENTIFIED BY '…'``, ``retrying with api key …``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, is_tight
from cockpit.text.secret_shapes import holds_any

Range = tuple[int, int]
_Test = Callable[[str], bool]

_PAIR: Final = late_regex(
    r"\b(?:\w{0,40}(?:[aA]uth|AUTH|[cC]red(?:ential)?s?|CRED(?:ENTIAL)?S?|[lL]ogin)\s{0,3}"
    r"(?:[=:]\s{0,3})?\(|--(?:auth|login|credentials?|proxy-auth)[ =])\s{0,3}"
    r"(?P<quote>[\"'])[^\"'\s]{0,80}(?P=quote)\s{0,3},\s{0,3}(?P=quote)(?P<value>[^\"']+)"
)
"""A user and a password handed over together."""
_ESCAPED: Final = late_regex(
    r"(?:%(?:25)*(?:26|3[fF])|\\u0026|\\x26)(?P<name>[A-Za-z][\w.-]{0,60})(?:%(?:25)*3[dD]|="
    r"|\\u003[dD])"
    r"(?P<value>(?:[\w.~+/-]|%(?!(?:25)*26)[0-9A-Fa-f]{2})+)"
)
"""A part of a query whose ``&`` is written as an address, JSON or Python writes it."""
_SENDERS: Final = (
    "apprise atalk azure bark betterstack bluesky brevo bsky chanify clickatell cliq cm "
    "dingtalk discord feishu firehydrant flock fluxer freemobile gchat goalert gotify "
    "groundmail groupme guilded hassio ifttt ilert incidentio jira join kakao kakaotalk "
    "kavenegar kook kumulos lametric lark lauther lfg line mailersend mailgun matrix mmost "
    "msg91 msgbird nostr notica notifiarr notifico notifyre o365 octopush onesignal opsgenie "
    "pagerduty pagertree pbul pingram pjet postmark pover prowl psafer push pushdeer pushed "
    "pushme pushplus pushward pushy qq reddit resend revolt ringc ryver schan sendgrid "
    "sendpulse ses seven sfr signalgrid signl4 simplepush slack smstunnel smtp2go sns "
    "sparkpost spike splunk spugpush spush squadcast stackfield strmlabs synology tgram "
    "threema trigv tweet twist twitter viber victorops voipms webex wecom wecombot whapi "
    "whatsapp workflow wpush wxpusher wxteams x youlmk zalo zcliq zohocliq zoom zulip"
)
"""Schemes of notification services (apprise) whose keys stand in the place of a host or a path."""
_SENDER: Final = late_regex(
    rf"\b(?:{_SENDERS.replace(' ', '|')})s?://(?=[^\s\"'<>`]*(?<![\w-])(?=[A-Za-z_-]*\d)[\w-]{{10,}})"
    r"(?P<value>[^\s\"'<>`,;]+)"
)
"""All of such an address: ``pover://user@key``, ``slack://a/b/c``, ``tgram://bot:key/chat``."""
_PGPASS: Final = late_regex(
    r"(?:^|[\s\"'])[\w.*-]{1,80}:(?:\d{4,5}|\*):[\w*-]{1,40}:[\w*-]{1,40}:(?P<value>[^\s\"':]+)"
)
_STATEMENT: Final = late_regex(
    r"(?i:\bidentified\s+(?:with\s+\S+\s+)?(?:by|as)|\bwith\s+(?:encrypted\s+)?password"
    r"|\b(?:set|encrypted)\s+password(?:\s+for\s+\S+)?\s*=?|\bpassword\s*\()"
    r"\s*(?P<quote>[\"'])(?P<value>[^\"']+)"
)
"""SQL: ``CREATE USER … IDENTIFIED BY '…'``, ``ALTER ROLE … WITH PASSWORD '…'``."""
_USER: Final = late_regex(
    r"\bcurl\s[^|;]{0,160}?(?<=\s)(?:-u|--user)[ =]?[\"']?(?P<value>[\w.-]{16,}):(?=[\"'\s]|$)"
)
"""A token in the place of the user, with no password."""
_LOGIN: Final = late_regex(
    r"\blogin\s(?:[^|;&]{0,120}\s)?(?:-[ktp]|--(?:key|pat|relogin))(?:\s+|=)[\"']?"
    r"(?P<value>[\w.-]{16,})"
)
_NOUN: Final = (
    r"(?:(?:api|access|secret|auth|private|license|account|storage|wandb|w&b)[ _-]?(?:key|token)"
    r"|token|password|passphrase|secret|credentials?)s?"
)
_SPOKEN: Final = late_regex(
    rf"\b{_NOUN}[\"'`]?(?:[:=,]?\s{{1,3}}(?:(?:provided|given|used|value|found|named?|from|for|in"
    rf"|is|was"
    r"|of|the|this|user|invalid|rejected|expired|supplied|received|set|to|as|new|sent|here|your)\b"
    r"|[a-z]+@\S+|->|→)){0,4}\s{0,2}[:=]?\s{1,3}[\"'`(\[<]?(?P<value>[\w+/.~-]{20,}={0,2})",
    re.I,
)
"""``retrying with api key …``, ``invalid token provided: …``: then a word that nobody writes."""
_KEPT: Final = late_regex(
    r"\b(?:secrets?\s+(?:set|put|create|write|add|update)|kv\s+(?:put|patch))\s(?P<rest>[^"
    r"|;&]{1,400})"
)
"""What stores a secret is told it by whatever argument."""
_WORD: Final = late_regex(r"(?:[\w.-]*=)?[\"']?(?P<value>[\w+/.~-]{16,}={0,2})")
_WITH: Final = late_regex(
    r"\b(?:with|using) (?:the )?password\s+[\"'`]?(?P<value>[^\s\"'`,;]+)", re.I
)
_MIXED: Final = late_regex(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[\w+/.~=-]+$")
_RARE: Final = late_regex("secret|credential")
_LONG: Final = 20
_HEX: Final = late_regex(r"[0-9a-f]{32,}$")
_NEVER: Final = late_regex(r"https?:|[\w.-]*/[\w./-]+\.\w{1,8}$|[a-z][\w-]*(?:/[\w.-]+)+$|\w+\(")


def formed_secrets(line: str, low: str) -> Iterator[Range]:
    """Yield the ranges of ``line`` that are secrets by its form; ``low``: it in small letters."""
    if "%" in line or "\\" in line:
        for match in _ESCAPED.finditer(line):
            if is_named_secret(match["name"], match["value"]):
                yield match.span("value")
    for hints, is_secret, rule in _FORMS:
        if holds_any(low, hints):
            yield from _if(is_secret, rule, line)
    if "secret" in low:
        yield from _stored(line)
    if _holds_long(low) and ("key" in low or "token" in low or "pass" in low or _RARE.search(low)):
        yield from _if(_is_said, _SPOKEN, line)


def _holds_long(low: str) -> bool:
    """Return whether a word is as long as one that is only spoken of must be."""
    for word in low.split():  # noqa: SIM110 - a plain loop is twice as fast
        if len(word) >= _LONG and not word.startswith(("http", "/")):
            return True
    return False


def _if(is_secret: _Test, rule: re.Pattern[str], line: str) -> Iterator[Range]:
    for match in rule.finditer(line):
        if not is_placeholder(match["value"]) and is_secret(match["value"]):
            yield match.span("value")


def _stored(line: str) -> Iterator[Range]:
    for stored in _KEPT.finditer(line):
        for word in _WORD.finditer(line, *stored.span("rest")):
            if _is_said(word["value"]):
                yield word.span("value")


def _any(_value: str) -> bool:
    return True


def _is_said(value: str) -> bool:
    """Return whether nobody would write such a word: no file, no name of a thing."""
    made = _MIXED.match(value) is not None or _HEX.match(value) is not None
    return made and is_dense(value) and _NEVER.match(value) is None


_FORMS: Final[tuple[tuple[tuple[str, ...], _Test, re.Pattern[str]], ...]] = (
    (("auth", "cred", "login"), is_tight, _PAIR),
    (("login",), is_dense, _LOGIN),
    (("pass", "identified"), _any, _STATEMENT),
    (("password",), is_tight, _WITH),
    (("curl",), is_dense, _USER),
    ((":5432:", "pgpass"), _any, _PGPASS),
    (("://",), _any, _SENDER),
)
"""Rules by form, each with words of which one must be on the line, and what its value must be."""

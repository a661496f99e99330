"""Secrets by their own shape: keys that begin in a known way, credentials in a statement."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from cockpit.model.base import listed
from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_dense, is_named_secret, is_placeholder, is_tight

_PREFIXES: Final = (
    r"wandb_v1_[\w-]{16,}",
    r"\blocal-[0-9a-f]{40}\b",
    r"\bhf_(?:[A-Za-z0-9]{34}|(?=[A-Za-z]*\d)[A-Za-z0-9]{20,})\b",
    r"\bapi_org_[A-Za-z0-9]{20,}\b",
    r"\bgh[pousr]_[A-Za-z0-9]{20,}",
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",
    r"\bGR1348941[\w-]{20,}",  # GitLab's runners, before glrt-
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
    r"\bhv[sbr]\.[\w-]{20,}",  # Vault
    r"\bdapi[0-9a-f]{32}\b",  # Databricks
    r"\blin_api_[A-Za-z0-9]{30,}",
    r"\bpul-[0-9a-f]{40}\b",  # Pulumi
    r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{50,}",  # Terraform Cloud
    r"\bSK[0-9a-f]{32}\b",  # Twilio
    r"\b(?:xai|pplx|tvly|csk|lsv2_[ps]t|pcsk|tgp_v1|fw|rpa|rnd|sbp|sb_secret|pscale_tkn|figd|shpat"
    r"|sntrys|ntn|phx|glrt|gldt|fo1|NRAK|ATATT3x|ATCTT3x)[_-][\w=-]{20,}",
    r"\bsk-lf-[\w-]{20,}",
    r"\b(?:fm[12]_)[\w+/=-]{40,}",  # Fly
    r"\bdp\.(?:pt|st|ct)\.[A-Za-z0-9]{40,}",  # Doppler
    r"\bLTAI[A-Za-z0-9]{12,}\b",
    r"\b1//0[\w-]{30,}",  # Google's refresh tokens
    r"\ba[ks]-[A-Za-z0-9]{22}\b",  # Modal
    r"\$(?:2[abxy]|[156y]|argon2\w{1,2}|scrypt|pbkdf2[\w-]*)\$[\w./$=,+-]{20,}",  # crypt(3)
    r"(?<=\.bearer\.authorization\.k8s\.io\.)[\w-]{16,}",  # Kubernetes over a WebSocket
    r"\bgl(?:sa|c)_[\w+/=-]{30,}",  # Grafana
    r"\bNRII-[\w-]{20,}",  # New Relic
    r"\bhc[abcxo][a-z][kt]_\w{30,}",  # Honeycomb
    r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b",  # Airtable
    r"\bATBB[A-Za-z0-9]{28,}\b",  # Bitbucket
    r"\bsl\.(?:u\.)?[\w-]{60,}",  # Dropbox
    r"\bdckr_oat_[\w-]{20,}|\bdo[or]_v1_[0-9a-f]{40,}|\bSWMTKN-1-[\w-]{40,}",
    r"\bHRKU-[\w-]{30,}|\bnf[pcou]_[A-Za-z0-9]{30,}|\bvc[pkiar]_[A-Za-z0-9]{24,}",
    r"\bMUNGE:[A-Za-z0-9+/]{40,}={0,2}",
    r"\bessu_[\w+/=]{40,}",  # Elastic
    r"\bsk\.eyJ[\w-]{20,}\.[\w-]{16,}",  # Mapbox
    r"\bkey-[0-9a-f]{32}\b|\b[0-9a-f]{32}-us\d{1,2}\b",  # Mailgun, Mailchimp
    r"\bwhsec_[\w+/=]{24,}|\bsq0(?:atp|csp)-[\w-]{20,}|\bshp(?:ss|ca|pa|tka)_[0-9a-f]{32}\b",
    r"\bGOOG1E[A-Z0-9]{50,}\b|\bABSK[A-Za-z0-9+/]{80,}={0,2}",
    r"\bjina_[\w-]{50,}|\bgto_[a-z0-9]{50,}|\besecret_[a-z0-9]{20,}|\baph0_\w{30,}|\bpn[ub]_[A-Za-z0-9]{30,}",
    r"\bpa-(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{43}\b",  # Voyage
    r"\bdbt[cu]_[\w+/=-]{30,}|\bKGAT_[0-9a-f]{30,}|\bhf_jwt_[\w.-]{40,}",
    r"\bA{20,}[\w%-]{40,}",  # X's bearer tokens
    r"\bEAA[A-Z](?=\w*\d)\w{90,}",  # Meta
    r"\bsgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}\b|\bbk(?:ua|ct|rt)_[0-9a-f]{40}\b",
    r"\bCCIP(?:AT|RJ)_\w{40,}|\bPMA[KT]-[0-9a-f]{24}-[0-9a-f]{34}\b|\brubygems_[0-9a-f]{48}\b",
    r"\bsess-[A-Za-z0-9]{40}\b|\bw[ks]-[A-Za-z0-9]{22}\b|\bops_eyJ[\w-]{40,}",
    r"\bgl(?:cbt|ptt|ft|soat|agent|imt|oas|ffct)-[\w-]{20,}",  # GitLab's others
    r"\b[A-Za-z0-9]{70,}AZDO[A-Za-z0-9]{4}\b",  # Azure DevOps
    r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b|\bxkeysib-[0-9a-f]{60,}",
    r"\bcf[au]t_[\w-]{40,}|\bsq[upa]_[0-9a-f]{40}\b|\bAKCp[A-Za-z0-9]{60,}\b",
    r"\bls__[0-9a-f]{32}\b|\bfc-[0-9a-f]{32}\b|\bK10[0-9a-f]{64}::\w+:\w+",
    r"\bsecret_(?:\w{1,40}_)?(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}(?:\.[A-Za-z0-9]{16,})?",  # Lambda
)
_SHAPE: Final = late_regex("|".join(_PREFIXES))
_HINTS: Final = listed(
    "_v1_ local- hf_ _org_ ghp_ gho_ ghu_ ghs_ ghr_ glpat- GR1348941 _pat_ AKIA ASIA ABIA ACCA "
    "A3T AIza ya29. GOCSPX- xox xapp- sk- k_live k_test gsk_ r8_ nvapi- npm_ pypi- tskey- SG. "
    "eyJ AGE-SECRET :AA hv dapi _api_ pul- .atlasv1. SK xai- pplx- tvly- csk- lsv2_ pcsk_ fw_ "
    "rpa_ rnd_ sbp_ sb_secret pscale_ figd_ shpat_ sntrys_ ntn_ phx_ glrt- gldt- fo1_ NRAK- "
    "TT3x fm1_ fm2_ dp. LTAI 1//0 ak- as- secret_ glsa_ glc_ NRII- hc pat ATBB sl. _oat_ "
    "SWMTKN HRKU- nf vc essu_ sk.eyJ key- -us whsec_ sq0 shp GOOG1E ABSK jina_ aph0_ esecret_ "
    "pn pa- dbt KGAT_ AAAAAAAA EAA sgp_ bk CCIP PMA rubygems_ gto_ sess- wk- ws- ops_ gl AZDO "
    "re_ xkeysib- cf AKCp ls__ fc- K10 squ_ sqp_ sqa_ $2 $1$ $5$ $6$ $y$ $argon2 $scrypt$ "
    "$pbkdf2 .k8s.io. MUNGE:"
)
_MADE: Final = late_regex(
    r"\b(?!(?:chat)?cmpl|msg|req|resp|run|thread|batch|job|call|toolu|file|org|proj|user|evt|step"
    r"|asst|raysubmit|artifact|ids?\b|uu?id|hash|sha|rev|commit|cache|trace|span|event|image|blob)"
    r"[a-z][a-z0-9]{1,11}[_-](?:[a-z0-9]{1,7}[_-])?"
    r"(?=[A-Za-z]*\d)(?=[A-Z\d]*[a-z])(?=[a-z\d]*[A-Z])[A-Za-z0-9]{32,}(?![\w/.-])"
)
"""What a vendor makes that nobody has named here: a short word, then random figures and letters
of both sizes. What a service calls its requests, files and runs looks alike, and opens nothing."""
_LONG_WORD: Final = late_regex(r"[\w-]{35}")
_DISCORD: Final = late_regex(r"\b[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,}")
"""A bot's token, which holds no word that one could look for first."""
_CUT_SHAPE = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-|xox[a-z]-|AKIA|AIza|ya29\.)[\w.-]{2,}…$"
)
"""A key whose end was cut off with the line."""
_TORN: Final = late_regex(
    r"\b(?:hf_|gh[pousr]_|github_pat_|wandb_v1_|sk-(?:proj-|ant-)?|glpat-|AKIA|AIza|ya29\.)"
    r"(?=[\w-]*\d)(?=[\w-]*[a-z])(?=[\w-]*[A-Z])[\w-]{8,19}$"
)
"""A key that goes on in the next line: too short by itself, but with what no name has."""


SHORTEST: Final = 15
"""Characters without a blank that the shortest key has."""
_RUN: Final = late_regex(rf"[\w.-]{{{SHORTEST}}}")


def may_hold_key(words: Iterable[str]) -> bool:
    """Return whether one of a line's words is long enough for a key."""
    for word in words:  # noqa: SIM110 - as below
        if len(word) >= SHORTEST and _RUN.search(word):
            return True
    return False


def shaped_secrets(line: str) -> list[tuple[int, int]]:
    """Return the ranges of ``line`` that have a key's shape."""
    found: list[tuple[int, int]] = []
    shaped: list[re.Match[str]] = []
    if holds_any(line, _HINTS):
        shaped += _SHAPE.finditer(line)
        found += (match.span() for match in _TORN.finditer(line))
    if line.count(".") > 1:
        shaped += _DISCORD.finditer(line)
    found += (match.span() for match in shaped if len(set(match[0][-8:])) > 1)  # hf_xxxx: for one
    if _LONG_WORD.search(line):
        found += (match.span() for match in _MADE.finditer(line))
    if line.endswith("…"):
        found += (match.span() for match in _CUT_SHAPE.finditer(line))
    return found


def holds_any(text: str, words: Iterable[str]) -> bool:
    """Return whether ``text`` holds one of the words; a plain loop is twice as fast as ``any``."""
    for word in words:  # noqa: SIM110 - a generator costs more than the search itself
        if word in text:
            return True
    return False


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
"""A line of ``.pgpass``: ``db.host:5432:runs:ada:hunter2``."""
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
"""Such as ``using password hunter2``."""
_MIXED: Final = late_regex(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[\w+/.~=-]+$")
_RARE: Final = late_regex("secret|credential")
_LONG: Final = 20
_HEX: Final = late_regex(r"[0-9a-f]{32,}$")
"""Such as ``0123456789abcdef0123456789abcdef``."""
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
        yield from _if(_is_no_word, _SPOKEN, line)


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
            if _is_no_word(word["value"]):
                yield word.span("value")


def _any(_value: str) -> bool:
    return True


def _is_no_word(value: str) -> bool:
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

"""Find secrets by the name they are given: ``NAME=value``, ``--flag value``, ``-e NAME value``.

The name decides first (``hf_token`` is one, ``pad_token`` and ``training_key`` are not), then
the value: a reference such as ``$VAR`` or ``<token>`` is left alone, a bare number is a count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex

_NAMED = late_regex(
    r"(?<![\w.-])(?P<flag>-{1,2}(?:D(?=[a-z]))?)?(?P<name>[A-Za-z_][\w.-]*+)"
    r"(?P<sep>(?:\\{0,7}[\"'`]\]?)?\s{0,4}(?:=>|:=|[:=])\s{0,8}"
    r"|[\"'],\s{0,4}(?=b?[\"'])|\s{0,40}(?:->|[|│┃]|\.{3,200})\s{1,40}"
    r"|(?:\\?[\"'])?\s{0,4},?\s{1,8})"
)
_ENV_FLAG = late_regex(
    r"(?:^|[\s\"'\[])(?:-e|-E|--env|--env-vars?|--build-arg|setenv|ENV|set -[gUux]+)[\"',\s]+$"
)
"""A name behind it is a variable's: ``docker run -e ``."""
_QUOTED = {
    quote: late_regex(rf"{quote}(?P<value>(?:{more}[^{quote}\\]|\\.)*+)")
    for quote, more in (('"', ""), ("'", r"'\\''|'\"'\"'|"), ("`", ""))
}
"""What is between quotes; the shell's two ways to put a ``'`` between ``'`` go on."""
_ESCAPED = late_regex(r"\\{1,7}[\"'`]")
"""A quote inside a string, inside a string: each level writes one more stroke before it."""
_BARE = late_regex(
    r"(?P<value>(?:\$\{[^}]*\}|\$\([^)]*\)|<[^>]*>|\{\{[^}]*\}\}"
    r"|[^\s\"'`,;&|)}\]<>]"
    r"|[,;&](?![\s\"',;&]|$|[\w.-]+=)"
    r"|[)}\]](?![\s\"',;:.)}\]]|$))+)"
)
_WORD = late_regex(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_DIGIT = late_regex(r"\d")
_NUMBER = late_regex(r"[-+]?[\d.,_]+(?:[eE][-+]?\d+)?\W*$")
"""A count, not a secret: ``4,096``."""
_EXPRESSION = late_regex(
    r"(?:self|args|cfg|config|opts?|settings|kwargs|os|process)\.\w|\w+\("
    r"|[A-Za-z_]+(?:\.[A-Za-z_]+)*[(\[](?:-?\d{1,3})?$"  # getpass.getpass("…"), config["…"]
)
"""Code that fetches a value does not hold it: ``os.environ["TOKEN"]``."""
_COMMAND = late_regex(r"(?:[./][\w./-]*|[a-z][a-z.-]{0,14}\d{0,2}(?:\.\d{1,2})?)(?= |$)")
_ASSIGNMENT = late_regex(r"[A-Za-z_][\w-]*=[^=]")
"""Such as ``KEY=value``."""
_CONTAINER = late_regex(r"\b(?:docker|podman|nerdctl)\s")
"""Their ``-e NAME`` hands a variable on: the next word is the image. Nothing else does."""
_REFERENCE = late_regex(
    r"(?:var|vars|local|data|module|each|secrets|env|params?|inputs?|outputs?)(?:\.[A-Za-z_]\w*)+$"
    r"|[a-z]+(?:_[a-z]+)+\.\w+\.[a-z_]+$"
)
"""What Terraform and workflows refer to another value by."""
_CALL = late_regex(r"[A-Za-z_]\w*(?:\.\w+)*\($|[a-z_]\w*(?:\.\w+)+\(")
_MIXED = late_regex(r"(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])")
_FILE = late_regex(r"(?:[~.]{0,2}(?:/[\w.@+-]+){2,}|(?:~|\.{1,2})/[\w.@+-]+)/?$")
"""The name of a file: ``~/.ssh/id_ed25519``."""
_PLACEHOLDER = late_regex(
    r"\$[A-Z_][A-Z0-9_]*$|\$[a-z_]+$|\$\{[A-Za-z_]\w*(?::?[-=+](?:\$\w+)?|:?\?[^}]*)?\}?$"
    r"|\$\(.*|\$\{\{.*|\$\{[a-z][\w.]*:[A-Za-z_][\w.]*\}?$|\$?$"
    r"|%\w+%$|\{\{[^{}]*\}\}$|\{\{?[\w .-]*\}?\}?$|\([A-Za-z]+\)?$"
    r"|<[^>]*>$|\[[\w ]*\]$|\W+$|[xX]{3,}$|\.\.\."
    r"|(?i:[\W_]{1,4}(?:redacted|masked|filtered|removed|hidden|secret|scrubbed|omitted|(?:un)?set"
    r"|empty)[\W_]{0,4}$)|(?:[A-Za-z]{2,5}[-_])?(?:[xX*]{3,}|\.{3})$|![A-Za-z]+$|[\w.]+:$"
    r"|(?:[A-Z]+_)*(?:KEY|TOKEN|PASSWORD|PASSWD|SECRET|PASS)$"
    r"|(?i:redacted|masked|filtered|removed|hidden|undefined|unset|none|null|nil|true|false"
    r"|missing|required|str|string|bytes|secret(?:str|bytes)|optional\b.*|union\b.*|any)$"
    r"|(?i:change[_-]?(?:me|it)|replace[_-]?me|fill[_-]?me[_-]?in|dummy|placeholder|todo|tbd)\W*$"
    r"|[A-Za-z]+\?$"
    r"|(?i:your[ _-].*|os\.(?:environ|getenv)\b.*|getenv\b.*|process\.env\b.*)"
)
"""It stands for a secret: ``<your token>``."""


_LIKE = "x7Kq" * 8
"""A value that can be nothing but a secret, where only the name is known."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SHOUTED_KEYS_NOT = _set(
    "cache hash primary sort partition foreign routing public dedup idempotency config lookup group"
    " sorting row cache_hash index object storage_object param state data tree path file dict"
)
"""Keys of variables in capitals that open nothing."""
_LOCKS = _set(
    "tls ssl ssh app pem host subscription routing integration ingest ingestion instrumentation"
    " functions function write publish consumer customer application bot cosmos team"
)
"""Keys of which only a value that a machine has made is a secret."""
_UUID = late_regex(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$")
_SAYING = late_regex(
    r"(?:not|is|was|are|has|must|should|can(?:not)?|and|or|for|from|to|of|in|on|with|by|if|when"
    r"|will"
    r"|may|needs|requires?d?|given|missing|invalid|option|flag|argument)[.,;:]?(?:\s|$)"
)
"""Words with which a sentence about a flag goes on."""
_NEAR = 24
_AROUND = 400
"""Characters before a name in which the program is looked for that it is an argument of."""
_SHORTEST_PIN = 4
_FAR_ENOUGH = 128
"""How much of a value is looked at to tell whether it is a secret: keeps long lines linear."""

_ALWAYS = ("password", "passwd", "passphrase", "passcode", "apikey", "authtoken", "accesstoken")
_KEYS = _set(
    "api access secret private auth signing encryption account storage license master service"
    " shared hmac deploy encrypt preshared wandb hf openai anthropic azure aws admin client"
)
_POINTS = _set("existing pull source")
"""``existingSecret`` and the like give the name under which a cluster keeps one."""
_PAIRED_KEYS = _set("primary secondary")
"""What Azure calls its two keys, and everybody else a column: the value decides."""
_NOT_TOKENS = _set(
    "eos bos pad unk mask sep cls image audio video stop start end special next first last prompt"
    " per vocab new current sos eot generated predicted target input output num max min total"
    " added extra mean avg loss each every text continuation page cursor"
)
_TAILS = _set("base data value val string str b64 base64 raw text plaintext")
_PASSES = _set(
    "db user smtp mysql pg postgres redis mongo admin root login http sudo become ansible ssh ftp"
    " imap mail ldap proxy enable vault rabbit rabbitmq nexus registry keystore truststore"
)
_CACHED: Final = 64
"""Characters of the longest name whose words are kept: names come again on every line."""
_HOOKS = frozenset({"webhook", "hook", "slack", "discord", "deadman", "heartbeat"})
_DENSE_ONLY = _set(
    "auth authorization credential credentials cred creds jwt sig signature pat tok bearer"
)
_HOLDERS = _set("secret secrets credential credentials creds tokens passwords apikeys")
"""What holds secrets by any name: ``--set secrets.wandb=…``; the value decides."""
_PASSING = _set("bypass compass trespass multipass onepass twopass singlepass")
_WORDY = late_regex(r"(?:[a-z]*+(?:\d{1,4}+[a-z]?+)?+[._/:+-])*+[a-z]*+(?:\d{1,4}+[a-z]?+)?+$")
"""Words, dates and versions joined by dots and dashes: a person's name for something."""
_RUNS = late_regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_FEW_VOWELS = 0.28
"""Share of vowels below which letters make no words."""
_SHORT_RUNS = 4
"""Letters of one case in a row, on average, below which they are jumbled."""
_INSTANT = late_regex(r"\d{4}-\d\d-\d\d[T_ ]\d\d")
"""A time: ``2026-03-11 08:41``."""


class _NamedValue(NamedTuple):
    """A name with the value that follows it."""

    words: tuple[str, ...]
    shouted: bool
    flag: bool
    quoted: bool
    prose: bool
    query: bool
    value: str
    counted: bool = False
    """A name between quotes whose value stands in none: a document's number."""


def is_placeholder(value: str) -> bool:
    """Return whether ``value`` only stands for a secret: ``$VAR``, ``<token>``, ``****``, none."""
    return _PLACEHOLDER.match(value) is not None


def is_dense(value: str) -> bool:
    """Return whether ``value`` is surely made by a machine: long, without words."""
    if len(value) < 16 or _WORDY.match(value) or _INSTANT.match(value):
        return False
    digits = len(_DIGIT.findall(value))
    mixed = value != value.lower() and value != value.upper()
    if digits == 0:
        return mixed and _is_jumbled(value)
    return mixed or digits >= 4


def _is_jumbled(value: str) -> bool:
    """Return whether letters alone make no words: few vowels, large ones anywhere."""
    if not (value.isascii() and value.isalpha()):
        return False
    vowels = sum(value.lower().count(vowel) for vowel in "aeiou")
    return (
        vowels / len(value) < _FEW_VOWELS and len(value) / len(_RUNS.findall(value)) < _SHORT_RUNS
    )


def named_secrets(line: str) -> Iterator[tuple[int, int]]:
    """Yield the ranges of values in ``line`` whose name says that they are secret."""
    end_of_last = 0
    for match in _NAMED.finditer(line):
        words = _suspicious_words(match["name"])
        if not words or match.start() < end_of_last:
            continue
        near = match.end() + _FAR_ENOUGH
        start, end, quoted = _value_at(line, match.end(), near)
        if start == end or not _follows(line, match):
            continue
        if quoted and match["sep"] == "=" and _is_asked(line, start, end):
            continue
        if not quoted and _is_no_value(line, match, start, end):
            continue
        named = _describe(line, match, words, line[start:end], quoted)
        if is_placeholder(named.value):
            if named.value.startswith("${"):  # ${NAME:?what to say}: no name of its own
                end_of_last = end
        elif _is_secret(named):
            end_of_last = end if end < near else _value_at(line, match.end(), len(line))[1]
            yield start, end_of_last


def _is_asked(line: str, start: int, end: int) -> bool:
    """Return whether a shell's backticks stand there: the output of a command is the value."""
    return line[start - 1] == "`" and " " in line[start:end] and bool(_COMMAND.match(line, start))


def _is_no_value(line: str, match: re.Match[str], start: int, end: int) -> bool:
    """Return whether a word only refers to a value, or follows an empty one: ``NAME= command``."""
    if _REFERENCE.match(line, start, end):
        return True
    if not (match["sep"].startswith("=") and match["sep"].endswith(" ")):
        return False
    command = (
        match["name"].isupper() and line[end : end + 1] == " " and _COMMAND.match(line, start, end)
    )
    return bool(command or _ASSIGNMENT.match(line, start, end))


def _suspicious_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that a secret may have, else none."""
    return _remembered(name) if len(name) <= _CACHED else _looked_at(name)


def _looked_at(name: str) -> tuple[str, ...]:
    words = _name_words(name)
    if words and _suspicious(words[-1]):
        return words
    if ".account.key." in name:  # fs.azure.account.key.NAME.dfs.core.windows.net
        return ("account", "key")
    return ("credential",) if not _HOLDERS.isdisjoint(name.lower().split(".")[:-1]) else ()


_remembered = lru_cache(maxsize=2048)(_looked_at)


def _name_words(name: str) -> tuple[str, ...]:
    """Return the words of ``HF_TOKEN_2``, ``apiKey`` or ``client-secret``, numbers off its end."""
    words = tuple(word.lower() for word in _WORD.findall(name))
    while words and (words[-1].isdigit() or (len(words) > 1 and words[-1] in _TAILS)):
        words = words[:-1]
    return words[:-1] if words[-3:] == ("access", "key", "id") else words


def _suspicious(word: str) -> bool:
    return word.endswith((*_ALWAYS, *_DENSE_ONLY, "token", "secret", "key", "pwd", "pass", "url"))


def _value_at(line: str, at: int, limit: int) -> tuple[int, int, bool]:
    """Return where the value at ``at`` starts and ends (by ``limit``), and if it is quoted."""
    if line[at : at + 1] == "\\" and (escaped := _ESCAPED.match(line, at)):
        end = line.find(escaped[0], escaped.end(), limit)
        return escaped.end(), min(limit, len(line)) if end < 0 else end, True
    if line[at : at + 1] in "bBrRuU" and line[at + 1 : at + 2] in _QUOTED:
        at += 1
    quoted = _QUOTED.get(line[at : at + 1])
    match = (quoted or _BARE).match(line, at, limit)
    return (at, at, False) if match is None else (*match.span("value"), quoted is not None)


def _follows(line: str, match: re.Match[str]) -> bool:
    """Return whether the separator joins name and value here: a space does so only for flags."""
    if any(sign in match["sep"] for sign in ":="):
        return True
    if match["sep"].strip(" \t\"',"):
        return _is_tight(line, match)
    if line[match.end() : match.end() + 1] == "-" or _SAYING.match(line, match.end()):
        return False
    if _has_clear_value(line, match):
        return True
    if not match["flag"] and (flag := _ENV_FLAG.search(_before(line, match))):
        start, hands_on = max(0, match.start() - _AROUND), flag[0].lstrip(" \t\"'[")[:1] == "-"
        image = hands_on and _CONTAINER.search(line, start, match.start()) is not None
        return not image or _is_tight(line, match)
    if match["flag"]:
        return True
    return (
        match["sep"][:1] in "\"'" and _before(line, match)[-2:-1] == "(" and _is_tight(line, match)
    )


def _is_tight(line: str, match: re.Match[str]) -> bool:
    """Return whether the value beside a name, in a table or a tuple, is no word."""
    start, end, _ = _value_at(line, match.end(), match.end() + _FAR_ENOUGH)
    return is_tight(line[start:end])


def is_tight(value: str) -> bool:
    """Return whether ``value`` is no word: dense, or of letters of both sizes and figures."""
    return is_dense(value) or (len(value) >= 8 and _MIXED.match(value) is not None)


def _has_clear_value(line: str, match: re.Match[str]) -> bool:
    """Return whether a name of several words is followed by what can only be its value."""
    name = match["name"]
    if not {"_", "-"} & set(name) and len(_name_words(name)) < 2 and name.lower() not in _ALWAYS:
        return False
    value = _BARE.match(line, match.end(), match.end() + _FAR_ENOUGH)
    return value is not None and is_dense(value["value"])


def is_named_secret(name: str, value: str = "") -> bool:
    """Return whether ``value``, or whatever else, is a secret by this name: ``DB_PASSWORD``."""
    words = _suspicious_words(name)
    if not words or words[-1].endswith("url"):
        return False
    shouted = name.isupper() and len(words) > 1
    plain = _NamedValue(
        words, shouted, flag=not value, quoted=True, prose=False, query=False, value=value or _LIKE
    )
    return not is_placeholder(plain.value) and _is_secret(plain)


def _describe(
    line: str, match: re.Match[str], words: tuple[str, ...], value: str, quoted: bool
) -> _NamedValue:
    name, before = match["name"], _before(line, match)
    spoken = before[-8:].lower().endswith(("api ", "secret ", "access ", "private "))
    if len(words) == 1 and spoken:
        words = (before.split()[-1].lower(), *words)
    after = match.end() + len(value)
    rest = line[after : after + 2]
    prose = ":" in match["sep"] and not quoted and value.isalpha() and value[1:].islower()
    return _NamedValue(
        words=words,
        shouted=name.isupper() and len(words) > 1,
        flag=bool(match["flag"]) or not any(sign in match["sep"] for sign in ":="),
        quoted=quoted,
        prose=prose and rest[:1] == " " and rest[1:].isalpha(),
        query=before.endswith(("?", "&")),
        value=value,
        counted=not quoted and match["sep"][:1] in "\"'\\",
    )


def _before(line: str, match: re.Match[str]) -> str:
    """Return the few characters before a name: never a copy of a long line."""
    return line[max(0, match.start() - _NEAR) : match.start()]


def _is_secret(named: _NamedValue) -> bool:
    last, value = named.words[-1], named.value
    if last.endswith(_ALWAYS):
        count = value.isdigit() and (named.counted or len(value) < _SHORTEST_PIN)
        return not (named.prose or count) and (named.quoted or not _CALL.match(value))
    if _NUMBER.match(value) or (not named.quoted and _EXPRESSION.match(value)):
        return False
    if last.endswith(("pwd", "pass")):
        return _is_password(named)
    if last.endswith("token"):
        return _is_token(named)
    if last.endswith("secret"):
        return _is_kept(named)
    if last.endswith("key"):
        return _is_key(named)
    return _is_hook(named) or _is_dense_name(named)


def _is_kept(named: _NamedValue) -> bool:
    """Return whether what is called a secret is one, not the name under which one is kept."""
    if len(named.words) == 1:
        return is_dense(named.value)
    return is_tight(named.value) if named.words[-2] in _POINTS else not named.prose


def _is_hook(named: _NamedValue) -> bool:
    hooked = named.words[-1] == "url" and bool(_HOOKS & set(named.words))
    return hooked and named.value.startswith("http")


def _is_dense_name(named: _NamedValue) -> bool:
    dense = is_dense(named.value) or (named.shouted and len(named.value) >= 8)
    return named.words[-1] in _DENSE_ONLY and dense and not _FILE.match(named.value)


def _is_password(named: _NamedValue) -> bool:
    if _FILE.match(named.value) or named.prose:
        return False
    if named.words in (("pass",), ("sshpass",), ("pwd",)) and len(named.value) >= 6:
        return _DIGIT.search(named.value) is not None and not named.value.isdigit()
    if named.flag and len(named.words[-1]) > len("pass") and named.words[-1] not in _PASSING:
        return True  # -srcstorepass, --userpass
    return named.shouted or bool(_PASSES & set(named.words[:-1]))


def _is_token(named: _NamedValue) -> bool:
    if len(named.words) > 1 and (named.words[-2] in _NOT_TOKENS or named.prose):
        return False
    if named.shouted or (named.flag and len(named.value) > 3):
        return not _FILE.match(named.value)
    digits = _DIGIT.search(named.value) is not None
    if len(named.words) == 1:
        return is_dense(named.value) or (digits and len(named.value) >= 8)
    return digits or len(named.value) >= 16 or named.quoted


def _is_key(named: _NamedValue) -> bool:
    if _FILE.match(named.value) and len(named.value) != 40:
        return False
    if len(named.words) > 1 and named.words[-2] in _KEYS:
        return not named.prose
    if len(named.words) > 1 and named.words[-2] in _PAIRED_KEYS:
        return len(named.value) >= 32 and _MIXED.match(named.value) is not None
    if len(named.words) == 1 or len(named.value) < 20:
        return named.query and len(named.words) == 1 and is_dense(named.value)
    locks = named.words[-2] in _LOCKS or (
        named.shouted and not _SHOUTED_KEYS_NOT & set(named.words)
    )
    return locks and is_dense(named.value) and not _UUID.match(named.value)

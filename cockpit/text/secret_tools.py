"""Secrets on command lines that no name gives away: each tool's own way to be given one.

``mysql -pWORD``, ``redis-cli -a WORD``, ``ngrok authtoken WORD``, ``mc alias set x URL ID WORD``,
``echo WORD | docker login --password-stdin``: the tool's manual says which word it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.text.secret_names import is_placeholder

_WORD: Final = r"(?:\"(?P<{0}d>[^\"]+)|'(?P<{0}s>[^']+)|(?P<{0}b>[^\s\"'|;&<>]+))"
_SOME: Final = r"[^|;&\n]{0,160}?"
"""Other arguments of the same command."""


def _rule(before: str, *, tools: str) -> tuple[tuple[str, ...], re.Pattern[str]]:
    """Return a rule: the tools that it is for, and what stands before the secret word."""
    names = "|".join(re.escape(tool) for tool in tools.split())
    filled = before.format(some=_SOME, word=_WORD.format("v"), other=r"\S+")
    return tuple(tools.split()), late_regex(rf"(?<![\w/-])(?:\S*/)?(?:{names}){filled}")


_RULES: Final = (
    _rule(
        r"\b{some}\s-p(?![\s=]){word}",
        tools="mysql mysqldump mysqladmin mysqlimport mysqlshow mariadb mariadb-dump 7z 7za",
    ),
    _rule(r"\s{some}(?<=\s)-p\s*=?{word}", tools="sshpass mongo mongosh mongodump cqlsh"),
    _rule(
        r" {some}(?<=\s)(?:-p|-P|--password)(?:\s+|=){word}",
        tools="login sqlcmd bcp ipmitool mosquitto_pub mosquitto_sub unzip zip",
    ),
    _rule(r"\s{some}(?<=\s)(?:-a|--pass)(?:\s+|=){word}", tools="redis-cli valkey-cli"),
    _rule(r"\s{some}(?<=\s)(?:-w|-y)\s+{word}", tools="ldapsearch ldapadd ldapmodify"),
    _rule(r"\s{some}(?<=\s)-pw\s+{word}", tools="plink pscp psftp"),
    _rule(r"\s{some}(?<=\s)(?:-t|--token)(?:\s+|=){word}", tools="doctl influx flyctl fly"),
    _rule(r"\s{some}(?<=\s)(?:-a|--auth)(?:\s+|=)[\"']?[\w.@-]*:{word}", tools="http https xh"),
    _rule(
        r"\s{some}(?<=\s)--(?:src-|dest-)?creds(?:\s+|=)[\"']?[\w.@-]*:{word}",
        tools="skopeo oras podman buildah",
    ),
    _rule(r"\s{some}(?<=\s)-pass(?:in|out)?\s+pass:{word}", tools="openssl"),
    _rule(r"\s{some}(?<=\s)-[kK]\s+{word}", tools="openssl"),
    _rule(r"\s{some}(?<=\s)-[NP]\s+{word}", tools="ssh-keygen"),
    _rule(r"\s{some}(?<=\s)(?:-b|--cookie)(?:\s+|=)(?=[\"']?[\w.-]+=){word}", tools="curl"),
    _rule(r"\s{some}(?<=\s)-U\s*[\"\']?[\w.@\\-]+%{word}", tools="smbclient rpcclient"),
    _rule(r"\s{some}(?<=\s)-u\s*[\"\']?[\w.@-]+,{word}", tools="lftp"),
    _rule(r"\s{some}(?<=\s)--oauth2-bearer\s+{word}", tools="curl"),
    _rule(
        r"\s{some}(?<=\s)[\w.-]+:(?=[^\s@:/]{{6,}}@[\w.-]+(?:[\s:]|$))(?=[^\s@]*\d){word}(?<=@)",
        tools="ssh scp sftp mosh rsync autossh",
    ),
    _rule(
        r"\s{some}\b(?:add_user|change_password|useradd|passwd)\s+(?!-)\S+\s+(?!-){word}",
        tools="rabbitmqctl mosquitto_passwd influx",
    ),
    _rule(r"\s+use\s{some}/user:\S+\s+(?![/-]){word}", tools="net"),
    _rule(r"\s{some}/user:\S+\s+/p(?:ass)?:{word}", tools="mstsc xfreerdp wlfreerdp runas"),
    _rule(r"\s+[\w.$-]+/(?=[^\s@]+@){word}", tools="sqlplus sqlldr rman expdp impdp"),
    _rule(r"\s{some}\b(?:AUTH|auth)\s+(?:\w+\s+)?(?=\S*\d){word}", tools="redis-cli valkey-cli"),
    _rule(r"\s+-\w*b\w*\s+\S+\s+\S+\s+{word}", tools="htpasswd"),
    _rule(r"\s{some}\b(?:add-)?auth-?token\s+{word}", tools="ngrok"),
    _rule(r"\s+login\s+(?:--?[\w-]+(?:=\S+)?\s+)*(?!-){word}", tools="vault"),
    _rule(r"\s+(?:alias set|config host add)\s+\S+\s+\S+\s+\S+\s+{word}", tools="mc"),
    _rule(r"\s+(?:alias set|config host add)\s+\S+\s+\S+\s+{word}", tools="mc"),
    _rule(r"\s{some}create\s+secret\s{some}--from-literal[= ][\w.-]+={word}", tools="kubectl oc k"),
    _rule(r"\s+obscure\s+{word}", tools="rclone"),
    _rule(r"\s{some}(?<=\s)--user(?:\s+|=)[\"\']?[\w.@-]+:{word}", tools="etcdctl"),
    _rule(r"\s+config\s+pypi-token\.\S+\s+{word}", tools="poetry"),
    _rule(r"\s(?=[^|;&\n]*SecureString){some}(?<=\s)--value(?:\s+|=){word}", tools="aws"),
    _rule(r"\s{some}(?<=\s)--secret-(?:string|binary)(?:\s+|=){word}", tools="aws"),
    _rule(r"\s+config\s+http-basic\.\S+\s+\S+\s+{word}", tools="poetry"),
    _rule(r"\s+(?!-)(?:\"[^\"]*\"|\S+)\s+{word}", tools="wpa_passphrase"),
    _rule(r"\s{some}(?<=\s)(?:-p|--password)(?:\s+|=){word}", tools="useradd usermod"),
    _rule(r"\s*<<<\s*[\"']?[\w.-]+:{word}", tools="chpasswd"),
)
_PIPED: Final = late_regex(
    r"(?:\becho\s+(?:-\w+\s+)?|\bprintf\s+(?:[\"']?%\w+(?:\\n)?[\"']?\s+)?)(?:\"(?P<vd>[^\"]+)\""
    r"|'(?P<vs>[^']+)'|(?P<vb>[^\s\"'|]+))"
    r"\s*\|\s*[^|]{0,120}?(?:-stdin\b|--with-token\b|\bsudo\b[^|]{0,20}\s-S\b|\blogin\b"
    r"|\b(?:chpasswd|kinit)\b"
    r"|\bsecrets? (?:set|create|add)\b"
    r"|\bsecrets?\b[^|]{0,120}(?:stdin|=-))"
)
_FED: Final = late_regex(
    r"\bsecrets?\b[^<]{0,160}<\(\s*(?:echo|printf)\s+(?:-n\s+)?"
    r"(?:\"(?P<vd>[^\"]+)|'(?P<vs>[^']+)|(?P<vb>[^\s\"')]+))"
)
_HERE: Final = late_regex(
    r"(?:--with-token|-stdin|\blogin)\b[^<]{0,40}<<<\s*"
    r"(?:\"(?P<vd>[^\"]+)|'(?P<vs>[^']+)|(?P<vb>[^\s\"']+))"
)


_BY_TOOL: Final = {
    tool: [rule for tools, rule in _RULES if tool in tools] for tools, _ in _RULES for tool in tools
}
_TOOLS: Final = frozenset(_BY_TOOL)


def tool_secrets(line: str, words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges in ``line`` that its commands take as secrets; ``words``: it, split."""
    if not _TOOLS.isdisjoint(words) or "/" in line:
        for tool in _TOOLS.intersection(line.replace("/", " ").split()):
            for rule in _BY_TOOL[tool]:
                yield from _found(rule, line)
    if "echo" in line or "printf" in line:
        yield from _found(_PIPED, line)
        yield from _found(_FED, line)
    if "<<<" in line:
        yield from _found(_HERE, line)


def _found(rule: re.Pattern[str], line: str) -> Iterator[tuple[int, int]]:
    at = 0
    while match := rule.search(line, at):
        group = next(name for name in ("vd", "vs", "vb") if match[name] is not None)
        if not is_placeholder(match[group]):
            yield match.span(group)
        at = match.end()

"""Texts that say what may have been: a list of possible causes names none (SPEC T)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex

_CAUSES: Final = (
    r"(?:possible|common|likely|potential|typical|usual) (?:\w+ )?"
    r"(?:causes?|reasons?|explanations?|culprits?|fixes|solutions|remed(?:y|ies)|problems)\b"
)
_LIST: Final = (
    rf"{_CAUSES}[^(]{{0,40}}\((?:1|a|i)\).*",  # to the end of the line: each is a sentence
    r"\((?:[^()]*(?:\betc\b|\be\.g\.|\bi\.e\.|,? or )[^()]*|[^(),=\d]+(?:, [^(),=\d]+){2,})\)",
    r"(?<![\w/.-])[a-z]+(?:/[a-z]+){2,}(?![\w/.-])",  # preempted/died/restarted
    r"(?<=: )[A-Za-z]\w*(?:, [A-Za-z]\w*){2,}\b",  # rules: OOM, Xid, preempted
    r"\b\w+(?: \w+)?, (?:\w+ )?\w+(?: \w+)?,? or \w+(?: \w+)?",  # failed, got preempted, or crashed
)
"""Alternatives, wherever they stand in a sentence."""
_SETTINGS: Final = (
    r"(?-i:\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"
    r"(?:=\S*|[\"']?: ?[\"']?(?:-?\d[\d.]*|true|false|none)\b)",
    r"\b[a-z][\w ()/-]{0,60}?\s{0,40}[:=] ?(?:no|none|n/a|off|false|disabled)\b(?! \w)",
    r"\b(?:interruption|preemption|eviction|termination)[ _-]?"
    r"(?:handl\w+|polic\w+|behaviou?r|mode|(?:notice[ _-]?)?(?:period|grace\w*))\b",
    r"\S{1,200}:No(?:Execute|Schedule)\b",
    r"\b(?:[a-z][\w ()/-]{0,60}?(?<!_)|\w{0,60}_)?(?:errors?|fail(?:ures?|ed)|faults?"
    r"|unhealthy devices?)(?:[ _]counts?)?[\"']? ?[:=] ?[\"']?0[\"']?"
    r"(?=\s*(?:$|[,;|)}\]]|\w+[:=]))",  # a count of none
    r"^(?=.{0,200}\bcorrect(?:ed|able)\b)(?=.{0,200}\bno action (?:is )?(?:needed|required)\b).*",
    r"\bxids? [\d, ]{1,40}\bhistory of (?:the )?(?:last|previous) .*",
    r"\b(?:on_\w+|\w+_(?:on|policy|mode|strategy|handl(?:er|ing)|behaviou?r|action)) ?[=:] ?"
    r"(?:\[[^\]]*\]|\w+)",
)
"""What is only set, and what is told to be none: ``TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC=600``."""
_ASKED: Final = (
    r"^\s{0,20}(?:(?:[\w.@:~/\[\] -]{0,60}[\w~\])/])?\$|[\w.-]{1,30}@[\w.:~/ -]{1,60}[#%>\]]"
    r"|\+{1,3}) (?:sudo )?(?:[efz]?grep|rg|dmesg|journalctl|cat|tail|head|less|awk|sed|find|sacct"
    r"|squeue|scontrol show|kubectl (?:get|describe|logs))\b.*"
)
"""What somebody has asked a shell for: only the answer below tells anything."""
_SUPPOSED: Final = (
    r"(?:this|it|that|which)(?: \w+){0,3} (?:can|may|might|could|usually|often|typically|likely"
    r"|probably|generally|sometimes)\b",
    r"can be\b",
    r"(?:docs|documentation|runbook|wiki): ",
    r"dry-?run: ",
    r"would raise\b",
    r"(?:may|might|could)(?: also)? (?:be|have|indicate|happen|occur|result|cause|lead|need)\b",
    r"(?<!contains )either\b(?=.{0,160}\bor\b)",
    _CAUSES,
    r"(?:possibly|probably|perhaps|maybe|for example|for instance|such as)\b",
    r"(?:most )?likely (?:indicates?|caused|due|because|means?|the)\b",
    r"(?:is|are) (?:usually|often|typically|commonly|generally|most likely)\b",
    r"(?:one|any) of the following\b",
    r"(?:if|unless|whenever|in case|when) (?:the|you|your|this|it|a|an|any|there|one|all|not)\b",
    r"(?:please |to )?(?:(?<!health )(?<!status )check"
    r"|make sure|ensure|verify|consider|try|see)\b(?! ?failed| \d)",
    r"(?:press|hit|use|type|send|with) (?:ctrl|\^c|sigint|sigterm)",
    r"(?:use|run|type) [`'\"]?scancel\b",
    r"(?:cancel|stop|abort|kill|end|interrupt)\b(?: \w+){0,3}:? [`'\"]?scancel\b",
    r"(?:install|regist|attach|bind|restor|ignor|trap|block|mask)\w*\b"
    r"(?=.{0,60}\bsig(?:int|term)\b)",
    r"signal\.signal\(|sig(?:int|term)\b(?= (?:is |are )?(?:ignored|trapped|blocked|masked)\b)",
    r"(?:[\w/|]{1,40},? ){1,6}handlers?\b"
    r"(?= (?:is |are |was |were )?(?:install|regist|set\b|attach|enabl|active|armed|ready))",
    r"(?:relaunch|restart|requeue|retry|resume|save|checkpoint)s?:? (?:on|if|when|before|until)\b",
    r"signal=(?:[a-z]+:)?sig\w+@",  # sbatch's --signal
    r"trap (?:-- )?(?:'[^']*'|\"[^\"]*\") ",
    r"ctrl ?[-+]? ?c (?:to (?!step)|again|will|twice)\b",
    r"(?:look(?:ing)?|check(?:ing|s)?|watch(?:ing)?|listen(?:ing)?|test(?:ing)?"
    r"|poll(?:ing)?) for\b",
    r"(?:will|can) (?:be )?(?:\w+ )?(?:if|when)\b",
    r"(?:no|not|never|without|ignor(?:e|es|ing)|disabl(?:e|es|ed|ing)) (?:any |a |an |been |be )?"
    r"(?=preempt|spot\b|interruption|oom|nan|inf\b|xid|ecc|evict|node fail|dead node|unhealthy"
    r"|hang\b|host ?error)",
)
_QUOTED: Final = (
    r"\b(?:generat(?:ed|ion)s?|completions?|prompts?|hypothes[ie]s|predictions?|predicted|decoded"
    r"|references?|captions?|transcripts?|(?:model|sampled?|generated) (?:output|text|answer|reply"
    r"|response)|samples?(?: (?:#? ?\d+|@ ?\d+|text|output)|(?=[:=]))|answers?|questions?)\b"
    r"[^\"'`\u201c]{0,40}"
    r"(?:\"[^\"]*\"|`[^`]*`|\u201c[^\u201d]*\u201d|(?<=[ :=])'(?:[^']|\b'\b)*')",
    r"\b(?:generated (?:text|sample|output)|model (?:output|answer|response)|completion|hypothesis"
    r"|decoded text|(?<!in )(?<!for )(?<!at )(?<!of )(?<!on )(?<!with )"
    r"sample (?:text|output|\d+)) ?(?:#? ?\d+ ?)?(?:\([^)]*\) ?)?[:=>]+ .*",
    r"\b(?:first|raw|random|train(?:ing)?|eval|input|example)"
    r" (?:example|sample|batch|document|prompt|record|input)s?(?: #?\d+)?[:=] ?[\[{\"'].*",
    r"(?-i:^[HDTSR]-\d+[:\t]).*",  # what fairseq writes of a hypothesis and its reference
    r"\|\s*[\w -]{1,24}\s*\|\s*[01]\.\d+\s*(?=\||$)",  # a table of scores
    r"\b(?:class|label|category|token|word)e?s? (?:\"[^\"]*\"|'[^']*'|`[^`]*`)",
)
"""What a model has written, and names of what it tells apart: words of others, no events."""
_BEGINS: Final = "|".join(rf"\b{each}" for each in _SUPPOSED)
_REST: Final = r"(?:(?![.;!](?:\s|$)).)*"
"""The rest of a sentence."""
_WRITTEN: Final = late_regex(_QUOTED[0], re.I)
_DOUBT: Final = late_regex(
    rf"{'|'.join((_ASKED, *_QUOTED, *_LIST, *_SETTINGS))}|(?:{_BEGINS}){_REST}", re.I
)
INTRODUCES: Final = late_regex(
    rf"{_CAUSES}"
    r"|\b(?:can|may|might|could) (?:\w+ )?(?:happen|be caused|occur|result)\b"
    r"|\bone of the following\b|\bone of:|\bif you (?:see|get|encounter)\b"
    r"|\bthings to (?:check|try)\b|\btroubleshoot\w*\b|\bhints?:\s*$"
    r"|(?:^|[.;:] |please )(?:check|try)[\w ]{0,40}:\s*$"
    r"|\b(?:usually|often|typically|commonly|generally)\b[^.]{0,60}:\s*$",
    re.I,
)
"""A line after which possible causes are listed."""
_ITEM: Final = late_regex(r"^\s*(?:\(?(?:\d+|[a-z])[.)]|[-*•+])\s")
LONGEST: Final = 12
"""Lines of such a list that are passed over."""


def certain(line: str) -> str:
    """Return what of a line is said to have happened: without what may have been."""
    return _DOUBT.sub(" ", line)


def unquoted(line: str) -> str:
    """Return a line without what of it stands between quotes as a model's words."""
    return _WRITTEN.sub(" ", line)


def listed(lines: Sequence[str], where: Sequence[int]) -> set[int]:
    """Return which lines (0-based) are items of a list of possible causes.

    ``where`` are the lines that ``introduces`` finds, and each list follows one of them.
    """
    found: set[int] = set()
    for index in where:
        inset = _inset(lines[index]) if lines[index].rstrip().endswith(":") else LONGEST * LONGEST
        for below in range(index + 1, min(index + 1 + LONGEST, len(lines))):
            if not _ITEM.match(lines[below]) and _inset(lines[below]) <= inset:
                break
            found.add(below)
    return found


def _inset(line: str) -> int:
    return len(line) - len(line.lstrip())

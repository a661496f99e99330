"""A failure that had come before, by the log's own account: another try would only meet it (C-14).

A supervisor counts the deaths that it saw, a scheduler the restarts that it gave; a log that holds
several starts shows them itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.words import NETWORK

_MANY: Final = r"(?:[2-9]|[1-9]\d+|two|three|four|five|several|repeated|consecutive|too many)"
_ENDS: Final = r"(?:deaths?|crash(?:es)?|failures?|restarts?|kills|aborts|faults|exits)"
_TIMES: Final = r"(?:second|third|fourth|fifth|2nd|3rd|4th|5th|\d+th)"
_TRIES: Final = (
    r"(?:re-?starts?|re-?tr(?:y|ies)|attempts?|relaunch(?:es)?|re-?submi\w+|failures?"
    r"|crash(?:es)?|backoff|restart_?count)"
)
_TOLD: Final = late_regex(
    r"(?<![-\w.#])(?<!job )(?<!worker )(?<!up to )(?<!max )(?<!most )(?<!allow )(?<!allows )"
    rf"{_MANY} (?:\w+ )?{_ENDS}\b(?! (?:left|remain|allow|permit|at most|max))"
    rf"|\b{_ENDS}\W{{1,3}}(?:[2-9]|[1-9]\d+)\s*(?:/|of\b)"
    rf"|\b{_TIMES} (?:\w+ )?(?:time|deaths?|crash|failure|kill|fault|restart|abort)\b"
    rf"|\b{_TRIES}[ _-]?(?:limit|budget|count|quota)?\b[^|]{{0,24}}\b(?:exceeded|exhausted"
    r"|used up|spent|(?:was |been )?reached|hit)\b(?!\W{1,3}0/0\b)"
    rf"|\b(?:no|0) (?:more )?{_TRIES} (?:left|remain\w*)\b|\bout of {_TRIES}\b"
    rf"|\b(?:exceed\w*|hit|reached) (?:the |its )?(?:max\w*[ _-]?)?{_TRIES}(?:[ _-]?limit\b|\b)"
    rf"|\b(?:failed|died|crashed|restarted|ended|exited|was killed) {_MANY} times\b"
    r"|\battempt\W{0,2}[2-9]\b[^|]{0,20}\b(?:fail|died|exit|ended|killed|crash)\w*"
    r"|\b(?:previous|prior|last|earlier) (?:run|attempt|start|job|try|incarnation)\b.{0,40}\b"
    r"(?:ended|died|failed|exit\w*|killed|crashed)\b.{0,40}\b"
    r"(?:137|9|same|likewise|alike|too|as well)\b"
    rf"|\bmax\w*[ _-]?(?:number of )?{_TRIES}(?:_\w+)?\b[^|]{{0,24}}"
    r"\b(?:exceeded|exhausted|reached|hit)\b"
    r"|\bBackoffLimitExceeded\b|\bCrashLoopBackOff\b|\bback-?off restarting failed\b"
    r"|\bcrash[- ]?loop\w*|\bStartLimit\w*|\bstart request repeated too quickly\b"
    r"|\b(?:died|killed|crashed|failed|dead|gone|lost|down|fell over) (?:\w+ )?(?:again|twice)\b"
    r"|\bagain (?:killed|died|crashed|failed|lost|with (?:exit|rc|code|signal))\b"
    r"|\b(?:same|identical) (?:\w+ )?(?:steps?|windows?|place|point|spot|batch|error|failure"
    r"|signature|rc|exit (?:code|status)|end|iteration|xid|gpu|node)\b.{0,30}"
    r"\b(?:as (?:the )?(?:last|before|previous|attempt|run|in)|again|twice|before"
    r"|last time|previous\w*|every time)\b"
    r"|\bin the same window\b"
    r"|\brestart[ _]?count\W{1,4}[1-9]",
    re.I,
)
"""Words of who has started a job again, and saw it end in the same way."""
_ASKED: Final = late_regex(
    r"\b(?:heart-?beats?|probe|health|ping|upload|download)\b|\w_p2p_send\b", re.I
)
"""What is asked several times before it counts as one failure."""
_COLUMN: Final = late_regex(
    r"\b\d/\d+\s+(?:Error|Failed|OOMKilled|Terminated|StartError|ContainerStatusUnknown)\s+[1-9]\d*\b"
)
"""``kubectl get pods``: how often a container that has failed had been started again."""

_ROW: Final = late_regex(r"^\s*(?P<job>\d{1,12})\b[^|]{0,20}[\s|].{0,200}\bFAILED[\s|]{1,40}\d")
"""A row of ``sacct``: a job that has failed, by its id."""

_START: Final = (
    r"(?:\b(?P<kind>i|try|run|job|start|launch|attempt|incarnation|inst(?:ance)?|life|re-?start)"
    r"[ _#-]?|#)(?P<at>\d{1,9})\b(?: ?(?:of|/) ?\d{1,9}\b)?[\s:=(>,|-]{1,8}"
)
_NAMED: Final = late_regex(_START, re.I)
_EACH: Final = late_regex(
    rf"{_START}(?P<end>(?:(?:exit(?:ed|s)?|ended|failed|died|code|status|signal|with|rc|xid|ret)\b"
    r"[\s:=]{1,3}){1,4}-?[1-9]\d{0,2}\b|1(?:29|[3-5]\d)\b|-\d{1,2}\b|killed|oom\w*|crashed|failed"
    r"|sig(?:kill|segv|abrt|bus))(?![.\d%/]| ?[a-z]{0,2}it/s)",
    re.I,
)
"""How one of several starts ended, by its number: ``i001 137, i002 137``."""
_WORDS: Final = late_regex(
    rf"{_START}(?=(?P<end>[^;,|()\[\]]{{0,60}}\b(?:\w*error|fail\w*|fault|killed|died|crash\w*|xid|nan"
    r"|oom|lost|corrupt\w*|hung|hang|timed out)\b[^;,|()\[\]]{0,80}))",
    re.I,
)
"""The same in words: ``attempt 1 CUDA error: … on gpu2; attempt 2 CUDA error: … on gpu2``."""


def told_again(log: Log) -> list[int]:
    """Return the lines (0-based) that tell of an earlier end like this one; a request's are none.

    What training has outlived since is over, unless it is told of starts before this one.
    """
    requests = frozenset((*log.matching(NETWORK), *log.matching(_ASKED)))
    found = {*log.naming(_TOLD), *log.naming(_COLUMN), *_ended_alike(log), *_failed_rows(log)}
    return sorted(i for i in found if i not in requests and not _is_over(log, i))


def _ended_alike(log: Log) -> list[int]:
    """Return the lines of a history in which more than one start ended in the same way."""
    told: dict[tuple[str, str], dict[str, int]] = {}
    for index in log.naming(_NAMED):
        line = log.lines[index]
        for each in (*_EACH.finditer(line), *_WORDS.finditer(line)):
            alike = told.setdefault((str(each["kind"]).lower(), each["end"].strip().lower()), {})
            alike[each["at"]] = index
    return [index for alike in told.values() if len(alike) > 1 for index in alike.values()]


def _failed_rows(log: Log) -> list[int]:
    """Return the rows of jobs that have failed, where they are more than one."""
    rows = {i: found["job"] for i in log.naming(_ROW) if (found := _ROW.match(log.lines[i]))}
    return list(rows) if len(set(rows.values())) > 1 else []


def _is_over(log: Log, index: int) -> bool:
    """Tell whether the start of which a line tells was seen to train before it, and long after."""
    if not log.outlived(index):
        return False
    begun = max((start for start in log.restarts if start <= index), default=-1)
    return any(begun < at < index for at, _ in log.marks)


def came_again(log: Log, found: Sequence[int]) -> bool:
    """Tell whether the lines ``found`` tell of several ends: training had begun anew between."""
    marks = [index for index, _ in log.marks]
    for start in log.restarts:
        at = bisect_right(found, start)
        if not 0 < at < len(found) or found[at - 1] == start:
            continue
        if bisect_right(marks, start) < bisect_right(marks, found[at]):
            return True
    return False

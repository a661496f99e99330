"""A job that ended without an exception: its exit code, a kill, its last complaint; and repeats."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.log import EVIDENCE, Log, answer
from cockpit.rules.triage.log_text import bare, marks_of, steps_of
from cockpit.rules.triage.patterns import (
    ALARM,
    COLLECTIVE,
    CONFIG,
    CRASH,
    DONE,
    ECHO,
    FATAL,
    HUNG,
    KILLED,
    LAUNCHER,
    NETWORK,
    PROBE,
    REFUSAL,
    REFUSED,
    STUCK,
    TASK_DIED,
    TERMINATED,
    USAGE,
    USUAL,
)
from cockpit.rules.triage.phrases import BY_HAND, DATA, ORDERED, gist
from cockpit.rules.triage.signs import Action

NEAR: Final = 0.97
"""Share of its limit from which on a job that was killed has run into it."""
ROWS: Final = 64
"""Lines that a table may have below its head."""
_SIZE: Final = r"(?<![\w.])(?P<{0}>\d{{1,9}}(?:\.\d{{1,3}})?) ?(?P<{0}_unit>[KMGT])i?B?\b"
_PAIR: Final = late_regex(
    rf"{_SIZE.format('used')}[\s/|,(]{{1,20}}(?:(?:of|[\w.]{{0,20}}(?:limit|max|total))\b[\s:=]{{0,3}})?"
    rf"{_SIZE.format('most')}"
)
"""Such as ``254G / 256G limit``."""
_OF_ALL: Final = late_regex(
    r"\b(?:rss|ram|host[ _]mem\w*|cgroup|resident|working[ _]set|(?:node|host|system|sys)[ _]"
    r"(?:mem\w*[ _])?used)[ _\w]{0,12}[\s:=]{1,3}"
    rf"{_SIZE.format('used')} ?/ ?{_SIZE.format('most')}",
    re.I,
)
"""What a program says of its memory while it grows: ``rss=254G/256G``."""
_USE: Final = late_regex(
    r"^(?!.*\b(?:gpu|cuda|hbm|device|vram)).*(?:peak|\brss\b|max[_ ]?rss|mem(?:ory)?\b|mem_"
    r"|\bram\b|working[ _]set|resident)",
    re.I,
)
"""The memory of a process or host, not of a device: ``Peak RSS: 254 GB``."""
_LIMIT: Final = late_regex(r"limit|request|total|\bmax(imum)?\b|\bof\b", re.I)
"""Such as ``memory limit``."""
_ENDED: Final = late_regex(r"\b(137|-9|killed|failed|oom)\b", re.I)
"""Such as ``worker-3 killed (137)``."""
_SHARE: Final = late_regex(
    r"\b(?:host|system|cgroup|container|node|pod|rss|ram|sys)\b[\w ]{0,12}\b(?:mem\w*|ram|usage"
    r"|used|at)\b[^\d%]{0,16}(\d{1,3}(?:\.\d{1,3})?) ?%"
    r"|^[^%]{0,80}\bmem(?:ory)?_?(?:used|usage|percent)\b[^\d%]{0,8}(\d{1,3}(?:\.\d{1,3})?) ?%"
    r"|\bsvmem\(.{0,200}\bpercent=(\d{1,3}(?:\.\d{1,3})?)\b"
    r"|^(?!.*\b(?:gpu|cuda|hbm|device|vram)).{0,80}(?:\b(?:ram|mem(?:ory)?)[\s:=]{1,3}"
    r"(\d{1,3}(?:\.\d{1,3})?) ?%|(?<![\d.])(\d{1,3}(?:\.\d{1,3})?) ?% of (?:the )?(?:host )?"
    r"(?:ram|memory)\b(?! band))",
    re.I,
)
"""How much of the host's memory is in use."""
_SPARE: Final = late_regex(
    r"\bmem_?available\b[^\d]{0,4}(?:\d+ ?\w?i?B? )?\(?(\d{1,3}(?:\.\d{1,3})?) ?%", re.I
)
"""How much of it is left."""
_FREE: Final = late_regex(
    r"\bMem:\s+(?P<all>\d{1,9}(?:\.\d)?)(?P<all_unit>[KMGT]?)i?(?:\s+[\d.]{1,9}[BKMGT]?i?){4}"
    r"\s+(?P<left>\d{1,9}(?:\.\d)?)(?P<left_unit>[KMGT]?)i?\s*$"
)
"""A row of ``free``: all of it first, what is available last."""
_CGROUP: Final = late_regex(
    r"\bmemory\.(?:(?P<used>current|peak|usage_in_bytes|max_usage_in_bytes)|max|limit_in_bytes)"
    r"\W{1,3}(?P<bytes>\d{1,18})\b"
)
"""What the kernel counts of a group, and the most that it may have."""
FOR_MEMORY: Final = late_regex(
    r"^(?!.*\b(?:gpu|cuda|hbm|device|vram|shared mem)).*"
    r"\b(?:kill|terminat|evict|stopp|end|lost)\w*\b"
    r".{0,60}\b(?:because|due to|for|reason|over)\b.{0,40}\b(?:mem(?:ory)?|ram|rss|swap)\b",
    re.I,
)
"""Why something was killed, in a sentence."""
_BYTES: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def spent_memory(log: Log) -> list[int]:
    """Return the lines (0-based) by which what was killed stood at the limit of its memory."""
    heads = [i for i in log.matching(_USE) if _LIMIT.search(log.lines[i])]
    found = []
    for index in log.matching(_PAIR):
        head = max((i for i in heads if i <= index), default=None)
        near = head is not None and index - head <= ROWS and _is_near(log.lines[index])
        if near and (head == index or _ENDED.search(log.lines[index])):
            found.append(index)
    return found or _spent_share(log) or _spent_group(log)


def _spent_share(log: Log) -> list[int]:
    """Return the last line that tells a share of the host's memory, if next to none was left."""
    steps = {index for index, _ in log.marks}  # what training tells of memory is the device's
    told = sorted(
        {i for one in (_SHARE, _SPARE, _FREE, _OF_ALL) for i in log.matching(one)} - steps
    )
    for index in told[-1:]:
        line = log.lines[index]
        if (own := _OF_ALL.search(line)) is not None:  # what else it counts is not memory
            return [index] if _is_near(own[0]) else []
        used, spare, row = _SHARE.search(line), _SPARE.search(line), _FREE.search(line)
        if used is not None:
            share = float(next(filter(None, used.groups()))) / 100
        elif spare is not None:
            share = 1 - float(spare[1]) / 100
        else:
            share = 1 - _memory_left(row) if row is not None else 0.0
        if NEAR <= share <= 1.1:
            return [index]
    return []


def _spent_group(log: Log) -> list[int]:
    """Return the last lines that tell a control group's use and its limit, if it stood at that."""
    told = {bool(each["used"]): (i, int(each["bytes"]))
            for i in log.matching(_CGROUP) for each in _CGROUP.finditer(log.lines[i])}  # fmt: skip
    if set(told) != {True, False}:
        return []
    (used_at, used), (most_at, most) = told[True], told[False]
    return sorted({used_at, most_at}) if NEAR * most <= used <= 1.1 * most else []


def _memory_left(row: re.Match[str]) -> float:
    most = _bytes(row["all"], row["all_unit"] or "K")
    return _bytes(row["left"], row["left_unit"] or "K") / most if most else 1.0


def _is_near(line: str) -> bool:
    pairs = ((_bytes(each["used"], each["used_unit"]), _bytes(each["most"], each["most_unit"]))
             for each in _PAIR.finditer(line))  # fmt: skip
    return any(NEAR * most <= used <= 1.1 * most for used, most in pairs if most)


def _bytes(figure: str, unit: str) -> float:
    return float(figure) * 1024.0 ** _BYTES[unit.upper()]


_LEAVING: Final = late_regex(
    r"\bwhile (?:collecting|dumping|handling|aborting|exiting|shutting|tearing|cleaning)\b"
    r"|\bflight[ _]recorder\b|\b(?:core|crash|memory|state|debug|post-?mortem)[ _]?(?:dumps?"
    r"|reports?|handler|log)\b|\bstack ?traces?\b|\bexcept(?:ion)?[ _]?(?:hook|handler)\b"
    r"|\bat ?exit\b"
    r"|\b(?:during|in|on|at) (?:shut ?down|teardown|clean ?up|finali[sz]ation|exit|abort)\b"
    r"|\bemergency (?:save|checkpoint|ckpt|dump|snapshot)",
    re.I,
)
"""Such as ``error while dumping the flight recorder``."""
_BY_ITSELF: Final = r"(?!-?(?:9|137|15|143|0)\b)-?\d"
"""An exit status that is no kill's."""
OTHER_END: Final = late_regex(rf"\bexit_?code\s*[:=] ?{_BY_ITSELF}", re.I)
"""A task that a launcher saw end by itself: its kill of the others is no cause."""
FIRST_END: Final = late_regex(
    r"\b(?:tasks?|rank|worker|process|proc|pid|pod|container|replica|child|node|host"
    r"|(?<![\w.])[\w.]+-\d+)\b"
    r".{0,60}\b(?:exit(?:s|ed)?|return(?:s|ed)|failed|died|ended|terminated|finished)\b.{0,24}"
    rf"(?:code|status|rc|error)\W{{0,3}}(?:of )?{_BY_ITSELF}",
    re.I,
)
"""The same in a sentence, which counts where it stands before the others' kills."""
_VICTIM: Final = late_regex(r"\b(?:process|pid)\W{0,4}(\d{2,10})\b", re.I)
"""Whom a kernel has killed: ``Killed process 4711 (python)``."""
_NUMBERED: Final = late_regex(r"\bpids?\b(?:\(s\))?\W{0,4}(\d{2,10})\b", re.I)
"""Who is missed: ``worker pid 4711 died``."""
_RECENT: Final = late_regex(r"^(?:\d+s|[1-9]m(?:\d+s)?)\s+(?:\(x\d+ [^)]*\)\s+)?Warning\s")
"""An event of Kubernetes, by its age when it was asked: at most ten minutes."""


def met_while_leaving(log: Log, found: Sequence[int]) -> set[int]:
    """Return which of the lines ``found`` (0-based) tell what a program met while it ended."""
    leaving = frozenset(log.matching(_LEAVING))
    return {index for index in found if index in leaving}


def ended_since(log: Log, found: Sequence[int]) -> set[int]:
    """Return which of the lines ``found`` (0-based) tell of an end that stands below all training.

    The process that a kernel has killed is missed at the end, by its number; or the line is an
    event of the last minutes.
    """
    victims = {i: {each[1] for each in _VICTIM.finditer(log.lines[i])} for i in found}
    last = log.marks[-1][0] if log.marks else -1
    below = log.lines[last + 1 :] if any(victims.values()) else ()
    missed = {each[1] for line in below for each in _NUMBERED.finditer(line)}
    return {i for i in found if victims[i] & missed or _RECENT.match(log.lines[i])}


TAIL = 12
"""Lines at the end that must hold the words of a program that said why it ended."""

LAST_WORDS = 300
"""Lines at the end in which an interrupt still explains it: every rank prints its own trace."""
KILL_CODES = (137, -9)
_RECEIVED: Final = late_regex(
    r"\b(received|caught|got|handling)\b.{0,24}\b(sig(term|hup|quit)|signal:? ?(15|[1-3]))\b"
    r"|\b(sig(term|hup|quit)|signal:? ?(15|[1-3]))\b.{0,24}\b(received|caught|arrived)\b"
    r"|\binterrupt (received|caught)\b",
    re.I,
)
"""Such as ``Received SIGTERM, shutting down``."""
_SENT: Final = late_regex(r"\bsending\b.{0,60}\bsigterm\b", re.I)
"""A launcher tells the others to leave once one is killed, or once it is told to itself."""
INTERRUPT_CODES = (130, -2)
TERM_CODES = (143, -15)


def by_exit(log: Log, exit_code: int | None) -> Triage:
    """Return what the exit code means, together with what was complained of at the end."""
    usage = misused(log)
    crash = [index for index in log.naming(CRASH) if not healed(log, index)]
    if usage:
        return answer(log, "small_code_bug", "fix_then_relaunch", "likely", usage)
    if crash:
        return answer(log, "complex_code_bug", "escalate", "likely", crash)
    kills = killed(log)
    was_killed = bool(kills) or (exit_code in KILL_CODES and not _ended_by_itself(log))
    spent = spent_memory(log) if was_killed or exit_code in KILL_CODES else []
    spent = spent or [index for index in log.naming(FOR_MEMORY) if not healed(log, index)]
    if spent:
        return answer(log, "oom_host", "escalate", "likely", spent)
    if was_killed:
        again = log.incidents(log.naming(KILLED)) > 1
        action: Action = "escalate" if again or _killed_on_purpose(log) else "relaunch"
        return answer(log, "killed", action, "likely", kills or _end(log))
    if exit_code in TERM_CODES:
        # By whom is not said: perhaps a person, then nobody else may undo it.
        return answer(log, "user_stopped", "escalate", "guess", log.naming(TERMINATED) or _end(log))
    return _by_complaint(log, exit_code)


def _killed_on_purpose(log: Log) -> bool:
    """Tell whether a person, or who had waited for it in vain, is named beside the kill.

    Or whether it had been asked to leave before: the log does not say by whom, so a person decides.
    """
    told = {i for words in (HUNG, PROBE, BY_HAND) for i in log.naming(words)}
    sent = min((i for i in log.matching(_SENT) if not log.went_on(i)), default=len(log.lines))
    told |= {index for index in log.naming(_RECEIVED) if index < sent}
    newest = len(log.lines) - LAST_WORDS
    return any(index > newest and not log.went_on(index) for index in told)


def _by_complaint(log: Log, exit_code: int | None) -> Triage:
    """Judge by what is complained of at the end, without a traceback."""
    refused = [] if log.marks else log.matching(REFUSED)
    if refused:
        return answer(log, "capacity_wait", "escalate", "likely", refused)
    data = [index for index in log.naming(DATA) if not healed(log, index)]
    if data:
        return answer(log, "data_error", "escalate", "likely", data)
    network = [index for index in log.matching(NETWORK) if len(log.lines) - index <= TAIL]
    network = [index for index in network if not REFUSAL.search(log.lines[index])]
    more = complaints(log)
    peers = [
        i for i in log.matching(ECHO) if COLLECTIVE.search(log.lines[i]) and not healed(log, i)
    ]
    own = [i for i in more if not TASK_DIED.search(log.lines[i])]
    own = [i for i in own if not LAUNCHER.search(log.lines[i])]
    if peers and not own and any(FATAL.search(log.lines[index]) for index in peers):
        return answer(log, "distributed_hang", "escalate", "guess", peers)
    if network and not more:
        first = log.matching(NETWORK)[0]
        again = any(first < index < network[-1] for index in log.restarts)
        return answer(
            log, "network_transient", "escalate" if again else "relaunch", "guess", network
        )
    thin = _by_gist(log)
    if thin is not None:
        return thin
    if exit_code is None and _just_stops(log):
        return answer(log, "killed", "relaunch", "guess", _end(log))
    return answer(log, "unknown", "escalate", "guess", more or log.matching(ALARM)[-EVIDENCE:])


def _by_gist(log: Log) -> Triage | None:
    """Return the class that the first line with a thing and a trouble names, at the very end."""
    last = max(log.marks[-1][0] if log.marks else -1, len(log.lines) - TAIL - 1)
    for index in range(last + 1, len(log.lines)):
        found = None if index in log.listed else gist([log.lines[index]])
        if found is not None:
            return answer(log, *found, "guess", [index])
    return None


def complaints(log: Log) -> list[int]:
    """Return the lines at the end that complain of more than the network: a cause, perhaps."""
    own = [index for index in log.matching(FATAL) if not healed(log, index)]
    echoes = (NETWORK, ECHO)
    return [i for i in own if not any(pattern.search(log.lines[i]) for pattern in echoes)]


def _just_stops(log: Log) -> bool:
    """Tell whether the log ends in the middle of training, with no word of alarm."""
    end = [bare(line) for line in log.lines[-TAIL:] if line.strip()]
    marks = [index for index, _ in marks_of(end, steps_of(end))]
    if not marks or marks[-1] < len(end) - 3:
        return False
    if any(ALARM.search(line) for index, line in enumerate(end) if index not in marks):
        return False
    after = end[marks[-1] + 1 :]
    if not all(USUAL.search(line) for line in after):
        return False
    return not any(
        said.search(line)
        for line in after
        for said in (ORDERED, BY_HAND, TERMINATED, DONE, STUCK, FATAL)
    )


def misused(log: Log) -> list[int]:
    """Return the lines by which a command line or a setting was not understood."""
    settings = [index for index in log.naming(CONFIG) if FATAL.search(log.lines[index])]
    return [i for i in sorted({*log.naming(USAGE), *settings}) if not healed(log, i)]


def killed(log: Log) -> list[int]:
    """Return the lines that tell of a kill which is no launcher's, after another one's end."""
    return [] if _ended_by_itself(log) else _kills(log)


def _ended_by_itself(log: Log) -> bool:
    """Tell whether a task had ended by itself before a launcher killed the others."""
    if any(not healed(log, index) for index in log.naming(OTHER_END)):
        return True
    first = min(_kills(log), default=len(log.lines))
    return any(index < first and not healed(log, index) for index in log.naming(FIRST_END))


def task_failed(log: Log) -> bool:
    """Tell whether a task is said to have ended with another status than 0, and no training after.

    Behind a pipe (``| tee``), or in a script that goes on, it is not the job's.
    """
    ends = (TASK_DIED, FIRST_END, OTHER_END, KILLED)
    return any(not log.went_on(index) for each in ends for index in log.naming(each))


def _kills(log: Log) -> list[int]:
    return [index for index in log.naming(KILLED) if not healed(log, index)]


def healed(log: Log, index: int) -> bool:
    """Tell whether training went on long after a line, to the end or nearly."""
    return log.outlived(index) and log.end - index > TAIL


def _end(log: Log) -> list[int]:
    return [index for index, line in enumerate(log.lines) if line.strip()][-2:]


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


def failed_before(log: Log) -> list[int]:
    """Return the lines (0-based) that tell of an earlier end like this one; a request's are none.

    What training has outlived since is over, unless it is said of starts before this one.
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
    """Tell whether the lines ``found`` tell of several ends: training had started again between."""
    marks = [index for index, _ in log.marks]
    for start in log.restarts:
        at = bisect_right(found, start)
        if not 0 < at < len(found) or found[at - 1] == start:
            continue
        if bisect_right(marks, start) < bisect_right(marks, found[at]):
            return True
    return False

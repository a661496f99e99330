"""A job that ended without an exception: its exit code, a kill, the last complaint (SPEC T)."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.aftermath import FIRST_END, OTHER_END
from cockpit.rules.triage.answers import EVIDENCE, answer
from cockpit.rules.triage.data_words import DATA
from cockpit.rules.triage.gist import gist
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.log_text import marks_of, steps_of
from cockpit.rules.triage.memory_use import FOR_MEMORY, spent_memory
from cockpit.rules.triage.orders import BY_HAND, ORDERED
from cockpit.rules.triage.prefixes import bare
from cockpit.rules.triage.signs import Action
from cockpit.rules.triage.words import (
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
    TASK_DIED,
    TERMINATED,
    USAGE,
    USUAL,
)

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

    Or whether it had been told to leave before: by whom is not said, and nobody may undo it.
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
        said.search(line) for line in after for said in (ORDERED, BY_HAND, TERMINATED, DONE)
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


def told_otherwise(log: Log) -> bool:
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

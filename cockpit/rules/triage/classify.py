"""SPEC T: one class for a log, the lines it rests on, and one action.

What the orchestrator says decides first (a success is a success), then the scheduler's and
the machine's own words, then the exception that ended the program, then the exit code. Where
nothing decides, the answer is ``unknown`` and a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from cockpit.model.observed import Triage
from cockpit.rules.triage.log_text import (
    Raised,
    bare,
    decisive,
    exceptions,
    losses_leave_trend,
    newest_step,
)
from cockpit.rules.triage.signs import (
    ALARM,
    CRASH,
    DATA,
    DONE,
    DRAIN,
    ELSEWHERE,
    KILLED,
    NETWORK,
    NEVER_STARTS,
    NOT_SMALL,
    REQUEUED,
    SIGNS,
    SMALL,
    STARTS,
    STOPPED,
    TERMINATED,
    TRACKER,
    TRAJECTORY,
    TROUBLE,
    USAGE,
    WAITING,
    Action,
    Sign,
)

READ = 20_000
"""Newest lines that are looked at."""

TAIL = 12
"""Lines at the end that must hold the words of a program that said why it ended."""

LAST_WORDS = 300
"""Lines at the end in which an interrupt still explains it: every rank prints its own trace."""

EVIDENCE = 5

_SGR = re.compile(r"\x1b\[[\d;]*m")
_STATES = (
    ("succeeded", re.compile(r"succe|^completed$|finished", re.I)),
    ("waiting", re.compile(r"pend|wait|queue|configuring|unschedulable", re.I)),
    ("running", re.compile(r"running|building|completing", re.I)),
    ("cancelled", re.compile(r"cancel|stopped|JOB_STATE_KILLED", re.I)),
)
STATE_CLASS: dict[str, tuple[str, Action]] = {
    "OUT_OF_MEMORY": ("oom_host", "escalate"),
    "NODE_FAIL": ("node_death", "relaunch"),
    "BOOT_FAIL": ("node_death", "relaunch"),
    "JOB_STATE_WORKER_FAILED": ("node_death", "relaunch"),
    "TIMEOUT": ("walltime", "relaunch"),
    "DEADLINE": ("walltime", "relaunch"),
    "PREEMPTED": ("preempted", "relaunch"),
}
"""Words of an orchestrator that are a class by themselves."""
_KILL_CODES = (137, -9)
_INTERRUPT_CODES = (130, -2)
_TERM_CODES = (143, -15)


class Log(NamedTuple):
    """The present job's lines, and the number (1-based) of the first of them."""

    lines: tuple[str, ...]
    first: int

    def matching(self, pattern: re.Pattern[str]) -> list[int]:
        """Return the indexes of the lines that match."""
        return [index for index, line in enumerate(self.lines) if pattern.search(line)]


def triage(lines: Sequence[str], state: str, exit_code: int | None) -> Triage:
    """Return the class, action, confidence, evidence, code location and step of a log.

    ``state`` is the orchestrator's word at that moment, its own or the phase's.
    """
    log = _present_job(lines)
    phase = next((name for name, pattern in _STATES if pattern.search(state)), "failed")
    if phase == "succeeded":
        return _answer(log, "success", "none", "sure", log.matching(DONE))
    if phase == "waiting":
        return _waiting(log)
    if phase == "running":
        return _running(log)
    return _ended(log, state, phase == "cancelled", exit_code)


def _present_job(lines: Sequence[str]) -> Log:
    begin = max(0, len(lines) - READ)
    clean = [_SGR.sub("", str(line)) for line in lines[begin:]]
    starts = [index for index, line in enumerate(clean) if STARTS.search(line)]
    cut = starts[-1] if starts else 0
    return Log(tuple(clean[cut:]), begin + cut + 1)


def _answer(
    log: Log,
    name: str,
    action: Action,
    confidence: Literal["sure", "likely", "guess"],
    indexes: Sequence[int] = (),
    place: Triage.Place | None = None,
) -> Triage:
    chosen = [*indexes[: EVIDENCE - 1], *indexes[-1:]] if len(indexes) > EVIDENCE else indexes
    return Triage(
        name=name,
        action=action,
        confidence=confidence,
        evidence=tuple(
            Triage.Line(line=log.first + index, text=log.lines[index]) for index in chosen
        ),
        code_location=place,
        step=newest_step(log.lines),
    )


def _waiting(log: Log) -> Triage:
    never = log.matching(NEVER_STARTS)
    if never:
        return _answer(log, "capacity_wait", "escalate", "likely", never)
    taken = [sign for sign in SIGNS if sign.name == "preempted" and log.matching(sign.pattern)]
    if taken:
        return _answer(log, "preempted", "wait", "sure", log.matching(taken[0].pattern))
    found = log.matching(WAITING)
    return _answer(log, "capacity_wait", "wait", "sure" if found else "likely", found)


def _running(log: Log) -> Triage:
    sign, found = _first_sign(log)
    moved_on = bool(found) and _went_on(log, found[-1])
    if sign is not None and not (moved_on and sign.name not in _LASTING):
        return _answer(log, sign.name, sign.alive, "likely", found)
    leaving = losses_leave_trend(log.lines)
    if leaving:
        return _answer(log, "numeric_instability", "escalate", "likely", leaving)
    return _running_noise(log)


_LASTING = frozenset(("numeric_instability", "disk_full", "hardware_fault"))
"""What is not healed by the next progress line."""


def _running_noise(log: Log) -> Triage:
    raised = decisive(exceptions(log.lines))
    own = raised is not None and not TRACKER.search(log.lines[raised.at])
    if raised is not None and own and not _went_on(log, raised.at):
        return _answer(log, "complex_code_bug", "escalate", "guess", (raised.at,))
    trouble = [i for i in log.matching(TRACKER) if TROUBLE.search(log.lines[i])]
    if trouble:
        return _answer(log, "tracker_error", "none", "likely", trouble)
    network = log.matching(NETWORK)
    if network:
        return _answer(log, "network_transient", "none", "likely", network)
    return _answer(log, "harmless_noise", "none", "guess", log.matching(ALARM))


def _went_on(log: Log, index: int) -> bool:
    """Tell whether training progress is printed after the line at ``index``."""
    return newest_step(log.lines[index + 1 :]) is not None


def _first_sign(log: Log) -> tuple[Sign | None, list[int]]:
    """Return the deepest cause that the log names, and where."""
    for sign in SIGNS:
        found = log.matching(sign.pattern)
        if found:
            return sign, found
    return None, []


def _ended(log: Log, state: str, cancelled: bool, exit_code: int | None) -> Triage:
    known = STATE_CLASS.get(state.strip().upper())
    if known is not None:
        named = [i for sign in SIGNS if sign.name == known[0] for i in log.matching(sign.pattern)]
        return _answer(log, known[0], known[1], "sure", named)
    raised = decisive(exceptions(log.lines))
    if raised is not None and _healed(log, raised.at):
        raised = None
    sign, found = _first_sign(log)
    if sign is not None and _decides(log, sign, found, raised):
        return _by_sign(log, sign, found)
    stopped = log.matching(STOPPED)
    if (
        cancelled
        or exit_code in _INTERRUPT_CODES
        or (stopped and len(log.lines) - stopped[-1] <= LAST_WORDS)
    ):
        return _answer(log, "user_stopped", "none", "sure" if stopped else "likely", stopped)
    return _by_exit(log, exit_code) if raised is None else _by_exception(log, raised)


def _by_sign(log: Log, sign: Sign, found: list[int]) -> Triage:
    action: Action = sign.action
    if sign.name == "preempted" and log.matching(REQUEUED):
        action = "wait"
    if sign.name == "hardware_fault" and log.matching(DRAIN):
        action = "escalate"
    return _answer(log, sign.name, action, "sure", found)


def _decides(log: Log, sign: Sign, found: list[int], raised: Raised | None) -> bool:
    """Tell whether a sign ended the job: training did not go on after it.

    Nor may it be that ranks waited in vain for one that had raised before.
    """
    if sign.name == "distributed_hang" and raised is not None and raised.at < found[0]:
        return False
    return sign.name in _LASTING or not _healed(log, found[-1])


def _healed(log: Log, index: int) -> bool:
    return _went_on(log, index) and len(log.lines) - index > TAIL


def _by_exception(log: Log, raised: Raised) -> Triage:
    message = log.lines[raised.at]
    own = " ".join(log.lines[raised.begin : raised.at + 3])
    # A loader re-raises what its worker met: the line that says so stands before the traceback.
    chained = " ".join(log.lines[max(0, raised.begin - 3) : raised.begin]) + own
    place = raised.place
    where = Triage.Place(file=place.file, line=place.line) if place is not None else None
    at = (raised.at,)
    if DATA.search(chained):
        return _answer(log, "data_error", "escalate", "likely", at, where)
    if TRACKER.search(message) or (raised.frames and "/wandb/" in raised.frames[-1].file):
        return _answer(log, "tracker_error", "fix_then_relaunch", "likely", at, where)
    if NETWORK.search(message):
        return _answer(log, "network_transient", "relaunch", "likely", at, where)
    if _is_small(raised, own):
        risky = place is not None and TRAJECTORY.search("/".join(place.file.split("/")[-2:]))
        action: Action = "escalate" if risky else "fix_then_relaunch"
        return _answer(log, "small_code_bug", action, "likely", at, where)
    return _answer(log, "complex_code_bug", "escalate", "likely", at, where)


def _is_small(raised: Raised, own: str) -> bool:
    """Tell whether one named line of one's own code is likely to mend it.

    A missing module or file is one's own to mend wherever it was missed; a name or a key only
    where it is one's own code that asked for it.
    """
    place = raised.place
    if raised.name not in SMALL or NOT_SMALL.search(own) or place is None:
        return False
    if raised.name == "ModuleNotFoundError":
        return True
    asked = [frame for frame in raised.frames if not frame.file.startswith("<")]
    return place.own and (raised.name in ELSEWHERE or asked[-1:] == [place])


def _by_exit(log: Log, exit_code: int | None) -> Triage:
    usage, crash = log.matching(USAGE), log.matching(CRASH)
    if usage:
        return _answer(log, "small_code_bug", "fix_then_relaunch", "likely", usage)
    if crash:
        return _answer(log, "complex_code_bug", "escalate", "likely", crash)
    killed = log.matching(KILLED)
    if exit_code in _KILL_CODES or killed:
        return _answer(log, "killed", "relaunch", "likely", killed or _end(log))
    if exit_code in _TERM_CODES:
        return _answer(log, "user_stopped", "none", "guess", log.matching(TERMINATED) or _end(log))
    network = [index for index in log.matching(NETWORK) if len(log.lines) - index <= TAIL]
    if network:
        return _answer(log, "network_transient", "relaunch", "guess", network)
    if exit_code is None and _just_stops(log):
        return _answer(log, "killed", "relaunch", "guess", _end(log))
    return _answer(log, "unknown", "escalate", "guess", log.matching(ALARM)[-EVIDENCE:])


def _just_stops(log: Log) -> bool:
    """Tell whether the log ends in the middle of training, with no word of alarm."""
    end = [bare(line) for line in log.lines[-TAIL:] if line.strip()]
    return newest_step(end[-3:]) is not None and not any(ALARM.search(line) for line in end)


def _end(log: Log) -> list[int]:
    return [index for index, line in enumerate(log.lines) if line.strip()][-2:]

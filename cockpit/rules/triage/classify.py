"""SPEC T: one class for a log, the lines it rests on, and one action.

What the orchestrator says decides first (a success is a success), then the scheduler's and
the machine's own words, then the exception that ended the program, then the exit code. Where
nothing decides, the answer is ``unknown`` and a person.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from cockpit.model.logtext import PresentLog, held
from cockpit.model.observed import JobValue, Phase, Triage
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.log_text import (
    Raised,
    bare,
    decisive,
    exceptions,
    is_echo,
    losses_leave_trend,
    newest_step,
)
from cockpit.rules.triage.signs import (
    ALARM,
    CRASH,
    DATA,
    DONE,
    DRAIN,
    ECHO,
    ELSEWHERE,
    FATAL,
    KILLED,
    NETWORK,
    NEVER_STARTS,
    NOT_SMALL,
    OPENING,
    REQUEUED,
    SIGNS,
    SMALL,
    SPECULATED,
    SPECULATES,
    STEP_CANCELLED,
    STOPPED,
    TASK_DIED,
    TERMINATED,
    TRACKER,
    TRAJECTORY,
    TROUBLE,
    USAGE,
    WAITING,
    WRAPPERS,
    Action,
    Sign,
)

TAIL = 12
"""Lines at the end that must hold the words of a program that said why it ended."""

LAST_WORDS = 300
"""Lines at the end in which an interrupt still explains it: every rank prints its own trace."""

EVIDENCE = 5

_STATES = (
    ("succeeded", re.compile(r"succe|^completed$|finished", re.I)),
    ("waiting", re.compile(r"pend|wait|queue|configuring|unschedulable", re.I)),
    ("running", re.compile(r"running|building|completing", re.I)),
    ("cancelled", re.compile(r"cancel|stopped|JOB_STATE_KILLED", re.I)),
)
OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
STATE_CLASS: dict[str, tuple[str, Action]] = {
    OUT_OF_MEMORY: ("oom_host", "escalate"),
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


def word_of(job: JobValue) -> str:
    """Return the word for a job's state that is part of triage's input.

    Of a job that lost a step to its memory limit Slurm says that it failed, and only of the step
    why; its own words for that stand in the reason.
    """
    if job.phase is Phase.FAILED and OUT_OF_MEMORY in (job.reason or ""):
        return OUT_OF_MEMORY
    return job.state if job.state.upper() in STATE_CLASS else job.phase.value


def triage(lines: Sequence[str], state: str, exit_code: int | None) -> Triage:
    """Return the answer for a whole log, given as its lines; see ``diagnose``."""
    return diagnose(held(tuple(map(str, lines))), state, exit_code)


def diagnose(
    log: PresentLog,
    state: str,
    exit_code: int | None,
    *,
    short: bool | None = None,
    final: int | None = None,
) -> Triage:
    """Return the class, action, confidence, evidence, code location and step of a log.

    ``state`` is the orchestrator's word at that moment, its own or the phase's. ``short``
    tells whether training ended before its ``final`` step, ``None`` where that is not known;
    a log that has reached it knows better.
    """
    lines = Log.of(log)
    phase = next((name for name, pattern in _STATES if pattern.search(state)), "failed")
    if phase == "succeeded":
        newest = lines.newest_step
        whole = final is not None and newest is not None and newest >= final - 1
        return _succeeded(lines, False if whole else short)
    if phase == "waiting":
        return _waiting(lines)
    if phase == "running":
        return _running(lines)
    found = _ended(lines, state, phase == "cancelled", exit_code)
    return _as_sure_as_read(lines, _never_over_nan(lines, found))


def _succeeded(log: Log, short: bool | None) -> Triage:
    """Judge an exit status of 0: only its word, if the program was told to leave (SPEC J, T)."""
    done = log.matching(DONE)
    if short is False or (done and short is None):
        return _answer(log, "success", "none", "sure", done)
    last = len(log.lines) - LAST_WORDS
    for sign in SIGNS:
        found = [index for index in log.matching(sign.pattern) if index >= last]
        if short and found and not log.outlived(found[-1]):
            return _by_sign(log, sign, found)
    told = [i for p in (STOPPED, TERMINATED) for i in log.matching(p) if i >= last]
    if told and not log.outlived(max(told)):
        return _answer(log, "user_stopped", "none", "guess", sorted(told))
    if short:
        return _answer(log, "unknown", "escalate", "guess", log.matching(ALARM)[-EVIDENCE:])
    return _answer(log, "success", "none", "likely", done)


def _never_over_nan(log: Log, found: Triage) -> Triage:
    """Turn a plain relaunch down where the last loss was no number (SPEC T, C-09)."""
    lost = log.lost_numbers()
    if not lost or found.action not in ("relaunch", "wait"):
        return found
    return _answer(log, "numeric_instability", "escalate", "likely", lost)


def _as_sure_as_read(log: Log, found: Triage) -> Triage:
    """Take back what older lines of the job may contradict, where they were not read.

    The first cause may stand in them. Where no training step is among the lines that were
    read, the end began above them: then they are echoes, and a person must look.
    """
    if log.read.whole:
        return found
    if not log.steps and found.action in ("relaunch", "wait", "none"):
        said = [index for index in log.matching(ALARM) if log.lines[index].strip()]
        return _answer(log, "unknown", "escalate", "guess", said[-EVIDENCE:])
    if found.confidence == "sure":
        return found.model_copy(update={"confidence": "likely"})
    return found


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
        evidence=tuple(log.evidence(index) for index in chosen),
        code_location=place,
        step=log.newest_step,
        read=log.read,
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
    moved_on = bool(found) and log.went_on(found[-1])
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
    if raised is not None and own and not log.went_on(raised.at):
        return _answer(log, "complex_code_bug", "escalate", "guess", (raised.at,))
    trouble = [i for i in log.matching(TRACKER) if TROUBLE.search(log.lines[i])]
    if trouble:
        return _answer(log, "tracker_error", "none", "likely", trouble)
    network = log.matching(NETWORK)
    if network:
        return _answer(log, "network_transient", "none", "likely", network)
    return _answer(log, "harmless_noise", "none", "guess", log.matching(ALARM))


def _named(log: Log, sign: Sign) -> list[int]:
    """Return the lines that name a sign, but for texts that only list what may have been."""
    found = log.matching(sign.pattern)
    if sign.name not in SPECULATED:
        return found
    return [index for index in found if not SPECULATES.search(log.lines[index])]


def _first_sign(log: Log) -> tuple[Sign | None, list[int]]:
    """Return the deepest cause that the log names, and where."""
    for sign in SIGNS:
        found = _named(log, sign)
        if found:
            return sign, found
    return None, []


_TAKEN = frozenset(("preempted", "walltime", "node_death"))
_OWN_END = frozenset(
    ("numeric_instability", "hbm_exhausted", "oom_host", "oom_device", "disk_full")
)
"""What no scheduler and no lost node brings about."""
_ECHOED = frozenset(("distributed_hang", "node_death"))


def _standing_sign(log: Log) -> tuple[Sign | None, list[int]]:
    """Return the deepest cause that was not overcome, and where.

    Numbers that were lost before it are the cause, whatever came of it, and memory or a disk
    that had run out explains a node that is lost, or a limit that is reached, only later (SPEC
    T: the first cause in time outranks its echoes).
    """
    standing: list[tuple[Sign, list[int]]] = []
    for sign in SIGNS:
        found = [index for index in _named(log, sign) if not _overcome(log, sign, index)]
        if found:
            standing.append((sign, found))
    if not standing:
        return None, []
    deepest, found = standing[0]
    before = [
        each
        for each in standing
        if each[1][0] < found[0]
        and (each[0].name == "numeric_instability" or deepest.name in _TAKEN)
        and each[0].name in _OWN_END
    ]
    return min(before, key=lambda each: each[1][0]) if before else (deepest, found)


def _overcome(log: Log, sign: Sign, index: int) -> bool:
    """Tell whether training went on after a sign, and for what it lost, without it."""
    if sign.name == "numeric_instability":
        return log.numbers_came_back(index)
    return log.outlived(index) and len(log.lines) - index > TAIL


def _ended(log: Log, state: str, cancelled: bool, exit_code: int | None) -> Triage:
    known = STATE_CLASS.get(state.strip().upper())
    sign, found = _standing_sign(log)
    spent = sign is not None and sign.name in _OWN_END
    if known is not None and not (spent and known[0] in _TAKEN):
        named = [i for sign in SIGNS if sign.name == known[0] for i in log.matching(sign.pattern)]
        return _answer(log, known[0], known[1], "sure", named)
    raised = decisive([each for each in exceptions(log.lines) if not _healed(log, each.at)])
    if sign is not None and _decides(sign, found, raised):
        return _by_sign(log, sign, found)
    stopped = _stopped(log, raised)
    if cancelled or stopped or exit_code in _INTERRUPT_CODES:
        return _answer(log, "user_stopped", "none", "sure" if stopped else "likely", stopped)
    return _by_exit(log, exit_code) if raised is None else _by_exception(log, raised)


def _decides(sign: Sign, found: list[int], raised: Raised | None) -> bool:
    """Tell whether a sign ended the job, and is no echo of what one of its ranks had raised.

    The others wait for it in vain, and what it ran on is called lost once it has gone.
    """
    if raised is None or sign.name not in _ECHOED or is_echo(raised) or raised.name in WRAPPERS:
        return True
    return raised.at >= found[0]


def _stopped(log: Log, raised: Raised | None) -> list[int]:
    """Return the lines that tell of a stop by a person, but for what Slurm does by itself.

    It cancels the whole step once one of its tasks has failed, and so do launchers.
    """
    found = [index for index in log.matching(STOPPED) if len(log.lines) - index <= LAST_WORDS]
    steps = [index for index in found if STEP_CANCELLED.search(log.lines[index])]
    if not steps:
        return found
    died = [index for index in log.matching(TASK_DIED) if index < steps[0]]
    if raised is not None and not is_echo(raised) and raised.name != "KeyboardInterrupt":
        died += [raised.at] if raised.at < steps[0] else []
    return [index for index in found if index not in steps] if died else found


def _by_sign(log: Log, sign: Sign, found: list[int]) -> Triage:
    action: Action = sign.action
    if sign.name == "preempted" and log.matching(REQUEUED):
        action = "wait"
    if sign.name == "hardware_fault" and log.matching(DRAIN):
        action = "escalate"
    if sign.name == "hardware_fault" and not log.steps and log.matching(OPENING):
        return _answer(log, "bad_node", "escalate", "likely", found)
    return _answer(log, sign.name, action, "sure", found)


def _healed(log: Log, index: int) -> bool:
    return log.outlived(index) and len(log.lines) - index > TAIL


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
    return _by_complaint(log, exit_code)


def _by_complaint(log: Log, exit_code: int | None) -> Triage:
    """Judge by what is complained of at the end, without a traceback."""
    data = [index for index in log.matching(DATA) if not _healed(log, index)]
    if data:
        return _answer(log, "data_error", "escalate", "likely", data)
    network = [index for index in log.matching(NETWORK) if len(log.lines) - index <= TAIL]
    more = _complaints(log)
    if network and not more:
        return _answer(log, "network_transient", "relaunch", "guess", network)
    if exit_code is None and _just_stops(log):
        return _answer(log, "killed", "relaunch", "guess", _end(log))
    alarm = more or log.matching(ALARM)[-EVIDENCE:]
    return _answer(log, "unknown", "escalate", "guess", alarm)


def _complaints(log: Log) -> list[int]:
    """Return the lines at the end that complain of more than the network: a cause, perhaps."""
    own = [index for index in log.matching(FATAL) if not _healed(log, index)]
    echoes = (NETWORK, ECHO)
    return [i for i in own if not any(pattern.search(log.lines[i]) for pattern in echoes)]


def _just_stops(log: Log) -> bool:
    """Tell whether the log ends in the middle of training, with no word of alarm."""
    end = [bare(line) for line in log.lines[-TAIL:] if line.strip()]
    return newest_step(end[-3:]) is not None and not any(ALARM.search(line) for line in end)


def _end(log: Log) -> list[int]:
    return [index for index, line in enumerate(log.lines) if line.strip()][-2:]

"""SPEC T: one class for a log, the lines it rests on, one action; alarming lines in long logs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import Alarm, PresentLog
from cockpit.model.observed import JobValue, Phase, Triage
from cockpit.model.own_rules import SignatureSpec
from cockpit.rules.triage.by_exit import LAST_WORDS, TAIL, failed_before, task_failed
from cockpit.rules.triage.ended import (
    broken_off,
    by_own,
    by_sign,
    counted_to_the_end,
    ended,
    lines_saying,
)
from cockpit.rules.triage.exceptions import BEGIN
from cockpit.rules.triage.literals import Needs, WordIndex, alternatives
from cockpit.rules.triage.log import EVIDENCE, Log, answer
from cockpit.rules.triage.log_text import left_trend
from cockpit.rules.triage.patterns import (
    ALARM,
    CRASH,
    DONE,
    KILLED,
    NETWORK,
    OFFICIAL,
    REQUEUED,
    TASK_DIED,
    TERMINATED,
    THROUGH,
)
from cockpit.rules.triage.phrases import DATA, PLAIN_ORDER, STOPPED
from cockpit.rules.triage.running import own_while_alive, running, waiting
from cockpit.rules.triage.signs import SIGNS, Action, Sign, own_signs

_STATES = (
    ("succeeded", late_regex(r"succe|^completed$|finished", re.I)),
    ("waiting", late_regex(r"pend|wait|queue|configuring|unschedulable", re.I)),
    ("running", late_regex(r"running|building|completing", re.I)),
    ("cancelled", late_regex(r"cancel|stopped|JOB_STATE_KILLED", re.I)),
    ("unknown", late_regex(r"^unknown$", re.I)),
)
REPEATABLE: Final = frozenset(("killed", "hardware_fault", "node_death", "network_transient"))
"""Failures after which a first relaunch is right, and a second one is not."""
OUT_OF_MEMORY: Final = "OUT_OF_MEMORY"
STATE_CLASS: dict[str, tuple[str, Action]] = {
    OUT_OF_MEMORY: ("oom_host", "escalate"),
    "NODE_FAIL": ("node_death", "relaunch"),
    "BOOT_FAIL": ("node_death", "relaunch"),
    "JOB_STATE_WORKER_FAILED": ("node_death", "relaunch"),
    "TIMEOUT": ("walltime", "relaunch"),
    "DEADLINE": ("walltime", "relaunch"),
    "PREEMPTED": ("preempted", "relaunch"),
    "OOMKILLED": ("oom_host", "escalate"),
    "DEADLINEEXCEEDED": ("walltime", "relaunch"),
    "PREEMPTIONBYSCHEDULER": ("preempted", "relaunch"),
    "NODELOST": ("node_death", "relaunch"),
    "NODESHUTDOWN": ("node_death", "relaunch"),
    "DELETIONBYTAINTMANAGER": ("node_death", "relaunch"),
}
"""Words of an orchestrator that are a class by themselves."""


def word_of(job: JobValue) -> str:
    """Return the word for a job's state that is part of triage's input.

    Of a job that lost a step to its memory limit Slurm says that it failed, and only of the step
    why; its own words for that stand in the reason.
    """
    if job.phase is Phase.FAILED and OUT_OF_MEMORY in (job.reason or ""):
        return OUT_OF_MEMORY
    return job.state if job.state.upper() in STATE_CLASS else job.phase.value


def diagnose(
    log: PresentLog,
    state: str,
    exit_code: int | None,
    *,
    short: bool | None = None,
    final: int | None = None,
    own: Sequence[SignatureSpec] = (),
) -> Triage:
    """Return the class, action, confidence, evidence, code location and step of a log.

    ``state`` is the orchestrator's word at that moment, its own or the phase's. ``short``
    tells whether training ended before its ``final`` step, ``None`` where that is not known;
    a log that has reached it knows better. ``own`` are the run file's signatures: they count
    where nothing else is sure, and what speaks against a relaunch speaks against theirs, too.
    """
    phase = next((name for name, pattern in _STATES if pattern.search(state)), "failed")
    over = phase != "running"
    lines = Log.of(log, over=over)
    found = _diagnosed(lines, phase, state, exit_code, short, final, own)
    if lines.left_out and found.action in _GOES_ON:
        whole = Log.of(log, over=over, most=sys.maxsize)
        return _diagnosed(whole, phase, state, exit_code, short, final, own)
    return found


_GOES_ON: Final = ("relaunch", "fix_then_relaunch", "wait")
"""Actions that one line may forbid: a training that is complete, a stop by a person."""


def _diagnosed(
    lines: Log,
    phase: str,
    state: str,
    exit_code: int | None,
    short: bool | None,
    final: int | None,
    own: Sequence[SignatureSpec],
) -> Triage:
    signs = own_signs(tuple(own))
    for sign in signs:
        lines.try_each(sign.pattern, sign.speakers)
    if phase == "succeeded":
        whole = final is not None and _reached(lines) >= final - 1
        other = task_failed(lines) and not counted_to_the_end(lines)
        doubted = short is None and (exit_code not in (None, 0) or other)
        found = _succeeded(lines, False if whole else short, doubted=doubted)
        return _though_nan(lines, _guarded(lines, by_own(lines, found, signs)))
    if phase == "waiting":
        return own_while_alive(lines, _never_over_nan(lines, waiting(lines)), signs)
    if phase == "running":
        return own_while_alive(lines, running(lines), signs)
    if phase == "unknown":
        return _unstated(lines, signs)
    known = STATE_CLASS.get(state.strip().upper())
    found = ended(lines, known, cancelled=phase == "cancelled", exit_code=exit_code)
    return _guarded(lines, by_own(lines, found, signs))


def _guarded(log: Log, found: Triage) -> Triage:
    """Take back what a second look speaks against: a relaunch above all."""
    found = _never_undone(log, _never_again(log, _never_over_nan(log, found)))
    return _as_sure_as_read(log, _never_twice(log, _never_once_done(log, found)))


def _unstated(log: Log, signs: Sequence[Sign]) -> Triage:
    """Judge a log of which nobody says whether its job has ended: then nothing is assumed.

    A farewell of the trainer, or a count that is full, is a success unless something ended it
    after that. What else the log tells is only told; nothing is relaunched that may still run.
    """
    found = by_own(log, ended(log, None, cancelled=False, exit_code=None), signs)
    found = _never_over_nan(log, found)
    last = log.marks[-1][0] if log.marks else -1
    done = [index for index in (*log.matching(DONE), *log.naming(THROUGH)) if index >= last]
    full = counted_to_the_end(log)
    failed = found.confidence == "sure" or (broken_off(log) is not None and not done)
    if (done or full) and not failed:
        return _though_nan(log, answer(log, "success", "none", "likely", sorted({*done})))
    if found.action == "none" or found.name == "unknown":
        return found
    if found.confidence == "guess":  # it only stops, or complains: so does a job that runs
        told = [index for index in (len(log.lines) - 1,) if index >= 0]
        return answer(log, "unknown", "escalate", "guess", told)
    return found.model_copy(update={"action": "escalate"})


def _reached(log: Log) -> int:
    """Return the last step of training, or the one at which it says that it is done."""
    done = frozenset(log.matching(DONE))
    said = [step for index, step in log.steps if index in done]
    return max([log.newest_step or 0, *said[-1:]])


def _succeeded(log: Log, short: bool | None, *, doubted: bool) -> Triage:
    """Judge an exit status of 0: only its word, if the program was told to leave (SPEC J, T).

    ``doubted`` where another exit status contradicts the orchestrator's word.
    """
    done = sorted({*log.matching(DONE), *log.naming(THROUGH)})
    done = [] if done and log.trained_on(done[-1]) else done  # a stage was
    if short is False or (done and short is None):
        return answer(log, "success", "none", "sure", done)
    broken = broken_off(log) if short is None else None
    if broken is not None:
        return broken
    last = len(log.lines) - LAST_WORDS
    for sign in SIGNS:
        found = [index for index in log.naming(sign.pattern, sign.speakers) if index >= last]
        if short and found and not log.outlived(found[-1]):
            return by_sign(log, sign, found)
    left = [i for p in (STOPPED, TERMINATED) for i in lines_saying(log, p) if i >= last]
    if left and not log.outlived(max(left)):
        return answer(log, "user_stopped", "none", "guess", sorted(left))
    if short or doubted:
        return answer(log, "unknown", "escalate", "guess", log.matching(ALARM)[-EVIDENCE:])
    return answer(log, "success", "none", "likely", done)


def _though_nan(log: Log, found: Triage) -> Triage:
    """Have a person look at what ended well with a loss that is no number (SPEC C-09)."""
    lost = log.lost_numbers()
    if not lost or found.action != "none":
        return found
    return answer(log, "numeric_instability", "escalate", "likely", lost)


def _never_over_nan(log: Log, found: Triage) -> Triage:
    """Turn a relaunch or a wait down where the last loss was no number, or had left its trend.

    SPEC T, C-09 and C-11: what goes on would be spoilt. Nothing else may have been said of it.
    """
    lost = log.lost_numbers()
    if not lost and (found.name == "unknown" or found.action == "relaunch"):
        lost = left_trend(log.lines, log.steps)
    echo = found.confidence == "guess" or found.name in ("unknown", "distributed_hang")
    if not lost or not (echo or found.action in ("relaunch", "fix_then_relaunch", "wait")):
        return found
    return answer(log, "numeric_instability", "escalate", "likely", lost)


def _never_again(log: Log, found: Triage) -> Triage:
    """Turn a relaunch down after a failure that had come before (SPEC C-14).

    Preemption and walltime do not count as repeated failures.
    """
    if found.action != "relaunch" or found.name not in REPEATABLE:
        return found
    return _by_a_person(log, found, failed_before(log))


def _by_a_person(log: Log, found: Triage, told: Sequence[int]) -> Triage:
    """Have a person decide where the lines ``told`` speak against an action."""
    careful = answer(log, found.name, "escalate", "likely", told)
    return careful.model_copy(update={"yours": found.yours}) if told else found


def _never_undone(log: Log, found: Triage) -> Triage:
    """Turn a relaunch down where somebody had ordered the end, too (SPEC T, ``user_stopped``).

    Which of the two came first, and whether the order stands, only a person knows.
    """
    if found.action != "relaunch":
        return found
    told = [index for index in log.naming(PLAIN_ORDER) if not log.went_on(index)]
    return _by_a_person(log, found, told)


def _never_once_done(log: Log, found: Triage) -> Triage:
    """Turn a relaunch down where training had said that it was through: a person must look."""
    last = log.marks[-1][0] if log.marks else -1
    if found.action not in ("relaunch", "fix_then_relaunch") or not any(
        index > last for index in log.naming(THROUGH)
    ):
        return found
    return found.model_copy(update={"action": "escalate", "confidence": "guess"})


def _never_twice(log: Log, found: Triage) -> Triage:
    """Wait for what comes back by itself: a second one would train beside it (SPEC T, C-25)."""
    if found.action != "relaunch":
        return found
    begun = max(log.restarts, default=-1)
    ahead = [i for i in log.naming(REQUEUED) if i >= begun and not log.went_on(i)]
    return found.model_copy(update={"action": "wait"}) if ahead else found


def _as_sure_as_read(log: Log, found: Triage) -> Triage:
    """Take back what older lines of the job may contradict, where they were not read.

    The first cause may stand in them. Where no training step is among the lines that were
    read, the end began above them: then they are echoes, and a person must look.
    """
    if log.read.whole:
        return found
    decided = any(
        log.speaker(i) == "scheduler" for i in log.naming(OFFICIAL) if i >= log.end - TAIL
    )
    if (
        not log.marks
        and not (decided and found.name == "walltime")
        and found.action in ("relaunch", "wait", "none")
    ):
        said = [index for index in log.matching(ALARM) if log.lines[index].strip()]
        return answer(log, "unknown", "escalate", "guess", said[-EVIDENCE:])
    if found.confidence == "sure":
        return found.model_copy(update={"confidence": "likely"})
    return found


LONGEST: Final = 1000
"""Bytes of a line that are looked at: a sign stands near the beginning of its line."""
REMEMBERED: Final = 8192
"""Shapes of up to ``LONGEST`` bytes whose meaning is kept; then it is found again."""
_BROKEN: Final = late_regex(
    r"(?:loss|entropy|grad_?norm)[^\d\r\n]{0,12}?(?:nan|[-+]?inf(?:inity)?)\b", re.I
)
"""Such as ``loss: nan``."""
_ALIKE: Final = bytes.maketrans(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZ123456789\r", b"abcdefghijklmnopqrstuvwxyz000000000\n"
)
_SPELLED: Final = late_regex(
    rb"errno 0|signal:? ?0|(?:code|status):? ?-?0|scale.{0,24}\bto 0"
    rb"|\b000\b.{0,40}(?:error|too many|unavailable|gateway|timeout|retry)"
)
"""Where a sign means one figure and no other."""
_SGR: Final = late_regex(rb"\x1b\[[\d;]*m")


class _Sign(NamedTuple):
    name: str
    needs: Needs
    pattern: re.Pattern[bytes]


def _signs(name: str, pattern: re.Pattern[str]) -> Iterator[_Sign]:
    for needs, one in alternatives(pattern):
        yield _Sign(name, needs, re.compile(one.pattern.encode(), re.I))


_NAMES: Final = (
    *((sign.name, sign.pattern) for sign in SIGNS),
    ("numeric_instability", _BROKEN),
    ("traceback", late_regex(re.escape(BEGIN))),
    ("crash", CRASH),
    ("data_error", DATA),
    ("killed", KILLED),
    ("killed", TASK_DIED),
    ("terminated", TERMINATED),
    ("user_stopped", STOPPED),
    ("network_transient", NETWORK),
)


@cache
def known_signs() -> tuple[_Sign, ...]:
    """Return the alternatives of every alarming pattern; to compile them takes a while."""
    return tuple(sign for name, pattern in _NAMES for sign in _signs(name, pattern))


_Signs = tuple[_Sign, ...]
_seen: dict[bytes, _Signs] = {}
"""What the lines of a shape may be signs of, whatever their figures; each of them is asked."""


def alarms_in(data: bytes) -> list[Alarm]:
    """Return the alarming lines of ``data``, in order, by where they stand in it."""
    shapes = data.translate(_ALIKE).split(b"\n")
    own = set(shapes)
    own.discard(b"")
    if len(_seen) > REMEMBERED:
        _seen.clear()
    known = {shape: signs for shape in own if (signs := _seen.get(shape)) is not None}
    if len(known) < len(own):
        fresh = _possible([shape for shape in own if shape not in known])
        _seen.update((shape, signs) for shape, signs in fresh.items() if len(shape) <= LONGEST)
        known |= fresh
    bad = {shape: signs for shape, signs in known.items() if signs}
    return list(_places(data, shapes, bad)) if bad else []


def _places(data: bytes, shapes: Sequence[bytes], bad: dict[bytes, _Signs]) -> Iterator[Alarm]:
    at = 0
    for shape in shapes:
        end = at + len(shape)
        if signs := bad.get(shape):
            head = _SGR.sub(b"", data[at:end])[:LONGEST]
            name = next((sign.name for sign in signs if sign.pattern.search(head)), None)
            if name is not None:
                yield Alarm(at, end, name)
        at = end + 1


def _possible(shapes: Sequence[bytes]) -> dict[bytes, _Signs]:
    """Return what the lines of each shape may be signs of.

    ``0 errors`` is no alarm and ``3 errors`` is one, so a shape is read with both figures.
    """
    heads = [_SGR.sub(b"", shape)[:LONGEST] for shape in shapes]
    spelled = {at for at, head in enumerate(heads) if _SPELLED.search(head)}
    words = WordIndex(heads)
    found: list[list[_Sign]] = [[] for _ in heads]
    for sign in known_signs():
        for at in words.holding(sign.needs):
            texts = (heads[at], heads[at].replace(b"0", b"1"))
            if at in spelled or any(map(sign.pattern.search, texts)):
                found[at].append(sign)
    return dict(zip(shapes, map(tuple, found), strict=True))

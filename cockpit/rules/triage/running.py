"""A job that still runs: what its log says is over unless training was seen to go on (SPEC T)."""

from __future__ import annotations

import math
import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.answers import EVIDENCE, answer
from cockpit.rules.triage.by_exception import by_exception
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.log_text import left_trend, norms_lost, scales_spent
from cockpit.rules.triage.signs import SIGNS, Sign
from cockpit.rules.triage.standing import stands_still
from cockpit.rules.triage.tracebacks import Raised, decisive, exceptions
from cockpit.rules.triage.words import (
    ALARM,
    COLLECTIVE_CALL,
    COUNTS,
    FATAL,
    KILLED,
    NETWORK,
    PROBE,
    STUCK,
    TRACKER,
    TRANSPORT,
    TROUBLE,
    USUAL,
)

_LASTING: Final = frozenset(("numeric_instability", "disk_full", "hardware_fault"))
"""What is not healed by the next progress line."""
IN_VAIN: Final = 20
"""Lines of trouble without progress after which it no longer heals by itself."""
_CHECKPOINT: Final = r"\b(?:checkpoints?|ckpts?)\b"
_SAVING: Final = late_regex(
    rf"{_CHECKPOINT}.{{0,60}}\b(?:sav(?:e|ing)|write|writing|upload\w*)\b"
    rf"|\b(?:sav(?:e|ing)|write|writing|upload\w*)\b.{{0,60}}{_CHECKPOINT}",
    re.I,
)
_FAILED: Final = late_regex(
    r"\b(?:failed|could ?n[o']t|can ?not|unable to)\b(?!.{0,80}\bretr(?:y|ies|ying)\b)",
    re.I,
)
_SAVED: Final = late_regex(
    rf"\b(?:saved|wrote|written|uploaded|committed|finished|completed?)\b.{{0,80}}{_CHECKPOINT}"
    rf"|{_CHECKPOINT}.{{0,80}}\b(?:saved|written|uploaded|committed|finished|completed?|done)\b",
    re.I,
)
_BEGUN: Final = late_regex(
    r"\bresum(?:ed|ing)\b.{0,40}\b(?:from|at)\b|\bstart(?:ing|s|ed)? job\b"
    r"|\broll(?:ed|ing)? ?back\b",
    re.I,
)
"""The job begins once more from what it had saved: a worker of it that does is no such thing."""
_FEWER: Final = late_regex(
    r"\b(?:continu\w+|runn?ing|goes on|trains? on) degraded\b"
    r"|\bworld[ _]size (?:from )?(?P<before>\d{1,6}) ?(?:->|to|→) ?(?P<now>\d{1,6})\b",
    re.I,
)
"""It trains on with other workers than it was given."""
SAID: Final = 2
"""Lines of nobody knows what after which training must be seen again."""
_PREEMPTED: Final = next(sign for sign in SIGNS if sign.name == "preempted")


def running(log: Log) -> Triage:
    """Return what is wrong with a job that runs; harmless only where it is seen to progress."""
    for sign in SIGNS:
        found = [i for i in log.naming(sign.pattern) if not _went_round(log, i)]
        if found and _stands(log, sign, found[-1]):
            return answer(log, sign.name, sign.alive, "likely", found)
    leaving = _lost(log) or left_trend(log.lines)
    leaving = leaving or norms_lost(log.lines) or scales_spent(log.lines)
    if leaving:
        return answer(log, "numeric_instability", "escalate", "likely", leaving)
    found_else = _again(log) or _trouble(log) or _noise(log)
    return _while_it_moves(log, found_else)


def _lost(log: Log) -> list[int]:
    """Return the lines whose loss is no number, but for those of an earlier start."""
    begun = max((i for i in log.naming(_BEGUN) if log.numbers_came_back(i)), default=-1)
    return [i for i, loss in log.losses if i > begun and not math.isfinite(loss)]


def _unsaved(log: Log) -> list[int]:
    """Return the lines by which a checkpoint could not be saved, if none was saved after."""
    saving = {*log.naming(_SAVING)} & {*log.naming(_FAILED)}
    saved = max({*log.matching(_SAVED)} - saving, default=-1)
    return sorted(index for index in saving if index > saved)


def _while_it_moves(log: Log, found: Triage) -> Triage:
    """Take back that nothing need be done, where the run has not moved since (SPEC T, C-06).

    Nor where it trains on and cannot save what it has trained, or on fewer nodes.
    """
    if found.action != "none":
        return found
    still = stands_still(log) or _unsaved(log) or _said_since(log) or _on_fewer(log)
    if not still:
        return found
    name = "unknown" if found.name in ("harmless_noise", "preempted") else found.name
    return answer(log, name, "escalate", "likely", still)


def _said_since(log: Log) -> list[int]:
    """Return the lines after all progress, if ``SAID`` of them tell of no usual work.

    Where no word is known, that training was seen before them proves nothing of now (SPEC T).
    A pulse that differs in its figures alone counts once.
    """
    last = max((index for index, _ in (*log.marks, *log.bars)), default=len(log.lines))
    usual = {*log.matching(USUAL), *log.matching(NETWORK), *log.matching(TRACKER)}
    said = [i for i in range(last + 1, len(log.lines)) if log.lines[i].strip() and i not in usual]
    said = [index for index in said if not log.lines[index][:1].isspace()]
    return said if log.kinds(said) >= SAID else []


def _on_fewer(log: Log) -> list[int]:
    """Return the last line by which it trains on with fewer workers than before."""
    told = log.naming(_FEWER)[-1:]
    found = _FEWER.search(log.lines[told[0]]) if told else None
    if found is None or (found["now"] and int(found["now"]) >= int(found["before"])):
        return []
    return told


def _went_round(log: Log, index: int) -> bool:
    """Tell whether a call of the transport failed, and training went on another way."""
    return TRANSPORT.search(log.lines[index]) is not None and log.outlived(index)


def _stands(log: Log, sign: Sign, last: int) -> bool:
    if sign.name == "numeric_instability" and log.numbers_came_back(last):
        return False
    if sign.name == "preempted" and any(last < i and log.went_on(i) for i in log.restarts):
        return False
    return sign.name in _LASTING or not log.outlived(last)


def _again(log: Log) -> Triage | None:
    """Return that it runs again after it had been taken away."""
    found = log.naming(_PREEMPTED.pattern)
    if found:
        return answer(log, "preempted", "none", "likely", found)
    if log.earlier.naming(_PREEMPTED.pattern) and log.progresses(-1):
        return answer(log, "preempted", "none", "likely")
    return None


def _trouble(log: Log) -> Triage | None:
    raised = _raised(log)
    if raised is not None and not NETWORK.search(log.lines[raised.at]):
        name = by_exception(log, raised).name
        return answer(log, name, "escalate", "guess", (raised.at,))
    trouble = [i for i in log.matching(TRACKER) if TROUBLE.search(log.lines[i])]
    trouble = trouble or [each.at for each in exceptions(log.lines) if _by_tracker(each)]
    network = [i for i in log.matching(NETWORK) if not PROBE.search(log.lines[i])]
    if _stood_since(log, {*trouble, *network}):
        return None
    if trouble:
        return answer(log, "tracker_error", "none", "likely", trouble)
    if len(network) >= IN_VAIN and not log.progresses(network[-IN_VAIN]):
        return answer(log, "network_transient", "escalate", "likely", network)
    if network:
        return answer(log, "network_transient", "none", "likely", network)
    return None


def _stood_since(log: Log, known: set[int]) -> list[int]:
    """Return the lines that tell of a stand, apart from those ``known``, and no step after."""
    return [i for i in log.naming(STUCK) if i not in known and not log.went_on(i)]


def _raised(log: Log) -> Raised | None:
    """Return the exception after which training was not seen to go on, the tracker's apart."""
    raised = decisive(exceptions(log.lines))
    if raised is None or TRACKER.search(log.lines[raised.at]) or log.progresses(raised.at):
        return None
    return raised


def _by_tracker(raised: Raised) -> bool:
    return bool(raised.frames) and any(TRACKER.search(each.file) for each in raised.frames[-2:])


def _noise(log: Log) -> Triage:
    """Judge words of alarm that no rule knows: harmless with a proof of progress after them."""
    alarming = log.matching(ALARM)
    kills = log.naming(KILLED)
    if kills and not log.progresses(kills[-1]):
        return answer(log, "killed", "escalate", "likely", kills)
    serious = sorted({*log.naming(FATAL), *log.naming(STUCK)} - set(log.matching(COUNTS)))
    since = [*serious[-1:], *alarming[-IN_VAIN : 1 - IN_VAIN]]
    if log.progresses(max(since, default=-1)):
        return answer(log, "harmless_noise", "none", "guess", alarming)
    last = log.marks[-1][0] if log.marks else -1
    stacks = [index for index in log.matching(COLLECTIVE_CALL) if index > last]
    if stacks and serious:
        return answer(log, "distributed_hang", "escalate", "likely", stacks)
    return answer(log, "unknown", "escalate", "guess", alarming[-EVIDENCE:])

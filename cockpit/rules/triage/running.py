"""A job that is not over: it runs, it stands still, or it waits (SPEC T)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.by_exit import failed_before
from cockpit.rules.triage.ended import as_own
from cockpit.rules.triage.exceptions import Raised, by_exception, decisive, exceptions
from cockpit.rules.triage.log import DAY, EVIDENCE, Log, answer, stamp_in
from cockpit.rules.triage.log_text import left_trend, norms_lost, scales_spent
from cockpit.rules.triage.patterns import (
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
from cockpit.rules.triage.signs import SIGNS, Sign
from cockpit.rules.triage.speakers import EVENTS

LONGEST: Final = 30 * 60
"""Seconds without a step from which on a run stands still: two of SPEC C-06's usual cadences."""
SLOW: Final = 3
"""So many of its usual times between two lines of progress it may take."""
KEPT: Final = 200
"""Newest lines of progress from which the usual time is known."""


class Stamp(NamedTuple):
    """Where a line stands, how its stamp looks, and when it was written (seconds)."""

    line: int
    form: str
    at: float


def stands_still(log: Log) -> list[int]:
    """Return the last line of progress and the last of all, if too much time lies between them.

    Only stamps of one look are held against each other: those of two writers may be of two zones.
    """
    last = log.moves[-1] if log.moves else 0
    known = frozenset(log.moves[-KEPT:])
    stamps = list(stamps_of(log, min(known, default=0)))
    usual = [
        other.at - one.at for one, other in pairwise(stamps) if {one.line, other.line} <= known
    ]
    longest = max(LONGEST, SLOW * median(usual)) if usual else LONGEST
    first: dict[str, float] = {}
    for stamp in stamps:
        if stamp.line >= last and stamp.at - first.setdefault(stamp.form, stamp.at) > longest:
            return [last, stamps[-1].line]
    return []


def stamps_of(log: Log, since: int) -> Iterator[Stamp]:
    """Yield the stamps of the lines from ``since`` on; a clock without a date may pass midnight."""
    newest: dict[str, float] = {}
    for index in range(since, len(log.lines)):
        told = stamp_in(log.lines[index])
        if told is None:
            continue
        form, at, dated = told
        before = newest.get(form, at)
        if not dated and before - at > DAY / 2:
            at += DAY * round((before - at) / DAY)
        newest[form] = at
        yield Stamp(index, form, at)


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
"""No success yet, and no retry announced: ``failed to save``."""
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
        found = [i for i in log.naming(sign.pattern, sign.speakers) if not _went_round(log, i)]
        if found and _stands(log, sign, found[-1]):
            return answer(log, sign.name, sign.alive, "likely", found)
    leaving = _lost(log) or left_trend(log.lines, log.steps)
    leaving = leaving or norms_lost(log.lines) or scales_spent(log.lines)
    if leaving:
        return answer(log, "numeric_instability", "escalate", "likely", leaving)
    found_else = _runs_again(log) or _trouble(log) or _noise(log)
    return _while_it_moves(log, found_else)


def own_while_alive(log: Log, found: Triage, signs: Sequence[Sign]) -> Triage:
    """Return what signatures of the run file say of a job that lives, where ``found`` is unsure.

    To wait is no answer where something else calls for a person.
    """
    if found.confidence == "sure":
        return found
    for sign in signs:
        said = log.naming(sign.pattern)
        waits = sign.alive == "wait" and found.action == "escalate" and found.name != "unknown"
        if said and not waits and _stands(log, sign, said[-1]):
            return as_own(answer(log, sign.name, sign.alive, "likely", said))
    return found


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
    still = stands_still(log) or _unsaved(log) or _unusual_since(log) or _on_fewer(log)
    if not still:
        return found
    name = "unknown" if found.name in ("harmless_noise", "preempted") else found.name
    return answer(log, name, "escalate", "likely", still)


def _unusual_since(log: Log) -> list[int]:
    """Return the lines after all progress, if ``SAID`` of them tell of no usual work.

    Where no word is known, that training was seen before them proves nothing of now (SPEC T).
    A pulse that differs in its figures alone counts once, and what came so between two steps before
    is usual. What tells of a stand or of a failure is no usual work, whoever writes it.
    """
    last = log.moves[-1] if log.moves else len(log.lines)
    serious = {*log.matching(STUCK), *log.matching(FATAL)} - {*log.matching(COUNTS)}
    usual = {*log.matching(USUAL)} - serious
    usual |= {*log.matching(NETWORK), *log.matching(TRACKER)}
    said = [i for i in range(last + 1, len(log.lines)) if log.lines[i].strip() and i not in usual]
    said = [index for index in said if not log.lines[index][:1].isspace()]
    again = log.as_before(said) - serious
    said = [index for index in said if index not in again]
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


def _runs_again(log: Log) -> Triage | None:
    """Return that it runs again after it had been taken away."""
    found = log.naming(_PREEMPTED.pattern, _PREEMPTED.speakers)
    if found:
        return answer(log, "preempted", "none", "likely", found)
    if log.earlier.naming(_PREEMPTED.pattern, _PREEMPTED.speakers) and log.progresses(-1):
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
    figures = set(log.matching(COUNTS))  # of which one may be named an error
    alarming = [index for index in log.matching(ALARM) if index not in figures]
    kills = log.naming(KILLED)
    if kills and not log.progresses(kills[-1]):
        return answer(log, "killed", "escalate", "likely", kills)
    told = {*log.naming(FATAL, EVENTS - {"warning"}), *log.naming(STUCK)}
    serious = sorted(told - figures)
    since = [*serious[-1:], *alarming[-IN_VAIN : 1 - IN_VAIN]]
    if log.progresses(max(since, default=-1)):
        return answer(log, "harmless_noise", "none", "guess", alarming)
    last = log.marks[-1][0] if log.marks else -1
    stacks = [index for index in log.matching(COLLECTIVE_CALL) if index > last]
    if stacks and serious:
        return answer(log, "distributed_hang", "escalate", "likely", stacks)
    return answer(log, "unknown", "escalate", "guess", alarming[-EVIDENCE:])


PATIENCE: Final = 30 * 60
"""Seconds of waiting after which a person should know (SPEC T, ``capacity_wait``)."""
_SECONDS: Final = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_PART: Final = (
    r"\d+(?:\.\d+)? ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
)
_SPAN: Final = rf"(?P<{{0}}>(?:{_PART},? ?(?:and )?){{{{1,4}}}})"
_TIME: Final = rf"{_SPAN[:-1]}|(?:\d{{{{1,4}}}}-)?\d{{{{1,3}}}}:\d\d:\d\d)"
_BEEN: Final = (
    r"waited|waiting|pending|queued|in (?:the )?queue|elapsed|unschedulable|unscheduled|stuck|still"
    r"|unavailable|held|no (?:capacity|quota|resources)|not (?:ready|scheduled|started|placed)"
)
_WAITED_FOR: Final = late_regex(
    rf"\b(?:{_BEEN})\b(?!.{{0,40}}\b(?:every|poll|interval|retry|back-?off|next|eta|estimat\w*"
    r"|expect\w*|start\w* in|time-?out|limit|at most|up to|left|remain\w*|deadline"
    r"|wall ?time|request\w*|duration)\b"
    r"|[^\d]{0,40}\b(?:since|at|from|until|by)\b)"
    rf"[^\d|]{{0,40}}{_TIME.format('been')}(?! ?(?:timeout|limit|remain|left|until|more))"
    rf"|\b{_SPAN.format('since')} ?(?:ago\b|since (?:creat|submi|request|queu)\w*"
    r"|in (?:the )?queue\b|(?:\w+ )?(?:waiting|pending|queued)\b)"
    rf"|\bqueue[ _]?time\W{{1,3}}{_TIME.format('queue')}"
    rf"|\(x\d+ over {_TIME.format('over')}\)"
    rf"|\(autoscaler \+{_TIME.format('scaler')}\) (?:Failed|Error|Warning)"
    rf"|\bPending\s+\d+\s+{_TIME.format('age')}(?:\s|$)",
    re.I,
)
"""Kubernetes' events tell how long they came, Ray's autoscaler counts from its start."""
_FIGURE: Final = late_regex(r"(\d+(?:\.\d+)?) ?([dhms])", re.I)
"""Such as ``12.5h``."""


def waited_long(log: Log, waiting: Sequence[int]) -> list[int]:
    """Return the lines by which a job has waited for longer than ``PATIENCE``.

    ``waiting`` are the lines (0-based) that say that it waits. Figures of one line are told
    by that line alone; stamps are held against each other where they are of one look.
    """
    told = [i for i in log.matching(_WAITED_FOR) if _longest(log.lines[i]) >= PATIENCE]
    if told:
        return told
    first: dict[str, tuple[int, float]] = {}
    known = frozenset(waiting)
    for stamp in stamps_of(log, min(waiting, default=len(log.lines))):
        if stamp.line in known:
            line, at = first.setdefault(stamp.form, (stamp.line, stamp.at))
            if stamp.at - at >= PATIENCE:
                return [line, stamp.line]
    return []


def _longest(line: str) -> float:
    times = (text for found in _WAITED_FOR.finditer(line) for text in found.groups() if text)
    return max(map(_seconds, times), default=0.0)


def _seconds(text: str) -> float:
    if ":" in text:
        days, _, clock = text.rpartition("-")
        hours, minutes, seconds = (int(part) for part in clock.split(":"))
        return 86400.0 * int(days or 0) + 3600 * hours + 60 * minutes + seconds
    return sum(float(n) * _SECONDS[unit.lower()] for n, unit in _FIGURE.findall(text))


WAITING: Final = late_regex(
    r"\bPENDING\b|\(Resources\)|\(Priority\)|\(Dependency\)|\(QOS\w*\)|\bquota\b|insufficient"
    r"|scale.?up|\bwaiting(?: |_)|unsatisfied|queued|no capacity|stockout|provisioning"
    r"|unschedulable",
    re.I,
)
"""Such as ``71 gpu train ada PD 0:00 (Resources)``."""
_NEVER: Final = late_regex(
    r"DependencyNeverSatisfied|JobHeld|launch failed requeued held|PartitionNodeLimit"
    r"|BadConstraints|autoscaler demand: insufficient_resources\b"
    r"|PartitionTimeLimit|(QOS|Assoc)Max\w*PerJob|(QOS|Assoc)MaxWall|QOSMin\w+|AssocGrp\w*Minutes"
    r"|(Account|QOS|Partition)NotAllowed|Invalid(Account|QOS)|MaxMem(ory)?PerLimit"
    r"|ReservationDeleted|\b(job|workload|pod)\b.{0,24}\b(is |was )?(held by|on hold)\b"
    r"|batch job submission failed|requested node configuration is not available"
    r"|\bno (\w+ ){0,6}?(match(es|ing)?|satisf(y|ies|ying)|(can|could) (ever )?"
    r"(fit|fulfil\w*|host|satisfy|run|hold|serve))\b"
    r"|\b(can|could|will|would) never (be )?(start|run|begin|launch)(ed)?\b"
    r"|\b(can ?not|can't|could ?n[o']t|unable to|never) (\w+ ){0,2}?(be )?"
    r"(fit|satisf\w+|fulfil\w*|schedul\w+|placed|accommodat\w*)\b"
    r"|\b(infeasible|unsatisfiable|unschedulable:)\b"
    r"|\b(exceed(s|ed|ing)?|(greater|larger|more|bigger|higher) than)\b .{0,40}"
    r"\b(limit|max(imum)?|total|capacity|allocatable|largest|nominal)\b|> maximum capacity"
    r"|\blimit:? 0(\.0)?\b|no (launchable|cloud) .{0,30}(found|satisf)|not found in any (zone"
    r"|catalog)"
    r"|not (supported|offered|available) in (your|the|this|any) .{0,30}(zone|region)"
    r"|(cluster|local)queue \S+ (doesn't exist|is inactive|not found)"
    r"|doesn't match \w*queue selector",
    re.I,
)
"""It can never start, whoever leaves: ``Reason=DependencyNeverSatisfied``."""
_FOR_NOW: Final = late_regex(
    r"right now|currently|at (this|the) (time|moment)|for now|\byet\b|temporar|backoff|busy|in use"
    r"|\b(un)?used\b|retry|insufficient (?!quota.*maximum)",
    re.I,
)
"""Words that say it may be met later."""
_ASKED: Final = late_regex(
    r"\b(?:request|need|want|ask|require|demand|resources\.limits)\w*\b\D{0,60}?(?P<asked>\d+)\b.{0,80}?"
    r"\b(?:max\w*|limit\w*|capacity|largest|at most|only|total|nominal)\b\D{0,40}(?P<most>\d+)",
    re.I,
)
"""More is asked for than there is anywhere: ``requested 16 gpus, but at most 8 per node``."""
_NODES: Final = late_regex(r"\b0/(?P<all>\d+) nodes are available: (?P<why>.*)", re.I)
"""Kubernetes says why none fits: ``0/12 nodes are available: 12 Insufficient cpu``."""
_SCALING: Final = late_regex(r"NotTriggerScaleUp|didn.t trigger scale-?up", re.I)
"""The autoscaler has no node of that kind to add: ``pod didn't trigger scale-up``."""
_SCALES: Final = late_regex(
    r"\(scaling up\)|waiting for worker scale-?up|\bTriggeredScaleUp\b|"
    r"(?<!didn't )\btriggered scale-?up",
    re.I,
)
"""A node is on its way: ``TriggeredScaleUp``."""
_LATER: Final = late_regex(r"max node group size reached|in backoff|max cluster", re.I)
"""No node now, perhaps later: ``max node group size reached``."""
_REASON: Final = late_regex(r"(?<!\d)(?P<nodes>\d+) (?P<why>[^,;.]+(?:\.[^,;. ]+)*)")
"""Such as ``4 node(s) had untolerated taint``."""
_FOR_GOOD: Final = late_regex(
    r"didn.t match|affinity|selector|taint(?!.*(?:node\.kubernetes\.io|cloudprovider|ToBeDeleted"
    r"|not-ready|unreachable|pressure))|didn.t satisfy|too many pods never",
    re.I,
)
"""What a node lacks whoever leaves it."""
_UNMADE: Final = late_regex(
    r"ErrImagePull|failed to pull image .*\b(not found|unauthorized|denied|unknown)\b"
    r"|ImagePullBackOff|InvalidImageName|manifest (?:for \S+ )?(?:unknown|not found)"
    r"|CreateContainerConfigError|\b(?:secret|configmap"
    r"|persistentvolumeclaim) \"[^\"]+\" not found",
    re.I,
)
"""It names what does not exist: an image, a secret, a volume."""

_UNFIT: Final = late_regex(r"\bno healthy devices\b|\bunhealthy devices?\b", re.I)
"""The node that it was given has devices that cannot be opened."""


def waiting(log: Log) -> Triage:
    """Return why a job waits, and whether that can end by itself."""
    unmade = log.matching(_UNMADE)
    if unmade:
        return answer(log, "small_code_bug", "fix_then_relaunch", "likely", unmade)
    unfit = log.naming(_UNFIT)
    if unfit:
        return answer(log, "bad_node", "escalate", "likely", unfit)
    never = _never(log)
    if never:
        return answer(log, "capacity_wait", "escalate", "likely", never)
    taken = _former_end(log)
    if taken is not None:
        return taken
    found = log.matching(WAITING)
    late = waited_long(log, found)
    if late:
        return answer(log, "capacity_wait", "escalate", "likely", late)
    return answer(log, "capacity_wait", "wait", "sure" if found else "likely", found)


def _former_end(log: Log) -> Triage | None:
    """Return what ended the start before, of a job that waits once more (SPEC T).

    What took it away is waited for; what it brought about itself would come again.
    """
    last = log.marks[-1][0] if log.marks else None
    for sign in SIGNS:
        found = log.naming(sign.pattern, sign.speakers)
        if sign.name != "preempted":
            found = [] if last is None else [i for i in found if i >= last]
        if found:
            goes_on = sign.name in ("preempted", "walltime", "node_death")
            return answer(log, sign.name, "wait" if goes_on else "escalate", "sure", found)
    kills = [] if last is None else [i for i in log.naming(KILLED) if i > last]
    again = [i for i in failed_before(log) if last is not None and i > last]
    if kills and again:
        return answer(log, "killed", "escalate", "likely", [*kills, *again])
    return None


def _never(log: Log) -> list[int]:
    """Return the lines that say it can never start, but for those that a later one takes back."""
    found = [i for i in log.matching(_NEVER) if not _FOR_NOW.search(log.lines[i])]
    found += [i for i in log.matching(_ASKED) if _asks_too_much(log.lines[i])]
    grows = log.matching(_SCALES)
    return sorted({*(i for i in found if i > max(grows, default=-1)), *_no_node(log)})


def _asks_too_much(line: str) -> bool:
    asked = _ASKED.search(line)
    return asked is not None and int(asked["asked"][:18]) > int(asked["most"][:18])


def _no_node(log: Log) -> list[int]:
    """Return Kubernetes' lines by which no node fits, and none that it could add.

    A node that is full may become free; one that is of another kind never fits.
    """
    if log.matching(_SCALES):
        return []
    looked = [(i, found) for i in log.matching(_NODES) if (found := _NODES.search(log.lines[i]))]
    scaling = [i for i in log.matching(_SCALING) if not _LATER.search(log.lines[i])]
    if looked:
        index, found = looked[-1]
        return [index, *scaling] if _none_fits(int(found["all"][:9]), found["why"]) else []
    return scaling


def _none_fits(nodes: int, why: str) -> bool:
    reasons = _REASON.finditer(why.partition(". preemption:")[0])
    unfit = sum(int(each["nodes"][:9]) for each in reasons if _FOR_GOOD.search(each["why"]))
    return 0 < nodes <= unfit

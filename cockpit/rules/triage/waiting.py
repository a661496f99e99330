"""A job that has not begun: it waits its turn, or can never have one (SPEC T, ``capacity_wait``).

Whatever the scheduler's words, what can never be met is one of three: the request is larger than
what there is at most, nothing of the kind exists, or what it waits for cannot come about.
"""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.again import told_again
from cockpit.rules.triage.answers import answer
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.signs import SIGNS
from cockpit.rules.triage.waited import waited_long
from cockpit.rules.triage.words import KILLED

WAITING: Final = late_regex(
    r"\bPENDING\b|\(Resources\)|\(Priority\)|\(Dependency\)|\(QOS\w*\)|\bquota\b|insufficient"
    r"|scale.?up|\bwaiting(?: |_)|unsatisfied|queued|no capacity|stockout|provisioning"
    r"|unschedulable",
    re.I,
)
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
_NODES: Final = late_regex(r"\b0/(?P<all>\d+) nodes are available: (?P<why>.*)", re.I)
_SCALING: Final = late_regex(r"NotTriggerScaleUp|didn.t trigger scale-?up", re.I)
_SCALES: Final = late_regex(
    r"\(scaling up\)|waiting for worker scale-?up|\bTriggeredScaleUp\b|"
    r"(?<!didn't )\btriggered scale-?up",
    re.I,
)
_LATER: Final = late_regex(r"max node group size reached|in backoff|max cluster", re.I)
_REASON: Final = late_regex(r"(?<!\d)(?P<nodes>\d+) (?P<why>[^,;.]+(?:\.[^,;. ]+)*)")
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
    taken = _taken(log)
    if taken is not None:
        return taken
    found = log.matching(WAITING)
    late = waited_long(log, found)
    if late:
        return answer(log, "capacity_wait", "escalate", "likely", late)
    return answer(log, "capacity_wait", "wait", "sure" if found else "likely", found)


def _taken(log: Log) -> Triage | None:
    """Return what ended the start before, of a job that waits once more (SPEC T).

    What took it away is waited for; what it brought about itself would come again.
    """
    last = log.marks[-1][0] if log.marks else None
    for sign in SIGNS:
        found = log.naming(sign.pattern)
        if sign.name != "preempted":
            found = [] if last is None else [i for i in found if i >= last]
        if found:
            goes_on = sign.name in ("preempted", "walltime", "node_death")
            return answer(log, sign.name, "wait" if goes_on else "escalate", "sure", found)
    kills = [] if last is None else [i for i in log.naming(KILLED) if i > last]
    again = [i for i in told_again(log) if last is not None and i > last]
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

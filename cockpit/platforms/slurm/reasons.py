"""What Slurm's reasons say, in plain words; and which of them no waiting ever ends."""

from __future__ import annotations

import re
from typing import Final

_NEVER: Final = re.compile(
    r"DependencyNeverSatisfied|JobHeld|PartitionNodeLimit|BadConstraints|requeued.{0,20}held", re.I
)

_WORDS: Final = tuple(
    (re.compile(pattern, re.I), words)
    for pattern, words in (
        ("^DependencyNeverSatisfied", "never starts: the job before it did not end as required"),
        ("^Dependency", "waiting for another job to end"),
        ("^JobHeldUser|requeued.{0,20}held", "held: never starts before it is released"),
        ("^JobHeldAdmin", "held by an administrator: never starts before they release it"),
        ("^PartitionNodeLimit", "never starts: more nodes than its partition allows"),
        ("^BadConstraints", "no node has what it requests"),
        ("^PartitionTimeLimit", "more time than its partition allows"),
        ("^JobArrayTaskLimit", "waiting for earlier tasks of its array"),
        ("^(Resources|Priority)", "waiting for other jobs"),
        ("^BeginTime", "waiting for its begin time"),
        (
            "^(ReqNodeNotAvail|Nodes.required|NodeDown|Partition(Down|Inactive))",
            "waiting for nodes",
        ),
        ("^Reserv", "waiting for a reservation"),
        ("^Licenses", "waiting for licences"),
        ("^(Prolog|Cleaning|Configuring)", "its nodes are being set up"),
        (
            "^(QOS|Assoc|Max\\w*PerAccount|AccountNotAllowed|InvalidQOS)",
            "waiting: a limit is reached",
        ),
        ("^TimeLimit", "its time limit was reached"),
        ("^NodeDown|^NodeFail", "a node was lost: what ran there may run on"),
        ("^JobLaunchFailure", "it could not be started: is the folder of its output there?"),
        ("^NonZeroExitCode", "its command failed"),
        ("^OutOfMemory", "it ran out of the memory that it requested"),
        ("^RaisedSignal", "ended by a signal"),
        ("^(DeadLine|Deadline)", "it could not end before its deadline"),
    )
)
_NOTHING: Final = frozenset(("", "none", "(null)", "n/a"))


def never_starts(reason: str | None) -> bool:
    """Tell whether a job that waits for this reason never starts, however long (SPEC J, C-04)."""
    return _NEVER.search(reason or "") is not None


def in_words(reason: str) -> str | None:
    """Return a reason with plain words before it: ``waiting for other jobs: Resources``."""
    told = reason.replace("_", " ").strip()
    if told.lower() in _NOTHING:
        return None
    words = next((words for pattern, words in _WORDS if pattern.search(reason.strip())), None)
    return told if words is None else f"{words}: {told}"

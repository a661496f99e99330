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
        ("^DependencyNeverSatisfied", "never starts: the job before it ended in another way"),
        ("^Dependency", "waits for another job to end"),
        ("^JobHeldUser|requeued.{0,20}held", "held: never starts before it is released"),
        ("^JobHeldAdmin", "held by an administrator: never starts before they release it"),
        ("^PartitionNodeLimit", "never starts: more nodes than its partition gives"),
        ("^BadConstraints", "no node has what it asks for"),
        ("^PartitionTimeLimit", "more time than its partition gives"),
        ("^JobArrayTaskLimit", "waits for earlier tasks of its array"),
        ("^(Resources|Priority)", "waits for other jobs"),
        ("^BeginTime", "waits for its begin time"),
        ("^(ReqNodeNotAvail|Nodes.required|NodeDown|Partition(Down|Inactive))", "waits for nodes"),
        ("^Reserv", "waits for a reservation"),
        ("^Licenses", "waits for licences"),
        ("^(Prolog|Cleaning|Configuring)", "its nodes are being made ready"),
        (
            "^(QOS|Assoc|Max\\w*PerAccount|AccountNotAllowed|InvalidQOS)",
            "waits: a limit is reached",
        ),
        ("^TimeLimit", "its time limit was reached"),
        ("^NodeDown|^NodeFail", "a node was lost: what ran there may run on"),
        ("^JobLaunchFailure", "it could not be started: is the folder of its output there?"),
        ("^NonZeroExitCode", "its command failed"),
        ("^OutOfMemory", "it ran out of the memory that it asked for"),
        ("^RaisedSignal", "ended by a signal"),
        ("^(DeadLine|Deadline)", "it could not end before its deadline"),
    )
)
_NOTHING: Final = frozenset(("", "none", "(null)", "n/a"))


def never_starts(reason: str | None) -> bool:
    """Tell whether a job that waits for this reason never starts, however long (SPEC J, C-04)."""
    return _NEVER.search(reason or "") is not None


def in_words(reason: str) -> str | None:
    """Return a reason with plain words before it: ``waits for other jobs: Resources``."""
    told = reason.replace("_", " ").strip()
    if told.lower() in _NOTHING:
        return None
    words = next((words for pattern, words in _WORDS if pattern.search(reason.strip())), None)
    return told if words is None else f"{words}: {told}"

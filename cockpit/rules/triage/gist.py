"""What a line at the end complains of, where no sign knows its words: a thing, and what befell it.

The thing and the trouble stand near each other, in either order. That is thin evidence: it names
a class for a person to look at and never lets a run be launched again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.doubt import certain
from cockpit.rules.triage.signs import Action

LONGEST: Final = 1000
"""Characters of a line that are looked at."""
NEAR: Final = 60
"""Characters that may stand between the two."""

_GONE: Final = (
    r"lost|gone|dead|died|down|offline|unreachable|unresponsive|not respond\w*|vanished|disappeared"
    r"|crashed|rebooted|stopped responding|power(?:ed)? off"
)
_SPENT: Final = r"exceed\w*|exhaust\w*|insufficient|ran out|run out|out of|too large|not enough"
_STUCK: Final = (
    r"tim(?:ed|e|es) ?-?out|hang|hung|stuck|dead-?lock\w*|mismatch\w*|did not (?:arrive|join|reach)"
    r"|never (?:arrived|joined|reached)|waiting for|desync\w*|unresponsive|left the"
)
_BROKEN: Final = (
    r"corrupt\w*|decompress\w*|mismatching|has no|have no|truncat\w*|malformed|invalid|unreadable"
    r"|missing|not found|mismatch\w*|empty"
    r"|unexpected eof|can ?not (?:read|decode|parse)|failed to (?:read|load|decode|parse)"
)
_FAILED: Final = (
    r"not (?:found|available|detected|visible|ready|supported)|missing|busy|unhealthy|fail\w*"
    r"|unable to|can ?not|could not|refus\w*|unknown error"
)


def _either(thing: str, trouble: str) -> re.Pattern[str]:
    near = rf".{{0,{NEAR}}}?"
    return late_regex(
        rf"\b(?:{thing})\b{near}\b(?:{trouble})\b|\b(?:{trouble})\b{near}\b(?:{thing})\b", re.I
    )


_TABLE: Final[tuple[tuple[str, Action, re.Pattern[str]], ...]] = (
    (
        "oom_device",
        "escalate",
        _either(
            r"(?:gpu|device|hbm|npu|xpu|hpu|cuda|metal|tile|mlu|accelerator)(?: memory| mem)?|vram",
            r"out of memory|insufficient memory|(?:alloc\w*|memory) (?:failed|exhausted"
            r"|isn't enough)",
        ),
    ),
    ("oom_host", "escalate", _either(r"(?:host |system |cpu )?(?:memory|ram|swap)|rss", _SPENT)),
    (
        "disk_full",
        "fix_then_relaunch",
        _either(
            r"disk|storage|file ?system|volume|scratch|tmpfs|inodes?",
            rf"{_SPENT}|full|quota|no (?:space|room)",
        ),
    ),
    (
        "distributed_hang",
        "escalate",
        _either(
            r"ranks?|collectives?|barrier|rendezvous|all_?reduce|all_?gather|all_?to_?all|broadcast"
            r"|peers?|process group|nccl|rccl|hccl|gloo|mpi",
            _STUCK,
        ),
    ),
    (
        "bad_node",
        "escalate",
        late_regex(
            r"\bno (?!NET)(?:\w+ ){0,2}(?:devices?|gpus?|ports?|accelerators?|chips?)\b.{0,20}"
            r"\b(?:found|detected|available|visible|active)\b|\bno (?:suitable|active) (?:\w+ )?"
            r"(?:device|port)s?\b|\bnot clean\b|\bin use by unknown process",
            re.I,
        ),
    ),
    (
        "bad_node",
        "escalate",
        _either(
            r"gpus?|tpus?|npus?|hpus?|xpus?|ipus?|mlus?|dcus?|accelerators?|nvidia|rocm|neuron",
            _FAILED,
        ),
    ),
    (
        "node_death",
        "escalate",
        _either(
            r"nodes?|hosts?|vms?|instances?|machines?|kubelet|agents?"
            r"|workers?(?! (?:process|exit|unexpectedly exit))",  # a process's end is no node's
            _GONE,
        ),
    ),
    (
        "data_error",
        "escalate",
        _either(
            r"shards?|chunks?|audio|video|image files?|examples?|samples?|records?|documents?"
            r"|dataset"
            r"|corpus|parquet|arrow|tfrecords?|jsonl"
            r"|tokenizer|vocab\w*",
            _BROKEN,
        ),
    ),
    (
        "network_transient",
        "escalate",
        _either(
            r"connection|socket|dns|tls|http|endpoint|bucket|upload|download|server|request|rpc",
            r"tim(?:ed|e) ?-?out|reset|refused|unreachable|dropped|unavailable|overloaded",
        ),
    ),
)
"""Classes with the careful action of each, the surest things first."""


def gist(lines: Iterable[str]) -> tuple[str, Action] | None:
    """Return the class and the careful action of the first line with a thing and a trouble."""
    for line in lines:
        said = certain(line[:LONGEST])
        for name, action, pattern in _TABLE:
            if pattern.search(said):
                return name, action
    return None

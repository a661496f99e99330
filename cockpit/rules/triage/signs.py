"""The classes that a line's words show, the deepest cause first; what shows each is data."""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

from cockpit.rules.triage.rows import shown_by
from cockpit.rules.triage.speakers import EVENTS, Speaker

Action = Literal["relaunch", "fix_then_relaunch", "escalate", "wait", "none"]


class Sign(NamedTuple):
    """A class of SPEC T, the pattern that shows it, and the action when the job is over."""

    name: str
    pattern: re.Pattern[str]
    action: Action
    alive: Action
    """The action when the job still runs."""
    speakers: frozenset[Speaker] = EVENTS
    """Those whose word counts."""


def _sign(name: str, ended: Action, alive: Action, *besides: Speaker) -> Sign:
    return Sign(name, shown_by(name), ended, alive, EVENTS | frozenset(besides))


SIGNS: Final = (
    _sign("preempted", "relaunch", "wait"),
    _sign("walltime", "relaunch", "escalate"),
    _sign("node_death", "relaunch", "escalate"),
    _sign("hbm_exhausted", "escalate", "escalate"),
    _sign("oom_host", "escalate", "escalate"),
    _sign("oom_device", "escalate", "escalate"),
    _sign("disk_full", "fix_then_relaunch", "fix_then_relaunch"),
    _sign("hardware_fault", "relaunch", "escalate"),
    _sign("bad_node", "escalate", "escalate"),
    _sign("numeric_instability", "escalate", "escalate", "metrics"),
    _sign("distributed_hang", "escalate", "escalate"),
)
"""One row each; a class has its lines in ``signatures``."""

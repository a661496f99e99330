"""The classes that a line's words show, the deepest cause first; what shows each is data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple, cast

from cockpit.model.own_rules import OwnCause, SignatureSpec, expression
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

_OWN_ACTIONS: Final[Mapping[OwnCause, tuple[Action, Action]]] = {
    "user_stopped": ("none", "escalate"),
    "capacity_wait": ("escalate", "wait"),
    "network_transient": ("relaunch", "wait"),
    "tracker_error": ("fix_then_relaunch", "wait"),
    "data_error": ("escalate", "escalate"),
    "small_code_bug": ("fix_then_relaunch", "escalate"),
    "complex_code_bug": ("escalate", "escalate"),
}
"""What else a signature of the run file may show, and the actions when it is over and alive."""
_RUNTIME: Final = "runtime-"
"""What the run file puts before an error or a warning, as SPEC T calls these speakers."""


@lru_cache(maxsize=64)
def own_signs(rows: Sequence[SignatureSpec]) -> tuple[Sign, ...]:
    """Return the signs of a run file's signatures."""
    return tuple(map(_own_sign, rows))


def _own_sign(row: SignatureSpec) -> Sign:
    pattern = re.compile(expression(row.pattern), re.I)
    known = next((sign for sign in SIGNS if sign.name == row.cause), None)
    ended, alive = (known.action, known.alive) if known else _OWN_ACTIONS[row.cause]
    if row.speaker is None:
        return Sign(row.cause, pattern, ended, alive, known.speakers if known else EVENTS)
    speaker = cast("Speaker", row.speaker.removeprefix(_RUNTIME))
    return Sign(row.cause, pattern, ended, alive, frozenset((speaker, "prose")))


def spoken(speaker: Speaker) -> str:
    """Return a speaker as the run file writes it."""
    return f"{_RUNTIME}{speaker}" if speaker in ("error", "warning") else speaker

"""An exception that ended a program: whose fault it is, and whether one line would mend it."""

from __future__ import annotations

from typing import Final

from cockpit.model.observed import Triage
from cockpit.rules.triage.answers import answer
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.signs import Action
from cockpit.rules.triage.tracebacks import Raised
from cockpit.rules.triage.words import (
    CONFIG,
    DATA,
    DATA_CODE,
    DATA_FILE,
    DATA_MODULE,
    ELSEWHERE,
    GRPC_STATUS,
    MOUNT,
    NETWORK,
    NETWORK_MODULE,
    NETWORK_NAME,
    NOT_SMALL,
    OWN_CALL,
    REFUSED,
    SMALL,
    TRACKER,
    TRAJECTORY,
    USAGE,
)

DEEP: Final = 6
"""Innermost frames among which the code that reads data is looked for."""


def by_exception(log: Log, raised: Raised) -> Triage:
    """Return the class of the exception that ended a job, with the place in one's own code."""
    message = log.lines[raised.at]
    own = " ".join(log.lines[raised.begin : raised.at + 3])
    # A loader re-raises what its worker met: the line that says so stands before the traceback.
    chained = " ".join(log.lines[max(0, raised.begin - 3) : raised.begin]) + own
    place = raised.place
    where = Triage.Place(file=place.file, line=place.line) if place is not None else None
    at = (raised.at,)
    if DATA.search(chained) or DATA_FILE.search(raised.text) or _reads_data(raised):
        return answer(log, "data_error", "escalate", "likely", at, where)
    if TRACKER.search(message) or (raised.frames and TRACKER.search(raised.frames[-1].file)):
        return answer(log, "tracker_error", "fix_then_relaunch", "likely", at, where)
    if not log.marks and REFUSED.search(message):
        return answer(log, "capacity_wait", "escalate", "likely", at, where)
    if MOUNT.search(message):
        return answer(log, "network_transient", "escalate", "likely", at, where)
    if NETWORK.search(message) or _is_on_the_way(raised, own):
        return answer(log, "network_transient", "relaunch", "likely", at, where)
    if _is_small(raised, own):
        risky = place is not None and TRAJECTORY.search("/".join(place.file.split("/")[-2:]))
        action: Action = "escalate" if risky else "fix_then_relaunch"
        return answer(log, "small_code_bug", action, "likely", at, where)
    return answer(log, "complex_code_bug", "escalate", "likely", at, where)


def _reads_data(raised: Raised) -> bool:
    if DATA_MODULE.match(raised.module) and not NOT_SMALL.search(raised.text):
        return True
    return any(DATA_CODE.search(frame.file) for frame in raised.frames[-DEEP:])


def _is_on_the_way(raised: Raised, own: str) -> bool:
    """Tell whether a client raised it that got no answer: by its module and name."""
    if NETWORK_MODULE.match(raised.module) is None:
        return False
    return NETWORK_NAME.search(raised.name) is not None or GRPC_STATUS.search(own) is not None


def _is_small(raised: Raised, own: str) -> bool:
    """Tell whether one named line of one's own code is likely to mend it.

    A missing module or file is one's own to mend wherever it was missed; a name, a key or an
    argument only where it is one's own code that asked for it. Without any frame the message
    alone must do.
    """
    if NOT_SMALL.search(own):
        return False
    if CONFIG.search(own) or USAGE.search(own):
        return True
    if raised.name not in SMALL and not OWN_CALL.search(f"{raised.name}: {raised.text}"):
        return False
    place = raised.place
    if place is None or raised.name == "ModuleNotFoundError":
        return True
    asked = [each for each in raised.frames if not (each.file.startswith("<") or each.standard)]
    return place.own and (raised.name in ELSEWHERE or asked[-1:] == [place])

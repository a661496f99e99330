"""Where the order of lines is not that of causes (SPEC T: an echo is no first cause).

A handler that dumps a device's state may run out of memory itself; a table of events, or the
kernel's log, stands before the log of a job whose end it tells.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.lines import Log

_LEAVING: Final = late_regex(
    r"\bwhile (?:collecting|dumping|handling|aborting|exiting|shutting|tearing|cleaning)\b"
    r"|\bflight[ _]recorder\b|\b(?:core|crash|memory|state|debug|post-?mortem)[ _]?(?:dumps?"
    r"|reports?|handler|log)\b|\bstack ?traces?\b|\bexcept(?:ion)?[ _]?(?:hook|handler)\b"
    r"|\bat ?exit\b"
    r"|\b(?:during|in|on|at) (?:shut ?down|teardown|clean ?up|finali[sz]ation|exit|abort)\b"
    r"|\bemergency (?:save|checkpoint|ckpt|dump|snapshot)",
    re.I,
)
_BY_ITSELF: Final = r"(?!-?(?:9|137|15|143|0)\b)-?\d"
"""An exit status that is no kill's."""
OTHER_END: Final = late_regex(rf"\bexit_?code\s*[:=] ?{_BY_ITSELF}", re.I)
"""A task that a launcher saw end by itself: its kill of the others is no cause."""
FIRST_END: Final = late_regex(
    r"\b(?:tasks?|rank|worker|process|proc|pid|pod|container|replica|child|node|host"
    r"|(?<![\w.])[\w.]+-\d+)\b"
    r".{0,60}\b(?:exit(?:s|ed)?|return(?:s|ed)|failed|died|ended|terminated|finished)\b.{0,24}"
    rf"(?:code|status|rc|error)\W{{0,3}}(?:of )?{_BY_ITSELF}",
    re.I,
)
"""The same in a sentence, which counts where it stands before the others' kills."""
_VICTIM: Final = late_regex(r"\b(?:process|pid)\W{0,4}(\d{2,10})\b", re.I)
_NUMBERED: Final = late_regex(r"\bpids?\b(?:\(s\))?\W{0,4}(\d{2,10})\b", re.I)
_RECENT: Final = late_regex(r"^(?:\d+s|[1-9]m(?:\d+s)?)\s+(?:\(x\d+ [^)]*\)\s+)?Warning\s")
"""An event of Kubernetes, by its age when it was asked: at most ten minutes."""


def met_while_leaving(log: Log, found: Sequence[int]) -> set[int]:
    """Return which of the lines ``found`` (0-based) tell what a program met while it ended."""
    leaving = frozenset(log.matching(_LEAVING))
    return {index for index in found if index in leaving}


def ended_since(log: Log, found: Sequence[int]) -> set[int]:
    """Return which of the lines ``found`` (0-based) tell of an end that stands below all training.

    The process that a kernel has killed is missed at the end, by its number; or the line is an
    event of the last minutes.
    """
    victims = {i: {each[1] for each in _VICTIM.finditer(log.lines[i])} for i in found}
    last = log.marks[-1][0] if log.marks else -1
    below = log.lines[last + 1 :] if any(victims.values()) else ()
    missed = {each[1] for line in below for each in _NUMBERED.finditer(line)}
    return {i for i in found if victims[i] & missed or _RECENT.match(log.lines[i])}

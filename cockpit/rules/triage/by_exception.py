"""An exception that ended a program: whose fault it is, and whether one line would mend it."""

from __future__ import annotations

import re
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.answers import answer
from cockpit.rules.triage.data_words import DATA, DATA_CODE, DATA_FILE, DATA_MODULE
from cockpit.rules.triage.doubt import certain
from cockpit.rules.triage.gist import LONGEST, gist
from cockpit.rules.triage.lines import Log
from cockpit.rules.triage.prefixes import bare
from cockpit.rules.triage.signs import Action
from cockpit.rules.triage.tracebacks import Frame, Raised, exceptions
from cockpit.rules.triage.words import (
    CONFIG,
    CONFIG_FILE,
    ELSEWHERE,
    FATAL,
    GRPC_STATUS,
    IO_ERROR,
    LOOP,
    MOUNT,
    NETWORK,
    NETWORK_MODULE,
    NETWORK_NAME,
    NOT_SMALL,
    OWN_CALL,
    REFUSAL,
    REFUSED,
    REMOTE_FILES,
    SMALL,
    SYNTAX,
    TRACKER,
    TRAINS,
    TRAJECTORY,
    USAGE,
    WRAPPERS,
)

GENERIC: Final = frozenset(("RuntimeError", "OSError", "SystemError", "Exception", "Error"))
"""Exceptions that may mean anything: without a frame their message tells the thing."""
_Class = tuple[str, Action]
AGAIN: Final = late_regex(r"\b(please )?try again\b", re.I)
"""What a server says of trouble that is its own, whatever was asked of it."""
UNREACHED: Final = late_regex(
    r"\b(couldn.t|could not|can ?not|unable to) (connect to|reach) '?https?://"
    r"|\b(locate|find) the (requested )?files? (on the hub|in the (local|disk) cach)",
    re.I,
)
"""What is said once nothing was had from afar, and nothing lay here: the network, or no network."""
OFFLINE: Final = late_regex(
    r"\boffline mode is enabled\b|\b\w+_OFFLINE\W{1,3}(1|true|yes|on)\b", re.I
)
"""Somebody has told it to ask nobody."""
PIPE: Final = late_regex(r"/multiprocessing/(connection|managers|resource_shar\w+|queues)\.py")
"""Code by which processes of one machine talk: a connection that breaks there is another's end."""
PIPED: Final = 3
"""Innermost frames among which it is looked for."""
REPORTS: Final = late_regex(r"^\s+(?:print|(?:logger|logging|log)\.\w+)\(")
"""A line of code that only tells something: it alters nothing, wherever it is."""
TRAINING_CODE: Final = late_regex(
    r"^\s++(?!import\b|from\b)(?:.*(\.backward\(|\.zero_grad\(|\bclip_grad|\boptim\w*[.(]|\bmodel\("
    r"|\bscheduler\.step\(|\bscaler\.|\bweight_decay=)"
    r"|[^(]*\b(loss\w*|logits) ?=(?!=))"  # not what a call is given: add(loss=loss)
)
"""A line of code that trains, whatever its function is called."""
CONFIG_NAMES: Final = frozenset(("ConfigAttributeError", "ConfigKeyError", "DecodingError"))
"""What a file of settings raises, whatever it sets: ``checkpoint.save_evry`` is no checkpoint."""
LOOKS_ON: Final = late_regex(r"logger|logging|report|plot|monitor", re.I)
"""Files of what is told of training while it runs, and changes nothing of it."""
FOLDERS: Final = 3
"""Innermost parts of a file's path that tell what it is for."""
DEEP: Final = 6
"""Innermost frames among which the code that reads data is looked for."""


def by_exception(log: Log, raised: Raised) -> Triage:
    """Return the class of the exception that ended a job, with the place in one's own code."""
    own = " ".join(log.lines[raised.begin : raised.at + 3])
    place = raised.place
    where = Triage.Place(file=place.file, line=place.line) if place is not None else None
    name, action = _from_outside(log, raised, own) or _own_fault(log, raised, own)
    return answer(log, name, action, "likely", (raised.at,), where)


def _from_outside(log: Log, raised: Raised, own: str) -> _Class | None:
    """Return the class of what its data, a tracker, a cloud or the network brought about."""
    message = log.lines[raised.at]
    # A loader re-raises what its worker met: the line that says so stands before the traceback.
    before = (
        certain(line[:LONGEST]) for line in log.lines[max(0, raised.begin - 3) : raised.begin]
    )
    chained = " ".join([*(line for line in before if FATAL.search(line)), own])
    if _is_config(own, message):
        return None
    way = _is_on_the_way(raised, own) or AGAIN.search(message)
    if way and NETWORK.search(message):
        return _from_the_network(log, raised, own)
    if DATA.search(chained) or DATA_FILE.search(raised.text) or _reads_data(raised):
        return "data_error", "escalate"
    if TRACKER.search(message) or (raised.frames and TRACKER.search(raised.frames[-1].file)):
        return "tracker_error", "fix_then_relaunch"
    if not log.marks and REFUSED.search(message):
        return "capacity_wait", "escalate"
    if MOUNT.search(message) or (IO_ERROR.search(message) and log.matching(REMOTE_FILES)):
        return "network_transient", "escalate"
    return _from_the_network(log, raised, own)


def _from_the_network(log: Log, raised: Raised, own: str) -> _Class | None:
    """Return that it is the network's, unless another try would only meet the same."""
    message = log.lines[raised.at]
    met = NETWORK.search(message) is not None or _is_on_the_way(raised, own)
    if not (met or UNREACHED.search(message)) or _is_lasting(raised):
        return None
    again = _came_again(log, raised) or not (met or _was_retried(log, raised))
    return "network_transient", "escalate" if again else "relaunch"


def _was_retried(log: Log, raised: Raised) -> bool:
    """Tell whether the network's own trouble stands before what was not reached.

    A machine that never reaches it says the same.
    """
    last = log.marks[-1][0] if log.marks else -1
    met = [i for i in log.matching(NETWORK) if last < i < raised.at]
    if any(REFUSAL.search(log.lines[i]) for i in met) or log.matching(OFFLINE):
        return False
    return bool(met)


def _is_lasting(raised: Raised) -> bool:
    """Tell whether no network lies between the two, or what was answered is answered again."""
    if REFUSAL.search(raised.text):
        return True
    return any(PIPE.search(frame.file) for frame in raised.frames[-PIPED:])


def _came_again(log: Log, raised: Raised) -> bool:
    """Tell whether an earlier start in this log had met the same (SPEC C-14)."""
    first = min(each.at for each in exceptions(log.lines) if each.name == raised.name)
    return any(first < index < raised.begin for index in log.restarts)


def _is_config(own: str, message: str) -> bool:
    """Tell whether a file of settings could not be parsed."""
    return CONFIG_FILE.search(own) is not None and SYNTAX.search(message) is not None


def _own_fault(log: Log, raised: Raised, own: str) -> _Class:
    if not (_is_config(own, raised.name) or _is_small(log, raised, own)):
        thin = gist([raised.text]) if raised.name in GENERIC and not raised.frames else None
        return thin or ("unknown" if raised.name in WRAPPERS else "complex_code_bug", "escalate")
    code = _code(log, raised)
    risky = raised.place is not None and _alters_training(raised.place)
    risky = risky or any(TRAINING_CODE.match(line) for line in code)
    risky = risky and not any(REPORTS.match(line) for line in code)
    return "small_code_bug", "escalate" if risky else "fix_then_relaunch"


def _alters_training(place: Frame) -> bool:
    """Tell whether a line belongs to model, training loop, optimizer or data.

    What a trainer's file imports is no part of its loop.
    """
    parts = place.file.split("/")
    near = "/".join(parts[max(len(parts) - FOLDERS, 2 if place.file.startswith("/") else 0) :])
    if place.function == "<module>" and LOOP.search(parts[-1]):
        return False
    if place.function.startswith("on_") and LOOKS_ON.search(near):
        return False
    return (TRAJECTORY.search(near) or TRAINS.match(place.function)) is not None


def _code(log: Log, raised: Raised) -> list[str]:
    """Return the line of one's own code that failed, if the traceback quotes it last."""
    place = raised.place
    if place is None or raised.frames[-1] != place or not place.function:  # it was never run
        return []
    return [bare(line) for line in log.lines[max(raised.begin, raised.at - 2) : raised.at]]


def _reads_data(raised: Raised) -> bool:
    if DATA_MODULE.match(raised.module) and not NOT_SMALL.search(raised.text):
        return True
    return any(DATA_CODE.search(frame.file) for frame in raised.frames[-DEEP:])


def _is_on_the_way(raised: Raised, own: str) -> bool:
    """Tell whether a client raised it that got no answer: by its module and name."""
    if NETWORK_MODULE.match(raised.module) is None:
        return False
    return NETWORK_NAME.search(raised.name) is not None or GRPC_STATUS.search(own) is not None


def _is_small(log: Log, raised: Raised, own: str) -> bool:
    """Tell whether one named line of one's own code is likely to mend it.

    A missing module or file is one's own to mend wherever it was missed; a name, a key or an
    argument only where it is one's own code that asked for it. Without any frame the message
    alone must do.
    """
    if raised.name not in CONFIG_NAMES and NOT_SMALL.search(_message(log, raised)):
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


def _message(log: Log, raised: Raised) -> str:
    """Return a traceback with its message, down to the last of its lines that is inset.

    What a program writes next is no part of it: ``saving emergency checkpoint``.
    """
    below = log.lines[raised.at + 1 : raised.at + 3]
    inset = [at for at, line in enumerate(below, 1) if line[:1].isspace()]
    more = below[: max(inset, default=0)] if raised.text else below
    return " ".join([*log.lines[raised.begin : raised.at + 1], *more])

"""A job that is over: the first cause in time that was not overcome, not its echoes (SPEC T).

The scheduler's and the machine's own words come first, then the exception that ended the program,
then the exit code; but what had already happened is not explained by what came of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.by_exit import (
    INTERRUPT_CODES,
    KILL_CODES,
    LAST_WORDS,
    TAIL,
    TERM_CODES,
    by_exit,
    came_again,
    complaints,
    ended_since,
    healed,
    killed,
    met_while_leaving,
    misused,
)
from cockpit.rules.triage.exceptions import (
    IGNORED,
    Raised,
    by_exception,
    decisive,
    exceptions,
    ignored,
    is_echo,
)
from cockpit.rules.triage.log import Log, answer
from cockpit.rules.triage.patterns import (
    BAD_ACCESS,
    CRASH,
    DEVICE_ERROR,
    DRAIN,
    HANDLED,
    INTERRUPTS,
    KILLED,
    LAUNCHER,
    LEAVING,
    MISTAKES,
    OFFICIAL,
    OPENING,
    REQUEUED,
    SHAPES,
    TASK_DIED,
    TERMINATED,
    TRACKER,
    WRAPPERS,
)
from cockpit.rules.triage.phrases import BY_COMMAND, DATA, JOB_CANCELLED, STEP_CANCELLED, STOPPED
from cockpit.rules.triage.signs import SIGNS, Action, Sign

OFFICIALS: Final = ("scheduler", "kernel", "launcher", "exception")
"""Speakers on whose word alone a relaunch is sure; anybody else may write the same."""
REPEATED: Final = 3
"""The same fault of the same device, so many times: it comes again wherever the job goes on."""
_TAKEN = frozenset(("preempted", "walltime", "node_death"))
_OWN_END = frozenset(
    ("numeric_instability", "hbm_exhausted", "oom_host", "oom_device", "disk_full")
)
"""What no scheduler and no lost node brings about."""
_ECHOED = frozenset(("distributed_hang", "hardware_fault", *_TAKEN))
"""What also follows when a rank has raised: the others wait, their links break, time runs out."""
PROGRAMS_XIDS: Final = frozenset(("13", "31", "43", "45"))
"""Xids that NVIDIA's catalogue lays to the program first: exceptions, faults, channels ended."""
_ALL = late_regex(r"(?<![\d/.])(?P<all>\d[\d,]*)(?:it)? ?/ ?(?P=all)(?![\d/.,])")
"""The last step of all: ``12000/12000``."""
_TASKS = late_regex(r"\btasks? [\d,-]+: |\bterminated\b", re.I)
"""What a launcher tells of the tasks that it ended."""
_SYNCED = late_regex(r"^wandb: waiting for .{0,40}\bto finish\b", re.I)
"""What W&B's client says at each end, with the exit status beside: ``(failed 255)``."""
_JOB = late_regex(r"\*{3} (?:JOB|STEP) (\d{1,12})\b")
"""Slurm's word for a job that it ends: ``*** JOB 4711 ON n1 CANCELLED AT …``."""
_SIGNALLED = late_regex(
    r"sigterm|signal_?exception|\bterminated?\b"
    r"|\b(?:by|got|received|caught|on|with) (?:a )?(?:stop |termination )?signal\b|\bsignal:? 15\b",
    re.I,
)
"""What a program says of the signal by which the scheduler ends it."""
_DEVICE = late_regex(r"\bXid\b[^\d]{0,12}\(?(?:PCI:)?([\w:.]*)\)?\D{0,4}(\d+)", re.I)
"""The device and the number of an error of NVIDIA's driver: ``NVRM: Xid (PCI:0000:3b:00): 79``."""


def ended(
    log: Log, known: tuple[str, Action] | None, *, cancelled: bool, exit_code: int | None
) -> Triage:
    """Return why a job ended. ``known`` is what the orchestrator's word for its state means."""
    raised = _raised(log)
    sign, found = _standing_sign(log, raised)
    spent = sign is not None and sign.name in _OWN_END
    stood = sign is not None and sign.name == "distributed_hang"
    broke = (raised is not None or stood) and known is not None and known[0] == "walltime"
    if known is not None and not ((spent or broke) and known[0] in _TAKEN):
        named = [
            i
            for sign in SIGNS
            if sign.name == known[0]
            for i in log.naming(sign.pattern, sign.speakers)
        ]
        return answer(log, known[0], known[1], "sure", named)
    stopped = _stopped(log, raised, cancelled=cancelled)
    if raised is not None and raised.frames and _is_mistake(raised) and stopped and not cancelled:
        stopped = [i for i in stopped if JOB_CANCELLED.search(log.lines[i])]
    if cancelled and sign is not None and sign.name in _ECHOED:
        typed = _typed(log, found[0])
        if typed:
            return answer(log, "user_stopped", "none", "likely", typed)
    ordered = cancelled or any(JOB_CANCELLED.search(log.lines[index]) for index in stopped)
    if (
        sign is not None
        and not (ordered and stopped and _is_consequence(log, sign, found, stopped[0]))
        and _decides(log, sign, found, raised)
    ):
        return _unread(log, sign, found) or _ended_anew(log, sign, found, raised)
    if cancelled or stopped or exit_code in INTERRUPT_CODES:
        if stopped and not cancelled and _went_wrong(log, stopped[-1], exit_code):
            return answer(log, "unknown", "escalate", "guess", stopped)
        return answer(log, "user_stopped", "none", "sure" if stopped else "likely", stopped)
    if raised is None or (raised.name in WRAPPERS and (killed(log) or misused(log))):
        return by_exit(log, exit_code)
    return by_exception(log, raised)


def _ended_anew(log: Log, sign: Sign, found: list[int], raised: Raised | None) -> Triage:
    """Return the answer of a sign, without a relaunch where a program ended below it once more.

    A file that a second start goes on in holds what ended the first start, too.
    """
    said = by_sign(log, sign, found, raised)
    if said.action != "relaunch":
        return said
    ends = misused(log)  # nothing is asked of a command line once a program has begun
    if log.speaker(found[-1]) == "scheduler":
        ends = [*ends, *log.naming(CRASH), *_jobs_cancelled(log, found)]
        ends += [i for s, at in _standing(log, raised, SIGNS) if s.name in _OWN_END for i in at]
        own = raised is not None and bool(raised.frames) and raised.name not in WRAPPERS
        if raised is not None and own and not is_echo(raised) and not _left(raised, found[-1]):
            ends.append(raised.at)
    ends = [i for i in ends if i > found[-1] and not _SIGNALLED.search(log.lines[i])]
    return answer(log, said.name, "escalate", "guess", [*found, *sorted(ends)]) if ends else said


def _left(raised: Raised, end: int) -> bool:
    """Tell whether a program met that while it left: close behind the line that ended it.

    Farther below it, the same words are those of a program that was started again.
    """
    return raised.begin - end <= _PARTING and LEAVING.search(raised.text) is not None


_PARTING: Final = 40
"""Lines that a program writes at most between the word that ends it and what it meets then."""


def _jobs_cancelled(log: Log, found: list[int]) -> list[int]:
    """Return the lines by which Slurm tells that another job than that of ``found`` was stopped."""
    cancelled = (*log.naming(JOB_CANCELLED), *log.naming(STEP_CANCELLED))
    jobs = {i: told[1] for i in cancelled if (told := _JOB.search(log.lines[i]))}
    own = {told[1] for i in found if (told := _JOB.search(log.lines[i]))}
    return [index for index, job in jobs.items() if own and job not in own]


def _typed(log: Log, before: int) -> list[int]:
    """Return the commands by which somebody ended what had trained, above the line ``before``."""
    trained = log.marks[0][0] if log.marks else len(log.lines)
    return [i for i in log.naming(BY_COMMAND) if trained < i < before and not log.went_on(i)]


def _is_consequence(log: Log, sign: Sign, found: list[int], order: int) -> bool:
    """Tell whether a sign only followed somebody's order, or training had outlived it before."""
    if sign.name in _ECHOED and order < found[0]:
        return True
    return sign.name != "numeric_instability" and found[-1] < order and log.outlived(found[-1])


def broken_off(log: Log) -> Triage | None:
    """Return what ended a program whose exit status says that all was well, if its log says so.

    Behind a pipe (``| tee``), or in a script that goes on, a failure has the exit status of what
    came after it. What a program meets while it shuts down is not a cause.
    """
    raised = _raised(log)
    if raised is None or not any(frame.is_own_code for frame in raised.frames) or is_echo(raised):
        return None
    if raised.name in WRAPPERS or LEAVING.search(raised.text) or log.went_on(raised.at):
        return None
    if counted_to_the_end(log):
        return None
    sign, found = _standing_sign(log, raised)
    if sign is not None and sign.name in _OWN_END:
        return by_sign(log, sign, found, raised)
    thing = by_exception(log, raised)
    if thing.name == "tracker_error":
        return None
    return thing.model_copy(update={"action": "escalate"}) if thing.action == "relaunch" else thing


def counted_to_the_end(log: Log) -> bool:
    """Tell whether the last that was counted is all there is: ``12000/12000``."""
    return any(_ALL.search(log.lines[index]) for index, _ in (*log.marks[-1:], *log.bars[-1:]))


def _raised(log: Log) -> Raised | None:
    """Return the exception that ended it; a lone echo tells nothing that its line does not."""
    standing = [each for each in exceptions(log.lines) if not healed(log, each.at)]
    raised = decisive([each for each in standing if each.name not in INTERRUPTS])
    return None if raised is not None and not raised.frames and is_echo(raised) else raised


def _standing_sign(log: Log, raised: Raised | None) -> tuple[Sign | None, list[int]]:
    """Return the deepest cause that was not overcome, and where.

    Numbers that were lost before it are the cause, whatever came of it, and memory or a disk
    that had run out explains a node that is lost, or a limit that is reached, only later (SPEC
    T: the first cause in time outranks its echoes). Ranks that waited for each other until the
    time was up did not run into the limit by working.
    """
    standing = _standing(log, raised, SIGNS)
    if not standing:
        return None, []
    deepest, found = standing[0]
    memory = next((each for each in standing if each[0].name == "oom_host"), None)
    if deepest.name == "node_death" and memory is not None:
        return memory  # who died of it is lost to the others
    before = [
        each for each in standing if each[1][0] < found[0] and _explains(log, each, deepest.name)
    ]
    return min(before, key=lambda each: each[1][0]) if before else (deepest, found)


def _standing(
    log: Log, raised: Raised | None, signs: Sequence[Sign]
) -> list[tuple[Sign, list[int]]]:
    """Return the causes that were not overcome, and where, in the order of ``signs``."""
    standing: list[tuple[Sign, list[int]]] = []
    again = _restart_before_failure(log, raised)
    ends = _own_words(log, raised)
    for sign in signs:
        found = [
            index
            for index in log.naming(sign.pattern, sign.speakers)
            if index > again
            and not _of_tracker(log, sign, index)
            and not _is_passed_remark(log, index, ends)
        ]
        since = ended_since(log, found) if sign.name == "oom_host" else ()
        found = [index for index in found if index in since or not _overcome(log, sign, index)]
        if found:
            standing.append((sign, found))
    return _but_aftermath(log, standing, raised)


def _own_words(log: Log, raised: Raised | None) -> list[int]:
    """Return the lines by which a program tells its own end: an exception, a kill, a misuse."""
    found = [*log.naming(KILLED), *misused(log)]
    if raised is not None and raised.frames and not is_echo(raised):
        found += [] if DEVICE_ERROR.search(raised.text) else [raised.begin]
    return [index for index in found if not healed(log, index)]


def _is_passed_remark(log: Log, index: int, ends: list[int]) -> bool:
    """Tell whether a library only remarked on something, and the program went on (SPEC T).

    It did where it tells another end, not right behind it, or has written much since.
    """
    if log.speaker(index) != "warning":
        return False
    return log.end - index > LAST_WORDS or any(end - index > TAIL for end in ends)


def _but_aftermath(
    log: Log, standing: list[tuple[Sign, list[int]]], raised: Raised | None
) -> list[tuple[Sign, list[int]]]:
    """Return the causes without what a program met while it ended for another one."""
    all_found = {index for _, found in standing for index in found}
    leaving = met_while_leaving(log, sorted(all_found))
    first = min(
        [*(all_found - leaving), *([raised.begin] if raised and raised.frames else [])], default=-1
    )
    if first < 0:
        return standing
    kept = [(sign, [i for i in found if i < first or i not in leaving]) for sign, found in standing]
    return [each for each in kept if each[1]]


def _of_tracker(log: Log, sign: Sign, index: int) -> bool:
    """Tell whether only a tracker's server is called lost, or its time to be up."""
    return sign.name in ("node_death", "walltime") and bool(TRACKER.search(log.lines[index]))


def _explains(log: Log, before: tuple[Sign, list[int]], deepest: str) -> bool:
    """Tell whether what stood before the deepest cause explains it."""
    earlier = before[0].name
    if earlier == "distributed_hang":
        return deepest == "walltime" and not log.went_on(before[1][0])
    if earlier == "hardware_fault":
        return deepest == "oom_device" and _is_devices(log, before[1][0])
    if earlier == "bad_node":  # a worker that could not begin is reported as lost
        return deepest == "node_death" and not log.marks
    return earlier in _OWN_END and (earlier == "numeric_instability" or deepest in _TAKEN)


def _is_devices(log: Log, index: int) -> bool:
    """Tell whether an Xid is the device's own, and nothing was trained after it.

    On a device that is lost, no memory is to be had.
    """
    numbers = {each[2] for each in _DEVICE.finditer(log.lines[index])}
    return bool(numbers) and not numbers & PROGRAMS_XIDS and not log.went_on(index)


def _restart_before_failure(log: Log, raised: Raised | None) -> int:
    """Return the line at which the job began once more before it failed, -1 if it did not.

    What had taken it away before has not ended what began behind it.
    """
    if not log.restarts:
        return -1
    ends = [] if raised is None or raised.name in WRAPPERS else [raised.begin]
    ends += [i for s in SIGNS if s.name in _OWN_END for i in log.naming(s.pattern, s.speakers)]
    last = max(ends, default=-1)
    return max((index for index in log.restarts if index < last), default=-1)


def _overcome(log: Log, sign: Sign, index: int) -> bool:
    """Tell whether training went on after a sign, and for what it lost, without it."""
    if sign.name == "numeric_instability":
        return log.numbers_came_back(index)
    if not log.outlived(index):
        return False
    return log.end - index > TAIL or HANDLED.search(log.lines[index]) is not None


def _decides(log: Log, sign: Sign, found: list[int], raised: Raised | None) -> bool:
    """Tell whether a sign ended the job, and is no echo of what one of its ranks had raised.

    The others wait for it in vain, and what it ran on is called lost once it has gone.
    """
    if raised is None or sign.name not in _ECHOED or is_echo(raised) or raised.name in WRAPPERS:
        return True
    if sign.name == "hardware_fault" and DEVICE_ERROR.search(raised.text):
        return True
    official = any(OFFICIAL.search(log.lines[i]) for i in found if i < raised.begin)
    if _is_mistake(raised) and not official:
        return False
    return raised.begin >= found[0] or any(raised.begin <= index <= raised.at for index in found)


def _is_mistake(raised: Raised) -> bool:
    """Tell whether only code can have raised it: no scheduler and no lost node brings it about.

    A program that is told to leave meets closed files and objects that have gone: no mistake.
    """
    if LEAVING.search(raised.text) or not (raised.place is None or raised.place.is_own_code):
        return False
    return raised.name in MISTAKES or SHAPES.search(raised.text) is not None


def _unread(log: Log, sign: Sign, found: list[int]) -> Triage | None:
    """Return what one rank could not read, if the others only waited for it."""
    if sign.name != "distributed_hang":
        return None
    data = [i for i in log.naming(DATA) if i < found[0] and not log.went_on(i)]
    return answer(log, "data_error", "escalate", "likely", data) if data else None


def _stopped(log: Log, raised: Raised | None, *, cancelled: bool) -> list[int]:
    """Return the lines that tell of a stop by a person, but for what follows a failure by itself.

    Slurm cancels the whole step once one of its tasks has failed, and so do launchers.
    """
    found = [index for index in lines_saying(log, STOPPED) if len(log.lines) - index <= LAST_WORDS]
    if not cancelled:
        found = [index for index in found if not log.outlived(index)]
    if raised is not None and not is_echo(raised) and found and raised.at < found[0]:
        return []
    steps = [index for index in found if STEP_CANCELLED.search(log.lines[index])]
    if not steps:
        return found
    died = [index for index in log.matching(TASK_DIED) if index < steps[0]]
    return [index for index in found if index not in steps] if died else found


def lines_saying(log: Log, pattern: re.Pattern[str]) -> list[int]:
    """Return the lines that say so, but for exceptions that Python has ignored."""
    found = log.naming(pattern)
    if not found or not log.matching(re.compile(IGNORED)):
        return found
    unheard = ignored(log.lines)
    return [index for index in found if index not in unheard]


def by_sign(log: Log, sign: Sign, found: list[int], raised: Raised | None = None) -> Triage:
    """Return the answer of a sign that stands in the lines ``found`` (0-based).

    ``raised`` is the exception that ended the job, if one did.
    """
    action: Action = sign.action
    if sign.name == "preempted" and log.naming(REQUEUED):
        action = "wait"
    if sign.name == "node_death" and came_again(log, log.naming(sign.pattern, sign.speakers)):
        action = "escalate"
    if sign.name == "hardware_fault" and (
        log.naming(DRAIN) or _repeats(log, log.naming(sign.pattern, sign.speakers))
    ):
        action = "escalate"
    if sign.name == "hardware_fault" and _by_own_code(log, found, raised):
        return answer(log, sign.name, "escalate", "likely", found)
    if sign.name == "hardware_fault" and not log.marks and log.matching(OPENING):
        return answer(log, "bad_node", "escalate", "likely", found)
    sure = action != "relaunch" or any(log.speaker(index) in OFFICIALS for index in found)
    return answer(log, sign.name, action, "sure" if sure else "likely", found)


def by_own(log: Log, found: Triage, signs: Sequence[Sign]) -> Triage:
    """Return what signatures of the run file say of a job that is over, where ``found`` is unsure.

    What has ended well or was stopped stays so; and what spoils each further start is no reason
    for one, whatever else is said. The first of them in time counts.
    """
    if found.confidence == "sure" or found.action == "none":
        return found
    raised = _raised(log)
    standing = sorted(_standing(log, raised, signs), key=lambda each: each[1][0])
    for sign, lines in standing:
        if (sign.action == "escalate" or found.name not in _OWN_END) and _decides(
            log, sign, lines, raised
        ):
            return as_own(by_sign(log, sign, lines, raised))
    return found


def as_own(found: Triage) -> Triage:
    """Return an answer that rests on a signature of the run file: at most likely (SPEC T)."""
    sure = found.confidence == "sure"
    changes = {"yours": True, "confidence": "likely" if sure else found.confidence}
    return found.model_copy(update=changes)


def _by_own_code(log: Log, found: list[int], raised: Raised | None) -> bool:
    """Tell whether a device only tells of a bad access by the kernel of one's own that raised.

    Such an Xid is a program's more often than a device's: to go on would meet it again.
    """
    if raised is None or not BAD_ACCESS.search(raised.text):
        return False
    numbers = [each[2] for index in found for each in _DEVICE.finditer(log.lines[index])]
    return bool(numbers) and set(numbers) <= PROGRAMS_XIDS


def _repeats(log: Log, found: list[int]) -> bool:
    """Tell whether a fault came again inside this log: its device will not hold (SPEC T)."""
    if log.incidents(found) > 1:
        return True
    faults = [each.groups() for index in found for each in _DEVICE.finditer(log.lines[index])]
    return any(faults.count(each) >= REPEATED for each in set(faults))


def _went_wrong(log: Log, stopped: int, exit_code: int | None) -> bool:
    """Tell whether a program complained after a stop, and ended as no signal ends one.

    Then it was something else that a person stopped.
    """
    if exit_code in (None, 0, *INTERRUPT_CODES, *TERM_CODES, *KILL_CODES):
        return False
    if any(each.name in INTERRUPTS for each in exceptions(log.lines)):
        return False
    return any(index > stopped for index in complaints(log) if not _is_launchers(log, index))


def _is_launchers(log: Log, index: int) -> bool:
    said = log.lines[index]
    return any(words.search(said) for words in (LAUNCHER, _TASKS, STOPPED, TERMINATED, _SYNCED))

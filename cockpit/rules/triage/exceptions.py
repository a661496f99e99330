"""Exceptions in a log: their frames, whose fault each is, and whether one line would mend it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Triage
from cockpit.rules.triage.log import Log, answer
from cockpit.rules.triage.log_text import RANK, bare
from cockpit.rules.triage.patterns import (
    CONFIG,
    CONFIG_FILE,
    ECHO,
    ECHO_NAMES,
    ELSEWHERE,
    FATAL,
    GRPC_STATUS,
    IO_ERROR,
    LIBRARY,
    LOOP,
    MOUNT,
    NETWORK,
    NETWORK_MODULE,
    NETWORK_NAME,
    NO_FOLDER,
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
from cockpit.rules.triage.phrases import (
    DATA,
    DATA_CODE,
    DATA_FILE,
    DATA_MODULE,
    LONGEST_LINE,
    certain,
    gist,
)
from cockpit.rules.triage.signs import Action

BEGIN = "Traceback (most recent call last)"
_FRAME = late_regex(
    r'^[\s>│|]*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>[\w<>.]+))?'
    r"|^│ (?P<boxed>\S+\.py):(?P<at>\d+) in "  # as rich draws it
)
"""A frame of a traceback; rich draws boxes around them: ``  File "train.py", line 12, in main``."""
_ENDING = r"(?:Error|Exception|Interrupt|Exit|Fault|Failure|Warning|Died|Iteration)"
_RAISED = late_regex(
    rf"^(?P<name>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?{_ENDING}"
    r"|(?:[a-z_]\w*\.)+(?:_?[A-Z]\w+|\w*error|timeout))"
    r"(?::\s?(?P<text>.*))?$"
)
"""Such as ``torch.cuda.OutOfMemoryError: CUDA out of memory``."""
_ALONE = late_regex(
    r"^(?P<name>(?:[A-Za-z_]\w*\.)*(?:_?[A-Z]\w*[a-z]\w*(?:Error|Exception)|[A-Z]\w*OSError|OSError"
    r"|IOError|Exception|(?:struct|socket|select|binascii|zlib)\.error)"
    r"|(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Timeout|Conflict|Unsupported|Unavailable|Exceeded|NotFound"
    r"|Denied|Failed"
    r"|Forbidden|Mismatch|Expired)"
    r"|(?:[A-Za-z_]\w*\.)*\w*(?:errors?|exceptions?|exc|errorfactory)\.[A-Z]\w+)"
    r"(?::\s(?P<text>.*))?$"
)
"""What is an exception's last line without any frame before it; ``Error: …`` may be anybody's."""
_HINT = late_regex(rf'{_ENDING}|Traceback|File "|^│ |[a-z]\.(?:[A-Z]|error\b)')
"""Cheap: a log without it holds no exception: ``Traceback (most recent call last):``."""
_CAUSED = "The above exception was the direct cause"
IGNORED = "Exception ignored "
"""Python's word for what was raised where nobody can catch it: it ends no program."""
_DIGIT = late_regex(r"\d")

_STANDARD = late_regex(r"/lib/python\d[\d.]*/(?!(?:site|dist)-packages/)")
"""Python's own library: ``/usr/lib/python3.11/json/decoder.py``."""

LONGEST_NAME = 1000
"""Characters of a line in which an exception's name and message are looked for."""

CHAIN = 100
"""Lines within which one exception that was raised from another still follows it."""


class Frame(NamedTuple):
    """One ``File "…", line …, in …`` of a traceback."""

    file: str
    line: int
    function: str = ""

    @property
    def is_own_code(self) -> bool:
        """True when the file belongs to no installed library."""
        return LIBRARY.search(self.file) is None

    @property
    def standard(self) -> bool:
        """True when the file is of Python's own library, which only does what its caller asks."""
        return _STANDARD.search(self.file) is not None


class Raised(NamedTuple):
    """One exception: its short name, message, line (``at``, 0-based) and frames.

    ``begin`` is the line (0-based) at which its traceback begins, ``who`` what its launcher
    put before the line: the rank that raised it, where ranks are distinguished. ``module`` is what
    stands before its name, ``causes`` tells that the next one was raised from it.
    """

    name: str
    text: str
    at: int
    frames: tuple[Frame, ...]
    begin: int
    who: str = ""
    module: str = ""
    causes: bool = False

    @property
    def place(self) -> Frame | None:
        """Return the innermost frame of one's own code, else the innermost of all."""
        own = [frame for frame in self.frames if frame.is_own_code]
        return own[-1] if own else (self.frames[-1] if self.frames else None)


class _Reader:
    """Reads line after line; a traceback's frames are gathered until its exception comes."""

    def __init__(self) -> None:
        self.found: list[Raised] = []
        self._frames: list[Frame] = []
        self._begin: int | None = None
        self._before = ""
        """What stood before the traceback's first line and is no prefix that is known."""
        self._line = ""
        self._told: tuple[int, str] | None = None
        """The line and the rank that told that the traceback behind it ends nothing."""
        self._inset = 0
        """Blanks before the frames that are gathered."""
        self._ignored = False
        self.ignored: set[int] = set()
        """The last lines of tracebacks that end nothing."""

    def glance(self, raw: str) -> None:
        """Look at the line before: a traceback that was cut may begin with a line of code."""
        self._line = self._peeled(raw)

    def read(self, index: int, raw: str) -> None:
        """Read one line."""
        after_code = self._line.startswith("    ")
        line = self._line = self._peeled(raw)
        if line.startswith(IGNORED):
            self._told = index + 1, self._who(raw)
        elif BEGIN in line:
            self._ignored = self._told == (index, self._who(raw))
            self._frames, self._begin, self._inset = [], index, 0
            self._before = line.partition(BEGIN)[0]
        elif frame := _FRAME.match(line):
            self._begin = index if self._begin is None else self._begin
            place = frame["file"] or frame["boxed"], int(frame["line"] or frame["at"])
            self._frames.append(Frame(*place, frame["function"] or ""))
            self._inset = len(line) - len(line.lstrip())
        elif line.startswith(_CAUSED) and self.found:
            self.found[-1] = self.found[-1]._replace(causes=True)
        else:
            self._exception(index, raw, after_code)

    def _exception(self, index: int, raw: str, after_code: bool) -> None:
        pattern = _RAISED if self._frames or after_code else _ALONE
        line = self._line[:LONGEST_NAME]
        inset = len(line) - len(line.lstrip())
        # A launcher that quotes a traceback insets all of it: its last line less than its frames.
        raised = pattern.match(line.lstrip() if inset < self._inset else line)
        if raised is None:
            return
        module, _, name = raised["name"].rpartition(".")
        start = index if self._begin is None else self._begin
        frames, ignored = tuple(self._frames), self._ignored
        self._frames, self._begin, self._ignored, self._inset = [], None, False, 0
        if ignored:
            self.ignored.add(index)
        if not ignored or not frames:
            text, who = raised["text"] or "", self._who(raw)
            self.found.append(Raised(name, text, index, frames, start, who, module))

    def _who(self, raw: str) -> str:
        """Return the rank before the line as it was peeled."""
        return " ".join(RANK.findall(raw[: len(raw.rstrip()) - len(self._line)]))

    def _peeled(self, raw: str) -> str:
        line = bare(raw)
        known = self._before
        if known and _DIGIT.sub("0", line[: len(known)]) == _DIGIT.sub("0", known):
            return line[len(known) :]
        return line


def exceptions(lines: Sequence[str]) -> list[Raised]:
    """Return the exceptions in ``lines``, in the order in which they stand.

    Those without any frame count where nothing in the log has one: of a program that prints
    its tracebacks, a lone last line repeats what was said, or tells of what was caught.
    """
    return _read(lines).found


def ignored(lines: Sequence[str]) -> set[int]:
    """Return the lines (0-based) of exceptions that Python says it has ignored."""
    return _read(lines).ignored


def _read(lines: Sequence[str]) -> _Reader:
    reader = _Reader()
    inside = 0
    for index, raw in enumerate(lines):
        if _HINT.search(raw):
            if not inside and index:
                reader.glance(lines[index - 1])
            inside = CHAIN
        if inside:
            inside -= 1
            reader.read(index, raw)
    return reader


def decisive(raised: Sequence[Raised]) -> Raised | None:
    """Return the exception that ended the program: the last one, but for echoes.

    What only reports that another process has failed is no cause, nor is what a process meets
    when another one has gone (a connection that is reset, a collective that breaks). Where
    ranks are distinguished, the first one that raised is the cause of the others' troubles. One
    that was raised from another is explained by that one.
    """
    real = [each for each in raised if each.name not in WRAPPERS]
    if not real:
        return raised[-1] if raised else None
    own = [each for each in real if not is_echo(each)]
    if not own:
        return real[-1]
    own = [each for each in own if each.frames] or own
    last = own[-1]
    others = [each for each in own if each.who and last.who and each.who != last.who]
    return _root(own, _end_of_chain(own, others[0]) if others else last)


def _end_of_chain(raised: Sequence[Raised], first: Raised) -> Raised:
    """Return the last that the same rank raised in one go: exceptions are raised from others."""
    same = [each for each in raised if each.who == first.who]
    chain = [each for each in same if each.at - first.at <= CHAIN]
    return chain[-1]


def _root(raised: Sequence[Raised], last: Raised) -> Raised:
    """Return the exception from which ``last`` was raised, by way of whatever others."""
    at = raised.index(last)
    while at and raised[at - 1].causes and raised[at].begin - raised[at - 1].at <= CHAIN:
        at -= 1
    return raised[at]


def is_echo(raised: Raised) -> bool:
    """Tell whether a process raises this when another process, or its peer, has gone."""
    return raised.name in ECHO_NAMES or ECHO.search(raised.text) is not None


GENERIC: Final = frozenset(("RuntimeError", "OSError", "SystemError", "Exception", "Error"))
"""Exceptions that may mean anything: without a frame their message tells the thing."""
GONE: Final = frozenset(("ActorDiedError", "ActorUnavailableError", "WorkerCrashedError"))
"""What Ray raises where a worker has died: it tells possible causes, and knows none."""
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
"""Files of what is known of training while it runs, and changes nothing of it."""
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
        certain(line[:LONGEST_LINE]) for line in log.lines[max(0, raised.begin - 3) : raised.begin]
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
        other = raised.name in WRAPPERS or raised.name in GONE
        return thin or ("unknown" if other else "complex_code_bug", "escalate")
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
    if NO_FOLDER.search(raised.text):
        return True
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
    return place.is_own_code and (raised.name in ELSEWHERE or asked[-1:] == [place])


def _message(log: Log, raised: Raised) -> str:
    """Return a traceback with its message, down to the last of its lines that is inset.

    What a program writes next is no part of it: ``saving emergency checkpoint``.
    """
    below = log.lines[raised.at + 1 : raised.at + 3]
    inset = [at for at, line in enumerate(below, 1) if line[:1].isspace()]
    more = below[: max(inset, default=0)] if raised.text else below
    return " ".join([*log.lines[raised.begin : raised.at + 1], *more])

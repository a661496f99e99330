"""Python's exceptions in a log: with their frames, cut, chained, behind whatever prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.rules.triage.prefixes import RANK, bare
from cockpit.rules.triage.words import ECHO, ECHO_NAMES, LIBRARY, WRAPPERS

BEGIN = "Traceback (most recent call last)"
_FRAME = late_regex(
    r'^[\s>│|]*File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>[\w<>.]+))?'
    r"|^│ (?P<boxed>\S+\.py):(?P<at>\d+) in "  # as rich draws it
)
_ENDING = r"(?:Error|Exception|Interrupt|Exit|Fault|Failure|Warning|Died|Iteration)"
_RAISED = late_regex(
    rf"^(?P<name>(?:[A-Za-z_]\w*\.)*(?:[A-Z]\w*)?{_ENDING}"
    r"|(?:[a-z_]\w*\.)+(?:_?[A-Z]\w+|\w*error|timeout))"
    r"(?::\s?(?P<text>.*))?$"
)
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
_CAUSED = "The above exception was the direct cause"
IGNORED = "Exception ignored "
"""Python's word for what was raised where nobody can catch it: it ends no program."""
_DIGIT = late_regex(r"\d")

_STANDARD = late_regex(r"/lib/python\d[\d.]*/(?!(?:site|dist)-packages/)")

LONGEST = 1000
"""Characters of a line in which an exception's name and message are looked for."""

CHAIN = 100
"""Lines within which one exception that was raised from another still follows it."""


class Frame(NamedTuple):
    """One ``File "…", line …, in …`` of a traceback."""

    file: str
    line: int
    function: str = ""

    @property
    def own(self) -> bool:
        """True when the file belongs to no installed library."""
        return LIBRARY.search(self.file) is None

    @property
    def standard(self) -> bool:
        """True when the file is of Python's own library, which only does as it is told."""
        return _STANDARD.search(self.file) is not None


class Raised(NamedTuple):
    """One exception: its short name, message, line (``at``, 0-based) and frames.

    ``begin`` is the line (0-based) at which its traceback begins, ``who`` what its launcher
    put before the line: the rank that raised it, where ranks are told apart. ``module`` is what
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
        own = [frame for frame in self.frames if frame.own]
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
        line = self._line[:LONGEST]
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
    ranks are told apart, the first one that raised is the cause of the others' troubles. One
    that was raised from another is told by that one.
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

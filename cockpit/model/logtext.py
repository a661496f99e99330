"""Log lines: those of the present job, their level, and where a reader left off."""

import hashlib
import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen, SafeText


class LogMark(NamedTuple):
    """Where a job's first byte stands in its log, as its launcher noted it.

    ``before`` is a checksum of the bytes right before ``offset``: it tells whether a file with
    that many bytes is still the same text (rotation copies and truncates).
    """

    inode: int
    offset: int
    before: int


class Read(Frozen):
    """How much of the present job's lines was read, and how its first one was found.

    ``since``: ``recorded`` by the launcher, ``stamped`` by the lines' own times, ``said`` by a
    line that only a start prints, ``file`` where nothing tells: then all of the file counts.
    ``whole`` is false where older lines of the job were left out, and ``why`` says why.
    """

    lines: int
    bytes: int
    whole: bool
    since: Literal["recorded", "stamped", "said", "file"] = "file"
    why: str | None = None


class LogLine(NamedTuple):
    """One line, or one state of a progress bar's line.

    ``number`` counts the file's line breaks from 1 and ``offset`` its bytes; ``None`` where
    that is not known: too far into a huge file, or in a ``file`` that was rotated away.
    """

    text: str
    number: int | None = None
    offset: int | None = None
    file: str | None = None


class PresentLog(NamedTuple):
    """The lines of the present job, oldest first, as far as they were read.

    ``told``: the index of the last line of progress with a step of the run, and that step.
    ``work``: the index of each line of progress, and how far it says that training is.
    """

    lines: tuple[LogLine, ...]
    read: Read
    told: tuple[int, int] | None = None
    work: tuple[tuple[int, str], ...] = ()


class LogPage(NamedTuple):
    """Consecutive lines of a log and where each starts; they cover bytes ``[start, end)``.

    ``size`` is the file's size at that moment; ``end == size`` means: this is the end so far.
    Where only some lines were wanted, ``gaps`` has for each how many were left out right before
    it, and ``rest`` is how many after the last; else ``gaps`` is empty.
    """

    lines: tuple[SafeText, ...]
    offsets: tuple[int, ...]
    start: int
    end: int
    size: int
    gaps: tuple[int, ...] = ()
    rest: int = 0


class Matches(NamedTuple):
    """Where the lines start that match, in ``[begin, reached)``, ascending.

    ``size`` is the file's size at that moment. ``begin`` may lie behind the place asked for: what
    is before it is not counted, of a log on another machine, where reading costs more.
    """

    offsets: tuple[int, ...]
    begin: int
    reached: int
    size: int


class Hit(NamedTuple):
    """Where a search stands: on a match, or (``found`` False) where its time budget ran out.

    ``offset`` is the start of the matching line, or where to go on; ``end`` is where the next
    line starts: go on from there for the next match, or ``back`` from ``offset``.
    """

    found: bool
    offset: int
    end: int
    line: SafeText | None = None


class Near(NamedTuple):
    """Where a line starts, and the step or time that it tells."""

    offset: int
    value: float


class Alarm(NamedTuple):
    """Where an alarming line stands in some bytes, and what it is a sign of (SPEC T's word)."""

    begin: int
    end: int
    name: str


class Skipped(Frozen):
    """What of a log was not read line by line: more was written than can be.

    ``bytes`` in all, ``ranges`` the newest of them as offsets ``[begin, end)``. They were looked
    through for alarming lines, but for ``unscanned`` bytes: ``alarms`` is how many there were,
    ``found`` the first and the last of them. ``dropped`` older bytes are no longer kept at all: of
    a log that is fetched by cursor only the newest are.
    """

    class Line(Frozen):
        """An alarming line, where it starts in the file and what it is a sign of."""

        offset: int
        name: str = Field(serialization_alias="class")
        text: str

    bytes: int
    ranges: tuple[tuple[int, int], ...]
    unscanned: int = 0
    alarms: int = 0
    found: tuple[Line, ...] = ()
    dropped: int = 0


WORDS: Final = 300
"""Characters of the line that are kept."""
CONTEXT: Final = 3
"""Lines before it that tell, with it, one place from another."""
Offset = Annotated[int, Field(ge=0, lt=1 << 63)]


class Key(NamedTuple):
    """Which line of which run's log."""

    run: str
    path: str
    offset: int


class Bookmark(Frozen):
    """A line that is kept: ``words`` is how it begins, safe and masked; offsets count bytes.

    ``begin`` is where the ``context`` lines before it start, ``before`` a checksum of them.
    """

    run: str
    path: str
    offset: Offset
    words: str = Field(max_length=WORDS)
    begin: Offset
    context: int = Field(default=0, ge=0, le=CONTEXT)
    before: str = ""
    last: bool = False
    """Whether it was the log's last line then: it may have grown since."""

    @property
    def key(self) -> Key:
        """Which line it is."""
        return Key(self.run, self.path, self.offset)

    def stands_in(self, page: LogPage) -> bool:
        """Return whether the line still stands where it stood.

        ``page`` has ``context`` + 1 lines from ``begin`` on.
        """
        if page.offsets[self.context : self.context + 1] != (self.offset,):
            return False
        before, line = page.lines[: self.context], page.lines[self.context].plain
        if checksum(before) != self.before:
            return False
        return self.begins(line) or (self.last and self.context > 0)

    def begins(self, line: str) -> bool:
        """Return whether a line reads as this one did."""
        return line.startswith(self.words) and bool(self.words or not line)


def bookmark(
    run: str, path: str, lines: Sequence[SafeText], offsets: Sequence[int], *, last: bool
) -> Bookmark:
    """Return a bookmark of the last one of ``lines``; those before it stand right before it."""
    lines, offsets = lines[-CONTEXT - 1 :], offsets[-CONTEXT - 1 :]
    return Bookmark(
        run=run,
        path=path,
        offset=offsets[-1],
        words=lines[-1].plain[:WORDS],
        begin=offsets[0],
        context=len(lines) - 1,
        before=checksum(lines[:-1]),
        last=last,
    )


def checksum(lines: Sequence[SafeText]) -> str:
    """Return what tells some lines from others."""
    joined = "\n".join(line.plain for line in lines).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(joined, digest_size=8).hexdigest()


Level = Literal["", "I", "W", "E"]
"""No level, information, a warning, an error (and worse)."""
HEAD: Final = 120
"""Characters of a line in which its level is looked for."""
_GLOG: Final = re.compile(r"\W{0,4}(?:\[?rank ?\d+\]?:? ?)?([DIWEFC])\d{4}(?:\d{4})? +\d\d:\d\d")
_WORD: Final = re.compile(
    r"(?<![\w.])(?P<upper>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)(?![\w=.])"
    r"|level(?:name)?[\"']?[=:] ?[\"']?(?P<field>[A-Za-z]+)"
    r"|(?:^|[\[< ])(?P<lower>info|warning|error|fatal|critical)(?:[\]>]|: )"
)
_RAISED: Final = re.compile(
    r"(?:^|[\s:|\]])(?:\w+\.){0,8}(?P<name>\w{0,60}(?:Error|Exception|Interrupt|Warning))(?::|$)"
)
_STACK: Final = ("Traceback (most recent call last)", "During handling of the above exception",
                 "The above exception was the direct cause")  # fmt: skip


def level_of(line: str) -> Level:
    """Return the level that a line tells of itself; of a traceback's first and last line, error."""
    head = line[:HEAD]
    found = _GLOG.match(head)
    if found is not None:
        return _letter(found[1])
    word = _WORD.search(head)
    if word is not None:
        return _letter((word["upper"] or word["field"] or word["lower"]).upper())
    if any(each in head for each in _STACK):
        return "E"
    raised = _RAISED.search(head)
    if raised is None:
        return ""
    return "W" if raised["name"].endswith("Warning") else "E"


def _letter(word: str) -> Level:
    if word.startswith("W"):
        return "W"
    return "E" if word.startswith(("E", "F", "C")) else "I"


class Levels:
    """The level of each of many lines, in their order: a traceback is one thing."""

    def __init__(self) -> None:
        self._level: Level = ""
        self._stack = False

    def next(self, line: str) -> Level:
        """Return the level of the next line; what is indented below one belongs to it."""
        inside = not line.strip() or line[0] in " \t|"
        if inside and self._level in ("W", "E"):
            return self._level
        own = level_of(line)
        self._level = "E" if self._stack and own == "" and not inside else own
        self._stack = any(each in line for each in _STACK)
        return self._level

    @property
    def pending(self) -> bool:
        """Whether the next line may belong to the one before."""
        return self._stack or self._level in ("W", "E")

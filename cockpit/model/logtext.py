"""What a diagnosis reads: the lines of the present job, each with its place in the file."""

from typing import Literal, NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen
from cockpit.model.safetext import SafeText


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
    """

    lines: tuple[LogLine, ...]
    read: Read
    told: tuple[int, int] | None = None


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

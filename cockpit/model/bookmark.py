"""A place in a log that a person keeps, and how it is told from another place of that offset."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Final, NamedTuple

from pydantic import Field

from cockpit.model.base import Frozen
from cockpit.model.logtext import LogPage
from cockpit.model.safetext import SafeText

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

"""What a diagnosis reads of a log, with the step that its last line of progress tells."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.logtext import LogLine, PresentLog, Read
from cockpit.text.progress_lines import last_step


def present_log(lines: Sequence[LogLine], read: Read) -> PresentLog:
    """Return lines, oldest first, as they were read."""
    return PresentLog(tuple(lines), read, last_step(line.text for line in lines))


def held(lines: Sequence[str], why: str | None = None) -> PresentLog:
    """Return lines that are all there is at hand, numbered from 1; ``why``: they are not all."""
    size = sum(len(line) + 1 for line in lines)
    numbered = [LogLine(line, None if why else number) for number, line in enumerate(lines, 1)]
    read = Read(lines=len(lines), bytes=size, whole=why is None, why=why)
    return present_log(numbered, read)

"""A log line in a narrow place: its time and its words, without what every line repeats."""

from __future__ import annotations

import re
from typing import Final

from textual.content import Content

_STAMP: Final = re.compile(
    r"(?:(?P<glog>[IWEF])\d{4}(?:\d{4})? (?P<at>\d\d:\d\d:\d\d)(?:\.\d+)? +\d+ "
    r"|\[?\d{4}-\d\d-\d\d[T ](?P<iso>\d\d:\d\d:\d\d)(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ -]*)"
    r"(?=\S)"
)


def brief(line: Content) -> Content:
    """Return ``line`` with a leading date, thread id and "info" cut; the time of day stays."""
    found = _STAMP.match(line.plain)
    if found is None:
        return line
    level = found["glog"] if found["glog"] not in (None, "I") else ""
    start = " ".join(part for part in (found["at"] or found["iso"], level) if part)
    return Content(f"{start} ") + line[found.end() :]

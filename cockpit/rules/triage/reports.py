"""A scheduler's report of the end that stands above what the job has written: LSF's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine

LONGEST: Final = 100
"""Lines of a report: the script that was submitted is quoted in it."""
_ENDS: Final = "The output (if any) follows:"
_BEGINS: Final = "Sender: LSF System"
_TELLS: Final = late_regex(r"^(?:Sender: LSF System|Resource usage summary:)")


def report_last(places: Sequence[LogLine]) -> Sequence[LogLine]:
    """Return the lines in the order in which they were written: the last report behind its output.

    One whose first lines were cut away begins where the lines do.
    """
    ends = _last(places, _ENDS, len(places))
    if ends < 0:
        return places
    begins = max(0, _last(places, _BEGINS, ends))
    report = places[begins : ends + 1]
    if len(report) > LONGEST or not any(_TELLS.match(line.text) for line in report):
        return places
    return (*places[:begins], *places[ends + 1 :], *report)


def _last(places: Sequence[LogLine], text: str, end: int) -> int:
    return next((i for i in range(end - 1, -1, -1) if places[i].text.startswith(text)), -1)

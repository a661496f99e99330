"""A report of the end that stands above what the job has written: LSF's, or one that was asked for.

A batch system mails its own report first; who gathers what is known of a job that has ended puts
``kubectl describe``, ``sacct`` or a controller's words above the last lines of its log. Whatever
such a report tells has come after those lines (SPEC T: the order of causes is that of time).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from cockpit.model.late_regex import late_regex
from cockpit.model.logtext import LogLine
from cockpit.rules.triage.log_text import steps_of

LONGEST: Final = 100
"""Lines of a report: the script that was submitted is quoted in it."""
WIDEST: Final = 160
"""Characters of a heading."""
_ENDS: Final = "The output (if any) follows:"
_BEGINS: Final = "Sender: LSF System"
_TELLS: Final = late_regex(r"^(?:Sender: LSF System|Resource usage summary:)")
_LOG: Final = r"(?:logs?|tail|stdout|stderr|output|[\w.-]{1,60}\.(?:log|out|err))"
_WORDS: Final = r"[\w./ :()+,-]{0,60}?"
_HEADING: Final = late_regex(
    rf"^\s{{0,8}}[-=#*~>]{{2,80}} ?{_WORDS}\b{_LOG}\b{_WORDS}[-=#*~<]{{0,80}}\s*$"
    rf"|^\W{{0,4}}(?:[\w./-]{{1,40}} ){{0,5}}{_LOG}(?: (?:lines?|tail|output))?"
    r"(?: ?\([^()]{0,40}\))?:\s*$"
    r"|^\s{0,8}(?:\S{0,60}[$#%>]|\+{1,3}) (?:sudo )?(?:kubectl|docker|podman|crictl|ray|sky|iris"
    r"|gcloud|tail|cat|less|journalctl)\b.{0,100}\b(?:logs?|tail\b.{0,80}\.(?:log|out|err))\b",
    re.I,
)
"""A line below which a log stands: ``--- logs ---``, ``last log lines:``, ``$ kubectl logs x``."""
_NO_HEADING: Final = late_regex(r"^\s*--?\w|\b(?:logging|writing|redirect\w*|saving)\b", re.I)
_EARLIER: Final = late_regex(
    r"\b(?:previous|prior|earlier|former|last (?:state|run|job)|continuing|resum\w+|placed on"
    r"|re-?scheduled|moved to|instead|replac\w+|starting (?:again|attempt)|attempt [2-9])\b"
    r"|, using \S{1,60}\s*$|restart count:\s{0,20}[1-9]"
    r"|^\s{0,8}(?:(?:Warning|Normal)\s{1,12})?[A-Z]\w{2,40}\s{1,20}(?:\d+[hd]|[1-9]\d+m)\w{0,6}"
    r"(?:\s|$)",
    re.I,
)
"""What is told of a start before this one, or of an event of Kubernetes that is minutes old."""
_OVER: Final = late_regex(
    r"\bOOM_?Killed\b|\bEvicted\b|\bDeadlineExceeded\b|(?-i:\b(?:NODE_FAIL|OUT_OF_MEMORY|PREEMPTED"
    r"|TIMEOUT)\b|_(?:FAILED|PREEMPTED)\b)|\bexit(?:ed)?[ _]?(?:code|status)\W{0,3}[1-9-]\d*\b"
    r"|\b(?:state|status|phase|reason|conclusion)\W{1,12}(?:failed|error|terminated|cancell?ed"
    r"|killed|preempted)\b"
    r"|\b(?:jobs?|pods?|tasks?|nodes?|workers?|containers?|hosts?|instances?)\b.{0,60}\b(?:failed"
    r"|died|dead|lost|reaped|not responding|unreachable|terminated|killed|preempted|evicted"
    r"|exited)\b",
    re.I,
)
"""What is told of a job that has ended."""


def report_last(places: Sequence[LogLine], *, over: bool) -> tuple[Sequence[LogLine], int]:
    """Return the lines as they were written: the last report behind its output, and its length.

    One whose first lines were cut away begins where the lines do. Only of a job that is ``over``
    a heading within the log tells that what stands above it tells its end.
    """
    ends = _last(places, _ENDS, len(places))
    if ends < 0:
        return _gathered_last(places) if over else (places, 0)
    begins = max(0, _last(places, _BEGINS, ends))
    report = places[begins : ends + 1]
    if len(report) > LONGEST or not any(_TELLS.match(line.text) for line in report):
        return places, 0
    return (*places[:begins], *places[ends + 1 :], *report), len(report)


def _last(places: Sequence[LogLine], text: str, end: int) -> int:
    return next((i for i in range(end - 1, -1, -1) if places[i].text.startswith(text)), -1)


def _gathered_last(places: Sequence[LogLine]) -> tuple[Sequence[LogLine], int]:
    """Return the lines with what stands above the first heading of a log behind that log.

    It is no report where training is logged in it, where it tells of no end, or of that of an
    earlier start. What a program prints when it starts stays where it is.
    """
    first = islice(enumerate(places), LONGEST + 1)
    heading = next((at for at, line in first if _is_heading(line.text)), 0)
    above = [line.text for line in places[:heading]]
    told = [at for at, text in enumerate(above) if _OVER.search(text)]
    if not told or steps_of(above) or any(_EARLIER.search(text) for text in above):
        return places, 0
    begins = _paragraph(above, told[0])
    report = places[begins : heading + 1]
    return (*places[:begins], *places[heading + 1 :], *report), len(report)


def _is_heading(line: str) -> bool:
    if len(line) > WIDEST or _NO_HEADING.search(line):
        return False
    return _HEADING.search(line) is not None


def _paragraph(lines: Sequence[str], at: int) -> int:
    """Return where the lines begin that belong to one: inset ones to that above them."""
    while at and lines[at][:1].isspace():
        at -= 1
    return at

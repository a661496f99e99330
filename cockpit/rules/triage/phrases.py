"""What phrases mean: an order, a doubt, a complaint, something about data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.rules.triage.literals import without
from cockpit.rules.triage.rows import things, words
from cockpit.rules.triage.signs import Action

STOPPED: Final = words("stopped")
BY_COMMAND: Final = words("by_command")
BY_HAND: Final = words("by_hand")
PLAIN_ORDER: Final = words("plain_order")
ORDERED: Final = words("ordered")
JOB_CANCELLED: Final = words("job_cancelled")
STEP_CANCELLED: Final = words("step_cancelled")
INTRODUCES: Final = words("introduces")
DATA: Final = words("data")
DATA_FILE: Final = words("data_file")
DATA_CODE: Final = words("data_code")
DATA_MODULE: Final = words("data_module")
_WRITTEN: Final = words("written")
_DOUBT: Final = words("doubt")
_ITEM: Final = words("item")

LONGEST_LINE: Final = 1000
"""Characters of a line that are looked at."""
LONGEST_LIST: Final = 12
"""Lines of such a list that are passed over."""


def certain(line: str) -> str:
    """Return what of a line is said to have happened: without what may have been."""
    return without(_DOUBT, line)


def unquoted(line: str) -> str:
    """Return a line without what of it stands between quotes as a model's words."""
    return _WRITTEN.sub(" ", line)


def listed(lines: Sequence[str], where: Sequence[int]) -> set[int]:
    """Return which lines (0-based) are items of a list of possible causes.

    ``where`` are the lines that ``introduces`` finds, and each list follows one of them.
    """
    found: set[int] = set()
    for index in where:
        inset = (
            _inset(lines[index])
            if lines[index].rstrip().endswith(":")
            else LONGEST_LIST * LONGEST_LIST
        )
        for below in range(index + 1, min(index + 1 + LONGEST_LIST, len(lines))):
            if not _ITEM.match(lines[below]) and _inset(lines[below]) <= inset:
                break
            found.add(below)
    return found


def _inset(line: str) -> int:
    return len(line) - len(line.lstrip())


def gist(lines: Iterable[str]) -> tuple[str, Action] | None:
    """Return the class and the careful action of the first line with a thing and a trouble."""
    for line in lines:
        said = certain(line[:LONGEST_LINE])
        for name, action, pattern in things():
            if pattern.search(said):
                return name, action
    return None

"""What was painted of a run, kept until something that it shows reads otherwise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.instant import Noting
from cockpit.model.lasting import lasting
from cockpit.model.report import RunReport

UNPAINTED: Final = frozenset({"host", "code", "records"})
"""Facets of which nothing stands in a panel or a row: the load of a host moves with each look."""


class Kept(NamedTuple):
    """Painted lines, what they were painted from, and between which moments they are true.

    ``of_look`` tells that they go by when was looked, too.
    """

    report: RunReport
    about: tuple[object, ...]
    begin: float
    end: float
    lines: list[Content]
    of_look: bool

    def lasts(self, now: float) -> bool:
        """Return whether all ages in it read by now as they are painted."""
        return self.begin <= now < self.end

    def holds(self, report: RunReport, now: float, about: tuple[object, ...]) -> bool:
        """Return whether painting anew could only give the same."""
        same = about == self.about and self.lasts(now)
        return same and not isinstance(now, Noting) and alike([report], [self.report], self.of_look)


def alike(reports: Sequence[RunReport], former: Sequence[RunReport], of_look: bool) -> bool:
    """Return whether what is painted of reports reads as of the former ones.

    ``of_look``: when was looked matters, too.
    """
    return len(reports) == len(former) and all(
        new is old or (not of_look and new.reads_as(old, UNPAINTED))
        for new, old in zip(reports, former, strict=True)
    )


def kept(
    report: RunReport, now: float, about: tuple[object, ...], paint: Callable[[], list[Content]]
) -> Kept:
    """Return what ``paint`` makes of a report ``now``; ages in it say for how long it lasts."""
    with lasting() as words:
        lines = paint()
    return Kept(report, about, now, now + words.seconds, lines, words.of_look)

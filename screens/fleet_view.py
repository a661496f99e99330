"""Which runs the fleet shows, in which order: filter, grouping, favourites. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Phase
from cockpit.model.report import URGENCY, RunReport, Verdict, View
from widgets.painting.facts import unread
from widgets.painting.panel import needs_room

FINISHED: Final = (Verdict.FINISHED, Verdict.SEALED)
"""Verdicts of runs that are over and done with: they can be hidden."""
STATES: Final = tuple(dict.fromkeys([*(each.value for each in (*Verdict, *Phase)), "stopped"]))
"""What ``state:`` can ask for: a verdict, the job's phase, or that its process is stopped."""
_FIELD: Final = late_regex(r"(?P<not>!?)(?:(?P<field>[A-Za-z]+):)?(?P<value>.*)", re.DOTALL)


class Term(NamedTuple):
    """One word of a filter: ``state:failed`` has a field, plain text none, ``!`` turns it round."""

    field: str
    value: str
    negated: bool

    def __call__(self, report: RunReport) -> bool:
        """Tell whether a run has it."""
        return _FIELDS[self.field](report, self.value) != self.negated


class Filter(NamedTuple):
    """A filter as it was read; ``problem`` says what is wrong with it, else it is empty."""

    terms: tuple[Term, ...] = ()
    problem: str = ""

    def __call__(self, report: RunReport) -> bool:
        """Tell whether a run passes: it has every word, and the filter is one."""
        return not self.problem and all(term(report) for term in self.terms)


class Shown(NamedTuple):
    """The runs in their order; each group's title and how many of them belong to it."""

    runs: list[RunReport]
    groups: tuple[tuple[str, int], ...] = ()


@lru_cache(maxsize=64)
def read_filter(words: str) -> Filter:
    """Return a filter: ``state:failed dri:ada text``, all of which a run must have.

    A word whose value is still to be typed asks for nothing yet.
    """
    terms = []
    for word in words.split():
        found = _FIELD.fullmatch(word)
        assert found is not None, "every word is at least a value"
        field, value = (found["field"] or "").casefold(), found["value"].casefold()
        if field not in _FIELDS:
            return Filter(problem=f'no filter "{field}:"; there are {_names()}')
        if field == "state" and not any(each.startswith(value) for each in STATES):
            return Filter(problem=f'no state "{value}"; there are {", ".join(STATES)}')
        if value:
            terms.append(Term(field, value, bool(found["not"])))
    return Filter(tuple(terms))


def _names() -> str:
    return ", ".join(f"{name}:" for name in _FIELDS if name)


def cluster_of(report: RunReport) -> str:
    """Return where a run's jobs execute: its cluster, else the machine, else the kind of job."""
    job = report.spec.job
    return "" if job is None else job.cluster or job.host or job.address or job.kind


def dri_of(report: RunReport) -> str:
    """Return who answers for a run."""
    return report.spec.dri or ""


def group_of(report: RunReport) -> str:
    """Return a run's group in the run file."""
    return report.spec.group or ""


def _has_state(report: RunReport, value: str) -> bool:
    job = report.facets.job.value
    states = [report.verdict.value]
    if job is not None:
        states += [job.phase.value, *(["stopped"] if job.stopped is not None else [])]
    return any(each.startswith(value) for each in states)


def _has_alert(report: RunReport, value: str) -> bool:
    return any(
        each.id.casefold().startswith(value) or value in each.title.casefold()
        for each in report.alerts
    )


def _has_text(report: RunReport, value: str) -> bool:
    job, spec = report.facets.job.value, report.spec
    parts = [report.name, report.verdict.value, group_of(report), dri_of(report), spec.tier]
    parts += [job.phase.value] if job is not None else []
    parts += [spec.job.kind, cluster_of(report)] if spec.job is not None else []
    parts += [f"{alert.id} {alert.title}" for alert in report.alerts]
    return value in " ".join(parts).casefold()


def _in(named: Callable[[RunReport], str]) -> Callable[[RunReport, str], bool]:
    return lambda report, value: value in named(report).casefold()


_FIELDS: Final[dict[str, Callable[[RunReport, str], bool]]] = {
    "": _has_text,
    "state": _has_state,
    "alert": _has_alert,
    "dri": _in(dri_of),
    "group": _in(group_of),
    "cluster": _in(cluster_of),
}
_NAMED: Final[dict[str, Callable[[RunReport], str]]] = {
    "cluster": cluster_of, "dri": dri_of, "group": group_of,
}  # fmt: skip


def matching(reports: Iterable[RunReport], view: View) -> list[RunReport]:
    """Return the runs that pass the view's filter, without the finished ones if it hides them."""
    passes = read_filter(view.filter)
    hidden = FINISHED if view.hide_finished else ()
    return [each for each in reports if each.verdict not in hidden and passes(each)]


def ordered(reports: Sequence[RunReport], view: View) -> list[RunReport]:
    """Return the runs in the view's order; by need, favourites follow who needs a person."""
    if view.sort == "name":
        return sorted(reports, key=lambda each: each.name)
    if view.sort == "time left":
        return sorted(reports, key=_time_left)
    if view.sort != "need":
        return list(reports)
    liked = frozenset(view.favourites)
    return sorted(reports, key=lambda each: _need(each, each.name in liked))


def _need(report: RunReport, liked: bool) -> tuple[int, bool, int, int]:
    """Return what a run is sorted by: until it is read it stands as if well, and then stays."""
    waits = unread(report) and report.verdict is Verdict.UNKNOWN
    place = URGENCY.index(Verdict.HEALTHY if waits else report.verdict)
    worst = max((each.severity.rank for each in report.alerts), default=-1)
    return place if needs_room(report) else len(URGENCY), not liked, place, -worst


def _time_left(report: RunReport) -> float:
    left = report.progress.eta_s
    return math.inf if left is None or math.isnan(left) else left


def arranged(reports: Sequence[RunReport], view: View) -> Shown:
    """Return what a view shows; groups stand in the order of their first run."""
    runs = ordered(matching(reports, view), view)
    named = _NAMED.get(view.group)
    if named is None:
        return Shown(runs)
    groups: dict[str, list[RunReport]] = {}
    for each in runs:
        groups.setdefault(named(each), []).append(each)
    titles = tuple((_title(view.group, name, found), len(found)) for name, found in groups.items())
    return Shown([each for found in groups.values() for each in found], titles)


def _title(kind: str, name: str, found: Sequence[RunReport]) -> str:
    said = "DRI" if kind == "dri" else kind
    runs = "1 run" if len(found) == 1 else f"{len(found)} runs"
    return f"{said} {name} · {runs}" if name else f"no {said} · {runs}"

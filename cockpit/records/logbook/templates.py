"""What an entry can begin as: one template per kind of event (SPEC L, A-10). Pure.

What is observed is filled in, from the same report; what a person decided never is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from cockpit.model.lineage import named
from cockpit.model.records import EventEntry
from cockpit.model.report import RunReport
from cockpit.records.logbook.entry_text import prefill
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

NOTE: Final = "note"


def template(report: RunReport, name: str, now: float) -> EventEntry:
    """Return the entry that a template begins; raises ``KeyError`` for an invalid name."""
    title, evidence = TEMPLATES[name](report)
    seen = prefill(report, title, now)
    lines = [seen.evidence, *(scrub(clean(line, 2000)) for line in evidence)]
    return seen.model_copy(update={"evidence": "\n".join(filter(None, lines))})


def _plain(title: str) -> Callable[[RunReport], tuple[str, list[str]]]:
    return lambda report: (title, [])


def _incident(report: RunReport) -> tuple[str, list[str]]:
    worst = report.worst
    return ("incident" if worst is None else f"incident: {worst.title}"), []


def _relaunch(report: RunReport) -> tuple[str, list[str]]:
    """Return what it would resume from, as far as that is known."""
    found = report.facets.checkpoints.value
    pick = None if found is None else found.relaunch_from
    return "relaunch", [] if pick is None else [f"would resume from {named(pick)}: {pick.why}"]


def _handoff(report: RunReport) -> tuple[str, list[str]]:
    """Return who owns it by the run file, and what is open."""
    dri = [] if report.spec.dri is None else [f"DRI by the run file: {report.spec.dri}"]
    return "handoff", [*dri, *(f"open: {each.id} {each.title}" for each in report.alerts)]


TEMPLATES: Final[Mapping[str, Callable[[RunReport], tuple[str, list[str]]]]] = {
    NOTE: _plain("note"),
    "check": _plain("check"),
    "incident": _incident,
    "decision": _plain("decision"),
    "relaunch": _relaunch,
    "handoff": _handoff,
}
"""By name, in the order in which a person is offered them."""

"""Begins a logbook entry for a person: facts, templates (SPEC A-10), the kept draft."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Any, Final

from cockpit.hosts.own_folder import put_whole
from cockpit.model import wording
from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.lineage import named, newest_good, newest_of
from cockpit.model.records import EventEntry, Unfinished
from cockpit.model.report import RunReport, present_loss
from cockpit.records.git.documents import read
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_MOST = 3
"""Lines of evidence that are copied; the rest is in the alert."""


def prefill(report: RunReport, title: str, now: float) -> EventEntry:
    """Return an entry that says what is observed; what was decided is left to the person."""
    worst = report.worst
    evidence = _observed(report, now) if worst is None else _alerted(report, worst, now)
    return EventEntry(
        title=_safe(title),
        at=now,
        status=_safe(", ".join(_status(report, now))),
        evidence="\n".join(map(_safe, evidence)),
        next=_safe(_next(report, now)),
    )


def _safe(text: str) -> str:
    return scrub(clean(text, 2000))


def _status(report: RunReport, now: float) -> Iterator[str]:
    """Yield the job's state, how far the run is, and its loss."""
    job = report.facets.job
    if job.value is None:
        yield "job state unknown" + _since(job, now)
    else:
        tasks = job.value.tasks
        share = "" if tasks is None else f" {tasks.running}/{tasks.total}"
        stale = (
            "" if job.known else f" (seen {_at(job.observed_at, now)}, unknown{_since(job, now)})"
        )
        yield f"{job.value.state}{share}{stale}"
    if report.progress.step is not None:
        yield report.progress.words
    _, loss = present_loss(report)
    if loss is not None:
        yield f"loss {wording.number(loss)}"


def _since(facet: Facet[Any], now: float) -> str:
    return "" if facet.since is None else f" since {_at(facet.since, now)}"


def _alerted(report: RunReport, alert: Alert, now: float) -> Iterator[str]:
    """Yield what the worst alert rests on, each with its source and when that was seen."""
    since = f"{_at(alert.since, now)}{alert.or_before}"
    yield f"{alert.title}, since {since} ({wording.SURE_WORD[alert.confidence]})"
    times = {facet.source: facet.observed_at for _, facet in report.facets.items()}
    for each in alert.evidence[:_MOST]:
        yield f"{each.text} ({_from(each.source, times.get(each.source), now)})"
    if len(alert.evidence) > _MOST:
        yield f"and {len(alert.evidence) - _MOST} more"
    yield from (f"also open: {other.title}" for other in report.alerts[1:])


def _observed(report: RunReport, now: float) -> Iterator[str]:
    """Yield the figures of a run that nothing is wrong with."""
    tracker, checkpoints = report.facets.tracker, report.facets.checkpoints
    if tracker.value is not None:
        seen = tracker.value
        unit = seen.throughput_unit
        figures = [f"loss {wording.number(seen.true_loss)}"] if seen.loss is not None else []
        figures += [wording.rate(seen.throughput, unit)] if seen.throughput is not None else []
        figures += (
            [f"grad norm {wording.number(seen.grad_norm)}"] if seen.grad_norm is not None else []
        )
        at = tracker.observed_at if seen.last_step_at is None else seen.last_step_at
        if figures:
            yield f"{', '.join(figures)} ({_from(tracker.source, at, now)})"
    if checkpoints.value is not None and not checkpoints.value.unlisted:
        newest = newest_of(item for item in checkpoints.value.items if item.complete and item.own)
        if newest is not None:
            told = named(newest).removeprefix("step ")
            when = _from(checkpoints.source, newest.saved_at, now)
            yield f"newest complete checkpoint {told} ({when})"
            good = newest_good(checkpoints.value.items)
            if newest.suspect is not None:
                last = "none" if good is None else named(good).removeprefix("step ")
                yield f"it is suspect: {newest.suspect}; newest that is not: {last}"
    for name, facet in report.facets.items():
        if facet.configured and not facet.known and facet.error is not None:
            yield f"{name} unknown{_since(facet, now)}: {facet.error.message} ({facet.source})"


def _from(source: str, at: float | None, now: float) -> str:
    """Return where a figure is from and of when it is: an age would be false when it is read."""
    return source if at is None else f"{source}, {_at(at, now)}"


def _next(report: RunReport, now: float) -> str:
    if report.worst is not None:
        return report.next_action
    due = report.next_check_at if report.next_check_at is not None else now + report.spec.cadence
    return f"check again {_at(due, now)}" if due > now else report.next_action


def _at(at: float | None, now: float) -> str:
    return f"{wording.day_time(at, now, UTC)} UTC"


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
    dri = [] if report.spec.dri is None else [f"owner by the run file: {report.spec.dri}"]
    return "handoff", [*dri, *(f"open: {each.title}" for each in report.alerts)]


TEMPLATES: Final[Mapping[str, Callable[[RunReport], tuple[str, list[str]]]]] = {
    NOTE: _plain("note"),
    "check": _plain("check"),
    "incident": _incident,
    "decision": _plain("decision"),
    "relaunch": _relaunch,
    "handoff": _handoff,
}
"""By name, in the order in which a person is offered them."""


class Drafts:
    """The drafts in one folder; ``kind`` says of what one is (an event, an entry)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, run: str, kind: str, text: str, by: str = "") -> None:
        """Keep a text in the place of the one before; a crash leaves one or the other.

        ``by`` is who typed it.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder.chmod(0o700)
        document = {"run": run, "kind": kind, "text": text, "by": by}
        put_whole(self._place(run, kind), json.dumps(document))

    def get(self, run: str, kind: str) -> str | None:
        """Return the text that was kept, ``None`` if there is none that can be read."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            return str(json.loads(read(self._place(run, kind)) or b"")["text"])
        return None

    def unfinished(self, run: str, kind: str) -> Unfinished | None:
        """Return what is known of a text that was kept, but for what it says."""
        text, place = self.get(run, kind), self._place(run, kind)
        if text is None or not text.strip():
            return None
        by = str(json.loads(read(place) or b"{}").get("by", ""))
        lines = len(text.strip().splitlines())
        return Unfinished(by=clean(by, 100), lines=lines, at=place.stat().st_mtime)

    def drop(self, run: str, kind: str) -> None:
        """Forget a text, whose entry has been saved."""
        self._place(run, kind).unlink(missing_ok=True)

    def _place(self, run: str, kind: str) -> Path:
        """Return a name that is safe whatever the run is called; the file says which it is."""
        key = hashlib.sha256(f"{run}\0{kind}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{key[:40]}.draft.json"

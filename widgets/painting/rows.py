"""The lines about one run that panel, list and run screen share. Pure: report in, lines out."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from cockpit.model.alert import Alert
from cockpit.model.facet import Facet
from cockpit.model.observed import Checkpoint, CheckpointState, Phase, TrackerValue
from cockpit.model.report import RunReport, present_loss, present_tracker
from cockpit.model.wording import (
    age,
    brief,
    by_look,
    clocked,
    day_time,
    duration,
    eta,
    glyph,
    number,
    rate,
    share,
    short_number,
    steps,
)
from widgets.painting import facts
from widgets.painting.facts import Freshness, freshness_of
from widgets.painting.line import ACCENT, DIM, EMPTY, fitted, hung, one_line, row, shortened, text
from widgets.painting.line import brief as without_stamp

ROOMY = 70
"""Cells from which an alert shows when it began besides for how long it is open."""
LAG = 20.0
"""Seconds by which a tracker's client may hold back what was logged."""


def step_done(report: RunReport) -> str:
    """Return the newest step: ``~46,012``, as it moves; ``159`` of a run that is through."""
    step = report.progress.step
    return "?" if step is None else f"{'' if _is_through(report) else '~'}{steps(step)}"


def _is_through(report: RunReport) -> bool:
    """Tell whether the job succeeded with its last step: steps count from 0, so it is final - 1."""
    found, job = report.progress, report.facets.job.value
    if job is None or job.phase is not Phase.SUCCEEDED or found.step is None:
        return False
    return found.final_step is not None and found.step >= found.final_step - 1


def progress(report: RunReport, short: bool = False) -> Content:
    """Return ``~46,012/119,209``; ``~46,012/119K`` if it shall be ``short``."""
    found = report.progress
    final = steps(found.final_step) if found.final_step is not None else "unknown"
    if found.step is None:
        return text(("?", "$unknown"), (f"/{final}", DIM))
    if short and found.final_step is not None:
        final = short_number(found.final_step)
    return text((step_done(report), "bold"), (f"/{final}", DIM))


def percent(report: RunReport) -> str:
    """Return how far, as a share; nothing where the final step is unknown."""
    found = report.progress
    if found.step is None or not found.final_step:
        return ""
    return share(1.0 if _is_through(report) else found.step / found.final_step)


def step_source(report: RunReport) -> Content:
    """Return where the step is from, unless that is the tracker, as usual, or it is hardly behind.

    The two overtake each other all the time: that is no news.
    """
    source, tracker = report.progress.step_source, report.facets.tracker.value
    at = None if tracker is None else tracker.last_step_at
    if source in (None, "tracker"):
        return EMPTY
    if at is not None and report.checked_at - at < LAG:
        by_look()  # a later look tells
        return EMPTY
    return text((f"by {source}", DIM))


def time_left(report: RunReport, short: bool = False) -> Content:
    """Return ``ETA 3d 04h`` (``ETA 3d``); nothing once the job is over or where nobody knows."""
    if facts.is_over(report) or report.progress.eta_s is None:
        return EMPTY
    left = eta(report.progress.eta_s)
    return text(("ETA ", DIM), brief(left) if short else left)


def where(report: RunReport) -> Content:
    """Return what it runs on: ``iris v5p-512``."""
    kind = report.spec.job.kind if report.spec.job is not None else ""
    return text((" ".join(part for part in (kind, report.spec.hardware or "") if part), DIM))


def alert_titled(
    alert: Alert, now: float, width: int, most: int, worded: bool = False
) -> list[Content]:
    """Return an alert in words over at most ``most`` lines: how long stands last.

    ``worded`` puts the severity's word before these.
    """
    mark, style = facts.alert_mark(alert)
    since = alert_since(alert, now, width >= ROOMY and not worded)
    since = text((facts.SEVERITY_WORD[alert.severity], style), " ", since) if worded else since
    room = width - since.cell_length - 4
    taken = acknowledged_beside(alert, now, room - len(alert.title))
    pieces = fitted(Content(alert.title).stylize("bold"), room - taken.cell_length, most) or [EMPTY]
    first = row(text((f"{mark} ", style), pieces[0], taken), since, width)
    return [first, *(text("  ", piece) for piece in pieces[1:])]


def acknowledged(alert: Alert, now: float) -> str:
    """Return who has taken an alert, and until when it is quiet: ``ack ada until 13:43``."""
    taken = alert.acknowledged
    if taken is None:
        return ""
    until = "" if taken.until is None else f" until {day_time(taken.until, now)}"
    return f"ack {taken.by}{until}"


def acknowledged_beside(alert: Alert, now: float, room: int) -> Content:
    """Return the same behind a title that leaves so much room; until when gives way to who."""
    if alert.acknowledged is None:
        return EMPTY
    said = acknowledged(alert, now)
    return text("  ", (said if len(said) + 2 <= room else f"ack {alert.acknowledged.by}", DIM))


def alert_since(alert: Alert, now: float, roomy: bool) -> Content:
    """Return ``9m``; with room ``since 08:40 · 9m``. A ``+``: or longer."""
    old = age(now - alert.since) + ("+" if alert.since_or_before else "")
    begun = f"since {day_time(alert.since, now)} · " if roomy else ""
    return text((f"{begun}{old}", DIM))


def in_clock_times(words: str, source: str, now: float) -> str:
    """Return a line of evidence with its instants on the reader's clock; a quoted one as it is."""
    return words if quoted(source) else clocked(words, now)


def quoted(source: str) -> bool:
    """Tell whether evidence of this source is a line as it stands there."""
    return source.rpartition(":")[2].isdecimal()


def proof(alert: Alert, now: float, width: int) -> list[Content]:
    """Return an alert's evidence, a line each: the words, their source at the right edge."""
    lines = []
    for each in alert.evidence:
        said = without_stamp(Content(in_clock_times(each.text, each.source, now)))
        source = shortened(text((each.source, DIM)), 2)
        room = width - said.cell_length - 2
        fits = source.cell_length <= room
        lines.append(row(said, source, width, gap=2) if fits else one_line(said, width))
    return lines


def next_lines(report: RunReport, width: int, most: int, brief: bool = False) -> list[Content]:
    """Return what to do next over at most ``most`` lines, behind an arrow; paths give way.

    ``brief`` leaves out the run's name, which stands beside it.
    """
    pieces = fitted(Content(next_words(report, brief)), width - 2, most)
    return hung(text((f"{glyph('next')} ", ACCENT)), pieces)


def loss(report: RunReport, now: float) -> Content:
    """Return the newest loss; ``?`` where it is unknown, dim where it is old."""
    source, value = present_loss(report)
    facet: Facet[Any] = report.facets.tracker if source == "tracker" else report.facets.log
    if value is None:
        return text(("?", "$unknown"))
    if not facts.finite(value):
        return text((number(value), "bold $critical"))
    return text(
        (number(value), "$dim" if freshness_of(facet, report, now) is Freshness.STALE else "bold")
    )


def throughput(report: RunReport, now: float, alone: bool = False) -> Content:
    """Return throughput and how far from its baseline, unless ``alone``: ``0.83M tok/s −31 %``."""
    tracker, found = report.facets.tracker, present_tracker(report)
    if found is None or found.throughput is None:
        return text(("?", "$unknown"))
    style = DIM if freshness_of(tracker, report, now) is Freshness.STALE else ""
    against, mark = facts.pace(report)
    shown = text((rate(found.throughput, found.throughput_unit), style))
    return shown if alone or against == "?" else text(shown, " ", (against, mark))


def grad(found: TrackerValue | None) -> Content:
    """Return the gradient norm, if one is logged."""
    if found is None or found.grad_norm is None:
        return EMPTY
    style = "" if facts.finite(found.grad_norm) else "bold $critical"
    return text((number(found.grad_norm), style))


def checkpoint(item: Checkpoint, now: float) -> Content:
    """Return one checkpoint in a few words: ``46,000 ✓ 4m``, ``8,004 ✗ torn``."""
    style = facts.item_style(item)
    since = item.saved_at if item.saved_at is not None else item.touched_at
    old = age(None if since is None else now - since)
    word, ink = f"{item.state.value}", style
    if item.complete:
        word, ink = (old, DIM) if item.good else (f"suspect {old}", style)
    elif item.state is CheckpointState.INCOMPLETE:
        word = "torn"
    elif item.state is CheckpointState.WRITING or facts.step_of(item) is None:
        word += f" {old}"
    mark = (glyph(facts.item_state(item)), style)
    return text(f"{facts.step_words(item)} ", mark, (f" {word}", ink))


def checkpoints(report: RunReport, now: float) -> list[Content]:
    """Return the newest complete checkpoint and what is newer and not whole."""
    facet = report.facets.checkpoints
    if facet.value is None:
        return [unknown(facet)]
    items = [checkpoint(each, now) for each in facts.newest_checkpoints(report)]
    if freshness_of(facet, report, now) is Freshness.STALE:
        items.append(stale(age(facet.age(now))))
    return items or [text(("none yet", DIM))]


def ages(report: RunReport, now: float) -> list[Content]:
    """Return how old what was seen is: ``W&B 31s · monitor 2m, every 10m · log 3s``."""
    tracker, log = report.facets.tracker, report.facets.log
    label = "W&B" if next(iter(report.spec.trackers), "wandb") == "wandb" else "steps"
    stepped = None if tracker.value is None else tracker.value.last_step_at
    written = None
    if log.value is not None:
        written = max(log.value.mtime, log.value.last_line_at or 0.0)

    def aged(name: str, facet: Facet[Any], at: float | None) -> Content:
        old = age(None if at is None else now - at)
        shown = {
            Freshness.FRESH: Content(old),
            Freshness.STALE: stale(old),
            Freshness.UNKNOWN: text(("?", "$unknown")),
        }.get(freshness_of(facet, report, now))
        return EMPTY if shown is None else text((f"{name} ", DIM), shown)

    items = [aged(label, tracker, stepped), _monitor_age(report, now), aged("log", log, written)]
    return [item for item in items if item.plain]


def _monitor_age(report: RunReport, now: float) -> Content:
    facet = report.facets.monitor
    found = facet.value
    if freshness_of(facet, report, now) is Freshness.ABSENT:
        return EMPTY
    if found is None or found.doubt is not None:
        return text(("monitor ", DIM), ("?", "$unknown"))
    old = age(None if found.last_update is None else now - found.last_update)
    every = text((f", every {duration(found.cadence_s)}", DIM))
    others = text((f" +{len(found.others)} other", "$attention")) if found.others else EMPTY
    if found.fresh and facet.error is None:
        return text(("monitor ", DIM), old, every, others)
    return text(("monitor ", DIM), (f"{glyph('stale')} STALE {old}", "$attention"), every, others)


def stale(words: str) -> Content:
    """Return the mark of something that is only the last known: ``◷ 14m``."""
    return text((f"{glyph('stale')} {words}", DIM))


def unknown(facet: Facet[Any]) -> Content:
    """Return ``?`` and why; what the run file does not name says so without alarm."""
    if not facet.configured:
        return text((facts.reason(facet), DIM))
    return text(("? ", "$unknown"), (facts.reason(facet), DIM))


def next_step(report: RunReport, brief: bool = False) -> Content:
    """Return what to do next; ``brief`` leaves out the run's name, which stands beside it."""
    return text((f"{glyph('next')} ", ACCENT), next_words(report, brief))


def next_words(report: RunReport, brief: bool) -> str:
    """Return what to do next; ``brief`` without the run's name."""
    words = report.next_action
    if not brief:
        return words
    return words.replace(f" of {report.name}", " of it", 1).replace(f" {report.name}", "", 1)

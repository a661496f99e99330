"""The open alerts to take, one of them selected, and for how long it will be quiet. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from textual.content import Content

from cockpit.model.alert import Alert
from cockpit.model.words import age, day_time
from widgets import facts
from widgets.line import ACCENT, DIM, EMPTY, STRONG, Part, row, text, within, wrapped


class Taking(NamedTuple):
    """What can be taken: alerts, and last the run's end if ``end`` says how it ended."""

    alerts: Sequence[Alert]
    end: str
    at: int
    spans: Sequence[str]
    span: int
    why: str


def paint_taking(taking: Taking, now: float, width: int) -> list[Content]:
    """Return the list, then for how long and why."""
    lines: list[Content] = []
    for place, alert in enumerate(taking.alerts):
        lines += _alert(alert, now, width, place == taking.at)
    if taking.end:
        chosen = taking.at == len(taking.alerts)
        lines.append(_chosen(text("◆ ", (f"the run's end: {taking.end}", STRONG)), width, chosen))
    if not lines:
        lines.append(text(("nothing is open, and the run has not ended", DIM)))
    spans = [
        piece for n, each in enumerate(taking.spans) for piece in _span(each, n == taking.span)
    ]
    why = text(("why         ", DIM), taking.why or ("w says why", DIM))
    return within([*lines, EMPTY, text(("quiet for   ", DIM), *spans), why], width)


def _span(words: str, chosen: bool) -> list[Part]:
    return [(f" {words} ", f"bold {ACCENT} on $cursor" if chosen else DIM), " "]


def _alert(alert: Alert, now: float, width: int, chosen: bool) -> list[Content]:
    mark, style = facts.alert_mark(alert)
    left = text((f"{mark} {alert.id}", style), " ", (alert.title, STRONG))
    lines = [_chosen(row(left, text((age(now - alert.since), DIM)), width - 2), width, chosen)]
    taken = alert.acknowledged
    if taken is not None:
        until = f", quiet until {day_time(taken.until, now)}" if taken.until is not None else ""
        said = f"taken by {taken.by} {day_time(taken.at, now)}{until}"
        lines += [text("    ", each) for each in wrapped(text((said, DIM)), width - 4, 2)]
    return lines


def _chosen(line: Content, width: int, chosen: bool) -> Content:
    shown = text(("▸ " if chosen else "  ", ACCENT), line)
    return shown.truncate(width, pad=True).stylize_before("on $cursor") if chosen else shown

"""What of a run can be copied, to choose from: a value, a line, an id, a command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from screens.clipboard import identity
from screens.dialog import Dialog, DialogBox
from screens.keys import Keys, bindings
from widgets.painting.line import ACCENT, DIM, STRONG, cut, fit, text
from widgets.scrolled import Paged, Sheet

NAMES = 16
"""Columns of the names of what can be copied."""


class Copy(NamedTuple):
    """Something that can be copied: what it is called, and the text."""

    name: str
    text: str


def copies(report: RunReport) -> list[Copy]:
    """Return what of a run can be copied, what is wanted most first; secrets are masked."""
    found = [Copy("summary", identity(report)), *_named(report), *_said(report)]
    return [Copy(each.name, scrub(each.text)) for each in found if each.text]


def _named(report: RunReport) -> Iterator[Copy]:
    """Yield what the run is called, here and elsewhere."""
    job, tracker, spec = report.facets.job.value, report.facets.tracker.value, report.spec
    yield Copy("run", report.name)
    yield Copy("job id", (job.id if job else None) or (spec.job.id if spec.job else None) or "")
    if tracker is not None and tracker.id:
        yield Copy("W&B run", tracker.url or tracker.id)
    checkpoints = report.facets.checkpoints.value
    if checkpoints is not None and checkpoints.relaunch_from is not None:
        yield Copy("checkpoint", str(checkpoints.relaunch_from.path))
    log = report.facets.log.value
    yield Copy("log file", str(log.path) if log and log.path else "")


def _said(report: RunReport) -> Iterator[Copy]:
    """Yield what is wrong, what to do, and the commands for it."""
    for alert in report.alerts[:3]:
        lines = [alert.title, *(each.text for each in alert.evidence), f"next: {alert.next_action}"]
        yield Copy(f"alert {alert.id}", "\n".join(lines))
    yield Copy("next action", report.next_action)
    log = report.facets.log.value
    yield Copy("last log line", log.lines[-1].plain if log and log.lines else "")
    path = report.spec.resubmit
    if path is not None:
        yield Copy("resubmit", path if isinstance(path, str) else shlex.join(path))
    yield Copy("check command", f"cockpit check {shlex.quote(report.name)}")


class CopyScreen(Dialog[str | None]):
    """Returns the text that was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings("copying")

    def __init__(self, run: str, found: Sequence[Copy], keys: Keys) -> None:
        super().__init__()
        self._run, self._found, self._at = run, tuple(found), 0
        self._foot = text((f"{keys.shown('copy_take')} copy   {keys.shown('copy_leave')} cancel",
                           DIM))  # fmt: skip

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with DialogBox():
            yield Paged()

    def on_mount(self) -> None:
        """Show what there is."""
        self.lay_out()

    def lay_out(self) -> None:
        """Show what there is, and what is chosen."""
        if not self.is_mounted:
            return
        page = self.query_one(Paged)
        body = partial(paint_copies, self._found, self._at)
        page.show(Sheet(body, text((f"copy · {self._run}", STRONG)), foot=[self._foot]))
        self.fit_box(len(self._found) + 4)
        above = self._at - page.top
        page.move(min(0, above) or max(0, above - page.room + 1))

    def action_step(self, steps: int) -> None:
        """Choose another one."""
        self._at = max(0, min(self._at + steps, len(self._found) - 1))
        self.lay_out()

    def action_copy_take(self) -> None:
        """Copy what is chosen."""
        self.dismiss(self._found[self._at].text)

    def action_copy_leave(self) -> None:
        """Leave."""
        self.dismiss(None)


def paint_copies(found: Sequence[Copy], chosen: int, width: int) -> list[Content]:
    """Return a line for each; of a longer text its first line and how many there are."""
    lines = []
    for number, each in enumerate(found):
        first, *more = each.text.splitlines() or [""]
        said = clean(first, 400) + (f" ({len(more) + 1} lines)" if more else "")
        mark = text(("▸ " if number == chosen else "  ", ACCENT), fit(Content(each.name), NAMES))
        line = cut(text(mark, (said, DIM)), width)
        picked = number == chosen
        lines.append(
            line.truncate(width, pad=True).stylize_before("on $cursor") if picked else line
        )
    return lines

"""What of a run can be copied, and how it gets to the clipboard, through tmux and ssh."""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

from textual.binding import BindingType
from textual.content import Content

from cockpit.model.report import RunReport
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub
from screens.dialog import ListDialog
from screens.keys import bindings
from widgets.painting.line import DIM, chosen_row, fit, text
from widgets.scrolled import Row

MOST: Final = 74_000
"""Characters of base64 that terminals still take in one sequence."""
COPIED: Final = "copied.txt"
"""The file, in the state folder, in which the newest copy lies."""
PIECE: Final = 240
"""Characters of one piece: screen(1) drops a longer string of the terminal's own."""
DEADLINE: Final = 2.0


def identity(report: RunReport) -> str:
    """Return what names a run: its name, job, W&B run, newest checkpoint, next action."""
    tracker = report.facets.tracker.value
    lines = [f"run {report.name}: {report.verdict.value}"]
    if job_id := _job_id(report):
        lines.append(f"job {job_id}")
    if tracker is not None and tracker.id:
        place = "/".join(part for part in (tracker.entity, tracker.project, tracker.id) if part)
        lines.append(f"wandb {tracker.url or place}")
    pick = report.facets.checkpoints.value
    if pick is not None and pick.relaunch_from is not None:
        lines.append(f"checkpoint {pick.relaunch_from.path}")
    return scrub("\n".join([*lines, f"next {report.next_action}"]))


async def copy_text(text: str, write: Callable[[str], object], file: Path) -> str:
    """Copy ``text``; return which way it went and how to fetch it.

    ``write`` sends a sequence to the terminal. tmux drops a bare OSC 52 by default, so inside it
    tmux itself is asked. Whether a terminal has taken a sequence nobody tells: it lies in ``file``
    (for its owner only) in any case.
    """
    kept = _kept(text, file)
    if os.environ.get("TMUX") and (way := await _through_tmux(text)):
        return f"{way}; {kept}"
    code = base64.b64encode(text.encode()).decode()
    if len(code) > MOST:
        return f"too long for the terminal's clipboard; {kept}"
    write(sequence(code, os.environ))
    return f"copied by OSC 52; {kept}"


async def _through_tmux(text: str) -> str:
    """Return how tmux took it; before 3.2 it keeps it, and passes nothing on."""
    for more, way in (("-w", "copied by tmux"), ("", "in tmux's buffer (prefix ])")):
        words = ["tmux", "load-buffer", *filter(None, [more]), "-"]
        asked = await run_command(words, deadline=DEADLINE, stdin=text.encode())
        if asked.rc == 0:
            return way
    return ""


def sequence(code: str, variables: Mapping[str, str]) -> str:
    """Return OSC 52 for what is base64 already; past screen(1) in pieces that it lets through."""
    whole = f"\x1b]52;c;{code}\x07"
    if not variables.get("STY"):
        return whole
    pieces = (whole[at : at + PIECE] for at in range(0, len(whole), PIECE))
    return "".join(f"\x1bP{piece}\x1b\\" for piece in pieces)


def _kept(text: str, file: Path) -> str:
    """Write the file anew, for its owner only; return how to fetch it."""
    home = Path.home()
    shown = f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileNotFoundError):
            file.unlink()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text + "\n")
    except OSError as error:
        return f"no file: {(error.strerror or 'cannot be written').lower()}"
    return f"else: cat {clean(shown)}"


NAMES = 16
"""Columns of the names of what can be copied."""


class Copy(NamedTuple):
    """Something that can be copied: what it is called, and the text."""

    name: str
    text: str


def copies(report: RunReport) -> list[Copy]:
    """Return what of a run can be copied, what is wanted most first; secrets are masked."""
    found = [Copy("summary", identity(report)), *_names_of(report), *_words_of(report)]
    return [Copy(each.name, scrub(each.text)) for each in found if each.text]


def _job_id(report: RunReport) -> str:
    job, spec = report.facets.job.value, report.spec.job
    return (job.id if job else None) or (spec.id if spec else None) or ""


def _names_of(report: RunReport) -> Iterator[Copy]:
    """Yield what the run is called, here and elsewhere."""
    tracker = report.facets.tracker.value
    yield Copy("run", report.name)
    yield Copy("job id", _job_id(report))
    if tracker is not None and tracker.id:
        yield Copy("W&B run", tracker.url or tracker.id)
    checkpoints = report.facets.checkpoints.value
    if checkpoints is not None and checkpoints.relaunch_from is not None:
        yield Copy("checkpoint", str(checkpoints.relaunch_from.path))
    log = report.facets.log.value
    yield Copy("log file", str(log.path) if log and log.path else "")


def _words_of(report: RunReport) -> Iterator[Copy]:
    """Yield what is wrong, what to do, and the commands for it."""
    for place, alert in enumerate(report.alerts[:3], 1):
        lines = [alert.title, *(each.text for each in alert.evidence), f"next: {alert.next_action}"]
        yield Copy(f"alert {place}", "\n".join(lines))
    yield Copy("next action", report.next_action)
    log = report.facets.log.value
    yield Copy("last log line", log.lines[-1].plain if log and log.lines else "")
    path = report.spec.resubmit
    if path is not None:
        yield Copy("resubmit", path if isinstance(path, str) else shlex.join(path))
    yield Copy("check command", f"cockpit check {shlex.quote(report.name)}")


class CopyScreen(ListDialog[str | None]):
    """Returns the text that was chosen."""

    SCOPE = "copying"
    BINDINGS: ClassVar[list[BindingType]] = bindings("copying", "list")

    def __init__(self, run: str, found: Sequence[Copy]) -> None:
        super().__init__()
        self.heading = f"copy · {run}"
        self._found = {each.name: each for each in found}

    def rows(self) -> list[Row]:
        """Return what can be copied; of a longer text its first line and how many there are."""

        def paint(each: Copy, width: int, chosen: bool) -> list[Content]:
            first, *more = each.text.splitlines() or [""]
            said = clean(first, 400) + (f" ({len(more) + 1} lines)" if more else "")
            return [chosen_row(text(fit(Content(each.name), NAMES), (said, DIM)), width, chosen)]

        return [Row(name, partial(paint, each)) for name, each in self._found.items()]

    def action_copy_take(self) -> None:
        """Copy what is chosen."""
        self.dismiss(self._found[self.chosen].text)

"""Keys of the log tab and of the charts tab, and what the charts ask of the engine."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.app import SuspendNotSupported
from textual.widgets import Input
from textual.worker import Worker

from cockpit.model.base import SafeText
from cockpit.model.curve import USUAL
from cockpit.model.report import RunReport
from cockpit.model.wording import percent
from cockpit.runtime.offload import offload
from screens.base import ActingScreen, Work, spawn
from screens.dialog import Prompt
from screens.log_reader import HOW, LogReader
from screens.ports import Cockpit
from widgets.metric_charts import LossChart, MetricCharts
from widgets.painting.line import foreign

if TYPE_CHECKING:
    from screens.run_log import LogTab
    from widgets.log_view import LogView


DEADLINE: Final = 20.0
PAGER: Final = "less"
Shown = Callable[[SafeText], str]
"""Says how a line may be shown."""


def place_of(typed: str, run: str) -> Path:
    """Return the file that a person means: by default one named by the run, in this folder."""
    name = "".join(each if each.isalnum() or each in "-_." else "-" for each in run).strip(".")
    path = Path(typed.strip() or f"{name or 'run'}-log.txt").expanduser()
    return path.absolute() if typed.strip() else path


async def all_lines(reader: LogReader) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield the lines of a log as it is shown, page by page, and which share of it that was.

    What is written after the first page is not waited for. Raises as a reader does.
    """
    at, end = reader.floor, 0
    while True:
        page = await reader.more(at, back=False)
        end = end or page.size
        yield page.lines, min(1.0, page.end / max(1, end))
        if page.end <= at or page.end >= end:
            return
        at = page.end


async def just(lines: Sequence[SafeText]) -> AsyncIterator[tuple[Sequence[SafeText], float]]:
    """Yield these lines, as ``all_lines`` does."""
    yield lines, 1.0


async def save(
    path: Path,
    lines: AsyncIterator[tuple[Sequence[SafeText], float]],
    shown: Shown,
    tell: Callable[[float], None],
) -> int:
    """Write lines into a new file that only its owner can read; return how many.

    ``tell`` is given the share that is done. Raises ``OSError``, ``TimeoutError``.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = await offload(os.open, path, flags, 0o600, deadline=DEADLINE)
    count = 0
    try:
        async for part, share in lines:
            text = "".join(f"{shown(line)}\n" for line in part).encode()
            await offload(_write, file, text, deadline=DEADLINE)
            count += len(part)
            tell(share)
    except BaseException:
        os.unlink(path)  # noqa: PTH108 - at once: what ends this may be the app's end
        raise
    finally:
        os.close(file)
    return count


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def page_through(lines: Sequence[SafeText], shown: Shown, at: int) -> str | None:
    """Show lines in ``$PAGER`` from the one of number ``at`` (0: the first) on; it has the screen.

    Return why not, in one line, if it could not be begun.
    """
    words = shlex.split(os.environ.get("PAGER") or PAGER) or [PAGER]
    if Path(words[0]).name in ("less", "more", "most"):
        words.append(f"+{at + 1}")
    with tempfile.NamedTemporaryFile("w", suffix=".log", encoding="utf-8") as file:
        file.writelines(f"{shown(line)}\n" for line in lines)
        file.flush()
        try:
            subprocess.run([*words, file.name], check=False)
        except OSError as error:
            return f"{words[0]} cannot be run: {(error.strerror or str(error)).lower()}"
    return None


LABELS: Final = {
    "search": "search the log: words, or /a regular expression/   enter find · esc cancel",
    "goto": f"go to {HOW}",
    "save": "save the whole log as it is shown to this file   enter save · esc cancel",
    "save_shown": "save the lines on the screen to this file   enter save · esc cancel",
}
"""What a line typed here is for."""


class LogKeys(ActingScreen):
    """A screen with a log tab: ``log_view``, and ``log_tab`` between it and the file."""

    log_tab: LogTab
    log_view: LogView
    _asking = "search"
    _saving: Worker[None] | None = None

    def go(self, tab: str) -> None:
        """Show a tab."""
        raise NotImplementedError

    def _say(self, words: str | None) -> None:
        if words:
            self.cockpit.say(words)

    def action_follow(self) -> None:
        """Follow the end of the log, or hold still."""
        self.go("log")
        self.log_tab.follow()

    def action_sideways(self, direction: int) -> None:
        """Show what stands further right, or left, of the log."""
        self.log_view.sideways(direction)

    def action_wrap(self) -> None:
        """Wrap long lines, or cut them."""
        self.go("log")
        self.log_view.toggle_wrap()

    def action_sift(self) -> None:
        """Show only warnings and errors, or all lines again."""
        self.go("log")
        self.log_tab.sift()

    def action_this_job(self) -> None:
        """Show only the present job's lines, or those of all jobs again."""
        self.go("log")
        self._say(self.log_tab.this_job())

    def action_bookmark(self) -> None:
        """Keep the line at the cursor, or forget it."""
        self.go("log")
        self._say(self.log_tab.bookmark())

    def action_next_bookmark(self) -> None:
        """Go to the next bookmark."""
        self.go("log")
        self._say(self.log_tab.next_bookmark())

    def action_match(self, back: bool) -> None:
        """Go to the next match below, or above."""
        self.log_tab.step(back)

    def action_ask(self, purpose: str) -> None:
        """Ask for a line: what to search for, where to go, where to save."""
        self.go("log")
        self._asking = purpose
        prompt = self.query_one(Prompt)
        prompt.placeholder = LABELS[purpose]
        if purpose.startswith("save"):
            self.log_view.say(LABELS[purpose])
        prompt.ask(str(place_of("", self.selected or "")) if purpose.startswith("save") else "")

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self.close_prompt()
        if self._asking == "search":
            self.log_tab.search(event.value)
        elif self._asking == "goto":
            self._say(self.log_tab.go_to(event.value, self.cockpit.now()))
        else:
            write = partial(self._write, place_of(event.value, self.selected or ""), self._asking)
            self._saving = spawn(self, write, group="save")

    def close_prompt(self) -> None:
        """Take the line away again."""
        self.query_one(Prompt).close()
        if self._asking.startswith("save"):
            self.log_view.say("")

    def stop_saving(self) -> bool:
        """End a save that is under way; return whether there was one."""
        if self._saving is None or self._saving.is_finished:
            return False
        self._saving.cancel()
        self.log_view.say("save stopped; nothing is left of it")
        return True

    def _shown(self, line: SafeText) -> str:
        return self.log_view.kept(foreign(line)).plain

    async def _write(self, path: Path, what: str) -> None:
        view, reader = self.log_view, self.log_tab.reader
        held = view.held[slice(*view.sight)]

        if what == "save" and reader is None:
            view.say("only the last lines are available; save the lines on the screen")
            return
        whole = what == "save" and reader is not None
        lines = all_lines(reader) if whole and reader is not None else just(held)

        def tell(share: float) -> None:
            view.say(f"saving, {percent(share)} (esc stops)")

        try:
            count = await save(path, lines, self._shown, tell)
        except FileExistsError:
            view.say("")
            self.cockpit.warn(f"{path} is there already; nothing was written: choose another name")
        except (OSError, TimeoutError) as error:
            view.say("")
            why = (error.strerror if isinstance(error, OSError) else None) or str(error)
            self.cockpit.warn(f"not saved to {path}: {why.lower() or 'no answer in time'}")
        else:
            view.say("")
            self.cockpit.warn(f"saved {count:,} lines to {path}, masked as shown")

    def action_pager(self) -> None:
        """Show the lines that are held in $PAGER, from the cursor on; the app waits."""
        self.go("log")
        view = self.log_view
        try:
            with self.app.suspend():
                said = page_through(list(view.held), self._shown, view.sight[0])
        except SuspendNotSupported:
            said = "this terminal cannot be handed to a pager"
        self._say(said)


PROMPT: Final = "one or two metrics by a few letters: loss, grad   enter show · esc cancel"
OFFERED: Final = 12


class ChartsTab:
    """Steers the charts of one run: keys in, questions out."""

    def __init__(
        self, view: MetricCharts, spawn: Callable[[Work], Worker[Any]], cockpit: Cockpit, run: str
    ) -> None:
        self._view = view
        self._spawn = spawn
        self._cockpit = cockpit
        self._run = run
        self._report: RunReport | None = None
        self._reads = False
        self._stands: object = None
        self.choosing = False
        """True while a name of a metric is typed."""

    def show(self, report: RunReport) -> None:
        """Show a run as it is known now, and ask for what was logged since."""
        self._report = report
        self._view.show(report, self._cockpit.now())
        self.ask()

    def ask(self) -> None:
        """Ask for what is shown, unless that is known already."""
        if not self._reads and self._standing() != self._stands:
            self._reads = True
            self._spawn(self._read)

    def _standing(self) -> object:
        """Return what an answer depends on: what is shown, and how far the run is."""
        tracker = None if self._report is None else self._report.facets.tracker.value
        far = None if tracker is None else (tracker.step, tracker.last_step_at, tracker.file_mtime)
        return self._view.metrics, self._view.span, far

    async def _read(self) -> None:
        """Ask until all is read: each answer brings a turn's worth of the record."""
        far = -1.0
        try:
            while self._view.display:
                stands, metrics = self._standing(), self._view.metrics
                try:
                    answer = await self._cockpit.curves.curves(self._run, metrics, self._view.span)
                except (OSError, ValueError) as error:
                    self._cockpit.say(f"metrics cannot be read now: {error}")
                    self._stands = stands
                    return
                self._view.take(answer.names, metrics, answer.curves)
                read = sum(each.share for each in answer.curves)
                same = stands == self._standing()
                if same and (read >= len(metrics) or read <= far):
                    self._stands = stands if read >= len(metrics) else None
                    return
                far = read if same else -1.0
        finally:
            self._reads = False

    def change(self, change: Callable[[], None]) -> None:
        """Do what changes the look, and ask for what is shown then."""
        change()
        self.ask()

    def turn(self, metrics: tuple[str, ...]) -> None:
        """Show these metrics."""
        self.change(lambda: self._view.turn(self._view.look._replace(metrics=metrics)))

    def typed(self, words: str) -> None:
        """Show what is meant by what is typed so far."""
        if self.choosing:
            last = words.rpartition(",")[2]
            self._view.offer(metrics_like(last, self._names())[:OFFERED])

    def choose(self, words: str) -> None:
        """Show the metrics that are meant; say which name nothing has."""
        self.leave()
        wanted = [each.strip() for each in words.split(",") if each.strip()][:2]
        meant = [(each, metrics_like(each, self._names())) for each in wanted]
        unknown = [each for each, names in meant if not names]
        if unknown:
            self._cockpit.say(f"no metric has a name like {unknown[0]}")
        chosen = tuple(dict.fromkeys(names[0] for _, names in meant if names))
        if chosen:
            self.turn(chosen)

    def leave(self) -> None:
        """End the choice of a name."""
        self.choosing = False
        self._view.offer(None)

    def _names(self) -> Sequence[str]:
        return tuple(dict.fromkeys((*USUAL, *self._view.names)))


def metrics_like(typed: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that hold these letters in their order, what fits best first."""
    wanted = "".join(typed.lower().split())
    ranked = [(_rank(wanted, each.lower().replace(" ", "")), each) for each in names]
    fitting = [(rank, len(each), each) for rank, each in ranked if rank is not None]
    return tuple(each for _, _, each in sorted(fitting))


def _rank(wanted: str, name: str) -> int | None:
    """Return 0 for the name itself, more for what fits less; ``None`` where it does not."""
    letters = iter(name)
    in_order = all(each in letters for each in wanted)
    begins = name.startswith(wanted) or f"/{wanted}" in name
    fits = (name == wanted, begins, wanted in name, in_order)
    return fits.index(True) if any(fits) else None


class ChartKeys(LogKeys):
    """A screen with a charts tab: ``charts``, and ``charts_tab`` between them and the engine.

    ``small_chart`` stands beside the other tabs.
    """

    charts: MetricCharts
    charts_tab: ChartsTab
    small_chart: LossChart

    def action_sideways(self, direction: int) -> None:
        """Move the cursor of the charts; elsewhere scroll the log."""
        if self.charts.display:
            self.charts_tab.change(lambda: self.charts.move(direction))
        else:
            super().action_sideways(direction)

    def action_log_axis(self) -> None:
        """Change the charts' axis of values."""
        self.charts_tab.change(self.charts.toggle_log)
        self.small_chart.toggle_log()

    def action_zoom(self) -> None:
        """Show a smaller part of the run."""
        self.charts_tab.change(self.charts.zoom)
        self.small_chart.zoom()

    def action_metric(self) -> None:
        """Ask for a metric by its name."""
        self.go("charts")
        self.charts_tab.choosing = True
        prompt = self.query_one(Prompt)
        prompt.placeholder = PROMPT
        prompt.ask()
        self.charts_tab.typed("")

    def action_next_metric(self) -> None:
        """Show the next usual metric."""
        self.go("charts")
        first = self.charts.look.metrics[0]
        at = USUAL.index(first) + 1 if first in USUAL else 0
        self.charts_tab.turn((USUAL[at % len(USUAL)],))

    def action_two_metrics(self) -> None:
        """Show a second metric below the first, or the first alone."""
        self.go("charts")
        first, *others = self.charts.look.metrics
        second = next(each for each in USUAL if each != first)
        self.charts_tab.turn((first,) if others else (first, second))

    def action_time_axis(self) -> None:
        """Change between steps and times."""
        self.go("charts")
        self.charts_tab.change(self.charts.toggle_time)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self.charts_tab.typed(event.value)

    @on(Input.Submitted)
    def _chosen(self, event: Input.Submitted) -> None:
        if self.charts_tab.choosing:
            event.prevent_default()  # it is not for the log
            self.close_prompt()
            self.charts_tab.choose(event.value)

    def close_prompt(self) -> None:
        """Take the line away again, and what it offered."""
        self.charts_tab.leave()
        super().close_prompt()

    @on(MetricCharts.Resized)
    def _resized(self) -> None:
        if self.charts.display:
            self.charts_tab.ask()

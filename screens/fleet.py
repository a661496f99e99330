"""The fleet: every run, the one that needs a person first; filtered, grouped, sorted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType

from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Phase
from cockpit.model.report import GROUPS, SORTS, URGENCY, RunReport, Verdict, View
from screens.base import ActingScreen
from screens.keys import bindings
from screens.ports import Cockpit
from widgets.fleet_header import FleetHeader, KeyLine
from widgets.painting.facts import unread
from widgets.painting.panel import Groups, Tiling, needs_room, stretches, tiling
from widgets.run_list import PanelGrid, RunClicked, RunList

if TYPE_CHECKING:
    from textual.widgets import Input

    from screens.dialog import Prompt


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
            names = ", ".join(f"{name}:" for name in _FIELDS if name)
            return Filter(problem=f'no filter "{field}:"; there are {names}')
        if field == "state" and not any(each.startswith(value) for each in STATES):
            return Filter(problem=f'no state "{value}"; there are {", ".join(STATES)}')
        if value:
            terms.append(Term(field, value, bool(found["not"])))
    return Filter(tuple(terms))


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


_NAMED: Final[dict[str, Callable[[RunReport], str]]] = {
    "cluster": cluster_of, "dri": dri_of, "group": group_of,
}  # fmt: skip


def _has_state(report: RunReport, value: str) -> bool:
    job = report.facets.job.value
    states = [report.verdict.value]
    if job is not None:
        states += [job.phase.value, *(["stopped"] if job.stopped is not None else [])]
    return any(each.startswith(value) for each in states)


def _has_text(report: RunReport, value: str) -> bool:
    job, spec = report.facets.job.value, report.spec
    parts = [report.name, report.verdict.value, group_of(report), dri_of(report), spec.tier]
    parts += [job.phase.value] if job is not None else []
    parts += [spec.job.kind, cluster_of(report)] if spec.job is not None else []
    parts += [f"{alert.id} {alert.title}" for alert in report.alerts]
    return value in " ".join(parts).casefold()


_FIELDS: Final[dict[str, Callable[[RunReport, str], bool]]] = {
    "": _has_text,
    "state": _has_state,
    "alert": lambda report, value: any(
        each.id.casefold().startswith(value) or value in each.title.casefold()
        for each in report.alerts
    ),
    "dri": lambda report, value: value in dri_of(report).casefold(),
    "group": lambda report, value: value in group_of(report).casefold(),
    "cluster": lambda report, value: value in cluster_of(report).casefold(),
}


def matching(reports: Iterable[RunReport], view: View) -> list[RunReport]:
    """Return the runs that pass the view's filter, without the finished ones if it hides them."""
    passes = read_filter(view.filter)
    hidden = FINISHED if view.hide_finished else ()
    return [each for each in reports if each.verdict not in hidden and passes(each)]


def ordered(reports: Sequence[RunReport], view: View) -> list[RunReport]:
    """Return the runs in the view's order; by need, favourites follow who needs a person."""

    def need(report: RunReport) -> tuple[int, bool, int, int]:
        """Until it is read a run stands as if well, and then stays."""
        waits = unread(report) and report.verdict is Verdict.UNKNOWN
        place = URGENCY.index(Verdict.HEALTHY if waits else report.verdict)
        worst = max((each.severity.rank for each in report.alerts), default=-1)
        liked = report.name in view.favourites
        return place if needs_room(report) else len(URGENCY), not liked, place, -worst

    def time_left(report: RunReport) -> float:
        left = report.progress.eta_s
        return math.inf if left is None or math.isnan(left) else left

    ways: dict[str, Callable[[RunReport], Any]] = {
        "need": need, "name": lambda each: each.name, "time left": time_left,
    }  # fmt: skip
    return sorted(reports, key=ways.get(view.sort, lambda each: 0))


def arranged(reports: Sequence[RunReport], view: View) -> Shown:
    """Return what a view shows; groups stand in the order of their first run."""
    runs = ordered(matching(reports, view), view)
    named = _NAMED.get(view.group)
    if named is None:
        return Shown(runs)
    groups: dict[str, list[RunReport]] = {}
    for each in runs:
        groups.setdefault(named(each), []).append(each)
    said, titles = "owner" if view.group == "dri" else view.group, []
    for name, found in groups.items():
        count = "1 run" if len(found) == 1 else f"{len(found)} runs"
        titles.append((f"{f'{said} {name}' if name else f'no {said}'} · {count}", len(found)))
    return Shown([each for found in groups.values() for each in found], tuple(titles))


HELD: Final = 60.0
"""Seconds for which each run keeps its place and its size, unless one turns critical."""


class Standing:
    """Where the runs stand: each keeps its place for a while, so that the eye finds it again."""

    def __init__(self) -> None:
        self.version = 0
        """Another number whenever a run got another place or size."""
        self.waits = False
        """Whether the runs stand as before because the minute is not over yet."""
        self._shown = Shown([])
        self._sizes: tuple[bool, ...] = ()
        self._view: View | None = None
        self._critical: frozenset[str] = frozenset()
        self._unread = 0
        self._since = 0.0

    def due(self, now: float) -> bool:
        """Return whether the runs may stand otherwise by now, without any news."""
        return self.waits and not 0 <= now - self._since < HELD

    def of(
        self, fresh: Shown, view: View, now: float, pinned: str | None, panels: bool = False
    ) -> Shown:
        """Return the runs of ``fresh`` in the order in which they stand; ``pinned`` stays put.

        As one of ``panels`` it does so only where that needs no more rows of panels.

        They are sorted anew when another view or other runs are asked for, when a run turns
        critical, when the last of them is read for the first time, and once a minute has passed
        since they were.
        """
        named = {each.name: each for each in fresh.runs}
        held = [each.name for each in self._shown.runs]
        critical = frozenset(each.name for each in fresh.runs if each.verdict is Verdict.CRITICAL)
        waiting = sum(map(unread, fresh.runs))
        same = view == self._view and named.keys() == set(held)
        worse, read = critical - self._critical, self._unread and not waiting
        self._view, self._critical, self._unread = view, critical, waiting
        self.waits = same and not worse and not read and 0 <= now - self._since < HELD
        if self.waits:
            self._shown = Shown([named[name] for name in held], self._shown.groups)
            return self._shown
        runs = list(fresh.runs)
        if same and pinned in named and pinned not in worse and not fresh.groups:
            runs.remove(named[pinned])
            runs.insert(held.index(pinned), named[pinned])
            if panels and stretches(runs) > stretches(fresh.runs):
                runs = list(fresh.runs)
        sizes = tuple(map(needs_room, runs))
        if not same or [each.name for each in runs] != held or sizes != self._sizes:
            self.version, self._since, self._sizes = self.version + 1, now, sizes
        self._shown = Shown(runs, fresh.groups)
        return self._shown


AROUND = 2
"""Lines that header and footer take."""


class FleetScreen(ActingScreen):
    """Panels where all fit, else a list; what is selected is a run that stands there, always.

    It follows the run, not the place; where the run leaves the view its neighbour takes over.
    """

    SCOPES = ("fleet", "act", "everywhere")
    BINDINGS: ClassVar[list[BindingType]] = bindings("fleet", "act")

    def __init__(self, cockpit: Cockpit) -> None:
        super().__init__(cockpit)
        self._chosen: str | None = None
        self._before_filter: str | None = None
        self._order: list[str] = []
        self._place = 0
        self._in_sight = False
        self._touched = False
        self._left = cockpit.view
        self._view = cockpit.view
        self._prompt: Prompt | None = None
        self._tiling: Tiling | None = None
        self._tiled_for: object = None
        self._standing = Standing()
        self._pressed_at = float("-inf")
        self._about: tuple[Sequence[RunReport], View] = ((), View.model_construct())
        self._shown = Shown([])
        self._names: list[str] = []
        self._urgent: tuple[str, ...] = ()

    def compose(self) -> ComposeResult:
        """Header, panels or list, footer or filter; the selected run enlarged where others look."""
        if self.cockpit.presenting:
            from widgets.run_header import BigFigures  # few sessions do

            yield BigFigures()
        yield FleetHeader()
        tiles = self._tiles(self.shown, self._shown.groups, len(self.cockpit.actions.news))
        yield PanelGrid(len(self.shown) if tiles else 0)
        yield RunList()
        yield KeyLine()

    @property
    def shown(self) -> list[RunReport]:
        """The runs as they stand on the screen, in order; a key alone sorts nothing anew."""
        about, now = (self.cockpit.reports, self._view), self.cockpit.now()
        if about != self._about or self._standing.due(now):
            self._about = about
            pinned = self._chosen if 0 <= now - self._pressed_at < HELD else None
            panels = self._tiling is not None
            fresh = arranged(*about)
            self._shown = self._standing.of(fresh, self._view, now, pinned, panels)
            runs = self._shown.runs
            self._names = [each.name for each in runs]
            self._urgent = tuple(each.name for each in runs if each.verdict is Verdict.CRITICAL)
        return self._shown.runs

    @property
    def selected(self) -> str | None:
        """The selected run; none while no run is in sight."""
        return self._chosen if self._in_sight else None

    @property
    def runs_in_view(self) -> tuple[str, ...]:
        """The runs in sight: all of them as panels, else what the list has room for."""
        if self._tiling is not None:
            return tuple(each.name for each in self.shown)
        return self.query_one(RunList).runs_in_view if self.is_mounted else ()

    def show(self) -> None:
        """Show all runs as they are known now."""
        if not self.is_mounted:
            return
        shown = self.shown
        self._select(shown)
        self._in_sight = bool(shown)
        news = self.cockpit.actions.news
        about = (self._standing.version, self.app.size, self._enlarged, len(news))
        if about != self._tiled_for:
            self._tiled_for = about
            self._tiling = self._tiles(shown, self._shown.groups, len(news))
        if self.cockpit.presenting:
            self.show_figures(self._enlarged > 0, self.cockpit.report_of(self.selected))
        grid, listed = self.query_one(PanelGrid), self.query_one(RunList)
        grid.display, listed.display = self._tiling is not None, self._tiling is None
        now, liked = self.cockpit.now(), frozenset(self._view.favourites)
        if self._tiling is not None:
            grid.show(shown, now, self._place, self._tiling, liked)
        else:
            version = self._standing.version
            listed.show(
                shown, now, self._place, self._nothing(), self._shown.groups, liked, version
            )
        watch = self.cockpit.watch_state._replace(view=self._view)
        self.query_one(FleetHeader).show(self.cockpit.reports, watch, shown, news)
        self.show_keys()
        self._keep(shown)

    def aged(self, now: float) -> bool:
        """Return whether an age in a panel may read otherwise by now; of a list always."""
        panels = self._tiling is not None and not self.cockpit.presenting
        return not panels or self.query_one(PanelGrid).aged(now)

    @property
    def _enlarged(self) -> int:
        """The rows that the enlarged figures take: none where nobody looks on, or there is no room.

        What they are made of is loaded only where they may stand: a start waits for none of it.
        """
        if not self.cockpit.presenting:
            return 0
        from screens.run_layout import has_room_above
        from widgets.painting.big import HEIGHT

        return HEIGHT if has_room_above(*self.app.size) else 0

    def _keep(self, shown: Sequence[RunReport]) -> None:
        """Have what is looked at, and how, remembered for the next session."""
        if not shown and not self._touched:
            return  # nothing is known yet
        place = self._chosen if self._touched else self._left.selected
        self.cockpit.keep_view(
            self._view.model_copy(update={"selected": place, "critical": self._urgent})
        )

    def _tiles(self, shown: Sequence[RunReport], groups: Groups, news: int) -> Tiling | None:
        """Return how the panels stand below ``news`` lines of the head; none where not all fit."""
        width, height = self.app.size
        return tiling(shown, groups, width - 2, height - AROUND - self._enlarged - news)

    def _nothing(self) -> tuple[str, str]:
        """Return why there is no run to be seen, and what to do about it."""
        count = len(self.cockpit.reports)
        if not count:
            return "no run in cockpit.toml", "add a [[run]] to it: it is read again by itself"
        keys = self.cockpit.keys
        runs = "the run" if count == 1 else f"all {count} runs"
        if not self._view.filter:
            return "all runs are finished, and hidden", f"{keys.shown('hide')} shows {runs}"
        problem = read_filter(self._view.filter).problem
        also = ", or is finished and hidden" if self._view.hide_finished else ""
        why = problem or f'no run matches "{self._view.filter}"{also}'
        return why, f"{keys.shown('clear')} shows {runs}"

    def footer(self) -> list[tuple[str, str]]:
        """Return the keys that matter here."""
        return self.cockpit.keys.footer("fleet", "act", "everywhere")

    def _select(self, shown: list[RunReport]) -> None:
        """Find the selected run's new place; if it is gone, its nearest neighbour's.

        Until a person has pressed a key it is the one they left, unless another one has become
        critical since: then, or without such, it is the first, the run that needs them most.
        """
        names = self._names
        if not self._touched or not names:
            self._chosen = self._first(shown) if names else self._chosen if self._touched else None
        elif self._chosen not in names:
            self._chosen = self._neighbour(names)
        self._place = names.index(self._chosen) if self._chosen in names else 0
        self._order = names or self._order

    def _first(self, shown: list[RunReport]) -> str:
        """Return the run to begin with."""
        new = any(
            each.verdict is Verdict.CRITICAL and each.name not in self._left.critical
            for each in shown
        )
        left = self._left.selected
        return left if left is not None and left in self._names and not new else shown[0].name

    def _neighbour(self, names: list[str]) -> str:
        """Return the run nearest to where the selected one stood that is still in sight."""
        if self._chosen not in self._order:
            return names[0]
        here = self._order.index(self._chosen)
        near = [*self._order[here + 1 :], *reversed(self._order[:here])]
        return next((each for each in near if each in names), names[0])

    def choose(self, name: str) -> None:
        """Select a run: a person has turned to it, here or on its own screen."""
        self._touched = True
        self._chosen = name
        self._before_filter = None
        self.show()

    def _move(self, steps: int) -> None:
        shown = self.shown
        self._select(shown)
        if shown:
            place = max(0, min(self._place + steps, len(shown) - 1))
            self.choose(shown[place].name)

    def action_row(self, rows: int) -> None:
        """Select the run that many rows below, if there is one."""
        shown = self.shown
        self._select(shown)
        if self._tiling is not None and shown:
            self._move(self._tiling.below(self._place, rows) - self._place)
        elif 0 <= self._place + rows < len(shown):
            self._move(rows)

    def action_step(self, steps: int) -> None:
        """Select the next run, or the one before."""
        self._move(steps)

    def action_turn(self, pages: int) -> None:
        """Select a page further down, or up."""
        page = len(self.shown) if self._tiling is not None else self.query_one(RunList).page
        self._move(pages * page)

    def action_edge(self, end: bool) -> None:
        """Select the first or the last run."""
        self._move(len(self.shown) if end else -len(self.shown))

    def action_open(self) -> None:
        """Open the selected run."""
        if self.selected is not None:
            self._touched = True
            self.cockpit.open_run(self.selected)

    def action_travel(self) -> None:
        """Show the selected run as it was at an earlier time."""
        from screens.past import PastScreen

        if self.selected is None:
            self.cockpit.say(self.NO_RUN)
        else:
            self.app.push_screen(PastScreen(self.cockpit, self.selected))

    def action_happened(self) -> None:
        """Show what happened to all runs."""
        from screens.past import HappenedScreen

        self.app.push_screen(HappenedScreen(self.cockpit))

    def action_sort(self) -> None:
        """Sort in the next way."""
        sort = SORTS[(SORTS.index(self._view.sort) + 1) % len(SORTS)]
        self.cockpit.say(f"sorted by {sort}")
        self._change_view(sort=sort)

    def action_group(self) -> None:
        """Group by the next thing."""
        group = GROUPS[(GROUPS.index(self._view.group) + 1) % len(GROUPS)]
        said = "owner" if group == "dri" else group
        self.cockpit.say(f"grouped by {said}" if group else "not grouped")
        self._change_view(group=group)

    def action_hide(self) -> None:
        """Hide finished runs, or show them again."""
        hide = not self._view.hide_finished
        self.cockpit.say("finished runs are hidden" if hide else "finished runs are shown")
        self._change_view(hide_finished=hide)

    def action_favourite(self) -> None:
        """Make the selected run a favourite, or one like the others again."""
        name = self.selected
        if name is None:
            self.cockpit.say("no run is selected")
            return
        liked = self._view.favourites
        now = tuple(each for each in liked if each != name) if name in liked else (*liked, name)
        self.cockpit.say(f"{name} is {'a favourite' if name in now else 'no longer a favourite'}")
        self._touched = True
        self._change_view(favourites=now)

    def _change_view(self, **changes: object) -> None:
        """Look at the fleet in another way."""
        self._view = self._view.model_copy(update=changes)
        self.show()

    async def action_filter(self) -> None:
        """Ask for filter words."""
        if not self._view.filter:
            self._before_filter = self._chosen
        prompt = await self._made_prompt()
        prompt.ask(self._view.filter)

    async def _made_prompt(self) -> Prompt:
        """Return the line to type in, which no first frame waits for."""
        if self._prompt is None:
            from screens.dialog import Prompt

            asked = "filter: words, state: alert: dri: group: cluster:   enter keep · esc drop"
            self._prompt = Prompt(asked)
            await self.mount(self._prompt, before=self.query_one(KeyLine))
        return self._prompt

    @property
    def _typing(self) -> bool:
        return self._prompt is not None and self._prompt.is_open

    def action_clear(self) -> None:
        """Show all runs again, and select the one from before if nothing was done since."""
        if not self._view.filter:
            self.cockpit.actions.seen()
        self._view = self._view.model_copy(update={"filter": ""})
        self._chosen, self._before_filter = self._before_filter or self._chosen, None
        self._close_prompt()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what stands there so far."""
        if self._typing:
            self._change_view(filter=event.value)

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self._close_prompt()

    def _close_prompt(self) -> None:
        if self._prompt is not None:
            self._prompt.close()
        self.show()

    @on(RunClicked)
    def _clicked(self, event: RunClicked) -> None:
        if event.name == self.selected:
            self.action_open()
        else:
            self.choose(event.name)

    async def on_key(self, event: events.Key) -> None:
        """Hold the selected run from the first key on: whatever it does is meant for that run.

        The cursor keys leave the filter, as one expects of a list.
        """
        self._touched, self._pressed_at = True, self.cockpit.now()
        if self._typing:
            if event.key in ("down", "up"):
                self._close_prompt()
        elif event.key not in self.cockpit.keys.of("clear"):
            self._before_filter = None

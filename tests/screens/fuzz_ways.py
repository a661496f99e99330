"""How each screen is come to, with everything around it that can be pressed or changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from textual.pilot import Pilot
from textual.screen import Screen

from cockpit.app.application import CockpitApp
from cockpit.model.observed import Column, Phase, Tasks, TaskValue
from cockpit.model.place import place_of
from cockpit.model.plan import Request
from cockpit.model.report import RunReport
from screens.acting.editor import EditorScreen
from screens.acting.form import AckScreen, ApproveScreen, FormScreen
from screens.acting.journal import JournalScreen, PointsScreen
from screens.acting.offers import PaletteScreen
from screens.acting.plan import PlanScreen
from screens.copying import CopyScreen
from screens.dialog import LeavingScreen
from screens.fleet import FleetScreen
from screens.help import HelpScreen
from screens.past import HappenedScreen, PastScreen
from screens.run import TABS, RunScreen
from screens.sheet import BacktestScreen, DescribeScreen, HandoffPage, TasksScreen
from screens.welcome import WelcomeScreen
from tests.screens.acting.stand_in_service import APPROVABLE, StandInService, draft, entry
from tests.screens.acting.test_plan import failed
from tests.screens.stand_in import StandIn, StandInApp, StillClock, cockpit
from tests.screens.stand_in_books import StandInBooks
from tests.screens.test_sheet import PAST
from tests.widgets import reports as made
from tests.widgets.test_on_call import ACCOUNT

Come = Callable[[Pilot[Any]], Awaitable[object]]


class Way(NamedTuple):
    """How a person comes to a screen, and on what terminal."""

    screen: type[Screen[Any]]
    come: Come
    size: tuple[int, int] = (120, 40)
    present: bool = False


class FuzzEngine(StandIn):
    """An engine whose run file changes: runs come and go."""

    def __init__(self, runs: Sequence[RunReport]) -> None:
        super().__init__(*runs)
        self.clock = StillClock()

    def reload(self, runs: Sequence[RunReport]) -> None:
        self.runs = list(runs)
        for report in runs:
            for callback in self._told:
                callback(report)


@cache
def reports() -> tuple[RunReport, ...]:
    """Return the runs that come and go; the first is one that much can be done to."""
    first = failed().model_copy(
        update={"goodput": ACCOUNT, "closed": (made.closed("C-11", False),)}
    )
    cause = made.alert("C-06").model_copy(update={"consequences": ("C-05",)})
    alerts = (*first.alerts, cause, made.alert().model_copy(update={"caused_by": "C-06"}))
    first = first.model_copy(update={"alerts": alerts})
    return (first, *(each for each in made.fleet() if each.name != first.name))


def app_on(
    way: Way, folder: Path, runs: Sequence[RunReport] | None = None
) -> tuple[CockpitApp, FuzzEngine]:
    """Return an app that can come this way, and what it is told by; ``folder`` is for its files.

    Without ``runs`` they are ``reports()``, each with a real file as its log.
    """
    first, *others = runs or [_with_log(each, folder) for each in reports()]
    engine = FuzzEngine([_as_array(first) if way.screen is TasksScreen else first, *others])
    if way.screen is WelcomeScreen:
        return CockpitApp(None, None), engine
    service = StandInService(lambda request: draft(request.run, request.action, checks=CHECKS))
    service.entries = {each.name: (entry(each.name),) for each in reports()}
    app = cockpit(engine=engine, service=service, books=StandInBooks(), present=way.present)
    assert isinstance(app, StandInApp)
    app._clock = engine.clock
    engine.pasts.tell(reports()[0])
    app.past = PAST.model_copy(update={"curve": tuple(Column(n, n, 2, 2, 2) for n in range(999))})
    return app, engine


CHECKS: Final = (APPROVABLE,)


def _as_array(report: RunReport) -> RunReport:
    """Return the run as an array of twelve tasks, one of which has failed."""
    phases = (Phase.SUCCEEDED, Phase.FAILED, Phase.RUNNING)
    members = [
        TaskValue(
            id=f"7_{number}", state=phase.value.upper(), phase=phase, started_at=made.NOW - 600,
            ended_at=None if phase is Phase.RUNNING else made.NOW - 60,
            exit_code=1 if phase is Phase.FAILED else None, node=f"node{number}",
        )
        for number, phase in enumerate(phases)
    ]  # fmt: skip
    waiting = TaskValue(id="7_[3-11]", state="PENDING", phase=Phase.WAITING, count=9)
    job = made.job(tasks=Tasks(running=1, total=12, over=2, failed=1), members=(*members, waiting))
    facets = report.facets.model_copy(update={"job": job})
    return report.model_copy(update={"facets": facets})


def _with_log(report: RunReport, folder: Path) -> RunReport:
    """Return a run whose log is a real file."""
    path = folder / f"{abs(hash(report.name))}.log"
    path.write_text("".join(f"step {n}/20000 loss {2 + n % 7 / 10}\n" for n in range(3000)))
    spec = report.spec
    if spec.job is None:
        return report
    job = spec.job.model_copy(update={"log": place_of(str(path))})
    log = made.log("step 2999/20000", path=str(path), size=path.stat().st_size)
    return report.model_copy(
        update={
            "spec": spec.model_copy(update={"job": job}),
            "facets": report.facets.model_copy(update={"log": log}),
        }
    )


def pressed(*keys: str) -> Come:
    """Press keys in one burst."""

    async def come(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        await pilot.press(*keys)

    return come


def shown(make: Callable[[CockpitApp], Screen[Any]]) -> Come:
    """Show a screen as the app does."""

    async def come(pilot: Pilot[Any]) -> None:
        await pilot.pause()
        app = pilot.app
        assert isinstance(app, CockpitApp)
        app.push_screen(make(app))

    return come


def _approving(app: CockpitApp) -> Screen[Any]:
    return ApproveScreen(app, APPROVABLE, "ada", 1)


def _acting(app: CockpitApp) -> Screen[Any]:
    """Return the plan of an action that is being done."""
    name = reports()[0].name
    request = Request(action="relaunch", run=name, operator="ada")
    service = StandInService()
    service.gates = {"submit": asyncio.Event()}
    plan = entry(name).plan
    action = app.actions.running_actions.start(service, request, plan, plan.words, ())  # type: ignore[arg-type]
    return PlanScreen(app, request, action)


WAYS: Final[dict[str, Way]] = {
    "fleet": Way(FleetScreen, pressed()),
    "fleet as a list": Way(FleetScreen, pressed(), (40, 9)),
    "fleet with a filter": Way(FleetScreen, pressed("slash", "r", "u")),
    "fleet, presenting": Way(FleetScreen, pressed(), present=True),
    **{
        f"run {tab}": Way(RunScreen, pressed("enter", str(number)), (160 if number % 2 else 80, 30))
        for number, tab in enumerate(TABS, 1)
    },
    "run, presenting": Way(RunScreen, pressed("enter"), present=True),
    "run searching": Way(RunScreen, pressed("enter", "slash", "l", "enter")),
    "help": Way(HelpScreen, pressed("question_mark")),
    "palette": Way(PaletteScreen, pressed(":")),
    "form": Way(FormScreen, pressed("H")),
    "approval": Way(ApproveScreen, shown(_approving)),
    "plan": Way(PlanScreen, pressed("r")),
    "plan under way": Way(PlanScreen, shown(_acting)),
    "ack": Way(AckScreen, pressed("A")),
    "editor": Way(EditorScreen, pressed("e")),
    "handoff page": Way(HandoffPage, pressed("p")),
    "backtest": Way(BacktestScreen, pressed("enter", "B")),
    "describe": Way(DescribeScreen, pressed("I")),
    "tasks": Way(TasksScreen, pressed("K")),
    "open points": Way(PointsScreen, pressed("W")),
    "journal": Way(JournalScreen, pressed("J")),
    "past": Way(PastScreen, pressed("enter", "5", "P")),
    "past of the fleet": Way(HappenedScreen, pressed("T")),
    "copying": Way(CopyScreen, pressed("y")),
    "leaving": Way(LeavingScreen, shown(lambda app: LeavingScreen(["relaunch run-failed"]))),
    "welcome": Way(WelcomeScreen, pressed()),
}
"""Every screen, as the tests find them in the code; some of them as they can stand."""

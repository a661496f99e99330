"""The plan dialog: nothing is done that a person did not read, and type."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual import events
from textual.content import Content
from textual.pilot import Pilot

from cockpit.actions.core.action import RefuseError
from cockpit.model.plan import Draft, Level, Loss, Outcome, Request, Result
from screens.acting.plan import PlanScreen
from screens.dialog import TextLine
from tests.screens.acting.stand_in_service import (
    APPROVABLE,
    BLOCKED,
    CLEAN,
    StandInService,
    check,
    draft,
    entry,
)
from tests.screens.stand_in import SIZES, StandIn, cockpit, focus_of, screen_of, text_of, typed
from tests.widgets import reports as made

WORDS = "relaunch run-failed"
KEYS = [*"relaunch", "space", *"run-failed"]


def failed() -> Any:
    report = made.failed()
    spec = report.spec.model_copy(update={"resubmit": ("python", "train.py")})
    return report.model_copy(update={"spec": spec})


async def until(pilot: Pilot[Any], true: Callable[[], bool]) -> None:
    for _ in range(250):
        if true():
            return
        await pilot.pause(0.02)
    raise AssertionError(f"never true; on the screen:\n{text_of(pilot.app)}")


@asynccontextmanager
async def planned(
    service: StandInService, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[Pilot[Any]]:
    """Open the plan of a relaunch, and wait until it can be read."""
    app = cockpit(engine=StandIn(failed()), service=service, **options)
    async with app.run_test(size=size) as pilot:
        await pilot.press("r")
        marks = ("plan ", "blocking", "Type  ")
        await until(pilot, lambda: any(mark in text_of(app) for mark in marks))
        await pilot.pause(0.4)
        yield pilot


async def confirm(pilot: Pilot[Any]) -> None:
    await typed(pilot, WORDS)
    await pilot.pause(0.2)
    await pilot.press("enter")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ascii", [False, True])
@pytest.mark.parametrize("theme", ["cockpit-dark", "cockpit-light"])
async def test_the_question_is_in_sight_at_every_size(
    size: tuple[int, int],
    ascii: bool,  # noqa: A002
    theme: str,
) -> None:
    async with planned(StandInService(), size, ascii=ascii) as pilot:
        pilot.app.theme = theme
        await pilot.pause()
        shown = text_of(pilot.app)
        assert f"Type  {WORDS}" in shown
        assert "tree dirty" in shown
        assert "[observed]" not in shown, "what a check rests on stands in the plan in full"
        assert "leaves alone" in shown and "run-failed-eval" in shown
        assert "12 steps since" in shown
        assert pilot.app.focused is not None
        if ascii:
            assert "▸" not in shown and "│" not in shown


@pytest.mark.parametrize("run", ["run-failed", "a-run-with-a-name-that-fills-a-line-of-its-own"])
async def test_a_small_terminal_shows_the_run_and_the_words_whole(run: str) -> None:
    asked = f"relaunch {run}"
    service = StandInService(lambda request: draft(request.run, words=asked))
    async with planned(service, (40, 12)) as pilot:
        shown = text_of(pilot.app)
        assert "relaunch run-failed" in shown
        told = "".join(shown.split("Type  ")[1].split("▸")[0].replace("│", "").split())
        assert told.startswith(asked.replace(" ", ""))
        await typed(pilot, asked)
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: bool(service.acted))


async def test_a_dialog_follows_the_size_of_the_terminal() -> None:
    async with planned(StandInService(), (80, 24)) as pilot:
        await pilot.press(*KEYS[:4])
        for size in ((200, 50), (40, 12), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
            lines = text_of(pilot.app).splitlines()
            at = next(n for n, line in enumerate(lines) if "Type  relaunch" in line)
            assert "▸ rela" in lines[at + 1]
            assert "15 more" in lines[at + 2]


async def test_the_words_and_then_enter_act() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "✓ DONE" in text_of(pilot.app))
        shown = text_of(pilot.app)
        plan = screen_of(pilot.app, PlanScreen).plan
        assert plan is not None
        assert service.acted == [(service.planned[0][0], WORDS, plan.plan_id)]
        assert "job 4711" in shown and "recorded" in shown
        assert "first check at" in shown and "then every 10m" in shown
        await pilot.pause(0.4)
        await pilot.press("enter")
        assert not isinstance(pilot.app.screen, PlanScreen)


async def test_enter_does_nothing_until_the_words_match() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        await pilot.press("enter")
        await typed(pilot, WORDS[:-1])
        await pilot.pause(0.2)
        await pilot.press("enter")
        assert "1 more" in text_of(pilot.app)
        await pilot.press("x")
        await pilot.pause(0.2)
        await pilot.press("enter")
        assert "does not match: the wrong letters are marked" in text_of(pilot.app)
        assert service.acted == []


async def test_a_burst_does_not_confirm_and_a_second_enter_does() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        names = {"-": "minus", "space": "space", "enter": "enter"}
        for key in (*KEYS, "enter", "enter"):  # read at one time, however busy this machine is
            character = " " if key == "space" else key if len(key) == 1 else None
            pilot.app.post_message(events.Key(names.get(key, key), character))
        await until(pilot, lambda: "press enter again" in text_of(pilot.app))
        assert service.acted == []
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: len(service.acted) == 1)


async def test_type_ahead_from_before_the_plan_is_dropped() -> None:
    service = StandInService()
    service.plan_gate = asyncio.Event()
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("r")
        await typed(pilot, WORDS)
        await pilot.press("enter", "enter")
        service.plan_gate.set()
        await until(pilot, lambda: "Type  " in text_of(app))
        await pilot.pause(0.5)
        assert focus_of(app, TextLine).value == ""
        await pilot.press("enter")
        assert service.acted == []


async def test_a_paste_is_refused() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        focus_of(pilot.app, TextLine).post_message(events.Paste(f"{WORDS}\n"))
        await pilot.pause(0.2)
        assert "paste is ignored" in text_of(pilot.app)
        assert focus_of(pilot.app, TextLine).value == ""
        await pilot.press("enter")
        assert service.acted == []


async def test_a_block_leaves_reasons_and_no_input() -> None:
    service = StandInService(lambda request: draft(request.run, checks=(*CLEAN, BLOCKED)))
    async with planned(service, (80, 24)) as pilot:
        shown = text_of(pilot.app)
        assert "Type  " not in shown
        assert shown.index("■ BLOCK") < shown.index("! WARN") < shown.index("runs  ")
        assert "two live jobs write to one output root" in shown
        assert "blocked: this cannot be run" in shown
        assert pilot.app.focused is None
        await typed(pilot, WORDS)
        await pilot.press("enter", "f2")
        assert "nothing to approve here" not in shown
        assert service.acted == []
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, PlanScreen)


async def test_a_block_is_approved_by_name_and_reason() -> None:
    service = StandInService(lambda request: draft(request.run, checks=(*CLEAN, APPROVABLE)))
    async with planned(service) as pilot:
        await pilot.press("f2")
        await pilot.pause(0.1)
        assert "approve this check" in text_of(pilot.app)
        await pilot.press("enter")
        assert "reason is required" in text_of(pilot.app)
        await typed(pilot, "warmup")
        await pilot.press("enter")
        await until(pilot, lambda: "approved by ada: warmup" in text_of(pilot.app))
        await pilot.pause(0.4)
        await confirm(pilot)
        await until(pilot, lambda: "✓ DONE" in text_of(pilot.app))
        assert [(a.check, a.by, a.reason) for a in service.planned[-1][1]] == [
            ("C-09", "ada", "warmup")
        ]


async def test_a_checkpoint_first_is_asked_for_and_taken_back() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        await pilot.press("f3")
        await until(pilot, lambda: "do not save first" in text_of(pilot.app))
        assert service.planned[-1][0].params == {"save-first": "yes"}
        await pilot.press("f3")
        await until(pilot, lambda: len(service.planned) == 3)
        assert service.planned[-1][0].params == {}


async def test_what_starts_by_itself_is_cancelled_too_or_not_and_both_wishes_hold() -> None:
    service = StandInService(lambda request: draft(request.run, can_cancel_next=True))
    async with planned(service) as pilot:
        await until(pilot, lambda: "cancel the next one too" in text_of(pilot.app))
        await pilot.press("f4")
        await until(pilot, lambda: "leave the next one" in text_of(pilot.app))
        assert service.planned[-1][0].params == {"successors": "yes"}
        await pilot.press("f3")
        await until(pilot, lambda: len(service.planned) == 3)
        assert service.planned[-1][0].params == {"successors": "yes", "save-first": "yes"}
        await pilot.press("f4")
        await until(pilot, lambda: len(service.planned) == 4)
        assert service.planned[-1][0].params == {"save-first": "yes"}


async def test_where_nothing_starts_by_itself_that_wish_is_not_offered() -> None:
    service = StandInService()
    async with planned(service) as pilot:
        assert "next one" not in text_of(pilot.app)
        await pilot.press("f4")
        await until(pilot, lambda: "nothing starts by itself" in text_of(pilot.app))
        assert len(service.planned) == 1


async def test_a_plan_that_has_changed_is_shown_anew_with_an_empty_line() -> None:
    service = StandInService()
    said = "changed since it was shown: C-17: picks step-8000; plan again"

    def refuse(request: Request, plan_id: str) -> Result:
        service.make = lambda request: draft(
            request.run, checks=(*CLEAN[:2], check("C-17", text="picks step-8000"), CLEAN[3])
        )
        return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message=said)

    service.result = refuse
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "changed picks step-8000" in text_of(pilot.app))
        shown = text_of(pilot.app)
        assert "nothing was done: changed since it was shown" in shown
        assert shown.count("changed ") == 2
        assert "type the words above exactly" in shown
        assert focus_of(pilot.app, TextLine).value == ""


async def test_who_did_it_meanwhile_is_told_by_name() -> None:
    service = StandInService()
    service.entries["run-failed"] = (entry("run-failed", 1, Outcome.DONE),)

    def refuse(request: Request, plan_id: str) -> Result:
        other = entry("run-failed", 2, Outcome.DONE, operator="bea", begun_at=made.NOW + 1)
        service.entries["run-failed"] += (other,)
        return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message="changed since")

    service.result = refuse
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "Meanwhile bea began relaunch at" in text_of(pilot.app))
        assert "done" in text_of(pilot.app)


async def test_a_plan_that_now_is_blocked_asks_no_more() -> None:
    service = StandInService()

    def refuse(request: Request, plan_id: str) -> Result:
        service.make = lambda request: draft(request.run, checks=(*CLEAN, BLOCKED))
        return Result(plan_id=plan_id, outcome=Outcome.REFUSED, message="blocked: two live jobs")

    service.result = refuse
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "blocking" in text_of(pilot.app))
        assert "Type  " not in text_of(pilot.app)


async def test_steps_tick_off_live_and_the_dialog_can_be_left() -> None:
    service = StandInService()
    service.gates["submit"] = asyncio.Event()
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "● running  submit" in text_of(pilot.app))
        assert "✓ done     stop" in text_of(pilot.app)
        await pilot.press("escape")
        await pilot.pause(0.1)
        assert "relaunch run-failed continues" in text_of(pilot.app)
        await pilot.press("x")
        await pilot.pause(0.1)
        assert "● running  submit" in text_of(pilot.app)
        await pilot.press("escape")
        service.gates["submit"].set()
        await until(pilot, lambda: "relaunch run-failed ✓ DONE" in text_of(pilot.app))
        assert len(service.acted) == 1


async def test_leaving_the_program_in_the_middle_is_asked_once() -> None:
    service = StandInService()
    service.gates["submit"] = asyncio.Event()
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "● running  submit" in text_of(pilot.app))
        await pilot.press("escape", "q")
        await pilot.pause(0.1)
        assert "an action is under way" in text_of(pilot.app)
        await pilot.press("escape")
        assert pilot.app.is_running
        await pilot.press("ctrl+c")
        await pilot.pause(0.1)
        assert "an action is under way" in text_of(pilot.app)
        await pilot.press("ctrl+c")
        await pilot.pause(0.1)
        assert pilot.app.return_code == 130


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (Outcome.UNKNOWN, "find out before doing anything else"),
        (Outcome.FAILED, "it did not happen, or only in part"),
    ],
)
async def test_an_end_that_is_not_well_says_what_it_means(outcome: Outcome, told: str) -> None:
    service = StandInService()
    service.result = lambda request, plan_id: Result(
        plan_id=plan_id, outcome=outcome, message="submit: no answer in 20 s"
    )
    async with planned(service, (80, 24)) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: told in text_of(pilot.app))
        assert "submit: no answer in 20 s" in text_of(pilot.app)


async def test_done_but_not_recorded_is_said() -> None:
    service = StandInService()
    service.result = lambda request, plan_id: Result(
        plan_id=plan_id, outcome=Outcome.DONE, message="log: push rejected", recorded=False
    )
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "done, but not all of it is recorded" in text_of(pilot.app))


async def test_a_request_that_makes_no_sense_is_one_line() -> None:
    service = StandInService()
    service.trouble = RefuseError("--to is 'x': expected a step")
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "no plan: --to is 'x': expected a step" in text_of(app))
        await pilot.press("enter", "escape")
        assert not isinstance(app.screen, PlanScreen)


async def test_a_fault_while_planning_is_told() -> None:
    service = StandInService()
    service.trouble = RuntimeError("a bug")
    app = cockpit(engine=StandIn(failed()), service=service)
    async with app.run_test(size=(120, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "no plan: an internal error" in text_of(app))
        await pilot.press("escape", "p")
        await until(pilot, lambda: "an internal error" in text_of(app))


async def test_a_fault_in_the_middle_leaves_the_outcome_unknown() -> None:
    service = StandInService()

    def fault(request: Request, plan_id: str) -> Result:
        raise RuntimeError("a bug")

    service.result = fault
    async with planned(service) as pilot:
        await confirm(pilot)
        await until(pilot, lambda: "? UNKNOWN" in text_of(pilot.app))
        assert "an internal error: RuntimeError" in text_of(pilot.app)


HOSTILE = (made.HOSTILE, "\x1b]0;x\x07\x1b[2J", "日本語" * 40, "a" * 10_000, "\u202eabc", "x\ny")


@pytest.mark.parametrize("bad", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_nothing_hostile_breaks_the_dialog(bad: str, size: tuple[int, int]) -> None:
    from cockpit.model.observed import Pick
    from cockpit.model.plan import Difference, Target

    def make(request: Request) -> Any:
        pick = Pick(path=bad, step=1, why=bad)
        return draft(
            request.run,
            checks=(check("C-15", Level.WARN, bad), check(bad, text=bad)),
            command=bad, stops=(bad, bad), spares=(bad,), loses=bad, page=f"# {bad}\n{bad}",
            checkpoint=pick, trainer_would_load=pick.model_copy(update={"path": f"{bad}2"}),
            differences=(Difference(what=bad, ran=bad, would_run=None),),
            targets=(Target(path=bad, step=1, size=None, why=bad),),
        )  # fmt: skip

    async with planned(StandInService(make), size) as pilot:
        for _ in range(12):
            await pilot.press("pagedown")
        shown = text_of(pilot.app)
        assert f"Type  {WORDS}" in shown
        assert "\x1b" not in shown and "\u202e" not in shown
        assert all(Content(line).cell_length <= size[0] for line in shown.splitlines())


async def test_an_open_plan_follows_what_would_be_lost_and_hands_it_on() -> None:
    """The run goes on while the plan is read: the figure moves, and what was seen is confirmed."""
    service = StandInService()
    async with planned(service) as pilot:
        page = screen_of(pilot.app, PlanScreen)
        lost = Loss(count=312, text="312 steps since step 46000", worth=100)
        service.measure = lambda plan, report: plan.model_copy(
            update={"loses": lost.text, "lost": lost}
        )
        await typed(pilot, WORDS)
        page.show()
        await until(pilot, lambda: "312 steps since step 46000" in text_of(pilot.app))
        assert page.asks, "what was typed still stands"
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: bool(service.acted))
        assert service.seen == [lost]


async def test_the_remedy_of_a_block_is_a_key_and_leads_back_into_the_plan() -> None:
    torn = check("C-17", Level.BLOCK, "the trainer would load step 550, which is torn; roll back "
                 "first (cockpit rollback run-failed --to 500 --move yes)")  # fmt: skip
    service = StandInService()

    def make(request: Request) -> Draft:
        done = any(each.action == "rollback" for each, _, _ in service.acted)
        checks = (torn,) if request.action == "relaunch" and not done else CLEAN
        return draft(request.run, request.action, checks=checks)

    service.make = make
    async with planned(service, (80, 24)) as pilot:
        assert "b rollback first" in text_of(pilot.app)
        await pilot.press("x")
        await until(pilot, lambda: len(service.planned) == 1)
        await pilot.press("b")
        await until(pilot, lambda: "Type  rollback run-failed" in text_of(pilot.app))
        assert service.planned[-1][0].params == {"to": "500", "move": "yes"}
        await pilot.pause(0.4)
        await typed(pilot, "rollback run-failed")
        await pilot.pause(0.2)
        await pilot.press("enter")
        await until(pilot, lambda: "enter or esc close" in text_of(pilot.app))
        await pilot.pause(0.4)
        await pilot.press("enter")
        await until(pilot, lambda: f"Type  {WORDS}" in text_of(pilot.app))
        await pilot.pause(0.4)
        await confirm(pilot)
        await until(pilot, lambda: len(service.acted) == 2)
        assert [each.action for each, _, _ in service.acted] == ["rollback", "relaunch"]

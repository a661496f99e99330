"""Palette, forms, acknowledging, the journal and the handoff page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.pilot import Pilot

from cockpit.actions.core.recovery import InterruptedAction
from cockpit.actions.core.table import TABLE
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.observed import Phase
from cockpit.model.plan import Outcome
from screens.acting.form import AckScreen, FormScreen, end_words
from screens.acting.journal import JournalScreen
from screens.acting.plan import PlanScreen
from screens.fleet import FleetScreen
from screens.run import RunScreen
from tests.screens.acting.stand_in_service import BLOCKED, StandInService, draft, entry, target
from tests.screens.acting.test_plan import failed, until
from tests.screens.stand_in import SIZES, StandIn, app_of, cockpit, screen_of, text_of
from tests.widgets import reports as made

PAGE = "# run-failed\n\n- job: 17 on gpu-box, /data/run.log\n- owner: ada\n- [/] [bold]x"


@asynccontextmanager
async def opened(
    service: StandInService, size: tuple[int, int] = (120, 40), **options: Any
) -> AsyncIterator[Pilot[Any]]:
    app = cockpit(engine=options.pop("engine", StandIn(failed())), service=service, **options)
    async with app.run_test(size=size) as pilot:
        await pilot.pause(0.1)
        yield pilot


def settled(outcome: Outcome | None = Outcome.UNKNOWN) -> InterruptedAction:
    looked = LookUp(found=LaunchState.UNKNOWN, text="no answer in 10 s")
    text = "relaunch by ada: looked up run-failed-i002: no answer in 10 s"
    return InterruptedAction(
        entry=entry("run-failed"), outcome=outcome, text=text, looked_up=looked
    )


@pytest.mark.parametrize("size", SIZES)
async def test_the_palette_lists_every_action_and_says_why_not(size: tuple[int, int]) -> None:
    async with opened(StandInService(), size) as pilot:
        await pilot.press(":")
        seen = text_of(pilot.app)
        for _ in range(5):
            await pilot.press("pagedown")
            seen += text_of(pilot.app)
        assert all(re.search(rf"│ [▸ ] {row.title}", seen) for row in TABLE)
        assert "✗ no [run.teardown] in cockpit.toml" in seen
        assert "run-failed · " in seen


async def test_an_action_is_begun_from_the_palette() -> None:
    async with opened(StandInService()) as pilot:
        await pilot.press(":", *"relaunch", "enter")
        await until(pilot, lambda: "Type  relaunch run-failed" in text_of(pilot.app))


async def test_one_that_cannot_be_begun_says_why() -> None:
    async with opened(StandInService()) as pilot:
        await pilot.press(":", *"tear", "enter")
        await until(pilot, lambda: "teardown: no [run.teardown] in" in text_of(pilot.app))


KEYS = "rHxbAEZ"


@pytest.mark.parametrize("option", ["read_only", "present"])
@pytest.mark.parametrize("screen", [FleetScreen, RunScreen])
async def test_reading_only_offers_nothing_by_key_or_palette(option: str, screen: type) -> None:
    service = StandInService()
    async with opened(service, (120, 40), **{option: True}) as pilot:
        if screen is RunScreen:
            await pilot.press("enter")
        for key in KEYS:
            await pilot.press(key)
            await pilot.pause(0.05)
            assert isinstance(pilot.app.screen, screen)
            assert "read-only: it offers no actions" in text_of(pilot.app)
        await pilot.press(":", *["pagedown"] * 5)
        assert re.search(r"✗ (presenting, )?read-only", text_of(pilot.app))
        await pilot.press(*"relaunch", "enter")
        await pilot.pause(0.1)
        assert isinstance(pilot.app.screen, screen)
        assert service.planned == [] and service.acted == []


async def test_without_a_desk_every_action_says_so() -> None:
    app = cockpit(engine=StandIn(failed()))
    async with app.run_test(size=(120, 40)) as pilot:
        for key in (*KEYS, "p", "J"):
            await pilot.press(key)
            await pilot.pause(0.02)
            assert "not available here" in text_of(app)


@pytest.mark.parametrize("size", SIZES)
async def test_rolling_back_picks_a_whole_checkpoint(size: tuple[int, int]) -> None:
    items = [made.checkpoint(step) for step in (1000, 2000, 3000)]
    torn = made.checkpoint(3100, "incomplete")
    report = failed()
    seen = report.facets.model_copy(update={"checkpoints": made.checkpoints(*items, torn)})
    service = StandInService()
    engine = StandIn(report.model_copy(update={"facets": seen}))
    async with opened(service, size, engine=engine) as pilot:
        await pilot.press("b")
        await pilot.pause(0.1)
        shown = text_of(pilot.app)
        assert "● 3,000" in shown and "· 1,000" in shown and "● 3,100" not in shown
        await pilot.press("down", "tab", *"bad_data", "enter")
        await until(
            pilot, lambda: isinstance(pilot.app.screen, PlanScreen) and bool(service.planned)
        )
        assert service.planned[0][0].params == {"to": "2000", "reason": "bad_data", "move": "yes"}


@pytest.mark.parametrize("size", SIZES)
async def test_rolling_back_begins_before_what_is_suspect(size: tuple[int, int]) -> None:
    why = "loss nan from step 2,500"
    late = [made.checkpoint(step, old=100) for step in range(3000, 14000, 1000)]
    items = (*[made.checkpoint(step) for step in (1000, 2000)],
             *[each.model_copy(update={"suspect": why}) for each in late])  # fmt: skip
    report, service = failed(), StandInService()
    seen = report.facets.model_copy(update={"checkpoints": made.checkpoints(*items)})
    engine = StandIn(report.model_copy(update={"facets": seen}))
    async with opened(service, size, engine=engine) as pilot:
        await pilot.press("b")
        await pilot.pause(0.1)
        shown = text_of(pilot.app)
        assert "●  2,000" in shown and "▲ suspect" in shown and "↑ 6 more" in shown
        await pilot.press(*["up"] * 6)
        shown = text_of(pilot.app)
        assert "●  8,000" in shown and "↑ 2 more" in shown and "↓ 4 more" in shown
        await pilot.press(*["down"] * 4, "enter")
        await until(pilot, lambda: bool(service.planned))
        assert service.planned[0][0].params == {"to": "4000", "move": "yes"}


async def test_a_form_asks_for_what_is_required() -> None:
    service = StandInService()
    async with opened(service, (80, 24)) as pilot:
        await pilot.press("H")
        await pilot.press("enter")
        assert "to is required" in text_of(pilot.app)
        await pilot.press(*"bob", "tab", *"sleep", "shift+tab", "y", "enter")
        await until(pilot, lambda: bool(service.planned))
        assert service.planned[0][0].params == {"to": "boby", "note": "sleep"}


async def test_a_form_is_left_without_a_plan() -> None:
    service = StandInService()
    async with opened(service) as pilot:
        await pilot.press("x")
        assert isinstance(pilot.app.screen, FormScreen)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, FleetScreen)
        assert service.planned == []


async def test_what_would_be_deleted_is_listed() -> None:
    many = tuple(target(step) for step in range(1000, 9000, 100))
    service = StandInService(
        lambda request: draft(request.run, words="delete 80 from run-failed", targets=many)
    )
    async with opened(service, (80, 24)) as pilot:
        await pilot.press("r")
        await until(pilot, lambda: "Type  delete 80 from run-failed" in text_of(pilot.app))
        seen = ""
        for _ in range(12):
            seen += text_of(pilot.app)
            await pilot.press("pagedown")
        assert all(f"step-{each.step} " in seen for each in many)
        assert "will delete or move 80, 1.3 TB" in seen


async def test_an_alert_is_taken_with_one_key_and_given_back() -> None:
    service = StandInService()
    async with opened(service, (80, 24)) as pilot:
        await pilot.press("A")
        shown = text_of(pilot.app)
        assert "● ■ " in shown and "exit 137  12m" in shown and "run ended: failed" in shown
        assert "do not notify" in shown
        await pilot.press("down", "tab", "down", "down", "tab", *"unusual")
        assert not service.acted, "u is a letter where a reason is typed"
        await pilot.pause(0.4)
        await pilot.press("enter")
        await until(pilot, lambda: "acknowledged by ada (u to undo)" in text_of(pilot.app))
        first = service.acted[0]
        assert first[0].params == {"key": "C-07", "by": "ada", "until": "1h", "reason": "unusual"}
        assert first[1] == "ack run-failed"
        await pilot.press("u")
        await until(pilot, lambda: "it alerts again" in text_of(pilot.app))
        assert service.acted[1][0].params["until"] == "now"
        await pilot.press("u")
        assert "it is not acknowledged" in text_of(pilot.app)
        await pilot.press("escape")
        assert not isinstance(pilot.app.screen, AckScreen)


async def test_what_is_taken_is_what_stood_there() -> None:
    service, engine = StandInService(), StandIn(failed())
    async with opened(service, engine=engine) as pilot:
        await pilot.press("A", "down")
        await pilot.pause(0.4)
        report = engine.runs[0]
        engine.tell(report.model_copy(update={"alerts": tuple(reversed(report.alerts))}))
        app_of(pilot).show_news()
        await pilot.press("enter")
        await until(pilot, lambda: bool(service.acted))
        assert service.acted[0][0].params["key"] == "C-07"


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"phase": Phase.SUCCEEDED, "state": "exited"}, "succeeded"),
        ({"phase": Phase.FAILED, "state": "exited", "exit_code": 137}, "failed, exit code 137"),
        ({"phase": Phase.FAILED, "state": "NODE_FAIL"}, "failed (NODE_FAIL)"),
        ({"phase": Phase.RUNNING}, ""),
    ],
)
def test_a_runs_end_is_told_in_our_words_not_only_in_a_schedulers(
    told: dict[str, Any], words: str
) -> None:
    assert end_words(made.report(seen=made.facets(job=made.job(**told)))) == words


async def test_the_runs_end_is_taken_and_a_refusal_is_told() -> None:
    service = StandInService()
    async with opened(service, (80, 24)) as pilot:
        await pilot.press("A", "down", "down")
        await pilot.pause(0.4)
        await pilot.press("enter")
        await until(pilot, lambda: "acknowledged by ada" in text_of(pilot.app))
        assert service.acted[0][0].params == {"key": "end", "by": "ada"}
        assert "u to undo" not in text_of(pilot.app), "a run's end is not given back from here"
        service.make = lambda request: draft(request.run, checks=(BLOCKED,))
        await pilot.press("enter")
        await until(pilot, lambda: "two live jobs write" in text_of(pilot.app))


@pytest.mark.parametrize("size", SIZES)
async def test_after_a_crash_a_line_says_so_and_its_key_opens_the_journal(
    size: tuple[int, int],
) -> None:
    service = StandInService()
    service.left = {"run-failed": (settled(),)}
    async with opened(service, size) as pilot:
        await until(
            pilot, lambda: "interrupted: relaunch run-failed · J journal" in text_of(pilot.app)
        )
        assert screen_of(pilot.app, FleetScreen)
        await pilot.press("s", "enter")
        assert screen_of(pilot.app, RunScreen)
        assert service.recovered == []
        assert "1 interrupted: J journal" in text_of(pilot.app)
        await pilot.press("J")
        await until(pilot, lambda: "to decide" in text_of(pilot.app))
        shown = " ".join(text_of(pilot.app).replace("│", " ").split())
        assert "relaunch run-failed by ada UNKNOWN" in shown
        assert "stop done, submit started, outcome unknown" in shown
        assert "looked up not known: no answer in 10 s" in shown
        assert "check on the system itself whether it happened" in shown
        await pilot.press("s")
        assert service.recovered == []
        await pilot.press("S")
        await until(pilot, lambda: service.recovered == ["run-failed"])
        await until(pilot, lambda: "resolved run-failed: relaunch: unknown" in text_of(pilot.app))
        await pilot.press("escape", "escape")
        assert isinstance(pilot.app.screen, FleetScreen)


@pytest.mark.parametrize("option", ["read_only", "present"])
async def test_reading_only_is_told_of_it_and_offered_nothing(option: str) -> None:
    service = StandInService()
    service.left = {"run-failed": (settled(),)}
    async with opened(service, (120, 40), **{option: True}) as pilot:
        await until(pilot, lambda: "interrupted: relaunch run-failed" in text_of(pilot.app))
        assert isinstance(pilot.app.screen, FleetScreen)
        assert "J journal" not in text_of(pilot.app)
        await pilot.press("J", "S")
        await until(pilot, lambda: "to decide" in text_of(pilot.app))
        assert "resolve" not in text_of(pilot.app) and service.recovered == []


async def test_keys_of_an_empty_journal_do_no_harm() -> None:
    async with opened(StandInService()) as pilot:
        await pilot.press("J")
        await until(pilot, lambda: isinstance(pilot.app.screen, JournalScreen))
        await pilot.press("enter", "down", "end", "pagedown", "S")
        assert isinstance(pilot.app.screen, JournalScreen)


async def test_nothing_opens_by_itself_whatever_comes() -> None:
    """What is open was asked for: the keys that are on the line were meant for it."""
    service = StandInService()
    service.left = {"run-failed": (settled(),)}
    service.left_gate = asyncio.Event()
    engine = StandIn(failed(), made.report("run-b"))
    async with opened(service, engine=engine) as pilot:
        app = app_of(pilot)
        for screen in (FleetScreen, RunScreen):
            assert type(app.screen) is screen
            stack = list(app.screen_stack)
            service.left_gate.set()
            engine.tell(made.report("run-failed"))
            engine.tell(made.diverged("run-b"))
            engine.notices = ("the run file was read again",)
            await app.actions._interrupted()
            engine.runs.pop()
            app._take_all()
            await pilot.pause(0.4)
            assert app.screen_stack == stack
            engine.runs.append(made.report("run-b"))
            await pilot.press("enter")


async def test_somebody_else_has_settled_it() -> None:
    service = StandInService()
    service.left = {"run-failed": (settled(),)}
    async with opened(service) as pilot:
        await until(pilot, lambda: "interrupted: relaunch" in text_of(pilot.app))
        service.left = {}
        app_of(pilot).actions._look_again()
        await until(pilot, lambda: "interrupted" not in text_of(pilot.app))


async def test_what_somebody_is_at_is_no_crash() -> None:
    service = StandInService()
    service.left = {"run-failed": (settled(None),)}
    async with opened(service) as pilot:
        await until(pilot, lambda: bool(app_of(pilot).actions.interrupted))
        assert isinstance(pilot.app.screen, FleetScreen)
        await pilot.press("J")
        await until(pilot, lambda: "whoever runs it will finish it" in text_of(pilot.app))
        assert "unless its process is stopped" in text_of(pilot.app)
        await pilot.press("S")
        assert "in progress elsewhere" in text_of(pilot.app)


async def test_the_journal_opens_the_run_and_its_plan() -> None:
    service = StandInService()
    service.entries = {"run-failed": (entry("run-failed", 2, Outcome.DONE, message="fine"),)}
    async with opened(service) as pilot:
        await pilot.press("J")
        await until(pilot, lambda: "relaunch run-failed by ada DONE" in text_of(pilot.app))
        await pilot.press("r")
        await until(pilot, lambda: "Type  relaunch run-failed" in text_of(pilot.app))
        await pilot.press("escape", "o")
        assert isinstance(pilot.app.screen, RunScreen)


async def test_enter_shows_the_whole_record_and_the_keys_of_a_list_move_through_the_journal() -> (
    None
):
    service = StandInService()
    asked = entry("run-failed").plan.model_copy(update={"params": {"reason": "the node died"}})
    service.entries = {
        "run-failed": tuple(
            entry("run-failed", n, Outcome.DONE, begun_at=made.NOW - n, plan=asked)
            for n in range(1, 41)
        )
    }
    async with opened(service, (80, 24)) as pilot:
        await pilot.press("J")
        await until(pilot, lambda: "reason: the node died" in text_of(pilot.app))
        assert "stop the job" not in text_of(pilot.app)
        await pilot.press("G", "enter")
        shown = text_of(pilot.app)
        assert "stop the job" in shown and "▸" in shown, "the last action, with its steps"
        await pilot.press("enter", "g")
        assert "stop the job" not in text_of(pilot.app)
        screen = pilot.app.screen
        assert isinstance(screen, JournalScreen)
        first = screen.chosen
        await pilot.press("pagedown")
        assert "▸" in text_of(pilot.app) and screen.chosen != first, (
            "the choice turns with the page"
        )
        await pilot.press("q")
        assert isinstance(pilot.app.screen, FleetScreen)


async def test_a_timeline_that_cannot_be_read_says_why_below_the_open_alerts() -> None:
    async with opened(StandInService()) as pilot:
        pilot.app._engine.pasts.fault = OSError(0, "the disk is full")  # type: ignore[attr-defined]
        await pilot.press("enter", "5")
        await until(pilot, lambda: "cannot read the past: the disk is full" in text_of(pilot.app))
        assert "exit 137" in text_of(pilot.app)


async def test_a_timeline_that_was_read_stays_while_it_cannot_be_read_again() -> None:
    async with opened(StandInService()) as pilot:
        pasts = pilot.app._engine.pasts  # type: ignore[attr-defined]
        pasts.tell(failed())
        await pilot.press("enter", "5")
        await until(pilot, lambda: "Launched r-i002: job 8" in text_of(pilot.app))
        pasts.fault = TimeoutError("no answer within 10 s")
        pilot.app.screen._past_asked = 0.0  # type: ignore[attr-defined]
        pilot.app.show_news()  # type: ignore[attr-defined]
        await until(pilot, lambda: "cannot read the past: no answer" in text_of(pilot.app))
        assert "Launched r-i002: job 8" in text_of(pilot.app)
        pasts.fault = None
        pilot.app.screen._past_asked = 0.0  # type: ignore[attr-defined]
        pilot.app.show_news()  # type: ignore[attr-defined]
        await until(pilot, lambda: "cannot read the past" not in text_of(pilot.app))


@pytest.mark.parametrize("size", SIZES)
async def test_the_handoff_page_is_shown_and_copied(size: tuple[int, int]) -> None:
    service = StandInService(lambda request: draft(request.run, page=PAGE))
    async with opened(service, size) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: "• [/] [bold]x" in text_of(pilot.app))
        assert "gpu-box" in text_of(pilot.app)
        await pilot.press("y")
        await until(pilot, lambda: "copied by OSC 52; else: cat" in text_of(pilot.app))
        assert service.acted == []
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, FleetScreen)


async def test_the_handoff_page_is_masked_while_a_screen_is_shared() -> None:
    service = StandInService(lambda request: draft(request.run, page=PAGE))
    async with opened(service, present=True) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: "• [/] [bold]x" in text_of(pilot.app))
        shown = text_of(pilot.app)
        assert "run-failed" in shown
        assert "/data/run.log" not in shown and "ada" not in shown


async def test_a_path_longer_than_the_page_is_masked_to_its_end() -> None:
    page = "# run-failed\n\n- file /data/private/" + "secretive" * 8 + " ends\n"
    service = StandInService(lambda request: draft(request.run, page=page))
    async with opened(service, (40, 12), present=True) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: "ends" in text_of(pilot.app))
        assert "secretive" not in text_of(pilot.app)
        assert "ive" not in text_of(pilot.app)

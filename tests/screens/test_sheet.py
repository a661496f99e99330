"""The pages over a screen: the status sheet, the handoff page, a backtest, the help."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from cockpit.app.replaying import replayed
from cockpit.model.alert import Evidence, Severity
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.history import Backtested, WouldTell
from cockpit.model.observed import Column, Phase, Tasks, TaskValue
from cockpit.model.plan import Request
from screens.help import HelpScreen
from screens.sheet import BacktestScreen, DescribeScreen, HandoffPage, TasksScreen
from tests.screens.acting.stand_in_service import StandInService, draft
from tests.screens.acting.test_plan import until
from tests.screens.stand_in import StandIn, StandInApp, cockpit, text_of
from tests.widgets import reports as made
from widgets.painting.metrics import paint_backtest

PAGE = "# Handoff: run-failed\n\n## State\n- Job: failed on gpu-a17, `/data/ada/run.log`\n"
PAGE += "- C-07 a quota that wasn`t asked for\n"  # no code begins here
PAGE += "- seen 2026-03-11 08:40 UTC; `2026-03-11 08:40 UTC`; due 2026-03-11 08:59 UTC\n"


async def test_a_page_is_saved_in_three_forms_masked_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asked: list[Request] = []

    def plan(request: Request) -> object:
        asked.append(request)
        return draft(request.run, request.action).model_copy(update={"page": PAGE})

    app = cockpit(service=StandInService(plan), present=True)  # type: ignore[arg-type]
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: isinstance(app.screen, HandoffPage))
        await until(pilot, lambda: "• Job: failed" in text_of(app))
        assert "preview, ownership unchanged" in text_of(app)
        told = "• seen 08:40 (12m ago); 2026-03-11 08:40 UTC; due 08:59"
        assert told in text_of(app), "as it is read here; what is quoted stays, and files too"
        await pilot.press("m")
        await until(pilot, lambda: "saved as shown" in app.notice)
    assert asked[0].params["to"] == (app.file.runs[0].dri or "ada")
    folder = tmp_path / "cockpit" / "pages"
    files = {each.suffix: each for each in folder.iterdir()}
    assert set(files) == {".md", ".txt", ".svg"}
    assert folder.stat().st_mode & 0o777 == 0o700
    for each in files.values():
        words = each.read_text()
        assert each.stat().st_mode & 0o777 == 0o600
        assert "gpu-a17" not in words and "/data" not in words and "run.log" in words
    assert all("seen 2026-03-11 08:40 UTC" in each.read_text() for each in files.values())
    assert files[".md"].read_text().startswith("# Handoff: run-failed\n")
    assert files[".txt"].read_text().startswith("Handoff: run-failed\n")


NOW = 1_800_000_000.0
SPIKE = WouldTell(
    id="C-11", severity=Severity.ALERT, title="Loss more than 50 % above its trend",
    opened_step=459, opened_at=NOW - 3600, closed_step=474, closed_at=NOW - 3000, closed=True,
    evidence=(Evidence(text="peak 3.1; trend 2", source="logged rows"),),
)  # fmt: skip
BROKEN = WouldTell(
    id="C-09", severity=Severity.CRITICAL, title="loss is nan at step 900", opened_step=900
)
PAST = Backtested(
    run="r", steps=1000, last_step=999, final_step=2000, timed=True, alerts=(SPIKE, BROKEN),
    not_replayed=("C-01", "C-02", "C-03", "C-04", "C-07", "C-26"),
)  # fmt: skip


def test_a_lane_stands_on_the_axis_of_the_chart_above_it_where_that_is_cut() -> None:
    curve = tuple(
        Column(at, at, None, None, None, 1) if at >= 130 else Column(at, at, 2.0, 2.0, 2.0)
        for at in range(1000)
    )
    broken = BROKEN.model_copy(update={"opened_step": 130})
    late = SPIKE.model_copy(update={"opened_step": 100, "closed_step": 600})
    beyond = BROKEN.model_copy(update={"id": "C-12", "opened_step": 700})
    past = PAST.model_copy(update={"curve": curve, "alerts": (broken, late, beyond)})
    lines = [line.plain for line in paint_backtest(past, NOW, 120)]
    wall = next(line for line in lines if "since 130" in line).find("│", 10)
    lanes = {
        line[:9].strip(): line
        for line in lines
        if "│" in line and line[:9].strip() in ("1", "2", "3")
    }
    assert lanes["1"].find("[") == wall
    assert "]" not in lanes["2"] and lanes["2"].endswith("=")
    assert lanes["3"].split("│")[1].split() == [">"]


async def test_a_key_of_the_run_screen_opens_it_and_esc_leaves() -> None:
    app = cockpit()
    assert isinstance(app, StandInApp)
    app.past = PAST
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("enter", "B")
        await until(pilot, lambda: "2 alerts would have opened" in text_of(app))
        assert isinstance(app.screen, BacktestScreen)
        await pilot.press("pagedown", "pagedown")
        await until(pilot, lambda: "step 900; still open" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, BacktestScreen))


async def test_the_palette_has_it_and_what_fails_is_one_line() -> None:
    app = cockpit()
    assert isinstance(app, StandInApp)
    app.past = OSError(0, "toy holds no logged rows: nothing to replay")
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press(":", *"backtest", "enter")
        await until(pilot, lambda: "no page: toy holds no logged row" in text_of(app))


async def test_it_is_made_by_the_verb_in_a_process_of_its_own(tmp_path: Path) -> None:
    losses = [2.0] * 50 + [9.0] * 15 + [2.0] * 30
    (tmp_path / "run.log").write_text(
        "".join(f"step={at} loss={loss}\n" for at, loss in enumerate(losses))
    )
    config = tmp_path / "cockpit.toml"
    config.write_text('[[run]]\nname = "toy"\n[run.job]\nkind = "local"\nlog = "run.log"\n')
    found = await replayed(str(config), "toy")
    assert [(each.id, each.opened_step, each.closed_step) for each in found.alerts] == [
        ("C-11", 59, 74)
    ]
    assert len(found.curve) == 95 and found.curve[60].mean == 9.0
    with pytest.raises(OSError, match="has no run"):
        await replayed(str(config), "other")


async def test_the_help_is_filtered_by_words_and_left_by_esc() -> None:
    app = cockpit(service=StandInService())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("?", "/", *"acknowzz")
        assert "no match" in text_of(app)
        await pilot.press("backspace", "backspace", "enter")
        shown = text_of(app)
        assert "acknowledge" in shown and "log entry" not in shown
        await pilot.press("escape")
        assert isinstance(app.screen, HelpScreen) and "log entry" in text_of(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, HelpScreen)


async def test_the_system_of_a_job_describes_it_at_a_key() -> None:
    app = cockpit()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("I")
        await until(pilot, lambda: "Partition=gpu" in text_of(app))
        assert isinstance(app.screen, DescribeScreen)
        assert "slurm here · job 41 · at " in text_of(app)
        await pilot.press("escape")
        assert not isinstance(app.screen, DescribeScreen)


async def test_the_tasks_of_an_array_stand_in_a_table_those_that_failed_first() -> None:
    ids = (("7_0", Phase.SUCCEEDED), ("7_1", Phase.FAILED), ("7_2", Phase.RUNNING))
    members = [
        TaskValue(id=name, state=phase.value.upper(), phase=phase, started_at=made.NOW - 600,
                  ended_at=made.NOW - 60, exit_code=1 if phase is Phase.FAILED else None)
        for name, phase in ids
    ]  # fmt: skip
    members.append(TaskValue(id="7_[3-9]", state="PENDING", phase=Phase.WAITING, count=7))
    job = made.job(tasks=Tasks(running=1, total=12, over=2, failed=1), members=tuple(members))
    engine = StandIn(made.report("run-a", seen=made.facets(job=job)), made.report("run-b"))
    app = cockpit(engine=engine, service=StandInService())

    def is_shown(said: str) -> bool:
        return said in text_of(app)

    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "RUNNING 1/12 · 1 failed" in text_of(app))
        await pilot.press("K")
        await until(pilot, lambda: isinstance(app.screen, TasksScreen))
        shown = text_of(app)
        assert "1 failed · 1 running · 7 waiting · 1 succeeded" in shown
        assert "only 10 of 12 tasks are listed; of all, 1 failed, 1 running" in shown
        assert ", now" in next(line for line in shown.splitlines() if "as of " in line)
        places = [shown.index(f" {name} ") for name in ("7_1", "7_2", "7_[3-9]", "7_0")]
        assert places == sorted(places)
        assert "9m" in next(line for line in shown.splitlines() if "7_1" in line)
        await pilot.press("escape", "l", "K")
        await until(pilot, lambda: "no array" in text_of(app))
        lost = engine.runs[0].facets.job.model_copy(
            update={"error": Problem(kind=ErrorKind.TIMEOUT, message="squeue did not answer")}
        )
        await pilot.press("escape", "h", "K")
        for job_facet, said in (
            (lost, "unknown since: squeue did not answer"),
            (lost.model_copy(update={"value": None}), "unknown: squeue did not answer"),
            (
                made.job(tasks=Tasks(running=3, total=4)),
                "3 of 4 tasks run now: this job is no array",
            ),
        ):
            seen = engine.runs[0].facets.model_copy(update={"job": job_facet})
            engine.tell(engine.runs[0].model_copy(update={"facets": seen}))
            await until(pilot, partial(is_shown, said))

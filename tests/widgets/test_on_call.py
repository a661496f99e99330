"""What a person on call sees: causes, acknowledgements, goodput, and what happened before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.acts import Records
from cockpit.model.cost import Cost
from cockpit.model.goodput import Goodput, Restarts, Split, parts
from cockpit.model.history import Moment, Then
from cockpit.model.observed import Pick
from cockpit.model.plan import (
    Approval,
    Basis,
    Check,
    Difference,
    Level,
    Outcome,
    Plan,
    Request,
    Result,
    StepResult,
    StepState,
    Target,
    plan_of,
)
from cockpit.model.records import Recorded, SaveStage
from cockpit.model.report import Verdict
from screens.acting.form import alert_choice
from tests.screens.acting.stand_in_service import APPROVABLE, BLOCKED, CLEAN, check, draft
from tests.widgets import reports as made
from tests.widgets.anything import instants, words
from widgets.alert_list import TimelineView
from widgets.logbook_view import paint_save
from widgets.painting.big import BLOCKS, paint_account, paint_bar, paint_goodput, paint_short
from widgets.painting.journal import (
    DAY,
    ActionProgress,
    Done,
    Open,
    extent,
    paint_band,
    paint_done,
    paint_open,
    paint_steps,
    paint_strip,
)
from widgets.painting.panel import paint_panel
from widgets.painting.plan import (
    Choice,
    FormField,
    FormState,
    changes,
    paint_differences,
    paint_form,
    paint_plan,
    rows_of,
)

NOW = made.NOW


ACCOUNT = Goodput(
    since=NOW - 86400.0, until=NOW, share=0.9,
    split=Split(productive_s=70_000.0, rework_s=1_000.0, down_s=6_777.0, unwatched_s=8_623.0),
    restarts=Restarts(ours=1, unknown=1), steps_lost=1204, accelerators=64,
    accelerator_hours_lost=17.8, evidence=("steps by the tracker",),
)  # fmt: skip


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(0.0, 1e7)), min_size=8, max_size=8),
    st.integers(0, 120),
)
def test_property_the_bar_fills_its_width_and_shows_every_part(
    seconds: list[float], width: int
) -> None:
    split = Split(**dict(zip(Split.model_fields, seconds, strict=True)))
    bar = paint_bar(ACCOUNT.model_copy(update={"split": split}), width).plain
    named = [name for name, _, _ in parts(ACCOUNT.model_copy(update={"split": split}))]
    if not named or width < len(named):
        assert bar == ""
    else:
        assert len(bar) == width
        assert set(bar) == {BLOCKS[name][0] for name in named}


def test_before_all_is_read_no_account_is_given() -> None:
    report = made.report(goodput=ACCOUNT, not_read_yet="the tracker's rows are not read yet")
    assert paint_short(report, 40).plain == "" and paint_account(report, 100) == []
    assert [line.plain for line in paint_goodput(report, 100)] == [report.not_read_yet]


def test_the_timeline_says_what_was_lost_where_no_panel_has_room() -> None:
    timeline = TimelineView()
    shown = "\n".join(each.plain for each in timeline.lines_of(made.report(goodput=ACCOUNT), 78))
    assert "2 restarts (1 ours, 1 unknown) · 1,204 steps lost" in " ".join(shown.split())


BURNS = Cost(
    currency="EUR", price=2.4, per="accelerator", since=NOW - 86400.0, until=NOW, accelerators=64,
    per_hour=153.6, held_s=77_777.0, unseen_s=8_623.0, spent=3318.5, lost_to_repeats=42.67,
    burning=76.8, burning_since=NOW - 1800.0, burning_why="Loss is NaN at step 300",
)  # fmt: skip


def test_what_burns_stands_first_on_the_card_and_on_the_run_page() -> None:
    report = made.report(goodput=ACCOUNT, cost=BURNS)
    card = "\n".join(each.plain for each in paint_panel(report, NOW, 80, 24))
    assert "cost  burning 153.60 EUR/h since " in card
    page = " ".join(each.plain for each in paint_goodput(report, 78))
    assert "76.80 EUR (Loss is NaN at step 300) · 3,318 EUR spent (21h" in page
    assert "64 accelerators at 2.40 EUR/h each; 2h 23m more that nobody saw)" in page
    assert "42.67 EUR of it lost to repeated steps" in page
    timeline = TimelineView()
    assert "burning 153.60" in "\n".join(each.plain for each in timeline.lines_of(report, 78))


@pytest.mark.parametrize(
    ("room", "said"),
    [(40, "goodput 90.0 % "), (14, "goodput 90.0 %"), (13, "goodput 90 %"), (11, "")],
)
def test_the_heads_figure_is_as_long_as_there_is_room_for_it(room: int, said: str) -> None:
    assert paint_short(made.report(goodput=ACCOUNT), room).plain == said
    assert paint_short(made.report(), room).plain == ""


WELL, SICK = Verdict.HEALTHY, Verdict.CRITICAL


def moments(*told: tuple[float, Verdict]) -> tuple[Moment, ...]:
    return tuple(Moment(made.NOW + after, verdict, True) for after, verdict in told)


def strip(*told: tuple[float, Verdict], at: float = 0.0, width: int = 60) -> str:
    line = paint_strip(moments(*told), made.NOW + at, made.NOW, width)
    assert line.cell_length <= width
    return "".join(each for each in line.plain if each in "█▅?▂▁·")


def test_the_strip_shows_the_worst_of_each_cell_and_where_nobody_watched() -> None:
    shown = strip((-600, WELL), (-300, SICK), (-290, WELL))
    assert 1 <= shown.count("█") <= 2 and shown.startswith("▂") and "·" not in shown
    gap = strip((-20 * 3600, WELL), (-3600, SICK))
    assert gap.startswith("▂") and "·" * 10 in gap and gap.endswith("█")
    assert paint_strip((), made.NOW, made.NOW, 12).plain == ""


@pytest.mark.parametrize(
    ("first", "at", "expected"),
    [
        (-3600, 0, (-3600, 0)),
        (-90 * DAY, 0, (-DAY, 0)),
        (-90 * DAY, -10 * DAY, (-10.5 * DAY, -9.5 * DAY)),
        (-90 * DAY, -90 * DAY, (-90 * DAY, -89 * DAY)),
    ],
)
def test_the_strip_shows_at_most_a_day_around_the_moment(
    first: float, at: float, expected: tuple[float, float]
) -> None:
    begin, end = extent(moments((first, WELL)), made.NOW + at, made.NOW)
    assert (begin - made.NOW, end - made.NOW) == expected


@pytest.mark.parametrize("width", [30, 80, 200])
def test_the_band_fills_the_line_and_tells_which_moment_and_how_it_is_known(width: int) -> None:
    then = Then(
        run="r", at=made.NOW - 900, report=made.report(), recorded_at=made.NOW - 1500, watched=True
    )
    line = paint_band(then, made.NOW - 900, made.NOW, width)
    assert line.cell_length == width and line.plain.startswith(" PAST  ")
    wide = paint_band(then, made.NOW - 900, made.NOW, 200).plain
    assert "15m ago" in wide and "as recorded 10m before" in wide
    why = "no cockpit was looking: the last look was 9h before"
    gap = then.model_copy(update={"watched": False, "lacks": (why,)})
    assert why in paint_band(gap, made.NOW - 900, made.NOW, 200).plain
    assert paint_band(None, made.NOW, made.NOW, 80, "broken").plain.count("broken") == 1


REQUEST = Request(action="relaunch", run="run-a", operator="ada")
picks = st.none() | st.builds(Pick, path=words, step=st.integers(0, 10**9), why=words)
checks = st.builds(
    Check,
    id=words,
    level=st.sampled_from(Level),
    text=words,
    basis=st.sampled_from(Basis),
    overridable=st.booleans(),
    approved=st.none() | st.builds(Approval, check=words, by=words, reason=words),
)
targets = st.builds(
    Target, path=words, step=st.none() | st.integers(0), size=st.none() | st.integers(0), why=words
)
differences = st.builds(Difference, what=words, ran=st.none() | words, would_run=st.none() | words)


def few(of: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, max_size=3).map(tuple)


plans = st.builds(
    lambda **fields: plan_of(REQUEST, draft("run-a", **fields), made.NOW),
    words=words, checks=few(checks), command=st.none() | words, stops=few(words),
    spares=few(words), checkpoint=picks, trainer_would_load=picks, differences=few(differences),
    loses=st.none() | words, targets=few(targets), keeps=few(targets), page=st.none() | words,
)  # fmt: skip


def plan(**fields: Any) -> Plan:
    return plan_of(REQUEST, draft("run-a", **fields), made.NOW)


def shown(painted: list[Any]) -> str:
    return "\n".join(line.plain.rstrip() for line in painted)


@given(plans, st.integers(1, 200), words)
def test_property_no_line_of_a_plan_is_too_wide(plan: Plan, width: int, said: str) -> None:
    everything = changes(Plan.model_construct(**dict(plan)), plan) | {"command", "targets"}
    assert all(line.cell_length <= width for line in paint_plan(plan, width, everything, said))


@given(
    few(st.builds(StepResult, name=words, state=st.sampled_from(StepState), at=instants,
                  note=st.none() | words)),
    st.sampled_from(Outcome), words, st.booleans(), st.integers(1, 200),
)  # fmt: skip
def test_property_no_line_of_the_steps_is_too_wide(
    steps: Any, outcome: Outcome, said: str, over: bool, width: int
) -> None:
    result = Result(plan_id="x", outcome=outcome, job_id=said, message=said, recorded=False)
    progress = ActionProgress(steps, result if over else None, follows=said)
    assert all(line.cell_length <= width for line in paint_steps(progress, width))


def test_a_step_is_told_in_words_and_no_path_of_its_note_is_broken_in_two() -> None:
    kept = "/home/ada/.local/state/cockpit/evidence/run-a/20260311T085600Z-run-a-i001"
    steps = (
        StepResult(
            name="evidence", state=StepState.DONE, at=made.NOW, note=f"7 files in {kept}; all"
        ),
        StepResult(name="record-launch", state=StepState.DONE, at=made.NOW, note="run-a-i002 runs"),
    )
    wide, narrow = (paint_steps(ActionProgress(steps, None), width) for width in (120, 76))
    assert shown(wide).splitlines()[1].strip() == f"7 files in {kept}; all"
    assert "7 files in …" in shown(narrow) and "/20260311T085600Z-run-a-i001; all" in shown(narrow)
    assert shown(narrow).splitlines()[-1].endswith("run-a-i002 runs")
    assert "record the launch" in shown(narrow) and "record-launch" not in shown(narrow)


@given(words, st.integers(1, 200), st.sampled_from(SaveStage))
def test_property_nothing_else_is_too_wide(said: str, width: int, stage: SaveStage) -> None:
    done = Done(said, said, said, made.NOW, None, None, said, said, Records.PARTLY)
    fields = (
        FormField("a", said, said, True),
        FormField("b", said, said, False, (Choice("x", said, said),)),
        FormField("c", said, said, False,
                  tuple(alert_choice(each, made.NOW) for each in made.hostile().alerts)),
    )  # fmt: skip
    form = FormState([made_line(said)], fields, {"a": said}, 1, said)
    save = paint_save(Recorded(stage=stage, trouble=said, commit=said), said, True, width)
    painted = [
        *paint_done(done, made.NOW, width, named=True),
        *paint_open(Open(done, said, said, said), made.NOW, width),
        *paint_form(form, width),
        save,
    ]
    assert all(line.cell_length <= max(1, width) for line in painted)
    assert len(rows_of(form, width)) == 3


def test_a_choice_that_is_too_long_keeps_what_distinguishes_it() -> None:
    field = FormField("a", "alert", "", choices=(Choice("x", "Checkpoint 74 is torn " * 4, "42m"),))
    assert shown(paint_form(FormState((), (field,), {}, 0), 60)).rstrip().endswith("… 42m")


def made_line(said: str) -> Any:
    from textual.content import Content

    return Content(said)


def test_what_is_in_the_way_is_read_first_and_what_is_well_last() -> None:
    approved = APPROVABLE.model_copy(
        update={"approved": Approval(check="C-09", by="ada", reason="warmup")}
    )
    told = shown(paint_plan(plan(checks=(*CLEAN, approved, BLOCKED)), 100))
    places = [
        told.index(word)
        for word in ("Cannot run now", "■ BLOCK", "✓ OVER", "! WARN", "runs ", "✓ pass")
    ]
    assert places == sorted(places)
    assert "approved by ada: warmup" in told


def test_only_what_differs_is_shown_and_the_rest_is_counted() -> None:
    same = tuple(Difference(what=f"k{n}", ran="1", would_run="1") for n in range(214))
    odd = Difference(what="optimizer.lr", ran="0.1", would_run="0.2")
    told = shown(paint_plan(plan(differences=(*same, odd)), 100))
    assert "differs from the last launch · 214 settings the same" in told
    assert "optimizer.lr" in told and "k7" not in told
    assert "config        as in the last launch (214 settings the same)" in shown(
        paint_plan(plan(differences=same), 80)
    )


def test_a_trainer_that_would_load_another_one_is_said() -> None:
    other = Pick(path="/data/ckpt/step-9", step=9, why="newest by name")
    assert "trainer       ▲ will load 9  /data/ckpt/step-9" in shown(
        paint_plan(plan(trainer_would_load=other), 80)
    )


def test_what_has_changed_is_known() -> None:
    old = plan()
    new = plan(checks=(*CLEAN[:3], check("C-18", Level.BLOCK)), command="python x.py")
    assert changes(old, new) == {"check:C-18", "command"}
    assert changes(old, old) == frozenset()
    told = shown(paint_plan(new, 100, changes(old, new)))
    assert "changed C-18" in told and "changed python x.py" in told


def plain(lines: Any) -> str:
    return "\n".join(each.plain for each in lines)


def test_a_plan_says_what_becomes_of_its_targets() -> None:
    target = Target(path="/data/runs/a/step-9", step=9, size=None, why="newer")

    def said(action: str, **facts: str) -> str:
        made_of = draft("run-a", action, targets=(target,), facts=facts)
        request = Request(action=action, run="run-a", operator="ada")
        return plain(paint_plan(plan_of(request, made_of, made.NOW), 100))

    assert "will delete 1" in said("retain")
    assert "will move aside 1" in said("rollback", move="yes")
    assert "will reject, not move, 1" in said("rollback", move="no")


def test_paths_below_the_run_s_root_are_short_and_the_root_stands_once() -> None:
    root = "/data/a/very/long/root"
    pick = Pick(path=f"{root}/step-9", step=9, why="newest")
    target = Target(path=f"{root}/step-8", step=8, size=None, why="old")
    made_of = draft("run-a", checkpoint=pick, trainer_would_load=pick, targets=(target,),
                    command=f"train --out {root}/x")  # fmt: skip
    seen = plain(paint_plan(plan_of(REQUEST, made_of, made.NOW), 100, root=root))
    assert f"train --out {root}/x" in seen
    assert "…/step-9" in seen and "…/step-8" in seen
    assert seen.count(f"{root}/") == 1
    assert f"… stands for  {root}\n" in seen


def test_what_is_not_recorded_of_what_ran_is_one_line() -> None:
    found = [Difference(what=what, ran=None, would_run="x")
             for what in ("dirty files that matter", "checkpoint", "hardware")]  # fmt: skip
    new = Difference(what="optimizer.beta", ran=None, would_run="0.9")
    seen = plain(paint_differences([*found, new], 100))
    assert "not recorded  in the last launch: dirty files, checkpoint, hardware" in seen
    assert "not known" not in seen
    assert "none" in seen

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.acts import Records
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
from screens.acting.form import alert_choice
from tests.screens.acting.stand_in_service import APPROVABLE, BLOCKED, CLEAN, check, draft
from tests.widgets import reports as made
from tests.widgets.anything import instants, words
from widgets.logbook_view import paint_save
from widgets.painting.journal import ActionProgress, Done, Open, paint_done, paint_open, paint_steps
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

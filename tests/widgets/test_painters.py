"""What holds for every painter: any report, any size, no line too wide, nothing raised."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from cockpit.model.alert import Acknowledgement
from cockpit.model.facet import UNASKED
from cockpit.model.observed import Phase, Pick
from cockpit.model.report import Facets, RunReport, Verdict, View
from cockpit.model.shared_facts import OwnerNow
from cockpit.model.wording import clock_time, day_time, moment, number
from cockpit.verbs.table import job_text
from tests.widgets import reports as made
from tests.widgets.anything import any_report
from widgets.alert_list import TimelineView, paint_open
from widgets.facet_table import paint_checkpoints, paint_facets
from widgets.fleet_header import Watch, paint_header, paint_keys
from widgets.log_view import paint_log_line
from widgets.painting import facts
from widgets.painting.chart import Drawing, paint
from widgets.painting.line import (
    cut_start,
    fit,
    placed,
    prose,
    row,
    that_fit,
    wrapped,
)
from widgets.painting.panel import Body, paint_panel
from widgets.painting.rows import checkpoints, percent, progress
from widgets.painting.run_line import columns, paint_columns
from widgets.painting.series import loss_columns
from widgets.run_header import paint_head
from widgets.run_list import Marks, height_of, paint_row

NOW = made.NOW
Painter = Callable[[RunReport, int], list[Content]]


def timeline(report: RunReport, width: int) -> list[Content]:
    view = TimelineView()
    view.now = NOW
    return view.lines_of(report, width)


def list_row(report: RunReport, width: int) -> list[Content]:
    shared = columns([report], NOW, width)
    return paint_row(report, NOW, width, shared, Marks(selected=True), height_of(report, width))


def ample_row(report: RunReport, width: int) -> list[Content]:
    shared = columns([report], NOW, width)
    return paint_row(report, NOW, width, shared, Marks(liked=True), 12)


def header(report: RunReport, width: int) -> list[Content]:
    watch = Watch("ada", read_only=True, view=View(filter="x", sort="name", group="dri"))
    return [paint_header([report, report], watch, [report], width)]


def chart(report: RunReport, width: int) -> list[Content]:
    return paint(Drawing(loss_columns(report), log=True), width, 12)


PAINTERS: dict[str, Painter] = {
    "list": list_row,
    "ample list": ample_row,
    "header": header,
    "chart": chart,
    "alerts": lambda report, width: paint_open(report, NOW, width),
    "timeline": timeline,
    "checkpoints": lambda report, width: paint_checkpoints(report, NOW, width),
    "facets": lambda report, width: paint_facets(report, NOW, width),
    "head": lambda report, width: paint_head(report, NOW, width),
}


@given(report=any_report(), width=st.integers(1, 220))
def test_property_no_line_is_too_wide(report: RunReport, width: int) -> None:
    for name, paints in PAINTERS.items():
        assert all(line.cell_length <= width for line in paints(report, width)), name


TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(TEXTS, TEXTS, st.integers(0, 60))
def test_property_pieces_keep_their_width(left: str, right: str, width: int) -> None:
    assert fit(Content(left), width).cell_length == width
    assert row(Content(left), Content(right), width).cell_length == width
    assert prose(Content(left), width).cell_length <= width
    assert Content(cut_start(left, width)).cell_length <= width
    assert that_fit([Content(left), Content(right)], width).cell_length <= width
    assert all(piece.cell_length <= width for piece in wrapped(Content(left), width, 3))
    assert paint_keys((("q", left), ("x", right)), left, width).cell_length <= width


def plain(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def test_what_is_not_in_the_run_file_takes_no_room() -> None:
    bare = made.spec("bare", job=None, wandb=None, checkpoints=None)
    report = made.report("bare").model_copy(
        update={
            "spec": bare,
            "facets": Facets(),
            "verdict": Verdict.UNKNOWN,
            "next_action": "find out why nothing of bare can be seen: no job is named",
        }
    )
    assert "why nothing of it can be seen" in list_row(report, 80)[1].plain
    assert "ages" not in plain(paint_panel(report, NOW, 60, 12))


def test_a_next_action_is_never_cut_and_its_path_keeps_file_and_line() -> None:
    act = "fix /data/home/ada/experiments/code/cockpit/demo/evaluation.py:14, then relaunch run-a"
    report = made.report(verdict=Verdict.CRITICAL, act=act, alerts=(made.alert(),))
    for width, height in ((58, 9), (64, 12), (90, 20)):
        shown = " ".join(line.plain.strip("│ ") for line in paint_panel(report, NOW, width, height))
        assert "/evaluation.py:14, then relaunch run-a" in shown
    shared = columns([report], NOW, 80)
    listed = plain(paint_row(report, NOW, 80, shared, high=height_of(report, 80)))
    assert "/evaluation.py:14, then relaunch" in " ".join(listed.split())


def test_suspect_ones_and_files_without_a_step_are_told_apart() -> None:
    spoilt = made.checkpoint(8000).model_copy(update={"suspect": "loss was nan"})
    file = made.checkpoint(0).model_copy(
        update={"step": None, "name_step": None, "path": "/data/ckpt/last.ckpt"}
    )
    found = made.checkpoints(file, made.checkpoint(7000), spoilt)
    assert found.value is not None
    pick = Pick(path="/data/ckpt/step-7000", step=7000, why="newest complete")
    found = found.model_copy(
        update={"value": found.value.model_copy(update={"relaunch_from": pick})}
    )
    report = made.failed()
    facets = report.facets.model_copy(update={"checkpoints": found})
    report = report.model_copy(update={"facets": facets})
    lines = plain(paint_checkpoints(report, NOW, 100)).splitlines()
    assert any("8,000  ▲ suspect" in line and "loss was nan" in line for line in lines)
    assert any(line.startswith("▸") and "7,000  ✓ complete" in line for line in lines)
    assert any("last.ckpt  ✓ complete" in line and "4m" in line for line in lines)
    brief = " · ".join(each.plain for each in checkpoints(report, NOW))
    assert brief.startswith("7,000 ✓ 4m") and "8,000 ▲ suspect" in brief and "last.ckpt" in brief


def test_where_run_file_and_handover_differ_the_run_says_so_with_what_helps() -> None:
    by = {"source": "logbook", "by": "ada", "remedy": 'dri = "bob" in the run file'}
    owner = OwnerNow(name="bob", differs="the run file still names ada", **by)
    differing = made.report().model_copy(update={"owner": owner})
    shown = plain(paint_facets(differing, NOW, 90))
    assert "owner        bob, handed over by ada" in shown
    assert "the run file still names ada" in shown and 'dri = "bob" in the run file' in shown
    spec = differing.spec.model_copy(update={"dri": "bob"})
    head = plain(paint_head(differing.model_copy(update={"spec": spec}), NOW, 160))
    assert "owner bob (the run file says otherwise)" in head
    assert "owner" not in plain(paint_facets(made.report(), NOW, 90))


def test_a_last_known_value_is_marked_stale() -> None:
    old = made.tracker()
    stale = made.missing().model_copy(update={"value": old.value, "observed_at": NOW - 1000})
    shown = plain(paint_facets(made.report(seen=made.facets(tracker=stale)), NOW, 90))
    assert "◷ STALE 16m" in shown
    assert "timeout: no answer in 20 s" in shown


def test_an_acknowledged_alert_says_until_when_it_is_quiet() -> None:
    report = made.failed()
    taken = Acknowledgement(by="ada", at=NOW - 60, until=NOW + 900)
    worst = report.alerts[0].model_copy(update={"acknowledged": taken})
    report = report.model_copy(update={"alerts": (worst, *report.alerts[1:])})
    until = f"ack ada until {day_time(NOW + 900, NOW)}"
    assert until in plain(ample_row(report, 120))
    long = worst.model_copy(update={"title": "Crashed: KeyError at evaluation.py:14 (exit 1)"})
    shown = plain(ample_row(report.model_copy(update={"alerts": (long,)}), 80))
    assert "evaluation.py:14" in shown and "  ack ada  " in shown
    assert until in plain(paint_head(report, NOW, 120))


def test_instants_in_evidence_are_clock_times_but_for_what_a_log_says() -> None:
    said = f"loss inf at {moment(NOW - 2513)}"
    told = made.alert("C-09", evidence=((said, "logged rows"), (said, "run.log:17")))
    report = made.report(alerts=(told,))
    for shown in (plain(paint_open(report, NOW, 100)), plain(paint_panel(report, NOW, 100, 20))):
        assert shown.count(said) == 1, "the log's own line"
        assert shown.count(f"loss inf at {clock_time(NOW - 2513, seconds=True)}") == 1


def test_the_head_says_whether_the_tracked_run_is_the_recorded_one() -> None:
    same = made.report(seen=made.facets(tracker=made.tracker(id="run-a")))
    other = made.report(seen=made.facets(tracker=made.tracker(id="run-b")))
    assert "W&B team/proj/run-a ✓ same run" in plain(paint_head(same, NOW, 200))
    assert "✗ not run-a" in plain(paint_head(other, NOW, 200))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_long_name_gives_way_to_the_verdict(width: int) -> None:
    for name in ("llama-" + "x" * 54, "日本語" * 10):
        worst = made.report(name, Verdict.CRITICAL, (made.alert(),))
        assert "■ CRITICAL" in plain(paint_head(worst, NOW, width)).splitlines()[0]
        assert "RUNNING" in plain(paint_head(worst, NOW, max(60, width))).splitlines()[0]


@pytest.mark.parametrize("loss", [1.5e-4, -1.5e-4, 123_456.0])
def test_a_loss_is_not_cut_to_another_number(loss: float) -> None:
    seen = made.facets(tracker=made.tracker(loss=loss))
    report = made.report(seen=seen)
    shared = columns([report, made.report()], NOW, 80)
    assert f"loss {number(loss)}" in paint_columns(report, NOW, shared).plain
    shown = plain(Body(report, NOW, 90)._figures(1))
    assert f"{number(loss)} 830k tok/s" in " ".join(shown.split())


def test_an_unknown_rate_is_named_on_a_line_and_so_is_a_step_that_nobody_saw() -> None:
    lost = made.report(step=None, seen=made.facets(tracker=made.tracker(throughput=None)))
    head = plain(paint_head(lost, NOW, 120, figures=True))
    assert "rate ?" in head and "no step seen" in head
    for width in (60, 80, 120):
        (line,) = Body(lost, NOW, width)._step(1, ("loss", "curve", "rate"))
        assert "no step seen" in line.plain and not line.plain.rstrip().endswith("…")


def test_the_header_counts_and_says_who_watches() -> None:
    reports = made.fleet()
    wide = paint_header(reports, Watch("ada"), reports, 200).plain
    assert "5 runs   ■ 2 critical   ▲ 1 attention   ? 1 unknown   ● 1 healthy" in wide
    assert "watch: this cockpit · check 08:56" in wide
    assert wide.rstrip().endswith("ada  READ-WRITE")
    narrow = paint_header(reports, Watch("ada", read_only=True), reports, 80).plain
    assert "■ 2 critical  ▲ 1 attention  ? 1 unknown  ● 1 healthy" in narrow
    assert narrow.rstrip().endswith("ada  RO")
    assert "STOPPED" in paint_header(reports, Watch(stopped="why"), reports, 200).plain


def test_a_sick_run_is_counted_as_sick_before_all_of_it_is_read() -> None:
    reports = [each.model_copy(update={"not_read_yet": "its rows"}) for each in made.fleet()]
    said = paint_header(reports, Watch("ada"), reports, 200).plain
    assert "■ 2 critical   ▲ 1 attention   ◷ 2 not read yet" in said and "healthy" not in said
    assert {facts.verdict_word(each) for each in reports} == {
        "CRITICAL", "ATTENTION", "NOT READ YET"
    }  # fmt: skip


def test_a_title_that_is_too_long_keeps_its_place_in_the_code() -> None:
    title = "ended, not success: exit 1 · small code bug at evaluation.py:14"
    report = made.failed()
    worst = report.alerts[0].model_copy(update={"title": title})
    report = report.model_copy(update={"alerts": (worst, made.alert("C-08"))})
    for width in (70, 80):
        said = plain(paint_head(report, NOW, width)).splitlines()[1]
        assert "… evaluation.py:14" in said and "12m   +1 more" in said
    assert "\n  evaluation.py:14\n" in plain(paint_open(report, NOW, 60))
    assert "… evaluation.py:14" in plain(ample_row(report, 64))
    assert all(placed(Content(title), width).cell_length <= width for width in range(25, 80))


def test_a_narrow_legend_halves_no_figure() -> None:
    spiked = [*made.columns(60), *(each._replace(high=495.0) for each in made.columns(1))]
    for width in range(40, 90):
        legend = paint(Drawing(spiked, log=False), width, 12)[-1].plain
        assert "linear" in legend and ("↑" not in legend or "beyond, to 495.0" in legend)
        assert "↑ " in legend or width < 50


def test_a_job_that_gave_no_answer_is_not_said_to_run() -> None:
    running = made.job(Phase.RUNNING)
    silent = running.model_copy(
        update={"error": made.missing().error, "observed_at": made.NOW - 300, "since": made.NOW}
    )
    told = made.report(seen=made.facets(job=silent))
    assert facts.phase_words(told, made.NOW) == "was RUNNING 5m ago"
    assert facts.brief_phase(told, made.NOW) == "was RUNNING"
    over = made.job(Phase.FAILED, ended_at=made.NOW - 60)
    ended = over.model_copy(update={"error": made.missing().error})
    assert facts.phase_words(made.report(seen=made.facets(job=ended)), made.NOW).startswith("FAIL")


def test_a_remembered_end_is_as_old_as_the_end_not_as_the_last_look_at_it() -> None:
    ended = made.job(Phase.FAILED, ended_at=made.NOW - 360).model_copy(update={"remembered": True})
    told = made.report(seen=made.facets(job=ended))
    assert facts.phase_words(told, made.NOW) == "was FAILED 6m ago"
    unsaid = made.job(Phase.FAILED, ended_at=None).model_copy(update={"remembered": True})
    assert unsaid.observed_at is not None and unsaid.value is not None
    assert unsaid.value.ended_at is None
    told = made.report(seen=made.facets(job=unsaid))
    assert facts.phase_words(told, made.NOW) == "was FAILED", "a look at it is not its end"


def test_a_job_that_nobody_asked_is_not_read_yet_and_one_that_gave_no_answer_is_unknown() -> None:
    told = made.report(seen=made.facets(job=made.missing(UNASKED.kind, UNASKED.message)))
    assert facts.phase_words(told, made.NOW) == "NOT READ YET"
    assert facts.brief_phase(told, made.NOW) == "NOT READ"
    lost = made.report(seen=made.facets(job=made.missing()))
    assert facts.phase_words(lost, made.NOW) == "JOB UNKNOWN"


@pytest.mark.parametrize(
    ("phase", "step", "shown"),
    [
        (Phase.SUCCEEDED, 159, ("159/160", "100.0 %")),  # the last of 160, counted from 0
        (Phase.SUCCEEDED, 160, ("160/160", "100.0 %")),
        (Phase.SUCCEEDED, 158, ("~158/160", "98.8 %")),
        (Phase.FAILED, 159, ("~159/160", "99.4 %")),
        (Phase.RUNNING, 159, ("~159/160", "99.4 %")),
    ],
)
def test_a_run_that_is_through_is_not_about_at_its_last_step(
    phase: Phase, step: int, shown: tuple[str, str]
) -> None:
    told = made.report(step=step, final=160, seen=made.facets(job=made.job(phase)))
    assert (progress(told).plain, percent(told)) == shown


def test_a_check_that_an_engine_before_this_one_had_planned_is_not_the_next_one() -> None:
    old = made.report(next_check_at=NOW - 180, not_read_yet="job, log: not asked")
    assert paint_header([old], Watch(), [old], 80).plain.rstrip().endswith("check soon   RW")
    new = made.report("run-b", next_check_at=NOW + 60)
    said = paint_header([old, new], Watch(), [old, new], 80).plain
    assert f"check {clock_time(NOW + 60)}" in said


def test_an_end_that_somebody_here_ordered_is_no_failure() -> None:
    ended = made.job(Phase.FAILED, ended_at=made.NOW - 120.0)
    told = made.report(seen=made.facets(job=ended)).model_copy(update={"stopped_by": "ada"})
    assert facts.phase_words(told, made.NOW) == "STOPPED by ada 2m ago"
    assert facts.brief_phase(told, made.NOW) == "STOPPED 2m"
    assert job_text(told) == "STOPPED"
    assert "critical" not in facts.phase_style(told, made.NOW)


def test_a_line_of_a_traceback_keeps_its_file_line_and_function() -> None:
    frame = (
        '  File "/opt/venv/lib/python3.11/site-packages/torch/train/trainer.py", line 1323, in step'
    )
    (shown,) = paint_log_line(Content(frame), 60, 0, "", "", wraps=False)
    assert shown.plain.startswith('  File "…/') and shown.plain.endswith(
        'trainer.py", line 1323, in step'
    )
    assert shown.cell_length <= 60

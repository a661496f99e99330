import math
from pathlib import Path

import pytest

from cockpit.model.facet import known
from cockpit.model.history import CheckpointMark, PhaseMark
from cockpit.model.observed import JobValue, LogValue, Phase, Row, TrackerValue, Triage
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RunSpec
from cockpit.store.memory import KEEP_MARKS, KEEP_OBSERVATIONS, LaunchedJob, Observation, RunMemory
from cockpit.store.store import Store
from cockpit.text.safe import safe_line


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def a_report(at: float) -> RunReport:
    triage = Triage(name="killed", action="escalate", confidence="likely")
    log = LogValue(
        path="/x/run.log", size=5, mtime=at, lines=(safe_line("hello"),), triage=triage,
        rows=(Row(1, at, 2.0),),
    )  # fmt: skip
    tracker = TrackerValue(id="w", state="running", loss=math.nan, history=((1, math.inf),))
    return RunReport(
        spec=RunSpec(name="r"),
        checked_at=at,
        verdict=Verdict.CRITICAL,
        facets=Facets(
            job=known(JobValue(id="1", state="exited", phase=Phase.FAILED), "test", at),
            log=known(log, "test", at),
            tracker=known(tracker, "test", at),
        ),
        progress=Progress(step=1, final_step=2, final_step_source="x", text="~1/2"),
        next_action="look",
    )


def test_a_report_comes_back_as_it_was_shown(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(100.25))])
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.document() == a_report(100.25).document()
    assert back.facets.log.value is not None
    assert back.facets.log.value.lines[0].plain == "hello"


def test_an_older_report_does_not_replace_a_newer_one(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(200.0))])
    RunMemory(store).save_reports([("k", a_report(100.0))])
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.checked_at == 200.0


def test_a_report_of_another_shape_is_no_report(store: Store) -> None:
    with store.writing() as connection:
        connection.execute("INSERT INTO reports VALUES ('k', 1, '{\"written\": \"by 9.9\"}')")
        connection.execute("INSERT INTO reports VALUES ('l', 1, 'torn {')")
    assert RunMemory(store).report("k") is None
    assert RunMemory(store).report("l") is None


def test_hostile_lines_in_the_file_are_made_safe_again(store: Store) -> None:
    RunMemory(store).save_reports([("k", a_report(1.0))])
    with store.writing() as connection:
        connection.execute("UPDATE reports SET document = replace(document, 'hello', '\\u001b[2J')")
    back = RunMemory(store).report("k")
    assert back is not None
    assert back.facets.log.value is not None
    assert "\x1b" not in back.facets.log.value.lines[0].plain


def test_two_cockpits_make_one_observation_per_cadence(store: Store) -> None:
    memory = RunMemory(store)
    one = Observation(
        at=1000.0, verdict=Verdict.HEALTHY, phase=Phase.RUNNING, step=7, loss=math.nan
    )
    assert memory.observe("k", one, every=60.0)
    assert not memory.observe("k", one.model_copy(update={"at": 1010.0}), every=60.0)
    assert memory.observe("k", one.model_copy(update={"at": 1060.0, "loss": 2.5}), every=60.0)
    seen = memory.observations("k")
    assert [each.at for each in seen] == [1000.0, 1060.0]
    assert seen[0].loss is not None and math.isnan(seen[0].loss)
    assert seen[1].loss == 2.5
    assert [each.at for each in memory.observations("k", since=1050.0)] == [1060.0]


def test_marks_come_back_oldest_first(store: Store) -> None:
    memory = RunMemory(store)
    phases = [
        PhaseMark(at=2.0, phase=Phase.RUNNING, since=1.5),
        PhaseMark(at=1.0, phase=Phase.WAITING),
    ]
    memory.add_phases("k", phases)
    memory.add_phases("k", [PhaseMark(at=2.0, phase=Phase.FAILED, job_id="other")])
    assert memory.phases("k") == (phases[1], phases[0])
    seen_too = [mark.model_copy(update={"at": mark.at + 0.5}) for mark in phases]
    memory.add_phases("k", seen_too)
    assert memory.phases("k") == (phases[1], phases[0]), "another cockpit saw the same"
    memory.add_checkpoint_marks("k", [CheckpointMark(at=3.0, complete=2, newest=400)])
    assert memory.checkpoint_marks("k") == (CheckpointMark(at=3.0, complete=2, newest=400),)


def test_the_last_launch_is_the_newest(store: Store) -> None:
    memory = RunMemory(store)
    memory.add_launch("k", LaunchedJob(at=20.0, job_id="b", launch_id="r-i002"))
    memory.add_launch("k", LaunchedJob(at=10.0, job_id="a", launch_id="r-i001"))
    assert memory.launches("k")[-1] == LaunchedJob(at=20.0, job_id="b", launch_id="r-i002")


def test_pruning_bounds_the_file(store: Store) -> None:
    memory, now = RunMemory(store), 1e9
    old = Observation(at=now - KEEP_OBSERVATIONS - 1, verdict=Verdict.HEALTHY)
    memory.observe("k", old, every=1.0)
    memory.observe("k", old.model_copy(update={"at": now - 10}), every=1.0)
    marks = [PhaseMark(at=float(n), phase=Phase.RUNNING) for n in range(KEEP_MARKS + 30)]
    memory.add_phases("k", marks)
    memory.add_phases("other", marks[:3])
    memory.prune(now)
    assert [each.at for each in memory.observations("k")] == [now - 10]
    with store.reading() as connection:
        counts = connection.execute("SELECT run, count(*), min(at) FROM phases GROUP BY run")
        assert sorted(counts) == [("k", KEEP_MARKS, 30.0), ("other", 3, 0.0)]

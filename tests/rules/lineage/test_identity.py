"""C-13: who names another W&B run than the recorded one, and a tracker that stands still.

C-18 while a job runs: which settings differ from the prior instance's.

C-16 while a job runs: who writes elsewhere, and what may only be another name of one folder.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import pytest

from cockpit.model.alert import Alert, Severity
from cockpit.model.jobs import Snapshot
from cockpit.model.logtext import Skipped
from cockpit.model.observed import Phase, RecordsValue, Row
from cockpit.model.run import CheckpointSpec, RecordsSpec, RunSpec, WandbSpec
from cockpit.model.shared_facts import Announced
from cockpit.rules.lineage import drift
from cockpit.rules.lineage.drift import Memo, alike, config_drifts
from cockpit.rules.lineage.identity import identity_drifts
from cockpit.rules.lineage.paths import output_elsewhere
from tests.rules.making import (
    CADENCE,
    T0,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    log,
    losses,
    monitor,
    run_spec,
    settings_of,
    tracker,
)

PAGE = "https://wandb.ai/e/p/runs/"
RECORDED = WandbSpec(entity="e", project="p", id="toy", name="Toy")


def found(run: RunSpec | None = None, **facets: Any) -> list[str]:
    past = history(T0 + 60, **{"job": job(), **facets})
    return [each.title for each in identity_drifts(run or run_spec(wandb=RECORDED), past)]


@pytest.mark.parametrize(
    ("active", "said"),
    [
        ({"id": "other"}, "id other is active, toy is recorded"),
        ({"project": "q"}, "project q is active, p is recorded"),
        ({"entity": "f"}, "entity f is active, e is recorded"),
        ({"name": "Toy 2"}, "name Toy 2 is active, Toy is recorded"),
    ],
)
def test_the_active_identity_against_the_recorded_one(active: dict[str, str], said: str) -> None:
    assert found(tracker=tracker(**active)) == [f"W&B run does not match: {said}"]
    assert found(tracker=tracker(id="toy", project=None)) == [], "what is not told is not another"
    assert found(tracker=tracker(**active), job=job(Phase.WAITING)) == []


def test_a_recorded_address_stands_for_its_parts() -> None:
    run = run_spec(wandb=WandbSpec(url=f"{PAGE}toy"))
    assert found(run, tracker=tracker(id="toy", project="p", entity="e")) == []
    assert found(run, tracker=tracker(id="toy", project="q")) != []


def test_the_page_in_the_log_and_the_one_in_a_state_file() -> None:
    other = Announced(wandb=f"{PAGE}abc")
    assert found(log=log("x", announced=other))[0].endswith("another id than recorded")
    assert found(log=log("x", announced=Announced(wandb=f"{PAGE}toy"))) == []
    former = Announced(wandb=f"{PAGE}abc", wandb_at=T0 - 60)
    assert found(log=log("x", announced=former)) == [], "printed by the job before this one"
    assert found(monitor=monitor(T0, wandb=f"{PAGE}old")) != []
    assert found(monitor=monitor(T0, fresh=False, wandb=f"{PAGE}old")) == [], "C-03 says it is dead"
    assert found(monitor=monitor(T0, wandb="not an address")) == []


def test_the_folder_that_the_client_names_as_the_job_begins() -> None:
    def beside(*ids: str, at: float = T0 + 5) -> list[str]:
        named = Announced(wandb_ids=tuple((each, at) for each in ids))
        return found(log=log("x", announced=named))

    assert "rows are saved as run abc" in beside("abc")[0]
    assert beside("toy", "eval-1") == [], "an evaluation's run beside its own"
    assert beside("abc", at=T0 - 60) == [], "of the job before this one"
    assert beside(*(f"rank-{n}" for n in range(8))) == [], "its own may have been one more"


def test_a_folder_named_in_a_log_whose_beginning_was_not_read_may_be_an_evaluations() -> None:
    named = Announced(wandb_ids=(("eval-1", T0 + 50),))
    left = Skipped(bytes=9, ranges=((0, 9),))
    run = run_spec(wandb=RECORDED)

    def titles(skipped: Skipped | None, first: float) -> list[str]:
        past = history(T0 + 60, job=job(), log=log("x", announced=named, skipped=skipped))
        pace = past.log_trend.pace.model_copy(update={"first_at": first})
        trend = past.log_trend.model_copy(update={"pace": pace})
        past = past.model_copy(update={"log_trend": trend})
        return [each.title for each in identity_drifts(run, past)]

    assert titles(left, T0 + 40) == []
    assert titles(None, T0 + 40) != []
    assert titles(left, T0 - 40) != [], "the job before it was read, so its own beginning was"


def untouched(written: float, cadence: float = 700.0, **changes: Any) -> list[str]:
    """Of a job that began at T0, trains since T0 + 30 and was looked at 20 minutes later."""
    rows = tuple(Row(100 + each, T0 + 30.0 * each, 2.0) for each in range(1, 40))
    value = tracker(step=500, last_step_at=written, file_mtime=written, **changes)
    shown = log("x", mtime=T0 + 1200, rows=rows)
    past = history(T0 + 1200, job=job(started_at=T0), tracker=value, log=shown)
    run = run_spec(cadence=cadence)
    return [each.title for each in identity_drifts(run, past)]


def test_a_job_whose_tracker_was_not_even_opened_is_told_of_before_one_that_stands_still() -> None:
    nothing = ["W&B has nothing of this job, whose log shows steps"]
    assert untouched(T0 - 100) == nothing
    assert untouched(T0 - 100, heartbeat_at=T0 + 20) == [], "its client is there"
    assert untouched(T0 - 100, cadence=1300.0) == [], "no cadence of steps yet"
    assert untouched(T0 - 100, clock_offset_s=3600.0) == [], "no clock tells"


def test_an_id_that_another_slurm_job_writes_to() -> None:
    ours = job(id="71")
    theirs = tracker(slurm_job_id="72", last_record_at=T0 + 9)
    assert "job 72 writes to id toy" in found(job=ours, tracker=theirs)[0]
    former = tracker(slurm_job_id="70", last_record_at=T0 - 9)
    assert found(job=ours, tracker=former) == [], "of the previous job"
    assert found(job=job(id="71_4"), tracker=theirs) == [], "an array names its tasks otherwise"


def test_a_resume_policy_that_is_not_the_recorded_one_or_was_not_kept() -> None:
    used = Snapshot(launch_id="toy-i002", at=T0, action="relaunch",
                    command=("env", "WANDB_RESUME=never", "python", "t.py"))  # fmt: skip
    assert "resume policy never is used" in found(used=used)[0]
    never = run_spec(wandb=WandbSpec(id="toy", resume="never"))
    assert found(never, used=used) == []
    assert found(never, tracker=tracker(fragments=("run-1-toy", "run-2-toy"))) != []
    assert found(never, tracker=tracker(fragments=("run-1-toy",))) == []


def stopped(rows_until: float, **changes: Any) -> list[str]:
    """A tracker whose rows end at T0 + 99, beside a log that shows steps until then."""
    rows = (Row(5000, T0 + rows_until, 2.0),)
    value = tracker(last_step_at=T0 + 99, step=99, **changes)
    past = history(T0 + rows_until, folded(losses([2.0] * 100)), job=job(), tracker=value,
                   log=log("x", mtime=T0 + rows_until, rows=rows))  # fmt: skip
    return [each.key for each in identity_drifts(run_spec(), past)]


def test_a_tracker_that_stands_still_while_the_log_shows_steps() -> None:
    late = 99 + 2 * CADENCE + 1
    assert stopped(late) == ["C-13:toy:still"]
    assert stopped(late - 2) == []
    assert stopped(late, producer="0.31.0") == [], "its client writes now and then"
    assert stopped(late + 15, producer="0.31.0") != []


def test_a_tracker_is_not_late_for_the_time_in_which_its_job_was_down() -> None:
    begun = T0 + 9000

    def still(trained: float, last: float = T0 + 99) -> list[float]:
        rows = tuple(Row(40 + n, begun + 60.0 * n, 2.0) for n in range(1, int(trained / 60) + 1))
        value = tracker(last_step_at=last, step=99_000, heartbeat_at=begun + 5)
        past = history(begun + trained, folded(losses([2.0] * 100)), job=job(started_at=begun),
                       tracker=value, log=log("x", mtime=begun + trained, rows=rows))  # fmt: skip
        return [each.since for each in identity_drifts(run_spec(), past)]

    assert still(120.0) == still(60 + 2 * CADENCE) == [], "the first steps after hours down"
    assert still(120 + 2 * CADENCE) == [begun + 60], "more than two cadences of its own steps"
    assert still(120 + 2 * CADENCE, last=begun + 181) == []


LOST, BEGUN = T0 + 1500, T0 + 3600


@lru_cache
def steps_of_a_relaunch(first: float, pauses: int) -> tuple[Row, ...]:
    """Two steps a second until the job is lost; the next one goes on there at ``first``."""
    rows = [Row(step, T0 + step / 2, 2.0) for step in range(1, 3001)]
    every = 3000 // pauses if pauses else 3001
    return (*rows, *(Row(3001 + n, first + n / 2 + 3 * (n // every), 2.0) for n in range(3001)))


@pytest.mark.parametrize("pauses", [0, 100], ids=["no pause", "more pauses than are kept"])
def test_a_tracker_that_ended_with_its_job_is_missed_after_a_relaunch_without_a_step_back(
    pauses: int,
) -> None:
    rows = steps_of_a_relaunch(BEGUN + 60, pauses)

    def told(until: float, kept: int = 30, cadence: float = CADENCE, **written: float) -> list[str]:
        shown = tuple(row for row in rows if row.at is not None and row.at <= until)
        value = tracker(last_step_at=LOST, step=3000, **written)
        past = history(until, folded([]), job=job(started_at=BEGUN), tracker=value,
                       log=log("x", mtime=until, rows=shown[-kept:]))  # fmt: skip
        past = past.model_copy(update={"log_trend": folded(shown)})
        found = list(identity_drifts(run_spec(cadence=cadence), past))
        assert all(each.since == (BEGUN if pauses else BEGUN + 60) for each in found)
        return [each.title for each in found]

    heard = BEGUN + 5
    stopped = ["W&B has stopped while the log shows steps"]
    assert told(BEGUN + 62, heartbeat_at=heard) == []
    assert told(BEGUN + 60 + 2 * CADENCE, 1000, heartbeat_at=heard) == []
    assert told(BEGUN + 1500, heartbeat_at=heard) == stopped
    nothing = ["W&B has nothing of this job, whose log shows steps"]
    assert told(BEGUN + 1500, cadence=1000.0) == nothing, "not even its beginning"


def test_a_clock_that_is_off_is_no_tracker_that_stands_still() -> None:
    late, rows = T0 + 3700, tuple(Row(step, T0 + 30 * step, 2.0) for step in range(0, 121, 10))

    def still(step: int, shown: tuple[Row, ...] = rows, off: float | None = None) -> bool:
        value = tracker(last_step_at=T0, step=step)
        written = log("x", mtime=late, rows=shown, clock_offset_s=off)
        past = history(late, job=job(), tracker=value, log=written)
        return any(identity_drifts(run_spec(), past))

    assert not still(120) and not still(119), "the tracker has the log's steps"
    assert still(120 - 2 * int(CADENCE) // 30 - 20), "the log has gone on without it"
    assert still(3, rows[-1:]) and not still(3, rows[-1:], off=-3600.0), "steps cannot tell"


def config_found(was: dict[str, Any], now: dict[str, Any], **more: Any) -> list[Alert]:
    given = {"job": job(), "settings": settings_of(now), "former_settings": settings_of(was)}
    return list(config_drifts(run_spec(), history(T0 + 60, **{**given, **more})))


@pytest.mark.parametrize(
    ("was", "now", "severity"),
    [
        ({"optim": {"lr": 1e-4}}, {"optim": {"lr": 3e-4}}, Severity.ALERT),
        ({"seed": 0}, {"seed": 1}, Severity.ALERT),
        ({"comment": "a"}, {"comment": "b"}, Severity.WARNING),
        ({"lr": "1e-4", "bf16": "true"}, {"lr": 0.0001, "bf16": True}, None),
        ({"batch": 8}, {"batch": 8.0, "world_batch": 64}, None),
        ({"batch": 8, "gone": 1}, {"batch": 8}, None),
        ({"resume_from_checkpoint": None}, {"resume_from_checkpoint": "/c/step-5"}, None),
        ({"timestamp": 1, "_wandb": {"t": 1}}, {"timestamp": 2, "_wandb": {"t": 2}}, None),
        ({"output_dir": "/a"}, {"output_dir": "/b"}, None),
    ],
)
def test_what_counts_as_a_difference(
    was: dict[str, Any], now: dict[str, Any], severity: Severity | None
) -> None:
    alerts = config_found(was, now)
    assert [each.severity for each in alerts] == ([] if severity is None else [severity])
    assert config_found(was, now, job=job(Phase.FAILED)) == []


def test_both_values_are_told_those_that_matter_first() -> None:
    was = {"zzz": 1, "lr": 1, "note": "a", "data": {"path": "x"}}
    now = {"zzz": 2, "lr": 2, "note": "b", "data": {"path": "y"}}
    (alert,) = config_found(was, now)
    assert [line.text for line in alert.evidence] == [
        'data.path: "x" → "y"', "lr: 1 → 2", 'note: "a" → "b"', "zzz: 1 → 2",
    ]  # fmt: skip
    many = {f"k{number}": number for number in range(40)}
    (alert,) = config_found(many, {key: -1 for key in many})
    assert alert.evidence[-1].text == "and 28 more settings"


def test_what_the_last_launch_has_recorded_goes_before_the_former_job() -> None:
    used = Snapshot(launch_id="i2", at=T0, action="relaunch", command=("t",), config={"lr": "2"})
    assert config_found({"lr": 1}, {"lr": 2}, used=used) == []
    assert "launch i2" in config_found({"lr": 3}, {"lr": 3}, used=used)[0].title


def test_values_that_differ_only_in_type_are_one() -> None:
    assert alike('"None"', "null") and alike('"0.5"', "0.5") and alike('"False"', "false")
    assert not alike('"1e-4"', "0.001") and not alike("0.1", "0.2") and not alike('"a"', '"b"')


BUCKET = run_spec(output_root="gs://b/toy", checkpoints=CheckpointSpec(path=("gs://b/toy/ck",)))
LOCAL = run_spec(output_root="/data/toy", checkpoints=CheckpointSpec(path=("/data/toy/ck",)))


def output_found(run: RunSpec, config: dict[str, Any] | None = None, **more: Any) -> list[str]:
    settings = None if config is None else settings_of(config)
    past = history(T0 + 600, **{"job": job(), **more}, settings=settings)
    return [line.text for each in output_elsewhere(run, past) for line in each.evidence]


@pytest.mark.parametrize(
    ("run", "path", "fires"),
    [
        (BUCKET, "gs://b/toy/ck/", False),
        (BUCKET, "gs://b/toy2", True),
        (BUCKET, "gs://other/toy", True),
        (BUCKET, "out", False),
        (LOCAL, "/data/toy/ck", False),
        (LOCAL, "/data/other", True),
        (LOCAL, "/mnt/real/toy/ck", False),
    ],
)
def test_where_the_config_says_that_it_writes(run: RunSpec, path: str, fires: bool) -> None:
    assert bool(output_found(run, {"trainer": {"output_dir": path}})) is fires
    assert output_found(run, {"load_checkpoint_path": path, "data": {"cache_dir": path}}) == []
    assert output_found(run, {"output_dir": path}, job=job(Phase.SUCCEEDED)) == []


def test_a_path_of_this_machine_is_no_other_where_the_saves_arrive() -> None:
    config = {"output_dir": "/workspace/results"}
    assert output_found(LOCAL, config) != []
    saved = checkpoints(checkpoint(5, T0 + 300))
    assert output_found(LOCAL, config, checkpoints=saved) == []
    assert output_found(LOCAL, config, checkpoints=checkpoints(checkpoint(5, T0 - 300))) != []
    assert output_found(BUCKET, {"output_dir": "gs://c/x"}, checkpoints=saved) != []


def launched(*command: str, root: str | None = None) -> Snapshot:
    return Snapshot(launch_id="i1", at=T0, action="launch", command=command, output_root=root)


def test_what_a_container_is_given_under_another_name_is_no_other_place() -> None:
    words = ("docker", "run", "-v", "/data/toy:/out", "img", "t", "--output_dir")
    assert output_found(LOCAL, {"output_dir": "/out"}, used=launched(*words, "/out")) == []
    assert output_found(LOCAL, used=launched(*words, "/tmp/x")) != []


def test_the_launch_as_recorded_and_the_region_that_its_command_asks_for() -> None:
    assert output_found(BUCKET, used=launched("t", "--output_dir", "gs://b/old")) != []
    assert output_found(BUCKET, used=launched("t", root="gs://b/old")) != []
    far = run_spec(output_root="gs://lab-us-east5/toy")
    (text,) = output_found(far, used=launched("t", "--region", "us-central2"))
    assert text == "gs://lab-us-east5/toy is in us-east5, the job's --region says us-central2"
    assert output_found(far, used=launched("t", "--zone", "us-east5-a")) == []
    assert output_found(far) == []


def test_what_the_logbook_records_is_held_against_the_run_file() -> None:
    def book(root: str | None) -> Any:
        return RecordsValue(logbook="book.md", output_root=root)

    (text,) = output_found(BUCKET, records=book("`gs://b/old`"))
    assert text == "the logbook records gs://b/old, cockpit.toml says gs://b/toy"
    for root in (None, "gs://b/toy/", "to be told", "`gs://b/toy`"):
        assert output_found(BUCKET, records=book(root)) == []
    saved = checkpoints(checkpoint(5, T0 + 300))
    assert output_found(LOCAL, records=book("/mnt/x")) != []
    assert output_found(LOCAL, records=book("/mnt/x"), checkpoints=saved) == [], (
        "the same by another name"
    )


def test_a_record_that_cannot_be_read_any_more_closes_nothing() -> None:
    config = settings_of({"output_dir": "gs://b/toy"})
    book = RecordsValue(logbook="book.md", output_root="gs://b/old")
    run = BUCKET.model_copy(update={"records": RecordsSpec(logbook="book.md")})
    (alert,) = output_elsewhere(run, history(T0, job=job(), settings=config, records=book))
    blind = history(T0 + 60, job=job(), settings=config, open=(alert,))
    assert list(output_elsewhere(run, blind)) == [alert]
    assert list(output_elsewhere(BUCKET, blind)) == [], "a run without a logbook"


def test_it_is_asked_once_for_the_same_objects_and_never_grows_without_bound() -> None:
    asked: list[object] = []

    def size(values: dict[str, int]) -> int:
        asked.append(values)
        return len(values)

    known = Memo(size)
    one, other = {"a": 1}, {"a": 1}
    assert (known(one), known(one), known(other)) == (1, 1, 1)
    assert len(asked) == 2, "equal is not the same: it may change later"
    kept = [{str(number): number} for number in range(drift.MOST)]
    for each in kept:
        known(each)
    assert known(one) == 1 and len(asked) == drift.MOST + 3, "the oldest is made again"

"""C-16 while a job runs: who writes elsewhere, and what may only be another name of one folder."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.jobs import Snapshot
from cockpit.model.observed import Phase, RecordsValue
from cockpit.model.run import CheckpointSpec, RecordsSpec, RunSpec
from cockpit.rules.lineage.paths import output_elsewhere
from tests.rules.making import T0, checkpoint, checkpoints, history, job, run_spec, settings_of

BUCKET = run_spec(output_root="gs://b/toy", checkpoints=CheckpointSpec(path=("gs://b/toy/ck",)))
LOCAL = run_spec(output_root="/data/toy", checkpoints=CheckpointSpec(path=("/data/toy/ck",)))


def found(run: RunSpec, config: dict[str, Any] | None = None, **more: Any) -> list[str]:
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
    assert bool(found(run, {"trainer": {"output_dir": path}})) is fires
    assert found(run, {"load_checkpoint_path": path, "data": {"cache_dir": path}}) == []
    assert found(run, {"output_dir": path}, job=job(Phase.SUCCEEDED)) == []


def test_a_path_of_this_machine_is_no_other_where_the_saves_arrive() -> None:
    config = {"output_dir": "/workspace/results"}
    assert found(LOCAL, config) != []
    saved = checkpoints(checkpoint(5, T0 + 300))
    assert found(LOCAL, config, checkpoints=saved) == []
    assert found(LOCAL, config, checkpoints=checkpoints(checkpoint(5, T0 - 300))) != []
    assert found(BUCKET, {"output_dir": "gs://c/x"}, checkpoints=saved) != []


def launched(*command: str, root: str | None = None) -> Snapshot:
    return Snapshot(launch_id="i1", at=T0, action="launch", command=command, output_root=root)


def test_what_a_container_is_given_under_another_name_is_no_other_place() -> None:
    words = ("docker", "run", "-v", "/data/toy:/out", "img", "t", "--output_dir")
    assert found(LOCAL, {"output_dir": "/out"}, used=launched(*words, "/out")) == []
    assert found(LOCAL, used=launched(*words, "/tmp/x")) != []


def test_the_launch_as_recorded_and_the_region_that_its_command_asks_for() -> None:
    assert found(BUCKET, used=launched("t", "--output_dir", "gs://b/old")) != []
    assert found(BUCKET, used=launched("t", root="gs://b/old")) != []
    far = run_spec(output_root="gs://lab-us-east5/toy")
    (text,) = found(far, used=launched("t", "--region", "us-central2"))
    assert text == "gs://lab-us-east5/toy is in us-east5, the job's --region says us-central2"
    assert found(far, used=launched("t", "--zone", "us-east5-a")) == []
    assert found(far) == []


def test_what_the_logbook_records_is_held_against_the_run_file() -> None:
    def book(root: str | None) -> Any:
        return RecordsValue(logbook="book.md", output_root=root)

    (text,) = found(BUCKET, records=book("`gs://b/old`"))
    assert text == "the logbook records gs://b/old, cockpit.toml says gs://b/toy"
    for root in (None, "gs://b/toy/", "to be told", "`gs://b/toy`"):
        assert found(BUCKET, records=book(root)) == []
    saved = checkpoints(checkpoint(5, T0 + 300))
    assert found(LOCAL, records=book("/mnt/x")) != []
    assert found(LOCAL, records=book("/mnt/x"), checkpoints=saved) == [], "the same by another name"


def test_a_record_that_cannot_be_read_any_more_closes_nothing() -> None:
    config = settings_of({"output_dir": "gs://b/toy"})
    book = RecordsValue(logbook="book.md", output_root="gs://b/old")
    run = BUCKET.model_copy(update={"records": RecordsSpec(logbook="book.md")})
    (alert,) = output_elsewhere(run, history(T0, job=job(), settings=config, records=book))
    blind = history(T0 + 60, job=job(), settings=config, open=(alert,))
    assert list(output_elsewhere(run, blind)) == [alert]
    assert list(output_elsewhere(BUCKET, blind)) == [], "a run without a logbook"

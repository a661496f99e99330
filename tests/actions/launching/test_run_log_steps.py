"""The HPC run log of a run, kept by the actions and by the watch (SPEC S-12)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.actions.launching.launch import to_create
from cockpit.actions.stopping.stop import Stop
from cockpit.model.clock import SystemClock
from cockpit.model.observed import Phase
from cockpit.model.plan import Outcome
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.logbook.reading import read_logbook
from cockpit.records.logbook.run_logs import experiments_of, new_run_log, run_log_of, timeline_of
from cockpit.services.follow_up import write_end
from tests.actions.contexts import alert, report
from tests.actions.launch_place import Place, approve, save, states
from tests.actions.resting import Rest
from tests.actions.resting import job as living
from tests.rules.making import T0, job, run_spec

NOTES = "\n## Notes\n\nwritten by hand, * as it is *  \n"


def named(folder: Path, run_type: str = "replication") -> RecordsSpec:
    log = folder / "run_logs" / "grug" / "2026-03-11_train.md"
    return RecordsSpec(run_log=str(log), run_type=run_type)


def text(place: Place | Rest) -> str:
    return text_of(place.spec)


def text_of(run: RunSpec) -> str:
    return Path(run.records.run_log or "").read_text()


def put(run: RunSpec, data: bytes) -> None:
    log = Path(run.records.run_log or "")
    log.parent.mkdir(parents=True)
    log.write_bytes(data)


async def test_a_launch_begins_it_and_lists_it_once(tmp_path: Path) -> None:
    place = Place(tmp_path, phase=None, changes={"records": named(tmp_path, "experiment (lr)")})
    result = await place.act("launch")
    assert result.outcome is Outcome.DONE and states(result.steps)["run-log"] == "done", result
    log = text(place)
    assert "- run_type: experiment (lr)" in log and "(toy-i001)" in log
    assert "- script: `train --config c.json" in log and log.count("## Job") == 1
    group = tmp_path / "run_logs" / "grug"
    assert "1. `2026-03-11_train.md`" in (group / "timeline.md").read_text()
    assert "| toy" in (tmp_path / "run_logs" / "experiments.md").read_text()


async def test_a_relaunch_appends_its_job_and_leaves_the_rest(tmp_path: Path) -> None:
    place = Place(tmp_path, changes={"records": named(tmp_path)})
    saved = save(place.root / "checkpoints", 80)
    put(place.spec, new_run_log("train", "toy", {"Job": {"execution_id": "1"}}) + NOTES.encode())
    blocks = [check.id for check in (await place.plan()).checks if check.stands_in_the_way]
    result = await place.act(approvals=tuple(map(approve, blocks)))
    assert result.outcome is Outcome.DONE, result.message
    after = text(place)
    assert after.count("## Job") == 2 and after.endswith(NOTES)
    block = after.partition("## Job (resumed)")[2]
    assert "(toy-i001)" in block and f"- resumed from: `{saved}` (step 80)" in block


async def test_the_job_block_that_a_person_left_empty_is_filled_in(tmp_path: Path) -> None:
    place = Place(tmp_path, phase=None, changes={"records": named(tmp_path)})
    put(place.spec, new_run_log("train", "toy", {}))
    assert (await place.act("launch")).outcome is Outcome.DONE
    assert text(place).count("## Job") == 1 and "(toy-i001)" in text(place)


async def test_what_cannot_be_written_is_said_and_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "run_logs").write_text("a file stands where the folder should be")
    place = Place(tmp_path, phase=None, changes={"records": named(tmp_path)})
    result = await place.act("launch")
    assert (result.outcome, result.recorded) == (Outcome.DONE, False)
    assert "run-log:" in result.message


async def test_a_stop_is_a_line_of_its_status(tmp_path: Path) -> None:
    rest = Rest(tmp_path, Stop(), records=named(tmp_path))
    rest.platform.living = (living("pid:7"),)
    (tmp_path / "exit").unlink()
    plan = await rest.plan(reason="a new dataset")
    result = await rest.service.act(rest.request(reason="a new dataset"), plan.words)
    assert result.outcome is Outcome.DONE, result.message
    line = next(line for line in text(rest).splitlines() if "stopped by ada" in line)
    assert line.endswith("a new dataset") and line.startswith("- 20")


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
async def test_the_end_of_a_job_is_written_once(tmp_path: Path, phase: Phase) -> None:
    run = run_spec(records=named(tmp_path))
    put(run, new_run_log("train", "toy", {}))
    ended = job(phase, id="pid:7", launch_id="toy-i001", exit_code=3, ended_at=T0 + 60)
    opened = [alert("C-01")] if phase is Phase.FAILED else []
    for now in (T0 + 61, T0 + 900):
        assert await write_end(report(run, opened, now, job=ended), SystemClock()) is None
    how = "completed" if phase is Phase.SUCCEEDED else "failed"
    stamp = datetime.fromtimestamp(T0 + 60, tz=UTC).strftime("%Y-%m-%d %H:%M")
    (line,) = [each for each in text_of(run).splitlines() if "(toy-i001, pid:7)" in each]
    assert line.startswith(f"- {stamp}") and f"{how}, exit code 3" in line


async def test_a_stop_that_was_ordered_is_no_failure_in_it(tmp_path: Path) -> None:
    run = run_spec(records=named(tmp_path))
    put(run, b"# train\n")
    ended = job(Phase.FAILED, id="pid:7", exit_code=143, ended_at=T0)
    assert await write_end(report(run, [], job=ended), SystemClock()) is None
    assert text_of(run) == "# train\n"


def test_a_folder_gives_the_newest_of_the_run_else_a_new_name(tmp_path: Path) -> None:
    assert run_log_of(str(tmp_path), "toy", T0).parent == tmp_path
    assert run_log_of(str(tmp_path), "../../toy", T0).parent == tmp_path
    for name in ("2026-01-01_toy.md", "2026-02-01_toy.md", "2026-03-01_toy_b.md", "x_toy.md"):
        (tmp_path / name).touch()
    assert run_log_of(str(tmp_path), "toy", T0).name == "2026-02-01_toy.md"


def test_lists_keep_what_a_person_has_decided(tmp_path: Path) -> None:
    path = tmp_path / "run_logs" / "arx5_multitask" / "2026-02-20_train.md"
    place, edit = timeline_of(path, T0)
    listed = edit(b"")
    assert place.name == "timeline.md" and listed.startswith(b"# Arx5 Multitask Timeline")
    assert edit(listed) == listed and b"Friday, Feb 20th" in listed
    place, row = experiments_of(path, "toy", "lower LR")
    assert place == tmp_path / "run_logs" / "experiments.md"
    kept = row(b"").replace(b"running", b"keep")
    assert row(kept) == kept and b"keep" in kept


def test_an_issue_is_made_only_where_none_is_named_or_linked() -> None:
    made = run_spec(records=RecordsSpec(issue_repo="ada/runs"))
    linked = "# r\n\n## Run Contract\n- Issue: https://github.com/ada/runs/issues/7\n"
    assert to_create(made, None) and to_create(made, read_logbook("# r\n"))
    assert not to_create(made, read_logbook(linked))
    assert not to_create(run_spec(records=RecordsSpec()), None)
    named = RecordsSpec(issue="https://github.com/ada/runs/issues/1", issue_repo="ada/runs")
    assert not to_create(run_spec(records=named), None)

"""A launch id is given out once, whatever became of the store that knew it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.actions.core.guards import Noted, noted_ids
from cockpit.hosts import notes
from cockpit.model.run import JobSpec, RecordsSpec, RunSpec
from tests.actions.toys import World, request

BOOK = """# toy

## Launched Instances

### 2026-01-01 00:00 UTC - toy-i007

## Event Log
relaunched by hand as `toy-i009`; not ours: my-toy-i200, toy-i300-eval
"""


@pytest.fixture
def run(tmp_path: Path) -> RunSpec:
    (tmp_path / "toy.md").write_text(BOOK)
    job = JobSpec(kind="local", pid_file=str(tmp_path / "pids" / "run.pid"))
    records = RecordsSpec(logbook=str(tmp_path / "toy.md"))
    return RunSpec(name="toy", output_root=str(tmp_path / "out"), job=job, records=records)


async def test_they_count_from_the_logbook_the_root_and_beside_the_pid_file(
    run: RunSpec, tmp_path: Path
) -> None:
    assert await noted_ids(run) == Noted(frozenset({"toy-i007", "toy-i009"}))
    notes.note_intent(tmp_path / "out" / notes.BELOW, "toy-i011", {})
    notes.claim_launch(tmp_path / "pids" / notes.BELOW, "toy-i012", {"state": "ended"})
    notes.claim_launch(tmp_path / "pids" / notes.BELOW, "other-i099", {})
    known = {"toy-i007", "toy-i009", "toy-i011", "toy-i012"}
    assert await noted_ids(run) == Noted(frozenset(known))


async def test_what_is_not_there_names_none(run: RunSpec, tmp_path: Path) -> None:
    (tmp_path / "toy.md").unlink()
    assert await noted_ids(run) == Noted(frozenset())


async def test_what_cannot_be_read_may_name_any_and_the_plan_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert not [check for check in (await world.service.plan(request())).checks
                if check.id == "launch-ids"]  # fmt: skip
    (tmp_path / "logbook.md").symlink_to("logbook.md")
    plan = await world.service.plan(request())
    (told,) = (check for check in plan.checks if check.id == "launch-ids")
    assert told.level.value == "warn" and not plan.blocked
    assert "not all earlier launch ids could be read" in told.text
    assert f"{tmp_path}/logbook.md: too many levels" in told.text

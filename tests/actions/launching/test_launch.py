from __future__ import annotations

from pathlib import Path

import pytest

from cockpit.actions.checks.checkpoint import initialize_from, marked_step, named_step
from cockpit.model.observed import Phase
from cockpit.model.plan import Level, Outcome
from cockpit.model.run import CheckpointSpec
from cockpit.store.launches import FollowupStore
from cockpit.store.memory import RunMemory
from tests.actions.contexts import by_id, hard, soft
from tests.actions.launch_place import Place, approve, save
from tests.rules.making import run_spec


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path, phase=None)


async def test_a_run_that_never_was_is_launched_and_written_down(place: Place) -> None:
    plan = await place.plan("launch")
    assert plan.words == "launch toy"
    assert not plan.blocked, [check for check in plan.checks if check.stands_in_the_way]
    result = await place.act("launch")
    assert (result.outcome, result.launch_id) == (Outcome.DONE, "toy-i001"), result.message
    assert place.platform.living == ["toy-i001"]
    followup = FollowupStore(place.store).last(place.key)
    assert followup is not None and followup.resumes_from is None
    assert RunMemory(place.store).launches(place.key)
    assert place.book.commits == ["toy: log launch"]
    assert "Resumed from" not in place.book.instances[0].fields


async def test_what_has_a_job_or_a_checkpoint_is_relaunched(place: Place) -> None:
    save(place.root / "checkpoints", 8)
    assert hard(by_id((await place.plan("launch")).checks, "C-17"))
    await place.act("launch")
    assert place.platform.submitted == []


async def test_from_scratch_is_the_dri_s_alone(place: Place) -> None:
    place.phase = Phase.FAILED
    save(place.root / "checkpoints", 8, complete=False)
    plan = await place.plan("launch")
    assert soft(by_id(plan.checks, "checkpoint"))
    refused = await place.act("launch", (approve("checkpoint", by="bob"),))
    assert refused.outcome is Outcome.REFUSED and "needs the approval of ada" in refused.message
    allowed = await place.act("launch", (approve("checkpoint", by="ada"),))
    assert allowed.outcome is Outcome.DONE, allowed.message


async def test_a_hero_run_needs_its_records_and_its_retention(place: Place) -> None:
    place.changes["tier"] = "hero"
    plan = await place.plan("launch")
    assert hard(by_id(plan.checks, "logbook")) and hard(by_id(plan.checks, "retention"))


async def test_somebody_else_waits_until_the_dri_knows(place: Place) -> None:
    place.operator = "bob"
    assert hard(by_id((await place.plan("launch")).checks, "dri-notified"))


async def test_a_second_cockpit_that_was_faster_wins(place: Place) -> None:
    def faster(point: str) -> None:
        if point == "checkpoint:begun":
            (place.platform.folder / "other").write_text("live")

    place.at = faster
    result = await place.act("launch")
    assert result.outcome is Outcome.FAILED and place.platform.submitted == []


def test_initialize_from_names_its_step_and_needs_its_marker(tmp_path: Path) -> None:
    def level(source: str | None) -> Level:
        spec = CheckpointSpec(path=("/c",), initialize_from=source)
        return initialize_from(run_spec(checkpoints=spec))[0].level

    good, torn = save(tmp_path, 80), save(tmp_path, 90, complete=False)
    assert level(None) is Level.PASS and level(str(good)) is Level.PASS
    assert level(str(torn)) is Level.BLOCK and level("/no/where") is Level.BLOCK
    renamed = good.rename(tmp_path / "step-81")
    assert level(str(renamed)) is Level.WARN
    assert (named_step("/x/step-80000/"), named_step("/x/final")) == (80_000, None)
    (torn / "metadata.json").write_text("{")
    assert isinstance(marked_step(str(torn)), str)

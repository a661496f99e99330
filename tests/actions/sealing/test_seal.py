"""A-7: nothing missing, one tag, one entry; twice changes nothing."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.sealing.seal import Seal
from cockpit.model.observed import TrackerValue
from cockpit.model.plan import Approval, Outcome, Plan
from cockpit.model.report import Facets, RunReport, Verdict
from cockpit.model.run import CodeSpec, MonitorSpec
from cockpit.store.launches import Endings
from cockpit.store.store import run_key
from tests.actions.resting import RUN, Rest, blocks, job
from tests.sources.checkpoints.trees import levanter
from tests.sources.git.repos import git, repository


class Finished(Rest):
    """A run that ended well; its tracker's final state is given, since no W&B is at hand."""

    def __init__(self, folder: Path, **spec: Any) -> None:
        self.tracker: TrackerValue | None = TrackerValue(
            id="toy", state="finished", step=499, loss=1.234, exit_code=0, url="https://w/toy"
        )
        super().__init__(folder, Seal(), **spec)

    async def look(self, run: str) -> RunReport:
        report = await super().look(run)
        if self.tracker is None:
            return report
        told = report.facets.job.model_copy(update={"value": self.tracker})
        facets = report.facets.model_copy(update={"tracker": told})
        return report.model_copy(update={"facets": Facets(**dict(facets))})


def finished(folder: Path, **spec: Any) -> Finished:
    repo = repository(folder / "code")
    world = Finished(folder, code=CodeSpec(repo=str(repo)), **spec)
    world.save(100, 499)
    world.logbook.write_text("# Toy\n")
    return world


def tags(world: Rest, where: str = "code.git") -> list[str]:
    return git(world.folder / where, "tag", "--list", "seal/*").splitlines()


async def sealed(world: Rest, *approvals: Approval) -> Plan:
    plan = await world.plan()
    result = await world.act(plan.words, *approvals)
    assert (result.outcome, result.recorded) == (Outcome.DONE, True), result.message
    return plan


async def test_it_tags_pushes_records_and_the_verdict_is_sealed(tmp_path: Path) -> None:
    world = finished(tmp_path)
    plan = await sealed(world)
    assert plan.words == "seal toy 500"
    assert tags(world) == ["seal/toy/500"]
    kind = git(world.folder / "code.git", "cat-file", "-t", "refs/tags/seal/toy/500")
    assert kind == "tag"
    (entry,) = world.book.entries
    assert entry.title == "final seal"
    assert "loss 1.234" in entry.evidence and "step-499" in entry.evidence
    key = run_key(world.file.path, RUN)
    assert Endings(world.store).acknowledged(key)
    assert (await world.look(RUN)).verdict is Verdict.SEALED


async def test_run_twice_it_changes_nothing(tmp_path: Path) -> None:
    world = finished(tmp_path)
    await sealed(world)
    before = (git(world.folder / "code.git", "show-ref"), world.logbook.read_bytes())
    again = await world.plan()
    assert "already sealed: tag seal/toy/500" in blocks(again)["sealed"]
    assert (await world.act(again.words)).outcome is Outcome.REFUSED
    assert before == (git(world.folder / "code.git", "show-ref"), world.logbook.read_bytes())


async def test_all_that_is_missing_is_named(tmp_path: Path) -> None:
    world = finished(tmp_path, tier="hero")
    (tmp_path / "exit").write_text("1\n")
    shutil.rmtree(world.root / "step-499")
    world.tracker = TrackerValue(id="toy", state="running", step=None)
    found = blocks(await world.plan())
    assert {"job-state", "tracker", "metrics", "checkpoint", "issue"} <= found.keys()
    assert "failed, not success" in found["job-state"]
    assert "no complete checkpoint of step 500; newest: 100" in found["checkpoint"]


async def test_a_tracker_that_records_no_end_blocks_no_seal(tmp_path: Path) -> None:
    world = finished(tmp_path)
    world.tracker = TrackerValue(
        id="toy", state="silent", step=499, loss=1.234, tracker="TensorBoard"
    )
    assert "tracker" not in blocks(await world.plan())


async def test_unknown_is_named_as_unknown(tmp_path: Path) -> None:
    world = finished(tmp_path)
    world.tracker = None
    (tmp_path / "exit").unlink()
    world.platform.living = (job(),)
    found = blocks(await world.plan())
    assert "still alive" in found["C-25"]
    assert "job-state" in found


async def test_dirty_code_needs_a_name_and_is_committed_alone(tmp_path: Path) -> None:
    world = finished(tmp_path)
    repo = tmp_path / "code"
    (repo / "train.py").write_text("lr = 1\n" * 19 + "lr = 2\n")
    (repo / "README.md").write_text("prose\n")
    (repo / "staged.md").write_text("mine\n")
    git(repo, "add", "staged.md")
    plan = await world.plan()
    assert "train.py" in blocks(plan)["C-15"] and "README.md" not in blocks(plan)["C-15"]
    assert (await world.act(plan.words)).outcome is Outcome.REFUSED
    before = git(repo, "status", "--porcelain")
    await sealed(world, Approval(check="C-15", by="ada", reason="ran like this"))
    assert git(repo, "status", "--porcelain") == before
    files = git(repo, "diff", "--name-only", "main", "seal/toy/500")
    assert files == "train.py"
    assert "C-15 approved by ada: ran like this" in world.book.entries[0].decision


async def test_a_tag_publishes_no_commit_that_nobody_approved(tmp_path: Path) -> None:
    world = finished(tmp_path)
    repo = tmp_path / "code"
    (repo / "idea.md").write_text("x\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "WIP: do not push")
    plan = await world.plan()
    assert "WIP: do not push" in blocks(plan)["C-15:unpushed"]
    assert (await world.act(plan.words)).outcome is Outcome.REFUSED
    assert tags(world) == []
    git(repo, "push", "-q")
    assert "C-15:unpushed" not in blocks(await world.plan())


async def test_a_secret_in_the_changes_is_never_pushed(tmp_path: Path) -> None:
    world = finished(tmp_path)
    repo, token = tmp_path / "code", "ghp_" + "aB3dE5fG7hJ9" * 3
    (repo / "old.py").write_text(f"# {token}\n")
    git(repo, "add", "old.py")
    git(repo, "commit", "-qm", "old")
    git(repo, "push", "-q")
    (repo / "old.py").write_text(f"# {token}\nlr = 3\n")
    assert "secret" not in blocks(await world.plan())
    (repo / "new.py").write_text(f"lr = 2\nhub = '{token}'\n")
    (repo / f"{token}.py").write_text("x\n")
    approval = Approval(check="C-15", by="ada", reason="r")
    plan = await world.plan()
    found = blocks(plan)["secret"]
    assert "new.py:2" in found and "the name ****.py" in found and token not in found
    assert (await world.act(plan.words, approval)).outcome is Outcome.REFUSED
    assert tags(world) == []


async def test_a_changed_diff_stops_it(tmp_path: Path) -> None:
    world = finished(tmp_path)
    new = tmp_path / "code" / "new.py"
    new.write_text("one\n")
    plan = await world.plan()
    new.write_text("two\n")
    approval = Approval(check="C-15", by="ada", reason="r")
    result = await world.service.act(world.request(), plan.words, [approval], shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert tags(world) == []


async def test_no_remote_blocks_and_no_repository_only_warns(tmp_path: Path) -> None:
    world = finished(tmp_path)
    git(tmp_path / "code", "remote", "remove", "origin")
    assert "no remote" in blocks(await world.plan())["tag"]
    world.spec = world.spec.model_copy(update={"code": None})
    await sealed(world)
    assert (await world.look(RUN)).verdict is Verdict.SEALED
    assert "already sealed" in blocks(await world.plan())["sealed"]


class Killed(BaseException):
    """The process dies here."""


@pytest.mark.parametrize("fatal", ["seal:begun", "seal:did", "end:did", "log:begun", "log:did"])
async def test_killed_anywhere_a_second_one_finishes(tmp_path: Path, fatal: str) -> None:
    world = finished(tmp_path)
    plan = await world.plan()

    def die(point: str) -> None:
        if point == fatal:
            raise Killed

    with pytest.raises(Killed):
        await world.another(at=die).act(world.request(), plan.words)
    again = await world.plan()
    if not again.blocked:
        result = await world.act(again.words)
        assert result.outcome is Outcome.DONE or "already sealed" in result.message
    assert "already sealed" in blocks(await world.plan())["sealed"]
    assert tags(world) == ["seal/toy/500"]
    assert world.logbook.read_text().count("final seal") == 1


async def test_another_monitor_is_told_of(tmp_path: Path) -> None:
    state = tmp_path / "scratch" / "20260311-0855_monitoring_state.json"
    world = finished(tmp_path, monitor=MonitorSpec(state=str(state)))
    state.parent.mkdir()
    ours = {"ts": int(time.time() * 1000), "job_id": "x", "owner": "bob", "tunnel_session": "iap"}
    state.write_text(json.dumps(ours))
    assert "end its session iap" in blocks(await world.plan())["monitors"]


async def test_a_final_one_in_the_temporary_root_is_said(tmp_path: Path) -> None:
    world = finished(tmp_path)
    shutil.rmtree(world.root / "step-499")
    levanter(world.temporary, 500, temporary=True)
    plan = await world.plan()
    assert not plan.blocked
    assert any("temporary root" in check.text for check in plan.checks)

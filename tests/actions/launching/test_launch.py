"""Adopt: a living job that another run of the run file trains is not taken for this one's.

What ``ckpt_path="last"`` makes Lightning load, and what a relaunch says of it (C-17).
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.checks.checkpoint import initialize_from, marked_step, named_step
from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.new_run import new_run, typed_root
from cockpit.actions.launching.launch import Adopt
from cockpit.actions.launching.lineage import PARAM as FORK
from cockpit.actions.launching.lineage import fork_allowed
from cockpit.actions.launching.relaunch import Relaunch
from cockpit.model.jobs import Live, NamedJob
from cockpit.model.observed import Phase
from cockpit.model.place import place_of
from cockpit.model.plan import Check, Level, Outcome, Plan
from cockpit.model.run import CheckpointSpec, CockpitFile, JobSpec, RunSpec, WandbSpec
from cockpit.store.launches import FollowupStore
from cockpit.store.memory import RunMemory
from cockpit.store.store import run_key
from tests.actions.contexts import by_id, hard, soft
from tests.actions.launch_place import Place, approve, save
from tests.actions.resting import RUN, Rest, SetJobs, blocks, job
from tests.rules.making import run_spec
from tests.sources.checkpoints.trees import NOW, hugging_face, put


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


class TwoRuns(Rest):
    """Two runs of one run file."""

    @property
    def file(self) -> CockpitFile:
        found = super().file
        other = self.spec.model_copy(update={"name": "other", "output_root": None})
        return found.model_copy(update={"runs": (self.spec, other)})


class OfOne(SetJobs):
    """A job whose own words tell nothing, and which the platform knows to train one run."""

    def __init__(self, run: str) -> None:
        super().__init__()
        self.run = run

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        return {run.name: Live(jobs=(job("pid:9"),) * (run.name == self.run)) for run in runs}

    async def named_job(self, run: RunSpec, job_id: str) -> NamedJob:
        return NamedJob(id=job_id, text="process 9 is running here: python t.py", lives=True)


@pytest.mark.parametrize(("run", "blocked"), [("other", True), (RUN, False), ("nobody", False)])
async def test_the_job_of_another_run_is_not_adopted(
    tmp_path: Path, run: str, blocked: bool
) -> None:
    world = TwoRuns(tmp_path, Adopt())
    world.platform = OfOne(run)
    world.service = world.another()
    plan = await world.plan(job_id="pid:9")
    found = blocks(plan)
    assert ("whose" in found) is blocked
    assert not blocked or found["whose"] == "it is a job of other: its launch id"


class OnTwoHosts(OfOne):
    """Each run has a host of its own: a process id of the one is another process on the other."""

    def endpoint(self, run: RunSpec) -> str:
        return f"host of {run.name}"


async def test_the_same_number_on_another_host_is_another_job(tmp_path: Path) -> None:
    world = TwoRuns(tmp_path, Adopt())
    world.platform = OnTwoHosts("other")
    world.service = world.another()
    assert "whose" not in blocks(await world.plan(job_id="pid:9"))


COMMAND = "python train.py --ckpt_path last"


def rest_of(folder: Path, *steps: int, command: str = COMMAND) -> Rest:
    spec = CheckpointSpec(path=(str(folder / "out" / "checkpoints"),), layout="lightning")
    rest = Rest(folder, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    for step in steps:
        lightning_save(rest, f"epoch=0-step={step}.ckpt", step)
    (folder / "run.log").write_text("".join(f"step {step} loss 2.0\n" for step in range(1, 211)))
    return rest


def lightning_save(rest: Rest, name: str, step: int, at: float | None = None) -> None:
    put(rest.root / name, b"x" * 99, NOW - 7200 + step if at is None else at)


def loads(plan: Plan) -> Check:
    return next(check for check in plan.checks if check.id == "C-17")


async def test_the_plan_says_the_step_that_last_ckpt_leads_to(tmp_path: Path) -> None:
    """The trainer was killed between a save and the next ``last.ckpt``."""
    rest = rest_of(tmp_path, 50, 100, 150, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=150.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 150
    assert plan.loses is not None and "60 steps" in plan.loses
    check = loads(plan)
    assert check.level is Level.WARN and "step 200 is complete and newer" in check.text


async def test_one_that_leads_nowhere_begins_at_0(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=300.ckpt")
    assert "Lightning would start at step 0" in blocks(await rest.plan())["C-17"]
    (rest.root / "last.ckpt").unlink()
    assert "finds no last*.ckpt" in blocks(await rest.plan())["C-17"]


async def test_of_several_the_one_that_was_written_last_is_loaded(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 150, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=200.ckpt")
    (rest.root / "last-v1.ckpt").symlink_to("epoch=0-step=100.ckpt")
    (rest.root / "last-v2.ckpt").symlink_to("epoch=0-step=150.ckpt")
    os.utime(rest.root / "epoch=0-step=150.ckpt", (NOW, NOW))
    value = await rest.listing()
    assert value.trainer_would_load is not None and value.trainer_would_load.step == 150
    assert "last-v2.ckpt" in value.trainer_would_load.why


async def test_the_newest_is_loaded_where_last_is_that_one(tmp_path: Path) -> None:
    rest = rest_of(tmp_path, 100, 200)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=200.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 200
    assert loads(plan).level is Level.PASS and "the trainer agrees" in loads(plan).text


@pytest.mark.parametrize(
    "command", ["python train.py", "python train.py --ckpt_path {checkpoint}", "train fit"]
)
async def test_where_the_command_does_not_say_last_nothing_is_said_of_it(
    tmp_path: Path, command: str
) -> None:
    rest = rest_of(tmp_path, 100, 200, command=command)
    (rest.root / "last.ckpt").symlink_to("epoch=0-step=100.ckpt")
    plan = await rest.plan()
    assert plan.checkpoint is not None and plan.checkpoint.step == 200
    assert plan.trainer_would_load is None and "C-17" not in blocks(plan)


async def test_a_path_in_the_command_is_what_is_loaded(tmp_path: Path) -> None:
    command = "python train.py --ckpt_path={}/epoch=0-step=100.ckpt"
    for folder in ("out/checkpoints", str(tmp_path / "out" / "checkpoints"), "$OUT"):
        plan = await rest_of(tmp_path, 100, 200, command=command.format(folder)).plan()
        assert plan.trainer_would_load is not None and plan.trainer_would_load.step == 100
    for folder in ("/pretrained/checkpoints", "c"):
        plan = await rest_of(tmp_path, 100, 200, command=command.format(folder)).plan()
        assert plan.trainer_would_load is None, "a save of that name in another folder"


@pytest.mark.parametrize(
    ("words", "fine"),
    [
        ("--resume_from_checkpoint /base/checkpoint-100", False),
        ("train.resume_from_checkpoint=old/checkpoint-100/", False),
        ("--resume_from_checkpoint true", True),
        ("--resume_from_checkpoint /workspace/out/checkpoint-200", True),
        ("--model_name_or_path /base/checkpoint-100", True),
        ("--resume_from_checkpoint {checkpoint}", True),
    ],
)
async def test_a_command_that_always_resumes_from_one_save_takes_no_other(
    tmp_path: Path, words: str, fine: bool
) -> None:
    """Whatever the trainer would find by itself, it loads the one that its command names."""
    spec = CheckpointSpec(path=(str(tmp_path / "out" / "checkpoints"),), layout="hf")
    command = f"python train.py {words}"
    rest = Rest(tmp_path, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    for step in (100, 200):
        hugging_face(rest.root, step, at=NOW - 7200 + step)
    plan = await rest.plan()
    found = blocks(plan).get("C-17")
    assert (found is None) is fine
    assert fine or (found is not None and "always resumes from" in found)


@pytest.mark.parametrize(
    ("command", "sure"),
    [
        ("python train.py --resume_from_checkpoint {root}/checkpoint-200", True),
        ("python train.py --resume_from_checkpoint out/checkpoint-200", True),
        ("python train.py --resume_from_checkpoint /runs/other/checkpoint-200", False),
        ("docker run -v {root}:/c img python train.py --resume /c/checkpoint-200", True),
        ("docker run -v /runs/other:/c img python train.py --resume /c/checkpoint-200", False),
    ],
)
async def test_a_save_of_the_same_name_in_another_folder_is_not_said_to_be_the_same(
    tmp_path: Path, command: str, sure: bool
) -> None:
    root = tmp_path / "out" / "checkpoints"
    spec = CheckpointSpec(path=(str(root),), layout="hf")
    command = command.format(root=root)
    rest = Rest(tmp_path, Relaunch(), final_step=None, resubmit=command, checkpoints=spec)
    hugging_face(rest.root, 200, at=NOW - 7200)
    plan = await rest.plan()
    (check,) = (each for each in plan.checks if each.id == "C-17")
    assert ("is not known" in check.text) is not sure, check.text


LINEAGE_COMMAND = "train --root {output_root} --id {wandb_id} --init {checkpoint}"


@pytest.fixture
def old(tmp_path: Path) -> Place:
    found = Place(tmp_path, changes={"resubmit": LINEAGE_COMMAND})
    save(found.root / "checkpoints", 80)
    save(found.root / "checkpoints", 90, complete=False)
    return found


def params(old: Place, **changes: str) -> dict[str, Any]:
    return {
        "run_id": "toy-b", "wandb_id": "toy-b1", "output_root": str(old.folder / "new"),
        "from": "80", "reason": "the optimizer was wrong", **changes,
    }  # fmt: skip


async def test_a_new_lineage_begins_with_one_checkpoint_under_a_new_identity(old: Place) -> None:
    plan = await old.plan("lineage", **params(old))
    assert plan.words == "lineage toy toy-b"
    assert not plan.blocked, [check for check in plan.checks if check.stands_in_the_way]
    result = await old.act("lineage", **params(old))
    assert result.outcome is Outcome.DONE, result.message
    (sent,) = old.platform.submitted
    source = str(old.root / "checkpoints" / "step-80")
    assert sent.command == (
        "train", "--root", str(old.folder / "new"), "--id", "toy-b1", "--init", source,
    )  # fmt: skip
    assert sent.env["WANDB_RUN_ID"] == "toy-b1" and sent.run == "toy-b"
    key = run_key(old.file.path, "toy-b")
    assert RunMemory(old.store).launches(key)
    assert not RunMemory(old.store).launches(old.key)
    (event,) = old.book.events
    assert "the optimizer was wrong" in event.decision and source in event.status
    assert "W&B id: toy → toy-b1" in event.evidence and "commit " in event.evidence
    assert len(old.book.comments) == 1 and old.book.instances == []


async def test_the_w_and_b_run_can_begin_as_a_fork_and_the_plan_says_what_may_go_wrong(
    old: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await old.plan("lineage", **params(old))
    assert "fork" not in {each.id for each in plain.checks}
    plan = await old.plan("lineage", **params(old, **{FORK: "81"}))
    check = by_id(plan.checks, "fork")
    assert (check.level, check.value) == (Level.WARN, "toy?_step=81")
    assert "resume" in check.text and "cannot be told" in check.text
    assert plan.differences[-1].would_run == "toy?_step=81" and not plan.blocked
    guessed = by_id((await old.plan("lineage", **params(old, **{FORK: "yes"}))).checks, "fork")
    assert guessed.value == "toy?_step=80" and "taken for W&B's own _step" in guessed.text
    monkeypatch.setenv("WANDB_RESUME", "allow")
    here = await old.plan("lineage", **params(old, **{FORK: "81"}))
    assert by_id(here.checks, "fork:resume").level is Level.WARN
    monkeypatch.delenv("WANDB_RESUME")
    assert hard(fork_allowed(["env", "WANDB_RESUME=must", "train"], "toy?_step=81")[0])
    with pytest.raises(RefuseError):
        await old.plan("lineage", **params(old, **{FORK: "soon"}))
    result = await old.act("lineage", **params(old, **{FORK: "81"}))
    assert result.outcome is Outcome.DONE, result.message
    assert old.platform.submitted[0].env["WANDB_FORK_FROM"] == "toy?_step=81"


async def test_the_block_for_the_run_file_is_shown_and_reads_back(old: Place) -> None:
    page = (await old.plan("lineage", **params(old))).page
    assert page is not None
    (told,) = tomllib.loads(page)["run"]
    assert (told["name"], told["wandb"]["id"]) == ("toy-b", "toy-b1")
    assert told["output_root"] == str(old.folder / "new")
    assert told["checkpoints"]["initialize_from"].endswith("step-80")
    assert told["checkpoints"]["path"] == [str(old.folder / "new" / "checkpoints")]


@pytest.mark.parametrize("source", ["90", "7", "/etc", "step-90", "../../x"])
async def test_only_a_complete_checkpoint_of_this_run_will_do(old: Place, source: str) -> None:
    plan = await old.plan("lineage", **params(old, **{"from": source}))
    assert hard(by_id(plan.checks, "source"))


async def test_what_is_in_use_is_refused(old: Place) -> None:
    old.others = (RunSpec(name="toy-b", output_root="/data/b", wandb=WandbSpec(id="toy-b1")),)
    (old.folder / "full").mkdir()
    (old.folder / "full" / "x").write_text("x")
    plan = await old.plan("lineage", **params(old, output_root=str(old.folder / "full")))
    for name in ("run-id", "wandb-id", "C-16"):
        assert hard(by_id(plan.checks, name)), name
    inside = await old.plan("lineage", **params(old, output_root=str(old.root / "deeper")))
    assert hard(by_id(inside.checks, "C-16"))


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("train --id {wandb_id}", "identity"),
        ("train --root {output_root}", "identity"),
        (LINEAGE_COMMAND + " --wandb toy", "identity:old"),
    ],
)
async def test_a_command_that_cannot_take_the_identity_is_refused(
    old: Place, command: str, check: str
) -> None:
    old.changes["resubmit"] = command
    assert hard(by_id((await old.plan("lineage", **params(old))).checks, check))


async def test_a_client_that_only_takes_the_environment_is_said(old: Place) -> None:
    old.changes["resubmit"] = "train --root {output_root} --init {checkpoint}"
    plan = await old.plan("lineage", **params(old))
    assert by_id(plan.checks, "identity").level is Level.WARN and not plan.blocked


@pytest.mark.parametrize(
    "changes",
    [
        {"run_id": "a b"}, {"run_id": "-x"}, {"run_id": "../x"}, {"wandb_id": ""},
        {"output_root": "relative"}, {"output_root": "/"}, {"output_root": "gs://"},
        {"reason": " "}, {"run_id": "x\n"[:1] + "\ny"},
    ],
)  # fmt: skip
async def test_what_is_no_identity_is_refused_at_once(old: Place, changes: dict[str, str]) -> None:
    with pytest.raises(RefuseError):
        await old.plan("lineage", **params(old, **changes))


def test_no_file_of_the_job_is_shared_with_the_old_run() -> None:
    old = RunSpec(
        name="toy", output_root="/o/toy",
        job=JobSpec(kind="local", pid_file="/o/toy/run.pid", log="/logs/toy.log", id="x"),
        checkpoints=CheckpointSpec(path=("/o/toy/c", "gs://tmp/toy")),
        wandb=WandbSpec(id="toy", dir="/o/toy/wandb", resume="must"),
    )  # fmt: skip
    new = new_run(old, {"run-id": "b", "wandb-id": "b1", "output-root": "/n/b"})
    assert new.job is not None and new.checkpoints is not None and new.wandb is not None
    assert (str(new.job.pid_file), str(new.job.log)) == ("/n/b/run.pid", "/n/b/toy.log")
    assert new.job.id is None
    assert [str(root) for root in new.checkpoints.path] == ["/n/b/c", "/n/b/toy"]
    assert (str(new.wandb.dir), new.wandb.resume) == ("/n/b/wandb", "allow")


def test_a_place_is_made_normal() -> None:
    assert typed_root(" /a/../b/ ") == place_of("/b")
    assert typed_root("gs://b//x/") == place_of("gs://b/x")


async def test_its_launch_is_looked_up_where_it_was_made(old: Place) -> None:
    plan = await old.plan("lineage", **params(old))
    assert new_run(old.spec, plan.params).output_root == place_of(str(old.folder / "new"))

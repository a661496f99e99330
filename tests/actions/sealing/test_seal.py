"""A-7: nothing missing, one tag, one entry; twice changes nothing.

A-13: what is handed on is what was signed, to the byte.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core.action import RefuseError
from cockpit.actions.sealing.publish import Pair, Publish, inspect, pairs_in
from cockpit.actions.sealing.seal import Seal
from cockpit.model.observed import TrackerValue
from cockpit.model.plan import Approval, Outcome, Plan
from cockpit.model.report import Facets, RunReport, Verdict
from cockpit.model.run import CodeSpec, MonitorSpec, RecordsSpec
from cockpit.store.launches import Endings
from cockpit.store.store import run_key
from tests.actions.resting import RUN, Rest, blocks, job
from tests.sources.checkpoints.trees import levanter, put
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


def sha(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def sign(folder: Path, verdict: str = "pass", **more: Any) -> Path:
    """A signed checkpoint, in the shape that the passport's own tools write."""
    weights = put(folder / "params" / "model.safetensors", b"weights")
    listed = [{"path": "params/model.safetensors", "sha256": sha(weights), "size_bytes": 7}]
    passport = {"schema_version": "0.2", "weight_integrity": {"weight_files": listed}}
    put(folder / "MODEL_PASSPORT.json", json.dumps(passport))
    signoff = {
        "schema_version": "0.2",
        "signed_by": {"tool": "sign-checkpoint", "version": "0.1.0"},
        "artifacts": [
            {"path": "MODEL_PASSPORT.json", "sha256": sha(folder / "MODEL_PASSPORT.json")},
            {"path": "params/model.safetensors", "sha256": sha(weights)},
        ],
        "verdict": verdict,
        "verdict_reason": "all hard checks pass",
        **more,
    }
    put(folder / "SIGNOFF.json", json.dumps(signoff))
    return folder


def edit(folder: Path, change: Any) -> None:
    path = folder / "SIGNOFF.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_what_was_signed_is_good(tmp_path: Path) -> None:
    found = inspect(str(sign(tmp_path)))
    assert (found.good, found.verdict, found.matching) == (True, "pass", 2)


@pytest.mark.parametrize("name", ["params/model.safetensors", "MODEL_PASSPORT.json"])
def test_a_changed_byte_is_found(tmp_path: Path, name: str) -> None:
    sign(tmp_path)
    file = tmp_path / name
    file.write_bytes(file.read_bytes() + b" ")
    assert any("not the file that was signed" in line for line in inspect(str(tmp_path)).wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(verdict="fail"), "verdict"),
        (lambda d: d.pop("verdict"), "verdict"),
        (lambda d: d.update(verdict="soft_signal", verdict_reason=" "), "without a verdict_reason"),
        (lambda d: d["artifacts"].pop(0), "does not vouch"),
        (lambda d: d["artifacts"][1].pop("sha256"), "without a sha256"),
        (lambda d: d["artifacts"][1].update(sha256="0" * 64), "not the file"),
        (lambda d: d["artifacts"][1].update(path="../../etc/passwd"), "leads out"),
        (lambda d: d["artifacts"][1].update(path="/etc/passwd"), "leads out"),
        (lambda d: d["artifacts"][1].update(path="params/none"), "no such file"),
        (lambda d: d["artifacts"][1].update(path="params"), "not a regular file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, change: Any, said: str) -> None:
    edit(sign(tmp_path), change)
    assert any(said in line for line in inspect(str(tmp_path)).wrong)


@pytest.mark.parametrize("name", ["params", "params/model.safetensors", "SIGNOFF.json"])
def test_links_are_refused(tmp_path: Path, name: str) -> None:
    sign(tmp_path / "a")
    real = (tmp_path / "a" / name).rename(tmp_path / "real")
    (tmp_path / "a" / name).symlink_to(real)
    assert any("link" in line for line in inspect(str(tmp_path / "a")).wrong)


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "[" * 100000])
def test_no_document_is_no_signature(tmp_path: Path, text: str) -> None:
    sign(tmp_path)
    (tmp_path / "SIGNOFF.json").write_text(text)
    assert inspect(str(tmp_path)).wrong


def test_other_key_names_are_understood() -> None:
    one, two = "a" * 64, "b" * 64
    shapes = [
        {"files": {"w.bin": one}},
        {"artifacts": [{"file": "w.bin", "digest": f"sha256:{one}"}]},
        {"weights": [{"filename": "./w.bin", "sha256sum": one.upper()}]},
    ]
    for shape in shapes:
        assert list(pairs_in(shape)) == [Pair("w.bin", one)]
    assert list(pairs_in({"passport_sha256": two})) == [Pair("MODEL_PASSPORT.json", two)]


@given(st.recursive(st.none() | st.text() | st.integers(), lambda s: st.lists(s) | st.dictionaries(
    st.sampled_from(["path", "sha256", "artifacts", "a/b", "x"]), s), max_leaves=30))  # fmt: skip
def test_any_document_gives_pairs_or_none(document: object) -> None:
    assert all(isinstance(pair, Pair) for pair in pairs_in(document))


def world(folder: Path, **sign_off: Any) -> Rest:
    repo = repository(folder / "repo", remote=False)
    log = put(repo / "run_logs" / "2026-03-11_train.md", "# train\n\n## Job\n- status: done\n")
    rest = Rest(folder, Publish(), records=RecordsSpec(run_log=str(log)))
    rest.save(499)
    sign(rest.root / "step-499", **sign_off)
    return rest


def run_log(rest: Rest) -> str:
    return Path(rest.spec.records.run_log or "").read_text()


async def test_it_finds_them_and_writes_the_log_beside_them(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan(repo="ada/toy")
    assert not plan.blocked, blocks(plan)
    result = await rest.act("publish toy", repo="ada/toy")
    assert result.outcome is Outcome.DONE, result.message
    beside = rest.root / "step-499" / "TRAINING_LOG.md"
    assert beside.read_text().startswith("#")
    log = run_log(rest)
    assert "## HuggingFace\n- repo: https://huggingface.co/ada/toy\n" in log
    assert "signoff verdict: `pass`" in log
    await rest.act("publish toy", repo="ada/toy")
    assert run_log(rest) == log


async def test_a_soft_signal_shows_its_reason(tmp_path: Path) -> None:
    reason = "state_dim 13 -> 16 is intended"
    rest = world(tmp_path, verdict="soft_signal", verdict_reason=reason)
    plan = await rest.plan(repo="ada/toy")
    assert any(reason in check.text for check in plan.checks)
    await rest.act("publish toy", repo="ada/toy")
    assert f"`soft_signal`: {reason}" in run_log(rest)


async def test_without_the_two_it_blocks(tmp_path: Path) -> None:
    rest = world(tmp_path)
    (rest.root / "step-499" / "SIGNOFF.json").unlink()
    assert "no SIGNOFF.json" in blocks(await rest.plan())["passport"]
    (rest.root / "step-499" / "MODEL_PASSPORT.json").unlink()
    assert "passport" in blocks(await rest.plan())


async def test_a_log_that_a_person_wrote_is_kept(tmp_path: Path) -> None:
    rest = world(tmp_path)
    there = put(rest.root / "step-499" / "TRAINING_LOG.md", "mine\n")
    assert (await rest.act("publish toy")).outcome is Outcome.DONE
    kept = [path.read_text() for path in there.parent.glob("TRAINING_LOG.md.*")]
    assert kept == ["mine\n"] and there.read_text() != "mine\n"


@pytest.mark.parametrize("repo", ["toy", "a/b/c", "a b/c", "--help", "../x/y"])
async def test_a_repository_that_is_none_is_refused(tmp_path: Path, repo: str) -> None:
    with pytest.raises(RefuseError, match="expected a name"):
        await world(tmp_path).plan(repo=repo)

"""A-13: what is handed on is what was signed, to the byte."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core.action import RefuseError
from cockpit.actions.sealing.publish import Pair, Publish, inspect, pairs_in
from cockpit.model.plan import Outcome
from cockpit.model.run import RecordsSpec
from tests.actions.resting import Rest, blocks
from tests.sources.checkpoints.trees import put
from tests.sources.git.repos import repository


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

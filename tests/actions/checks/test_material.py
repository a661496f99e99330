"""What the last launch ran, by the word of its own job where that is told (SPEC C-15, C-18)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cockpit.actions.checks.code import BUNDLE, Material, gather
from cockpit.model.jobs import Bundle
from cockpit.model.run import CodeSpec
from tests.actions.checks.test_code import SHA, code, git
from tests.actions.contexts import context
from tests.rules.making import job, run_spec, tracker


async def material(repo: Path, **facets: Any) -> Material:
    run = run_spec(code=CodeSpec.model_validate({"repo": str(repo)}))
    return await gather(context(run, **facets))


async def test_what_changed_is_counted_from_the_jobs_own_bundle(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    shas = []
    for name in ("old.py", "model.py"):
        (tmp_path / name).write_text("x = 1\n")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-qm", name)
        shas.append(git(tmp_path, "rev-parse", "HEAD"))
    now = code(sha=shas[1], record_sha=shas[1])
    recorded = (await material(tmp_path, code=now)).changes
    assert recorded.source == "the logbook" and recorded.committed == ()
    ran = job(id="/ada/toy", bundle=Bundle(commit=shas[0], dirty=False))
    found = (await material(tmp_path, code=now, job=ran)).changes
    assert found.source == BUNDLE and found.committed == ("model.py",)
    assert (found.recorded, found.recorded_by) == (shas[1], "the logbook")


async def test_the_config_that_a_job_shows_comes_before_the_trackers(tmp_path: Path) -> None:
    told = tracker(config={"batch": 32, "seed": 1})
    was = (await material(tmp_path, code=code(sha=SHA), tracker=told)).config_was
    assert was is not None and was.source == "the tracker's config"
    shows = job(id="/ada/toy", config={"trainer": {"num_train_steps": 400, "api_key": "s" * 30}})
    was = (await material(tmp_path, code=code(), tracker=told, job=shows)).config_was
    assert was is not None and was.source == "the config shown by the job"
    assert was.values is not None and was.values["trainer.num_train_steps"] == "400"
    assert "s" * 30 not in str(was)

"""C-15 while a job runs: what it runs and what a restart would, against the record."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.jobs import Bundle, Snapshot
from cockpit.model.observed import CodeValue, Phase
from cockpit.model.run import CodeSpec
from cockpit.rules.lineage.drift import code_drifts
from tests.rules.making import T0, history, job, run_spec, tracker

A, B = "a" * 40, "b" * 40
RUN = run_spec(code=CodeSpec(repo="/r", safe=("callbacks/**",)))


def launched(**changes: Any) -> Snapshot:
    plain = {"launch_id": "toy-i001", "at": T0, "action": "launch", "command": ("t",), "sha": A}
    return Snapshot(**{**plain, **changes})


def found(value: CodeValue | None = None, **more: Any) -> list[str]:
    facets = {"job": job(), **({} if value is None else {"code": value}), **more}
    past = history(T0 + 60, **facets)
    return [f"{each.title}: {each.evidence[0].text}" for each in code_drifts(RUN, past)]


def checkout(**changes: Any) -> CodeValue:
    return CodeValue(**{"sha": A, "record_sha": A, "changed": (), "unpushed": 0, **changes})


@pytest.mark.parametrize(
    ("changes", "fires"),
    [
        ({}, False),
        ({"dirty": ("README.md", "notes/a.log", "tests/test_a.py")}, False),
        ({"dirty": ("train.py",)}, True),
        ({"dirty": ("callbacks/log.py",)}, True),
        ({"dirty": ("out/run.pid", "wandb/"), "untracked": ("out/run.pid", "wandb/")}, False),
        ({"dirty": ("new_loss.py",), "untracked": ("new_loss.py",)}, True),
        ({"sha": B, "changed": ("docs/a.md",)}, False),
        ({"sha": B, "changed": ("model.py", "docs/a.md")}, True),
        ({"sha": B, "changed": None}, True),
        ({"unpushed": 2, "ahead_files": ("a.md",)}, False),
        ({"unpushed": 2, "ahead_files": ("model.py",)}, True),
        ({"unpushed": None}, False),
        ({"sha": None}, False),
    ],
)
def test_a_checkout_by_the_class_of_what_changed(changes: dict[str, Any], fires: bool) -> None:
    assert bool(found(checkout(**changes))) is fires


def test_what_was_so_at_the_launch_was_approved_then() -> None:
    dirty = checkout(dirty=("train.py",), patch_id="p1")
    same = launched(dirty=("train.py",), patch_id="p1")
    assert found(dirty, used=same) == []
    assert found(dirty, used=launched(dirty=("train.py",), patch_id="p0")) != []
    branch = checkout(sha=B, changed=("a.py",), branch="wip")
    told = [each.evidence for each in code_drifts(RUN, history(
        T0 + 60, job=job(), code=branch, used=launched(branch="main")))]  # fmt: skip
    assert [line.text for line in told[0]][-1] == "on branch wip, launched from main"


def test_the_bundle_tells_what_runs_and_another_launch_s_record_is_none() -> None:
    runs = job(bundle=Bundle(commit=B))
    said = found(checkout(), job=runs)
    assert said == ["The job runs different code than recorded: the job's bundle says commit"
                    f" {B[:10]}, the logbook records {A[:10]}"]  # fmt: skip
    assert found(checkout(), job=job(bundle=Bundle(commit=A[:12]))) == []
    assert found(checkout(), job=job(bundle=Bundle(commit=A, dirty=True))) != []
    other = job(bundle=Bundle(commit=B), launch_id="toy-i009")
    assert found(used=launched(), job=other) == [], "no record of that launch is known"
    assert found(checkout(), job=job(Phase.FAILED, bundle=Bundle(commit=B))) == []


def test_the_commit_that_the_client_noted_counts_for_the_present_job_only() -> None:
    noted = {"git_commit": B, "last_record_at": T0 + 9}
    assert "the tracker's client" in found(checkout(), tracker=tracker(**noted))[0]
    former = {"git_commit": B, "last_record_at": T0 - 9}
    assert found(checkout(), tracker=tracker(**former)) == []


def test_a_former_client_that_still_writes_says_nothing_of_the_present_job() -> None:
    """Its last records come after the new job began, and it began before."""
    late = tracker(git_commit=B, last_record_at=T0 + 9, config_since=T0 - 900)
    assert found(used=launched(), tracker=late) == []
    own = tracker(git_commit=B, last_record_at=T0 + 9, config_since=T0 + 5)
    assert "the tracker's client" in found(used=launched(), tracker=own)[0]


def test_files_that_changed_since_another_commit_are_not_told_of_the_launch_s() -> None:
    """The logbook names an older commit than the launch: its files are those of both."""
    behind = checkout(sha=B, record_sha="c" * 40, changed=("model.py",))
    (said,) = found(behind, used=launched())
    assert said.endswith(f"toy-i001 records {A[:10]}: it is not known which files differ")


def test_a_checkout_s_change_is_dated_by_the_look_and_never_by_the_job_s_start() -> None:
    past = history(T0 + 60, job=job(), code=checkout(dirty=("train.py",)))
    (alert,) = code_drifts(RUN, past)
    assert alert.since == past.facets.code.observed_at != job().started_at
    runs = history(T0 + 60, job=job(bundle=Bundle(commit=B)), code=checkout())
    assert next(code_drifts(RUN, runs)).since == job().started_at

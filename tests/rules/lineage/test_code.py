"""C-15 while a job runs: what it runs and what a restart would, against the record.

C-17 while a job runs: what it has resumed from, held against what is listed.
"""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.model.history import CheckpointMark
from cockpit.model.jobs import Bundle, Snapshot
from cockpit.model.observed import Checkpoint, CheckpointState, CodeValue, Phase, Pick
from cockpit.model.run import CheckpointSpec, CodeSpec, JobSpec
from cockpit.model.shared_facts import Announced, Loaded
from cockpit.rules.lineage.drift import code_drifts
from cockpit.rules.lineage.paths import wrong_checkpoint
from tests.rules.making import (
    T0,
    blind,
    checkpoint,
    checkpoints,
    history,
    job,
    log,
    run_spec,
    settings_of,
    tracker,
)

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


LOADED_RUN = run_spec(checkpoints=CheckpointSpec(path=("/c",), initialize_from="/base/step-9"))
ITEMS = (
    checkpoint(50, T0 - 900, CheckpointState.INCOMPLETE),
    checkpoint(60, T0 - 700, CheckpointState.REJECTED),
    checkpoint(900, T0 - 600),
    checkpoint(1000, T0 - 500),
)


def said(path: str | None, step: int | None = None) -> Any:
    return log("x", announced=Announced(loaded=Loaded(path=path, step=step, line="resumed")))


def loaded_found(items: tuple[Checkpoint, ...] = ITEMS, **more: Any) -> list[str]:
    plain = {"job": job(), "checkpoints": checkpoints(*items)}
    past = history(T0 + 60, **{**plain, **more})
    return [each.evidence[0].text for each in wrong_checkpoint(LOADED_RUN, past)]


@pytest.mark.parametrize(
    ("path", "step", "wrong"),
    [
        ("/c/step-1000", 1000, None),
        ("/c/step-50", 50, "step 50 is incomplete"),
        ("/c/step-50/model.pt", None, "step 50 is incomplete"),
        ("/c", 60, "step 60 is rejected"),
        ("c/step-60", None, "step 60 is rejected"),
        (None, 60, "step 60 is rejected"),
        (None, 61, None),
        ("/c/step-900", 900, "step-900 is last by name, not by step: step 1,000 was complete"),
        ("/x/step-7", 7, "/x/step-7 is in none of the run's roots: another lineage"),
        ("/mnt/c/step-7", 7, None),
        ("/base/step-9", 9, None),
        ("gs://b/c/step-1000", 1000, "gs://b/c/step-1000 is in none of the run's roots:"
         " another lineage"),
    ],
)  # fmt: skip
def test_what_the_log_says(path: str | None, step: int | None, wrong: str | None) -> None:
    assert loaded_found(log=said(path, step)) == ([] if wrong is None else [wrong])
    assert loaded_found(log=said(path, step), job=job(Phase.WAITING)) == []


def away(path: str, roots: tuple[str, ...], host: str | None) -> list[str]:
    spec = CheckpointSpec(path=roots, initialize_from=None)
    run = run_spec(checkpoints=spec, job=JobSpec(kind="box", host=host))
    items = [checkpoint(900, T0 - 600), checkpoint(1000, T0 - 500)]
    listed = [each.model_copy(update={"path": f"{roots[0]}/step-{each.step}"}) for each in items]
    past = history(T0 + 60, job=job(), checkpoints=checkpoints(*listed), log=said(path, 1000))
    return [each.evidence[0].text for each in wrong_checkpoint(run, past)]


@pytest.mark.parametrize("path", ["/runs/a/step-1000", "ssh://gpu-box/runs/a/step-1000"])
def test_a_checkpoint_of_the_job_s_own_host_is_the_same_under_both_spellings(path: str) -> None:
    assert away(path, ("ssh://gpu-box/runs/a",), "gpu-box") == []


def test_what_a_job_calls_a_folder_of_another_machine_is_unknown() -> None:
    assert away("/mnt/x/step-1000", ("ssh://nas/export/a",), "gpu-box") == []
    other = away("ssh://other/runs/a/step-1000", ("ssh://gpu-box/runs/a",), "gpu-box")
    assert other == ["ssh://other/runs/a/step-1000 is in none of the run's roots: another lineage"]


def test_a_line_of_the_job_before_this_one_says_nothing_of_it() -> None:
    for at, wrong in ((T0 - 60, []), (T0 + 5, ["step 60 is rejected"])):
        line = Loaded(path="/c/step-60", step=60, line="resumed", at=at)
        assert loaded_found(log=log("x", announced=Announced(loaded=line))) == wrong


def test_what_cannot_be_listed_is_neither_torn_nor_whole() -> None:
    assert loaded_found(log=said("/c/step-50"), checkpoints=blind()) == []


def test_what_the_launch_was_to_load_and_what_the_config_names() -> None:
    pick = Pick(path="/c/step-60", step=60, why="newest")
    used = Snapshot(launch_id="i2", at=T0, action="relaunch", command=("t",), checkpoint=pick)
    assert loaded_found(used=used, job=job(launch_id="i2")) == ["step 60 is rejected"]
    assert loaded_found(used=used, job=job(launch_id="i3")) == []
    assert loaded_found(settings=settings_of({"resume_from_checkpoint": "/c/step-50"})) != []
    assert loaded_found(settings=settings_of({"resume_from_checkpoint": "/c/step-1000"})) == []
    assert (
        loaded_found(settings=settings_of({"model": {"load_from": "/base/llama"}, "resume": "/q"}))
        == []
    )


def test_what_was_complete_when_it_was_loaded_is_not_wrong_while_it_is_removed() -> None:
    """The job's own retention removes it, marker first."""

    def wrong(*marks: CheckpointMark, used: Snapshot | None = None) -> bool:
        facets = {"job": job(), "checkpoints": checkpoints(*ITEMS), "log": said("/c/step-50")}
        past = history(T0 + 60, used=used, **facets)
        return any(wrong_checkpoint(LOADED_RUN, past.model_copy(update={"checkpoints": marks})))

    then = CheckpointMark(at=T0 - 800, complete=3, newest=50)
    after = CheckpointMark(at=T0 + 30, complete=2, newest=1000)
    assert not wrong(then, after)
    assert not wrong(then.model_copy(update={"at": T0 + 10}), after), "first seen after the start"
    assert wrong() and wrong(after), "nobody has seen it complete"
    assert wrong(then, after.model_copy(update={"at": T0 - 5})), "another one was newest then"
    pick = Pick(path="/c/step-50", step=50, why="named")
    used = Snapshot(launch_id="i2", at=T0, action="rollback", command=("t",), checkpoint=pick)
    assert not wrong(used=used), "its plan had it complete"


def test_the_temporary_one_where_the_permanent_one_of_its_step_is_there() -> None:
    lasting = checkpoint(1000, T0 - 500).model_copy(update={"permanent": True})
    passing = lasting.model_copy(update={"permanent": False, "path": "/c/tmp/step-1000"})
    two = (lasting, passing)
    assert "is temporary" in loaded_found(two, log=said("/c/tmp/step-1000"))[0]
    assert loaded_found(two, log=said("/c/step-1000")) == []
    assert loaded_found((passing,), log=said("/c/tmp/step-1000")) == []


def test_a_sibling_of_the_root_is_foreign_and_another_name_of_it_is_unknown() -> None:
    run = run_spec(checkpoints=CheckpointSpec(path=("/data/ours/checkpoints",)))

    def wrong(path: str, **more: Any) -> bool:
        past = history(T0 + 60, job=job(), checkpoints=checkpoints(), log=said(path), **more)
        return any(wrong_checkpoint(run, past))

    theirs = "/data/theirs/checkpoints/step-9"
    assert wrong(theirs), "another run's, in the same tree"
    assert not wrong("/work/checkpoints/step-9"), "the root as a container sees it"
    assert not wrong("/mnt/data/ours/checkpoints/step-9"), "the root as another host sees it"
    assert not wrong("/data/checkpoints/step-9"), "mounted less deep"
    assert not wrong(theirs, settings=settings_of({"output_dir": "/data/theirs"})), "a link to it"
    assert wrong(theirs, settings=settings_of({"ckpt_path": "/data/theirs/checkpoints"}))


def test_last_ckpt_is_no_number_that_was_taken_for_a_word() -> None:
    plain = {"path": "/c/last.ckpt", "name_step": None, "layout": "lightning"}
    last = checkpoint(150, T0 - 600).model_copy(update=plain)
    items = (last, checkpoint(200, T0 - 500))
    assert loaded_found(items, log=said("/c/last.ckpt", 150)) == []

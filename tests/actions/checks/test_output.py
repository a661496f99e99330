from __future__ import annotations

import pytest

from cockpit.actions.checks.setup import agrees, pinned
from cockpit.model.run import CheckpointSpec, JobSpec, RunSpec
from cockpit.platforms.command import fill, values_of
from cockpit.rules.lineage.paths import (
    StatedOutput,
    all_outside,
    command_paths,
    config_paths,
    record_paths,
    shared_folders,
)
from tests.actions.contexts import hard, levels
from tests.rules.making import run_spec

ROOT = "gs://bucket/toy"


def run(root: str | None = ROOT, *paths: str) -> RunSpec:
    return run_spec(output_root=root, checkpoints=CheckpointSpec(path=paths))


@pytest.mark.parametrize(
    "root", [None, "out/toy", "gs://b/{name}", "/out/$USER", "/out/%Y-%m-%d", "/out/*", "/o/<id>"]
)
def test_a_root_that_is_not_one_fixed_place_is_never_overridden(root: str | None) -> None:
    (check,) = pinned(run(root))
    assert hard(check)


@pytest.mark.parametrize("root", [ROOT, "/data/toy", "gs://b/toy-2026-03-11"])
def test_a_fixed_place_is_pinned(root: str) -> None:
    assert pinned(run(root)) == []


@pytest.mark.parametrize(
    "path", ["gs://bucket/other", "gs://bucket-eu/toy", "gs://bucket/toy2", "/bucket/toy"]
)
def test_a_contradiction_is_a_hard_block(path: str) -> None:
    (check,) = agrees(run(), [StatedOutput("the config file (output_dir)", path)], {})
    assert hard(check) and path in check.text and ROOT in check.text


@pytest.mark.parametrize("path", [ROOT, ROOT + "/", ROOT + "/checkpoints", "GS://bucket/toy"])
def test_the_same_place_or_one_below_it_agrees(path: str) -> None:
    assert levels(agrees(run(), [StatedOutput("the config", path)], {})) == {"C-16": "pass"}


def test_a_checkpoint_root_that_the_run_file_names_is_fine_and_said() -> None:
    found = agrees(run(ROOT, "gs://temp/toy"), [StatedOutput("config", "gs://temp/toy")], {})
    assert levels(found) == {"C-16": "pass", "C-16:checkpoints": "warn"}


def test_links_are_followed_on_this_machine() -> None:
    spec = run("/data/toy")
    said = [StatedOutput("config", "/mnt/a/toy")]
    assert hard(agrees(spec, said, {})[0])
    same = {"/data/toy": "/real/toy", "/mnt/a/toy": "/real/toy"}
    assert levels(agrees(spec, said, same)) == {"C-16": "pass"}


def test_a_made_up_root_warns_until_something_confirms_it() -> None:
    spec = run("gs://b/toy-2026-03-11")
    assert levels(agrees(spec, [], {}))["C-16:derived"] == "warn"
    assert levels(agrees(spec, [StatedOutput("x", "gs://b/toy-2026-03-11")], {})) == {
        "C-16": "pass"
    }


def test_settings_that_are_written_to_and_not_those_that_are_read() -> None:
    config = {
        "trainer.output_dir": '"/o"', "load.checkpoint_path": '"/old"', "save_dir": '"rel"',
        "init_from.base_path": '"/older"', "x.base_path": '"gs://b"', "output_dir_level": '"/z"',
    }  # fmt: skip
    assert [said.path for said in config_paths("c", config)] == ["/o", "gs://b"]
    words = ("train", "--output-dir", "/a", "trainer.save_path=/b", "--load-checkpoint-path=/c")
    assert [said.path for said in command_paths(words)] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("options", "path", "fine"),
    [
        (("-v", "/data/toy:/workspace/out"), "/workspace/out/ckpt", True),
        (("--volume=/data/toy:/workspace/out:rw,z",), "/workspace/out", True),
        (("--mount", "type=bind,source=/data/toy,target=/out,readonly=false"), "/out", True),
        (("--mount=type=bind,src=/data/toy,dst=/out",), "/out", True),
        (("--container-mounts=/usr:/usr,/data:/d",), "/d/toy", True),
        (("-v", "/data/toy:/workspace", "-v", "/scratch:/workspace/out"), "/workspace/out", False),
        (("-v", "/usr:/usr"), "/workspace/out", False),
        (("--mount=type=bind,source=/data/toy,destination=/out",), "/out", True),
        (("-v", "/usr:/usr", "-v", "./runs:/out"), "/out", True),  # where that is is not known
        (("-v", "$PWD/runs:/out"), "/out", True),
        (("-v", "volume:/out"), "/out", True),
        (("--bind", "/usr:/usr,/data"), "/data/toy", True),
        (("--bind", "/usr:/usr,/data"), "/data/other", False),
        (("-v", "/usr:/usr", "-v", "/out"), "/out", False),  # a volume without a name
    ],
)
def test_a_path_in_a_container_is_compared_as_it_lies_outside(
    options: tuple[str, ...], path: str, fine: bool
) -> None:
    words = ("docker", "run", *options, "img", "python", "train.py", "--output_dir", path)
    said = list(all_outside(command_paths(words), shared_folders(words)))
    (check,) = agrees(run("/data/toy"), said, {})
    assert hard(check) is not fine
    words_of_it = ("shares with its container", "/scratch", "/data/other")
    assert fine or any(each in check.text for each in words_of_it)


def test_a_record_may_be_relative_to_the_root_s_end() -> None:
    def paths(text: str | None) -> list[str]:
        return [said.path for said in record_paths(text, "/x/runs/toy")]

    assert paths("`runs/toy`") == ["/x/runs/toy"]
    assert paths("`runs/other`") == ["runs/other"]
    assert paths("`/x/runs/toy/`") == ["/x/runs/toy"]
    assert paths("see the issue") == paths("") == paths(None) == paths("toy") == []


def far() -> RunSpec:
    """Return a run whose root is written as an address, and whose job sees a path of its host."""
    return run_spec(
        output_root="ssh://isambard/scratch/ada/toy",
        job=JobSpec(kind="slurm", host="isambard"),
        checkpoints=CheckpointSpec(path=("ssh://isambard/scratch/ada/toy/ckpt",)),
    )


@pytest.mark.parametrize(
    "path", ["/scratch/ada/toy", "/scratch/ada/toy/ckpt/", "ssh://isambard/scratch/ada/toy"]
)
def test_a_path_of_the_jobs_host_is_compared_as_the_job_sees_it(path: str) -> None:
    assert levels(agrees(far(), [StatedOutput("the command (--out)", path)], {})) == {
        "C-16": "pass"
    }


@pytest.mark.parametrize("path", ["/scratch/eve/toy", "ssh://elsewhere/scratch/ada/toy"])
def test_another_root_of_the_host_or_of_another_host_is_a_hard_block(path: str) -> None:
    assert hard(agrees(far(), [StatedOutput("the command (--out)", path)], {})[0])


def test_a_command_is_filled_with_what_the_job_itself_can_open() -> None:
    checkpoint = "ssh://isambard/scratch/ada/toy/ckpt/step-20"
    values = values_of(far(), "toy-i002", checkpoint, 20)
    assert fill(("--out={output_root}", "--load={checkpoint}"), values) == (
        "--out=/scratch/ada/toy",
        "--load=/scratch/ada/toy/ckpt/step-20",
    )

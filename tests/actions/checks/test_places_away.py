"""The places of a job on another host are tried there, and its config is read from there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.checks import code, config_file
from cockpit.actions.checks.config_file import read_config
from cockpit.actions.checks.places_away import places_away
from cockpit.model.place import place_of
from cockpit.model.run import CheckpointSpec, CodeSpec, JobSpec, RunSpec
from tests.actions.contexts import context, levels
from tests.rules.making import run_spec
from tests.sshd import Sshd, needs_sshd, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with serving(tmp_path_factory.mktemp("sshd")) as found:
        yield found


@pytest.fixture
def box(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    monkeypatch.setenv("PATH", f"{server.root}/bin:{os.environ['PATH']}")
    return server


def left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def on(box: Sshd, root: Path | str, **more: object) -> RunSpec:
    job = JobSpec(kind="box", host=box.host, log=place_of(f"ssh://{box.host}{root}/run.log"))
    place = place_of(f"ssh://{box.host}{root}")
    saved = CheckpointSpec(path=(place.below("checkpoints"),))
    return run_spec(job=job, output_root=place, checkpoints=saved, **more)


@needs_sshd
async def test_what_takes_a_file_passes_and_nothing_is_left_there(
    box: Sshd, tmp_path: Path
) -> None:
    (check,) = await places_away(on(box, tmp_path / "not made yet"), None)
    assert check.level.value == "pass" and "a file could be written on" in check.text
    assert left_in(tmp_path) == []


@needs_sshd
async def test_what_takes_none_blocks_with_the_reason(box: Sshd, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    found = await places_away(on(box, tmp_path / "file"), None)
    assert {check.level.value for check in found} == {"block"}
    assert "the output root cannot be written by this user: it is no folder" in found[0].text
    (check,) = await places_away(on(box, "/proc/none").model_copy(update={"checkpoints": None,
        "job": None}), None)  # fmt: skip
    assert check.level.value == "block" and not check.overridable


@needs_sshd
async def test_a_disk_without_room_for_a_checkpoint_blocks(box: Sshd, tmp_path: Path) -> None:
    found = await places_away(on(box, tmp_path), 1 << 60)
    assert {check.id for check in found} == {"disk"}
    assert "and a checkpoint takes" in found[0].text


async def test_a_host_that_does_not_answer_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    root = place_of("ssh://no-such-host/x")
    (check,) = await places_away(run_spec(output_root=root), None)
    assert check.level.value == "block" and "is unknown" in check.text


async def test_what_lies_in_a_store_is_said_not_to_be_tried() -> None:
    (check,) = await places_away(run_spec(output_root=place_of("gs://bucket/run")), None)
    assert check.level.value == "warn" and "is not tried from here" in check.text


@needs_sshd
def test_a_config_on_a_host_is_read_there(
    box: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "con fig.json"
    path.write_text('{"lr": 0.1}')
    there = f"ssh://{box.host}{path}"
    assert read_config(there).values == {"lr": "0.1"}
    assert (read_config(f"{there}x").trouble or "").endswith("no such file")
    monkeypatch.setattr(config_file, "BIGGEST", 4)
    assert "larger than 4 bytes" in (read_config(there).trouble or "")
    monkeypatch.undo()
    monkeypatch.setattr(config_file, "HOST_WITHIN", 0.3)
    os.mkfifo(tmp_path / "pipe.json")
    assert "no such file" in (read_config(f"ssh://{box.host}{tmp_path}/pipe.json").trouble or "")


def test_a_config_in_a_store_is_said_not_to_be_read() -> None:
    assert "files and ssh hosts only" in (read_config("gs://bucket/c.json").trouble or "")


def test_code_of_this_machine_says_little_of_a_job_that_runs_its_hosts() -> None:
    job = JobSpec(kind="slurm", id="1", host="isambard")
    here = run_spec(job=job, code=CodeSpec(repo=place_of("/src")))
    found = code._elsewhere(context(here), place_of("/src"))
    assert levels(found) == {"C-15:where": "warn"}
    assert code._elsewhere(context(here), place_of("ssh://isambard/src")) == []
    local = here.model_copy(update={"job": JobSpec(kind="local")})
    assert code._elsewhere(context(local), place_of("/src")) == []

"""``cockpit init``: what cannot be read, known or written is said in one line, never a no."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def own_jobs(self: SlurmPlatform, job: JobSpec) -> Sequence[OwnJob]:
        if job.host == "mute":
            raise CannotError("mute: no answer within 10 s")
        return []

    monkeypatch.setattr(SlurmPlatform, "own_jobs", own_jobs)


def state(path: Path, **settings: Any) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"ts": 1773219840000, **settings}))
    return str(path)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("what", "said", "unanswered"),
    [
        ("slurm@mute", "cannot tell", ["mute: no answer within 10 s"]),
        ("slurm@login1", "no job of yours is listed by slurm@login1", []),
    ],
)
def test_a_system_that_is_silent_is_not_one_that_has_no_jobs(
    what: str, said: str, unanswered: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", what]) == 2
    told = capsys.readouterr().err
    assert said in told and "nothing to start from" not in told
    assert main(["init", what, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["unanswered"] == unanswered


@pytest.mark.usefixtures("cluster")
def test_a_job_that_the_system_does_not_list_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "slurm:7@login1", "--set", "name=a"]) == 0
    assert "not among your jobs listed there" in capsys.readouterr().err


def test_a_user_with_an_at_sign_has_jobs_too(capsys: pytest.CaptureFixture[str]) -> None:
    main(["init", "iris:/a@b.org/x@http://127.0.0.1:1", "--set", "name=a", "--print", "--json"])
    settings = json.loads(capsys.readouterr().out)["settings"]
    found = {each["key"]: each["value"] for each in settings}
    assert found["job.id"] == "/a@b.org/x" and found["job.controller_url"] == "http://127.0.0.1:1"


@pytest.mark.parametrize(
    "words",
    [
        ("a" * 300,),
        ("~no-such-user/x.md",),
        ("--set", "wandb.id=q", "--out", "b" * 300),
        ("--set", "wandb.id=q", "--out", "gone/cockpit.toml"),
        ("--set", "wandb.id=q", "--set", "final_step=nan"),
        ("--set", "wandb.id=q", "--set", "final_step=1e999"),
        ("--set", "wandb.id=q", "--set", "wandb.id.x=1"),
    ],
)
def test_words_that_no_file_can_be_made_of_are_told_in_one_line(
    words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words, "--set", "name=a"]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1 and "fault" not in said
    assert not list(folder.glob("**/*.toml"))


def test_a_missing_folder_is_said_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = io.StringIO("grug\n")
    monkeypatch.setattr("cockpit.verbs.init.is_terminal", lambda *_: True)
    monkeypatch.setattr("sys.stdin", answers)
    assert main(["init", "slurm:7", "--out", "gone/cockpit.toml"]) == 2
    assert answers.read() == "grug\n"


def test_a_full_disk_leaves_no_half_of_a_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    def opened(self: Path, *_: Any, **__: Any) -> io.StringIO:
        self.touch()
        return Full()

    monkeypatch.setattr("cockpit.init.proposal.Path.open", opened)
    assert main(["init", "--set", "wandb.id=q", "--set", "name=a"]) == 2
    assert "nothing was written" in capsys.readouterr().err
    assert not (folder / "cockpit.toml").exists()


@pytest.mark.parametrize("other", [{"run": "other"}, {"job_id": 7, "ts": "x"}])
def test_files_that_may_be_another_runs_are_not_taken_in(
    other: dict[str, Any], folder: Path
) -> None:
    given = state(folder / "scratch" / "1_monitoring_state.json", run="grug")
    state(folder / "scratch" / "2_monitoring_state.json", **other)
    assert main(["init", given, "--set", "wandb.id=q"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.monitor is not None and run.monitor.state == given


def test_a_folder_that_is_gone_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gone = folder / "gone"
    gone.mkdir()
    with pytest.MonkeyPatch.context() as here:
        here.chdir(gone)
        gone.rmdir()
        assert main(["init"]) == 2
    assert "is gone; cd to one" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a@b", "50%", "%40", "a%25@"])
def test_a_listed_session_is_asked_for_on_its_own_host(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def own_jobs(self: BoxPlatform, job: JobSpec) -> Sequence[OwnJob]:
        assert job.host == "gpu1"
        return [OwnJob(id=name, name=name, text="tmux session", settings={})]

    monkeypatch.setattr(BoxPlatform, "own_jobs", own_jobs)
    assert main(["init", "box@gpu1", "--json"]) == 2
    (found,) = json.loads(capsys.readouterr().out)["found"]
    assert main(["init", found["what"], "--set", "name=a"]) == 0
    (run,) = load(Path("cockpit.toml")).runs
    assert run.job is not None and (run.job.session, run.job.host) == (name, "gpu1")


def test_a_line_that_is_cut_off_is_no_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cockpit.verbs.init.is_terminal", lambda *_: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("http://c:1\ngru"))
    assert main(["init", "iris:/ada/x", "--set", "wandb.id=q"]) == 2
    assert "the input ended; nothing was written" in capsys.readouterr().err

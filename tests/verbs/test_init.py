"""``cockpit init`` through the command line: what is written, what is asked, what is refused."""

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
from cockpit.platforms.kinds import PLATFORMS
from cockpit.platforms.slurm.platform import SlurmPlatform

STATE = {
    "ts": 1773219840000,
    "job_id": "/ada/grug",
    "config": "infra/marin.yaml",
    "resubmit_command": "uv run iris job run --no-wait -- python experiments/grug.py",
    "restart_count": 1,
}
LOGBOOK = """# grug: Hero Run Logbook
## Run Contract
- DRI: ada
- Goal: 1e23 FLOP MoE
- Stop/escalation criteria: NaN
- Issue: https://github.com/o/r/issues/12
- W&B: [the run](https://wandb.ai/marin/p/runs/grug)
- Output root: gs://bucket/grug
- Final step: 119,209
## Launched Instances
### 2026-03-11 09:04 UTC - i001
- Command: `python old.py`
- `initialize_from`: none
### 2026-03-12 09:04 UTC - i002
- Command: `uv run iris job run --no-wait -- python experiments/grug.py`
- Hardware/topology: v5p-512
## Event Log
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state(folder: Path, name: str = "20260311-0904", **changes: Any) -> str:
    path = folder / "scratch" / f"{name}_monitoring_state.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(STATE | changes))
    return str(path)


def logbook(folder: Path, text: str = LOGBOOK) -> str:
    path = folder / ".agents" / "logbooks" / "grug.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_state_file_and_a_logbook_make_a_run_file_that_can_be_used(folder: Path) -> None:
    given = ("--set", "job.controller_url=http://127.0.0.1:10000")
    assert main(["init", state(folder), logbook(folder), *given]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    job, wandb, monitor = run.job, run.wandb, run.monitor
    assert job is not None and wandb is not None and monitor is not None
    assert (run.name, run.dri, run.final_step) == ("grug", "ada", 119209)
    assert (job.kind, job.id, job.cluster) == (
        "iris", "/ada/grug", str(folder / "infra" / "marin.yaml"),
    )  # fmt: skip
    assert run.resubmit == STATE["resubmit_command"] and str(run.output_root) == "gs://bucket/grug"
    assert wandb.url == "https://wandb.ai/marin/p/runs/grug" and run.hardware == "v5p-512"
    assert run.records.issue == "https://github.com/o/r/issues/12"
    assert monitor.state == str(folder / "scratch" / "*_monitoring_state.json")
    assert run.checkpoints is None or run.checkpoints.initialize_from is None
    lines = (folder / "cockpit.toml").read_text().splitlines()
    assert all("  # " in line for line in lines if " = " in line and not line.startswith("#"))


def test_what_two_sources_disagree_about_is_never_chosen(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = logbook(folder, LOGBOOK.replace("/runs/grug", "/runs/grug-2"))
    wandb = "https://wandb.ai/marin/p/runs/grug"
    assert main(["init", other, wandb, "--set", "job.kind=slurm", "--set", "job.id=7"]) == 2
    said = capsys.readouterr().err
    assert "the sources disagree about wandb.url (" in said and "missing" not in said
    assert "grug-2" in said and "--set wandb.url=" in said
    assert not (folder / "cockpit.toml").exists()


@pytest.mark.parametrize("kind", sorted(PLATFORMS))
def test_each_kind_of_job_is_asked_for_what_makes_it_visible(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", f"{kind}:", "--set", "name=a"]) == 2
    said = capsys.readouterr().err
    for key, _ in PLATFORMS[kind].needed:
        assert f"missing: job.{key} (" in said
    given = [("--set", f"job.{key}=x") for key, _ in PLATFORMS[kind].needed]
    assert main(["init", f"{kind}:", "--set", "name=a", *(w for pair in given for w in pair)]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.job is not None and run.job.kind == kind


@pytest.mark.parametrize(
    ("what", "setting", "value"),
    [
        ("slurm:123_4@login1", "job.host", "login1"),
        ("ray:raysubmit_x@http://h:8265", "job.address", "http://h:8265"),
        ("iris:/ada/x@http://c:1", "job.controller_url", "http://c:1"),
        ("box:train@gpu1", "job.session", "train"),
        ("local:run.log", "job.log", "run.log"),
    ],
)
def test_a_job_is_named_in_one_word(
    what: str, setting: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["--set", "job.pid_file=p"] if what.startswith("local") else []
    assert main(["init", what, "--set", "name=a", *extra, "--print", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert value in [each["value"] for each in settings if each["key"] == setting]


def test_an_existing_file_is_never_touched(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cockpit.toml").write_text("mine")
    words = ["init", "slurm:7", "--set", "name=a"]
    assert main(words) == 2
    assert "--print" in capsys.readouterr().err
    assert main([*words, "--print"]) == 0
    assert capsys.readouterr().out.startswith('[[run]]\nname = "a"')
    assert (folder / "cockpit.toml").read_text() == "mine"


def test_without_a_source_it_shows_what_there_is(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state(folder)
    logbook(folder)
    (folder / "wandb" / "offline-run-20260311_090400-abc").mkdir(parents=True)
    assert main(["init", "--json"]) == 2
    found = {each["what"] for each in json.loads(capsys.readouterr().out)["found"]}
    assert found == {
        "scratch/20260311-0904_monitoring_state.json", ".agents/logbooks/grug.md", "wandb",
    }  # fmt: skip
    assert not (folder / "cockpit.toml").exists()


def test_a_person_is_asked_on_a_terminal(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state(folder)
    answers = io.StringIO("1\ngrug\nhttp://c:1\nada\n\n5000\n\n\ngrug-7\n")
    monkeypatch.setattr("cockpit.verbs.init.is_terminal", lambda *_: True)
    monkeypatch.setattr("sys.stdin", answers)
    state(folder, config="")
    assert main(["init"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert (run.name, run.dri, run.final_step) == ("grug", "ada", 5000)
    assert run.job is not None and run.job.controller_url == "http://c:1"
    assert run.finelog is not None and run.finelog.run == "grug-7"
    assert "# output_root = " in (folder / "cockpit.toml").read_text()


def test_input_that_ends_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cockpit.verbs.init.is_terminal", lambda *_: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("slurm"))
    assert main(["init", "slurm:7"]) == 2
    assert not (folder / "cockpit.toml").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nonsense",), "expected the folder that a trainer writes, a monitoring state file"),
        (("gone.json",), "gone.json does not exist"),
        (("gone.md",), "gone.md: no such file"),
        (("local:a@b",), "leave @… out"),
        (("--set", "name"), "expected KEY=VALUE"),
        (("slurm:7", "--set", "name=a", "--set", "job.hots=b"), "host"),
        (("slurm:7", "--set", "name=a", "--set", "no.such=b"), "no"),
        (("slurm:7", "--set", "name=a/b c"), "name"),
    ],
)
def test_bad_words_are_one_line_and_write_nothing(
    words: tuple[str, ...], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", *words]) == 2
    found = capsys.readouterr().err
    assert said in found and "Traceback" not in found and "fault" not in found
    assert not (folder / "cockpit.toml").exists()


def test_no_secret_reaches_the_file(folder: Path) -> None:
    token = "ghp_" + "q1W2e3R4t5Y6" * 3
    given = state(folder, resubmit_command=f"TOKEN={token} python x.py", run="grug", config="c")
    main(["init", given, "--set", "job.controller_url=http://c:1"])
    assert token not in (folder / "cockpit.toml").read_text()


def test_files_of_several_jobs_are_told_apart(folder: Path) -> None:
    state(folder, name="20260311-0905", job_id="/ada/other")
    given = state(folder, run="grug")
    assert main(["init", given, "--set", "job.controller_url=http://c:1"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.monitor is not None and run.monitor.state == given


def test_hostile_words_of_a_logbook_are_harmless(folder: Path) -> None:
    text = LOGBOOK.replace("1e23 FLOP MoE", 'x" \x1b[2J\x00 = 1 # "]\u202e')
    words = ["init", logbook(folder, text), "--set", "job.kind=slurm", "--set", "job.id=7"]
    assert main(words) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.goal is not None and "\x1b" not in (folder / "cockpit.toml").read_text()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def own_jobs(self: SlurmPlatform, job: JobSpec) -> Sequence[OwnJob]:
        if job.host != "login1":
            raise CannotError("login2: no answer within 10 s")
        settings = {"job.log": "/scratch/a/slurm-7.out", "job.workdir": "/scratch/a"}
        return [OwnJob(id="7", name="grug", text="RUNNING", settings=settings)]

    monkeypatch.setattr(SlurmPlatform, "own_jobs", own_jobs)


@pytest.mark.usefixtures("cluster")
def test_what_the_system_tells_of_a_job_is_taken_and_its_name_only_suggested(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "slurm:7@login1"]) == 2
    assert "missing: name (grug (slurm job 7))" in capsys.readouterr().err
    assert main(["init", "slurm:7@login1", "--set", "name=mine"]) == 0
    (run,) = load(folder / "cockpit.toml").runs
    assert run.job is not None and str(run.job.log) == "ssh://login1/scratch/a/slurm-7.out"


@pytest.mark.usefixtures("cluster")
def test_all_jobs_of_a_system_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", "slurm@login1", "--json"]) == 2
    found = json.loads(capsys.readouterr().out)["found"]
    assert found == [{"what": "slurm:7@login1", "text": "grug, RUNNING"}]


@pytest.mark.usefixtures("cluster")
def test_a_system_that_does_not_answer_is_said_and_ends_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", "slurm:7@login2", "--set", "name=a"]) == 0
    assert "no answer within 10 s; only what was given is used" in capsys.readouterr().err
    assert (folder / "cockpit.toml").exists()

"""What the cockpit and the runs write into the code repository is never taken for code (C-15)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import Touches, touches, worst_first
from cockpit.model.observed import CodeValue
from cockpit.rules.lineage.drift import same_code
from cockpit.sources.git.code import Code
from tests.sources.git.repos import commit, git, repository

RUN_FILE = """
[cockpit]
operator = "ada"
cadence = "5m"

[[run]]
name = "toy"
dri = "ada"
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", log = "logs/toy.txt", pid_file = "state/toy.pid", exit_file = "toy.exit" }}
monitor = {{ state = "scratch/*_monitoring_state.json", events = "scratch/monitor.events" }}
records = {{ logbook = "book/toy.md", run_log = "book/run_logs/toy.md" }}
code = {{ repo = "." }}
"""


def checkout(tmp_path: Path, root: str = "outputs/run1") -> Path:
    repo = repository(tmp_path / "code")
    (repo / "cockpit.toml").write_text(RUN_FILE.format(root=root))
    (repo / "book").mkdir()
    (repo / "book/toy.md").write_text("# Toy\n")
    commit(repo, "run file")
    git(repo, "push", "-q")
    return repo


async def code_of(repo: Path, **launched: str) -> CodeValue:
    file = load(repo / "cockpit.toml")
    facet = (await Code(SystemClock()).observe(file.runs, launched))["toy"]
    assert facet.value is not None, facet.error
    return facet.value


def counting(repo: Path, *paths: str) -> list[str]:
    spec = load(repo / "cockpit.toml").runs[0].code
    assert spec is not None
    return [path for _, path in worst_first(paths, spec)]


WRITTEN = (
    "outputs/run1/.cockpit/claim.lock",
    "outputs/run1/step-5/weights.bin",
    "outputs/run1/step-5/config.json",
    "logs/toy.txt",
    "state/toy.pid",
    "toy.exit",
    "toy.exit.4211.new",
    "toy.exit.123",
    "scratch/20260311-0855_monitoring_state.json",
    "scratch/monitor.events",
    "book/toy.md",
    "book/run_logs/toy.md",
    ".cockpit/told.md",
)


async def test_what_the_cockpit_and_the_run_write_never_counts(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    for name in WRITTEN:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text("x\n")
    (repo / "cockpit.toml").write_text((repo / "cockpit.toml").read_text() + "\n# edited\n")
    value = await code_of(repo)
    assert (value.dirty, value.untracked, value.patch_id) == ((), (), None)
    assert counting(repo, *WRITTEN, "cockpit.toml") == []


async def test_code_beside_or_inside_an_output_folder_still_counts(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    (repo / "outputs/run1/.cockpit").mkdir(parents=True)
    (repo / "outputs/run1/.cockpit/claim.lock").touch()
    (repo / "outputs/model.py").write_text("width = 2\n")
    value = await code_of(repo)
    assert counting(repo, *value.dirty) == ["outputs/model.py"]
    assert counting(repo, "outputs/run1/train.py", "outputs/run10/a.bin", "toy.exits.py") == [
        "outputs/run1/train.py", "outputs/run10/a.bin", "toy.exits.py",
    ]  # fmt: skip


@pytest.mark.parametrize("root", [".", "..", "/elsewhere/out"])
async def test_an_output_root_that_holds_the_repository_hides_no_code(
    tmp_path: Path, root: str
) -> None:
    repo = checkout(tmp_path, root)
    assert counting(repo, "model.py", "new/", ".cockpit/x") == ["model.py", "new/"]


async def test_commits_are_compared_by_what_they_change(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    launched = git(repo, "rev-parse", "HEAD")
    shas = [launched]
    for number in range(3):
        (repo / "book/toy.md").write_text(f"# Toy\n{number}\n")
        shas.append(commit(repo, "toy: log check"))
    (repo / "README.md").write_text("prose\n")
    shas.append(commit(repo, "prose"))
    value = await code_of(repo, toy=shas[1])
    assert all(same_code(value, one, other) for one in shas for other in shas)
    (repo / "train.py").write_text("lr = 9\n")
    changed = commit(repo, "another rate")
    (repo / "book/toy.md").write_text("# Toy\nlater\n")
    later = commit(repo, "toy: log check")
    value = await code_of(repo, toy=shas[1])
    assert same_code(value, shas[0], shas[-1]) and not same_code(value, shas[0], changed)
    assert not same_code(value, shas[0], later)
    assert not same_code(value, "0" * 40, shas[0])


def test_a_launch_plan_is_not_stopped_by_what_its_own_first_act_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    repo = checkout(tmp_path)
    (repo / "outputs/run1/.cockpit").mkdir(parents=True)
    (repo / "outputs/run1/.cockpit/claim.lock").touch()
    main(["relaunch", "toy", "--config", str(repo / "cockpit.toml"), "--json"])
    checks = json.loads(capsys.readouterr().out)["checks"]
    said = [check["text"] for check in checks if check["id"].startswith("C-15")]
    assert said and not any("uncommitted" in text for text in said), said


def test_the_run_file_cannot_say_what_is_the_cockpits(tmp_path: Path) -> None:
    repo = checkout(tmp_path)
    text = (repo / "cockpit.toml").read_text()
    (repo / "cockpit.toml").write_text(text.replace('repo = "."', 'repo = ".", own_files = ["**"]'))
    with pytest.raises(Exception, match="own_files"):
        load(repo / "cockpit.toml")


def test_a_name_in_any_folder_is_known_by_its_whole_part(tmp_path: Path) -> None:
    spec = load(checkout(tmp_path) / "cockpit.toml").runs[0].code
    assert spec is not None
    assert touches("a/b/.cockpit/launches/x", spec) is Touches.IGNORE
    assert touches("a/my.cockpit/x.py", spec) is Touches.TRAJECTORY

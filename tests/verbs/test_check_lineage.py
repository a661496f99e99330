"""What a job is, held against its record through the real entry; and a look-alike that is well."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources.git.repos import git, repository
from tests.verbs.checking import check

RUN_FILE = """
[cockpit]
cadence = "2m"
operator = "ada"

[[run]]
name = "toy"
output_root = "out"
final_step = 1000
job = { kind = "local", log = "out/log.txt", pid_file = "out/run.pid" }
wandb = { entity = "e", project = "p", id = "toy", dir = "wandb" }
checkpoints = { path = "out/ck", layout = "levanter" }
code = { repo = "code" }
records = { logbook = "book.md" }
monitor = { state = "*_monitoring_state.json" }
"""
LOGBOOK = """# Toy: Hero Run Logbook

## Launched Instances

### 2026-01-02 03:04 UTC - toy-i001
- Command: `python train.py`
- Git SHA: {sha}
"""

LONG_AGO = 1_700_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A job that lives, at its recorded commit, with one complete and one torn checkpoint."""
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    repo = repository(tmp_path / "code")
    for step, whole in ((40, False), (50, True)):
        place = tmp_path / f"out/ck/step-{step}"
        place.mkdir(parents=True)
        (place / "weights").write_bytes(b"w")
        if whole:
            (place / "metadata.json").write_text(json.dumps({"step": step}))
        for each in (*place.iterdir(), place):
            os.utime(each, (LONG_AGO, LONG_AGO))  # nobody writes it any more
    (tmp_path / "book.md").write_text(LOGBOOK.format(sha=git(repo, "rev-parse", "HEAD")))
    told(tmp_path, page="toy", step=50)
    job = subprocess.Popen(["sleep", "600"], cwd=tmp_path)
    (tmp_path / "out/run.pid").write_text(f"{job.pid}\n")
    yield tmp_path
    job.kill()
    job.wait()


def told(folder: Path, page: str, step: int, last: str = "step 52 loss 2.3") -> None:
    """Write what the trainer prints and what its monitor holds."""
    address = f"https://wandb.ai/e/p/runs/{page}"
    lines = (
        f"wandb: View run toy at: {address}",
        f"Resuming from checkpoint {folder}/out/ck/step-{step}",
        "step 51 loss 2.4",
        last,
    )
    (folder / "out/log.txt").write_text("".join(f"{line}\n" for line in lines))
    state = {"job_id": "toy", "owner": "ada", "wandb_url": address}
    (folder / "toy_monitoring_state.json").write_text(json.dumps(state))


WATCHED = ("C-13", "C-15", "C-16", "C-17", "C-18", "C-26")


def opened(folder: Path) -> dict[str, list[str]]:
    alerts = [each for each in check(folder)["alerts"] if each["id"] in WATCHED]
    return {each["id"]: [line["text"] for line in each["evidence"]] for each in alerts}


def test_a_job_that_is_what_the_record_says_opens_none_of_them(folder: Path) -> None:
    (folder / "code/notes.md").write_text("a thought")
    (folder / "code/out.pt").write_bytes(b"x")
    assert opened(folder) == {}


def test_another_page_other_code_a_torn_checkpoint_and_a_notice(folder: Path) -> None:
    told(folder, page="abc", step=40, last="Preemption notice received, 30 s left")
    (folder / "code/train.py").write_text("lr = 2")
    git(folder / "code", "add", ".")
    git(folder / "code", "commit", "-q", "-m", "x")
    found = opened(folder)
    assert sorted(found) == ["C-13", "C-15", "C-17", "C-26"]
    assert [text.split(" https")[0] for text in found["C-13"]] == [
        "the log names", "the state file holds",
    ]  # fmt: skip
    assert found["C-15"][0].endswith(": train.py (affects training)")
    assert found["C-17"][0].startswith("step 40 is incomplete")

"""A living job that runs what the run's job runs, and names nothing of the run (C-25)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.place import place_of
from cockpit.model.run import RunSpec
from cockpit.platforms.slurm.book import Book, Chains
from cockpit.platforms.slurm.lineage import Lineage, lineage_of
from cockpit.platforms.slurm.record import Record
from tests.platforms.slurm.asking import platform, queries, run_of
from tests.platforms.slurm.rig import Rig

TOY = run_of("toy", "12", root="/runs/toy", wandb="abc123", diagnostic=("*-eval*",))
PLAIN = Record(
    id="12", raw="12", base="12", state="FAILED", name="train", uid="1000",
    script="/home/ada/train.sh --lr 3e-4", workdir="/home/ada",
)  # fmt: skip


def record(raw: str, **more: object) -> Record:
    alive = replace(PLAIN, id=raw, raw=raw, base=raw, state="RUNNING")
    return replace(alive, **more)  # type: ignore[arg-type]


def found(*records: Record, run: RunSpec = TOY, claimed: dict[str, str] | None = None) -> Lineage:
    book = Book({each.raw: each for each in records}, "1000")
    return lineage_of(run, book, Chains(), claimed)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"name": "mine", "workdir": "/tmp"},
        {"script": "/home/ada/train.sh --lr 3e-4 --verbose"},
        {"script": "train.sh --lr 3e-4"},
        {"script": "./train.sh --lr 3e-4"},
        {"script": "/home/ada/train.sh --lr 3e-4 --resume last"},
        {"script": "/home/ada/copy.sh"},
        {"script": ""},
        {"comment": "please keep"},
        {"uid": "1001"},
        {"kind": "array", "tasks": "0-3%1"},
        {"state": "PENDING", "reason": "Priority"},
    ],
)
def test_a_job_that_may_be_the_run_a_second_time(more: dict[str, str]) -> None:
    lineage = found(PLAIN, record("13", **more))
    assert [(job.id, job.alike) for job in lineage.beside.possible] == [("13", True)]
    assert lineage.beside.rivals == []


@pytest.mark.parametrize(
    "more",
    [
        {"script": "/home/ada/train.sh --lr 1e-4"},
        {"script": "/home/ada/train.sh --lr 3e-4 seed5"},
        {"script": "/home/ada/train.sh --lr 3e-4 --output-dir /runs/toy2"},
        {"script": "/home/ada/train.sh --lr 3e-4 --wandb_run_id zzz"},
        {"command": "sbatch --export=ALL,WANDB_RUN_ID=zzz train.sh"},
        {"comment": "other-i004"},
        {"name": "train-eval-100"},
        {"script": "/home/ada/plot.sh", "name": "plot"},
        {"name": "wrap", "script": ""},
        {"state": "COMPLETED"},
    ],
)
def test_a_job_of_another_run_stands_in_nobodys_way(more: dict[str, str]) -> None:
    lineage = found(PLAIN, record("13", **more))
    assert (lineage.beside.possible, lineage.beside.rivals) == ([], [])


def test_the_other_tasks_of_an_array_are_no_second_run() -> None:
    run = run_of("toy", "20_3", root="/runs/toy")
    tasks = [record(f"2{n}", id=f"20_{n}", base="20", kind="array", tasks=str(n)) for n in range(5)]
    assert found(*tasks, run=run).beside.possible == []


def test_what_another_run_names_as_its_job_is_that_runs() -> None:
    assert found(PLAIN, record("13"), claimed={"13": "other"}).beside.possible == []


def test_one_that_is_held_is_shown_and_blocks_nothing() -> None:
    held = record("13", state="PENDING", reason="JobHeldUser")
    (job,) = found(PLAIN, held).beside.possible
    assert not job.alike and "never starts by itself" in job.why


def test_the_run_file_alone_tells_the_script() -> None:
    """The controller has forgotten the run's own job: the recorded command is what is left."""
    run = TOY.model_copy(
        update={
            "resubmit": "sbatch --time=4:00:00 -J train /home/ada/train.sh --resume {checkpoint}"
        }
    )
    jobs = (
        record("13", script="/home/ada/train.sh --resume /old", name="mine"),
        record("14", name="x", script="/x.sh"),
    )
    assert [job.id for job in found(*jobs, run=run).beside.possible] == ["13"]


def test_another_users_job_is_not_ours_to_stop() -> None:
    (job,) = found(PLAIN, record("13", uid="1001")).beside.possible
    assert "1001" in job.why and job.beyond is not None
    (rival,) = found(PLAIN, record("13", uid="1001", comment="toy-i003")).beside.rivals
    assert rival.beyond is not None


TRAIN = """#!/bin/bash
#SBATCH --time=10
export WANDB_RUN_ID={wandb}
source env.sh
python prepare.py
srun python -u train.py \\
  --config {config}
"""


@pytest.mark.parametrize(
    ("text", "similar"),
    [
        (TRAIN.format(wandb="$ID", config="toy.yaml"), True),
        ("#!/bin/sh\nexec torchrun --nproc 8 /home/ada/train.py --config toy.yaml --resume", True),
        ("#!/bin/sh\n# wrapped\n\nbash train.sh --lr 3e-4", True),
        ("OUT=1\nOUTPUT_DIR=/runs/toy python -m other", False),
        ("export OUTPUT_DIR=/runs/toy\npython -m other", True),
        ("python other.py --output-dir /runs/toy/a", True),
        (TRAIN.format(wandb="$ID", config="toy2.yaml"), False),
        (TRAIN.format(wandb="zzz", config="toy.yaml"), False),
        ("python train.py --config toy.yaml --output-dir /runs/toy2", False),
        ("source env.sh\npython prepare.py\npython eval.py --config toy.yaml", False),
        ("# python train.py --config toy.yaml\nsleep 10", False),
        ("", False),
    ],
)
def test_a_batch_script_is_known_by_what_it_calls(text: str, similar: bool) -> None:
    """Whatever the script is called, and where it lies: a copy, a heredoc, ``--wrap``."""
    other = record("13", script="", name="wrap", workdir="/home/ada")
    files = {"/home/ada/train.sh": TRAIN.format(wandb="abc123", config="toy.yaml"), "13": text}
    book = Book({each.raw: each for each in (PLAIN, other)}, "1000", files)
    found = lineage_of(TOY, book, Chains())
    assert [job.id for job in found.beside.possible] == (["13"] if similar else [])


# On a real Slurm.

RUN_FILE = """
[cockpit]
operator = "ada"

[[run]]
name = "toy"
tier = "ordinary"
dri = "ada"
final_step = 1000
output_root = "{folder}/runs/toy"
resubmit = ["sbatch", "--mem=10", "{folder}/jobs/train.sh"]
[run.job]
kind = "slurm"
id = "{job}"
log = "{folder}/jobs/slurm-{job}.out"
workdir = "{folder}/jobs"
"""
SCRIPT = "#!/bin/sh\nsleep ${1:-60}\n"


@pytest.fixture
def ended(slurm: Rig, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The run's job, which has failed; each test leaves the rig without jobs."""
    monkeypatch.setenv("SLURM_CONF", str(slurm.conf))
    script = slurm.folder / "jobs" / "train.sh"
    script.write_text("#!/bin/sh\nexit 3\n")
    job = slurm.told("sbatch", "--parsable", "--mem=10", str(script))
    slurm.wait_for(job, "FAILED")
    script.write_text(SCRIPT)
    yield job
    slurm.clear()


def cockpit(slurm: Rig, folder: Path, job: str, *words: str) -> dict[str, Any]:
    config = folder / "cockpit.toml"
    config.write_text(RUN_FILE.format(folder=slurm.folder, job=job))
    done = subprocess.run(
        [sys.executable, "-m", "cockpit", *words, "--config", config, "--json"],
        capture_output=True, env={**slurm.environment, "XDG_STATE_HOME": str(folder)},
        cwd=Path(__file__).parents[3], check=False, timeout=60,
    )  # fmt: skip
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def blocks(document: dict[str, Any]) -> dict[str, bool]:
    checks = document["checks"]
    return {each["id"]: each["overridable"] for each in checks if each["level"] == "block"}


def test_a_hand_submitted_copy_blocks_the_relaunch_until_a_person_decides(
    slurm: Rig, ended: str, tmp_path: Path
) -> None:
    words = ["-J", "mine", "-o", "/dev/null", f"{slurm.folder}/jobs/train.sh"]
    copy = slurm.told("sbatch", "--parsable", "--mem=10", *words)
    slurm.wait_for(copy, "RUNNING")
    plan = cockpit(slurm, tmp_path, ended, "relaunch", "toy")
    assert blocks(plan).get("similar-job") is True, plan["checks"]
    checked = cockpit(slurm, tmp_path, ended, "check")
    alert = next(each for each in checked["runs"][0]["alerts"] if each["id"] == "C-25")
    assert alert["severity"] == "warning" and copy in alert["title"]
    slurm.told("scancel", copy)
    slurm.clear()
    assert "similar-job" not in blocks(cockpit(slurm, tmp_path, ended, "relaunch", "toy"))


async def test_copies_in_other_spellings_are_seen_before_they_write_anything(
    slurm: Rig, ended: str, tmp_path: Path
) -> None:
    jobs = slurm.folder / "jobs"
    text = "#!/bin/sh\nOUT=1\nexec python3 -u /opt/toy/train.py --config toy.yaml\n"
    (jobs / "train.sh").write_text(text)
    (tmp_path / "copy.sh").write_text(text.replace("OUT=1", "#SBATCH --time=9\necho edited"))
    (tmp_path / "link.sh").symlink_to(jobs / "train.sh")
    hold = ("--begin=now+1hour", "-o", "/dev/null", "-D", str(tmp_path))
    words = (
        [str(tmp_path / "copy.sh")],
        [str(tmp_path / "link.sh")],
        ["--wrap", "python3 /opt/toy/train.py --config toy.yaml --resume yes"],
        ["--wrap", f"sh {jobs}/train.sh"],
        ["-J", "x", "train.sh"],  # found where sbatch is called, works elsewhere
    )
    copies = [slurm.told("sbatch", "--parsable", "--mem=10", *hold, *each) for each in words]
    others = [
        slurm.told("sbatch", "--parsable", "--mem=10", *hold, "--wrap", each)
        for each in ("python3 /opt/toy/train.py --config b.yaml", "python3 /opt/toy/eval.py")
    ]
    assert all(each.isdecimal() for each in (*copies, *others))
    run = run_of("toy", ended, root="/runs/toy", workdir=place_of(str(jobs)))
    run = run.model_copy(update={"resubmit": f"sbatch {jobs}/train.sh"})
    live = (await platform().live([run]))["toy"]
    assert sorted(job.id for job in live.alike) == sorted(copies), live


def test_the_same_script_for_another_run_blocks_nothing(
    slurm: Rig, ended: str, tmp_path: Path
) -> None:
    script = str(slurm.folder / "jobs" / "train.sh")
    for words in ([script, "55"], ["--comment=other-i007", script], ["--wrap", "sleep 50"]):
        slurm.wait_for(slurm.told("sbatch", "--parsable", "--mem=10", *words), "RUNNING")
    assert "similar-job" not in blocks(cockpit(slurm, tmp_path, ended, "relaunch", "toy"))


async def test_a_job_of_another_user_is_seen(slurm: Rig, ended: str) -> None:
    """The jobs of all users are looked through, and squeue confirms each that is told of."""
    script = str(slurm.folder / "jobs" / "train.sh")
    words = ["--uid=1", "--gid=1", "--begin=now+1hour", "-D", "/", "-o", "/dev/null", script]
    theirs = slurm.told("sbatch", "--parsable", "--mem=10", *words)
    assert theirs.isdecimal(), "sbatch --uid was refused"
    run = run_of("toy", ended, root="/runs/toy")
    own = platform()
    await own.jobs(queries(run))
    live = (await own.live([run]))["toy"]
    slurm.told("scancel", theirs)
    (job,) = live.alike
    assert job.id == theirs and job.beyond is not None, live

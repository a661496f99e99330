"""Faults of what a run leaves behind, and of its machine.

C-07, C-08, C-15 to C-17, C-19, C-22, C-24.
"""

from __future__ import annotations

import os
import subprocess
from functools import partial

from bench.judgement.clock import HOUR
from bench.judgement.files import iso
from bench.judgement.scenario import fault
from bench.judgement.scenarios.metrics import change
from bench.judgement.stage import CADENCE, Stage

LOOK = CADENCE / HOUR


@fault("C-07", at=4.1, within=1.0)
def _nothing_is_saved_any_more(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: change(stage, saving=False))


@fault("C-07", at=4.1, within=1.0)
def _saves_stay_without_their_marker(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: change(stage, whole=False))


def hero(stage: Stage, depth: int = 4) -> None:
    """Make it a run that must keep a rollback depth."""
    stage.changes["tier"] = "hero"
    stage.changes["checkpoints"] = {"rollback_depth": depth}


@fault("C-08", at=5.1, within=0)
def _three_of_five_checkpoints_disappear(stage: Stage) -> None:
    hero(stage)
    stage.begin()

    def gone() -> None:
        for step in stage.saves.steps()[:3]:
            stage.saves.delete(step)

    stage.at(5.1 * HOUR, gone)


@fault("C-08", at=5.1, within=0)
def _a_protected_checkpoint_disappears(stage: Stage) -> None:
    stage.changes["checkpoints"] = {"protect": [10]}
    stage.saves.protected = (10,)
    stage.begin()
    stage.at(0.3 * HOUR, lambda: stage.saves.save(10, stage.now))
    stage.at(5.1 * HOUR, lambda: stage.saves.delete(10))


def repository(stage: Stage) -> None:
    """Make the code's repository, committed and in the run file; its commit is in the logbook."""
    folder = stage.folder / "code"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "lm.py").write_text("WIDTH = 2048\n")
    (folder / "README.md").write_text("# lm\n")
    env = {
        "PATH": os.environ["PATH"], "HOME": str(stage.folder), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": iso(stage.now), "GIT_COMMITTER_DATE": iso(stage.now),
    }  # fmt: skip
    ada = (
        "-c",
        "user.name=ada",
        "-c",
        "user.email=ada@example.org",
        "-c",
        "init.defaultBranch=main",
    )
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "the launch")):
        subprocess.run(["git", *ada, *words], cwd=folder, env=env, check=True, capture_output=True)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, env=env, check=True, capture_output=True
    )
    sha = done.stdout.decode().strip()
    stage.changes["code"] = {"repo": str(folder)}
    stage.changes["records"] = {"logbook": str(stage.folder / "book.md")}
    stage.book("launch", f"Git SHA: {sha}")


@fault("C-15", at=3.1, within=LOOK, also="C-24")
def _the_model_is_edited_under_a_running_run(stage: Stage) -> None:
    repository(stage)
    stage.begin()
    lines = stage.folder / "code" / "models" / "lm.py"
    stage.at(3.1 * HOUR, lambda: lines.write_text("WIDTH = 4096\n"))


@fault("C-16", at=0.1, within=LOOK, lasts=3)
def _the_trainer_writes_to_another_place(stage: Stage) -> None:
    other = str(stage.folder / "elsewhere")
    config = {"output_dir": other, "trainer.checkpointer.base_path": f"{other}/checkpoints"}
    stage.begin(config=config)


@fault("C-12", at=4.6, within=2 * LOOK, also="C-01")
def _a_restart_loads_an_older_checkpoint_than_the_newest(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))
    stage.at(4.5 * HOUR, lambda: stage.resume(lost=360, step=stage.saves.steps()[0]))


@fault("C-17", at=4.6, within=LOOK, also="C-01 C-07")
def _a_restart_loads_a_checkpoint_that_is_torn(stage: Stage) -> None:
    stage.begin()

    def ends() -> None:
        stage.end("PREEMPTED", "0:0")
        stage.saves.save(stage.trainer.step, stage.now, whole=False)

    stage.at(4.1 * HOUR, ends)
    stage.at(4.6 * HOUR, stage.submit, lambda: stage.start(stage.saves.steps()[-1]))


@fault("C-17", at=4.6, within=LOOK, also="C-01")
def _a_restart_loads_a_checkpoint_of_another_run(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))
    other = stage.folder / "lm-1b-old" / "checkpoints"

    def again() -> None:
        step = stage.saves.steps()[-1]
        stage.submit()
        stage.start(step, loads=other / f"step-{step}")

    stage.at(4.6 * HOUR, again)


@fault("C-19", at=3.1, within=0)
def _success_far_short_of_the_final_step(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, stage.finish)


ENDS = (400 * 30 + 240) / HOUR
"""About when a run of 400 steps ends (h)."""


@fault("C-19", at=ENDS - LOOK / 2, within=LOOK)
def _success_without_a_final_checkpoint(stage: Stage) -> None:
    """Train to the last step; what was saved last is of some minutes before."""
    stage.ends_at(400, lambda: stage.finish(save=False))
    stage.begin()


@fault("C-19", at=ENDS - LOOK / 2, within=LOOK)
def _success_whose_tracker_never_finished(stage: Stage) -> None:
    stage.ends_at(400, lambda: stage.finish(close=False))
    stage.begin()


def machine(stage: Stage, used: int, killed: int = 0) -> None:
    """Write what a machine's kernel tells of the memory of the job's group: 100 GiB are its own."""
    own = stage.folder / "machine" / "sys" / "fs" / "cgroup" / "job"
    own.mkdir(parents=True, exist_ok=True)
    told = {
        "memory.max": f"{100 << 30}\n", "memory.current": f"{used << 30}\n",
        "memory.stat": "file 0\ninactive_file 0\n", "memory.events": f"oom_kill {killed}\n",
    }  # fmt: skip
    for name, text in told.items():
        (own / name).write_text(text)
    process = stage.folder / "machine" / "proc" / "self"
    process.mkdir(parents=True, exist_ok=True)
    (process / "cgroup").write_text("0::/job\n")
    stage.machine = stage.folder / "machine"
    stage.changes["thresholds"] = {"disk_frac": 1.0}  # its disk is that of whoever runs this


@fault("C-22", at=3.1, within=0)
def _memory_of_the_job_is_nearly_used_up(stage: Stage) -> None:
    machine(stage, 40)
    stage.begin()
    stage.at(3.1 * HOUR, lambda: machine(stage, 96))


@fault("C-22", at=3.1, within=LOOK)
def _a_child_is_killed_for_memory(stage: Stage) -> None:
    machine(stage, 40)
    stage.begin()
    stage.at(3.1 * HOUR, lambda: machine(stage, 40, 1))


def booked(stage: Stage, until: float, every: float = CADENCE) -> None:
    """Keep a hero run's logbook until then."""
    stage.changes["tier"] = "hero"
    stage.changes["checkpoints"] = {"rollback_depth": 4}
    stage.changes["records"] = {"logbook": str(stage.folder / "book.md")}
    for beat in range(int(until * HOUR / every) + 1):
        stage.at(beat * every + 5, partial(stage.book, f"check {beat}"))


@fault("C-24", at=3.1, within=2 * LOOK)
def _nobody_writes_the_logbook_any_more(stage: Stage) -> None:
    booked(stage, 3.1)
    stage.begin()

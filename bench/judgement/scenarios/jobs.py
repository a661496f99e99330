"""Faults of jobs and of what is known of them: C-01 to C-04, C-14, C-25, C-26."""

from __future__ import annotations

from functools import partial

from bench.judgement.clock import HOUR, MINUTE
from bench.judgement.cluster import Job
from bench.judgement.scenario import fault
from bench.judgement.stage import CADENCE, Stage

TRACEBACK = (
    "ERROR main: step function failed",
    "Traceback (most recent call last):",
    '  File "/home/ada/lm/train.py", line 211, in <module>',
    "    main(parse(sys.argv))",
    '  File "/home/ada/lm/train.py", line 148, in main',
    "    report(metrics['tokens_seen'])",
    "KeyError: 'tokens_seen'",
)
LOOK = CADENCE / HOUR


@fault("C-01", at=3.1, within=0)
def _the_job_ends_with_a_traceback(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, lambda: stage.end("FAILED", "1:0", *TRACEBACK))


@fault("C-01", at=3.1, within=0)
def _the_job_is_killed_without_a_word(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, lambda: stage.end("FAILED", "0:9", reason="RaisedSignal:9(Killed)"))


@fault("C-01", at=3.1, within=0, also="C-26")
def _the_time_limit_ends_the_job(stage: Stage) -> None:
    stage.begin(limit=3.1 * HOUR)
    line = (
        "slurmstepd: error: *** JOB 101 ON node-3 CANCELLED AT 2025-06-15T18:12:40"
        " DUE TO TIME LIMIT ***"
    )
    stage.at(3.1 * HOUR, lambda: stage.end("TIMEOUT", "0:0", line))


@fault("C-01", at=3.1, within=0)
def _the_node_is_lost(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, lambda: stage.end("NODE_FAIL", "1:0", reason="NodeFail"))


@fault("C-01", at=3.1, within=0)
def _the_job_runs_out_of_memory(stage: Stage) -> None:
    stage.begin()
    line = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=101.batch."
        " Some of the step tasks have been OOM Killed."
    )
    stage.at(3.1 * HOUR, lambda: stage.end("OUT_OF_MEMORY", "0:125", line, reason="OutOfMemory"))


@fault("C-01", at=3.1, within=0)
def _somebody_cancels_the_job(stage: Stage) -> None:
    stage.begin()
    line = "slurmstepd: error: *** JOB 101 ON node-3 CANCELLED AT 2025-06-15T18:12:40 ***"
    stage.at(3.1 * HOUR, lambda: stage.end("CANCELLED by 1001", "0:15", line))


def silence(stage: Stage, begin: float, end: float) -> None:
    """Let the scheduler give no answer from one hour to another."""

    def silent() -> None:
        stage.cluster.silent = "no answer within 16 s"

    def answers() -> None:
        stage.cluster.silent = None

    stage.at(begin * HOUR, silent)
    stage.at(end * HOUR, answers)


@fault("C-02", at=3.1, within=2 * LOOK + LOOK, over=5.1)
def _the_scheduler_does_not_answer(stage: Stage) -> None:
    stage.begin()
    silence(stage, 3.1, 5.1)


def monitored(
    stage: Stage, until: float, name: str = "a", first: float = 0.0, offset: float = 0.0
) -> None:
    """Let a monitor write its state file from one hour to another; its clock may be off."""
    stage.changes["monitor"] = {
        "state": str(stage.folder / "scratch" / "*_monitoring_state.json"), "cadence": "570s",
    }  # fmt: skip
    for beat in range(int((until - first) * HOUR / 570)):
        stage.at(first * HOUR + beat * 570 + 1, partial(_beat, stage, name, offset))


def _beat(stage: Stage, name: str, offset: float) -> None:
    stage.state_file(name, stage.now + offset)


@fault("C-03", at=3.1, within=2 * 570 / HOUR)
def _the_monitor_dies(stage: Stage) -> None:
    stage.begin()
    monitored(stage, 3.1)


@fault("C-03", at=3.1, within=LOOK)
def _a_second_monitor_watches_the_same_job(stage: Stage) -> None:
    stage.begin()
    monitored(stage, 8.0)
    monitored(stage, 8.0, "b", 3.1)


@fault("C-04", at=0, within=0.5, lasts=3, over=2.0)
def _the_job_waits_for_resources(stage: Stage) -> None:
    stage.submit()
    stage.at(2.0 * HOUR, stage.start)


@fault("C-04", at=0.1, within=0)
def _the_job_can_never_start(stage: Stage) -> None:
    stage.at(0.1 * HOUR, lambda: stage.submit(reason="PartitionNodeLimit"))


def failing_again(stage: Stage, *moments: float, lines: tuple[str, ...] = TRACEBACK) -> None:
    """Let it fail at these hours, and be submitted again by somebody else 15 minutes later."""
    stage.begin()
    for moment in moments:
        stage.at(moment * HOUR, lambda: stage.end("FAILED", "1:0", *lines))
        if moment != moments[-1]:
            stage.at((moment + 0.25) * HOUR, lambda: stage.resume(lost=5 * MINUTE))


@fault("C-14", at=4.6, within=0, also="C-01")
def _the_same_failure_again_after_a_restart_by_hand(stage: Stage) -> None:
    failing_again(stage, 3.1, 4.6)


@fault("C-14", at=4.1, within=LOOK, also="C-01 C-14")
def _a_job_that_its_scheduler_restarts_again_and_again(stage: Stage) -> None:
    stage.begin()
    for count, moment in enumerate((2.1, 3.1, 4.1), 1):
        stage.at(moment * HOUR, partial(requeue, stage, count))


def requeue(stage: Stage, count: int, waits: float = 5 * MINUTE) -> None:
    """Take the job away and queue it again under its own number, as Slurm does."""
    job, newest = stage.job, (stage.saves.steps() or [0])[-1]
    stage.trainer.flush()
    stage.trainer.alive = False
    stage.log.say(
        [(stage.now, "slurmstepd: error: *** JOB 101 ON node-3 CANCELLED DUE TO PREEMPTION ***")]
    )
    job.state, job.reason, job.restarts = "PENDING", "BeginTime", count
    job.submitted, job.started, job.expected = stage.now, None, stage.now + waits
    stage.soon(waits, lambda: stage.start(newest))


def second(stage: Stage, root: str, name: str = "lm-1b") -> None:
    """Start another job now that is told to write to ``root``."""
    stage.cluster.jobs["900"] = Job(
        id="900", name=name, submitted=stage.now, output=f"{stage.folder}/second.log",
        command=f"train.sh --root {root}", workdir="/home/ada/elsewhere",
    )  # fmt: skip
    stage.cluster.jobs["900"].begin(stage.now)


@fault("C-25", at=3.1, within=0)
def _a_second_job_writes_to_the_same_root(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, lambda: second(stage, str(stage.root)))


@fault("C-25", at=3.1, within=LOOK)
def _two_launches_write_one_tracker_run(stage: Stage) -> None:
    stage.begin()

    def other() -> None:
        twin = stage.fragment()
        for beat in range(200):
            row = (400 + beat, stage.now + 30 * beat, {"train/loss": 2.5})
            stage.soon(30 * beat, partial(twin.add, [row], row[1]))

    stage.at(3.1 * HOUR, other)


@fault("C-26", at=5.05, within=LOOK, also="C-01")
def _the_time_limit_comes_before_the_next_save(stage: Stage) -> None:
    stage.begin(limit=5.4 * HOUR)
    stage.at(5.4 * HOUR, lambda: stage.end("TIMEOUT", "0:0"))

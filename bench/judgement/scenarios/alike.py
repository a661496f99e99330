"""Runs that are well, or that are known of too little to be called ill: nothing may open.

Each looks like a fault of ``metrics``, ``jobs`` or ``artifacts``.
"""

from __future__ import annotations

import math
import random
from functools import partial

from bench.judgement.clock import DAY, HOUR, MINUTE
from bench.judgement.files import touch
from bench.judgement.scenario import alike
from bench.judgement.scenarios.artifacts import booked, hero, machine, repository
from bench.judgement.scenarios.jobs import failing_again, monitored, requeue, second, silence
from bench.judgement.scenarios.metrics import change, for_rows, from_step, noisy, resumed, scaled
from bench.judgement.stage import Stage
from bench.judgement.trainer import usual_grad, usual_loss

WEEK = 7 * 24.0


@alike("all", lasts=WEEK)
def _a_week_without_events(stage: Stage) -> None:
    stage.begin()


def requeued_at(stage: Stage, *hours: float) -> None:
    """Have Slurm take the job away at these times and start it again some minutes later."""
    for count, each in enumerate(hours, 1):
        stage.at(each * HOUR, partial(requeue, stage, count, 20 * MINUTE))


@alike("all", lasts=WEEK)
def _a_week_with_noise_evaluations_and_a_requeue_a_day(stage: Stage) -> None:
    """Every requeue goes back to the last save and replays the same steps."""
    stage.trainer.loss_at = noisy
    stage.begin()
    requeued_at(stage, *(11.0 + 24 * day for day in range(7)))
    for number in range(27):
        stage.at((5.9 + 6 * number) * HOUR, lambda: pause(stage, 12 * MINUTE))


def pause(stage: Stage, seconds: float, text: str = "INFO eval: running evaluation") -> None:
    """Let training wait, and say so in the log."""
    stage.trainer.flush()
    stage.log.say([(stage.now, text)])
    stage.trainer.paused_until = stage.now + seconds


@alike("all", lasts=WEEK)
def _a_week_that_ends_in_success_and_is_left_alone(stage: Stage) -> None:
    stage.ends_at(5000)
    stage.begin()


@alike("C-01", lasts=12)
def _preempted_and_queued_again_under_its_own_number(stage: Stage) -> None:
    stage.begin()
    requeued_at(stage, 4.1)


@alike("C-02", lasts=6)
def _the_scheduler_misses_one_look(stage: Stage) -> None:
    stage.begin()
    silence(stage, 3.1, 3.5)


@alike("C-06", lasts=8, also="C-02")
def _nothing_of_the_job_is_known_and_training_goes_on(stage: Stage) -> None:
    stage.begin()
    silence(stage, 3.1, 7.1)


@alike("C-03", lasts=6)
def _the_monitor_of_another_run_in_the_same_folder_stops(stage: Stage) -> None:
    stage.begin()
    monitored(stage, 6.0)
    for beat in range(10):
        other = partial(stage.state_file, "other", job_id="777", run="vision-2b")
        stage.at(beat * 570 + 3, other)


@alike("C-03", lasts=6)
def _the_monitor_writes_times_of_a_clock_an_hour_off(stage: Stage) -> None:
    stage.begin()
    monitored(stage, 6.0, offset=-HOUR)


@alike("C-04", lasts=3)
def _a_short_wait_for_resources(stage: Stage) -> None:
    stage.submit()
    stage.at(0.45 * HOUR, stage.start)


@alike("C-04", lasts=6)
def _a_long_wait_that_the_scheduler_foretold(stage: Stage) -> None:
    stage.submit(expected=stage.now + 3 * HOUR)
    stage.at(2.9 * HOUR, stage.start)


@alike("C-05", lasts=12)
def _two_slow_cadences(stage: Stage) -> None:
    stage.begin()
    stage.at(6.1 * HOUR, lambda: change(stage, step_s=60.0))
    stage.at(6.5 * HOUR, lambda: change(stage, step_s=30.0))


@alike("C-05", lasts=24)
def _throughput_that_wanders_by_a_tenth(stage: Stage) -> None:
    stage.begin()
    for number in range(1, 46):
        pace = 30.0 * (1 + 0.1 * math.sin(number))
        stage.at(number * HOUR / 2, partial(change, stage, step_s=pace))


@alike("C-06", lasts=6)
def _a_slow_start(stage: Stage) -> None:
    stage.submit()
    stage.start(warm=40 * MINUTE)


@alike("C-06", lasts=8)
def _an_evaluation_of_25_minutes(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: pause(stage, 25 * MINUTE))


@alike("C-06", lasts=8)
def _a_checkpoint_that_takes_20_minutes(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: pause(stage, 20 * MINUTE, "INFO checkpoint: saving"))


@alike("C-06", lasts=8)
def _a_trainer_whose_clock_is_an_hour_ahead(stage: Stage) -> None:
    stage.trainer.offset = stage.log.offset = HOUR
    stage.begin()


@alike("C-06", lasts=8)
def _a_trainer_whose_clock_is_an_hour_behind(stage: Stage) -> None:
    stage.trainer.offset = stage.log.offset = -HOUR
    stage.begin()


@alike("C-07", lasts=8)
def _one_save_is_late(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: change(stage, save_every=50 * MINUTE))
    stage.at(5.1 * HOUR, lambda: change(stage, save_every=30 * MINUTE))


@alike("C-08", lasts=12)
def _checkpoints_cleaned_up_by_policy(stage: Stage) -> None:
    hero(stage)
    stage.begin()


@alike("C-08", lasts=12)
def _a_clean_up_down_to_the_depth(stage: Stage) -> None:
    hero(stage, depth=3)
    stage.saves.keep = 8
    stage.begin()
    stage.at(6.1 * HOUR, lambda: stage.saves.clean(4))


@alike("C-09", lasts=8)
def _one_gradient_norm_of_a_skipped_step_is_infinite(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 4.1, scaled(for_rows(1, math.inf), usual_grad), "grad_at")


@alike("C-09", lasts=8)
def _a_metric_of_the_evaluation_is_nan(stage: Stage) -> None:
    stage.trainer.more_at = {"eval/perplexity": lambda _step, _rng: math.nan}
    stage.begin()


@alike("C-10", lasts=12)
def _gradient_norms_with_single_outliers(stage: Stage) -> None:
    def outliers(_: int, rng: random.Random) -> float:
        return usual_grad(0, rng) * (12.0 if rng.random() < 0.01 else 1.0)

    stage.trainer.grad_at = outliers
    stage.begin()


@alike("C-10", lasts=6)
def _gradient_norms_that_are_large_in_the_warm_up(stage: Stage) -> None:
    stage.trainer.grad_at = scaled(for_rows(300, 20.0), usual_grad)(0)
    stage.begin()


@alike("C-11", lasts=8)
def _the_loss_dips_and_comes_back(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 4.1, scaled(for_rows(40, 0.5)))


@alike("C-11", lasts=8)
def _a_spike_of_5_rows(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 4.1, scaled(for_rows(5, 2.5)))


@alike("C-11", lasts=24)
def _a_noisy_loss(stage: Stage) -> None:
    stage.trainer.loss_at = noisy
    stage.begin()


@alike("C-11", lasts=24)
def _a_loss_near_zero_that_moves_freely(stage: Stage) -> None:
    def memorised(step: int, rng: random.Random) -> float:
        level = 1e-3 if (step // 150) % 2 else 2e-3
        return max(usual_loss(step, rng) - 0.02 * step, 0.0) + level * math.exp(rng.gauss(0, 0.4))

    stage.trainer.loss_at = memorised
    stage.begin()


@alike("C-11", lasts=24)
def _the_learning_rate_falls_in_steps(stage: Stage) -> None:
    def stepped(step: int, rng: random.Random) -> float:
        return usual_loss(step, rng) * 0.8 ** (step // 700)

    stage.trainer.loss_at = stepped
    stage.begin()


@alike("C-12", lasts=10, also="C-01")
def _a_resume_that_replays_the_same_losses(stage: Stage) -> None:
    resumed(stage, scaled(lambda _: 1.0))


@alike("C-12", lasts=10, also="C-01")
def _a_log_that_goes_on_after_a_resume_and_has_no_tracker(stage: Stage) -> None:
    stage.changes["wandb"] = {"dir": str(stage.folder / "nothing")}
    resumed(stage, scaled(lambda _: 1.0))


@alike("C-13", lasts=10, also="C-01")
def _the_tracker_restarts_under_its_own_id(stage: Stage) -> None:
    resumed(stage, lambda _: usual_loss)


@alike("C-14", lasts=9, also="C-01")
def _two_failures_that_have_nothing_in_common(stage: Stage) -> None:
    failing_again(stage, 3.1)
    stage.at(3.4 * HOUR, lambda: stage.resume(lost=5 * MINUTE))
    stage.at(7.1 * HOUR, lambda: stage.end("NODE_FAIL", "1:0", reason="NodeFail"))


@alike("C-14", lasts=9, also="C-01 C-26")
def _two_time_limits(stage: Stage) -> None:
    stage.begin(limit=3.1 * HOUR)
    line = "slurmstepd: error: *** JOB 101 ON node-3 CANCELLED DUE TO TIME LIMIT ***"
    stage.at(3.1 * HOUR, lambda: stage.end("TIMEOUT", "0:0", line))
    stage.at(3.4 * HOUR, lambda: stage.resume(lost=5 * MINUTE))
    stage.at(7.0 * HOUR, lambda: stage.end("TIMEOUT", "0:0", line))


@alike("C-14", lasts=9)
def _two_requeues_in_six_hours(stage: Stage) -> None:
    stage.begin()
    requeued_at(stage, 3.1, 5.1)


@alike("C-14", lasts=9)
def _a_job_that_is_suspended_and_goes_on_four_times(stage: Stage) -> None:
    """Share a machine by turns: the scheduler stops the job, and lets the same one go on."""
    stage.begin()
    for hour in (2, 3, 4, 5):
        stage.at(hour * HOUR, partial(suspend, stage, 20 * MINUTE))


def suspend(stage: Stage, seconds: float) -> None:
    """Suspend the job for some time."""
    stage.trainer.flush()
    stage.job.state, stage.job.suspended = "SUSPENDED", stage.now
    stage.trainer.paused_until = stage.now + seconds
    stage.soon(seconds, lambda: setattr(stage.job, "state", "RUNNING"))


@alike("C-15", lasts=6, also="C-24")
def _a_readme_is_edited_under_a_running_run(stage: Stage) -> None:
    repository(stage)
    stage.begin()
    readme = stage.folder / "code" / "README.md"
    stage.at(3.1 * HOUR, lambda: readme.write_text("# lm, a language model\n"))


@alike("C-18", lasts=8, also="C-01")
def _a_restart_has_the_same_settings(stage: Stage) -> None:
    config = {"train_batch_size": 1024, "optimizer.learning_rate": 3e-4, "seed": 0}
    stage.begin(config=config)
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))
    stage.at(4.5 * HOUR, lambda: stage.resume(lost=5 * MINUTE))


@alike("C-22", lasts=6)
def _memory_that_is_used_well(stage: Stage) -> None:
    machine(stage, 70)
    stage.begin()
    stage.at(3.1 * HOUR, lambda: machine(stage, 85))


@alike("C-25", lasts=8, also="C-01")
def _the_last_rows_of_a_job_that_is_over_come_late(stage: Stage) -> None:
    resumed(stage, scaled(lambda _: 1.0))

    def late() -> None:
        old = stage.trainer.tracker
        assert old is not None
        stage.soon(12 * MINUTE, lambda: old.pulse(stage.now))

    stage.at(5.2 * HOUR, late)


@alike("C-23", lasts=8)
def _the_log_is_rotated(stage: Stage) -> None:
    stage.begin()

    def rotate() -> None:
        stage.trainer.flush()
        stage.log.path.rename(stage.log.path.with_suffix(".log.1"))
        stage.log.path.write_text("")
        touch(stage.log.path, stage.now)

    stage.at(4.1 * HOUR, rotate)


@alike("C-19", lasts=24)
def _a_run_that_has_finished(stage: Stage) -> None:
    stage.ends_at(400)
    stage.begin()


@alike("C-03", lasts=8)
def _the_monitor_of_a_run_that_has_finished_stops(stage: Stage) -> None:
    stage.ends_at(400)
    stage.begin()
    monitored(stage, 3.3)


@alike("C-19", lasts=8)
def _its_last_checkpoint_is_one_step_before_the_final_one(stage: Stage) -> None:
    """Levanter's trainer counts from 0: of 400 steps the last is 399."""
    stage.ends_at(399)
    stage.changes["final_step"] = 400
    stage.begin()


@alike("C-21", lasts=6)
def _a_diagnostic_job_of_the_run_fails(stage: Stage) -> None:
    stage.changes["job"] = {"diagnostic": ["*-eval*"]}
    stage.begin()

    def begins() -> None:
        second(stage, f"{stage.root}", name="lm-1b-eval-3")

    stage.at(3.1 * HOUR, begins)
    stage.at(4.1 * HOUR, lambda: stage.cluster.jobs["900"].end(stage.now, "FAILED", "1:0"))


@alike("C-24", lasts=12)
def _a_logbook_that_is_kept(stage: Stage) -> None:
    booked(stage, 12.0)
    stage.begin()


@alike("C-25", lasts=6)
def _a_job_of_another_run_whose_root_has_the_same_beginning(stage: Stage) -> None:
    stage.begin()
    stage.at(3.1 * HOUR, lambda: second(stage, f"{stage.root}-eval"))


@alike("C-26", lasts=6)
def _a_time_limit_that_is_far_away(stage: Stage) -> None:
    stage.begin(limit=DAY)

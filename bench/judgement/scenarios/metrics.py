"""Faults of what is logged: C-05, C-06, C-09 to C-13, C-18, C-23."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

from bench.judgement.clock import HOUR, MINUTE
from bench.judgement.scenario import fault
from bench.judgement.stage import CADENCE, NAME, Stage
from bench.judgement.trainer import Figure, falling, usual_grad, usual_loss

LOOK = CADENCE / HOUR
ROW = 30 / HOUR
"""Hours of one row at the usual pace."""


def change(stage: Stage, **fields: object) -> None:
    """Change the training from now on."""
    stage.trainer.flush()
    for name, value in fields.items():
        setattr(stage.trainer, name, value)


def from_step(
    stage: Stage, hours: float, what: Callable[[int], Figure], name: str = "loss_at"
) -> None:
    """Have a metric follow another course from the step that it is at then."""
    stage.at(hours * HOUR, lambda: change(stage, **{name: what(stage.trainer.step)}))


def scaled(factor: Callable[[int], float], plain: Figure = usual_loss) -> Callable[[int], Figure]:
    """Return a course that is the usual one times a factor of the steps since it began."""

    def begin(first: int) -> Figure:
        return lambda step, rng: plain(step, rng) * (factor(step - first) if step > first else 1.0)

    return begin


def for_rows(count: int, value: float) -> Callable[[int], float]:
    """Return a factor that lasts for so many rows."""
    return lambda since: value if since <= count else 1.0


# C-05: three whole windows, which begin with the run and not with the fault: up to four.
SLOW = 4 * LOOK


@fault("C-05", at=6.1, within=SLOW, over=9.1, closes=2 * LOOK)
def _throughput_falls_by_a_third(stage: Stage) -> None:
    stage.begin()
    stage.at(6.1 * HOUR, lambda: change(stage, step_s=45.0))
    stage.at(9.1 * HOUR, lambda: change(stage, step_s=30.0))


@fault("C-05", at=6.1, within=SLOW)
def _throughput_falls_to_a_quarter(stage: Stage) -> None:
    stage.begin()
    stage.at(6.1 * HOUR, lambda: change(stage, step_s=120.0))


def _hang(stage: Stage) -> None:
    """Let steps stop while the job, and the tracker's client, go on."""
    change(stage, paused_until=math.inf)
    tracker = stage.trainer.tracker
    for beat in range(200 if tracker is not None else 0):
        assert tracker is not None
        stage.soon(60.0 * beat, partial(tracker.pulse, stage.now + 60.0 * beat))


@fault("C-06", at=4.1, within=2 * LOOK, also="C-05")
def _training_hangs_while_the_client_beats_on(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: _hang(stage))


@fault("C-06", at=0, within=0.75, lasts=3)
def _no_first_step(stage: Stage) -> None:
    stage.submit()
    stage.start(warm=math.inf)
    stage.at(1, lambda: _hang(stage))


@fault("C-06", at=4.1, within=2 * LOOK)
def _a_node_dies_under_a_job_that_runs_on(stage: Stage) -> None:
    stage.begin()
    line = "ERROR ray: OwnerDiedError: the worker's node is dead (node 10.0.0.7)"
    stage.at(4.1 * HOUR, lambda: stage.log.say([(stage.now, line)]), lambda: _hang(stage))


@fault("C-09", at=4.1, within=0)
def _the_loss_becomes_nan(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 4.1, scaled(lambda _: math.nan))


@fault("C-09", at=4.1, within=0)
def _one_infinite_loss_between_two_looks(stage: Stage) -> None:
    stage.trainer.step_s = 2.0
    stage.begin()
    from_step(stage, 4.1, scaled(for_rows(1, math.inf)))


@fault("C-09", at=4.1, within=3 * ROW)
def _the_gradient_norm_stays_nan(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 4.1, scaled(lambda _: math.nan, usual_grad), "grad_at")


@fault("C-09", at=4.1, within=10 * ROW)
def _a_nan_that_only_the_log_tells(stage: Stage) -> None:
    stage.changes["wandb"] = {"dir": str(stage.folder / "nothing")}
    stage.begin()
    from_step(stage, 4.1, scaled(lambda _: math.nan))


# C-10: ten rows in a row, far outside, after a warm-up of 400 steps (1 % of the final step).
@fault("C-10", at=6.1, within=10 * ROW)
def _the_gradient_norm_grows_tenfold(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(for_rows(60, 10.0), usual_grad), "grad_at")


@fault("C-10", at=6.1, within=10 * ROW)
def _the_gradient_norm_grows_fourfold_between_two_looks(stage: Stage) -> None:
    stage.trainer.step_s = 5.0
    stage.begin()
    from_step(stage, 6.1, scaled(for_rows(40, 4.0), usual_grad), "grad_at")


ROUTER = "train/router_z_loss"


def router(step: int, rng: random.Random) -> float:
    """Return a router's z-loss: small, with noise on it."""
    return 0.02 * math.exp(rng.gauss(0, 0.15)) + 0.05 / (1 + step / 200)


@fault("C-10", at=6.1, within=10 * ROW)
def _the_z_loss_of_the_router_grows_eightfold(stage: Stage) -> None:
    stage.trainer.more_at = {ROUTER: router}
    stage.begin()

    def grows() -> None:
        change(stage, more_at={ROUTER: scaled(lambda _: 8.0, router)(stage.trainer.step)})

    stage.at(6.1 * HOUR, grows)


# What is saved in an open spike is no cover, and a policy deletes what was saved before it (C-08).
@fault("C-11", at=6.1, within=10 * ROW, also="C-08 C-10")
def _the_loss_doubles(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(lambda _: 2.0))


@fault("C-11", at=6.1, within=10 * ROW, over=6.1 + 40 * ROW, closes=200 * ROW)
def _a_spike_of_40_rows(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(for_rows(40, 1.9)))


@fault("C-11", at=6.1, within=90 * ROW)
def _the_loss_steps_up_by_a_fifth(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(lambda _: 1.2))


@fault("C-11", at=6.1, within=LOOK)
def _a_spike_that_came_and_went_between_two_looks(stage: Stage) -> None:
    stage.trainer.step_s = 3.0
    stage.begin()
    from_step(stage, 6.1, scaled(for_rows(30, 2.2)))


FAULT_STEP = round((6.1 * HOUR - 240) / 30)


def climb_seen(factor: Callable[[int], float]) -> int:
    """Return the rows after which SPEC's window has a climb of the usual loss, without its noise.

    That is when the median of 50 rows was 30 % above the best such median for 100 rows.
    """
    losses = [falling(step) for step in range(FAULT_STEP - 60, FAULT_STEP)]
    best, above = math.inf, 0
    for since in range(1, 5000):
        losses.append(falling(FAULT_STEP + since) * factor(since))
        level = median(losses[-50:])
        best, above = min(best, level), above + 1 if level > 1.3 * best else 0
        if above >= 100:
            return since
    return 5000


def doubling(since: int) -> float:
    """Return a factor that doubles every 200 rows."""
    return math.exp2(since / 200)


def creeping(since: int) -> float:
    """Return a factor that grows by half over 600 rows."""
    return 1 + min(since, 900) / 1200


@fault("C-11", at=6.1, within=climb_seen(doubling) * ROW, also="C-08")
def _the_loss_doubles_every_200_rows(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(doubling))


@fault("C-11", at=6.1, within=climb_seen(creeping) * ROW, also="C-08")
def _the_loss_climbs_by_half_over_600_rows(stage: Stage) -> None:
    stage.begin()
    from_step(stage, 6.1, scaled(creeping))


def resumed(stage: Stage, course: Callable[[int], Figure], **more: int) -> None:
    """End the job at 5.2 h and start another, whose loss follows ``course`` from its first step."""
    stage.begin()
    stage.at(5.2 * HOUR, lambda: stage.end("NODE_FAIL", "1:0", reason="NodeFail"))

    def again() -> None:
        first = stage.saves.steps()[-1] if "step" not in more else more["step"]
        change(stage, loss_at=course(first))
        stage.resume(lost=5 * MINUTE, step=first)

    stage.at(5.3 * HOUR, again)


STARTED = 5.3 + (5 * MINUTE + 240) / HOUR


@fault("C-12", at=STARTED, within=3 * ROW, also="C-01 C-11")
def _replayed_steps_have_another_loss(stage: Stage) -> None:
    resumed(stage, scaled(lambda _: 1.02))


@fault("C-12", at=STARTED, within=ROW, also="C-01 C-11 C-07 C-08")
def _a_restart_begins_at_step_0(stage: Stage) -> None:
    """Restart from nothing: what it saves has the lowest steps, and is the first to be deleted."""
    resumed(stage, scaled(lambda _: 1.0), step=0)


@fault("C-12", at=STARTED + 30 * ROW, within=60 * ROW, also="C-01", lasts=12)
def _after_the_catch_up_the_loss_is_higher(stage: Stage) -> None:
    """Agree on the steps between the last save and the end, some 24; then be 5 % above."""
    resumed(stage, scaled(lambda since: 1.0 if since < 30 else 1.05))


@fault("C-13", at=4.6, within=LOOK, also="C-01 C-25")
def _the_tracker_goes_on_under_another_id(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))

    def again() -> None:
        where = stage.saves.steps()[-1]
        stage.submit()
        stage.start(where, run_id="x7k2m9qa")

    stage.at(4.6 * HOUR, again)


@fault("C-13", at=4.6, within=LOOK, also="C-01 C-25")
def _another_id_that_the_client_names_in_the_log(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))

    def again() -> None:
        where = stage.saves.steps()[-1]
        stage.submit()
        folder = stage.start(where, run_id="x7k2m9qa").path.parent
        stage.log.say([(stage.now + 2, f"wandb: Run data is saved locally in {folder}")])

    stage.at(4.6 * HOUR, again)


@fault("C-13", at=4.6, within=LOOK, also="C-01")
def _the_tracker_run_has_another_name(stage: Stage) -> None:
    stage.changes["wandb"] = {"name": NAME, "project": "lm"}
    stage.begin()
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))

    def again() -> None:
        where = stage.saves.steps()[-1]
        stage.submit()
        stage.start(where)
        stage.trainer = replace(stage.trainer, tracker=stage.fragment(name="scratch-debug"))

    stage.at(4.6 * HOUR, again)


@fault("C-13", at=4.1, within=3 * LOOK)
def _the_tracker_stops_while_the_log_moves(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: change(stage, tracker=None))


@fault("C-18", at=4.6, within=LOOK, also="C-01")
def _a_restart_has_another_batch_size(stage: Stage) -> None:
    stage.begin(config={"train_batch_size": 1024, "optimizer.learning_rate": 3e-4, "seed": 0})
    stage.at(4.1 * HOUR, lambda: stage.end("PREEMPTED", "0:0"))

    def again() -> None:
        where = stage.saves.steps()[-1]
        config = {"train_batch_size": 512, "optimizer.learning_rate": 3e-4, "seed": 0}
        stage.submit()
        stage.start(where, config=config)

    stage.at(4.6 * HOUR, again)


@fault("C-23", at=4.1, within=2 * LOOK)
def _the_log_is_held_back_by_a_buffer(stage: Stage) -> None:
    stage.begin()
    stage.at(4.1 * HOUR, lambda: change(stage, log=None))


def noisy(step: int, rng: random.Random) -> float:
    """Return a loss of small batches: a fifth of noise, with long tails."""
    return usual_loss(step, rng) * math.exp(rng.gauss(0, 0.12)) + 0.15 * rng.expovariate(1)

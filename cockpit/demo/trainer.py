"""A small, real trainer: ``python -m cockpit.demo.trainer --config runs/mine/config.json``.

It learns the text that ships with it, logs to W&B (offline) and to its own log, saves
checkpoints in Levanter's shape beside its config file and resumes from the newest complete
one. SIGUSR1 saves a checkpoint now; SIGTERM and SIGINT save one and leave (128 + n).
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from cockpit.demo import model
from cockpit.demo.evaluation import evaluate
from cockpit.demo.model import CORPUS, PacedFile, batch, read_corpus
from cockpit.demo.settings import Faults, TrainingConfig, read_arguments, read_config
from cockpit.demo.writing import Checkpointer, Tracker, TrainingState, say, tracker_of

LINE_EVERY = 1.0
"""Seconds between two progress lines, at least."""


class Signals:
    """What was asked of the process from outside since the last look."""

    def __init__(self) -> None:
        self.leave: int | None = None
        self._save = False

    def listen(self, time_limit: int | None = None) -> None:
        """Take the signals over; with a limit (s), one comes by itself when it has passed."""
        signal.signal(signal.SIGUSR1, self._on_save)
        signal.signal(signal.SIGTERM, self._on_leave)
        signal.signal(signal.SIGINT, self._on_leave)
        signal.signal(signal.SIGALRM, self._on_leave)
        signal.alarm(time_limit or 0)

    def take_save(self) -> bool:
        """Return whether a checkpoint was asked for, once."""
        asked, self._save = self._save, False
        return asked

    def _on_save(self, _number: int, _frame: object) -> None:
        self._save = True

    def _on_leave(self, number: int, _frame: object) -> None:
        self.leave = number


class StepPace:
    """Keeps a steady number of steps per second, so that a small machine is left some peace."""

    def __init__(self, steps_per_second: float) -> None:
        self._period = 1.0 / steps_per_second
        self._due = time.monotonic()

    def wait(self) -> None:
        """Sleep until the step that just ended is due; never try to catch up."""
        now = time.monotonic()
        self._due = max(now, self._due + self._period)
        time.sleep(self._due - now)


class Training:
    """One execution of one run, from its resume to its last step."""

    def __init__(self, config: TrainingConfig, faults: Faults, output: Path) -> None:
        self.config, self.faults = config, faults
        self.corpus = read_corpus()
        self.shape = model.ModelShape(
            len(self.corpus.alphabet),
            config.model.context,
            config.model.embedding,
            config.model.hidden,
        )
        keep = config.trainer.checkpointer
        self.checkpointer = Checkpointer(
            output / "checkpoints",
            output / "checkpoints-temp",
            keep.keep_last_temporary_checkpoints,
            faults.shard_seconds,
            self._while_saving,
        )
        self.saves = 0
        self.signals = Signals()
        self.saved_at = time.monotonic()
        self.saved: tuple[int, bool] | None = None
        self.line_at = -math.inf
        self.state = self._resume()
        self.begun_at = self.state.step

    def _resume(self) -> TrainingState:
        newest = self.checkpointer.newest()
        if newest is None:
            say("trainer", "No checkpoint found. Starting from scratch.")
            seed = self.config.trainer.seed
            return TrainingState(-1, model.initial(self.shape, seed), model.zeros(self.shape))
        say("checkpoint", f"Discovered latest checkpoint at {newest}")
        say("checkpoint", f"Loading checkpoint from {newest}")
        state = self.checkpointer.load(newest, self.shape)
        say("trainer", f"Resuming training from step {state.step + 1}")
        return state

    def run(self, tracker: Tracker) -> int:
        """Train to the end or until told to leave; return the exit status."""
        self.signals.listen(self.faults.time_limit)
        pace = StepPace(self.config.trainer.steps_per_second)
        total = self.config.trainer.num_train_steps
        with CORPUS.open("rb") as file:
            for step in range(self.state.step + 1, total):
                self._step(step, file, pace, tracker)
                if self.signals.leave is not None:
                    return self._leave(self.signals.leave)
        self._save(permanent=True)
        say("trainer", f"Training complete at step {total - 1} (target: {total}).")
        return 0

    def _step(self, step: int, file: BinaryIO, pace: StepPace, tracker: Tracker) -> None:
        begun = time.monotonic()
        rate = self._learning_rate(step)
        loss, gradient = model.loss_and_gradient(
            self.state.weights, self.shape, self._batch(file, step)
        )
        momentum = self.config.optimizer.momentum
        model.descend(self.state.weights, self.state.momentum, gradient, rate, momentum)
        self.state.step = step
        pace.wait()
        speed = self.config.trainer.train_batch_size / (time.monotonic() - begun)
        row = {
            "train/loss": loss,
            "grad/norm/total": model.norm(gradient),
            "optim/learning_rate": rate,
            "throughput/tokens_per_second": speed,
        }
        now = time.monotonic()
        if now - self.line_at >= LINE_EVERY:
            self.line_at = now
            total = self.config.trainer.num_train_steps
            say("train", f"step {step}/{total} loss={loss:.4f} {speed:.1f} tok/s")
        row.update(self._evaluate(step))
        tracker.log(row, step)
        self._keep(step)

    def _batch(self, file: BinaryIO, step: int) -> list[model.Example]:
        after, trainer = self.faults.input_slows_after, self.config.trainer
        slow = after is not None and step > after
        source = PacedFile(file, self.faults.input_bytes_per_second if slow else None)
        return batch(
            self.corpus,
            source,
            seed=trainer.seed,
            step=step,
            context=self.config.model.context,
            size=trainer.train_batch_size,
        )

    def _learning_rate(self, step: int) -> float:
        optimizer, jump = self.config.optimizer, self.faults.learning_rate_jump
        rate = optimizer.learning_rate * min(1.0, (step + 1) / optimizer.warmup)
        if jump is None or step <= jump[0]:
            return rate
        try:
            return float(rate * jump[1] ** (step - jump[0]))
        except OverflowError:
            return math.inf

    def _evaluate(self, step: int) -> dict[str, float]:
        part = "held_out"
        if step == self.faults.break_at:
            part = "storm"
        elif step == 0 or step % self.config.trainer.evaluate_every:
            return {}
        loss = evaluate(self.state.weights, self.corpus, self.config.model.context, part)
        return {"eval/loss": loss}

    def _keep(self, step: int) -> None:
        """Save a checkpoint if one is due or was asked for."""
        keep = self.config.trainer.checkpointer
        if step > 0 and step % keep.permanent_every == 0:
            self._save(permanent=True)
        elif self.signals.take_save() or time.monotonic() - self.saved_at >= keep.save_interval:
            self._save(permanent=False)

    def _save(self, *, permanent: bool) -> None:
        """Save this step, unless it is saved already at least as durably."""
        step = self.state.step
        if self.saved not in ((step, True), (step, permanent)):
            self.saves += 1
            self.checkpointer.save(self.state, permanent=permanent)
            self.saved = (step, permanent)
        self.saved_at = time.monotonic()

    def _while_saving(self, seconds: float) -> None:
        """Wait for a slow disk, unless this is the save that the process is killed in.

        One that has resumed from a checkpoint was killed already: it recovers.
        """
        time.sleep(seconds)
        if self.begun_at < 0 and self.saves == self.faults.killed_in_save:
            os.kill(os.getpid(), signal.SIGKILL)

    def _leave(self, number: int) -> int:
        say("trainer", f"Received {signal.Signals(number).name}: saving a checkpoint and leaving.")
        self._save(permanent=False)
        return 128 + number


def train(config: TrainingConfig, faults: Faults, output: Path) -> int:
    """Run one training; return its exit status. Errors of the training itself pass through."""
    trainer = config.trainer
    say("trainer", f"{trainer.id}: {trainer.num_train_steps} steps, seed {trainer.seed}")
    training = Training(config, faults, output)
    tracker = tracker_of(config, output)
    status = 1
    try:
        status = training.run(tracker)
    finally:
        tracker.finish(status)
    return status


def main(argv: Sequence[str] | None = None) -> int:
    """Train as the command line says."""
    path, faults = read_arguments(sys.argv[1:] if argv is None else argv)
    return train(read_config(path), faults, path.resolve().parent)


if __name__ == "__main__":
    sys.exit(main())

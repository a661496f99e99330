"""A tiny model in JAX, saved by Orbax's manager, which also finds what to go on from."""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import orbax.checkpoint as ocp
from absl import logging
from common import Faults, Options, Truth, pause

WIDTH = 16


def loss_of(weights: jax.Array, inputs: jax.Array) -> jax.Array:
    """The distance from a sum."""
    return jnp.mean((inputs @ weights - inputs.sum(axis=1) - 3) ** 2)


@jax.jit
def update(weights: jax.Array, inputs: jax.Array) -> tuple[jax.Array, jax.Array]:
    """One step of gradient descent."""
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs)
    return weights - 0.02 * gradient, loss


def shard(step: int, faults: Faults) -> jax.Array:
    """Read the rows of one step; a shard may be gone."""
    if faults.broken(step):
        raise OSError(f"could not read shard {step:05d}: Input/output error")
    return jax.random.normal(jax.random.key(step), (64, WIDTH))


def restored(manager: Any, truth: Truth) -> tuple[int, jax.Array]:
    """Return the step and weights to begin with."""
    newest, fresh = manager.latest_step(), jnp.zeros(WIDTH)
    path = None if newest is None else str(manager.directory / str(newest))
    truth.tell("load", path=path)
    if newest is None:
        return 0, fresh
    kept = manager.restore(newest, args=ocp.args.StandardRestore({"step": 0, "weights": fresh}))
    return int(kept["step"]), kept["weights"]


def main() -> None:
    """Train; always goes on from the newest committed step, if there is one."""
    asked = Options("--workdir", main.__doc__).parse_args()
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    truth, faults = Truth(asked.out), Faults()
    keeping = ocp.CheckpointManagerOptions(save_interval_steps=asked.save_every, max_to_keep=10)
    directory = (asked.out / "checkpoints").absolute()
    with ocp.CheckpointManager(directory, options=keeping) as manager:
        step, weights = restored(manager, truth)
        truth.tell("begin", step=step, final_step=asked.steps)
        while step < asked.steps:
            began, step = time.monotonic(), step + 1
            pause()
            weights, loss = update(weights, shard(step, faults))
            if faults.poisoned(step):
                weights, loss = weights * jnp.nan, loss * jnp.nan
            truth.tell("step", step=step, loss=float(loss))
            if step % 5 == 0:
                seconds = time.monotonic() - began
                logging.info("step: %d, loss: %.6f, %.3f s/it", step, float(loss), seconds)
                truth.tell("logged", step=step, loss=round(float(loss), 6))
            kept = {"step": step, "weights": weights}
            if manager.save(step, args=ocp.args.StandardSave(kept)):
                manager.wait_until_finished()
                truth.tell("saved", step=step, path=str(directory / str(step)))
        truth.tell("end", step=step)


if __name__ == "__main__":
    main()

"""Logs in the shape of real trainers', written by ourselves: what ``make trainers`` has shown.

Each function returns a whole log as the trainer leaves it in a file: bars redraw themselves
with a carriage return and share their line with whatever else is printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

BLOCKS = "█"
PACE = 0.1
JAX_BEGINS = (
    "xla_bridge.py:849] Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so: "
    "libtpu.so: cannot open shared object file: No such file or directory",
    "async_checkpointer.py:200] [process=0] Using barrier_sync_fn: <function sync at 0x7f2a> "
    "timeout: 1200 secs and primary_host=0 for async checkpoint writes",
    "checkpoint_manager.py:1881] Found 0 checkpoint steps in /runs/a/out/my-run/checkpoints",
)
ORBAX = (
    "checkpoint_manager.py:1610] [process=0][step={step}] Starting Save Finalize",
    "checkpoint_manager.py:1940] Missing metrics for step {step}",
    "standard_logger.py:34] {{'step': {step}, 'event_type': 'save', 'duration_secs': 0.0555}}",
    "checkpoint_manager.py:2097] [thread=MainThread][step={step}] Done waiting for Save Finalize",
)


def bar(done: int, total: int, before: str = "", after: str = "") -> str:
    """One state of tqdm's bar; the first has no rate."""
    share = BLOCKS * (10 * done // total)
    rate = f"{1 / PACE:5.2f}it/s" if done else "?it/s"
    left = f"00:{int((total - done) * PACE):02d}" if done else "?"
    clock = f"[00:{int(done * PACE):02d}<{left}, {rate}{after}]"
    return f"{before}{100 * done // total:3d}%|{share:<10}| {done}/{total} {clock}"


def hugging_face(
    losses: Sequence[str], *, total: int = 300, first: int = 0, quoted: bool = True
) -> str:
    """Its ``Trainer``: an empty bar, a bar each step, a dict each five that does not say which."""
    text = "[INFO] Running in WANDB offline mode\n\r" + bar(0, total)
    for step, loss in enumerate(losses, start=first + 1):
        text += "\r" + bar(step, total)
        if step % 5 == 0:
            norm = "nan" if loss in ("nan", "0") else "2.251"
            told = {"loss": loss, "grad_norm": norm, "learning_rate": "0.0124", "epoch": "0.5"}
            shown = str(told) if quoted else str(told).replace(": '", ": ").replace("',", ",")
            text += "\r" + " " * 48 + "\r" + shown + "\n\r" + bar(step, total)
    return text


def lightning(losses: Sequence[str], *, batches: int = 30) -> str:
    """Its bar over the batches of an epoch; the run's own step is nowhere in it."""
    text = "Seed set to 0\nGPU available: False, used: False\n"
    text += "\rTraining: |          | 0/? [00:00<?, ?it/s]"
    for number, loss in enumerate(losses):
        epoch, batch = divmod(number, batches)
        before = f"Epoch {epoch}: "
        if batch == 0:
            text += "\r" + bar(0, batches, before)
        text += "\r" + bar(batch + 1, batches, before, f", v_num=4kgx, train_loss={loss}")
    return text


def lightning_terminated(losses: Sequence[str]) -> str:
    """SIGTERM: a word right behind the bar, then it leaves in peace, and W&B says goodbye."""
    last = bar(len(losses) % 30, 30, f"Epoch {len(losses) // 30}: ", ", v_num=4kgx")
    goodbye = "\x1b[1;34mwandb\x1b[0m: \n\x1b[1;34mwandb\x1b[0m: You can sync this run to the cloud"
    return f"{lightning(losses)}[rank: 0] Received SIGTERM: 15\n\r{last}{goodbye}\n\r{last}\n"


def own_loop(losses: Sequence[str], *, save_every: int = 20) -> str:
    """A loop in nanoGPT's shape: counted from 0, two kinds of loss."""
    return "number of parameters: 0.02M\n" + "".join(_iterations(losses, save_every))


def _iterations(losses: Sequence[str], save_every: int) -> Iterator[str]:
    for step, loss in enumerate(losses):
        if step % save_every == 0:
            yield f"step {step}: train loss {loss}, val loss {loss}\n"
            yield "saving checkpoint to out/my-run\n" if step else ""
        if step % 2 == 0:
            yield f"iter {step}: loss {loss}, time 101.85ms, mfu -100.00%\n"


def jax_orbax(losses: Sequence[str], *, save_every: int = 20) -> str:
    """Absl's lines: one each five steps among many of Orbax, whose steps are saves."""
    text = "WARNING: Logging before flag parsing goes to stderr.\n"
    text += "".join(_absl(line) for line in JAX_BEGINS)
    for step, loss in enumerate(losses, start=1):
        if step % 5 == 0:
            text += _absl(f"train.py:67] step: {step}, loss: {loss}, 0.101 s/it")
        if step % save_every == 0:
            text += "".join(_absl(line.format(step=step)) for line in ORBAX * 3)
    return text


def _absl(line: str) -> str:
    """One line as absl writes it, of this moment."""
    return f"I{time.strftime('%m%d %H:%M:%S')}.246000 140343739431808 {line}\n"


def raised(source: str, message: str, line: int = 32) -> str:
    """A traceback through one's own file."""
    return (
        "Traceback (most recent call last):\n"
        '  File "/runs/a/train.py", line 77, in <module>\n    main()\n'
        f'  File "/runs/a/train.py", line {line}, in step\n    {source}\n{message}\n'
    )


SHAPES: dict[str, Callable[[Sequence[str]], str]] = {
    "hf": hugging_face,
    "lightning": lightning,
    "own-loop": own_loop,
    "jax-orbax": jax_orbax,
}

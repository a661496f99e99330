"""One run of one trainer, as a newcomer has it: a folder, the run file of the docs, a process."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.trainers.truth import Truth

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(__file__).parent / "programs"
EXAMPLES = ROOT / "docs" / "trainers.md"
RUN = "my-run"
START = "{command} > logs/my-run.log 2>&1 & echo $! > my-run.pid\nwait $!; echo $? > my-run.exit\n"
PATIENCE = 150.0


class Trainer(NamedTuple):
    """One of the four: its section in the docs, its program, its layout, how it ends.

    ``failures`` is every class that SPEC T allows for its exception, ``term_status`` its exit
    status after SIGTERM; ``told_every``: steps between two words of it in log or tracker;
    ``tracker_lags``: its tracker counts one behind; ``log_tells``: its log has the run's step.
    """

    name: str
    heading: str
    program: str
    layout: str
    failures: tuple[str, ...]
    term_status: int = 143
    told_every: int = 5
    tracked: bool = True
    tracker_lags: int = 0
    log_tells: bool = True


TRAINERS = (
    Trainer("hf", "Hugging Face Trainer", "hugging_face.py", "hf", ("complex_code_bug",)),
    Trainer(
        "lightning",
        "Lightning",
        "lightning_fit.py",
        "lightning",
        ("complex_code_bug",),
        term_status=0,
        tracker_lags=1,
        log_tells=False,
    ),
    Trainer(
        "own-loop", "nanoGPT, and loops like it", "own_loop.py", "nanogpt", ("small_code_bug",)
    ),
    Trainer("jax-orbax", "JAX with Orbax", "jax_orbax.py", "orbax", ("data_error",), tracked=False),
)


class Look(NamedTuple):
    """What the cockpit said at one moment, and what was true just before and just after."""

    before: Truth
    after: Truth
    at: float
    run: dict[str, Any]
    listed: dict[str, Any]
    plan: dict[str, Any]
    saved: dict[str, int]
    """What was saved before all this and was still there after the listings."""
    later: Truth
    """As it stood when all was asked."""

    @property
    def moved(self) -> bool:
        """Whether the trainer did a step while the cockpit looked."""
        return self.before.step != self.after.step


@dataclass
class World:
    """The folder of one run; ``python`` is the interpreter that has the trainers."""

    folder: Path
    trainer: Trainer
    python: Path
    steps: int = 1000
    asked: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / "logs").mkdir(parents=True)
        shutil.copy(PROGRAMS / "common.py", self.folder)
        shutil.copy(PROGRAMS / self.trainer.program, self.folder / "train.py")
        text = run_file_of(self.trainer.heading)
        (self.folder / "cockpit.toml").write_text(text.replace("20000", str(self.steps)))

    @property
    def env(self) -> dict[str, str]:
        """The newcomer's environment: the trainers' Python first, W&B without its cloud."""
        path = f"{self.python.parent}:{os.environ.get('PATH', '')}"
        asked = {"STEPS": str(self.steps), **self.asked}
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("WANDB_")},
            **{f"TRAINER_{name}": value for name, value in asked.items()},
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "WANDB_MODE": "offline",
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def truth(self) -> Truth:
        """What the trainer has told so far."""
        return Truth(self.folder / "out" / RUN / "truth.jsonl")

    def command(self, key: str) -> str:
        """Return the ``launch`` or ``resubmit`` command of the run file."""
        text = (self.folder / "cockpit.toml").read_text()
        found = re.search(rf'^{key} = "(.*)"$', text, re.M)
        if found is None:
            return self.command("resubmit")
        return found[1]

    def start(self, key: str = "launch") -> None:
        """Start by hand, as the docs say it."""
        with suppress(FileNotFoundError):
            (self.folder / "my-run.exit").unlink()
        known = self.truth().starts
        script = START.format(command=self.command(key))
        subprocess.Popen(
            ["sh", "-c", script], cwd=self.folder, env=self.env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.until(lambda: self.truth().starts > known, "it never began")

    def launch(self) -> dict[str, Any]:
        """Start through the cockpit; return what it answered."""
        known = self.truth().starts
        _, done = self.told("launch", RUN, "--confirm", f"launch {RUN}")
        self.until(lambda: self.truth().starts > known, "it never began")
        return done

    def pace(self, seconds: float) -> None:
        """Say how long each step takes from now on."""
        new = self.folder / "pace.new"
        new.write_text(str(seconds))
        new.replace(self.folder / "pace")

    def pid(self) -> int:
        """Return the job's pid, of whoever started it."""
        return int((self.folder / "my-run.pid").read_text().split()[0])

    def signal(self, number: int) -> None:
        """Send the trainer a signal."""
        os.kill(self.pid(), number)

    def ended(self) -> int:
        """Wait for the exit status."""
        path = self.folder / "my-run.exit"
        self.until(lambda: path.exists() and path.read_text().strip(), "it never ended")
        return int(path.read_text())

    def until(self, true: Callable[[], object], otherwise: str) -> None:
        """Wait until something is so."""
        end = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.folder}: {otherwise}")
            time.sleep(0.05)

    def until_step(self, step: int) -> None:
        """Wait until the trainer has done ``step``."""
        self.until(lambda: self.truth().step >= step, f"step {step} never came")

    def until_saved(self, step: int) -> None:
        """Wait until something of at least ``step`` was saved."""
        self.until(
            lambda: max(self.truth().saved().values(), default=-1) >= step,
            f"step {step} was never saved",
        )

    def told(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run the cockpit here; return its exit status and its document."""
        done = subprocess.run(
            [sys.executable, "-m", "cockpit", *words, "--json"], cwd=self.folder, env=self.env,
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        try:
            return done.returncode, json.loads(done.stdout)
        except ValueError:
            raise RuntimeError(f"cockpit {' '.join(words)}: {done.stderr or done.stdout}") from None

    def look(self) -> Look:
        """Ask the cockpit for everything, with the truth on either side of the check."""
        before, at = self.truth(), time.time()
        _, report = self.told("check", RUN)
        after = self.truth()
        (self.folder / f"check-{at:.0f}.json").write_text(json.dumps(report, indent=1))
        roots = self.roots()
        _, listed = self.told("checkpoints", *roots, "--layout", self.trainer.layout)
        saved = before.saved()
        _, plan = self.told("relaunch", RUN)
        return Look(before, after, at, report["runs"][0], listed, plan, saved, self.truth())

    def roots(self) -> list[str]:
        """Return the checkpoint roots of the run file."""
        text = (self.folder / "cockpit.toml").read_text()
        return re.findall(r'^path = "(.*?)"', text, re.M)

    def close(self) -> None:
        """End what lives."""
        with suppress(OSError, ValueError):
            pid = self.pid()
            if Path(f"/proc/{pid}/cwd").resolve() == self.folder.resolve():
                os.kill(pid, signal.SIGKILL)


def run_file_of(heading: str) -> str:
    """Return the run file that the docs give for a trainer, as it stands there."""
    text = EXAMPLES.read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n.*?```toml\n(.*?)```", text, re.M | re.S)
    if found is None:
        raise LookupError(f"{EXAMPLES} has no run file under {heading!r}")
    return found[1]


@contextmanager
def living(world: World) -> Iterator[World]:
    """Use a world, and leave nothing of it alive."""
    try:
        yield world
    finally:
        world.close()

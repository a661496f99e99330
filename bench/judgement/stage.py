"""One generated run: its folder, its cluster, its trainer, and what happens to it when."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.judgement.clock import START, SetClock
from bench.judgement.cluster import Cluster, Job
from bench.judgement.files import Fragment, Log, Saves, iso, touch
from bench.judgement.trainer import Trainer
from cockpit.config.build import build
from cockpit.model.run import CockpitFile

NAME = "lm-1b"
CADENCE = 900.0
Config = Mapping[str, object]
Event = Callable[[], object]


class Stage:
    """A run that is well, as long as nobody changes anything; times are seconds since its start.

    It saves every half hour and steps twice a minute; its job is one of Slurm, its log and its
    W&B files are on this machine.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.clock = SetClock()
        self.cluster = Cluster(self.clock.now)
        self.root = folder / "out"
        self.log = Log(self.root / "run.log")
        self.saves = Saves(self.root / "checkpoints")
        self.trainer = Trainer(self.rng, START, seed=seed)
        self.changes: dict[str, Any] = {}
        """What the run file says besides: a table for each key, merged into the usual ones."""
        self.config: Config = {}
        """What the trainer tells its tracker of its settings."""
        self.machine: Path | None = None
        """Where the files of the kernel lie that tell of the machine; else it is Slurm's node."""
        self._events: list[tuple[float, int, Event]] = []
        self._jobs = 100
        self.root.mkdir(parents=True)

    def at(self, seconds: float, *what: Event) -> None:
        """Have something happen so long after the start."""
        for each in what:
            self._events.append((START + seconds, len(self._events), each))
        self._events.sort(key=lambda each: each[:2])

    def soon(self, seconds: float, *what: Event) -> None:
        """Have something happen so long from now."""
        self.at(self.now - START + seconds, *what)

    def advance(self, now: float) -> None:
        """Let everything happen that happens until then."""
        while self._events and self._events[0][0] <= now:
            at, _, event = self._events.pop(0)
            self.trainer.advance(at)
            self.clock.at = at
            event()
        self.trainer.advance(now)
        self.clock.at = now

    @property
    def now(self) -> float:
        """The present instant."""
        return self.clock.at

    @property
    def job(self) -> Job:
        """The newest job of the run itself."""
        return self.cluster.jobs[str(self._jobs)]

    def submit(
        self,
        *,
        reason: str = "Resources",
        limit: float | None = None,
        expected: float | None = None,
    ) -> Job:
        """Queue a job of the run; ``limit`` is its time limit (s), ``expected`` its estimate."""
        self._jobs += 1
        job = Job(
            id=str(self._jobs), name=NAME, submitted=self.now, output=str(self.log.path),
            command=f"train.sh --root {self.root}", workdir=str(self.folder),
            comment=f"{NAME}-i{self._jobs - 100:03}", reason=reason, limit=limit, expected=expected,
        )  # fmt: skip
        self.cluster.jobs[job.id] = job
        return job

    def start(
        self,
        step: int = 0,
        *,
        run_id: str = NAME,
        warm: float = 240.0,
        config: Config | None = None,
        loads: Path | None = None,
    ) -> Fragment:
        """Begin the newest job: compile ``warm`` seconds, then train on from ``step``.

        The log says what it ``loads``, the checkpoint of that step where nothing else is told.
        Return its W&B file.
        """
        self.job.begin(self.now)
        self.config = self.config if config is None else config
        fragment = self.fragment(run_id, config=self.config)
        old = self.trainer
        self.trainer = replace(
            old, at=self.now, step=step, tracker=fragment, log=self.log, saves=self.saves,
            alive=True, paused_until=self.now + warm,
        )  # fmt: skip
        began = f"starting job {self.job.id}"
        self.log.say([(self.now, f"INFO main: {began}")])
        if step:
            place = loads or self.saves.root / f"step-{step}"
            self.log.say([(self.now + 1, f"INFO checkpoint: resuming from {place}")])
        return fragment

    def fragment(
        self, run_id: str = NAME, name: str | None = None, config: Config | None = None
    ) -> Fragment:
        """Open a new launch's W&B file."""
        stamp = iso(self.now).replace("-", "").replace(":", "").replace("T", "_").rstrip("Z")
        folder = self.folder / "wandb" / f"offline-run-{stamp}-{run_id}"
        found = Fragment(
            folder / f"run-{run_id}.wandb", run_id, self.now, name, config=config or {}
        )
        found.open()
        return found

    def begin(self, *, config: Config | None = None, limit: float | None = None) -> None:
        """Submit and start the first job at the beginning."""
        self.submit(limit=limit)
        self.start(config=config)

    def end(self, state: str = "FAILED", code: str = "1:0", *last: str, reason: str = "") -> None:
        """Let the job and its training be over now; ``last`` are the log's last lines."""
        self.trainer.flush()
        self.trainer.alive = False
        self.log.say([(self.now, line) for line in last])
        words = {"FAILED": "NonZeroExitCode", "TIMEOUT": "TimeLimit"}
        self.job.end(self.now, state, code, reason or words.get(state, "None"))

    def finish(self, *, save: bool = True, close: bool = True) -> None:
        """Let it be over in success: the last save, W&B's end, the job's; or without one."""
        trainer = self.trainer
        trainer.flush()
        trainer.alive = False
        if save:
            self.saves.save(trainer.step, self.now)
        self.log.say([(self.now, f"INFO main: training finished at step {trainer.step}")])
        if trainer.tracker is not None and close:
            trainer.tracker.close(0, self.now)
        self.job.end(self.now, "COMPLETED")

    def ends_at(self, step: int, what: Event | None = None) -> None:
        """Let it finish, or ``what`` happen, when it has trained so many steps."""
        self.trainer.final = step

        def over() -> None:
            self.clock.at = self.trainer.at
            (what or self.finish)()

        self.trainer.at_end = over

    def resume(self, *, lost: float = 600.0, step: int | None = None) -> None:
        """Start a new job now from the newest checkpoint, or from another step."""
        where = self.saves.steps()[-1] if step is None else step
        self.submit()
        self.soon(lost, lambda: self.start(where))

    def state_file(self, name: str = "a", at: float | None = None, **more: str) -> None:
        """Write a monitor's state file."""
        when = self.now if at is None else at
        path = self.folder / "scratch" / f"{name}_monitoring_state.json"
        path.parent.mkdir(exist_ok=True)
        told = {"ts": int(when * 1000), "job_id": self.job.id, "owner": name, "restart_count": 0}
        path.write_text(json.dumps({**told, "cadence_s": 570, **more}))
        touch(path, self.now)

    def book(self, title: str, text: str = "Status: as before") -> None:
        """Append an entry to the logbook."""
        path = self.folder / "book.md"
        head = f"# {NAME}: Hero Run Logbook\n\n## Event Log\n"
        whole = path.read_text() if path.exists() else head
        when = iso(self.now)[:16].replace("T", " ")
        path.write_text(f"{whole}\n### {when} UTC - {title}\n\n- {text}\n")
        touch(path, self.now)

    def run_file(self) -> CockpitFile:
        """Return the run file, checked as any other."""
        run: dict[str, Any] = {
            "name": NAME,
            "dri": "ada",
            "tier": "ordinary",
            "final_step": self.trainer.final,
            "output_root": str(self.root),
            "cadence": f"{CADENCE:.0f}s",
            "job": {"kind": "slurm", "log": str(self.log.path)},
            "wandb": {"id": NAME, "dir": str(self.folder / "wandb")},
            "checkpoints": {
                "path": str(self.saves.root), "layout": "levanter", "save_every": "30m", "keep": 5,
            },
        }  # fmt: skip
        for key, value in self.changes.items():
            known = run.get(key)
            merged = isinstance(known, dict) and isinstance(value, Mapping)
            run[key] = {**known, **value} if merged and known is not None else value
        built = build({"run": [run]}, self.folder / "cockpit.toml")
        if isinstance(built, CockpitFile):
            return built
        raise ValueError("; ".join(f"{trouble.path}: {trouble.text}" for trouble in built))

    def remove(self) -> None:
        """Delete all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)

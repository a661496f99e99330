"""A run whose jobs are files: enough of a world for the launching actions, with real checkpoints.

The platform keeps jobs as ``FilePlatform`` does; code is a git repository, checkpoints are real
folders, the report is looked at by the real sources.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cockpit.actions.core.action import Dependencies
from cockpit.actions.core.service import ActionService
from cockpit.actions.core.table import Actions
from cockpit.model.alert import Alert
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Accepted, LaunchState, LookUp, Query, Submission
from cockpit.model.observed import JobValue, Phase, TrackerValue
from cockpit.model.plan import Approval, Plan, Request, Result, StepResult
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.report import RunReport
from cockpit.model.run import (
    CheckpointSpec,
    CockpitFile,
    CodeSpec,
    JobSpec,
    MonitorSpec,
    RecordsSpec,
    RunSpec,
    WandbSpec,
)
from cockpit.records.git.committing import Edit
from cockpit.records.git.saver import Saver
from cockpit.records.recorder import RecordWriter
from cockpit.sources.checkpoints.source import Checkpoints
from cockpit.sources.git.code import Code
from cockpit.sources.monitor import Monitors
from cockpit.store.journal import Journal
from cockpit.store.store import Store, run_key
from tests.actions.contexts import report
from tests.actions.toys import FilePlatform
from tests.rules.making import blind, log

KILLED = ("step 90/1000 loss=2.3", "step 91/1000 loss=2.3")


class Hurried(SystemClock):
    """The machine's clock, whose waits take no time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    async def sleep(self, seconds: float) -> None:
        self.ahead += seconds
        await super().sleep(0)


class Jobs(FilePlatform):
    """Files as jobs; ``dies`` makes a new one end at once, ``fails`` may raise when submitting."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.submitted: list[Submission] = []
        self.dies = False
        self.blind_to_live = False
        self.before: Callable[[], None] = lambda: None

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        self.before()
        self.submitted.append(accepted.submission)
        answer = await super().go(run, accepted)
        if self.dies:
            (self.folder / accepted.id).write_text("ended")
        return answer

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        found = await super().look_up(run, launch_id)
        if found.found is LaunchState.LIVE and self.blind_to_live:
            return LookUp(found=LaunchState.UNKNOWN, text="no answer")
        path = self.folder / launch_id
        if found.found is LaunchState.LIVE and path.read_text() == "ended":
            return LookUp(found=LaunchState.ENDED, text="it ended, exit status 2", job_id=launch_id)
        return found


class Book(RecordWriter):
    """Keeps what is recorded, by kind."""

    async def push_left(self, run: RunSpec) -> None:
        return

    def __init__(self) -> None:
        self.events: list[EventEntry] = []
        self.instances: list[InstanceEntry] = []
        self.comments: dict[str, str] = {}
        self.commits: list[str] = []

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        self.events += [entry] if entry not in self.events else []
        self.commits.append(commit)
        return Recorded(stage=SaveStage.PUSHED)

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        self.instances += [entry] if entry not in self.instances else []
        return Recorded(stage=SaveStage.PUSHED)

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)

    async def document(self, path: Path, edit: Edit, commit: str) -> Recorded:
        return await Saver(SystemClock()).save(path, edit, commit)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        self.comments.setdefault(event, body)
        return Recorded(stage=SaveStage.NOTHING)

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        return Recorded(stage=SaveStage.NOTHING)


def save(root: Path, step: int, complete: bool = True) -> Path:
    folder = root / f"step-{step}"
    folder.mkdir(parents=True)
    if complete:
        told = {"step": step, "timestamp": f"2026-01-01T00:{step % 60:02d}:00"}
        (folder / "metadata.json").write_text(json.dumps({**told, "is_temporary": False}))
        (folder / "weights").write_bytes(b"w")
    return folder


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


@dataclass
class Place:
    """One run in one folder, looked at anew for every plan."""

    folder: Path
    clock: Hurried = field(default_factory=Hurried)
    phase: Phase | None = Phase.FAILED
    lines: tuple[str, ...] = KILLED
    exit_code: int | None = 137
    alerts: tuple[Alert, ...] = ()
    tracker: TrackerValue | None = None
    operator: str = "ada"
    at: Callable[[str], None] = lambda point: None
    changes: dict[str, Any] = field(default_factory=dict)
    job: JobValue | None = None

    def __post_init__(self) -> None:
        self.root = self.folder / "out"
        self.code = self.folder / "code"
        for path in (self.root / "checkpoints", self.code, self.folder / "s"):
            path.mkdir(parents=True, exist_ok=True)
        if not (self.code / ".git").exists():
            (self.code / "model.py").write_text("1")
            git(self.code, "init", "-q")
            git(self.code, "add", ".")
            git(self.code, "commit", "-qm", "one")
        self.config = self.folder / "config.json"
        self.config.write_text(json.dumps({"lr": 0.1, "seed": 0}))
        self.platform = Jobs(self.folder / "jobs")
        self.book = Book()
        self.store = Store(self.folder / "store-here.sqlite")
        self.others: tuple[RunSpec, ...] = ()
        unused: Any = None
        parts = Dependencies(
            clock=self.clock, store=self.store, journal=Journal(self.store),
            platforms=lambda run: self.platform, guards=(), recorder=self.book,
            notifier=unused, look=self._look,
        )  # fmt: skip
        self.service = ActionService(
            lambda: self.file, parts, Actions(), at=lambda point: self.at(point)
        )

    @property
    def spec(self) -> RunSpec:
        plain: dict[str, Any] = {
            "name": "toy",
            "dri": "ada",
            "output_root": str(self.root),
            "config_file": str(self.config),
            "resubmit": "train --config c.json --root {output_root}",
            "final_step": 1000,
            "hardware": "cpu",
            "job": JobSpec(kind="local", workdir=str(self.code)),
            "wandb": WandbSpec(id="toy", project="p"),
            "checkpoints": CheckpointSpec(
                path=(str(self.root / "checkpoints"),), layout="levanter", save_every=60.0
            ),
            "monitor": MonitorSpec(state=str(self.folder / "s" / "*_monitoring_state.json")),
            "records": RecordsSpec(logbook="/no/logbook.md", issue="https://x/issues/1"),
            "code": CodeSpec(repo=str(self.code)),
        }
        return RunSpec(**{**plain, **self.changes})

    @property
    def file(self) -> CockpitFile:
        return CockpitFile(path=str(self.folder / "cockpit.toml"), runs=(self.spec, *self.others))

    @property
    def key(self) -> str:
        return run_key(str(self.folder / "cockpit.toml"), "toy")

    async def _look(self, name: str) -> RunReport:
        run, now = self.spec, self.clock.now()
        dead = JobValue(id="1", state="exited", phase=Phase.FAILED)
        facets: dict[str, Facet[Any]] = {
            "checkpoints": (await Checkpoints(self.clock).observe([Query(run=run, job=dead)]))[
                "toy"
            ],
            "code": (await Code(self.clock).observe([run]))["toy"],
            "monitor": (await Monitors(self.clock).observe([run]))["toy"],
        }
        more: dict[str, Any] = {"job": self._job(), "log": log(*self.lines, mtime=now)}
        if self.tracker is not None:
            more["tracker"] = self.tracker
        return report(run, self.alerts, now, **facets, **more)

    def _job(self) -> JobValue | Facet[Any]:
        live = self.platform.living
        if self.job is not None:
            return self.job
        if live:
            return JobValue(id=live[-1], state="running", phase=Phase.RUNNING, started_at=1.0)
        if self.phase is None:
            return blind(kind=ErrorKind.NOT_FOUND)
        code = None if self.phase is Phase.RUNNING else self.exit_code
        name = self.platform.started[-1] if self.platform.started else None
        return JobValue(
            id=name or "old:1", launch_id=name, state=self.phase.value, phase=self.phase,
            exit_code=code, started_at=1.0, ended_at=self._last_save(),
        )  # fmt: skip

    def _last_save(self) -> float:
        """Return when the job ended: with its last save, for nothing was saved since."""
        saves = (self.root / "checkpoints").rglob("*")
        return max((each.stat().st_mtime for each in saves), default=2.0)

    def request(self, verb: str = "relaunch", **params: str) -> Request:
        named = {name.replace("_", "-"): value for name, value in params.items()}
        return Request(action=verb, run="toy", operator=self.operator, params=named)

    async def plan(self, verb: str = "relaunch", **params: str) -> Plan:
        return await self.service.plan(self.request(verb, **params))

    async def act(
        self, verb: str = "relaunch", approvals: tuple[Approval, ...] = (), **params: str
    ) -> Result:
        request = self.request(verb, **params)
        plan = await self.service.plan(request, approvals)
        return await self.service.act(request, plan.words, approvals, shown=plan.plan_id)


def approve(check: str, by: str = "ada") -> Approval:
    return Approval(check=check, by=by, reason="it is fine")


def states(steps: tuple[StepResult, ...]) -> dict[str, str]:
    return {step.name: step.state.value for step in steps}

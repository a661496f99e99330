"""A small world to act in: an orchestrator of files, and an action that relaunches there.

Everything lies in one folder, so that it outlives a cockpit that is killed with -9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cockpit.actions.core.action import (
    Action,
    ActionContext,
    Dependencies,
    Execution,
    Step,
    StepError,
)
from cockpit.actions.core.execution import order
from cockpit.actions.core.recording import log_step
from cockpit.actions.core.service import ActionService
from cockpit.actions.launching.submitting import submit
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.history import History
from cockpit.model.jobs import Accepted, LaunchState, Live, LiveJob, LookUp, Submission
from cockpit.model.plan import Approval, Basis, Check, Draft, Level, Plan, Request
from cockpit.model.records import Claim, EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.report import Facets, RunReport, Verdict
from cockpit.model.run import CockpitFile, JobSpec, RecordsSpec, RunSpec
from cockpit.notify.notifier import Notifications
from cockpit.platforms.base import CannotError, LostError
from cockpit.records.recorder import RecordWriter
from cockpit.rules.metrics.progress import progress
from cockpit.store.journal import Journal
from cockpit.store.store import Store
from tests.platforms.stand_in import StandIn

RUN = "toy"
WORDS = f"relaunch {RUN}"


class FilePlatform(StandIn):
    """Jobs are files named by their launch id; a live one says ``live``.

    An accepted one lies in ``held``, made with O_EXCL. It is let go, or cancelled by a look-up,
    by a rename: whoever comes second finds nothing to rename.
    """

    definite_within = 1.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = folder.with_name("held")
        self.cancelled = folder.with_name("cancelled")
        for each in (self.held, self.cancelled):
            each.mkdir(exist_ok=True)
        self.answer: Callable[[], None] = lambda: None
        self.blind = False
        self.queue: str | None = None
        self.looked = 0
        folder.mkdir(exist_ok=True)

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        jobs = tuple(LiveJob(id=name, name=name, why="file") for name in self.living)
        return {run.name: Live(jobs=jobs) for run in runs}

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        self.looked += 1
        if self.blind:
            return LookUp(found=LaunchState.UNKNOWN, text="the orchestrator does not answer")
        with suppress(FileNotFoundError):
            (self.held / launch_id).rename(self.cancelled / launch_id)
            return LookUp(found=LaunchState.ABSENT, text="it was accepted and is cancelled")
        if not (self.folder / launch_id).exists():
            (self.cancelled / launch_id).touch()  # nothing can be accepted under it any more
            return LookUp(found=LaunchState.ABSENT, text="it was never started")
        if self.queue is not None:
            told = {"waits": True, "reason": self.queue}
            return LookUp(found=LaunchState.LIVE, text="it is queued", job_id=launch_id, **told)
        return LookUp(found=LaunchState.LIVE, text="it lives", job_id=launch_id)

    async def accept(self, run: RunSpec, submission: Submission) -> Accepted:
        name = submission.launch_id
        if (self.folder / name).exists() or (self.cancelled / name).exists():
            raise CannotError(f"{name} was started before")
        try:
            with (self.held / name).open("x") as file:
                file.write("live")
        except FileExistsError as error:
            raise CannotError(f"{name} was started before") from error
        return Accepted(id=name, submission=submission)

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        try:
            (self.held / accepted.id).rename(self.folder / accepted.id)
        except FileNotFoundError as error:
            raise CannotError(f"{accepted.id} was cancelled meanwhile") from error
        self.answer()
        return accepted.id

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        for job in jobs:
            (self.folder / job.id).write_text("ended")

    @property
    def started(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    @property
    def living(self) -> list[str]:
        return [name for name in self.started if (self.folder / name).read_text() == "live"]


class FileRecorder(RecordWriter):
    """A logbook that is a text file; an entry that is there already is not written again."""

    async def push_left(self, run: RunSpec) -> None:
        return

    def __init__(self, path: Path) -> None:
        self.path = path
        self.trouble: str | None = None

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        if self.trouble is not None:
            return Recorded(stage=SaveStage.SAVED, trouble=self.trouble)
        line = f"{entry.at:.6f} {entry.title}\n"
        if line not in self.lines:
            with self.path.open("a") as file:
                file.write(line)
        return Recorded(stage=SaveStage.PUSHED, commit="abc1234")

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        return Recorded(stage=SaveStage.NOTHING)

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        return Recorded(stage=SaveStage.NOTHING)

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines(keepends=True) if self.path.exists() else []


class FileGuard:
    """A claim that two machines can see: one file, created with O_EXCL."""

    def __init__(self, path: Path, me: str) -> None:
        self.path = path
        self.me = me
        self.elsewhere: str | None = None

    async def survey(self, run: RunSpec) -> Claim:
        held, _, launch_id = (self.path.read_text() if self.path.exists() else self.me).partition(
            "\n"
        )
        if held != self.me:
            told = {"holder": held, "launch_id": launch_id or None}
            return Claim(level="block", text=f"{held} holds it", **told)
        if self.elsewhere is not None:
            told = {"launch_id": "toy-i004", "launched_by": self.elsewhere}
            return Claim(level="pass", text="the claim is seen by all", **told)
        return Claim(level="pass", text="the claim is seen by all")

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        if over:
            self.path.unlink(missing_ok=True)
        try:
            handle = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
        except FileExistsError:
            return await self.survey(run)
        os.write(handle, f"{self.me}\n{launch_id or ''}".encode())
        os.close(handle)
        return Claim(level="pass", text="taken")

    async def still_mine(self, run: RunSpec) -> bool | None:
        return self.path.exists() and self.path.read_text().partition("\n")[0] == self.me

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        if await self.still_mine(run):
            self.path.unlink()

    async def clear(self, run: RunSpec) -> None:
        await self.release(run)


class NoNotifier(Notifications):
    def __init__(self) -> None:
        """It has no routes and no store."""

    async def send(self, run: RunSpec, event: str, title: str, body: str, severity: str) -> str:
        return "nobody"


class Toy(Action):
    """Stops what lives, submits, records: the shape of every launching action."""

    verb = "relaunch"
    exclusive = True
    launches = True

    def __init__(self) -> None:
        self.checks: tuple[Check, ...] = ()
        self.at_planning: Callable[[], None] = lambda: None
        self.stop_fails = False

    async def draft(self, context: ActionContext, request: Request) -> Draft:
        self.at_planning()
        return Draft(
            words=WORDS,
            checks=self.checks,
            stops=tuple(job.name for job in context.live.jobs),
            command="train",
        )

    def steps(self, context: ActionContext, plan: Plan) -> Sequence[Step]:
        return (
            Step("stop", self._stop),
            Step("submit", _submit),
            Step("count", _count, records=True),
            log_step(_entry, f"{RUN}: log relaunch", after_failure=True),
        )

    async def _stop(self, execution: Execution) -> str | None:
        if self.stop_fails:
            raise StepError("it will not die")
        platform, spec = _platform(execution), execution.context.spec
        jobs = (await platform.live([spec]))[spec.name].jobs
        await order(execution, jobs)
        await platform.stop(spec, jobs)
        return f"{len(jobs)} stopped"


def _platform(execution: Execution) -> FilePlatform:
    platform = execution.context.platform
    assert isinstance(platform, FilePlatform)
    return platform


async def _submit(execution: Execution) -> str | None:
    return await submit(execution, execution.context.spec, ("train",))


async def _count(execution: Execution) -> str | None:
    """Note the launch, as the real action does; done twice it is one."""
    path = _platform(execution).folder.parent / "launches"
    known = path.read_text().split() if path.exists() else []
    if execution.launch_id not in known:
        path.write_text("\n".join([*known, execution.launch_id]))
    return None


def _entry(execution: Execution) -> EventEntry:
    how = f"failed: {execution.trouble}" if execution.trouble else "done"
    return EventEntry(title=f"relaunch {execution.launch_id} {how}", at=execution.entry.begun_at)


@dataclass
class World:
    """One cockpit in the folder; several worlds on one folder are several cockpits."""

    folder: Path
    me: str = "this machine"
    clock: Clock = field(default_factory=SystemClock)
    at: Callable[[str], None] = lambda point: None
    read_only: bool = False
    store_name: str = "store-here.sqlite"
    guarded: bool = True

    def __post_init__(self) -> None:
        self.store = Store(self.folder / self.store_name)
        self.platform = FilePlatform(self.folder / "jobs")
        self.recorder = FileRecorder(self.folder / "logbook.md")
        self.toy = Toy()
        self.report: Callable[[], RunReport] = self._report
        self.file = CockpitFile(path=str(self.folder / "cockpit.toml"), runs=(spec(self.folder),))
        self.guard = FileGuard(self.folder / "claim", self.me)
        self.parts = Dependencies(
            clock=self.clock,
            store=self.store,
            journal=Journal(self.store),
            platforms=lambda run: self.platform,
            guards=(self.guard,) if self.guarded else (),
            recorder=self.recorder,
            notifier=NoNotifier,
            look=self._look,
        )
        self.service = ActionService(
            lambda: self.file, self.parts, {"relaunch": self.toy},
            read_only=self.read_only, at=self.at,
        )  # fmt: skip

    async def _look(self, name: str) -> RunReport:
        return self.report()

    def _report(self) -> RunReport:
        now = self.clock.now()
        return RunReport(
            spec=spec(self.folder), checked_at=now, verdict=Verdict.UNKNOWN, facets=Facets(),
            progress=progress(spec(self.folder), History(now=now)), next_action="none",
        )  # fmt: skip


def spec(folder: Path) -> RunSpec:
    records = RecordsSpec(logbook=str(folder / "logbook.md"))
    return RunSpec(name=RUN, job=JobSpec(kind="local"), records=records)


def request(**params: str) -> Request:
    return Request(action="relaunch", run=RUN, operator="ada", params=params)


def block(name: str, *, overridable: bool) -> Check:
    return Check(
        id=name, level=Level.BLOCK, text=f"{name} is wrong", basis=Basis.OBSERVED,
        overridable=overridable,
    )  # fmt: skip


def approval(name: str) -> Approval:
    return Approval(check=name, by="bob", reason="it is fine")


def lost() -> None:
    raise LostError("no answer within 30 s")

"""A run that is over, with real checkpoints on the disk, and real actions on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cockpit.actions.core.action import Action, Dependencies
from cockpit.actions.core.service import ActionService
from cockpit.model.clock import Clock, SystemClock
from cockpit.model.jobs import Live, LiveJob
from cockpit.model.observed import CheckpointsValue
from cockpit.model.plan import Approval, Plan, Request, Result
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.report import RunReport
from cockpit.model.run import CheckpointSpec, CockpitFile, JobSpec, RecordsSpec, RunSpec
from cockpit.records.git.committing import Edit
from cockpit.records.git.saver import Saver
from cockpit.records.logbook.writing import with_event
from cockpit.records.recorder import RecordWriter
from cockpit.store.journal import Journal
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from tests.actions.toys import NoNotifier
from tests.platforms.stand_in import StandIn
from tests.sources.checkpoints.trees import NOW, levanter

RUN = "toy"


class SetJobs(StandIn):
    """A platform whose jobs a test sets; a stop makes them go, unless it is told to fail."""

    def __init__(self) -> None:
        self.living: tuple[LiveJob, ...] = ()
        self.spared: tuple[LiveJob, ...] = ()
        self.held: tuple[LiveJob, ...] = ()
        self.next: tuple[LiveJob, ...] = ()
        self.unknown: str | None = None
        self.stopped: list[str] = []
        self.saved: list[str] = []
        self.on_save: Any = lambda: None
        self.stubborn = False

    async def live(self, runs: Sequence[RunSpec]) -> Mapping[str, Live]:
        found = Live(jobs=self.living, spared=self.spared, held=self.held, unknown=self.unknown)
        return {run.name: found for run in runs}

    async def stop(self, run: RunSpec, jobs: Sequence[LiveJob]) -> None:
        self.stopped += [job.id for job in jobs]
        if not self.stubborn:
            self.living = tuple(job for job in self.living if job.id not in self.stopped)
            self.living += self.next
            self.held = tuple(job for job in self.held if job.id not in self.stopped)

    async def save(self, run: RunSpec, job: LiveJob) -> None:
        self.saved.append(job.id)
        self.on_save()

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        return {"answer.txt": b"alive\n"}


class Book(RecordWriter):
    """A logbook file: each entry is written once, as the real one does."""

    async def push_left(self, run: RunSpec) -> None:
        return

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[EventEntry] = []
        self.comments: dict[str, str] = {}
        self.trouble: str | None = None

    async def event(self, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        if self.trouble is not None:
            return Recorded(stage=SaveStage.NOTHING, trouble=self.trouble)
        if entry not in self.entries:
            self.entries.append(entry)
            there = self.path.read_bytes() if self.path.exists() else b""
            self.path.write_bytes(with_event(there, entry))
        return Recorded(stage=SaveStage.PUSHED, commit="abc1234")

    async def instance(self, run: RunSpec, entry: InstanceEntry, commit: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)

    async def contract(self, run: RunSpec, values: dict[str, str], commit: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)

    async def document(self, path: Path, edit: Edit, commit: str) -> Recorded:
        return await Saver(SystemClock()).save(path, edit, commit)

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        self.comments.setdefault(event, body)
        return Recorded(stage=SaveStage.PUSHED)

    async def create_issue(self, run: RunSpec, body: str) -> Recorded:
        return Recorded(stage=SaveStage.PUSHED)


class Rest:
    """One run of one file, its roots, its store and its action service."""

    def __init__(
        self, folder: Path, action: Action, *, clock: Clock | None = None, **spec: Any
    ) -> None:
        self.folder = folder
        self.action = action
        self.clock = clock or SystemClock()
        self.root = folder / "out" / "checkpoints"
        self.temporary = folder / "out" / "checkpoints-temp"
        self.root.mkdir(parents=True, exist_ok=True)
        self.temporary.mkdir(exist_ok=True)
        self.logbook = folder / "toy.md"
        (folder / "exit").write_text("0\n")
        (folder / "run.log").write_text("step 1/10 loss=2.0\n")
        self.platform, self.book = SetJobs(), Book(self.logbook)
        self.spec = self._spec(spec)
        self.store = Store(folder / "store-here.sqlite")
        self.service = self.another()

    def _spec(self, changes: dict[str, Any]) -> RunSpec:
        plain: dict[str, Any] = {
            "name": RUN,
            "dri": "ada",
            "final_step": 500,
            "output_root": str(self.folder / "out"),
            "resubmit": "train --resume",
            "job": JobSpec(
                kind="local", log=str(self.folder / "run.log"), exit_file=str(self.folder / "exit")
            ),
            "checkpoints": CheckpointSpec(path=(str(self.root), str(self.temporary))),
            "records": RecordsSpec(logbook=str(self.logbook)),
        }
        return RunSpec(**{**plain, **changes})

    @property
    def file(self) -> CockpitFile:
        return CockpitFile(path=str(self.folder / "cockpit.toml"), runs=(self.spec,))

    def another(self, store: Store | None = None, at: Any = lambda point: None) -> ActionService:
        """The action service of another cockpit on the same run."""
        mine = store or self.store
        parts = Dependencies(
            clock=self.clock,
            store=mine,
            journal=Journal(mine),
            platforms=lambda run: self.platform,
            guards=(),
            recorder=self.book,
            notifier=NoNotifier,
            look=self.look,
        )
        return ActionService(lambda: self.file, parts, {self.action.verb: self.action}, at=at)

    async def look(self, run: str) -> RunReport:
        engine = Engine(self.file, store=self.store, clock=self.clock)
        return (await engine.check([run])).runs[0]

    async def listing(self) -> CheckpointsValue:
        value = (await self.look(RUN)).facets.checkpoints.value
        assert value is not None
        return value

    def request(self, **params: str) -> Request:
        named = {name.replace("_", "-"): value for name, value in params.items()}
        return Request(action=self.action.verb, run=RUN, operator="ada", params=named)

    async def plan(self, **params: str) -> Plan:
        return await self.service.plan(self.request(**params))

    async def act(self, words: str, *approvals: Approval, **params: str) -> Result:
        return await self.service.act(self.request(**params), words, approvals)

    def save(self, *steps: int, temporary: bool = False, **more: Any) -> None:
        root = self.temporary if temporary else self.root
        for step in steps:
            at = {"at": NOW - 7200 + step, **more}
            levanter(root, step, temporary=temporary, **at)

    def names(self) -> set[str]:
        return {path.name for root in (self.root, self.temporary) for path in root.iterdir()}


def blocks(plan: Plan) -> dict[str, str]:
    return {check.id: check.text for check in plan.checks if check.stands_in_the_way}


def job(name: str = "pid:7") -> LiveJob:
    return LiveJob(id=name, name=name, why="its launch id")

"""Which place and which job is asked.

Why jobs ended, found out of logs on ssh hosts: by this machine's own sh, in counted trips.

Rows after an edit of the run file: each is folded once, and all of them are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.link import PATIENCE, Ask
from cockpit.hosts.script import run_script_blocking
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet, known
from cockpit.model.observed import LogValue, MonitorValue, RecordsValue
from cockpit.model.place import HERE
from cockpit.model.report import FACETS
from cockpit.model.run import CheckpointSpec, CockpitFile, CodeSpec, JobSpec, RunSpec, WandbSpec
from cockpit.model.shared_facts import LAUNCHED, SharedFact
from cockpit.platforms.local import host, jobs
from cockpit.platforms.table import Platforms
from cockpit.runtime.ssh import RemoteError
from cockpit.sources import file_tracker
from cockpit.sources.checkpoints import source as checkpoints
from cockpit.sources.logs import remote
from cockpit.sources.logs import source as logs
from cockpit.sources.trackers import Trackers
from cockpit.sources.wandb import online
from cockpit.store.memory import LaunchedJob
from cockpit.text.safe import safe_line
from cockpit.watch.asking import Asker, places_of, with_current_job
from cockpit.watch.diagnoser import Diagnoser
from cockpit.watch.fleet import Fleet
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.poller import DEADLINES
from cockpit.watch.reports import case_of
from cockpit.watch.runstate import Rows, RunState
from cockpit.watch.store_writer import Shared
from cockpit.watch.sweep import Supervisor
from tests.hosts.here import CallsHere
from tests.queries import queries_of
from tests.sources.wandb import writer
from tests.watch.fakes import World, failed

PLATFORMS = Platforms(SystemClock())


def places(facet: str, run: RunSpec) -> tuple[str, ...]:
    return places_of(facet, run, PLATFORMS.of(run))


def with_job(**job: object) -> RunSpec:
    return RunSpec(name="r", job=JobSpec.model_validate(job))


@pytest.mark.parametrize("facet", FACETS)
async def test_of_a_run_that_an_edit_has_removed_nothing_is_asked(facet: str) -> None:
    world = World("a")
    assert await Asker(world.sources, {}, world.clock).ask(facet, HERE, world.file.runs) == {}


async def test_a_look_at_a_job_that_was_stopped_in_its_midst_is_as_old_as_its_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever asks: a watch, a window, a plan."""
    world = World("a")
    (run,) = world.file.runs
    states, asked = {"a": RunState(run, "a")}, list[float]()
    plain = world.fakes["job"].observe

    async def stopped(queries: Sequence[Any]) -> dict[str, Facet[Any]]:
        asked.append(world.clock.now())
        seen = await plain(queries)
        await world.clock.sleep(3.0)
        return {name: known(seen[name].value, "a", world.clock.now()) for name in seen}

    monkeypatch.setattr(world.fakes["job"], "observe", stopped)
    found = await Asker(world.sources, states, world.clock).ask("job", HERE, [run])
    at = found["a"].observed_at
    assert at is not None and at <= asked[0]


def test_one_host_is_one_place_for_job_log_host_folder_roots_and_code() -> None:
    run = RunSpec(
        name="r",
        job=JobSpec(kind="box", host="gpu-box", log="ssh://gpu-box/run.log"),
        wandb=WandbSpec(dir="ssh://gpu-box/wandb"),
        checkpoints=CheckpointSpec(path=("ssh://gpu-box/a", "ssh://gpu-box/b")),
        code=CodeSpec(repo="ssh://gpu-box/src"),
    )
    facets = ("job", "log", "host", "tracker", "checkpoints", "code")
    assert {places(facet, run) for facet in facets} == {("gpu-box",)}


def test_a_host_whose_alias_is_here_is_another_machine_all_the_same() -> None:
    job = JobSpec(kind="box", host="here", log="ssh://here/run.log")
    run = RunSpec(name="r", job=job)
    assert {places(facet, run) for facet in ("job", "log", "host")} == {("here",)}
    with pytest.raises(RemoteError):
        run_script_blocking(HERE, "true", deadline=1.0)


@pytest.mark.parametrize(
    ("job", "place"),
    [
        ({"kind": "iris", "controller_url": "http://c:1"}, "iris http://c:1"),
        ({"kind": "ray", "address": "http://r:2"}, "ray http://r:2"),
        ({"kind": "slurm", "host": "isambard"}, "slurm isambard"),
        ({"kind": "slurm"}, "slurm here"),
        ({"kind": "local", "log": "/x/log"}, HERE),
    ],
)
def test_the_platform_names_the_place_of_its_jobs_logs_and_hosts(
    job: dict[str, str], place: str
) -> None:
    assert {places(facet, with_job(**job)) for facet in ("job", "log", "host")} == {(place,)}


@pytest.mark.parametrize(
    ("wandb", "place"),
    [
        ({"url": "https://wandb.ai/e/p/runs/x"}, "https://api.wandb.ai/e/p"),
        ({"url": "https://forge.coreweave.com/wandb/e/p/runs/x"},
         "https://api.forge.coreweave.com/e/p"),
        ({"entity": "e", "project": "p", "id": "x", "base_url": "https://W.example.org/"},
         "https://w.example.org/e/p"),
        ({"project": "p", "id": "x", "base_url": "http://w:8"}, "http://w:8/~/p"),
        ({"id": "x"}, HERE),
        ({"dir": "/x", "project": "p", "id": "x"}, HERE),
    ],
)  # fmt: skip
def test_w_and_b_is_asked_where_its_project_is(wandb: dict[str, str], place: str) -> None:
    assert places("tracker", RunSpec(name="r", wandb=WandbSpec(**wandb))) == (place,)


def test_an_online_run_whose_files_are_here_has_two_places() -> None:
    wandb = WandbSpec(dir="/x/wandb", url="https://w.example.org/e/p/runs/x")
    found = places("tracker", RunSpec(name="r", wandb=wandb))
    assert found == (HERE, "https://w.example.org/e/p")


def test_each_root_has_the_place_of_its_own_endpoint() -> None:
    roots = ("/a", "gs://b/x", "gs://b/y", "ssh://box/z")
    run = RunSpec(name="r", checkpoints=CheckpointSpec(path=roots))
    assert places("checkpoints", run) == (HERE, "gs://b", "box")


def test_each_source_gives_up_before_its_poller_does() -> None:
    assert DEADLINES["log"].here > logs.DEADLINE
    assert DEADLINES["tracker"].here > file_tracker.DEADLINE
    assert DEADLINES["tracker"].away > online.DEADLINE + online.LOGIN
    assert DEADLINES["checkpoints"].here > checkpoints.DEADLINE
    assert DEADLINES["job"].here > PATIENCE + jobs.REAP_WAIT + jobs.JUDGING
    assert DEADLINES["host"].here > host.PATIENCE


RUN = RunSpec(name="toy", job=JobSpec(kind="slurm", id="30"))


def state(**monitor: str) -> RunState:
    made = RunState(RUN, "toy")
    made.shared = Shared(launch=LaunchedJob(job_id="37", at=100.0))
    value = MonitorValue(fresh=True, last_update=200.0, cadence_s=5.0, **monitor)
    made.facets = made.facets.model_copy(update={"monitor": known(value, "file", 200.0)})
    return made


@pytest.mark.parametrize(
    ("monitor", "expected"),
    [
        ({"job_id": "40"}, "40"),
        ({"job_id": "31", "retired": "30"}, "31"),
        ({"job_id": "31", "retired": "31"}, "37"),
        ({}, "37"),
    ],
)
def test_a_monitor_that_has_not_heard_of_a_relaunch_names_no_newer_job(
    monitor: dict[str, str], expected: str
) -> None:
    """It goes on writing its file: the newest file is not the newest job."""
    platform = Platforms(SystemClock()).of(RUN)
    run, _ = with_current_job(RUN, state(**monitor), platform)
    assert run.job is not None and run.job.id == expected


@pytest.mark.parametrize(
    ("launch_id", "expected"), [("toy-i004", "44"), ("toy-2-i004", "37"), ("oy-i004", "37")]
)
def test_a_launch_of_another_run_told_in_a_shared_logbook_is_not_this_ones(
    launch_id: str, expected: str
) -> None:
    """Else its failure would be shown, and its job stopped, under this run's name."""
    made = state()
    told = SharedFact(what=LAUNCHED, value=launch_id, at=150.0, typed_by="ada", parts={"job": "44"})
    records = RecordsValue(logbook="/b.md", told=(told,))
    made.facets = made.facets.model_copy(update={"records": known(records, "file", 200.0)})
    run, _ = with_current_job(RUN, made, Platforms(SystemClock()).of(RUN))
    assert run.job is not None and run.job.id == expected


HOST = "diagnosed-box"
RUNS = 40
NOW = 1_800_000_000.0
LINES = "step 1 loss 2.5\nModuleNotFoundError: No module named 'jx'\n"


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Iterator[CallsHere]:
    own = CallsHere()
    monkeypatch.setitem(remote._HOSTS, HOST, remote.Host(HOST, own))
    monkeypatch.setattr("cockpit.sources.logs.remote.BULK", 60.0)
    yield own


def ended(path: Path, name: str) -> RunState:
    """Return a run whose job has failed, with a log of ``LINES`` on the host."""
    path.write_text(LINES)
    job = JobSpec(kind="box", host=HOST, pid_file=f"{path}.pid", log=str(path))
    state = RunState(RunSpec(name=name, job=job), name)
    told = path.stat()
    log = LogValue(
        path=f"ssh://{HOST}{path}",
        size=told.st_size,
        mtime=told.st_mtime,
        inode=told.st_ino,
        lines=tuple(map(safe_line, LINES.splitlines())),
    )
    job_value = failed(NOW).model_copy(update={"started_at": 1.0})
    state.take("job", known(job_value, "x", NOW))
    state.take("log", known(log, "x", NOW))
    return state


async def diagnosed(diagnoser: Diagnoser, states: Sequence[RunState]) -> None:
    await diagnoser.refresh(states, [case_of(each, NOW) for each in states], 60.0)


def new_diagnoser(folder: Path) -> Diagnoser:
    return Diagnoser(Supervisor(SystemClock(), folder / "crashes"), lambda _: None)


async def test_logs_of_one_host_take_one_trip_and_none_while_nothing_is_new(
    tmp_path: Path, box: CallsHere
) -> None:
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(RUNS)]
    diagnoser = new_diagnoser(tmp_path)
    await diagnosed(diagnoser, states)
    found = [each.diagnosis for each in states]
    assert {one and one.triage.name for one in found} == {"small_code_bug"}
    assert box.trips == 1
    await diagnosed(diagnoser, states)
    assert box.trips == 1


async def test_one_that_is_missing_or_rotated_costs_the_others_nothing(
    tmp_path: Path, box: CallsHere
) -> None:
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(4)]
    (tmp_path / "0.log").unlink()
    (tmp_path / "1.log").rename(tmp_path / "1.log.1")
    (tmp_path / "1.log").write_text("bye\n")
    await diagnosed(new_diagnoser(tmp_path), states)
    found = [each.diagnosis for each in states]
    assert {one and one.triage.name for one in found} == {"small_code_bug"}
    assert box.trips == 3  # the file that was rotated away is measured and read besides


async def test_a_host_that_is_gone_is_asked_once_for_all_and_again_later(
    tmp_path: Path, box: CallsHere
) -> None:
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(4)]
    box.down = RemoteError(ErrorKind.REFUSED, "no route")
    diagnoser = new_diagnoser(tmp_path)
    await diagnosed(diagnoser, states)
    assert box.trips == 1
    box.down = None
    (tmp_path / "2.log").write_text("x\n" * 100 + LINES)
    await diagnosed(diagnoser, states)
    third = states[2].diagnosis
    assert box.trips == 2 and third is not None and third.triage.evidence[0].line == 102


async def test_a_log_that_hangs_is_asked_for_alone(
    tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(3)]
    late = RemoteError(ErrorKind.TIMEOUT, "late")
    asked = CallsHere.__call__

    def slow(self: CallsHere, host: str, each: Ask, deadline: float) -> Any:
        if "0.log" in each.arguments and "1.log" in each.arguments:
            self.trips += 1
            raise late.again()
        return asked(self, host, each, deadline)

    monkeypatch.setattr(CallsHere, "__call__", slow)
    await diagnosed(new_diagnoser(tmp_path), states)
    found = [each.diagnosis for each in states]
    assert {one and one.triage.name for one in found} == {"small_code_bug"} and box.trips > 1


async def test_a_fault_of_the_trip_is_shown_and_each_log_is_asked_for_alone(
    tmp_path: Path, box: CallsHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise ValueError("a path that no shell can be given")

    monkeypatch.setattr("cockpit.sources.logs.present.remote_log", broken)
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(3)]
    supervisor = Supervisor(SystemClock(), tmp_path / "crashes")
    await diagnosed(Diagnoser(supervisor, lambda _: None), states)
    found = [each.diagnosis for each in states]
    assert {one and one.triage.name for one in found} == {"small_code_bug"}
    assert len(supervisor.faults) == 1


async def test_a_host_that_stays_gone_has_no_run_judged_and_itself_asked_without_rest(
    tmp_path: Path, box: CallsHere
) -> None:
    states = [ended(tmp_path / f"{n}.log", f"run-{n}") for n in range(2)]
    box.down = RemoteError(ErrorKind.REFUSED, "no route")
    ready: list[str] = []
    diagnoser = Diagnoser(Supervisor(SystemClock(), tmp_path / "crashes"), ready.append)
    for _ in range(3):
        await diagnosed(diagnoser, states)
    assert (sorted(ready), box.trips) == (["run-0", "run-1"], 3)


T0 = 1_700_000_000.0
EVENTS = Path(__file__).resolve().parents[1] / "data" / "tensorboard" / "scalars.tfevents"
LAST = {"wandb": 4, "tensorboard": 2000}


class Edited:
    """A fleet of one run whose tracker is read, and whose run file is edited."""

    def __init__(self, folder: Path) -> None:
        self.trackers = Trackers(SystemClock())
        self.dir = str(folder)
        rows = [writer.row(step, "2.5", T0 + step) for step in range(LAST["wandb"] + 1)]
        (folder / "run-abc.wandb").write_bytes(writer.log([writer.run("abc", T0), *rows]))
        (folder / "events.out.tfevents.1.node-1").write_bytes(EVENTS.read_bytes())
        self.fleet = Fleet(self.file(), forget=self.trackers.forget)

    def file(self, *runs: RunSpec) -> CockpitFile:
        return CockpitFile(path="/x/cockpit.toml", runs=runs)

    def run(self, kind: str, **more: Any) -> RunSpec:
        own: dict[str, Any] = {"wandb": {"id": "abc"}, "tensorboard": {}}[kind]
        return RunSpec.model_validate({"name": "hero", kind: {**own, "dir": self.dir, **more}})

    def edit(self, *runs: RunSpec) -> None:
        self.fleet.adopt(self.file(*runs))

    async def read(self) -> Rows:
        """Look at the tracker and fold all that it gives."""
        state = self.fleet.states["hero"]
        await self.trackers.observe(queries_of([state.spec]))
        while not (await feed_chunk(self.trackers, state.spec, state.rows)).caught_up:
            pass
        return state.rows


def is_whole(rows: Rows, kind: str) -> bool:
    """Tell whether every row of a tracker was folded, and once."""
    folded = rows.trend.stepping
    return rows.complete and (folded.step, folded.backs) == (LAST[kind], 0)


@pytest.fixture
def edited(tmp_path: Path) -> Edited:
    return Edited(tmp_path)


@pytest.mark.parametrize("kind", ["wandb", "tensorboard"])
async def test_another_metric_makes_no_step_one_that_was_trained_again(
    edited: Edited, kind: str
) -> None:
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)
    edited.edit(edited.run(kind, metrics={"grad_norm": "norm"}))
    assert is_whole(await edited.read(), kind)


@pytest.mark.parametrize("kind", ["wandb", "tensorboard"])
async def test_a_run_that_is_named_again_has_all_of_its_rows_again(
    edited: Edited, kind: str
) -> None:
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)
    edited.edit()
    edited.edit(edited.run(kind))
    assert is_whole(await edited.read(), kind)


async def test_another_kind_of_tracker_is_read_from_its_first_row(edited: Edited) -> None:
    for kind in ("wandb", "tensorboard", "wandb"):
        edited.edit(edited.run(kind))
        assert is_whole(await edited.read(), kind)


async def test_an_edit_that_is_not_of_the_tracker_has_no_row_read_again(edited: Edited) -> None:
    edited.edit(edited.run("wandb"))
    rows = await edited.read()
    edited.edit(edited.run("wandb").model_copy(update={"cadence": 60.0}))
    assert await edited.read() is rows and is_whole(rows, "wandb")

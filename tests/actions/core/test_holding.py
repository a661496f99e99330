"""A cockpit that was stopped in the middle while somebody took its run over: it submits nothing.

The log and the platform's answer of a job elsewhere: kept, bounded and masked.

A launch id is given out once, whatever became of the store that knew it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core import evidence, execution
from cockpit.actions.core.evidence import Archived, archive
from cockpit.actions.core.execution import look_up
from cockpit.actions.core.guards import FRESH_FOR, Noted, noted_ids
from cockpit.hosts import notes
from cockpit.hosts.link import Ask
from cockpit.model import wording
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, known, unknown
from cockpit.model.jobs import LaunchState, Live, LiveJob, LookUp
from cockpit.model.observed import LogValue
from cockpit.model.place import SSH, Place
from cockpit.model.plan import Outcome, Result, StepState
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import JobSpec, RecordsSpec, RunSpec
from cockpit.platforms.base import Platform
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.pieces import PageCache
from cockpit.sources.logs.remote import Host, RemoteLog
from cockpit.sources.logs.source import Logs
from cockpit.sources.logs.spool import Spool
from cockpit.store.journal import Journal
from cockpit.store.store import run_key
from tests.actions.toys import RUN, WORDS, FilePlatform, World, approval, request
from tests.hosts.here import CallsHere

OVER = [approval("second-machine")]


class Shifted(SystemClock):
    """A clock that somebody can move on."""

    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


def other(folder: Path) -> World:
    """Return the cockpit of another machine: its store knows nothing of the first."""
    return World(folder, me="b", store_name="b.sqlite")


def taken_over_in(world: World, where: str, rival: World) -> list[Result]:
    """Let the rival take the run over while the first is within ``where``, before it acts."""
    owner = world.toy if where == "_stop" else world.platform
    plain, results = getattr(owner, where), list[Result]()

    async def late(*args: Any) -> Any:
        if not results:
            await rival.service.plan(request())
            results.append(await rival.service.act(request(), WORDS, OVER))
        return "nothing to stop" if where == "_stop" else await plain(*args)

    setattr(owner, where, late)
    return results


@pytest.mark.parametrize("where", ["_stop", "accept", "go"])
async def test_whoever_wakes_up_after_it_was_taken_over_starts_nothing(
    tmp_path: Path, where: str
) -> None:
    """Wherever the first is stopped: one job, the second's, and each journal says so."""
    first = World(tmp_path, me="a")
    results = taken_over_in(first, where, World(tmp_path, me="b", store_name="b.sqlite"))
    result = await first.service.act(request(), WORDS)
    assert [each.outcome for each in results] == [Outcome.DONE], results[0].message
    assert result.outcome is Outcome.FAILED, result.message
    assert first.platform.started == first.platform.living == [results[0].launch_id]
    entry = (await first.service.history(RUN))[-1]
    assert entry.outcome is Outcome.FAILED and entry.job_id is None


async def test_one_that_was_accepted_is_closed_when_the_run_is_lost(tmp_path: Path) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            (tmp_path / "claim").write_text("another machine")

    world = World(tmp_path, at=at)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED
    assert "another machine has taken over the run" in result.message
    assert "what was accepted is cancelled" in result.message
    assert (world.platform.started, list(world.platform.held.iterdir())) == ([], [])


async def test_whether_it_is_closed_may_stay_unknown_and_is_looked_up_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            (tmp_path / "claim").write_text("another machine")
            world.platform.blind = True

    world = World(tmp_path, at=at)
    monkeypatch.setattr(FilePlatform, "definite_within", 0.0)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.UNKNOWN and "not released" in result.message
    world.platform.blind = False
    settled = await world.service.recover(RUN)
    assert [each.outcome for each in settled] == [Outcome.FAILED]
    assert world.platform.started == []


async def test_an_action_that_another_cockpit_has_ended_lets_nothing_go(tmp_path: Path) -> None:
    def at(point: str) -> None:
        if point == "submit:accepted":
            journal = Journal(world.store)
            (entry,) = journal.unfinished(run_key(world.file.path, RUN))
            journal.end(entry.number, Outcome.FAILED, 1.0, "somebody says that it is over")

    world = World(tmp_path, at=at)
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED
    assert "another cockpit has ended this action" in result.message
    assert world.platform.started == []


@pytest.mark.parametrize("shift", [2 * FRESH_FOR, -2 * FRESH_FOR])
async def test_between_two_steps_it_is_asked_again_after_a_while(
    tmp_path: Path, shift: float
) -> None:
    """A step that only comes later than it should finds out before it does anything."""
    clock, accepted = Shifted(), []

    def at(point: str) -> None:
        if point == "stop:done":
            clock.shift = shift
            (tmp_path / "claim").write_text("another machine")

    world = World(tmp_path, clock=clock, at=at)
    plain = world.platform.accept

    async def accept(*args: Any) -> Any:
        accepted.append(args)
        return await plain(*args)

    world.platform.accept = accept  # type: ignore[assignment,method-assign]
    result = await world.service.act(request(), WORDS)
    assert result.outcome is Outcome.FAILED and accepted == []
    assert {step.name: step.state for step in result.steps}["submit"] is StepState.FAILED


async def test_nothing_is_taken_over_while_its_launch_may_still_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilePlatform, "definite_within", 0.0)
    world = World(tmp_path)
    (tmp_path / "claim").write_text("another machine\ntoy-i003")
    await world.service.plan(request())
    world.platform.blind = True
    refused = await world.service.act(request(), WORDS, OVER)
    assert refused.outcome is Outcome.REFUSED
    assert "cannot tell whether toy-i003 was started" in refused.message
    assert (tmp_path / "claim").read_text() == "another machine\ntoy-i003", "it holds it still"
    world.platform.blind = False
    assert (await world.service.act(request(), WORDS, OVER)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i004"]


async def test_where_all_see_the_jobs_the_look_up_decides_about_a_launch_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FilePlatform, "shared", True)
    world = World(tmp_path)
    world.guard.elsewhere = "box-a, pid 7"
    world.platform.blind = True
    plan = await world.service.plan(request())
    (check,) = [each for each in plan.checks if each.id == "launched-elsewhere"]
    assert plan.blocked and "does not answer" in check.text
    world.platform.blind = False
    plan = await world.service.plan(request())
    (check,) = [each for each in plan.checks if each.id == "launched-elsewhere"]
    assert not plan.blocked and "looked up: it was never started" in check.text
    assert (await world.service.act(request(), WORDS)).outcome is Outcome.DONE
    assert world.platform.started == ["toy-i005"]


class Faulty(FilePlatform):
    """Breaks what a platform promises: it raises, or hangs."""

    hangs = False

    async def look_up(
        self,
        run: RunSpec,
        launch_id: str,
        handle: Mapping[str, str] | None = None,
        *,
        settle: bool = True,
    ) -> LookUp:
        if self.hangs:
            await asyncio.sleep(3600)
        raise ValueError("a fault")


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_look_up_that_raises_or_hangs_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(execution, "ANSWER_WITHIN", 0.05)
    platform = Faulty(tmp_path / "jobs")
    platform.hangs = hangs
    found = await look_up(platform, World(tmp_path).file.runs[0], "toy-i001")
    assert found.found is LaunchState.UNKNOWN
    assert ("no answer within" if hangs else "a fault") in found.text


class Ticking:
    """A clock whose waiting costs no time, and is counted."""

    def __init__(self) -> None:
        self.at, self.waits = 1000.0, list[float]()

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.at += seconds


@pytest.mark.parametrize(("every", "within", "most"), [(0.5, 10.0, 12), (2.0, 90.0, 20)])
async def test_it_is_looked_up_for_as_long_as_the_platform_needs_and_not_too_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: float, within: float, most: int
) -> None:
    monkeypatch.setattr(FilePlatform, "look_every", every)
    monkeypatch.setattr(FilePlatform, "definite_within", within)
    world, clock = World(tmp_path), Ticking()
    world.platform.blind = True
    found = await execution.settled(world.platform, world.file.runs[0], "toy-i001", clock)
    assert found.found is LaunchState.UNKNOWN
    assert within <= sum(clock.waits) <= within + 10.0
    assert clock.waits[0] == every and world.platform.looked <= most


def test_who_must_look_is_told_where_for_which_name_and_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    (run,) = world.file.runs
    told = execution.where_to_look(world.platform, run, "toy-i001", None)
    assert told == "check by hand for toy-i001"
    monkeypatch.setattr(FilePlatform, "endpoint", lambda self, run: "slurm@isambard")
    told = execution.where_to_look(world.platform, run, "toy-i001", "4711")
    assert told == "check by hand for toy-i001 at slurm@isambard, accepted as 4711"


NOW = 1_800_000_000.0
SECRET = "sk-plantedplantedplanted123456789"


class Box(CallsHere):
    """A host that is this machine; an answer larger than ``carries`` bytes takes it too long."""

    def __init__(self, carries: int | None = None) -> None:
        super().__init__()
        self.carries = carries

    def __call__(self, host: str, each: Ask, deadline: float) -> Any:
        before = self.bytes
        found = super().__call__(host, each, deadline)
        if self.carries is not None and self.bytes - before > self.carries:
            raise RemoteError(ErrorKind.TIMEOUT, "box: no answer within 4 s")
        return found


class Told(Platform):
    """A platform that gives what it was made with, or hangs."""

    kind = "slurm"

    def __init__(self, files: dict[str, bytes] | None) -> None:
        super().__init__(SystemClock(), Logs(SystemClock()))
        self._files = files

    async def evidence(self, run: RunSpec, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
        if self._files is None:
            await asyncio.Event().wait()
        return dict(self._files or {})


def seen(path: str | None, kind: str = "slurm") -> RunReport:
    spec = RunSpec(name="toy", job=JobSpec.model_validate({"kind": kind, "id": "7"}))
    log = (
        unknown(ErrorKind.REFUSED, "box: connection refused", "box", NOW)
        if path is None
        else known(LogValue(path=path, size=1, mtime=NOW), "log", NOW)
    )
    return RunReport(
        spec=spec, checked_at=NOW, verdict=Verdict.HEALTHY, facets=Facets(log=log), next_action="",
        progress=Progress(step=None, final_step=None, final_step_source=None, text="~0/unknown"),
    )  # fmt: skip


async def kept(report: RunReport, folder: Path, files: dict[str, bytes] | None = None) -> Archived:
    return await archive(report.spec, report, Told(files or {}), Live(), folder / "e")


def text(found: Archived, name: str) -> str:
    return (Path(str(found.path)) / name).read_text()


def on_box(monkeypatch: pytest.MonkeyPatch, box: Box) -> None:
    def log_at(place: Place) -> RemoteLog:
        assert place.scheme == SSH
        return RemoteLog(place, Host("box", box, PageCache()))

    monkeypatch.setattr(evidence, "log_at", log_at)


async def test_the_end_of_a_log_on_a_host_comes_in_one_trip_masked_and_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box()
    on_box(monkeypatch, box)
    monkeypatch.setattr(evidence, "LOG_TAIL", 100_000)
    log = tmp_path / "slurm-7.out"
    lines = [f"line {number:07} OPENAI_API_KEY={SECRET}" for number in range(4000)]
    log.write_text("\n".join(lines) + "\n")
    found = await kept(seen(f"ssh://box{log}"), tmp_path)
    tail = text(found, "log-tail.txt").splitlines()
    assert box.trips == 1 and SECRET not in "".join(tail)
    assert tail[-1].startswith("line 0003999 ") and tail[0].startswith("line 000")
    told = json.loads(text(found, "log.json"))
    size = log.stat().st_size
    assert told["path"] == f"ssh://box{log}" and told["size"] == size
    assert 99_000 < size - told["kept_from"] <= 100_000
    kept_bytes = wording.size(size - told["kept_from"])
    assert f"the last {kept_bytes} of {wording.size(size)} of ssh://box" in found.text


async def test_of_a_log_that_a_slow_host_does_not_bring_less_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box(carries=100_000)
    on_box(monkeypatch, box)
    log = tmp_path / "slurm-7.out"
    log.write_text("step 1 loss 2.5\n" * 400_000)
    found = await kept(seen(f"ssh://box{log}"), tmp_path)
    assert "the last 50.0 kB of 6.4 MB" in found.text and found.missing == () and box.trips == 3
    on_box(monkeypatch, Box(carries=1))
    none = await kept(seen(f"ssh://box{log}"), tmp_path)
    assert "log-tail.txt" not in none.files and "no answer within 4 s" in none.text


async def test_a_log_that_was_fetched_by_cursor_is_kept(tmp_path: Path) -> None:
    spool = Spool("toy", "/ada/toy", tmp_path / "logs" / "m")
    assert spool.append([b"step 1", b"step 2"], "c2", NOW, since=None)
    found = await kept(seen(str(spool.place), "iris"), tmp_path)
    assert text(found, "log-tail.txt") == "step 1\nstep 2\n"
    assert "all 14 B of" in found.text


async def test_a_log_that_nobody_could_read_is_named_with_the_reason(tmp_path: Path) -> None:
    found = await kept(seen(None), tmp_path)
    assert "the log: box: connection refused" in found.missing


async def test_what_a_platform_gives_is_bounded_and_named_plainly(tmp_path: Path) -> None:
    big = (f"token sk-{'ab' * 15} " * 200_000).encode()
    many = {f"f{number}": b"longer" for number in range(100)}
    found = await kept(seen(None), tmp_path, {"../../up/job.json": b"{}", "big.txt": big, **many})
    assert "_.._up_job.json" in found.files and "report.json" in found.files
    assert len(found.files) == evidence.MOST_FILES and text(found, "_.._up_job.json") == "{}\n"
    assert f"big.txt: {wording.size(len(big))}, too much beside the other files" in found.missing
    alone = await kept(seen(None), tmp_path, {"big.txt": big})
    assert any(line.startswith("big.txt: only the first 6.0 MB of") for line in alone.missing)
    assert "sk-abab" not in text(alone, "big.txt")
    assert len(text(alone, "big.txt")) <= evidence.FILE_CAP


async def test_a_platform_that_hangs_costs_a_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "DEADLINE", 0.3)
    report = seen(None)
    found = await archive(report.spec, report, Told(None), Live(), tmp_path / "e")
    assert found.files == ("report.json",)
    assert "what slurm tells of the job: no answer within 0.3 s" in found.missing


BOOK = """# toy

## Launched Instances

### 2026-01-01 00:00 UTC - toy-i007

## Event Log
relaunched by hand as `toy-i009`; not ours: my-toy-i200, toy-i300-eval
"""


@pytest.fixture
def run(tmp_path: Path) -> RunSpec:
    (tmp_path / "toy.md").write_text(BOOK)
    job = JobSpec(kind="local", pid_file=str(tmp_path / "pids" / "run.pid"))
    records = RecordsSpec(logbook=str(tmp_path / "toy.md"))
    return RunSpec(name="toy", output_root=str(tmp_path / "out"), job=job, records=records)


async def test_they_count_from_the_logbook_the_root_and_beside_the_pid_file(
    run: RunSpec, tmp_path: Path
) -> None:
    assert await noted_ids(run) == Noted(frozenset({"toy-i007", "toy-i009"}))
    notes.note_intent(tmp_path / "out" / notes.BELOW, "toy-i011", {})
    notes.claim_launch(tmp_path / "pids" / notes.BELOW, "toy-i012", {"state": "ended"})
    notes.claim_launch(tmp_path / "pids" / notes.BELOW, "other-i099", {})
    known = {"toy-i007", "toy-i009", "toy-i011", "toy-i012"}
    assert await noted_ids(run) == Noted(frozenset(known))


async def test_what_is_not_there_names_none(run: RunSpec, tmp_path: Path) -> None:
    (tmp_path / "toy.md").unlink()
    assert await noted_ids(run) == Noted(frozenset())


async def test_what_cannot_be_read_may_name_any_and_the_plan_says_so(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert not [check for check in (await world.service.plan(request())).checks
                if check.id == "launch-ids"]  # fmt: skip
    (tmp_path / "logbook.md").symlink_to("logbook.md")
    plan = await world.service.plan(request())
    (told,) = (check for check in plan.checks if check.id == "launch-ids")
    assert told.level.value == "warn" and not plan.blocked
    assert "not all earlier launch ids could be read" in told.text
    assert f"{tmp_path}/logbook.md: too many levels" in told.text

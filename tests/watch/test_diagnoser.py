"""Why jobs ended, found out of logs on ssh hosts: by this machine's own sh, in counted trips."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.link import Ask
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, known
from cockpit.model.observed import LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs import remote
from cockpit.text.safe import safe_line
from cockpit.watch.diagnoser import Diagnoser
from cockpit.watch.reports import case_of
from cockpit.watch.runstate import RunState
from cockpit.watch.sweep import Supervisor
from tests.hosts.here import CallsHere
from tests.watch.fakes import failed

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

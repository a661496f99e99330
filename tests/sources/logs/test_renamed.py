"""A log that has lost its name before the first look: its writer has it open all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import LogValue
from cockpit.model.run import JobSpec, RunSpec
from cockpit.rules.jobs.stall import log_started_over
from cockpit.runtime import process
from cockpit.sources.logs import remote
from cockpit.sources.logs.source import Logs
from tests.hosts.here import CallsHere
from tests.rules.making import T0, history, job, run_spec

HOSTS = pytest.mark.parametrize("host", [None, "box"], ids=["here", "on a host"])


@pytest.fixture(autouse=True)
def processes_are_looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "EVERY", 0.0)
    monkeypatch.setattr(process.WRITTEN_FILES, "_until", 0.0)  # a test before may have looked
    monkeypatch.setattr(remote, "RENAMED_EVERY", 0.0)


def looking(path: Path, host: str | None) -> Callable[[], Facet[LogValue]]:
    where = str(path) if host is None else f"ssh://{host}{path}"
    run = RunSpec(name="r", job=JobSpec.model_validate({"kind": "local", "log": where}))
    logs = Logs(SystemClock(), call=CallsHere())
    return lambda: asyncio.run(logs.observe([Query(run=run)]))["r"]


def value_of(facet: Facet[LogValue]) -> LogValue:
    assert facet.value is not None, facet.error
    return facet.value


@HOSTS
@pytest.mark.parametrize("name", ["run.log.1", "run.log-20261128", "run.log.2026-11-28_10", None])
def test_it_is_read_where_its_writer_goes_on(
    tmp_path: Path, host: str | None, name: str | None
) -> None:
    path, look = tmp_path / "run.log", looking(tmp_path / "run.log", host)
    with path.open("w") as writer:
        print("step 1/99 loss 2", file=writer, flush=True)
        path.unlink() if name is None else path.rename(tmp_path / name)
        value = value_of(look())
        assert value.moved_from is not None and value.moved_from.endswith(str(path))
        (alert,) = log_started_over(run_spec(), history(T0, job=job(), log=value))
        if name is None:
            assert "/proc/" in value.path and "cp /proc/" in alert.next_action
            assert alert.title == "The log was deleted under its writer"
        else:
            assert value.path.endswith(str(tmp_path / name))
        print("step 2/99 loss 2", file=writer, flush=True)
        assert [row.step for row in value_of(look()).rows] == [2], "followed on, no row twice"
    path.write_text("step 3/99 loss 2\n")
    value = value_of(look())
    assert (value.moved_from, [row.step for row in value.rows]) == (None, [3])


@HOSTS
def test_what_no_process_writes_and_what_may_be_another_log_is_none(
    tmp_path: Path, host: str | None
) -> None:
    (tmp_path / "run.log.1").write_text("step 1/99 loss 2\n")
    look = looking(tmp_path / "run.log", host)
    with (tmp_path / "run.log.err").open("w"), (tmp_path / "run-2.log").open("w"):
        error = look().error
        assert error is not None and error.kind is ErrorKind.NOT_FOUND
    with (tmp_path / "run.log.2").open("w"), (tmp_path / "run.log.3").open("w"):
        assert look().value is None, "two ranks perhaps"
    with (tmp_path / "run.log").open("w"), (tmp_path / "run.log.2").open("w"):
        assert value_of(look()).moved_from is None, "it is being written, and empty"

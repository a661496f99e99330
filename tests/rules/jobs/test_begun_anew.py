"""C-23 of a log that a restart has truncated: by what a watch saw, and by the lines' own times."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cockpit.model.alert import Alert
from cockpit.model.clock import SystemClock
from cockpit.model.observed import JobValue, LogValue, Row
from cockpit.rules.jobs.stall import log_started_over
from cockpit.sources.logs.source import Logs
from tests.queries import queries_of
from tests.rules.making import T0, folded, history, job, log, run_spec
from tests.sources.logs.test_source import run_of

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 has"


def told(value: LogValue, of: JobValue, *rows: Row) -> list[Alert]:
    past = history(T0 + 200, job=of, log=value)
    return list(log_started_over(run_spec(), past.model_copy(update={"log_trend": folded(rows)})))


def followed(path: Path, first: str, then: str) -> LogValue:
    logs, queries = Logs(SystemClock()), queries_of([run_of(path)])
    path.write_text(first)
    asyncio.run(logs.observe(queries))
    path.write_text(then)
    value = asyncio.run(logs.observe(queries))["r"].value
    assert value is not None
    return value


def test_what_a_watch_saw_of_the_first_end_is_kept(tmp_path: Path) -> None:
    value = followed(tmp_path / "run.log", f"step 40/99 loss 2\n{OOM}\n", "step 1/99 loss 2\n")
    assert value.begun_anew_at == value.mtime
    rows = [*(Row(step, T0 + step, 2.0) for step in range(41)), Row(1, T0 + 100, 2.0)]
    (alert,) = told(value, job(restarts=1), *rows)
    assert (alert.id, alert.key) == ("C-23", "C-23:toy:begun-anew")
    first, second = (each.text for each in alert.evidence)
    assert "had reached step 40" in first
    assert "out of accelerator memory" in second and OOM in second
    assert "--open-mode=append" in alert.next_action


def test_without_a_cause_it_is_lost_and_without_a_restart_nothing_is_said(tmp_path: Path) -> None:
    value = followed(tmp_path / "run.log", "step 40/99 loss 2\n" * 9, "step 1/99 loss 2\n")
    (alert,) = told(value, job(restarts=1))
    assert alert.evidence[1].text == "what ended the former attempt is lost"
    assert told(value, job()) == [], "copied and truncated by a rotation"


@pytest.mark.parametrize(("first_at", "said"), [(T0 + 20, True), (T0 - 900, False)])
def test_a_log_that_is_read_for_the_first_time_tells_by_its_times(
    first_at: float, said: bool
) -> None:
    rows = [Row(step, first_at + step, 2.0) for step in range(5)]
    assert bool(told(log("x"), job(restarts=1), *rows)) is said
    assert told(log("x"), job(), *rows) == []


def test_a_log_that_is_renamed_under_its_writer_is_followed_on(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    logs, queries = Logs(SystemClock()), queries_of([run_of(path)])
    with path.open("w") as writer:
        print("step 1/99 loss 2", file=writer, flush=True)
        asyncio.run(logs.observe(queries))
        path.rename(tmp_path / "run.log.1")
        print("step 2/99 loss 2", file=writer, flush=True)
        value = asyncio.run(logs.observe(queries))["r"].value
        assert value is not None
        assert (value.path, value.moved_from) == (f"{path}.1", str(path))
        assert [row.step for row in value.rows] == [2], "no row is read twice"
        (alert,) = told(value, job())
        assert alert.evidence[0].text == f"{path} was renamed; its writer goes on in {path}.1"
        print("step 3/99 loss 2", file=writer, flush=True)
    path.write_text("step 4/99 loss 2\n")
    value = asyncio.run(logs.observe(queries))["r"].value
    assert value is not None
    assert (value.path, value.moved_from) == (str(path), None)
    assert [row.step for row in value.rows] == [3, 4]

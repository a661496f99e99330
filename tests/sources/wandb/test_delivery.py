"""Rows that a thread reads for a caller who may have left: none is lost, none comes twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from threading import Event

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.curve_fold import RowChunk
from cockpit.sources.run_rows import RunRows
from cockpit.sources.trackers import Trackers
from cockpit.sources.wandb.run_files import read_run
from tests.queries import queries_of
from tests.sources.wandb import writer

T0 = 1_700_000_000.0
LONG = 30.0


class SlowFolder:
    """A folder of one run that lists its file only when ``answer`` is set."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run-abc.wandb"
        rows = [writer.row(step, "2.5", T0 + step) for step in range(5)]
        self.path.write_bytes(writer.log([writer.run("abc", T0), *rows]))
        self.asked, self.answer = Event(), Event()
        self.rows = read_run(WandbSpec(dir=str(folder)))
        self._read = self.rows.more
        self.rows.more = self._more  # type: ignore[method-assign]

    def _more(self) -> RowChunk:
        self.asked.set()
        assert self.answer.wait(LONG)
        return self._read()

    async def steps(self, deadline: float = LONG) -> list[int | None]:
        return [row.step for row in (await self.rows.deliver(deadline)).rows]


async def test_rows_that_came_too_late_are_waiting(tmp_path: Path) -> None:
    slow = SlowFolder(tmp_path)
    waiting = [slow.rows.late]
    caller = asyncio.create_task(slow.steps())
    await asyncio.to_thread(slow.asked.wait, LONG)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    waiting.append(slow.rows.late)
    slow.answer.set()
    assert len(await slow.steps()) == 5
    waiting.append(slow.rows.late)
    slow.rows.rewind()
    assert [*waiting, slow.rows.late] == [False, True, False, True]


async def test_beginning_again_waits_for_no_read_that_hangs(tmp_path: Path) -> None:
    slow = SlowFolder(tmp_path)
    with pytest.raises(TimeoutError):
        await slow.steps(0.01)
    slow.rows.rewind()
    slow.answer.set()
    again = await slow.rows.deliver(LONG)
    assert [row.step for row in again.rows] == [0, 1, 2, 3, 4] and again.restarted
    assert await slow.steps() == []


async def test_rows_that_came_too_late_are_asked_for_though_the_file_has_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, read = Event(), RunRows.more

    def slow(files: RunRows) -> RowChunk:
        chunk = read(files)
        assert answer.wait(LONG)
        return chunk

    monkeypatch.setattr(RunRows, "more", slow)
    SlowFolder(tmp_path)
    run = RunSpec(name="hero", wandb=WandbSpec(id="abc", dir=str(tmp_path)))
    tracker = Trackers(SystemClock())
    await tracker.observe(queries_of([run]))
    with monkeypatch.context() as short:
        short.setattr("cockpit.sources.file_tracker.DEADLINE", 0.5)
        assert (await tracker.more_rows(run)).unread
    answer.set()
    await tracker.observe(queries_of([run]))
    assert tracker.may_have_rows(run)
    assert len((await tracker.more_rows(run)).rows) == 5
    await tracker.observe(queries_of([run]))
    assert not tracker.may_have_rows(run)


@pytest.mark.parametrize("kind", ["wandb", "tensorboard"])
async def test_files_that_cannot_be_read_are_not_all_read(tmp_path: Path, kind: str) -> None:
    run = RunSpec.model_validate({"name": "hero", kind: {"dir": str(tmp_path / "gone")}})
    for _ in range(2):
        chunk = await Trackers(SystemClock()).more_rows(run)
        assert not chunk.caught_up and "gone" in chunk.unread

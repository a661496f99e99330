"""Rows that come by and by: the newest ones are judged while the older ones are on their way."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.observed import Row
from cockpit.model.run import RunSpec
from cockpit.sources.curve_fold import RowChunk, unreadable
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.runstate import Rows
from tests.watch.fakes import FakeTracker, FastClock


class Remote(FakeTracker):
    """A server's run of ``total`` rows, of which a look brings some older and the newest ones."""

    def __init__(self, total: int) -> None:
        super().__init__(FastClock())
        self.all = [Row(step, float(step), 2.5) for step in range(total)]
        self.come: list[Row] = []

    async def more_rows(self, run: RunSpec) -> RowChunk:  # type: ignore[override]
        rows, self.come = tuple(self.come), []
        self.read += len(rows)
        caught_up = self.read == len(self.all)
        later = not caught_up and not rows
        return RowChunk(rows, caught_up, False, self.read / len(self.all), later)

    async def recent(self, run: RunSpec, rows: int = 3000) -> RowChunk:  # type: ignore[override]
        return RowChunk(tuple(self.all[-10:]), True, False, 10 / len(self.all))

    def look(self, older: int, new: Sequence[Row] = ()) -> None:
        self.come += self.all[self.read : self.read + older]
        self.all += new


async def test_the_newest_rows_stand_in_until_the_older_ones_have_come() -> None:
    tracker, rows, run = Remote(100), Rows(), RunSpec(name="r")
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.changed, chunk.caught_up, rows.complete) == (True, True, False)
    assert rows.trend.pace.step == 99 and rows.skipped == 0.9
    tracker.look(50, [Row(100, 100.0, float("nan"))])
    while not (await feed_chunk(tracker, run, rows)).caught_up:
        pass
    assert rows.trend.pace.step == 100, "judged by what is new, though steps 50 to 90 are not here"
    assert rows.full.pace.step == 49 and rows.skipped > 0.8
    assert not (await feed_chunk(tracker, run, rows)).changed
    tracker.look(51)
    while not (await feed_chunk(tracker, run, rows)).caught_up:
        pass
    assert rows.complete and rows.skipped == 0.0 and rows.trend.pace.step == 100


class Gone(Remote):
    """A folder that does not answer any more."""

    async def more_rows(self, run: RunSpec) -> RowChunk:  # type: ignore[override]
        return unreadable("no answer")


async def test_files_that_cannot_be_read_are_not_asked_at_once_again_nor_taken_as_whole() -> None:
    tracker, rows, run = Gone(1), Rows(), RunSpec(name="r")
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.caught_up, rows.complete, rows.tried) == (True, False, True)
    whole = Remote(3)
    whole.look(3)
    while not (await feed_chunk(whole, run, rows)).caught_up:
        pass
    chunk = await feed_chunk(tracker, run, rows)
    assert (chunk.changed, chunk.caught_up, rows.trend.pace.step) == (False, True, 2)

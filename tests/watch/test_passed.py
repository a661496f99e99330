"""What comes and goes between two reports."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.acts import AgentAct, Stage
from cockpit.model.alert import Acknowledgement, ClosedAlert, RowSpan
from cockpit.model.facet import known
from cockpit.model.observed import LogValue, Phase, Row
from cockpit.model.report import FACETS, RunReport, Verdict
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.store import Store
from cockpit.watch.fleet import Fleet, share
from cockpit.watch.judge import Judge
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.reports import events
from cockpit.watch.runstate import Rows
from cockpit.watch.store_writer import StoreWriter
from cockpit.watch.sweep import Listeners, Supervisor
from tests.watch.fakes import START, FastClock, World, tracker_value
from tests.widgets import reports as made

CADENCE = 900.0


class Still(FastClock):
    """Time that a test moves on."""

    at = 0.0

    def monotonic(self) -> float:
        return self.at

    def now(self) -> float:
        return START + self.at

    async def sleep(self, seconds: float) -> None:
        await asyncio.get_running_loop().create_future()  # only a test's look moves it on


class Hand:
    """A run whose looks are taken by hand; another one on the same store is a restart."""

    def __init__(self, folder: Path, rows: list[Row], *, in_log: bool = False) -> None:
        self.clock = Still()
        self.world = World("r", cadence=CADENCE, clock=self.clock)
        self.rows, self.in_log, self.told = rows, in_log, 0
        self.store = Store(folder / "store.sqlite")
        self.writer = StoreWriter(self.store, None, self.clock)
        self.fleet = Fleet(self.world.file)
        self.state = self.fleet.states["r"]
        news: Listeners[RunReport] = Listeners()
        self.judge = Judge(
            self.fleet, self.writer, news, Supervisor(self.clock, folder / "crashes"), self.clock
        )

    async def look(self, at: float) -> None:
        """Look at ``at`` (s after the start): all rows that were logged until then are there."""
        await self.fleet.recall(self.writer, self.clock.now())
        self.clock.at = at
        now = self.clock.now()
        here = [row for row in self.rows if (row.at or 0.0) <= now]
        if not self.in_log:
            self.world.tracker.rows = here
            tracker: Any = self.world.tracker
            await feed_chunk(tracker, self.state.spec, self.state.rows)
        step = None if self.in_log or not here else here[-1].step
        value = tracker_value(now, step=step)
        new, self.told = tuple(here[self.told :]) if self.in_log else (), len(here)
        log = LogValue(path="/x/log", size=9, mtime=now, last_line_at=now, rows=new)
        for name in FACETS:
            self.state.take(name, (await self.world.fakes[name].observe([self.state.spec]))["r"])
        self.state.take("tracker", known(value, "fake", now))
        self.state.take("log", known(log, "fake", now))
        await self.judge.judge(["r"])
        await self.writer.flush()
        for news in (await self.writer.news([self.state.key], now)).values():
            share(self.state, news)

    def kept(self) -> list[Kept]:
        return list(Alerts(self.store).all(self.state.key))

    def events(self) -> list[tuple[str, int | None, int | None]]:
        spans = [(kept.alert, kept.alert.span) for kept in self.kept()]
        return [
            (alert.id, span.opened_step, span.closed_step)
            for alert, span in spans if span is not None
        ]  # fmt: skip


def rows_of(losses: Iterable[float], first: int = 0, begin: float = 0.0) -> list[Row]:
    return [
        Row(first + at, START + begin + 10.0 * at, loss) for at, loss in enumerate(losses)
    ]  # fmt: skip


SPIKES = rows_of(
    [2.0] * 50 + [4.0] * 20 + [2.0] * 200 + [4.0] * 20 + [2.0] * 40 + [math.nan] + [2.0] * 200
)
EVENTS = [("C-11", 59, 79), ("C-11", 279, 299), ("C-09", 330, 430)]


@pytest.mark.parametrize("every", [10.0, 130.0, CADENCE, 6000.0])
async def test_whatever_the_polling_the_events_are_the_same(tmp_path: Path, every: float) -> None:
    hand = Hand(tmp_path, SPIKES if every > 10 else SPIKES[:120])
    for look in range(1, 2 + int(10.0 * len(hand.rows) / every)):
        await hand.look(every * look)
    assert hand.events() == (EVENTS if every > 10 else EVENTS[:1])
    assert all(kept.closed_at is not None for kept in hand.kept())


async def test_what_nobody_saw_is_closed_when_its_rows_say_and_unseen(tmp_path: Path) -> None:
    hand = Hand(tmp_path, SPIKES[:200])
    await hand.look(400.0)
    await hand.look(1999.0)
    (kept,) = hand.kept()
    assert kept.passed and not kept.seen and kept.number
    assert (kept.opened_at, kept.closed_at) == (START + 590.0, START + 790.0)
    assert "step 59 to 79" in kept.alert.evidence[-1].text
    (gone,) = hand.state.closed_alerts()
    assert not gone.seen and hand.state.report is not None and hand.state.report.closed == (gone,)


async def test_a_restart_and_rows_read_again_tell_nothing_twice(tmp_path: Path) -> None:
    for _ in range(2):
        hand = Hand(tmp_path, SPIKES)
        await hand.look(400.0)
        await hand.look(5500.0)
        assert hand.events() == EVENTS
    hand.world.tracker.read = 0
    hand.state.rows = Rows()
    await hand.look(5600.0)
    assert hand.events() == EVENTS


async def test_one_that_was_seen_open_is_ended_by_its_rows_and_not_told_again(
    tmp_path: Path,
) -> None:
    hand = Hand(tmp_path, SPIKES[:200])
    await hand.look(650.0)
    assert "C-11:r" in hand.state.open
    await hand.look(1999.0)
    (kept,) = hand.kept()
    assert not kept.passed and hand.events() == EVENTS[:1] and kept.closed_at == START + 1999.0
    again = Hand(tmp_path, SPIKES[:200])
    await again.look(1999.0)
    assert again.events() == EVENTS[:1]


async def test_one_that_ended_and_opened_anew_between_two_looks_is_two(tmp_path: Path) -> None:
    hand = Hand(tmp_path, SPIKES[:290])
    await hand.look(650.0)
    first = hand.state.open["C-11:r"]
    await hand.look(2895.0)
    assert [kept.closed_at is None for kept in hand.kept()] == [False, True]
    assert hand.state.open["C-11:r"].opened_at > first.opened_at
    assert hand.events() == [("C-11", 59, 79), ("C-11", 279, None)]


async def test_what_has_returned_since_stays_open_when_a_restart_reads_its_rows_again(
    tmp_path: Path,
) -> None:
    """It was seen to close 40 s late, so within a cadence it was the same; its rows say more."""
    rows = rows_of([2.0] * 280 + [math.nan] + [2.0] * 220 + [math.nan] + [2.0] * 30)
    hand = Hand(tmp_path, rows)
    for at in (2850.0, 4350.0, 5050.0):
        await hand.look(at)
    before = hand.state.open["C-09:r"]
    again = Hand(tmp_path, rows)
    await again.look(5055.0)
    after = again.state.open["C-09:r"]
    assert (after.number, after.opened_at) == (before.number, before.opened_at)
    assert len(again.kept()) == 1


async def test_what_returns_within_a_cadence_is_one(tmp_path: Path) -> None:
    rows = rows_of([2.0] * 50 + [4.0] * 20 + [2.0] * 40 + [4.0] * 20 + [2.0] * 60)
    for every in (1899.0, 850.0):
        (tmp_path / str(every)).mkdir()
        hand = Hand(tmp_path / str(every), rows)
        for look in range(1, 4):
            await hand.look(every * look)
        assert len(hand.kept()) == 1


async def test_rows_of_a_log_count_where_there_are_no_others(tmp_path: Path) -> None:
    for _ in range(2):
        hand = Hand(tmp_path, SPIKES[:200], in_log=True)
        await hand.look(400.0)
        await hand.look(1999.0)
        assert hand.events() == EVENTS[:1]


async def test_a_log_without_times_is_told_by_its_steps_once(tmp_path: Path) -> None:
    """Each row is of the moment of the look, whenever that is."""
    for at in (1999.0, 2999.0):
        rows = [row._replace(at=START + at) for row in SPIKES[:200]]
        hand = Hand(tmp_path, rows, in_log=True)
        await hand.look(at)
        (kept,) = hand.kept()
        assert kept.alert.span is not None and kept.alert.span.opened_at is None
        assert kept.alert.evidence[-1].text.endswith("its rows have no time")


async def test_steps_that_a_resume_replays_are_an_event_of_their_own_known_as_replayed(
    tmp_path: Path,
) -> None:
    spike = [2.0] * 20 + [4.0] * 20 + [2.0] * 60
    rows = [*rows_of([2.0] * 30 + spike), *rows_of(spike, first=30, begin=2500.0)]
    hand = Hand(tmp_path, rows)
    await hand.look(400.0)
    await hand.look(4000.0)
    first, again = hand.kept()
    assert [kept.alert.key for kept in (first, again)] == ["C-11:r", "C-11:r"]
    assert again.replays(first) and not first.replays(again) and not again.is_same(first, CADENCE)
    await Hand(tmp_path, rows).look(4000.0)
    assert hand.events() == [("C-11", 59, 79), ("C-11", 59, 79)]


def told(old: RunReport | None, new: RunReport) -> list[tuple[Any, ...]]:
    found = list(events(old, new))
    assert all(each["schema"] == 1 and each["run"] == new.name and each["at"] for each in found)
    known = ("schema", "run", "at", "title")
    return [tuple(value for key, value in each.items() if key not in known) for each in found]


def test_everything_is_new_at_first_and_then_nothing() -> None:
    report = made.report(alerts=(made.alert("C-05"),))
    first = told(None, report)
    assert [each[0] for each in first] == ["verdict", "job", "opened"]
    assert told(report, report) == []


def test_each_change_is_one_event() -> None:
    old = made.report(alerts=(made.alert("C-05"), made.alert("C-07")))
    taken = made.alert("C-07").model_copy(
        update={"acknowledged": Acknowledgement(by="ada", at=made.NOW)}
    )
    act = AgentAct(
        number=1, run="run-a", agent="agent:x", action="relaunch", plan_id="0", at=made.NOW,
        stage=Stage.WAITING, changed_at=made.NOW, until=made.NOW + 60,
    )  # fmt: skip
    job = made.job(Phase.FAILED)
    assert job.value is not None
    new = made.report(
        verdict=Verdict.CRITICAL, alerts=(taken, made.alert("C-01")), agents=(act,),
        seen=made.facets(job=job),
    )  # fmt: skip
    assert told(old, new) == [
        ("verdict", "healthy", "critical"),
        ("job", "failed", job.value.id, job.value.reason),
        ("opened", "C-01", "C-01", "alert"),
        ("closed", "C-05", "C-05", "alert"),
        ("acknowledged", "C-07", "C-07", "alert", "ada"),
        ("agent", "agent:x", "relaunch", "waiting", "2026-03-11T08:53:58.000Z"),
    ]
    begun = new.model_copy(update={"agents": (act.model_copy(update={"stage": Stage.BEGUN}),)})
    assert [each[3] for each in told(new, begun)] == ["begun"]
    vetoed = act.model_copy(update={"stage": Stage.VETOED, "by": "ada"})
    (last,) = told(new, new.model_copy(update={"agents": (vetoed,)}))
    assert last[1:] == ("agent:x", "relaunch", "vetoed", "2026-03-11T08:53:58.000Z", "ada")


def test_what_came_and_went_between_two_looks_is_told_once() -> None:
    """A NaN that was over at the next look would else leave no trace with whoever listens."""
    span = RowSpan(opened_step=10, closed_step=12, passed=True)
    spike = made.alert("C-11").model_copy(update={"span": span})
    seen_open = made.alert("C-10").model_copy(
        update={"span": span.model_copy(update={"passed": False})}
    )
    over = tuple(
        ClosedAlert(alert=each, closed_at=made.NOW, seen=False) for each in (spike, seen_open)
    )
    old, new = made.report(), made.report(closed=over)
    assert [each[:2] for each in told(old, new)] == [("opened", "C-11"), ("closed", "C-11")]
    assert told(new, new) == []
    assert "opened" not in [each[0] for each in told(None, new)], "what is over is no news then"

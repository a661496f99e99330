"""The past of a run, and its log at a moment.

What comes and goes between two reports.
"""

from __future__ import annotations

import asyncio
import math
import os
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.acts import AgentAct, Stage
from cockpit.model.alert import Acknowledgement, Alert, ClosedAlert, RowSpan
from cockpit.model.facet import known
from cockpit.model.history import CheckpointMark, Kind, PhaseMark, Sign, Then, Timeline
from cockpit.model.observed import LogValue, Phase, Row
from cockpit.model.place import place_of
from cockpit.model.report import FACETS, RunReport, Verdict
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.model.shared_facts import SharedFact
from cockpit.sources.logs.file import LogFile
from cockpit.sources.logs.pieces import LocalLog
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import Journal
from cockpit.store.memory import LaunchedJob, Observation, Pasts, RunMemory
from cockpit.store.store import Store, run_key
from cockpit.watch.fleet import Fleet, share
from cockpit.watch.judge import CHECKPOINTS, LINES, POINTS, Judge, face_of, slim
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.past import CHANGED, PastReading, log_then, past_at, timeline
from cockpit.watch.reports import events
from cockpit.watch.runstate import Rows
from cockpit.watch.store_writer import StoreWriter
from cockpit.watch.sweep import Listeners, Supervisor
from tests.screens.acting.stand_in_service import entry
from tests.watch.fakes import START, FastClock, World, failed, run_spec, tracker_value, until
from tests.watch.test_engine import run_of, watching
from tests.widgets import reports as made

KEY, RUN, NOW = "/x#r", run_spec("r", cadence=600.0), made.NOW


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def report(at: float, **changes: Any) -> RunReport:
    return made.report("r", checked_at=at, spec=RUN, **changes)


def keep(store: Store, found: RunReport) -> None:
    assert Pasts(store).keep(KEY, slim(found), face_of(found), 600.0)


def opened(store: Store, alert: Alert, at: float, closed_at: float | None = None) -> None:
    Alerts(store).save(KEY, [Kept(alert=alert, opened_at=at, closed_at=closed_at)])


def test_what_is_kept_is_bounded_and_has_the_whole_curve() -> None:
    items = tuple(made.checkpoint(step) for step in range(3000))
    long = report(
        NOW,
        facets=made.facets(
            tracker=made.tracker(columns=made.columns(4000, bad=(3999,))),
            checkpoints=made.checkpoints(*items),
        ),
    )
    kept = slim(long).facets
    assert kept.tracker.value is not None and kept.checkpoints.value is not None
    steps = [step for step, _ in kept.tracker.value.history]
    assert POINTS // 2 - 1 <= len(steps) <= POINTS and steps == sorted(steps)
    assert (steps[0], steps[-1]) == (made.columns(1)[0].last, made.columns(4000)[-1].last)
    assert [each.step for each in kept.checkpoints.value.items] == list(
        range(3000 - CHECKPOINTS, 3000)
    )


def test_a_moment_is_shown_as_it_was_whatever_came_later(store: Store) -> None:
    keep(store, report(NOW, verdict=Verdict.HEALTHY))
    keep(store, report(NOW + 900, verdict=Verdict.CRITICAL, alerts=(made.alert(),)))
    found = past_at(store, KEY, RUN, NOW + 899)
    assert found.report is not None and found.watched
    assert (found.recorded_at, found.lacks) == (NOW, ())
    assert (found.report.verdict, found.report.alerts) == (Verdict.HEALTHY, ())
    assert found.report.checked_at == NOW
    later = past_at(store, KEY, RUN, NOW + 900)
    assert later.report is not None and later.report.verdict is Verdict.CRITICAL
    document = found.document()
    assert document["report"]["verdict"] == "healthy" and document["lacks"] == []


def test_a_later_look_of_few_figures_is_told_beside_the_whole_moment(store: Store) -> None:
    keep(store, report(NOW))
    look = Observation(at=NOW + 600, verdict=Verdict.HEALTHY, step=4711, loss=2.5)
    RunMemory(store).observe(KEY, look, every=600)
    found = past_at(store, KEY, RUN, NOW + 1200)
    assert found.watched and found.recorded_at == NOW
    assert "step 4,711, loss 2.5" in found.lacks[0]


def test_of_a_moment_that_nobody_watched_no_verdict_is_told(store: Store) -> None:
    keep(store, report(NOW, verdict=Verdict.HEALTHY))
    found = past_at(store, KEY, RUN, NOW + 6 * 3600)
    assert found.report is not None and not found.watched
    assert found.report.verdict is Verdict.UNKNOWN
    assert found.report.verdict_reason == "no cockpit was looking: the last look was 6h 00m before"
    assert found.report.facets.job.remembered and found.report.progress.eta_s is None


def test_from_before_whole_moments_were_kept_only_the_figures_are_known(store: Store) -> None:
    memory = RunMemory(store)
    memory.observe(KEY, Observation(at=NOW, verdict=Verdict.CRITICAL, step=70, loss=2.5), every=1.0)
    memory.add_phases(KEY, [PhaseMark(at=NOW - 60, phase=Phase.FAILED, job_id="7")])
    memory.add_phases(KEY, [PhaseMark(at=NOW + 60, phase=Phase.RUNNING, job_id="8")])
    opened(store, made.alert("C-01"), NOW - 60)
    opened(store, made.alert("C-05"), NOW - 90, NOW - 30)
    opened(store, made.alert("C-07"), NOW + 30)
    Alerts(store).acknowledge(KEY, made.alert("C-01").key, Acknowledgement(by="bo", at=NOW + 60))
    found = past_at(store, KEY, RUN, NOW + 5)
    assert found.report is not None and found.recorded_at is None and found.watched
    assert "too old, or older than" in found.lacks[0]
    known = found.report
    assert (known.verdict, known.progress.text) == (Verdict.CRITICAL, "~70/1000")
    assert [each.id for each in known.alerts] == ["C-01"]
    assert known.alerts[0].acknowledged is None, "it was taken later"
    assert known.alerts[0].evidence[0].text == "its evidence is not kept for this moment"
    job, log = known.facets.job.value, known.facets.monitor
    assert job is not None and (job.id, job.phase) == ("7", Phase.FAILED)
    assert known.facets.tracker.value is not None and known.facets.tracker.value.loss == 2.5
    assert not log.configured
    assert past_at(store, KEY, RUN, NOW + 61).report.alerts[0].acknowledged is not None  # type: ignore[union-attr]


def test_of_a_moment_before_all_that_is_kept_nothing_is_known(store: Store) -> None:
    assert past_at(store, KEY, RUN, NOW).lacks == ("no cockpit has looked at it yet: nothing kept",)
    RunMemory(store).observe(KEY, Observation(at=NOW, verdict=Verdict.HEALTHY), every=1.0)
    found = past_at(store, KEY, RUN, NOW - 1)
    assert found.report is None and "nothing is kept from before" in found.lacks[0]


def everything(store: Store, tmp_path: Path) -> Timeline:
    book = tmp_path / "book.md"
    book.write_text(
        "# R: Hero Run Logbook\n## Event Log\n### 2026-03-11 08:00 UTC - throughput \x1b[2Jdrop\n"
        "- Status: bad\n### no date\n"
    )
    opened(store, made.alert("C-01"), NOW - 60)
    span = RowSpan(opened_step=12_009, opened_at=NOW - 900, closed_step=12_239, closed_at=NOW - 30)
    gone = made.alert("C-05").model_copy(update={"span": span})
    opened(store, gone, NOW - 900, NOW - 30)
    Alerts(store).acknowledge(KEY, made.alert("C-01").key, Acknowledgement(by="bo", at=NOW - 5))
    memory = RunMemory(store)
    memory.add_phases(KEY, [PhaseMark(at=NOW - 1900, phase=Phase.RUNNING, job_id="8")])
    memory.add_checkpoint_marks(KEY, [CheckpointMark(at=NOW - 4000, complete=1, newest=7)])
    done = entry("r", operator="ada")
    begun = Journal(store).begin(
        KEY, done.plan, "ada", done.holder, NOW - 2100, exclusive=False, launch_id="r-i002"
    )
    memory.add_launch(KEY, LaunchedJob(at=NOW - 2000, job_id="8", launch_id="r-i002"))
    told = SharedFact(what="owner", value="bo", at=NOW - 100, typed_by="ada", source="logbook")
    again = SharedFact(
        what="launched", value="r", at=begun.begun_at, typed_by="ada", source="logbook"
    )
    records = made.facets().records.model_copy(update={"error": None})
    value = {"logbook": str(book), "told": (told, again)}
    facet = type(records).model_validate({"source": "x", "observed_at": NOW, "value": value})
    now = report(
        NOW, facets=made.facets(records=facet, checkpoints=made.checkpoints(made.checkpoint(400)))
    )
    run = RUN.model_copy(update={"records": RecordsSpec(logbook=str(book))})
    return timeline(store, KEY, run, now, NOW)


def test_a_condition_whose_rows_have_no_step_is_in_the_timeline(store: Store) -> None:
    gone = made.alert("C-05").model_copy(update={"span": RowSpan(opened_at=NOW - 900)})
    opened(store, gone, NOW - 900, NOW - 30)
    found = timeline(store, KEY, RUN, report(NOW), NOW)
    (closed,) = [each for each in found.happenings if each.text.startswith("Closed")]
    assert closed.note == "steps unknown to unknown, nobody had looked"


def test_the_timeline_has_everything_once_newest_first(store: Store, tmp_path: Path) -> None:
    found = everything(store, tmp_path)
    times = [each.at for each in found.happenings]
    assert times == sorted(times, reverse=True) and found.lacks == ()
    assert {each.kind for each in found.happenings} == set(Kind)
    words = "\n".join(f"{each.text} | {each.note}" for each in found.happenings)
    for said in (
        "Acknowledged: ", "by bo", "Closed unseen after ",
        "steps 12,009 to 12,239, nobody had looked",
        "Launched r-i002: job 8", "Job 8 running", "Checkpoint 7 complete | deleted since",
        "Checkpoint 400 saved", "relaunch by ada: ", "handed over to bo | typed by ada",
        "throughput", "drop",
    ):  # fmt: skip
        assert said in words, said
    assert "\x1b" not in words and words.count("relaunch") == 1 and "no date" not in words
    alerts = found.of_kind(Kind.ALERT)
    assert [each.sign for each in alerts if each.code == "C-05"] == [Sign.ATTENTION] * 2
    assert set(found.times) == set(times)


def test_checkpoints_deleted_since_are_one_row_where_nothing_came_between(store: Store) -> None:
    memory = RunMemory(store)
    times = {7: 4000.0, 8: 3000.0, 9: 2500.0, 10: 1000.0}
    marks = [CheckpointMark(at=NOW - ago, complete=1, newest=at) for at, ago in times.items()]
    memory.add_checkpoint_marks(KEY, marks)
    memory.add_phases(KEY, [PhaseMark(at=NOW - 2000, phase=Phase.RUNNING, job_id="8")])
    there = made.facets(checkpoints=made.checkpoints(made.checkpoint(400)))
    told = timeline(store, KEY, RUN, report(NOW, facets=there), NOW).happenings
    found = [each for each in told if "400" not in each.text]
    assert [(each.text, each.note, NOW - each.at) for each in found] == [
        ("Checkpoint 10 complete", "deleted since", 1000.0),
        ("Job 8 running", "", 2000.0),
        ("3 checkpoints, 7 to 9", "deleted since", 2500.0),
    ]


def test_phases_that_began_at_one_instant_stand_as_they_were_seen(store: Store) -> None:
    seen = ((Phase.WAITING, NOW - 50), (Phase.RUNNING, NOW - 49), (Phase.FAILED, NOW - 48))
    marks = [PhaseMark(at=at, phase=phase, job_id="8", since=NOW - 60) for phase, at in seen]
    RunMemory(store).add_phases(KEY, marks)
    found = [each.text for each in timeline(store, KEY, RUN, None, NOW).happenings]
    assert found == ["Job 8 failed", "Job 8 running", "Job 8 waiting"]


def test_a_logbook_that_cannot_be_read_is_said(store: Store, tmp_path: Path) -> None:
    run = RUN.model_copy(update={"records": RecordsSpec(logbook=str(tmp_path / "none.md"))})
    assert timeline(store, KEY, run, None, NOW).lacks[0].endswith("no such file or directory")
    assert timeline(None, KEY, RUN, None, NOW).lacks[0].startswith("no store")


def test_a_store_that_cannot_be_read_leaves_what_else_is_known(
    store: Store, tmp_path: Path
) -> None:
    book = tmp_path / "book.md"
    book.write_text("## Event Log\n### 2026-03-11 08:00 UTC - node drained\n- Status: bad\n")
    run = RUN.model_copy(update={"records": RecordsSpec(logbook=str(book))})
    over = ClosedAlert(alert=made.alert(), closed_at=NOW - 60, seen=False)
    there = made.facets(checkpoints=made.checkpoints(made.checkpoint(400)))
    now = report(NOW, facets=there, closed=(over,))
    before = timeline(store, KEY, run, now, NOW)
    with closing(sqlite3.connect(store.path, isolation_level=None)) as other:
        other.execute("DROP TABLE phases")
    after = timeline(store, KEY, run, now, NOW)
    words = "\n".join(each.text for each in after.happenings)
    for said in ("Checkpoint 400 saved", "Closed unseen after ", "node drained"):
        assert said in words, said
    assert before.lacks == ()
    assert after.lacks[-1].startswith("older alerts, jobs and actions are unknown: ")
    assert str(store.path) in after.lacks[-1]


async def test_an_engine_keeps_what_changes_and_tells_it_again(store: Store) -> None:
    world = World(cadence=3600.0)
    async with watching(world, store) as engine:
        await until(lambda: run_of(engine).verdict is Verdict.HEALTHY)
        world.fakes["job"].value = failed(world.clock.now())
        await engine.poke("r", "job")
        await until(lambda: run_of(engine).verdict is Verdict.CRITICAL)
        key = run_key(world.file.path, "r")
        await until(lambda: len(Pasts(Store(store.path)).moments(key)) >= 2)
        found = await engine.pasts.timeline("r")
        verdicts = [each.verdict for each in found.moments]
        assert verdicts[0] is Verdict.HEALTHY and verdicts[-1] is Verdict.CRITICAL
        past = await engine.pasts.then("r", found.moments[0].at)
        assert past.report is not None and past.report.verdict is Verdict.HEALTHY
        with pytest.raises(ValueError, match="no run 'other'"):
            await engine.pasts.then("other", 0.0)
    with pytest.raises(OSError, match="no store"):
        fleet = engine._fleet
        await PastReading(None, fleet, world.clock).then("r", 0.0)


END = 1 << 62
LINE = len("line 000000 of the log\n")
BEGIN = datetime(2026, 3, 11, 3, 0, tzinfo=UTC).timestamp()


def run_on(path: Path) -> RunSpec:
    spec = run_spec("r", cadence=600.0)
    assert spec.job is not None
    return spec.model_copy(update={"job": spec.job.model_copy(update={"log": place_of(str(path))})})


def kept(tmp_path: Path, path: Path) -> Then:
    """Keep the run as it is, through the store, and return the moment."""
    found, store = run_on(path), Store(tmp_path / "store.sqlite")
    tail = LogFile(LocalLog(str(path))).tail(LINES + 5)
    size = path.stat().st_size
    log = made.log(path=str(path), size=size)
    assert log.value is not None
    value = log.value.model_copy(update={"lines": tail.lines, "offsets": tail.offsets})
    log = log.model_copy(update={"value": value})
    report = made.report("r", checked_at=BEGIN, spec=found, seen=made.facets(log=log))
    assert Pasts(store).keep("/x#r", slim(report), face_of(report), 600.0)
    return past_at(store, "/x#r", found, BEGIN + 60)


def lines(count: int, first: int = 0) -> str:
    return "".join(f"line {n:06d} of the log\n" for n in range(first, first + count))


def test_it_ends_where_it_ended_then_and_is_read_in_pages(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(2000))
    found = kept(tmp_path, path)
    with path.open("a") as file:
        file.write(lines(3000, 2000))
    page, told = log_then(run_on(path), found, END, True)
    assert page.lines[-1].plain == "line 001999 of the log" and len(page.lines) == 600
    assert (page.end, page.size) == (2000 * LINE, 2000 * LINE)
    assert told == "from its file, up to 2026-03-11 03:00:00Z"
    former, _ = log_then(run_on(path), found, page.start, True)
    assert former.end == page.start and former.lines[-1].plain == "line 001399 of the log"
    last, _ = log_then(run_on(path), found, 1995 * LINE, False)
    assert [each.plain[5:11] for each in last.lines] == [f"00{n}" for n in range(1995, 2000)]
    assert last.end == last.size == 2000 * LINE


def test_a_line_that_was_being_written_is_left_out_and_the_rest_still_vouches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(100) + "half of a")
    found = kept(tmp_path, path)
    with path.open("a") as file:
        file.write(" line\nlater\n")
    page, _ = log_then(run_on(path), found, END, True)
    assert page.lines[-1].plain == "line 000099 of the log" and page.size == 100 * LINE


@pytest.mark.parametrize(
    "text",
    [lines(1500), lines(4000, 7), lines(1999) + "line 001999 of a log!!\n" + lines(10), ""],
    ids=["truncated", "another", "edited", "empty"],
)
def test_another_text_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(2000))
    found = kept(tmp_path, path)
    path.write_text(text)
    with pytest.raises(OSError, match=CHANGED):
        log_then(run_on(path), found, END, True)
    path.unlink()
    with pytest.raises(OSError, match="No such file"):
        log_then(run_on(path), found, END, True)


def stamped(count: int) -> str:
    stamps = (datetime.fromtimestamp(BEGIN + 60 * n, UTC) for n in range(count))
    return "".join(f"{each:%Y-%m-%d %H:%M:%S} UTC step {n}\n" for n, each in enumerate(stamps))


@pytest.mark.parametrize("minutes", [0, 1, 30.5, 59, 90])
def test_where_no_line_is_kept_the_times_of_the_lines_tell(tmp_path: Path, minutes: float) -> None:
    path, at = tmp_path / "run.log", BEGIN + 60 * minutes
    path.write_text(stamped(60))
    page, told = log_then(run_on(path), Then(run="r", at=at), END, True)
    assert page.lines[-1].plain.endswith(f"step {min(59, round(minutes - 0.1))}")
    assert "by its lines' own times" in told and page.end == page.size


def test_every_line_of_the_last_moment_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    first = stamped(3).splitlines(keepends=True)
    burst = "".join(f"{first[1].rstrip()} part {n}\n" for n in range(5000))
    path.write_text(first[0] + burst + "  without a time\n" + first[2])
    for at in (BEGIN + 60, BEGIN + 75):
        page, _ = log_then(run_on(path), Then(run="r", at=at), END, True)
        assert page.lines[-1].plain.endswith("part 4999")


def test_a_moment_of_too_many_lines_is_not_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text((stamped(1).rstrip() + " x" * 500 + "\n") * 5000 + stamped(9))
    with pytest.raises(OSError, match="too many lines"):
        log_then(run_on(path), Then(run="r", at=BEGIN), END, True)


def test_a_time_of_day_is_that_of_no_day(tmp_path: Path) -> None:
    """Three days of it, read by the file's time, would all be of the last one."""
    path = tmp_path / "run.log"
    hours = (datetime.fromtimestamp(BEGIN + 3600 * n, UTC) for n in range(72))
    path.write_text("".join(f"[{each:%H:%M:%S}] step {n}\n" for n, each in enumerate(hours)))
    os.utime(path, (BEGIN + 3600 * 72, BEGIN + 3600 * 72))
    with pytest.raises(OSError, match="timestamp with a date"):
        log_then(run_on(path), Then(run="r", at=BEGIN + 3600 * 30), END, True)


def test_what_no_time_tells_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(lines(100))
    with pytest.raises(OSError, match="no timestamp"):
        log_then(run_on(path), Then(run="r", at=BEGIN), END, True)
    path.write_text(stamped(60))
    with pytest.raises(OSError, match="begins later"):
        log_then(run_on(path), Then(run="r", at=BEGIN - 3600), END, True)


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

"""One tracker out of a run's files and its server: the newer step is believed, and says so.

Rows that a thread reads for a caller who may have left: none is lost, none comes twice.

Whatever the steps and however the server answers: every row once, in order, newest first.

What a file tells at once: its newest rows and a sample, without reading it whole.

A query's text and what recorded answers mean, without any server.

The key and the server are found where the client finds them, and no key is ever shown.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cockpit.model.clock import FixedClock, SystemClock
from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import DEFAULT, FORMER, HERE
from cockpit.model.run import MetricNames, RunSpec, WandbSpec
from cockpit.runtime.http import Answer, HttpError
from cockpit.sources.curve_fold import RowChunk
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.metric_keys import MetricKeys, choose
from cockpit.sources.run_rows import RunRows
from cockpit.sources.trackers import Trackers
from cockpit.sources.wandb import fragment as tail
from cockpit.sources.wandb.decode import KeyLayout, RowReader
from cockpit.sources.wandb.file import WandbLog
from cockpit.sources.wandb.online import Wandb, places
from cockpit.sources.wandb.online_rows import Ledger, Page, Raw
from cockpit.sources.wandb.online_rows import wandb_step as step_of
from cockpit.sources.wandb.online_run import Came, ServerRows
from cockpit.sources.wandb.run_files import read_run
from cockpit.sources.wandb.server import Document, Key, key_for, pause_of, project_of, server_for
from tests.queries import queries_of
from tests.records.issue_services import SkipClock
from tests.sources.wandb import writer

URL = "http://127.0.0.1:9/acme/hero/runs/abc"
PLACE = "http://127.0.0.1:9/acme/hero"
T0 = 1_768_032_000.0
BOTH = RunSpec(name="r", wandb=WandbSpec(dir="/x/wandb", url=URL))


class Part:
    """One of the two: it says what it is told to, and gives out rows of its own."""

    def __init__(self, step: int) -> None:
        self.said: Facet[TrackerValue] | None = None
        self.step = step
        self.rewound = 0

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> Mapping[str, Facet[TrackerValue]]:
        assert self.said is not None
        return {query.name: self.said for query in queries}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        return RowChunk((Row(self.step, T0),), True, bool(self.rewound), 1.0)

    recent = more_rows

    def may_have_rows(self, run: RunSpec) -> bool:
        return self.step == 2

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> Mapping[str, Facet[TrackerValue]]:
        return answers

    def rewind(self, run: str) -> None:
        self.rewound += 1


class Joined:
    def __init__(self) -> None:
        self.files, self.server = Part(1), Part(2)
        parts: Any = (self.files, self.server)
        self.wandb = Wandb(SkipClock(), *parts)

    async def facet(
        self, files: Facet[TrackerValue] | None, server: Facet[TrackerValue] | None
    ) -> Facet[TrackerValue]:
        """Return the run's facet after these answers (``None``: that place has not answered)."""
        self.files.said, self.server.said = files, server
        found = {}
        for place, said in ((HERE, files), (PLACE, server)):
            if said is not None:
                answers = await self.wandb.observe(queries_of([BOTH]), place)
                found = self.wandb.join(place, answers)
        return found["r"]

    async def rows(self) -> tuple[int | None, bool]:
        chunk = await self.wandb.more_rows(BOTH)
        return chunk.rows[0].step, chunk.restarted


def here(at: float, state: str = "running", **more: Any) -> Facet[TrackerValue]:
    value = TrackerValue(
        id="abc", name="written", state=state, step=5, last_step_at=at, file_mtime=at,
        last_record_at=at, files=("/x/f",), fragments=("f",), **more,
    )  # fmt: skip
    return known(value, "W&B files in /x/wandb", T0)


def there(at: float, state: str = "running") -> Facet[TrackerValue]:
    value = TrackerValue(
        id="abc", name="renamed", entity="acme", project="hero", state=state, step=4,
        last_step_at=at, heartbeat_at=T0,
    )  # fmt: skip
    return known(value, "W&B at w.example", T0)


def failed(kind: ErrorKind, text: str) -> Facet[TrackerValue]:
    return unknown(kind, text, "it", T0)


async def test_files_of_a_run_on_its_box_are_asked_for_there_and_joined() -> None:
    wandb = WandbSpec(dir="ssh://gpu-7/x/wandb", url=URL)
    run = BOTH.model_copy(update={"wandb": wandb})
    joined = Joined()
    assert places(run) == ("gpu-7", PLACE)
    found = {}
    joined.files.said, joined.server.said = here(T0), there(T0 - 9)
    for place in places(run):
        found = joined.wandb.join(place, await joined.wandb.observe(queries_of([run]), place))
    assert found["r"].source == "W&B files in /x/wandb, ahead of w.example"


async def test_what_became_of_a_run_whose_files_fell_silent_is_the_servers_to_say() -> None:
    facet = await Joined().facet(here(T0, "silent"), there(T0 - 9, "crashed"))
    assert facet.value is not None and facet.value.state == "crashed"
    facet = await Joined().facet(here(T0, "finished", exit_code=0), there(T0 - 9, "running"))
    assert facet.value is not None and facet.value.state == "finished"


@pytest.mark.parametrize(
    ("state", "kind", "is_known"),
    [
        ("running", ErrorKind.TIMEOUT, True),
        ("finished", ErrorKind.REFUSED, True),
        ("silent", ErrorKind.NOT_FOUND, True),  # never synced: it is nobody else's
        ("silent", ErrorKind.UNAUTHORIZED, False),
        ("silent", ErrorKind.TIMEOUT, False),
    ],
)
async def test_silent_files_are_no_evidence_while_the_server_says_nothing(
    state: str, kind: ErrorKind, is_known: bool
) -> None:
    facet = await Joined().facet(here(T0 - 700, state), failed(kind, "no word from w.example"))
    assert facet.value is not None and facet.value.step == 5
    assert "no word from w.example" in facet.source
    assert facet.known is is_known
    if not is_known:
        assert facet.observed_at == T0 - 700 and facet.error is not None


async def test_files_behind_what_the_server_said_before_are_not_shown_in_its_place() -> None:
    joined = Joined()
    for state in ("silent", "running"):
        await joined.facet(here(T0 - 900, state), there(T0))
        facet = await joined.facet(here(T0 - 900, state), failed(ErrorKind.TIMEOUT, "hangs"))
        assert facet.value is None and facet.error is not None and facet.error.message == "hangs"
    facet = await joined.facet(here(T0 + 5), failed(ErrorKind.TIMEOUT, "hangs"))
    assert facet.known and facet.value is not None and facet.value.step == 5


async def test_the_server_alone_where_the_files_are_not() -> None:
    missing = failed(ErrorKind.NOT_FOUND, "there is no /x/wandb")
    facet = await Joined().facet(missing, there(T0))
    assert facet.known and facet.source == "W&B at w.example"
    facet = await Joined().facet(missing, failed(ErrorKind.FORBIDDEN, "may not"))
    assert facet.error is not None and facet.error.message == "may not"
    unread = failed(ErrorKind.PERMISSION, "may not be read")
    facet = await Joined().facet(unread, failed(ErrorKind.FORBIDDEN, "may not"))
    assert facet.error is not None and facet.error.message == "may not be read; may not"


async def test_a_run_that_says_too_little_names_what_is_missing() -> None:
    for spec, missing in (
        (WandbSpec(id="abc"), "wandb.project"),
        (WandbSpec(url="https://wandb.ai/acme/hero"), "wandb.id"),
    ):
        run = RunSpec(name="r", wandb=spec)
        for at in (None, HERE):
            facet = (await Wandb(SkipClock()).observe(queries_of([run]), at))["r"]
            assert facet.error is not None and not facet.configured
            assert facet.error.message.startswith(f"{missing} (or wandb.url, or wandb.dir)")
    facet = (await Wandb(SkipClock()).observe(queries_of([RunSpec(name="r")])))["r"]
    assert facet.error is not None and facet.error.message == "[run.wandb] is not in cockpit.toml"


async def test_rows_are_asked_for_until_the_files_that_gave_all_of_theirs_are_best() -> None:
    joined = Joined()
    assert joined.wandb.may_have_rows(BOTH), "nobody has looked yet"
    await joined.facet(here(T0), there(T0 - 9))
    assert joined.wandb.may_have_rows(BOTH), "none of its rows were asked for"
    await joined.rows()
    assert not joined.wandb.may_have_rows(BOTH)
    await joined.facet(here(T0), there(T0 + 9))
    assert joined.wandb.may_have_rows(BOTH), "the server is ahead"
    await joined.rows()
    assert joined.wandb.may_have_rows(BOTH), "a server's rows come by themselves"
    await joined.facet(here(T0 + 9), there(T0))
    assert joined.wandb.may_have_rows(BOTH), "its files' rows begin again"


DELIVERY_T0 = 1_700_000_000.0
LONG = 30.0


class SlowFolder:
    """A folder of one run that lists its file only when ``answer`` is set."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run-abc.wandb"
        rows = [writer.row(step, "2.5", DELIVERY_T0 + step) for step in range(5)]
        self.path.write_bytes(writer.log([writer.run("abc", DELIVERY_T0), *rows]))
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


class Server:
    """A history by steps; it thins out what it has too many of, and may lag its summary."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = list(steps)
        self.asked = 0

    def rows(self, page: Page) -> list[Raw]:
        self.asked += 1
        held = [step for step in self.steps if page.low <= step < page.high]
        if len(held) > page.most:
            held = [held[index * len(held) // page.most] for index in range(page.most)]
        return [{"_step": float(step)} for step in held]


def look(ledger: Ledger, server: Server, rows: int = 400, lag: int = 0) -> list[int]:
    """One look: what the summary says, the newest page, some older ones; what is given out."""
    ledger.know(server.steps[-1] + lag if server.steps else None, len(server.steps))
    newest = ledger.newest(rows)
    older = ledger.pages(rows)
    if newest is not None:
        ledger.take_newest(newest, server.rows(newest))
    for page in older:
        ledger.take(page, server.rows(page))
    return [step_of(row) for row in ledger.next()]


@settings(max_examples=60, deadline=None)
@example(gaps=[300, *[1] * 15], more=[], rows=16)
@given(
    gaps=st.lists(st.sampled_from((1, 1, 1, 2, 7, 300)), min_size=1, max_size=900),
    more=st.lists(st.lists(st.sampled_from((1, 1, 5, 900)), max_size=40), max_size=5),
    rows=st.sampled_from((16, 100, 1000)),
)
def test_every_row_is_given_out_once_and_in_order(
    gaps: list[int], more: list[list[int]], rows: int
) -> None:
    steps = [0]
    for gap in gaps:
        steps.append(steps[-1] + gap)
    server, ledger, given_out = Server(steps), Ledger(), list[int]()
    for added in [*more, []]:
        for _ in range(3):
            given_out += look(ledger, server, rows)
        for gap in added:
            server.steps.append(server.steps[-1] + gap)
    for _ in range(3000):
        if ledger.caught_up:
            break
        given_out += look(ledger, server, rows)
    assert ledger.caught_up
    assert given_out == server.steps


def test_a_history_that_was_cut_begins_anew() -> None:
    server, ledger = Server(range(100)), Ledger()
    look(ledger, server)
    server.steps = list(range(20))
    assert ledger.know(19, 20)
    assert look(ledger, server) == list(range(20))


TAIL_T0 = 1_700_000_000.0
START = [writer.run("abc", TAIL_T0)]


def rows(first: int, last: int, loss: str | None = "2.0") -> list[bytes]:
    return [writer.row(step, loss, TAIL_T0 + step) for step in range(first, last)]


SHORT = writer.log(START + rows(0, 600))


def on_disk(folder: Path, records: list[bytes]) -> Path:
    path = folder / "run-abc.wandb"
    path.write_bytes(writer.log(records))
    return path


def learned(path: Path) -> KeyLayout:
    layout = KeyLayout(MetricNames())
    with WandbLog(LocalLog(path)) as log:
        tail.learn(log, layout)
    return layout


def reader_of(path: Path) -> RowReader:
    layout = learned(path)
    return RowReader(choose(layout.rows, MetricNames()), layout)


def newest(path: Path, former: tail.Latest | None = None) -> tail.Latest:
    reader = reader_of(path)
    with WandbLog(LocalLog(path)) as log:
        return tail.latest(log, reader, former)


def test_a_hung_run_is_found_behind_days_of_heartbeats(tmp_path: Path) -> None:
    beats = [writer.stats(TAIL_T0 + 100 + 15 * beat) for beat in range(60_000)]
    found = newest(on_disk(tmp_path, START + rows(0, 100) + beats))
    assert found.known[:3] == (99, TAIL_T0 + 99, 2.0)
    assert found.record_at == TAIL_T0 + 100 + 15 * 59_999


def test_following_reads_the_same_as_starting_over(tmp_path: Path) -> None:
    first = newest(on_disk(tmp_path, START + rows(0, 400)))
    path = on_disk(tmp_path, START + rows(0, 700) + rows(700, 702, None))
    followed, anew = newest(path, first), newest(path)
    assert followed.rows[-len(anew.rows) :] == anew.rows
    assert followed._replace(rows=()) == anew._replace(rows=())
    assert followed.size > first.size


@given(cut=st.integers(0, 60_000))
def test_whatever_is_cut_off_the_rest_is_read(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "run-abc.wandb"
    path.write_bytes(SHORT[: max(len(writer.MAGIC), len(SHORT) - cut)])
    found = newest(path)
    with WandbLog(LocalLog(path)) as log:
        spans = log.read(0, log.size).spans
    in_file = list(tail.read_rows(spans, reader_of(path)))
    assert found.rows == tuple(in_file)[len(in_file) - len(found.rows) :]
    assert len(found.rows) >= min(8, len(in_file))
    assert found.known.step == (in_file[-1].step if in_file else None)


def test_a_loss_that_is_logged_every_hundredth_row_is_learned(tmp_path: Path) -> None:
    records = START + [
        writer.row(
            step, "2.5" if step % 100 == 50 else None, TAIL_T0 + step, pad='"' + "x" * 900 + '"'
        )
        for step in range(5000)
    ]
    found = newest(on_disk(tmp_path, records))
    assert (found.known.step, found.known.loss) == (4999, 2.5)


def test_a_sample_is_spread_over_the_whole_file(tmp_path: Path) -> None:
    path = on_disk(tmp_path, START + rows(0, 40_000))
    with WandbLog(LocalLog(path)) as log:
        sample = tail.sample(log, reader_of(path), 120)
    steps = [row.step or 0 for row in sample]
    assert 110 <= len(steps) <= 130
    assert steps == sorted(steps)
    assert max(after - before for before, after in pairwise(steps)) < 1000
    assert steps[0] < 500
    assert steps[-1] > 39_000


def test_rows_that_are_larger_than_a_block(tmp_path: Path) -> None:
    big = '"' + "x" * 90_000 + '"'
    records = START + [writer.row(step, "1.5", TAIL_T0 + step, note=big) for step in range(200)]
    path = on_disk(tmp_path, records)
    assert newest(path).known.step == 199
    with WandbLog(LocalLog(path)) as log:
        assert len(tail.sample(log, reader_of(path), 120)) > 60
        recent, start = tail.newest_rows(log, reader_of(path), 10)
    assert [row.step for row in recent] == [*range(190, 200)]
    assert start > 0.9 * path.stat().st_size


def test_the_head_of_a_run_with_a_large_configuration(tmp_path: Path) -> None:
    config = writer.field(
        1, writer.field(2, b"big") + writer.field(16, b'"' + b"c" * 99_999 + b'"')
    )
    run = writer.record(2, 17, writer.field(1, b"abc") + writer.field(4, config))
    slurm = writer.field(27, writer.field(1, b"job_id") + writer.field(2, b"77"))
    path = on_disk(tmp_path, [run, writer.record(3, 26, slurm), *rows(0, 5)])
    with WandbLog(LocalLog(path)) as log:
        head = tail.head(log)
    assert head.run is not None
    assert head.run.id == "abc"
    assert head.run.config["big"] == "c" * 99_999
    assert head.slurm_job_id == "77"


def test_garbage_that_verifies_is_passed_over(tmp_path: Path) -> None:
    broken = writer.record(5, 2, b"\x0a\x7fshort")
    path = on_disk(tmp_path, [*START, *rows(0, 5), broken, *rows(5, 6)])
    assert newest(path).known.step == 5
    with WandbLog(LocalLog(path)) as log:
        assert len(tail.sample(log, RowReader(MetricKeys(), KeyLayout(MetricNames())), 9)) == 0


KEY = Key("k" * 40, "WANDB_API_KEY")
SPEC = WandbSpec(url="https://wandb.ai/acme/hero/runs/abc")
NOW = 1_768_032_000.0
FIELDS = {
    "name": "abc", "displayName": "hero-1", "state": "running", "historyLineCount": 2,
    "createdAt": "2026-01-10T07:50:00", "heartbeatAt": "2026-01-10T07:59:50Z", "commit": None,
}  # fmt: skip
ROWS = [
    '{"global_step":0,"train/loss":3,"_timestamp":1768031980.5,"_runtime":0.9,"_step":0}',
    '{"global_step":2,"train/loss":"NaN","_timestamp":1768031981.5,"_runtime":1.9,"_step":1}',
]
SUMMARY = '{"_step":1,"_timestamp":1768031981.5,"global_step":2,"train/loss":"NaN","x":{"y":1}}'
CONFIG = '{"_wandb":{"value":{"cli_version":"0.31.0"}},"lr":{"desc":null,"value":0.1}}'
"""What the client 0.31 had sent, as it came back."""


def answer(document: Any, status: int = 200) -> Answer:
    return Answer(status, {}, json.dumps(document).encode(), "w.example")


def project(**runs: Any) -> dict[str, Any]:
    return {"data": {"project": {"name": "hero", "entityName": "acme", **runs}}}


def test_two_looks_at_a_recorded_run() -> None:
    run, came = ServerRows(SPEC, "https://api.wandb.ai"), Came(NOW, entity="acme", project="hero")
    for more in ({"summaryMetrics": SUMMARY, "config": CONFIG}, {"n": ROWS, "config": CONFIG}):
        plan = run.plan(1e6, 1e6)
        (told,) = project_of(answer(project(r0={**FIELDS, **more})), ["abc"], KEY, "acme/hero").runs
        run.run.take(told.fields, plan, came)
        value = run.value(FixedClock(NOW))
    chunk = run.more()
    assert (value.id, value.name, value.step, str(value.loss)) == ("abc", "hero-1", 2, "nan")
    assert (value.url, value.producer) == (SPEC.url, "0.31.0")
    assert (value.heartbeat_at, value.last_step_at) == (NOW - 10, NOW - 18.5)
    assert [(row.step, str(row.loss)) for row in chunk.rows] == [(0, "3.0"), (2, "nan")]
    assert chunk.caught_up and value.config == {"lr": 0.1}


def test_what_a_person_wrote_is_never_part_of_the_querys_text() -> None:
    hostile = 'x") { id } } #'
    document = Document(hostile, hostile)
    run = ServerRows(WandbSpec(entity="e", project="p", id=hostile), "http://w")
    run.ask(document, run.plan(0, 0))
    assert hostile not in document.body["query"]
    assert list(document.body["variables"].values()).count(hostile) == 3


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("permission denied", ErrorKind.FORBIDDEN), ("Rate limit exceeded", ErrorKind.RATE_LIMITED),
        ("user is not logged in", ErrorKind.UNAUTHORIZED), ("context deadline", ErrorKind.TIMEOUT),
        ("run not found", ErrorKind.NOT_FOUND), ("panic \x1b[2J", ErrorKind.BAD_ANSWER),
    ],
)  # fmt: skip
def test_an_error_in_a_good_answer(message: str, kind: ErrorKind) -> None:
    errors = [{"message": message, "path": ["project"]}]
    with pytest.raises(HttpError) as raised:
        project_of(answer({"data": {"project": None}, "errors": errors}), ["abc"], KEY, "acme/hero")
    assert raised.value.kind is kind and "\x1b" not in str(raised.value)
    errors[0]["path"] = ["project", "r1"]
    first, second = project_of(
        answer({**project(r0=FIELDS, r1=None), "errors": errors}), ["a", "b"], KEY, "acme/hero"
    ).runs
    assert first.problem is None and second.problem is not None and not second.spoilt
    assert second.problem.kind is kind
    assert second.problem.message.startswith("run b in acme/hero: ")


@pytest.mark.parametrize(
    ("headers", "pause"),
    [
        ({}, None), ({"ratelimit-remaining": "17", "ratelimit-reset": "9"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "9"}, 9.0),
        ({"ratelimit-remaining": "0"}, 60.0), ({"ratelimit-remaining": "x"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "1e9"}, 3600.0),
    ],
)  # fmt: skip
def test_a_stated_limit(headers: dict[str, str], pause: float | None) -> None:
    assert pause_of(headers) == pause


LOGIN_KEY = "0123456789abcdef0123456789abcdef01234567"
OTHER = "f" * 40
OWN = "http://127.0.0.1:18431"


def found(home: Path, base: str = OWN, **env: str) -> tuple[str, str] | None:
    key = key_for(base, {"HOME": str(home), **env}).key
    return None if key is None else (key.value, key.source)


def test_the_environment_comes_first(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(f"machine 127.0.0.1:18431 login user password {OTHER}\n")
    assert found(tmp_path, WANDB_API_KEY=f" {LOGIN_KEY}\n") == (LOGIN_KEY, "WANDB_API_KEY")
    assert found(tmp_path, WANDB_API_KEY="") == (OTHER, "~/.netrc")


def test_netrc_goes_by_host_and_port(tmp_path: Path) -> None:
    bare = f"machine 127.0.0.1\n login user\n password {OTHER}\n"
    (tmp_path / ".netrc").write_text(f"{bare}machine api.wandb.ai login u password {LOGIN_KEY}\n")
    assert found(tmp_path) is None
    assert found(tmp_path, FORMER) == (LOGIN_KEY, "~/.netrc")
    assert found(tmp_path, DEFAULT) == (LOGIN_KEY, "~/.netrc")
    own = tmp_path / "elsewhere"
    own.write_text(f"machine 127.0.0.1:18431 login user password {OTHER}\n")
    assert found(tmp_path, NETRC=str(own)) == (OTHER, str(own))
    assert found(tmp_path, FORMER, NETRC=str(own)) is None


def test_the_clients_settings_then_the_users_own_files(tmp_path: Path) -> None:
    (tmp_path / ".wandb_key").write_text(f'export WANDB_API_KEY="{OTHER}"\n')
    assert found(tmp_path) == (OTHER, "~/.wandb_key")
    (tmp_path / ".wandb_token").write_text(f"{LOGIN_KEY}\n")
    assert found(tmp_path) == (LOGIN_KEY, "~/.wandb_token")
    settings = tmp_path / ".config" / "wandb" / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text(f"[default]\napi_key = {OTHER}\nbase_url = {OWN}/\n")
    assert found(tmp_path) == (OTHER, "settings")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".netrc", "machine 127.0.0.1:18431 login"), (".netrc", "\x00\xff]["), (".netrc", ""),
        (".wandb_key", "xx-y zz-y"), (".wandb_key", "k\u00e9y-that-is-not-one"),
        (".config/wandb/settings", "[[["),
    ],
)  # fmt: skip
def test_files_that_hold_no_key_are_told_and_never_quoted(
    tmp_path: Path, name: str, text: str
) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    looked = key_for(OWN, {"HOME": str(tmp_path)})
    assert looked.key is None
    assert all(word not in fault for fault in looked.faults for word in text.split() if word)


def test_a_key_prints_as_where_it_was_found(tmp_path: Path) -> None:
    key = key_for(OWN, {"HOME": str(tmp_path), "WANDB_API_KEY": LOGIN_KEY}).key
    assert key is not None
    assert LOGIN_KEY not in f"{key} {key!r} {[key]}"
    assert base64.b64decode(key.header.removeprefix("Basic ")) == f"api:{LOGIN_KEY}".encode()


def test_the_server_is_the_run_files_else_the_clients_own(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    assert server_for(WandbSpec(), env) == DEFAULT
    assert server_for(WandbSpec(), {**env, "WANDB_BASE_URL": f"{OWN}/"}) == OWN
    url = WandbSpec(url="https://wandb.ai/a/b/runs/c")
    assert server_for(url, {**env, "WANDB_BASE_URL": OWN}) == FORMER
    assert server_for(WandbSpec(base_url=OWN, url=url.url), env) == OWN
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "settings").write_text("[default]\nbase_url = https://w.example.org\n")
    named = {**env, "WANDB_CONFIG_DIR": str(folder)}
    assert server_for(WandbSpec(), named) == "https://w.example.org"

"""finelog: what Levanter reports through its Iris controller, and what stands in for it."""

from __future__ import annotations

import base64
import json
import math
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.curve import Span
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import RunSpec
from cockpit.sources import finelog, trackers, two_trackers
from cockpit.sources.curves import CurveReading
from cockpit.sources.finelog import rows_of
from cockpit.sources.logs.remote import HostError
from cockpit.sources.trackers import Trackers
from cockpit.watch.asking import real_trackers
from tests.sources.fake_finelog import FakeFinelog, arrow, finelog_serving, run_file
from tests.sources.fake_mlflow import FakeRun, folder

STATUS = "step {}/400 ({:.1f}%) · loss {} · {}k tok/s"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(finelog, "FRESH", 0.0)
    monkeypatch.setenv("COCKPIT_HOME", str(tmp_path / "state"))
    for name in list(os.environ):
        if name.startswith("MLFLOW_"):
            monkeypatch.delenv(name)


@pytest.fixture
def fake() -> Iterator[FakeFinelog]:
    with finelog_serving() as found:
        yield found


def spec_of(tmp_path: Path, url: str, more: str = "") -> RunSpec:
    return load(run_file(tmp_path, url, more)).runs[0]


async def facet(source: Trackers, run: RunSpec) -> Facet[TrackerValue]:
    return (await source.observe([Query(run=run)]))[run.name]


async def value(source: Trackers, run: RunSpec) -> TrackerValue:
    found = await facet(source, run)
    assert found.value is not None, found.error
    return found.value


async def rows(source: Trackers, run: RunSpec) -> list[Row]:
    found: list[Row] = []
    while True:
        chunk = await source.more_rows(run)
        assert not chunk.unread, chunk.unread
        found += chunk.rows
        if chunk.caught_up:
            return found


def trained(fake: FakeFinelog, first: int, last: int, **more: Any) -> None:
    """As Levanter does: the loss at each step, everything else at each tenth."""
    for step in range(first, last):
        fake.log("hero-toy", step, progress_time_seconds=1.0, **more)
        fake.log("hero-toy", step, train_loss=5.0 / (step + 1), **more)
        if step % 10 == 0:
            fake.log("hero-toy", step, throughput_tokens_per_second=20_900.0, **more)
            fake.log("hero-toy", step, optim_learning_rate=1e-3, grad_norm_total=0.5, **more)


async def test_a_run_is_told_by_its_metrics(fake: FakeFinelog, tmp_path: Path) -> None:
    trained(fake, 0, 35)
    fake.log("another", 900, train_loss=9.0)
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url)
    told = await value(source, run)
    assert (told.id, told.step, told.loss, told.throughput) == ("hero-toy", 34, 5 / 35, 20_900.0)
    assert (told.throughput_unit, told.grad_norm, told.producer) == ("tok/s", 0.5, "Levanter")
    assert told.tracker == "finelog" and not told.kind.records_end and not told.counts_calls
    read = await rows(source, run)
    assert [row.step for row in read] == list(range(35))
    assert read[30].lr == 1e-3 and read[30].loss == 5 / 31


async def test_only_what_is_new_is_asked_for(fake: FakeFinelog, tmp_path: Path) -> None:
    trained(fake, 0, 20)
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url)
    assert len(await rows(source, run)) == 20
    trained(fake, 20, 22)
    assert [row.step for row in await rows(source, run)] == [20, 21]
    assert "seq >= " in fake.asked[-2] and "seq >= 0" not in fake.asked[-2]
    asked = len(fake.asked)
    assert (await source.more_rows(run)).rows == ()
    assert len(fake.asked) == asked + 1, "what is there is known: its rows are not asked for"


def test_an_execution_that_resumed_is_a_restart_of_one_curve(
    fake: FakeFinelog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(fake, 0, 40)
    trained(fake, 25, 60, uid="iris:b")
    path = str(run_file(tmp_path, fake.url))
    assert main(["plot", "hero-toy", "--json", "--config", path]) == 0
    (curve,) = json.loads(capsys.readouterr().out)["curves"]
    assert [each["step"] for each in curve["restarts"]] == [25], curve["restarts"]
    assert main(["backtest", "hero-toy", "--json", "--config", path]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["steps"] == 75


def test_a_nan_opens_its_alert(
    fake: FakeFinelog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(fake, 0, 20)
    fake.log("hero-toy", 20, train_loss=math.nan)
    main(["check", "--json", "--config", str(run_file(tmp_path, fake.url))])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert "C-09" in [alert["id"] for alert in told["alerts"]]
    assert told["facets"]["tracker"]["value"]["loss"] == "NaN"


async def test_a_table_that_was_begun_anew_is_read_from_its_first_row(
    fake: FakeFinelog, tmp_path: Path
) -> None:
    trained(fake, 0, 20)
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url)
    assert len(await rows(source, run)) == 20
    fake.begin_anew()
    trained(fake, 5, 9)
    chunk = await source.more_rows(run)
    assert chunk.restarted and [row.step for row in chunk.rows] == [5, 6, 7, 8]
    assert (await value(source, run)).step == 8


async def test_many_runs_are_one_question(
    fake: FakeFinelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"run-{number}" for number in range(30)]
    for number, name in enumerate(names):
        fake.log(name, number, train_loss=1.0)
    first = spec_of(tmp_path, fake.url)
    assert first.finelog is not None
    specs = [
        first.model_copy(
            update={"name": name, "finelog": first.finelog.model_copy(update={"run": name})}
        )
        for name in names
    ]
    source = real_trackers(SystemClock())
    await source.observe([Query(run=spec) for spec in specs])
    fake.asked.clear()
    monkeypatch.setattr(finelog, "FRESH", 60.0)
    found = await source.observe([Query(run=spec) for spec in specs])
    assert [found[name].value.step for name in names] == list(range(30))  # type: ignore[union-attr]
    assert sum("GROUP BY run_id, name" in sql for sql in fake.asked) <= 1


async def test_ten_thousand_metrics_are_told_but_not_fetched(
    fake: FakeFinelog, tmp_path: Path
) -> None:
    trained(fake, 0, 12)
    many: dict[str, Any] = {f"params_norm_layer_{n}": 1.0 for n in range(10_000)}
    fake.log("hero-toy", 10, **many)
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url)
    assert (await value(source, run)).loss == 5 / 12
    assert not any("layer_77" in sql for sql in fake.asked)
    reading = CurveReading(source, SystemClock())
    found = await reading.curves(run, ["params_norm_layer_7777"], Span())
    assert found.curves[0].newest is not None and found.curves[0].newest.value == 1.0


async def test_metrics_are_called_as_in_the_run_file(fake: FakeFinelog, tmp_path: Path) -> None:
    fake.log("w-1", 3, train_cross_entropy_loss=2.5, odd_rate=7.0)
    more = '[run.wandb]\nid = "w-1"\n[run.wandb.metrics]\nthroughput = "odd/rate"\n'
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url, more)
    told = await value(source, run)
    assert (told.id, told.loss, told.throughput) == ("w-1", 2.5, 7.0)


async def test_a_run_without_metrics_is_read_by_its_tasks_status_lines(
    fake: FakeFinelog, tmp_path: Path
) -> None:
    fake.report("/ada/hero-toy-2/0", STATUS.format(300, 75.0, 0.9, 1.0), 9.0)
    for number in range(4):
        text = STATUS.format(80 * number, 20.0 * number, 5.0 / (number + 1), 20.9)
        fake.report("/ada/hero-toy/0", text, 1_795_000_000.0 + 30 * number)
    fake.report("/ada/hero-toy/0", "saving a checkpoint", 1_795_000_100.0)
    source, run = real_trackers(SystemClock()), spec_of(tmp_path, fake.url)
    told = await value(source, run)
    assert (told.step, told.loss, told.throughput) == (240, 1.25, 20_900.0)
    assert told.notes == ("no metrics there: read by the status lines of /ada/hero-toy/0",)
    assert [row.step for row in await rows(source, run)] == [0, 80, 160, 240]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("step 89/400 (22.2%) · loss 0.055 · 20.9k tok/s",
         [(89, finelog.LOSS, 0.055), (89, finelog.RATE, 20_900.0)]),
        ("step 1,089/40,000 (2.7%) · loss nan", [(1089, finelog.LOSS, math.nan)]),
        ("step 9/400 (2.2%)", []),
        ("step 9/400 (2.2%) · loss soon", []),
        ("evaluating step 9/400", []),
    ],
)  # fmt: skip
def test_a_status_line(line: str, said: list[tuple[int, str, float]]) -> None:
    assert str(finelog.said_in(line)) == str(said)


async def test_a_run_that_is_not_there_names_those_that_are(
    fake: FakeFinelog, tmp_path: Path
) -> None:
    fake.log("hero-2", 3, train_loss=1.0)
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, fake.url))
    assert found.error is not None and found.error.kind is ErrorKind.NOT_FOUND
    said = "finelog has no metrics of run hero-toy and no status line of /ada/hero-toy"
    assert found.error.message == f"{said}; there: hero-2"
    fake.drop("levanter.metrics")
    fake.drop("iris.task_status")
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, fake.url))
    assert found.error is not None and found.error.message == said


NO_ARROW = "finelog's answer holds no Arrow that can be read"


def cut_off() -> bytes:
    """An answer that ends behind its schema: an Arrow stream without a row."""
    answer = json.loads(arrow(["a", "b"], [("x", 1), ("y", 2)]))
    content = base64.b64decode(answer["arrowIpc"])
    ends = (content[:end] for end in range(8, len(content), 8))
    for each in ends:
        with suppress(HostError):
            assert rows_of({"arrowIpc": base64.b64encode(each).decode()}, (str, int)) == []
            break
    return json.dumps({**answer, "arrowIpc": base64.b64encode(each).decode()}).encode()


def document(content: bytes) -> bytes:
    return json.dumps({"arrowIpc": base64.b64encode(content).decode()}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (401, b'{"code":"unauthenticated","message":"Missing authentication"}',
         ErrorKind.UNAUTHORIZED, "does not accept us: Missing authentication: set job.auth"),
        (403, b"{}", ErrorKind.FORBIDDEN, "does not allow Query"),
        (404, b"Not Found", ErrorKind.NOT_FOUND, "has no Query: is this the address of an Iris"),
        (400, b'{"message":"query failed: out of memory"}', ErrorKind.BAD_ANSWER, "out of memory"),
        (200, b"<html>log in</html>", ErrorKind.BAD_ANSWER, "is not JSON"),
        (200, b'{"rowCount":"0"}', ErrorKind.BAD_ANSWER, NO_ARROW),
        (200, b'{"arrowIpc":"!"}', ErrorKind.BAD_ANSWER, NO_ARROW),
        (200, document(b"\xff\xff\xff\xff" + b"\x07" * 90), ErrorKind.BAD_ANSWER, NO_ARROW),
        (200, cut_off(), ErrorKind.BAD_ANSWER, "is cut off: 2 rows missing"),
        (200, arrow(["a"], [("x",)]), ErrorKind.BAD_ANSWER, NO_ARROW),
        (200, arrow(list("abcdef"), [("hero-toy", "train_loss", "x", "x", "x", "x")]),
         ErrorKind.BAD_ANSWER, NO_ARROW),
    ],
)  # fmt: skip
async def test_what_is_no_answer_is_said_in_one_line(
    fake: FakeFinelog, tmp_path: Path, status: int, body: bytes, kind: ErrorKind, said: str
) -> None:
    fake.reply = status, body
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, fake.url))
    assert found.value is None and found.error is not None
    assert found.error.kind is kind and said in found.error.message, found.error
    assert "\n" not in found.error.message


async def test_the_jobs_token_is_sent(
    fake: FakeFinelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.token = "a-token-of-the-job"
    trained(fake, 0, 3)
    monkeypatch.setenv("IRIS_TOKEN", fake.token)
    more = '[run.job.auth]\ntoken_env = "IRIS_TOKEN"\n'
    assert (await value(real_trackers(SystemClock()), spec_of(tmp_path, fake.url, more))).step == 2


async def test_a_server_that_is_slow_or_gone_keeps_nobody(
    fake: FakeFinelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(finelog, "DEADLINE", 0.2)
    fake.goes_on.clear()
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, fake.url))
    assert found.error is not None and found.error.kind is ErrorKind.TIMEOUT
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, "http://127.0.0.1:1"))
    assert found.error is not None
    assert found.error.kind in (ErrorKind.REFUSED, ErrorKind.TIMEOUT)


async def test_without_the_extra_its_name_is_said(
    fake: FakeFinelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    found = await facet(real_trackers(SystemClock()), spec_of(tmp_path, fake.url))
    assert found.error is not None and found.error.kind is ErrorKind.UNSUPPORTED
    assert found.error.message.endswith("pip install 'run-cockpit[finelog]'")


def test_a_job_that_is_not_of_iris_has_no_finelog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "toy"\n[run.job]\nkind = "local"\n[run.finelog]\n')
    main(["check", "--json", "--config", str(path)])
    (told,) = json.loads(capsys.readouterr().out)["runs"]
    assert "set job.controller_url" in told["facets"]["tracker"]["error"]["message"]


class Beside:
    """A run that is logged to MLflow, too, as far as a step."""

    def __init__(self, fake: FakeFinelog, tmp_path: Path) -> None:
        self.run = FakeRun(1, name="hero-toy")
        self.root = tmp_path / "mlruns"
        uri = f'[run.mlflow]\nuri = "{self.root}"\nexperiment = "pretrain"\n'
        self.log(range(30))
        self.spec = spec_of(tmp_path, fake.url, uri)

    def log(self, steps: range) -> None:
        for step in steps:
            self.run.log(step, loss=3.0)
        folder(self.root, [self.run])


@pytest.fixture
def beside(fake: FakeFinelog, tmp_path: Path) -> Beside:
    return Beside(fake, tmp_path)


async def test_it_is_preferred_where_it_answers(fake: FakeFinelog, beside: Beside) -> None:
    trained(fake, 0, 20)
    beside.run.params = {"lr": "0.1"}
    beside.log(range(30, 31))
    source = real_trackers(SystemClock())
    found = await facet(source, beside.spec)
    assert found.source.startswith(f"finelog at {fake.url}, preferred to MLflow in ")
    assert found.value is not None and found.value.step == 19 and found.value.tracker == "finelog"
    assert found.value.config == {"lr": 0.1}, "what finelog does not know"
    assert len(await rows(source, beside.spec)) == 20


async def test_another_tracker_stands_in_and_steps_back(
    fake: FakeFinelog, beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = real_trackers(SystemClock()), beside.spec
    found = await facet(source, run)
    assert found.value is not None and found.value.step == 29
    assert "; finelog has no metrics of run hero-toy" in found.source
    assert len(await rows(source, run)) == 30
    trained(fake, 0, 20)
    assert (await value(source, run)).step == 19
    chunk = await source.more_rows(run)
    assert chunk.restarted and len(chunk.rows) == 20
    fake.reply = 500, b"{}"
    found = await facet(source, run)
    assert found.value is None and found.error is not None, "one refusal: it may be back at once"
    monkeypatch.setattr(two_trackers, "PATIENCE", 0.0)
    found = await facet(source, run)
    assert found.value is not None and found.value.step == 29 and "500" in found.source
    chunk = await source.more_rows(run)
    assert chunk.restarted and len(chunk.rows) == 30


async def test_both_fail_and_both_say_why(
    fake: FakeFinelog, beside: Beside, tmp_path: Path
) -> None:
    fake.reply = 403, b"{}"
    beside.root.rename(tmp_path / "away")
    found = await facet(real_trackers(SystemClock()), beside.spec)
    assert found.error is not None
    assert "does not allow Query" in found.error.message and "mlruns" in found.error.message


async def test_a_finelog_that_lost_its_writer_gives_way(fake: FakeFinelog, beside: Beside) -> None:
    began = beside.run.began / 1000
    for step in range(20):
        fake.log("hero-toy", step, at=began + step, train_loss=1.0)
    beside.run.log(4000, seconds=4000.0, loss=3.0)
    beside.log(range(4001, 4002))
    source = real_trackers(SystemClock())
    found = await facet(source, beside.spec)
    assert found.value is not None and found.value.step == 4001
    assert f", ahead of finelog at {fake.url}" in found.source


async def test_a_finelog_that_was_lost_before_a_resume_gives_way(
    fake: FakeFinelog, beside: Beside
) -> None:
    began = beside.run.began / 1000
    for step in range(30):
        fake.log("hero-toy", step, at=began + step, train_loss=1.0)
    beside.run.log(10, seconds=4000.0, loss=3.0)
    beside.log(range(11, 15))
    found = await facet(real_trackers(SystemClock()), beside.spec)
    assert found.value is not None and found.value.tracker == "MLflow"
    assert found.value.last_step_at == pytest.approx(began + 4034, abs=5)


async def test_each_place_answers_for_its_own(fake: FakeFinelog, beside: Beside) -> None:
    trained(fake, 0, 20)
    source, run = real_trackers(SystemClock()), beside.spec
    there = trackers.places(run)
    assert len(there) == 2 and fake.url in there
    for at in there:
        answers = await source.observe([Query(run=run)], at)
        joined = source.join(at, answers)
    assert joined["hero-toy"].source.startswith("finelog at ")
    assert joined["hero-toy"].value is not None and joined["hero-toy"].value.step == 19

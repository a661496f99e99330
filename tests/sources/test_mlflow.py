"""MLflow: one run in a tracking server, a SQLite store and a folder tells the same.

Where a real MLflow is installed, its own client and server say whether that is what they do.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
import time
import tomllib
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from cockpit.cli import main
from cockpit.model.clock import SystemClock
from cockpit.model.curve import Span
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import on_host, place_of
from cockpit.model.run import MlflowSpec, RunSpec
from cockpit.sources import mlflow_server, sqlite_copies
from cockpit.sources.curves import CurveReading
from cockpit.sources.trackers import Trackers, places
from tests.hosts.here import CallsHere
from tests.sources.fake_mlflow import FakeRun, FakeServer, database, folder, serving


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


KINDS = ("server", "sqlite", "folder")


class Store:
    """Runs in one kind of store; ``put`` writes them as they are now."""

    def __init__(self, kind: str, path: Path, server: FakeServer) -> None:
        self.kind, self.path, self.server = kind, path, server

    def put(self, *runs: FakeRun) -> None:
        if self.kind == "server":
            self.server.runs[:] = runs
        elif self.kind == "sqlite":
            database(self.path / "mlflow.db", list(runs))
        else:
            folder(self.path / "mlruns", list(runs))

    def spec(self, **more: Any) -> RunSpec:
        uris = {
            "server": self.server.url,
            "sqlite": self.path / "mlflow.db",
            "folder": self.path / "mlruns",
        }
        named = {"experiment": "pretrain", **more}
        return RunSpec(name="toy", mlflow=MlflowSpec(uri=place_of(str(uris[self.kind])), **named))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(mlflow_server, "FRESH", 0.0)
    monkeypatch.setattr(sqlite_copies, "SHARE", 0.0)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in list(os.environ):
        if name.startswith("MLFLOW_"):
            monkeypatch.delenv(name)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(FakeServer([])) as found:
        yield found


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path, server: FakeServer) -> Store:
    return Store(request.param, tmp_path, server)


@pytest.fixture
def trackers() -> Trackers:
    return Trackers(SystemClock())


async def facet(trackers: Trackers, run: RunSpec) -> Facet[TrackerValue]:
    return (await trackers.observe([Query(run=run)]))[run.name]


async def value(trackers: Trackers, run: RunSpec) -> TrackerValue:
    found = await facet(trackers, run)
    assert found.value is not None, found.error
    return found.value


async def rows(trackers: Trackers, run: RunSpec) -> list[Row]:
    found: list[Row] = []
    while True:
        chunk = await trackers.more_rows(run)
        assert not chunk.unread, chunk.unread
        found += chunk.rows
        if chunk.caught_up:
            return found


def trained(number: int = 1, steps: int = 300, **more: Any) -> FakeRun:
    run = FakeRun(number, **more)
    run.params = {"lr": "0.0003", "optimizer.name": "adamw", "fp16": "True"}
    for step in range(steps):
        run.log(step, train__loss=5 - step / 100, grad_norm=1.0, lr=3e-4)
        if step % 100 == 0:
            run.log(step, 0.1, eval__loss=4.0)
    return run


async def test_every_store_tells_the_same(store: Store, trackers: Trackers) -> None:
    store.put(trained(status="FINISHED"))
    found = await facet(trackers, store.spec())
    assert found.value is not None, found.error
    told = found.value
    assert (told.step, told.loss, told.grad_norm, told.state) == (299, 2.01, 1.0, "finished")
    assert (told.name, told.project, told.tracker, told.finished) == (
        "toy",
        "pretrain",
        "MLflow",
        True,
    )
    assert told.config == {"lr": 3e-4, "optimizer.name": "adamw", "fp16": True}
    assert told.usual_step_s == 1.0
    got = await rows(trackers, store.spec())
    assert [(row.step, row.loss) for row in got if row.loss is not None] == [
        (step, 5 - step / 100) for step in range(300)
    ]
    whole = await value(trackers, store.spec())
    assert whole.scanned == 1.0
    assert whole.history[-1] == (299, 2.01)


async def test_rows_that_go_back_and_are_no_numbers_come_as_they_were_logged(
    store: Store, trackers: Trackers
) -> None:
    run = trained(steps=100)
    for step in range(50, 60):  # resumed from a checkpoint, in the same run
        run.log(step, train__loss=1.0)
    run.log(60, train__loss=math.nan)
    run.log(61, train__loss=-math.inf)
    store.put(run)
    got = [row for row in await rows(trackers, store.spec()) if row.loss is not None]
    assert [row.step for row in got] == [*range(100), *range(50, 62)]
    assert math.isnan(got[-2].loss or 0.0)
    assert got[-1].loss == -math.inf
    told = await value(trackers, store.spec())
    assert (told.step, told.loss) == (61, -math.inf)


async def test_what_is_logged_later_comes_once(store: Store, trackers: Trackers) -> None:
    run = trained(steps=10)
    store.put(run)
    before = await rows(trackers, store.spec())
    assert await rows(trackers, store.spec()) == []
    run.log(4, train__loss=0.5, grad_norm=2.0, lr=3e-4)
    store.put(run)
    assert (await value(trackers, store.spec())).loss == 0.5
    (later,) = await rows(trackers, store.spec())
    assert (later.step, later.loss, later.grad_norm) == (4, 0.5, 2.0)
    again = Trackers(SystemClock())
    assert await rows(again, store.spec()) == [*before, later]


async def test_a_long_run_is_read_in_pages(store: Store, trackers: Trackers) -> None:
    run = FakeRun(1)
    for step in range(12_000):
        run.log(step, train__loss=1.0, grad_norm=2.0)
    store.put(run)
    newest = await trackers.recent(store.spec(), 500)
    assert [row.step for row in newest.rows] == list(range(11_500, 12_000))
    assert 0.0 < newest.share < 0.1
    got = await rows(trackers, store.spec())
    assert [(row.step, row.loss, row.grad_norm) for row in got] == [
        (step, 1.0, 2.0) for step in range(12_000)
    ]


async def test_of_ten_thousand_metrics_those_that_matter_are_read(
    store: Store, trackers: Trackers
) -> None:
    run = FakeRun(1)
    many = {f"layer{number}_act_loss": 1.0 for number in range(10_000)}
    for step in range(3):
        run.log(step, train__loss=2.0 - step, **many)
    store.put(run)
    assert [row.loss for row in await rows(trackers, store.spec())] == [2.0, 1.0, 0.0]
    asked = [path for path, _ in store.server.asked if "history" in path]
    assert len(asked) < 10


async def test_any_metric_is_a_curve(store: Store, trackers: Trackers) -> None:
    store.put(trained())
    reading = CurveReading(trackers, SystemClock())
    found = await reading.curves(store.spec(), ["eval/loss", "nothing"], Span(most=50))
    assert found.names == ("eval/loss", "grad_norm", "lr", "train/loss")
    newest = found.curves[0].newest
    assert newest is not None
    assert (found.curves[0].rows, newest.step, newest.value) == (3, 200, 4.0)
    assert "no metric nothing" in (found.curves[1].why or "")


async def test_which_run_is_read(store: Store, trackers: Trackers) -> None:
    old, new = trained(1, 10, status="FAILED"), trained(2, 20, name="it's new")
    store.put(old, new)
    assert (await value(trackers, store.spec())).id == new.id
    assert (await value(trackers, store.spec(run="toy"))).state == "failed"
    assert (await value(trackers, store.spec(run=old.id))).id == old.id
    assert (await value(trackers, store.spec(run="it's new", experiment="217"))).id == new.id
    missing = await facet(trackers, store.spec(run="other"))
    assert missing.error is not None
    assert missing.error.kind is ErrorKind.NOT_FOUND
    nowhere = await facet(trackers, store.spec(experiment="other"))
    assert nowhere.error is not None
    assert nowhere.error.kind is ErrorKind.NOT_FOUND


async def test_two_runs_that_log_at_once_are_not_guessed(store: Store, trackers: Trackers) -> None:
    one, two = trained(1, 100), trained(2, 90, name="other")
    store.put(one, two)
    found = await facet(trackers, store.spec())
    assert found.error is not None
    assert "cannot tell which run is meant" in found.error.message
    assert "mlflow.run" in found.error.message


async def test_a_start_that_has_ended_gives_way(store: Store, trackers: Trackers) -> None:
    store.put(trained(1, 100, status="KILLED"), trained(2, 10))
    told = await value(trackers, store.spec())
    assert told.step == 9
    assert "toy" in told.notes[0]


async def test_a_run_that_was_taken_up_again_has_not_ended(
    store: Store, trackers: Trackers
) -> None:
    run = trained(steps=3, status="FINISHED")
    run.ended = run.logged[-1].at + 50
    store.put(run)
    assert (await value(trackers, store.spec())).finished
    assert len(await rows(trackers, store.spec())) == 3
    run.log(3, 3600.0, train__loss=1.0)  # start_run(run_id=…) leaves its end as it was
    store.put(run)
    told = await value(trackers, store.spec())
    assert (told.step, told.finished) == (3, False)
    assert [row.step for row in await rows(trackers, store.spec())] == [3]
    run.log(1, train__loss=2.0)  # and again, from a checkpoint, to its end
    run.ended = run.logged[-1].at + 50
    store.put(run)
    assert [row.step for row in await rows(trackers, store.spec())] == [1]
    assert (await value(trackers, store.spec())).finished


async def test_an_older_server_gives_whole_histories(
    server: FakeServer, trackers: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.pages_on = False
    run = FakeRun(1)
    for step in range(6000):
        run.log(step, train__loss=1.0, grad_norm=2.0)
    server.runs[:] = [run]
    spec = Store("server", Path(), server).spec()
    assert [row.step for row in await rows(trackers, spec)] == list(range(6000))
    run.log(6000, train__loss=0.5, grad_norm=2.0)
    assert [row.step for row in await rows(trackers, spec)] == [6000]
    run.log(6001, train__loss=0.5, grad_norm=2.0)
    assert (await value(trackers, spec)).step == 6001
    assert await rows(trackers, spec) == []  # a long history is not asked for each time
    monkeypatch.setattr(mlflow_server, "WHOLE_EVERY", 0.0)
    run.log(5990, train__loss=0.25, grad_norm=2.0)
    assert [(row.step, row.loss) for row in await rows(trackers, spec)] == [
        (6001, 0.5), (5990, 0.25),
    ]  # fmt: skip


async def test_hostile_names_and_values_are_shown_safe(store: Store, trackers: Trackers) -> None:
    run = trained(steps=3, name="a\x1b]0;b\x07c")
    run.params = {"token": "hf_" + "A" * 34, "x": "[" * 30}
    run.log(3, **{"e\x1bvil__loss": 1.0, "train__loss": 1.0})
    store.put(run)
    text = json.dumps((await facet(trackers, store.spec())).model_dump(mode="json"))
    assert "\\u001b" not in text
    assert "hf_" + "A" * 34 not in text


async def test_runs_by_id_are_asked_for_together(
    server: FakeServer, trackers: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.runs[:] = [trained(number, 3) for number in range(1, 6)]
    runs = [
        RunSpec(name=f"r{each.id[-1]}", mlflow=MlflowSpec(uri=place_of(server.url), run=each.id))
        for each in server.runs
    ]
    await trackers.observe([Query(run=run) for run in runs])
    server.asked.clear()
    monkeypatch.setattr(mlflow_server, "FRESH", 60.0)
    found = await trackers.observe([Query(run=run) for run in runs])
    assert [each.value.step for each in found.values() if each.value] == [2] * 5
    assert [path for path, _ in server.asked if "runs/" in path] in (
        [], ["/api/2.0/mlflow/runs/search"],
    )  # fmt: skip


ODD = {
    "no key": (401, b"", ErrorKind.UNAUTHORIZED, "MLFLOW_TRACKING_TOKEN"),
    "refused": (403, b'{"message": "no"}', ErrorKind.FORBIDDEN, "refuses"),
    "no such path": (404, b"not here", ErrorKind.NOT_FOUND, "mlflow.uri"),
    "a page": (200, b"<html>log in", ErrorKind.BAD_ANSWER, "web page"),
    "no JSON": (200, b"\xff\x00", ErrorKind.BAD_ANSWER, "does not answer as MLflow"),
    "a list": (200, b"[1]", ErrorKind.BAD_ANSWER, "does not answer as MLflow"),
    "no run": (200, b'{"run": {"info": 7}, "runs": 5}', ErrorKind.BAD_ANSWER, "no run"),
    "odd values": (
        200,
        b'{"run": {"info": {"run_id": "x", "start_time": {}}, "data": {"metrics": [{"step": 1e999,'
        b' "timestamp": "x", "value": []}, 7], "params": 3}}}',
        ErrorKind.BAD_ANSWER,
        "",
    ),
    "broken": (500, b"", ErrorKind.BAD_ANSWER, ""),
}


@pytest.mark.parametrize("case", ODD)
async def test_a_server_that_answers_oddly_is_unknown(
    case: str, server: FakeServer, trackers: Trackers
) -> None:
    status, body, kind, said = ODD[case]
    server.runs[:] = [trained()]
    server.odd = lambda path: (status, body)
    run = RunSpec(name="r", mlflow=MlflowSpec(uri=place_of(server.url), run=server.runs[0].id))
    found = await facet(trackers, run)
    if case != "odd values":
        assert found.error is not None
        assert found.error.kind is kind
        assert said in found.error.message
    assert (await trackers.more_rows(run)).unread or case == "odd values"
    server.odd = lambda path: None
    assert (await value(trackers, run)).step == 299


async def test_times_that_are_no_numbers_cost_a_run_only_its_times(
    server: FakeServer, trackers: Trackers
) -> None:
    run = trained()
    server.runs[:] = [run]
    info = {"run_id": run.id, "start_time": "NaN", "end_time": 1e999, "status": "RUNNING"}
    point = {"key": "train/loss", "value": "NaN", "step": 299, "timestamp": "-Infinity"}
    told = json.dumps({"runs": [{"info": info, "data": {"metrics": [point]}}]}).encode()
    server.odd = lambda path: (200, told) if "runs/search" in path else None
    spec = MlflowSpec(uri=place_of(server.url), experiment="217")
    assert (await value(trackers, RunSpec(name="r", mlflow=spec))).step == 299


async def test_a_server_that_is_gone_or_not_named(
    trackers: Trackers, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = RunSpec(
        name="r", mlflow=MlflowSpec(uri=place_of(f"http://127.0.0.1:{free_port()}"), run="0" * 32)
    )
    found = await facet(trackers, gone)
    assert found.error is not None
    assert found.error.kind is ErrorKind.REFUSED
    odd = RunSpec(name="r", mlflow=MlflowSpec(uri=place_of("http://[bad"), run="0" * 32))
    found = await facet(trackers, odd)
    assert found.error is not None
    assert found.error.kind is ErrorKind.BAD_ANSWER
    unnamed = RunSpec(name="r", mlflow=MlflowSpec(run="0" * 32))
    assert places(unnamed) == ()
    found = await facet(trackers, unnamed)
    assert found.error is not None
    assert "MLFLOW_TRACKING_URI" in found.error.message
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ada:pw@mlflow.example.org/x")
    assert places(unnamed) == ("https://mlflow.example.org",)


async def test_a_server_that_hangs_is_unknown_and_costs_no_other(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow_server, "DEADLINE", 0.5)
    server.runs[:] = [trained(steps=2)]
    go_on = threading.Event()
    server.odd = lambda path: None if go_on.wait(60) else (500, b"")
    slow = RunSpec(name="slow", mlflow=MlflowSpec(uri=place_of(server.url), run=server.runs[0].id))
    database(tmp_path / "mlflow.db", server.runs)
    uri = place_of(str(tmp_path / "mlflow.db"))
    trackers = Trackers(SystemClock())
    here = RunSpec(name="here", mlflow=MlflowSpec(uri=uri))
    try:
        found = await trackers.observe([Query(run=slow), Query(run=here)])
    finally:
        go_on.set()
    assert found["slow"].error is not None
    assert found["slow"].error.kind is ErrorKind.TIMEOUT
    assert found["here"].value is not None
    assert (await value(trackers, slow)).step == 1


async def test_a_store_on_a_host(tmp_path: Path) -> None:
    trackers = Trackers(SystemClock(), call=CallsHere())
    run = trained(steps=5)
    database(tmp_path / "mlflow.db", [run])
    folder(tmp_path / "mlruns", [run])
    there = RunSpec(name="r", mlflow=MlflowSpec(uri=on_host("box", f"{tmp_path}/mlflow.db")))
    assert (await value(trackers, there)).step == 4
    assert len(await rows(trackers, there)) == 5
    other = RunSpec(name="r", mlflow=MlflowSpec(uri=on_host("box", f"{tmp_path}/mlruns")))
    found = await facet(trackers, other)
    assert found.error is not None
    assert found.error.kind is ErrorKind.UNSUPPORTED


async def test_it_asks_as_the_client_does(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server.runs[:] = [trained(steps=2)]
    run = RunSpec(name="r", mlflow=MlflowSpec(run=server.runs[0].id))

    async def asked() -> str | None:
        server.asked.clear()
        await value(Trackers(SystemClock()), run)
        assert len({each for _, each in server.asked}) == 1
        return server.asked[0][1]

    def basic(text: str) -> str:
        return "Basic " + b64encode(text.encode()).decode()

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    assert await asked() is None
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "t0k")
    assert await asked() == "Bearer t0k"
    (tmp_path / ".mlflow").mkdir()
    (tmp_path / ".mlflow" / "credentials").write_text(
        "[mlflow]\nmlflow_tracking_username = ada\nmlflow_tracking_password = f%le\n"
    )
    assert await asked() == basic("ada:f%le")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "env")
    assert await asked() == basic("ada:env")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url.replace("//", "//eve:a%40b@"))
    assert await asked() == basic("eve:a@b")


async def test_files_that_are_something_else(tmp_path: Path, trackers: Trackers) -> None:
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as to:
        to.execute("CREATE TABLE runs (x)")
    to.close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.db").write_text("no database at all, but long enough to be looked at" * 20)
    for path, kind in (
        (other, ErrorKind.BAD_ANSWER), (tmp_path / "text.db", ErrorKind.BAD_ANSWER),
        (tmp_path / "empty", ErrorKind.NOT_FOUND), (tmp_path / "none.db", ErrorKind.NOT_FOUND),
    ):  # fmt: skip
        found = await facet(trackers, RunSpec(name="r", mlflow=MlflowSpec(uri=place_of(str(path)))))
        assert found.error is not None
        assert found.error.kind is kind, path


async def test_a_folder_whose_files_are_torn_or_no_files(
    tmp_path: Path, trackers: Trackers
) -> None:
    run = trained(steps=5)
    root = folder(tmp_path / "mlruns", [run])
    metrics = root / "217" / run.id / "metrics"
    with (metrics / "train" / "loss").open("a") as file:
        file.write("nonsense\n1768032099000 0.5 9\n176803")
    os.mkfifo(metrics / "pipe")
    (metrics / "binary").write_bytes(b"\0\xff" * 100)
    (root / "217" / "junk").mkdir()
    spec = RunSpec(name="r", mlflow=MlflowSpec(uri=place_of(str(root))))
    assert [row.step for row in await rows(trackers, spec) if row.loss is not None] == [
        *range(5),
        9,
    ]
    with (metrics / "train" / "loss").open("a") as file:
        file.write("2199000 0.25 10\n")
    assert [(row.step, row.loss) for row in await rows(trackers, spec)] == [(10, 0.25)]


def test_it_is_read_through_the_commands(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = trained(status="FINISHED")
    store.put(run)
    spec = store.spec().mlflow
    assert spec is not None
    uri = f"sqlite:///{tmp_path}/mlflow.db" if store.kind == "sqlite" else str(spec.uri)
    file = tmp_path / "cockpit.toml"
    file.write_text(
        f'[[run]]\nname = "toy"\n[run.mlflow]\nuri = "{uri}"\nexperiment = "pretrain"\n'
    )
    main(["check", "--json", "--config", str(file)])
    (report,) = json.loads(capsys.readouterr().out)["runs"]
    assert report["facets"]["tracker"]["value"]["step"] == 299
    assert main(["backtest", "toy", "--json", "--config", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["last_step"] == 299


def test_a_password_does_not_belong_into_the_run_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cockpit.toml"
    file.write_text('[[run]]\nname = "t"\n[run.mlflow]\nuri = "https://a:b@mlflow.example.org"\n')
    assert main(["check", "--config", str(file)]) != 0
    assert "environment variable" in capsys.readouterr().err


PAGE = "https://mlflow.example.org/x/#/experiments/217/runs/" + "a" * 32


@pytest.mark.parametrize("kind", ["page", "sqlite", "folder"])
def test_a_run_file_can_begin_from_it(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    database(tmp_path / "mlflow.db", [trained(steps=2)])
    folder(tmp_path / "mlruns", [trained(steps=2)])
    uri = {"page": "https://mlflow.example.org/x", "sqlite": "mlflow.db", "folder": "mlruns"}[kind]
    settings = ("name=t", "job.kind=local", "job.log=run.log", "job.pid_file=run.pid")
    given = [f"--set={each}" for each in settings]
    assert main(["init", PAGE if kind == "page" else uri, *given, "--print"]) == 0
    written = tomllib.loads(capsys.readouterr().out)["run"][0]["mlflow"]
    assert written["uri"] == uri
    assert written.get("run") == ("a" * 32 if kind == "page" else None)


OWN = Path(__file__).parents[2] / ".mlflow/bin/mlflow"
MLFLOW = str(OWN) if OWN.exists() else shutil.which("mlflow")
needs_mlflow = pytest.mark.skipif(
    MLFLOW is None,
    reason="no MLflow here (850 MB): python3 -m venv .mlflow; .mlflow/bin/pip install mlflow",
)
LOGS = """
import math, mlflow, time
mlflow.set_experiment("pretrain")
with mlflow.start_run(run_name="toy"):
    mlflow.log_params({"lr": 3e-4, "optimizer.name": "adamw"})
    for step in [*range(300), *range(250, 280)]:
        time.sleep(0.005 if step in (250, 299) else 0)
        loss = math.nan if step == 150 else math.inf if step == 151 else 5 - step / 100
        mlflow.log_metrics({"train/loss": loss, "grad_norm": 1.0}, step=step)
"""


@contextmanager
def real_server(backend: str, cwd: Path, env: dict[str, str]) -> Iterator[str]:
    assert MLFLOW is not None
    port = free_port()
    words = [
        MLFLOW,
        "server",
        "--port",
        str(port),
        "--workers",
        "1",
        "--backend-store-uri",
        backend,
    ]
    with (cwd / "server.log").open("wb") as log:
        process = subprocess.Popen(
            words, cwd=cwd, env=env, stdout=log, stderr=log, start_new_session=True
        )
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 120
    try:
        while True:
            try:
                if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                assert time.monotonic() < until, (cwd / "server.log").read_text()
                time.sleep(0.2)
        yield url
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


@needs_mlflow
@pytest.mark.parametrize("kind", ["sqlite", "folder"])
def test_a_real_client_and_server(kind: str, tmp_path: Path) -> None:
    assert MLFLOW is not None
    backend = {"sqlite": f"sqlite:///{tmp_path}/mlflow.db", "folder": f"{tmp_path}/mlruns"}[kind]
    extra = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    env = {**os.environ, **extra, "MLFLOW_TRACKING_URI": backend}
    python = str(Path(MLFLOW).with_name("python"))
    subprocess.run([python, "-c", LOGS], check=True, cwd=tmp_path, env=env, capture_output=True)
    with real_server(backend, tmp_path, env) as url:
        one, two = (asyncio.run(all_of(uri)) for uri in (backend.removeprefix("sqlite://"), url))
    assert one[0] == [*range(300), *range(250, 280)]
    assert one == two


async def all_of(uri: str) -> tuple[object, ...]:
    trackers = Trackers(SystemClock())
    run = RunSpec(name="r", mlflow=MlflowSpec(uri=place_of(uri), experiment="pretrain"))
    got = await rows(trackers, run)
    told = await value(trackers, run)
    assert (told.state, told.name, told.step, told.loss) == ("finished", "toy", 279, 2.21)
    return [row.step for row in got], [(repr(row.loss), row.at) for row in got], told.config

"""The real client logs to a server of ours; file and server are read while it runs and after."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")
pytest.importorskip("wandb", reason="the W&B client is missing: make test installs it")

from cockpit.model.clock import SystemClock
from cockpit.model.facet import Facet
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.wandb.online import OnlineWandb, Wandb
from cockpit.sources.wandb.run_files import read_run
from tests.queries import queries_of
from tests.sources.wandb.fake_wandb import KEY, serving
from tests.watch.fakes import until

STEPS = 30
TRAINER = f"""
import sys, wandb
settings = wandb.Settings(
    console="off", x_disable_stats=True, x_disable_meta=True, disable_git=True,
    x_transaction_log_flush_interval=0.2,
)
run = wandb.init(
    entity="acme", project="hero", id="abc", name="hero-1", mode="online", config={{"lr": 0.1}},
    settings=settings,
)
for step in range({STEPS}):
    run.log({{"global_step": 2 * step, "train/loss": 3.0 - step / 100, "grad": {{"norm": 0.5}}}})
sys.stdin.readline()
run.log({{"global_step": {2 * STEPS}, "train/loss": float("nan")}})
run.finish()
"""


async def test_a_run_of_the_real_client(tmp_path: Path) -> None:
    with serving() as server:
        own = {"WANDB_BASE_URL": server.base, "WANDB_API_KEY": KEY, "WANDB_DIR": str(tmp_path)}
        quiet = {"WANDB_ERROR_REPORTING": "false", "WANDB_SILENT": "true"}
        trainer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", TRAINER), env={**os.environ, **own, **quiet}, cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert trainer.stdin is not None
        try:
            key = ("acme", "hero", "abc")
            await until(lambda: key in server.runs)
            url = f"{server.base}/acme/hero/runs/abc"
            online = RunSpec(name="online", wandb=WandbSpec(url=url))
            both = RunSpec(name="both", wandb=WandbSpec(url=url, dir=str(tmp_path)))
            clock = SystemClock()
            env = {"WANDB_API_KEY": KEY, "HOME": str(tmp_path)}
            wandb = Wandb(clock, server=OnlineWandb(clock, env=env))
            await until(lambda: _written(tmp_path) == 2 * STEPS - 2)
            found = await wandb.observe(queries_of([online, both]))
            _running(found["online"], found["both"], str(tmp_path))
            trainer.stdin.write(b"\n")
            await trainer.wait()
        finally:
            if trainer.returncode is None:
                trainer.kill()
                await trainer.wait()
        found = await wandb.observe(queries_of([online, both]))
        _finished(found["online"].value, found["both"].value)
        rows = [await _rows(wandb, run) for run in (online, both)]
        assert rows[0] == rows[1] and len(rows[0]) == STEPS + 1
        assert rows[0][-1].endswith("nan")
        assert server.wrong == []


def _running(online: Facet[TrackerValue], both: Facet[TrackerValue], folder: str) -> None:
    """The client streams rows every 15 s, so that the file is ahead of the server at first."""
    for facet in (online, both):
        value = facet.value
        assert value is not None and facet.known, facet.error
        assert (value.id, value.name, value.project) == ("abc", "hero-1", "hero")
        assert value.state == "running"
        assert value.config == {"lr": 0.1} and value.heartbeat_at is not None
    assert online.value is not None and (online.value.step or 0) < 2 * STEPS - 2
    assert both.value is not None and both.value.step == 2 * STEPS - 2
    assert online.source.startswith("W&B at 127.0.0.1:")
    assert both.source.startswith(f"W&B files in {folder}, ") and "127.0.0.1:" in both.source


def _finished(online: TrackerValue | None, both: TrackerValue | None) -> None:
    assert online is not None and both is not None
    assert (online.state, online.exit_code) == ("finished", None)
    assert (both.state, both.exit_code) == ("finished", 0)
    assert online.step == both.step == 2 * STEPS
    assert str(online.loss) == str(both.loss) == "nan"


def _written(folder: Path) -> int | None:
    try:
        return read_run(WandbSpec(dir=str(folder), id="abc")).value(SystemClock()).step
    except FileNotFoundError:
        return None


async def _rows(wandb: Wandb, run: RunSpec) -> list[str]:
    rows: list[Row] = []
    while True:
        chunk = await wandb.more_rows(run)
        rows += chunk.rows
        if chunk.caught_up:
            return [f"{row.step} {row.at:.3f} {row.loss}" for row in rows]

"""The installed client agrees: on the files of every version, cut and damaged ones too."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.logs.pieces import LocalLog
from cockpit.sources.wandb.decode import HISTORY, history, kind_of
from cockpit.sources.wandb.file import BLOCK, WandbLog
from cockpit.sources.wandb.online import OfflineWandb
from tests.queries import queries_of

GOLDEN = sorted((Path(__file__).parents[2] / "data" / "wandb").glob("*/*/run-*.wandb"))
LONGEST = next(path for path in GOLDEN if path.stat().st_size > 3 * BLOCK)
CLIENT = importlib.util.find_spec("wandb")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CLIENT is None, reason="wandb is not installed"),
]

TRAINER = """
import time, wandb
settings = wandb.Settings(silent=True, console="off", x_transaction_log_flush_interval=0.2)
run = wandb.init(mode="offline", project="live", id="live0001", name="live", settings=settings)
step = 0
while True:
    run.log({"global_step": 500 + step, "train/loss": 3.0 / (1 + step)})
    step += 1
    time.sleep(0.01)
"""


def inspect(path: Path, *flags: str) -> str:
    assert CLIENT is not None
    assert CLIENT.submodule_search_locations is not None
    program = Path(CLIENT.submodule_search_locations[0]) / "bin" / "wandb-core"
    words = ["leet", "inspect", "--no-observability", *flags, "--run-file", str(path)]
    done = subprocess.run(
        [program, *words, str(path.parent)], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def told_rows(path: Path) -> list[dict[str, Any]]:
    records = [json.loads(line) for line in inspect(path, "--json").splitlines()]
    return [one["history"]["item"] for one in records if one["type"] == "history"]


def plain(value: object) -> object:
    """The oracle prints what JSON cannot hold as text."""
    text = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}
    return text.get(str(value), value)


def our_rows(path: Path) -> list[dict[str, object]]:
    rows = []
    with WandbLog(LocalLog(path)) as log:
        offset, piece = -1, log.read(0, log.size)
        while piece.offset > offset:
            kinds = [kind_of(span) for span in piece.spans]
            rows += [history(found) for kind, found in kinds if kind == HISTORY]
            offset, piece = piece.offset, log.read(piece.offset, log.size)
    return [{key: plain(value) for key, value in row.items()} for row in rows]


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """One level more of what an old client wrote as objects."""
    out: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            out |= {f"{key}.{name}": inner for name, inner in flat(value).items()}
        else:
            out[key] = value
    return out


async def observed(path: Path) -> TrackerValue:
    run = RunSpec(name="hero", wandb=WandbSpec(dir=str(path)))
    found = (await OfflineWandb(SystemClock()).observe(queries_of([run])))["hero"].value
    assert found is not None
    return found


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: "-".join(path.parts[-3:-1]))
async def test_every_row_and_the_summary(path: Path) -> None:
    assert our_rows(path) == [flat(row) for row in told_rows(path)]
    summary = json.loads(inspect(path, "--summary", "--json"))
    ours = await observed(path)
    assert (ours.id, ours.name, ours.project, ours.entity) == (
        summary["run_id"],
        summary["name"],
        summary["project"],
        summary["entity"],
    )
    assert (ours.state, ours.exit_code) == (summary["state"], summary["exit_code"])
    trained = [row["global_step"] for row in told_rows(path) if "train/loss" in row]
    assert ours.step == trained[-1] == summary["summary"]["global_step"] - 1, (
        "an evaluation is last"
    )
    assert ours.last_step_at == pytest.approx(summary["summary"]["_timestamp"])
    assert ours.config.items() >= {"lr": 0.0003, "model": summary["config"]["model"]}.items()


@pytest.mark.parametrize("place", [9, 500, 20_000, BLOCK + 40, 2 * BLOCK + 100])
def test_a_flipped_byte(tmp_path: Path, place: int) -> None:
    data = bytearray(LONGEST.read_bytes())
    data[place] ^= 64
    path = tmp_path / "run-gold0001.wandb"
    path.write_bytes(bytes(data))
    assert our_rows(path) == [flat(row) for row in told_rows(path)]


@pytest.fixture
def trainer(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "WANDB_MODE": "offline", "WANDB_ERROR_REPORTING": "false"}
    process = subprocess.Popen(
        [sys.executable, "-c", TRAINER],
        cwd=tmp_path,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield process
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def test_a_real_run_is_followed_while_it_writes(
    tmp_path: Path, trainer: subprocess.Popen[bytes]
) -> None:
    source = OfflineWandb(SystemClock())
    run = RunSpec(name="live", wandb=WandbSpec(dir=str(tmp_path / "wandb"), id="live0001"))
    rows: list[Row] = []
    until = time.monotonic() + 60
    while len(rows) < 200 and time.monotonic() < until:
        more = await source.more_rows(run)
        rows = [*more.rows] if more.restarted else [*rows, *more.rows]
        await asyncio.sleep(0.05)
    trainer.kill()
    trainer.wait()
    value = (await source.observe(queries_of([run])))["live"].value
    assert [row.step for row in rows] == [*range(500, 500 + len(rows))]
    assert len(rows) >= 200
    assert rows[1].loss == 1.5
    assert value is not None
    assert (value.state, value.exit_code, value.name) == ("running", None, "live")
    assert (value.step or 0) >= 699
    assert value.producer is not None
    assert abs((value.last_step_at or 0.0) - time.time()) < 60

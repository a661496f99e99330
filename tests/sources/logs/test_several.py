"""A job has as many logs as it writes: the one that steps is shown, the others by name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from cockpit.config.file import load
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, LogValue, Phase
from cockpit.model.place import Place
from cockpit.model.run import RunSpec
from cockpit.sources.logs import remote
from cockpit.sources.logs.source import Logs
from tests.hosts.here import CallsHere

BAR = "\r {0}%|###| {0}/1000 [00:10<10:00, 1.0it/s]"


def run_file(folder: Path, log: str) -> RunSpec:
    path = folder / "cockpit.toml"
    path.write_text(f'[[run]]\nname = "r"\n[run.job]\nkind = "slurm"\nlog = {log}\n')
    return load(path).runs[0]


def asked(run: RunSpec, job_id: str = "12_3", began: float = 0.0) -> Query:
    job = JobValue(id=job_id, state="RUNNING", phase=Phase.RUNNING, started_at=began or None)
    return Query(run=run, job=job)


async def look(logs: Logs, query: Query, *others: Path) -> LogValue:
    places = {query.name: [Place("file", "", str(each)) for each in others]}
    value = (await logs.observe([query], others=places))[query.name].value
    assert value is not None
    return value


async def test_a_bar_on_standard_error_steps_and_standard_output_tells_the_loss(
    tmp_path: Path,
) -> None:
    out, err = tmp_path / "1.out", tmp_path / "1.err"
    out.write_text("submitted\n")
    err.write_text("warning: slow\n")
    logs, query = Logs(SystemClock()), asked(run_file(tmp_path, f'"{out}"'))
    value = await look(logs, query, err)
    assert (value.path, [each.path for each in value.others]) == (str(out), [str(err)])
    with err.open("a") as bar, out.open("a") as said:
        bar.write("".join(BAR.format(step) for step in (10, 11)))
        said.write("{'loss': 2.5, 'grad_norm': 0.3, 'epoch': 0.1}\n")
    value = await look(logs, query, err)
    assert (value.path, [each.path for each in value.others]) == (str(err), [str(out)])
    assert [(row.step, row.loss) for row in value.rows] == [(10, None), (11, None), (11, 2.5)]
    with out.open("a") as said:
        said.write("step 5 loss 9.9\n")
    assert (await look(logs, query, err)).path == str(err), "it goes on being shown"


async def test_a_list_with_the_job_s_numbers_and_one_file_for_each_rank(tmp_path: Path) -> None:
    began = time.time()
    for rank in range(3):
        text = "step 7 loss 2.5\n" if rank == 1 else "rank is up\n"
        (tmp_path / f"rank-12_3-{rank}.log").write_text(text)
    old = tmp_path / "rank-12_3-9.log"
    old.write_text("step 900 loss 1\n")
    os.utime(old, (began - 900, began - 900))
    (tmp_path / "12_3.err").write_text("a warning\n")
    (tmp_path / "torch" / "attempt_0" / "0").mkdir(parents=True)
    attempt = tmp_path / "torch" / "attempt_0" / "0" / "stderr.log"
    attempt.write_text("W up\n")
    run = run_file(tmp_path, '["rank-%j-%t.log", "%A_%a.err", "torch/attempt_*/*/stderr.log"]')
    value = await look(Logs(SystemClock()), asked(run, began=began))
    assert value.path == str(tmp_path / "rank-12_3-1.log"), "the rank that steps"
    names = {Path(each.path).name for each in value.others}
    assert names == {"rank-12_3-0.log", "rank-12_3-2.log", "12_3.err", "stderr.log"}


async def test_patterns_on_a_host_are_all_read_as_they_are_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MATCHED_EVERY", 0.0)
    began = time.time()
    for rank in range(3):
        text = "step 7 loss 2.5\n" if rank == 1 else "rank is up\n"
        (tmp_path / f"rank-12_3-{rank}.log").write_text(text)
    os.utime(tmp_path / "rank-12_3-0.log", (began - 900, began - 900))
    (tmp_path / "torch" / "attempt_0" / "1").mkdir(parents=True)
    attempt = tmp_path / "torch" / "attempt_0" / "1" / "stderr.log"
    attempt.write_text("W up\n")
    where = f"ssh://box{tmp_path}"
    run = run_file(tmp_path, f'["{where}/rank-%j-%t.log", "{where}/torch/attempt_*/*/stderr.log"]')
    logs, query = Logs(SystemClock(), call=CallsHere()), asked(run, began=began)
    value = await look(logs, query)
    assert value.path == f"{where}/rank-12_3-1.log", "the rank that steps"
    assert [each.path for each in value.others] == [
        f"{where}/rank-12_3-2.log",
        f"ssh://box{attempt}",
    ], "not that of a former job"
    later = tmp_path / "torch" / "attempt_1" / "0" / "stderr.log"
    later.parent.mkdir(parents=True)
    later.write_text("RuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert [each.path for each in (await look(logs, query)).others][2:] == [f"ssh://box{later}"]

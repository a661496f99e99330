"""Which rank hangs: the stacks of all ranks and NCCL's records, in the evidence of a job."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from cockpit.platforms.rank_stacks import RANKS, USUAL_STEM, ranks_text, recorder_script
from tests.platforms.conftest import HERE, Host
from tests.platforms.local.making import submission, submit, text
from tests.waiting import until

RANKED = """
import os, subprocess, sys, time
rank = "import os, subprocess, sys, time; print('up', flush=True);"
rank += "subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(120)'])"
dumps = {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": sys.argv[1]}
own = {**os.environ, **dumps}
words = [sys.executable, "-S", "-c", rank]
ranks = [subprocess.Popen(words, env={**own, "RANK": str(n)}) for n in range(4)]
time.sleep(120)
"""
SPY = """#!/bin/sh
# py-spy dump --nonblocking --pid N: rank 2 reads data, the others wait for it
rank=$(tr '\\0' '\\n' <"/proc/$4/environ" | sed -n 's/^RANK=//p')
printf 'Process %s: python train.py\\nPython v3.11.7 (/usr/bin/python3)\\n\\n' "$4"
printf 'Thread 0x7F (idle): "pin_memory"\\n    read (queue.py:1)\\n'
printf 'Thread %s (idle): "MainThread"\\n' "$4"
if [ "$rank" = 2 ]; then printf '    __getitem__ (data.py:40)\\n    main (train.py:9)\\n'
elif [ -n "$rank" ]; then
  printf '    wait (t.py:7%s)\\n' "$rank"
  printf '    all_reduce (dist.py:5)\\n    main (train.py:12)\\n'
else printf '    wait (launch.py:3)\\n'; fi
"""


def dump(*entries: tuple[int, str, str]) -> bytes:
    """A flight recorder's dump, as PyTorch pickles it."""
    rows = [
        {"collective_seq_id": number, "profiling_name": name, "state": state,
         "process_group": ("0", "default_pg"), "frames": []}
        for number, name, state in entries
    ]  # fmt: skip
    return pickle.dumps({"version": "2.9", "pg_config": {}, "entries": rows}, protocol=2)


def leave_dumps(stem: Path) -> None:
    for rank in range(4):
        Path(f"{stem}{rank}").write_bytes(LATE if rank == 2 else WAITS)


WAITS = dump((40, "nccl:all_gather", "completed"), (41, "nccl:all_reduce", "started"))
LATE = dump((40, "nccl:all_gather", "completed"))


@pytest.mark.parametrize("host", [HERE], indirect=True)
async def test_the_evidence_tells_which_rank_the_others_wait_for(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "py-spy").write_text(SPY)
    (tools / "py-spy").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    stem, run = tmp_path / "nccl_trace_rank_", host.spec()
    made = submission(run, code=RANKED)
    called = made.model_copy(update={"command": (*made.command, str(stem))})
    await submit(host.platform, run, called)
    until(lambda: text(Path(str(run.job and run.job.log))).count("up") == 4)
    leave_dumps(stem)
    live = await host.live(run)
    found = await host.platform.evidence(run, live.jobs)
    told = found[RANKS].decode().splitlines()
    node = os.uname().nodename
    assert f"rank 2 on {node} is in __getitem__ (data.py:40)" in told[0]
    assert "3 others in all_reduce (dist.py:5)" in told[0]
    assert "NCCL: rank 2: completed all, the last was nccl:all_gather #40 of 0 default_pg" in told
    assert (
        "NCCL: rank 0, rank 1, rank 3: waits (started) in nccl:all_reduce #41 of 0 default_pg"
        in told
    )
    assert told.count("    __getitem__ (data.py:40)") == 1, "no stack of what a rank has started"


def shown(dumps: Sequence[bytes], stacks: str = "") -> str:
    import base64
    import gzip

    lines = [
        f"== dump /tmp/nccl_trace_rank_{rank} ==\n{base64.b64encode(gzip.compress(each)).decode()}"
        for rank, each in enumerate(dumps)
    ]
    return ranks_text(stacks, "\n".join([*lines, ""]))


def recorded_by(script: str, usual: Path) -> str:
    words = ["sh", "-c", script.replace(USUAL_STEM, str(usual))]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_only_dumps_of_the_jobs_own_are_told(tmp_path: Path) -> None:
    usual, own = tmp_path / "usual_rank_", tmp_path / "own_rank_"
    for stem in (usual, own):
        Path(f"{stem}0").write_bytes(WAITS)
        os.utime(f"{stem}0", (time.time() - 100, time.time() - 100))
    words = ["sh", "-c", "read line"]
    named = {**os.environ, "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(own)}
    with subprocess.Popen(words, env=named, stdin=subprocess.PIPE) as job:
        told = recorded_by(recorder_script([job.pid]), usual)
        assert "own_rank_0" not in told, "it is older than the job"
        for stem in (usual, own):
            os.utime(f"{stem}0", (time.time() + 5, time.time() + 5))
        told = recorded_by(recorder_script([job.pid]), usual)
        assert "own_rank_0" in told and "usual_rank_0" not in told
        job.communicate(b"\n")


def test_an_old_dump_is_not_told_of_a_job_that_has_just_ended(tmp_path: Path) -> None:
    usual = tmp_path / "usual_rank_"
    Path(f"{usual}0").write_bytes(WAITS)
    os.utime(f"{usual}0", (time.time() - 7200, time.time() - 7200))
    with subprocess.Popen(["true"]) as job:
        pass
    assert recorded_by(recorder_script([job.pid]), usual) == ""
    Path(f"{usual}0").touch()
    told = recorded_by(recorder_script([job.pid]), usual)
    assert "usual_rank_0" in told
    assert "may be another's" in ranks_text("", told)


def test_a_dump_as_json_is_read_too() -> None:
    entry = {"record_id": 7, "profiling_name": "nccl:broadcast", "state": "scheduled"}
    assert "rank 0: waits (scheduled) in nccl:broadcast #7" in shown(
        [json.dumps({"entries": [entry]}).encode()]
    )


class Runs:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return os.system, ("touch ran",)


def test_a_dump_that_would_run_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = shown([pickle.dumps(Runs()), b"\x80", b"", pickle.dumps([1]), pickle.dumps({})])
    assert told.count("cannot be read") >= 1
    assert not (tmp_path / "ran").exists()


def test_what_is_missing_is_said_and_ras_is_kept() -> None:
    told = ranks_text("missing: py-spy is not installed there\n", "== ncclras ==\nrank 3 missing\n")
    assert told.startswith("no stack of a rank was had: missing: py-spy is not installed there")
    assert "rank 3 missing" in told.splitlines()


def test_many_ranks_are_told_in_a_line() -> None:
    waits = "    wait (x.py:{0})\n    barrier (dist.py:5)\n"
    each = '== process {0} rank {0} node n{1} ==\nThread {0} (idle): "MainThread"\n'
    stacks = [each.format(rank, rank // 8) + waits.format(rank) for rank in range(128)]
    stacks[13] = each.format(13, 1) + "    read (data.py:3)\n"
    told = ranks_text("".join(stacks), "").splitlines()
    assert told[0] == "rank 13 on n1 is in read (data.py:3), 127 others in barrier (dist.py:5)"
    assert "127 ranks: rank 0 on n0, rank 1 on n0" in told[5] and told[5].endswith("and 119 more")

"""On a host, too, a copy that was started by hand and names nothing of the run is seen (C-25)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from cockpit.platforms.local.census import census
from tests.platforms.box.making import box as platform
from tests.platforms.box.making import living, spec
from tests.sshd import Sshd, needs_sshd
from tests.waiting import until

WAIT = "import time\nopen('up', 'w').close()\ntime.sleep(60)\n"
PY = f"{sys.executable} -S"
Begin = Callable[..., int]


def ids(jobs: object) -> list[str]:
    return [job.id for job in jobs]  # type: ignore[attr-defined]


@needs_sshd
async def test_the_runs_script_by_hand_is_for_a_person(
    box: Sshd, start: Begin, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(WAIT)
    made = spec(box.host, tmp_path)
    for command in (f"{PY} train.py --resume {{checkpoint}}", "bash launch.sh"):
        run = made.model_copy(update={"resubmit": command})
        pid = start("env", "-C", str(tmp_path), *PY.split(), "train.py")
        until(lambda: (tmp_path / "up").exists())
        found = await living(platform(), run)
        assert f"pid:{pid}" in ids(found.alike) and not found.jobs


@needs_sshd
async def test_who_writes_the_log_through_tee_is_a_job(
    box: Sshd, start: Begin, tmp_path: Path
) -> None:
    (tmp_path / "x.py").write_text(WAIT)
    run = spec(box.host, tmp_path)
    log = tmp_path / "runs" / "buoy" / "run.log"
    log.parent.mkdir(parents=True)
    start("sh", "-c", f"cd {tmp_path}; {PY} x.py | tee {log}; true")
    until(lambda: (tmp_path / "up").exists() and log.exists())
    (found,) = (await living(platform(), run)).jobs
    process = census()[int(found.id.removeprefix("pid:"))]
    assert "x.py" in " ".join(process.argv)
    assert "through another program" in found.why

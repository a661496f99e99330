from __future__ import annotations

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.sources.logs.source import Logs

RUN = RunSpec(name="toy", job=JobSpec(kind="slurm"))
SLURM = SlurmPlatform(SystemClock(), Logs(SystemClock()))


def test_slurm_gets_its_comment_behind_sbatch() -> None:
    words = SLURM.formed(("env", "A=1", "/usr/bin/sbatch", "job.sh"), RUN, "toy-i001")
    assert words[2:5] == ("/usr/bin/sbatch", "--parsable", "--comment=toy-i001")
    with pytest.raises(CommandError, match="sbatch"):
        SLURM.formed(("bash", "job.sh"), RUN, "toy-i001")

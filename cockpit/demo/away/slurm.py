"""The demo on Slurm: batch jobs of one CPU, here or over ssh on a login node.

The demo's folder lies on a file system that login and compute nodes share (the home, by default),
and so does the Python.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from cockpit.demo.away import hosts
from cockpit.demo.away.site import TIME_LIMIT, Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.slurm.script import PATHS
from cockpit.runtime.shell import Completed
from cockpit.text.safe import clean

MEMORY: Final = "512M"
SPARE: Final = 300
"""Seconds by which Slurm's limit is longer than the training's own."""
_SCRIPT: Final = """\
#!/bin/sh
#SBATCH --job-name={name}
#SBATCH --output={log}
#SBATCH --open-mode=append
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem={memory}
#SBATCH --time={minutes}
#SBATCH --no-requeue
cd {code} || exit
exec {command}
"""
_SBATCH: Final = """\
command -v sbatch >/dev/null || {{ echo "sbatch is not installed, or not on PATH" >&2; exit 127; }}
exec sbatch --parsable --comment={launch_id} {options} {script}
"""
_LIVING: Final = """\
unset SQUEUE_ACCOUNT SQUEUE_NAMES SQUEUE_PARTITION SQUEUE_QOS SQUEUE_STATES SQUEUE_USERS
squeue -h --me -o '%A|%j|%T'
"""
_PERHAPS: Final = ("timed out", "Message receive", "send/recv")
"""What sbatch says when the controller may have taken the job all the same."""


class SlurmSite(Site):
    """A cluster, by the machine that its commands are run on (``None``: this one)."""

    kind: ClassVar[str] = "slurm"

    def __init__(
        self, host: str | None = None, python: str | None = None, options: str = ""
    ) -> None:
        self._host, self._python, self._options = host, python, options
        self.where = "Slurm here" if host is None else f"Slurm on {clean(host, 200)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The host, the Python and the further options of ``sbatch``."""
        return {"host": self._host, "python": self._python, "options": self._options}

    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Ask the controller for our jobs, and a login node for its Python."""
        try:
            self.living(token)
        except CannotError as error:
            advice = "; is this a login node? --host names one" if self._host is None else ""
            raise CannotError(f"{error}{advice}") from None
        python = hosts.python_of(self._host, self._python)
        if self._host is not None:
            return hosts.look(self._host, token, python)
        if shutil.which(python) is None:
            text = f"{clean(python, 200)} cannot be run here: name another one with --python"
            raise CannotError(text)
        return Ground(folder=str(layout.folder), python=python)

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Write the job scripts, and send everything where the cluster is not here."""
        for situation in situations:
            text = self._script(situation, ground)
            (layout.run(situation.name).folder / hosts.SCRIPT).write_text(text, encoding="utf-8")
        if ground.host is not None:
            hosts.send(layout, ground, situations)

    def _script(self, situation: Situation, ground: Ground) -> str:
        log = f"{ground.folder}/runs/{situation.name}/run.log"
        if any(character in log for character in ' "%\\'):
            raise CannotError(f"{ground.folder}: choose a folder without blanks, quotes, % and \\")
        return _SCRIPT.format(
            name=situation.name,
            log=log,
            memory=MEMORY,
            minutes=(TIME_LIMIT + SPARE) // 60,
            code=shlex.quote(f"{ground.folder}/code"),
            command=shlex.join(ground.words(situation)),
        )

    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return where its log lies; the job is found by its comment, the launch id."""
        folder = f"{ground.folder}/runs/{situation.name}"
        found = {"log": f"{folder}/run.log", "workdir": f"{ground.folder}/code"}
        # its script runs the trainer in its own place, without srun: a signal goes to the shell
        found["save_command"] = "scancel --batch --signal=USR1 {job_id}"
        return found | ({} if ground.host is None else {"host": ground.host})

    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the call of sbatch with the same script."""
        return ["sbatch", *self._words(), f"{ground.folder}/runs/{situation.name}/{hosts.SCRIPT}"]

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Submit the script with the launch id as its comment."""
        done = self._ran(
            _SBATCH.format(
                launch_id=shlex.quote(situation.launch_id),
                options=shlex.join(self._words()),
                script=shlex.quote(f"{ground.folder}/runs/{situation.name}/{hosts.SCRIPT}"),
            )
        )
        job_id = done.text.strip().partition(";")[0]
        if done.ok and job_id.isdecimal():
            return job_id
        error = done.err.decode("utf-8", "replace")
        perhaps = done.ok or any(sign in error for sign in _PERHAPS)
        text = f"{self.where}: sbatch: {hosts.said(done)}"
        raise (LostError if perhaps else CannotError)(text)

    def _words(self) -> list[str]:
        return shlex.split(self._options)

    def living(self, token: str) -> Mapping[str, str]:
        """Return our jobs that are named after this demo, by their ids."""
        done = hosts.asked(self._host, f"{PATHS}\n{_LIVING}")
        if not done.ok:
            raise CannotError(f"{self.where}: squeue: {hosts.said(done)}")
        rows = (line.split("|") for line in done.text.splitlines())
        named = {row[0]: row[1] for row in rows if len(row) == 3 and row[0].isdecimal()}
        return {job_id: name for job_id, name in named.items() if is_own(name, token)}

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Cancel these jobs; Slurm itself kills what has not left after its KillWait."""
        done = self._ran(f"scancel {shlex.join(ids)}")
        if not done.ok:
            raise CannotError(f"{self.where}: scancel: {hosts.said(done)}")

    def forget(self, token: str) -> None:
        """Nothing can be removed: the controller forgets by itself, accounting keeps all."""

    def clear(self, ground: Ground) -> None:
        """Remove the folder from the login node."""
        if ground.host is not None:
            hosts.remove(ground)

    def _ran(self, script: str) -> Completed:
        return hosts.ran(self._host, f"{PATHS}\n{script}")

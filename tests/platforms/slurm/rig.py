"""A whole Slurm of one machine, in a folder of its own: munged, slurmctld and slurmd, as root.

No systemd, no cgroups, no accounting. ``SLURM_CONF`` is all that a command needs to talk to it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

PROGRAMS = (
    "setpriv",
    "munged",
    "slurmctld",
    "slurmd",
    "squeue",
    "scontrol",
    "sbatch",
    "scancel",
    "sacct",
)
PACKAGES = "slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins"
PATIENCE = 120.0

CONF = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
MessageTimeout=2
KillWait=1
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/none
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=4000 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP DefMemPerCPU=10
"""


def lacking() -> str | None:
    """Return why no Slurm can be started here, and how to get one; ``None`` if it can."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        return f"no {missing[0]} here: apt-get install {PACKAGES}"
    return None if os.geteuid() == 0 else "a Slurm of one's own needs root"


class Rig:
    """The daemons, started by ``up`` and ended by ``down``; ``more`` is added to their settings."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.folder = folder
        self.more = more
        self.conf = folder / "slurm.conf"
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def up(self) -> None:
        """Start everything and wait until jobs can run."""
        for name in ("munge", "state", "spool", "jobs"):
            (self.folder / name).mkdir()
        (self.folder / "munge" / "key").write_bytes(os.urandom(128))
        (self.folder / "munge" / "key").chmod(0o400)
        names = {"folder": self.folder, "host": socket.gethostname().partition(".")[0]}
        self.conf.write_text(CONF.format(**names, controller=_port(), daemon=_port()) + self.more)
        if _newer_than_22():
            (self.folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        munge = self.folder / "munge"
        options = (
            "key-file=key",
            "socket=socket",
            "pid-file=pid",
            "log-file=log",
            "seed-file=seed",
        )
        paths = [f"--{option.replace('=', f'={munge}/')}" for option in options]
        self._start("munged", "--foreground", "--force", *paths)
        self.until(lambda: (munge / "socket").exists())
        self._start("slurmctld", "-D")
        self.until(lambda: "is UP" in self.told("scontrol", "ping"))
        self._start("slurmd", "-D")
        self.until(lambda: "idle" in self.told("sinfo", "-h", "-o", "%T"))

    def down(self) -> None:
        """End all jobs, then the daemons."""
        if "slurmctld" in self._daemons:
            self.resume()
            with suppress(AssertionError):  # what is left then goes with its daemon
                self.clear()
        for process in reversed(self._daemons.values()):
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def clear(self) -> None:
        """End all jobs and wait for it: one that is still ending holds what it had."""
        self.told("scancel", "--user=root")
        self.until(lambda: not self.told("squeue", "-h", "-t", "PD,R,CG"))

    def stop(self) -> None:
        """Let the controller hang."""
        self._daemons["slurmctld"].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the controller go on."""
        self._daemons["slurmctld"].send_signal(signal.SIGCONT)

    @property
    def controller(self) -> int:
        """The process id of the controller."""
        return self._daemons["slurmctld"].pid

    def wait_answers(self) -> None:
        """Wait until the controller answers again."""
        self.until(lambda: "is UP" in self.told("scontrol", "ping"))

    def told(self, *command: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            command, capture_output=True, text=True, env=self.environment, cwd=self.folder / "jobs",
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        return done.stdout.strip()

    def sbatch(self, *options: str, wrap: str = "sleep 60") -> str:
        """Submit a job and return its id."""
        job = self.told("sbatch", "--parsable", "--mem=10", *options, "--wrap", wrap)
        assert job.isdecimal(), f"sbatch {options} gave {job!r}"
        return job

    def wait_for(self, job: str, words: str) -> None:
        """Wait until a job is in this state, or waits for this reason."""
        seen = ""

        def there() -> bool:
            nonlocal seen
            seen = self.told("squeue", "-h", "-t", "all", "-j", job, "-o", "%T %r")
            return words in seen.split()

        self.until(there, lambda: f"job {job} is {seen}: {self.told('squeue', '-t', 'all')}")

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SLURM_CONF": str(self.conf)}

    def _start(self, *command: str) -> None:
        # whoever kills the tests ends the daemons too
        bound = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        self._daemons[command[0]] = subprocess.Popen(
            bound, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"{command[0]}.err").open("wb"), start_new_session=True,
        )  # fmt: skip

    def until(self, true: Callable[[], bool], told: Callable[[], str] | None = None) -> None:
        until = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > until:
                said = told() if told is not None else self._log()
                raise AssertionError(f"Slurm did not get there in {PATIENCE:g} s: {said}")
            time.sleep(0.05)

    def _log(self) -> str:
        log = self.folder / "slurmctld.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else "no log"


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _newer_than_22() -> bool:
    version = subprocess.run(["slurmd", "-V"], capture_output=True, text=True, check=True).stdout
    return int(version.split()[-1].partition(".")[0]) >= 23

"""The lab's real small run as a job of an ssh host: the same trainer, counted the same way.

The host is this machine behind an sshd of the test's own, so that what lives there can be counted
by its processes; every machine that acts has its own store, its own clone, its own connection.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile

from tests.e2e.lab import RUN_FILE, WANDB, Lab, Machine
from tests.sshd import Sshd


class BoxMachine(Machine):
    """One that acts on the host over a connection of its own."""

    def __init__(self, lab: BoxLab, name: str, server: Sshd) -> None:
        self.server = server
        self.runtime = tempfile.mkdtemp(prefix="ck-", dir="/tmp")
        super().__init__(lab, name, lab.folder / "root")

    def write(self, final: int = 10**6, *, tracked: bool = True) -> None:
        """Write the run file: all paths are the host's, the logbook apart."""
        command = [sys.executable, "-S", str(self.lab.trainer), str(self.root)]
        command += [str(self.lab.lives), str(final)]
        away = f"ssh://{self.server.host}{self.root}"
        text = RUN_FILE.format(
            operator="ada",
            final=final,
            root=self.root,
            code=self.lab.code,
            wandb=WANDB.format(id=self.lab.wandb),
            logbook=self.clone / "tiny.md",
            command=json.dumps(command),
        )
        text = text.replace(f'output_root = "{self.root}"', f'output_root = "{away}"')
        text = text.replace(f'["{self.root}/', f'["{away}/')
        text = text.replace('kind = "local"', f'kind = "box", host = "{self.server.host}"')
        self.config.write_text(text)

    @property
    def env(self) -> dict[str, str]:
        path = f"{self.server.root}/bin:{os.environ['PATH']}"
        return {**super().env, "PATH": path, "XDG_RUNTIME_DIR": self.runtime}


class BoxLab(Lab):
    """A lab whose trainers are started by the launcher of a host."""

    def on(self, server: Sshd, name: str) -> BoxMachine:
        return BoxMachine(self, name, server)


def halted(server: Sshd, process: subprocess.Popen[str], wait: float) -> None:
    """Stop all that serves connections, for as long as the command goes on or ``wait`` seconds."""
    server.signal(signal.SIGSTOP)
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        pass
    finally:
        server.signal(signal.SIGCONT)


def cut(server: Sshd) -> None:
    """End every connection at once; the server goes on to listen."""
    server.signal(signal.SIGKILL)

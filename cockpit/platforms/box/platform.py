"""SSH boxes, as far as this version knows them: their settings and how a session is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cockpit.model.jobs import OwnJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.box import PRIVATE
from cockpit.platforms.box.own import own_jobs
from cockpit.platforms.unsupported import Unsupported
from cockpit.runtime.ssh import run_script


class BoxPlatform(Unsupported):
    """A process or tmux session of a host (SPEC S-4); not read or acted on yet."""

    kind: ClassVar[str] = "box"
    fields: ClassVar[frozenset[str]] = frozenset(
        {"host", "session", "match", "log", "pid_file", "done_marker", "exit_file", "workdir"}
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE
    found_by_files: ClassVar[bool] = True
    bundled: ClassVar[bool] = False
    log_every: ClassVar[float | None] = 5.0

    def endpoint(self, run: RunSpec) -> str:
        """Return the host: its log, its disks and its job are asked in one trip."""
        return (run.job.host if run.job is not None else None) or f"{self.kind} here"

    async def own_jobs(self, job: JobSpec) -> Sequence[OwnJob]:
        """Return the tmux sessions of a host; raises ``CannotError``."""
        if not job.host:
            raise CannotError("name the host: box@HOST")
        return await own_jobs(run_script, job.host)

    def name_for(self, launch_id: str) -> str:
        """Return the session's name: tmux would turn these two into underscores by itself."""
        return launch_id.replace(".", "_").replace(":", "_")

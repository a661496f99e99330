"""Starts jobs on a machine, this one or an ssh host, at most once per launch id (SPEC A).

``accept`` notes that a launch id is meant, ``go`` starts its supervisor, which uses the id up
before anything runs. An answer that is lost may have been acted on: then ``look_up`` reads the
notes before it looks at the processes. Whoever is noted as starting and is not there any more never
ran. A launch that was meant and has not begun is closed by a note that is made only if there is
none; the supervisor makes the same note before it starts anything, so that one of the two comes
first, however late the other arrives.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Final

from cockpit.hosts.launches import ANSWER_WITHIN
from cockpit.hosts.link import Link, Value, ask
from cockpit.model.jobs import NamedJob, Submission
from cockpit.model.lineage import keys_of, tag_of
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.local.lookup import ID, TICKS, pid_of, root_on_host
from cockpit.platforms.local.sight import on_its_host
from cockpit.runtime.ssh import RemoteError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATTERN: Final = set("*?[")
_ASKED: Final = 20.0
"""Seconds in which a machine must have noted what is meant."""
_SPARE: Final = 5.0
"""Seconds more than a supervisor has for its answer."""


class Starting:
    """Starts jobs on one machine. ``locks_folder`` stands for the user's own."""

    def __init__(
        self, link: Link, answer_within: float = ANSWER_WITHIN, locks_folder: Path | None = None
    ) -> None:
        self._link = link
        self._within = answer_within
        self._folders = [] if locks_folder is None else [str(locks_folder)]

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that a launch could open what it opens; raises ``CannotError``."""
        await self._act(_ASKED, "try_launch", wanted=self._wanted(run, submission))

    async def accept(self, run: RunSpec, submission: Submission) -> None:
        """Note that a launch id is meant; raises as ``Platform.accept``."""
        wanted, source = self._wanted(run, submission), clean(os.uname().nodename, 80)
        await self._act(_ASKED, "accept_launch", wanted=wanted, source=source)

    async def go(self, run: RunSpec, submission: Submission) -> str:
        """Start the job detached and return ``pid:N``; raises as ``Platform.go``."""
        wanted = self._wanted(run, submission)
        session = None if run.job is None or self._link.here else run.job.session
        within = self._within
        found = await self._act(
            within + _SPARE, "begin_launch", wanted=wanted, seconds=within, session=session
        )
        if "pid" not in found:
            raise LostError(self._line(found["lost"]))
        return f"pid:{found['pid']}"

    async def adopt(self, run: RunSpec, job: NamedJob) -> None:
        """Write the pid file of a process that still is the named one; raises ``CannotError``.

        Of two runs that adopt one process at one moment, one is refused.
        """
        pid, ticks = pid_of(job.id), job.handle.get(TICKS)
        place = None if run.job is None else run.job.pid_file
        if pid is None or place is None or not on_its_host(run, place):
            raise CannotError("job.pid_file must be set: where would the process be noted?")
        if ticks is None:
            text = f"{self._link.host} does not tell when process {pid} began: nothing was noted"
            raise CannotError(text)
        asked = ask(
            "the pid file", "note_process",
            pid_file=place.path, pid=pid, ticks=int(ticks), run=run.name, folders=self._folders,
        )  # fmt: skip
        try:
            same = await self._link.act(asked, _ASKED)
        except RemoteError as error:
            noted = "cannot tell whether it was noted" if error.sent else "nothing was noted"
            raise CannotError(f"{error}; {noted}") from error
        except OSError as error:
            if error.errno == errno.ECANCELED:
                raise CannotError(self._line(f"{error.strerror}; nothing was noted")) from error
            raise CannotError(f"{place}: cannot be written: {error.strerror}") from error
        if not same:
            raise CannotError(f"process {pid} has ended meanwhile; nothing was noted")

    async def _act(self, deadline: float, function: str, **arguments: object) -> Value:
        try:
            return await self._link.act(ask("the launch", function, **arguments), deadline)
        except RemoteError as error:
            if error.sent:
                raise LostError(str(error)) from error
            raise CannotError(f"{error}; nothing was started") from error
        except OSError as error:
            words = error.strerror or str(error)
            place = f"{error.filename}: " if error.errno != errno.ECANCELED else ""
            raise CannotError(self._line(f"{place}{words}")) from error

    def _line(self, text: str) -> str:
        at = "" if self._link.here else f"{self._link.host}: "
        return at + scrub(clean(text, 400))

    def _wanted(self, run: RunSpec, submission: Submission) -> dict[str, object]:
        """Return a launch as ``cockpit.hosts.launches`` has it; raises ``CannotError``."""
        job = startable(run, submission)
        assert job.pid_file is not None and job.log is not None
        root, own = root_on_host(run), job.workdir or run.workdir
        workdir = submission.workdir or (None if own is None else own.path)
        if not workdir:
            raise CannotError("no job.workdir in cockpit.toml to run the command in")
        return {
            "command": submission.command,
            "env": submission.env,
            "log": job.log.path,
            "pid_file": job.pid_file.path,
            "exit_file": None if job.exit_file is None else job.exit_file.path,
            "cwd": workdir,
            "launch_id": submission.launch_id,
            "run": submission.run,
            "lineage": tag_of(run),
            "root": None if root is None else root.path,
            "keys": keys_of(run),
            "folders": self._folders,
        }


def launch_name(launch_id: str) -> str:
    """Return a launch id if a file can be named by it; raises ``CannotError``."""
    if not ID.fullmatch(launch_id):
        raise CannotError(f"bad launch id {clean(launch_id, 80)}")
    return launch_id


def startable(run: RunSpec, submission: Submission) -> JobSpec:
    """Return the job's settings if they name all that a start needs; raises ``CannotError``."""
    job = run.job
    if job is None:
        raise CannotError("no job in cockpit.toml to start")
    for key, place in (("pid_file", job.pid_file), ("log", job.log)):
        if place is None or not on_its_host(run, place) or _PATTERN & set(place.path):
            where = job.host or "this machine"
            raise CannotError(f"job.{key} must name a file of {where}: where would it be noted?")
    launch_name(submission.launch_id)
    if not all(_NAME.fullmatch(name) for name in submission.env):
        raise CannotError("the environment holds a name that no shell knows")
    if not keys_of(run):
        raise CannotError("no output root and no W&B id in cockpit.toml to guard the run by")
    return job

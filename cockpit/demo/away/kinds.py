"""The kinds of system: Slurm, Ray and ssh hosts."""

from __future__ import annotations

import asyncio
import base64
import gzip
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from cockpit.config.file import load
from cockpit.demo.away import site
from cockpit.demo.away.site import TIME_LIMIT, Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, RUN
from cockpit.model.clock import SystemClock
from cockpit.model.lineage import tag_of
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray.answers import RayJob, jobs_in, mapping, phase_of
from cockpit.platforms.ray.head import COMMAND_WITHIN, RayTokens, base_of
from cockpit.platforms.slurm.ask import PATHS
from cockpit.runtime.http import Answer, Http, HttpError, LostAnswerError, server_message
from cockpit.runtime.shell import Completed
from cockpit.text.safe import clean

_BOX_SCRIPT: Final = """\
#!/bin/sh
# Starts the training and waits for it: run.pid names its process, run.exit says how it ended.
cd {code} || exit
{launch_id}=${{1:?}} {run}={name} {lineage}={tag}
export {launch_id} {run} {lineage}
{command} </dev/null >>{folder}/run.log 2>&1 &
pid=$!
printf '%s\\n' "$pid" "launch_id=${launch_id}" >{folder}/run.pid.new
mv {folder}/run.pid.new {folder}/run.pid
wait "$pid"
echo "$?" >{folder}/run.exit.new && mv {folder}/run.exit.new {folder}/run.exit
"""
_START: Final = """\
cd {folder} || exit
mkdir .launched-{launch_id} || exit 76
start=nohup; command -v setsid >/dev/null && start=setsid
$start sh job.sh {launch_id} </dev/null >/dev/null 2>&1 &
n=0; while [ ! -s run.pid ] && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
head -n 1 run.pid
"""
_UNLOCK: Final = """\
cd "/tmp/cockpit-locks-$(id -u)" || exit 0
grep -ls -- {pattern} ./*.lock | while read -r f; do rm -f "$f"; done
"""
_BOX_LIVING: Final = 'LC_ALL=C ps -u "$(id -u)" -o pid= -o args='


class BoxSite(Site):
    """An ssh host, by the name that the user's own ssh knows it by."""

    kind: ClassVar[str] = "box"

    def __init__(self, host: str, python: str | None = None) -> None:
        self._host, self._python = host, python
        self.where = clean(host, 200)

    @property
    def settings(self) -> dict[str, Any]:
        """The host and its Python."""
        return {"host": self._host, "python": self._python}

    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Ask the host for its Python."""
        return site.look(self._host, token, site.python_of(self._host, self._python))

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Write the scripts that start the trainings, and send everything."""
        specs = {run.name: run for run in load(layout.run_file).runs}
        for situation in situations:
            text = _BOX_SCRIPT.format(
                code=shlex.quote(f"{ground.folder}/code"),
                folder=shlex.quote(_folder(situation, ground)),
                name=situation.name,
                tag=shlex.quote(tag_of(specs[situation.name])),
                command=shlex.join(ground.words(situation)),
                launch_id=LAUNCH_ID,
                run=RUN,
                lineage=LINEAGE,
            )
            (layout.run(situation.name).folder / site.SCRIPT).write_text(text, encoding="utf-8")
        site.send(layout, ground, situations)

    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return the files that tell of the training."""
        folder = _folder(situation, ground)
        files = {
            name: f"{folder}/run.{end}"
            for name, end in (("log", "log"), ("pid_file", "pid"), ("exit_file", "exit"))
        }
        words = {"workdir": f"{ground.folder}/code", "save_signal": "USR1"}
        return {"host": self._host, **files, **words}

    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the training command."""
        return list(ground.words(situation))

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Start the training detached; return its process id there."""
        script = _START.format(
            folder=shlex.quote(_folder(situation, ground)), launch_id=situation.launch_id
        )
        done = site.ran(self._host, script)
        pid = done.text.strip()
        if done.ok and pid.isdecimal():
            return pid
        text = f"{self.where}: {situation.name} was not started: {site.last_error(done)}"
        raise LostError(text)

    def living(self, token: str) -> Mapping[str, str]:
        """Return our processes whose command line names a run of this demo, by process id."""
        done = site.asked(self._host, _BOX_LIVING)
        if not done.ok:
            raise CannotError(f"{self.where}: ps: {site.last_error(done)}")
        rows = (line.split() for line in done.text.splitlines())
        named = {words[0]: _run_of(words[1:]) for words in rows if words and words[0].isdecimal()}
        return {pid: name for pid, name in named.items() if is_own(name, token)}

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Send a signal to exactly these processes."""
        number = signal.SIGTERM if gently else signal.SIGKILL
        site.ran(self._host, f"kill -{number} {shlex.join(ids)} 2>/dev/null; :")

    def forget(self, token: str) -> None:
        """Nothing is remembered but what lies in the folder."""

    def clear(self, ground: Ground) -> None:
        """Remove the folder from the host, and what its runs' locks have left."""
        site.remove(ground)
        pattern = f"^launch_id=demo-[a-z]*-{ground.folder.rpartition('-')[2]}-i"
        site.ran(self._host, _UNLOCK.format(pattern=shlex.quote(pattern)))


def _folder(situation: Situation, ground: Ground) -> str:
    return f"{ground.folder}/runs/{situation.name}"


def _run_of(words: Sequence[str]) -> str:
    """Return the run that a training's command line names, empty for any other process."""
    if "cockpit.demo.trainer" not in words or "--config" not in words[:-1]:
        return ""
    parts = words[words.index("--config") + 1].split("/")
    return parts[-2] if parts[-1] == "config.json" and len(parts) > 1 else ""


MEMORY: Final = "512M"
SPARE: Final = 300
"""Seconds by which Slurm's limit is longer than the training's own."""
_JOB_SCRIPT: Final = """\
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
_JOB_LIVING: Final = """\
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
        python = site.python_of(self._host, self._python)
        if self._host is not None:
            return site.look(self._host, token, python)
        if shutil.which(python) is None:
            text = f"{clean(python, 200)} cannot be run here: name another one with --python"
            raise CannotError(text)
        return Ground(folder=str(layout.folder), python=python)

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Write the job scripts, and send everything where the cluster is not here."""
        for situation in situations:
            text = self._script(situation, ground)
            (layout.run(situation.name).folder / site.SCRIPT).write_text(text, encoding="utf-8")
        if ground.host is not None:
            site.send(layout, ground, situations)

    def _script(self, situation: Situation, ground: Ground) -> str:
        log = f"{ground.folder}/runs/{situation.name}/run.log"
        if any(character in log for character in ' "%\\'):
            raise CannotError(f"{ground.folder}: choose a folder without blanks, quotes, % and \\")
        return _JOB_SCRIPT.format(
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
        return ["sbatch", *self._words(), f"{ground.folder}/runs/{situation.name}/{site.SCRIPT}"]

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Submit the script with the launch id as its comment."""
        done = self._ran(
            _SBATCH.format(
                launch_id=shlex.quote(situation.launch_id),
                options=shlex.join(self._words()),
                script=shlex.quote(f"{ground.folder}/runs/{situation.name}/{site.SCRIPT}"),
            )
        )
        job_id = done.text.strip().partition(";")[0]
        if done.ok and job_id.isdecimal():
            return job_id
        error = done.err.decode("utf-8", "replace")
        perhaps = done.ok or any(sign in error for sign in _PERHAPS)
        text = f"{self.where}: sbatch: {site.last_error(done)}"
        raise (LostError if perhaps else CannotError)(text)

    def _words(self) -> list[str]:
        return shlex.split(self._options)

    def living(self, token: str) -> Mapping[str, str]:
        """Return our jobs that are named after this demo, by their ids."""
        done = site.asked(self._host, f"{PATHS}\n{_JOB_LIVING}")
        if not done.ok:
            raise CannotError(f"{self.where}: squeue: {site.last_error(done)}")
        rows = (line.split("|") for line in done.text.splitlines())
        named = {row[0]: row[1] for row in rows if len(row) == 3 and row[0].isdecimal()}
        return {job_id: name for job_id, name in named.items() if is_own(name, token)}

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Cancel these jobs; Slurm itself kills what has not left after its KillWait."""
        done = self._ran(f"scancel {shlex.join(ids)}")
        if not done.ok:
            raise CannotError(f"{self.where}: scancel: {site.last_error(done)}")

    def forget(self, token: str) -> None:
        """Nothing can be removed: the controller forgets by itself, accounting keeps all."""

    def clear(self, ground: Ground) -> None:
        """Remove the folder from the login node."""
        if ground.host is not None:
            site.remove(ground)

    def _ran(self, script: str) -> Completed:
        return site.ran(self._host, f"{PATHS}\n{script}")


PROBE_WITHIN: Final = 60.0
"""Seconds within which a head must have run the smallest of jobs."""
LOOK_EVERY: Final = 1.0
FORGOTTEN_WITHIN: Final = 30.0
QUIET: Final = 3
"""Looks in a row that show none of its jobs, until a demo is forgotten."""
DEADLINE: Final = 15.0
CAP: Final = 64_000_000
SEES: Final = "the-demo-is-seen"
MARK: Final = "the-demo-says-"
"""Begins what a job prints itself: Ray's own lines between them hold the whole entrypoint."""
DONE: Final = "done"
_MARKED: Final = """\
{{ (
{script}
) 2>&1; echo; echo done; }} | sed "s/^/{mark}$((6*7)) /"
"""
_PROBE: Final = """\
grep -q {token} {journal} 2>/dev/null && {own} -c pass && echo {sees} && exit
{look}"""
_SHIP: Final = """\
umask 077; mkdir -p {folder} && cd {folder} && exec {python} -c '
import base64, io, sys, tarfile
tarfile.open(fileobj=io.BytesIO(base64.b64decode(sys.argv[1]))).extractall()
' {files}"""


class RaySite(Site):
    """A Ray head, by its dashboard's address."""

    kind: ClassVar[str] = "ray"

    def __init__(self, address: str, python: str | None = None) -> None:
        self._address, self._python = address, python
        try:
            self._base = base_of(address)
        except ValueError:
            text = f"--address {clean(address, 120)!r}: expected a head's dashboard"
            raise CannotError(f"{text}, as http://127.0.0.1:8265") from None
        self.where = f"Ray at {clean(self._base, 200)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The address and the Python."""
        return {"address": self._address, "python": self._python}

    def look(self, layout: DemoLayout, token: str) -> Ground:
        """Run the smallest of jobs there: it tells whether this folder and Python are seen."""
        own, theirs = self._python or sys.executable, self._python or "python3"
        script = _PROBE.format(
            token=token,
            journal=shlex.quote(str(layout.away)),
            own=shlex.quote(own),
            sees=SEES,
            look=site.look_script(theirs),
        )
        log = self._done(f"demo-probe-{token}", script, token)
        if log.strip() == SEES:
            return Ground(folder=str(layout.folder), python=own)
        ground = site.ground_of(log, self.where, token, theirs)
        return replace(ground, tracker=False, seen=False)

    def _done(self, name: str, script: str, token: str) -> str:
        """Run a small job to its end, and return what it printed; nothing of it stays listed."""
        self._submit(name, _MARKED.format(mark=MARK, script=script))
        try:
            log = self._log_of_ended(name)
        finally:
            self.stop_all(token, PROBE_WITHIN)
            self.forget(token)
        own = f"{MARK}42 "
        said = [line.removeprefix(own) for line in log.splitlines() if line.startswith(own)]
        if not said or said.pop() != DONE:
            last = clean(log.strip().rpartition("\n")[2], 300)
            raise CannotError(f"{self.where}: a small job has not run there: {last}")
        return "".join(f"{line}\n" for line in said)

    def _log_of_ended(self, name: str) -> str:
        until = time.monotonic() + PROBE_WITHIN
        while time.monotonic() < until:
            job = next((each for each in self._jobs() if each.submission_id == name), None)
            if job is not None and phase_of(job).terminal:
                return str(self._sent("GET", f"/api/jobs/{quote(name)}/logs").get("logs"))
            time.sleep(LOOK_EVERY)
        text = f"{self.where}: a job that does nothing has not run within {PROBE_WITHIN:.0f} s"
        raise CannotError(f"{text}: are its workers busy?")

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Send the files by a job, where the head does not see the folder."""
        if ground.seen:
            return
        token = situations[0].name.rpartition("-")[2]
        script = _SHIP.format(
            folder=shlex.quote(ground.folder),
            python=shlex.quote(ground.python),
            files=base64.b64encode(gzip.compress(site.packed(layout, situations))).decode(),
        )
        log = self._done(f"demo-ship-{token}", script, token)
        if log.strip():
            text = f"{self.where}: {ground.folder} cannot be written: {clean(log.strip(), 300)}"
            raise CannotError(text)

    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return the head; the job is found by its submission id, the launch id."""
        return {"address": self._base}

    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the entrypoint, as words."""
        return ["sh", "-c", self._entrypoint(situation, ground)]

    def _entrypoint(self, situation: Situation, ground: Ground) -> str:
        code = shlex.quote(f"{ground.folder}/code")
        return f"cd {code} && exec {shlex.join(ground.words(situation))}"

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Submit the training; its launch id is the submission id."""
        return self._submit(situation.launch_id, self._entrypoint(situation, ground))

    def _submit(self, name: str, entrypoint: str) -> str:
        document = {"entrypoint": entrypoint, "submission_id": name}
        return str(self._sent("POST", "/api/jobs/", document).get("submission_id") or name)

    def living(self, token: str) -> Mapping[str, str]:
        """Return the jobs that are named after this demo, by their submission ids."""
        return {name: name for name, job in self._own(token).items() if phase_of(job).lives}

    def _own(self, token: str) -> dict[str, RayJob]:
        named = {each.submission_id or "": each for each in self._jobs()}
        return {name: job for name, job in named.items() if is_own(name, token)}

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Stop these jobs; Ray itself kills what has not left after a few seconds."""
        for each in ids:
            self._asked("POST", f"/api/jobs/{quote(each)}/stop", missing=True)

    def forget(self, token: str) -> None:
        """Delete the jobs from the head's list; it keeps their logs for as long as it runs.

        One whose driver's end the head notes just then is listed again: it is looked for anew.
        """
        until, quiet = time.monotonic() + FORGOTTEN_WITHIN, 0
        while quiet < QUIET and time.monotonic() < until:
            own = self._own(token)
            for name in own:
                self._asked("DELETE", f"/api/jobs/{quote(name)}", missing=True)
            quiet = 0 if own else quiet + 1
            time.sleep(LOOK_EVERY)

    def clear(self, ground: Ground) -> None:
        """Remove the folder there by a job, if it is not this machine's."""
        if ground.seen:
            return
        token, folder = ground.folder.rpartition("-")[2], shlex.quote(ground.folder)
        log = self._done(f"demo-sweep-{token}", f"rm -rf -- {folder}", token)
        if log.strip():
            text = f"{self.where}: {ground.folder} is not removed: {clean(log.strip(), 300)}"
            raise CannotError(text)

    def _jobs(self) -> tuple[RayJob, ...]:
        try:
            return jobs_in(self._asked("GET", "/api/jobs/").json())
        except (ValueError, HttpError) as error:
            raise CannotError(f"{self.where}: {clean(str(error), 300)}") from None

    def _sent(self, method: str, path: str, document: object = None) -> Mapping[str, object]:
        try:
            return mapping(self._asked(method, path, document).json())
        except HttpError as error:
            raise LostError(f"{self.where}: {clean(str(error), 300)}") from None

    def _asked(
        self, method: str, path: str, document: object = None, *, missing: bool = False
    ) -> Answer:
        """Return an answer that is one; ``missing``: that there is no such job is none either."""
        try:
            answer = asyncio.run(self._send(method, path, document))
        except LostAnswerError as error:
            raise LostError(f"{self.where}: {clean(str(error), 300)}") from None
        except HttpError as error:
            raise CannotError(f"{self.where}: {clean(str(error), 300)}") from None
        if answer.status == 200 or (missing and answer.status in (400, 404)):
            return answer
        advice = {
            401: "; put its token into RAY_AUTH_TOKEN",
            403: "; is RAY_AUTH_TOKEN the one of this cluster?",
            404: "; --address must be the dashboard of a Ray head",
        }.get(answer.status, "")
        text = (
            f"{self.where} answers with status {answer.status}{server_message(answer.body)}{advice}"
        )
        raise CannotError(text)

    async def _send(self, method: str, path: str, document: object) -> Answer:
        clock = SystemClock()
        http = Http(clock, deadline=DEADLINE, cap=CAP)
        job = JobSpec(kind="ray", address=self._address)
        headers = await RayTokens(clock, COMMAND_WITHIN).headers(job)
        if method == "GET":
            return await http.get(f"{self._base}{path}", headers)
        return await http.send(method, f"{self._base}{path}", document, headers)

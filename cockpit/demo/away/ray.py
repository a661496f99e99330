"""The demo on Ray: submissions over REST, whose drivers run on the head's machine.

Where that machine sees this one's folder (a shared file system, or the same machine) they train
there. Else a job carries the files into a folder of its own there and another one removes it:
then logs and states are all that can be seen from here.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final
from urllib.parse import quote

from cockpit.demo.away import hosts
from cockpit.demo.away.site import Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.model.clock import SystemClock
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.ray.answers import RayJob, jobs_in, mapping
from cockpit.platforms.ray.head import base_of
from cockpit.platforms.ray.states import phase_of
from cockpit.platforms.ray.token import Tokens
from cockpit.runtime.http import Answer, Http, HttpError, LostAnswerError, told
from cockpit.text.safe import clean

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
            look=hosts.look_script(theirs),
        )
        log = self._done(f"demo-probe-{token}", script, token)
        if log.strip() == SEES:
            return Ground(folder=str(layout.folder), python=own)
        ground = hosts.ground_of(log, self.where, token, theirs)
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
                return str(self._told("GET", f"/api/jobs/{quote(name)}/logs").get("logs"))
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
            files=base64.b64encode(gzip.compress(hosts.packed(layout, situations))).decode(),
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
        return str(self._told("POST", "/api/jobs/", document).get("submission_id") or name)

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

    def _told(self, method: str, path: str, document: object = None) -> Mapping[str, object]:
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
        text = f"{self.where} answers with status {answer.status}{told(answer.body)}{advice}"
        raise CannotError(text)

    async def _send(self, method: str, path: str, document: object) -> Answer:
        clock = SystemClock()
        http = Http(clock, deadline=DEADLINE, cap=CAP)
        headers = await Tokens(clock).headers(JobSpec(kind="ray", address=self._address))
        if method == "GET":
            return await http.get(f"{self._base}{path}", headers)
        return await http.send(method, f"{self._base}{path}", document, headers)

"""One Ray head over REST on its dashboard's port, and the token that it wants.

Every failure is an ``HttpError``.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.command import Tokens
from cockpit.platforms.ray.answers import (
    RayJob,
    Supervisor,
    is_closing,
    job_of,
    jobs_in,
    mapping,
    resources,
    seconds,
    state_rows,
    supervisors_in,
)
from cockpit.platforms.table import PlaceClock
from cockpit.runtime.http import Answer, Http, HttpError, LostAnswerError, date_of, server_message
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean

COMMAND_WITHIN: Final = 3.0
FILE_WITHIN: Final = 1.0
_LONGEST: Final = 16_384


class RayTokens(Tokens):
    """Finds the headers of a request: as the run file says, else as Ray's own client does."""

    async def own(self) -> str | None:
        """Return the token of Ray's own variable, else of its file."""
        token = os.environ.get("RAY_AUTH_TOKEN", "").strip()
        if token:
            return token
        try:
            found = await offload(_read_file, deadline=FILE_WITHIN)
        except (OSError, RuntimeError, TimeoutError):  # no such file, or no home
            return None
        return found.decode("utf-8", "replace").strip() or None


def _read_file() -> bytes:
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path("~/.ray/auth_token").expanduser()
    with open_regular(str(path)) as (fd, _):
        return os.pread(fd, _LONGEST, 0)


CAP: Final = 64_000_000
"""Bytes of one answer: each failed job of a list carries up to 20 kB of its log."""
PATIENCE: Final = 5.0
"""Seconds that a head has for the list of its jobs at first: ``check`` gives a place 6 s."""
MOST_PATIENCE: Final = 15.0
"""Seconds that it gets at most where it was too slow before: a watch gives a place 20 s."""
PROBE: Final = 0.5
"""Seconds for the version of a head whose jobs did not answer."""
ACT_WITHIN: Final = 20.0
"""Seconds for the answer to what changes something; a first submit takes a head some of them."""
NO_SUCH_JOB: Final = b"does not exist"
"""How Ray says that it has no such job; a page that is not there at all is no such answer."""
RECENT: Final = 60.0
"""Seconds for which a list serves to tell which node a driver is on: that never changes."""
TAIL_WITHIN: Final = 4.0
LARGE: Final = 300_000
"""Bytes from which an answer is read into values in a thread."""
REFUSALS: Final = {
    401: (
        ErrorKind.UNAUTHORIZED, "wants a token",
        "name the variable with its token in job.token_env",
    ),
    403: (ErrorKind.FORBIDDEN, "refuses the token", "is it the token of this cluster?"),
    404: (
        ErrorKind.NOT_FOUND, "has no such page", "job.address must be the dashboard of a Ray head",
    ),
}  # fmt: skip
"""What a status means, and what a person can do."""
_SESSION: Final = re.compile(r"session_(\d{4})-(\d\d)-(\d\d)_(\d\d)-(\d\d)-(\d\d)")
"""Such as ``session_2026-03-11_08-41-07_123456_1``."""


class Head:
    """One head, as the runs name it that share an address and a way to authenticate."""

    def __init__(self, base: str, job: JobSpec, http: Http, tokens: Tokens, clock: Clock) -> None:
        self.base = base
        self.name = f"Ray {clean(urlsplit(base).netloc.rpartition('@')[2], 200)}"
        self.clock = PlaceClock()
        self._job = job
        self._http = http
        self._acts = Http(clock, deadline=ACT_WITHIN)  # a new connection for each: none is stale
        self._tokens = tokens
        self._clock = clock
        self._patience = PATIENCE
        self._listed: tuple[float, tuple[RayJob, ...]] | None = None
        self._asking: asyncio.Task[tuple[RayJob, ...]] | None = None

    async def recent_jobs(self) -> tuple[RayJob, ...]:
        """Return the list as it was last asked for, within ``RECENT`` seconds; else ask for it.

        What Ray says of the jobs' states is not kept.
        """
        if self._listed is not None and self._clock.monotonic() - self._listed[0] < RECENT:
            return self._listed[1]
        return await self.shared_jobs()

    async def shared_jobs(self) -> tuple[RayJob, ...]:
        """Return all jobs, by the answer that is awaited already if there is one."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self.jobs())
            self._asking.add_done_callback(_retrieve_error)
        return await asyncio.shield(self._asking)

    async def jobs(self) -> tuple[RayJob, ...]:
        """Return all jobs that the head lists now, but for those that only close an id."""
        jobs = tuple(job for job in await self.ever() if not is_closing(job))
        brief = tuple(job._replace(message="") for job in jobs)  # 20 kB of log in each that failed
        self._listed = (self._clock.monotonic(), brief)
        return jobs

    async def ever(self) -> tuple[RayJob, ...]:
        """Return whatever the head lists, what only closes an id included."""
        try:
            answer = await self._get("/api/jobs/", self._patience)
        except HttpError as error:
            if error.kind is ErrorKind.TIMEOUT:
                raise await self._silent() from None
            raise
        try:
            return jobs_in(await self._document(answer))
        except ValueError as error:
            raise self._bad(str(error)) from None

    async def job(self, job_id: str) -> tuple[RayJob | None, object]:
        """Return one job, and the document that it was read from; raises ``HttpError``."""
        answer = await self._get(f"/api/jobs/{quote(job_id, safe='')}", PATIENCE)
        document = await self._document(answer)
        return job_of(document), document

    async def version(self, within: float = PATIENCE) -> tuple[str, str | None]:
        """Return Ray's version, and when the head began (as its own clock and zone have it)."""
        document = mapping(await self._document(await self._get("/api/version", within)))
        said = clean(document.get("ray_version"), 40)
        if not said:
            raise self._bad("what answers there is no Ray dashboard")
        found = _SESSION.search(clean(document.get("session_name"), 200))
        return said, (None if found is None else "{}-{}-{} {}:{}:{}".format(*found.groups()))

    async def session(self) -> str:
        """Return what the head calls itself since it began, empty where it does not tell.

        A head that has started again has forgotten its jobs, unless its memory is kept elsewhere:
        then it goes by its former name.
        """
        answer = await self._get("/api/version", PATIENCE)
        return clean(mapping(await self._document(answer)).get("session_name"), 200)

    async def find(self, submission_id: str) -> RayJob | None:
        """Return the job of this submission id, whatever it does; ``None`` if there is none now.

        Raises ``HttpError`` where this is not known.
        """
        headers = await self._tokens.headers(self._job)
        url = f"{self.base}/api/jobs/{quote(submission_id, safe='')}"
        answer = await self._http.get(url, headers, deadline=PATIENCE)
        if answer.status == 404 and NO_SUCH_JOB in answer.body:
            return None
        job = job_of(await self._document(self._checked(answer, headers)))
        if job is None:
            raise self._bad("the answer is no job")
        return job if job.submission_id == submission_id else None

    async def submit(self, document: Mapping[str, Any]) -> None:
        """Post a submission once; returns when the head says that it has taken it in.

        Raises ``LostAnswerError`` where it may have come or may come yet: of a server error too,
        which the head also gives for what comes later. ``HttpError``: it was never sent.
        """
        answer = await self._sent("POST", "/api/jobs/", document)
        try:
            told_id = mapping(answer.json()).get("submission_id")
        except HttpError:
            told_id = None
        if answer.status != 200 or told_id != document["submission_id"]:
            raise self._unclear(answer)

    async def stop_job(self, submission_id: str) -> bool:
        """Ask for the end of one job, once; false where the head says that there is none to end.

        Raises as ``submit`` does.
        """
        path = f"/api/jobs/{quote(submission_id, safe='')}/stop"
        answer = await self._sent("POST", path)
        if answer.status == 404 and NO_SUCH_JOB in answer.body:
            return False
        if answer.status != 200:
            raise self._unclear(answer)
        return mapping(await self._document(answer)).get("stopped") is True

    async def _sent(self, method: str, path: str, document: object = None) -> Answer:
        """Send what changes something, once; raises as ``submit`` does."""
        headers = await self._tokens.headers(self._job)
        answer = await self._acts.send(method, f"{self.base}{path}", document, headers)
        return self._checked(answer, headers) if answer.status in (401, 403) else answer

    def _unclear(self, answer: Answer) -> LostAnswerError:
        text = f"{self.name} answered with status {answer.status}{server_message(answer.body)}"
        return LostAnswerError(ErrorKind.BAD_ANSWER, text, status=answer.status)

    async def supervisors(self) -> dict[str, Supervisor]:
        """Return the actors that run jobs' drivers, by submission id: one request for all."""
        query = [("detail", "true"), ("limit", "10000"), ("filter_keys", "class_name")]
        query += [("filter_predicates", "="), ("filter_values", "JobSupervisor")]
        return supervisors_in(await self._state(f"/api/v0/actors?{urlencode(query)}"))

    async def starts(self, actors: Mapping[str, str]) -> dict[str, float]:
        """Return when the drivers of these actors (id by submission id) began, on our clock."""
        path = f"/logical/actors?{urlencode({'ids': ','.join(actors.values())})}"
        found = mapping(mapping(mapping(await self._state(path)).get("data")).get("actors"))
        began = {
            name: seconds(mapping(found.get(actor)).get("startTime"))
            for name, actor in actors.items()
        }
        return {name: self.clock.ours(at) for name, at in began.items() if at is not None}

    async def nodes(self) -> list[dict[str, float]]:
        """Return what each node that lives has of each resource, in all."""
        rows = map(mapping, state_rows(await self._state("/api/v0/nodes?detail=true&limit=10000")))
        return [
            resources(row.get("resources_total")) for row in rows if row.get("state") == "ALIVE"
        ]

    async def autoscaler(self) -> Mapping[str, object]:
        """Return what the autoscaler reports, empty where there is no report."""
        data = mapping(mapping(await self.cluster()).get("data"))
        return mapping(mapping(data.get("clusterStatus")).get("autoscalerReport"))

    async def cluster(self) -> object:
        """Return what the head says of its nodes and of what is wanted of them, as it came."""
        return await self._state("/api/cluster_status")

    async def summaries(self) -> list[Mapping[str, object]]:
        """Return the health of all nodes, as the dashboard has gathered it: one request."""
        data = mapping(mapping(await self._state("/nodes?view=summary")).get("data"))
        rows = data.get("summary")
        return [mapping(row) for row in rows] if isinstance(rows, list) else []

    async def tail(self, node: str, filename: str, lines: int) -> bytes:
        """Return the last lines of a file of a node's log folder; raises ``HttpError``.

        A missing file or node is a server error with Ray; it is asked for once.
        """
        query = urlencode({"node_id": node, "filename": filename, "lines": str(lines)})
        headers = await self._tokens.headers(self._job)
        try:
            async with asyncio.timeout(TAIL_WITHIN):
                answer = await self._http.send(
                    "GET", f"{self.base}/api/v0/logs/file?{query}", headers=headers
                )
        except TimeoutError:
            text = f"{self.name}: no log within {TAIL_WITHIN:.0f} s"
            raise HttpError(ErrorKind.TIMEOUT, text) from None
        if "html" in self._checked(answer, headers).headers.get("content-type", ""):
            raise self._bad("a web page came instead of the log: a proxy or a login?")
        return answer.body

    async def _silent(self) -> HttpError:
        """Return what it means that the jobs did not answer in time, and be more patient."""
        waited = self._patience
        self._patience = min(MOST_PATIENCE, self._patience * 2)
        text = f"{self.name}: no answer about its jobs within {waited:.0f} s"
        try:
            version, _ = await self.version(PROBE)
        except HttpError:
            return HttpError(ErrorKind.TIMEOUT, text)
        hint = f"{text}, though the dashboard of Ray {version} answers: its GCS hangs or is gone"
        return HttpError(ErrorKind.TIMEOUT, hint)

    async def _state(self, path: str) -> object:
        return await self._document(await self._get(path, PATIENCE))

    async def _get(self, path: str, within: float) -> Answer:
        headers = await self._tokens.headers(self._job)
        answer = await self._http.get(f"{self.base}{path}", headers, deadline=within)
        return self._checked(answer, headers)

    def _checked(self, answer: Answer, sent: Mapping[str, str]) -> Answer:
        """Return an answer that is one; raises ``HttpError`` for what the head refuses.

        ``sent`` are the headers of the request.
        """
        self.clock.learn(date_of(answer.headers), self._clock.now())
        status = answer.status
        if status == 200:
            return answer
        if status in (401, 403):
            self._tokens.refused(self._job, sent)
        unexpected = (ErrorKind.BAD_ANSWER, f"answers with status {status}", "")
        kind, what, advice = REFUSALS.get(status, unexpected)
        text = f"{self.name} {what}{server_message(answer.body)}{f'; {advice}' if advice else ''}"
        raise HttpError(kind, text, status=status)

    async def _document(self, answer: Answer) -> Any:  # noqa: ANN401 - its reader checks it
        if len(answer.body) < LARGE:
            return answer.json()
        try:
            return await offload(answer.json, deadline=MOST_PATIENCE)
        except TimeoutError:
            raise self._bad("the answer is too long to be read") from None

    def _bad(self, text: str) -> HttpError:
        return HttpError(ErrorKind.BAD_ANSWER, f"{self.name}: {text}")


def _retrieve_error(task: asyncio.Task[tuple[RayJob, ...]]) -> None:
    """Take note of how it ended: nobody may wait for it any more."""
    if not task.cancelled():
        task.exception()


def base_of(address: str) -> str:
    """Return the address that requests begin with; raises ``ValueError`` with one line."""
    text = address.strip()
    if "://" not in text:
        text = f"http://{text}"
    try:
        parts = urlsplit(text)
        named = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number
        named = False
    if not named:
        hint = "expected the dashboard's, as http://127.0.0.1:8265"
        raise ValueError(f"job.address is {clean(address, 120)!r}; {hint}")
    return text.rstrip("/")

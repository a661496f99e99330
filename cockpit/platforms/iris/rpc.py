"""An Iris controller over its HTTP RPC (Connect, JSON): its address, its token, its methods."""

from __future__ import annotations

import asyncio
import importlib
import ipaddress
import re
import shutil
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.command import Tokens, auth_of
from cockpit.platforms.iris import answers
from cockpit.runtime.http import Answer, Http, HttpError, date_of, server_message
from cockpit.sources.logs.pieces import LocalLog
from cockpit.text.safe import clean

COMMAND: Final = 10.0
"""Seconds that a token command is given."""
BIGGEST: Final = 1 << 20
USERS: Final = "~/.config/marin/clusters"
IN_TREE: Final = "lib/iris/config"
IN_PACKAGE: Final = "lib/python3*/site-packages/iris/config"
_NAME: Final = re.compile(r"[\w.-]{1,100}")
_TUNNEL: Final = "keep a tunnel open (iris --cluster {0} cluster dashboard) and set controller_url"


def endpoint_of(job: JobSpec) -> str:
    """Return the name of the system that answers for a job: one for all spellings of an address."""
    if job.controller_url is not None:
        return f"iris {base_of(job.controller_url)}"
    return f"iris {job.cluster or 'nowhere'}"


def base_of(url: str) -> str:
    """Return an address in its one spelling: scheme and host in lower case, no slash at the end."""
    parts = urlsplit(url.strip())
    return f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def address_of(job: JobSpec) -> str:
    """Return the address of a job's controller; blocking, raises ``HttpError``."""
    if job.controller_url is not None:
        base = base_of(job.controller_url)
        if urlsplit(base).scheme in ("http", "https") and urlsplit(base).hostname:
            return base
        text = f"job.controller_url {clean(base, 200)} is not an address; expected http://host:port"
        raise HttpError(ErrorKind.NOT_FOUND, text)
    if job.cluster is None:
        text = "neither job.controller_url nor job.cluster says which controller to ask"
        raise HttpError(ErrorKind.NOT_FOUND, text)
    name = clean(job.cluster, 200)
    found = _config_file(job)
    document = _read(found, name)
    url = _at(document, "auth", "iap", "url")
    if isinstance(url, str) and urlsplit(url).scheme == "https":
        return base_of(url)
    port = _at(document, "controller", "local", "port")
    if isinstance(port, int) and 0 < port < 65536:
        return f"http://127.0.0.1:{port}"
    text = f"cluster {name} ({found}) names no address of its own: {_TUNNEL.format(found.stem)}"
    raise HttpError(ErrorKind.NOT_FOUND, text)


def _config_file(job: JobSpec) -> Path:
    name = job.cluster or ""
    tried = list(_candidates(name, None if job.workdir is None else job.workdir.local))
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        where = ", ".join(dict.fromkeys(str(path.parent) for path in tried)) or "nowhere"
        text = f"no configuration of cluster {clean(name, 200)} in {where}: set controller_url"
        raise HttpError(ErrorKind.NOT_FOUND, text)
    return found


def _candidates(name: str, workdir: str | None) -> Iterator[Path]:
    """Yield where a cluster's configuration may lie, in the order in which Iris looks."""
    start = Path(workdir) if workdir is not None else Path.cwd()
    path = Path(name).expanduser()
    if "/" in name or path.suffix in (".yaml", ".yml"):
        yield path if path.is_absolute() else start / path
        return
    if not _NAME.fullmatch(name):
        return
    checkouts = (each / IN_TREE for each in (start, *start.parents))
    checkout = next((each for each in checkouts if each.is_dir()), None)
    program = shutil.which("iris")  # its package has configurations, too
    own = Path(program).parent.parent.glob(IN_PACKAGE) if program is not None else ()
    for folder in (Path(USERS).expanduser(), *([checkout] if checkout else ()), *own):
        yield folder / f"{name}.yaml"
        yield folder / f"{name}.yml"


def _read(path: Path, name: str) -> object:
    try:
        yaml: Any = importlib.import_module("yaml")
        with LocalLog(path).open() as file:
            return yaml.safe_load(file.read(0, BIGGEST))
    except ImportError:
        why = "there is no YAML parser: set controller_url"
    except OSError as error:
        why = f"cannot be read: {(error.strerror or 'no').lower()}"
    except (yaml.YAMLError, ValueError, RecursionError):
        why = "is not valid YAML"
    raise HttpError(ErrorKind.NOT_FOUND, f"the configuration of cluster {name} ({path}) {why}")


def _at(document: object, *names: str) -> object:
    for name in names:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def remedy_of(job: JobSpec) -> str:
    """Return what a person can do about a token that is missing or refused."""
    auth = auth_of(job)
    if auth is None:
        return "set job.auth, or log in (iris --cluster … login) and name its token's command"
    if auth.token_command is not None:
        return "run job.auth.token_command by hand and check what it prints"
    return f"export a fresh token as {auth.token_env}"


def _private(address: str) -> bool:
    """Tell whether what is sent there stays between the two: encrypted, or on a private network."""
    parts = urlsplit(address)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_private
    except ValueError:
        return False


CONTROLLER: Final = "iris.cluster.ControllerService"
ENDPOINTS: Final = "iris.cluster.EndpointService"
LOGS: Final = "proxy/system.log-server/finelog.logging.LogService"
ANYBODY: Final = "anonymous"
"""Who we are where nobody asked: through a tunnel, an administrator over everyone's jobs."""
PAGE: Final = 500
MOST_PAGES: Final = 11
"""Pages of a list: the controller refuses offsets beyond 5000."""
IDS: Final = 500
"""Job ids in one question for states."""
LINES: Final = 1000
"""Lines in one answer, where no other number is asked for."""
_MOVED: Final = frozenset({301, 302, 303, 307, 308})


class MissingMethodError(HttpError):
    """The controller does not know this method: it is of another generation."""


class Controller:
    """One controller as one person sees it. ``job`` says how to reach it."""

    def __init__(self, http: Http, tokens: Tokens, job: JobSpec, address: str) -> None:
        self.address = address
        self._http = http
        self._tokens = tokens
        self._job = job
        self.deadline: float | None = None
        """Seconds that one request may take with all its attempts; ``None``: the client's own."""
        self.server_date: float | None = None
        """The controller's clock in its newest answer, in seconds since the epoch."""

    async def states(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the state of each job that the controller knows."""
        parts = [list(ids[at : at + IDS]) for at in range(0, len(ids), IDS)]
        asked = (self.call("GetJobState", {"jobIds": part}) for part in parts)
        found: dict[str, str] = {}
        for document in await asyncio.gather(*asked):
            found.update(answers.states_of(document))
        return found

    async def jobs(
        self, prefix: str, state: str = "", pages: int = MOST_PAGES
    ) -> list[answers.Job]:
        """Return the jobs whose ids begin with ``prefix``, newest first; ``state`` filters them.

        A prefix is one of text: the caller keeps what is really below.
        """
        found: list[answers.Job] = []
        for page in range(pages):
            query: dict[str, object] = {"jobIdPrefix": prefix, "limit": PAGE}
            query |= {"sortField": "JOB_SORT_FIELD_DATE", "sortDirection": "SORT_DIRECTION_DESC"}
            query |= {"offset": page * PAGE} if page else {}
            query |= {"stateFilter": state} if state else {}
            document = await self.call("ListJobs", {"query": query})
            listed = answers.jobs_of(document)
            found += listed
            if document.get("hasMore") is not True or not listed:
                break
        return found

    async def jobs_named(self, name: str) -> list[answers.Job]:
        """Return the jobs of whatever user that bear a name, by what comes last in their ids."""
        query: dict[str, object] = {"nameFilter": name, "limit": PAGE}
        listed = answers.jobs_of(await self.call("ListJobs", {"query": query}))
        return [job for job in listed if job.id.count("/") == 2 and job.id.endswith(f"/{name}")]

    async def terminate(self, job_id: str) -> None:
        """End exactly this job and what lies below it; the same again changes nothing.

        Raises ``LostAnswerError`` when it may have been heard.
        """
        self._expect(await self.change("TerminateJob", {"jobId": job_id}), "TerminateJob")

    async def change(
        self, method: str, body: Mapping[str, object], *, service: str = CONTROLLER
    ) -> Answer:
        """Send what changes something, once; the answer may be a refusal, below status 500.

        Raises ``LostAnswerError`` when it may have been done, ``HttpError`` when it surely was
        not.
        """
        url, headers = f"{self.address}/{service}/{method}", await self._headers()
        return await self._http.send("POST", url, body, headers)

    async def post(self, path: str, headers: Mapping[str, str]) -> Answer:
        """Post to a page behind the controller's proxy, once; raises as ``change`` does."""
        sent = {**await self._headers(), **headers}
        return await self._http.send("POST", f"{self.address}/{quote(path)}", None, sent)

    async def status(self, job_id: str) -> Mapping[str, Any]:
        """Return all that the controller tells of one job, its request included."""
        return await self.call("GetJobStatus", {"jobId": job_id})

    async def tasks(self, job_id: str) -> list[answers.Task]:
        """Return the tasks of one job."""
        return answers.tasks_of(await self.call("ListTasks", {"jobId": job_id}))

    async def highlights(self, task_id: str) -> list[str]:
        """Return the log lines that the controller takes for the cause of a task's failure."""
        return answers.highlights_of(await self.call("GetTaskStatus", {"taskId": task_id}))

    async def user(self) -> tuple[str, str]:
        """Return as whom the controller sees us, and in which role."""
        found = await self.call("GetCurrentUser", {})
        return clean(found.get("userId") or "nobody", 80), clean(found.get("role") or "no role", 80)

    async def empty_groups(self) -> set[str]:
        """Return the scale groups that have no slice at all, not even one on its way."""
        status = (await self.call("GetAutoscalerStatus", {})).get("status", {})
        groups = status.get("groups", []) if isinstance(status, dict) else []
        return {str(group.get("name")) for group in groups if _is_empty(group)}

    async def endpoints(self, prefix: str) -> list[str]:
        """Return the names of what jobs offer behind the controller's proxy.

        Raises ``MissingMethodError`` before October 2026.
        """
        document = await self.call("ListEndpoints", {"prefix": prefix}, service=ENDPOINTS)
        found = document.get("endpoints", [])
        each = [one.get("name") for one in found if isinstance(one, dict)] if found else []
        return [name for name in each if isinstance(name, str)]

    async def has_endpoint_service(self) -> bool:
        """Tell whether the controller is of October 2026 or later."""
        try:
            await self.endpoints("/cockpit/")
        except MissingMethodError:
            return False
        return True

    async def backends(self) -> list[str]:
        """Return the kind of each backend that places tasks, an empty word where none is given.

        Raises ``MissingMethodError`` before October 2026.
        """
        found = (await self.call("ListBackends", {})).get("backends", [])
        return [_text_field(each, "kind") for each in found] if isinstance(found, list) else []

    async def peers(self) -> list[str]:
        """Return the names of the controllers that this one may hand jobs on to."""
        found = (await self.call("ListPeers", {})).get("peers", [])
        return [_text_field(each, "peerId") or "a peer" for each in found or ()]

    async def on_kubernetes(self) -> bool:
        """Tell whether the controller has a Kubernetes cluster: without one it tells nothing."""
        return bool(await self.call("GetKubernetesClusterStatus", {}))

    async def lines(
        self,
        source: str,
        cursor: int | None = None,
        *,
        since: float | None = None,
        lines: int = LINES,
    ) -> tuple[list[answers.IrisLogLine], int]:
        """Return the lines of all tasks whose keys begin with ``source``, and the next cursor.

        Without a cursor the newest ones, with one what came after it, oldest first.
        """
        body: dict[str, object] = {"source": source, "matchScope": "MATCH_SCOPE_PREFIX"}
        body |= {"maxLines": lines}
        body |= {"tail": True} if cursor is None else {"cursor": str(cursor)}
        body |= {} if since is None else {"sinceMs": str(int(since * 1000))}
        return answers.lines_of(await self.call("FetchLogs", body, service=LOGS))

    async def page(self, path: str) -> Answer | None:
        """Return a page behind the controller's proxy, ``None`` where there is none."""
        url = f"{self.address}/{quote(path)}"
        limit = self.deadline
        answer = await self._answered(lambda sent: self._http.get(url, sent, deadline=limit))
        if answer.status == 404:
            return None
        self._expect(answer, path)
        return answer

    async def call(
        self, method: str, body: Mapping[str, object], *, service: str = CONTROLLER
    ) -> dict[str, Any]:
        """Return the document that a method answers with; raises ``HttpError``."""
        url = f"{self.address}/{service}/{method}"
        limit = self.deadline
        answer = await self._answered(
            lambda sent: self._http.query(url, body, sent, deadline=limit)
        )
        self._expect(answer, method)
        found = answer.json()
        if not isinstance(found, dict):
            raise HttpError(ErrorKind.BAD_ANSWER, f"{answer.host}: {method} answered no document")
        self.server_date = date_of(answer.headers) or self.server_date
        return found

    async def _answered(self, ask: Callable[[Mapping[str, str]], Awaitable[Answer]]) -> Answer:
        """Return the answer; a kept token that is refused is made again, once."""
        for last in (False, True):
            headers = await self._headers()
            try:
                answer = await ask(headers)
            except HttpError as error:
                if error.status not in _MOVED:
                    raise
                if not self._tokens.refused(self._job, headers) or last:
                    # A log-in page is what a proxy in front answers with.
                    text = f"{self.address} asks to log in: {remedy_of(self._job)}"
                    raise HttpError(ErrorKind.UNAUTHORIZED, text, status=error.status) from None
                continue
            if answer.status != 401 or not self._tokens.refused(self._job, headers) or last:
                return answer
        raise AssertionError("the last attempt returns or raises")

    async def _headers(self) -> dict[str, str]:
        if auth_of(self._job) is not None and not _private(self.address):
            text = f"{self.address} is neither https nor a private address: no token is sent there"
            raise HttpError(ErrorKind.UNAUTHORIZED, text)
        return await self._tokens.headers(self._job)

    def _expect(self, answer: Answer, method: str) -> None:
        """Raise for an answer of another status than 200, with the server's own words."""
        status, host, said = answer.status, answer.host, server_message(answer.body)
        if status == 200:
            return
        kind, text = ErrorKind.BAD_ANSWER, f"{host} answered {method} with {status}{said}"
        if status == 401:
            kind = ErrorKind.UNAUTHORIZED
            text = f"{host} does not accept us{said}: {remedy_of(self._job)}"
        elif status == 403:
            kind, text = ErrorKind.FORBIDDEN, f"{host} does not allow {method}{said}"
        elif status == 404 and b'"code"' not in answer.body[:400]:
            text = f"{host} has no {method}: is this the address of an Iris controller?"
            raise MissingMethodError(ErrorKind.NOT_FOUND, text, status=status)
        elif status == 404:
            kind = ErrorKind.NOT_FOUND
        raise HttpError(kind, text, status=status)


def controllers(clock: Clock) -> Callable[[Http, JobSpec], Controller]:
    """Return what reaches controllers; it raises ``HttpError`` where one cannot be asked at all."""
    tokens = Tokens(clock, COMMAND)
    return lambda http, job: Controller(http, tokens, job, address_of(job))


def _text_field(found: object, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value if isinstance(value, str) else ""


def _is_empty(group: object) -> bool:
    counts = group.get("sliceStateCounts", {}) if isinstance(group, dict) else None
    return isinstance(counts, dict) and not any(counts.values())

"""One cluster's API over HTTPS: what is read, and what is sent once.

What is read raises ``HttpError``; the server's own refusal is an ``ApiError`` with its status and
reason. What changes something also raises ``CannotError`` where nothing was sent, and
``LostError`` where the answer was lost: it may have been done.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlencode

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.access import Access, Credentials, find_access
from cockpit.platforms.kubernetes.objects import Object, ObjectKind
from cockpit.runtime.http import Answer, Http, HttpError, LostAnswerError, date_of
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

CAP: Final = 64_000_000
WITHIN: Final = 20.0
"""Seconds for the answer to what changes something."""
PATIENCE: Final = 5.0
"""Seconds for what is read, at first: ``check`` gives a place 6 s; a watch 20 s."""
MOST_PATIENCE: Final = 15.0
"""The same where the server was too slow before."""
FILES_WITHIN: Final = 3.0
KEEP: Final = 90.0
STEADY: Final = 30.0
"""Seconds by which the server's clock may be off before that is said."""
UNREADABLE: Final = "what it answers is not as Kubernetes describes it"
ROLE: Final = "docs/kubernetes.md has the role to ask for"
NO_RIGHT: Final = " cannot "
"""In a refusal (403) for want of a right; a quota, a policy or an end is refused without it."""
PATCHES: Final = {
    "merge": "application/merge-patch+json", "json": "application/json-patch+json",
}  # fmt: skip
_KINDS: Final = {
    401: ErrorKind.UNAUTHORIZED, 403: ErrorKind.FORBIDDEN, 404: ErrorKind.NOT_FOUND,
}  # fmt: skip


class ApiError(HttpError):
    """The server has refused: nothing was done. ``reason`` is its own word (``AlreadyExists``)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(_KINDS.get(status, ErrorKind.BAD_ANSWER), message, status=status)
        self.reason = reason


class Cluster:
    """One cluster, as the runs reach it that share a context and a namespace.

    Nothing is read or asked before the first request.
    """

    def __init__(self, job: JobSpec, clock: Clock) -> None:
        self.name = f"Kubernetes {clean(job.context or 'current context', 200)}"
        self.skew = 0.0
        """The server's clock minus ours (s), as its last answer told."""
        self._job = job
        self._clock = clock
        self._patience = PATIENCE
        self._moves: str | None = None
        self._opening = asyncio.Lock()
        self._access: Access | None = None
        self._credentials: Credentials | None = None
        self._http: Http | None = None

    @property
    def steady_skew(self) -> float:
        """The skew where it is worth correcting times by, else 0."""
        return self.skew if abs(self.skew) > STEADY else 0.0

    async def namespace(self) -> str:
        """Return the namespace of the job: the run file's, else the context's."""
        return (await self._opened()).namespace

    async def moves(self) -> str:
        """Return why the run file may mean another cluster or namespace later; empty if not."""
        await self._opened()
        return self._moves or ""

    async def get(self, path: str, **query: str | int) -> Object:
        """Return an object, or a list with all its pages."""
        found = self._document(await self._read(path, query))
        while more := (found.get("metadata") or {}).get("continue"):  # it was cut at ``limit``
            page = self._document(await self._read(path, {**query, "continue": more}))
            found = {**page, "items": [*found["items"], *page["items"]]}
        return found

    async def changes(self, path: str, version: str, **query: str | int) -> list[Object]:
        """Return the events (``type``, ``object``) of a list since its ``version``, within 1 s.

        The server ends the answer itself: so it is known that no other event came until now.
        Raises ``ApiError`` 410 where the version is too old: list again.
        """
        query |= {"watch": 1, "resourceVersion": version, "timeoutSeconds": 1}
        answer = await self._read(path, {**query, "allowWatchBookmarks": "true"})
        try:
            events = [json.loads(line) for line in answer.body.splitlines() if line.strip()]
        except ValueError:
            text = f"{self.name}: the list of changes is not JSON"
            raise HttpError(ErrorKind.BAD_ANSWER, text) from None
        for event in events:
            if event.get("type") == "ERROR":
                status = event.get("object") or {}
                raise self._refusal(status, int(status.get("code") or 0))
        return events

    async def serves(self, row: ObjectKind) -> bool:
        """Tell whether a kind is installed: what is not is refused as what may not be listed."""
        try:
            found = await self.get(f"/apis/{row.group}/{row.version}")
        except ApiError as error:
            return error.kind is not ErrorKind.NOT_FOUND
        return any(each["name"] == row.plural for each in found.get("resources") or ())

    def _document(self, answer: Answer) -> Object:
        """Return the object in an answer; raises ``HttpError`` for anything else."""
        found = answer.json()
        if isinstance(found, dict) and isinstance(found.get("items", []), list):
            return found
        raise HttpError(ErrorKind.BAD_ANSWER, f"{self.name}: {UNREADABLE}")

    async def text(self, path: str, **query: str | int) -> bytes:
        """Return what is no document: a log."""
        return (await self._read(path, query)).body

    async def review(self, document: Object, path: str) -> Object:
        """Return the answer to a POST that only asks, such as whether we may do something."""
        return self._document(await self._asked("POST", path, document))

    async def post(self, path: str, body: Object) -> Object:
        """Create an object, once."""
        return await self._sent("POST", path, body, "application/json")

    async def patch(
        self, path: str, body: object, kind: Literal["merge", "json"] = "merge"
    ) -> Object:
        """Change an object, once."""
        return await self._sent("PATCH", path, body, PATCHES[kind])

    async def delete(self, path: str, body: Object) -> Object:
        """Delete an object, once; ``body`` holds the preconditions and the propagation."""
        return await self._sent("DELETE", path, body, "application/json")

    async def _opened(self) -> Access:
        async with self._opening:
            if self._access is None:
                try:
                    access = await offload(find_access, self._job, deadline=FILES_WITHIN)
                except TimeoutError:
                    text = f"{self.name}: the kubeconfig was not read in {FILES_WITHIN:g} s"
                    raise HttpError(ErrorKind.TIMEOUT, text) from None
                self.name = f"Kubernetes {clean(access.context, 200)}"
                self._job = self._job.model_copy(  # a kubeconfig that is read again moves nothing
                    update={"context": access.context, "namespace": access.namespace}
                )
                self._moves = access.moves if self._moves is None else self._moves
                self._access, self._credentials = access, Credentials(access, self._clock)
                self._http = None
            return self._access

    async def _headers(self, access: Access) -> tuple[Http, dict[str, str]]:
        """Return the connections and the header of a request, both as the credentials are now."""
        assert self._credentials is not None
        async with self._opening:
            before = self._credentials.pair
            headers = await self._credentials.headers()
            if self._http is None or self._credentials.pair != before:
                route = access.route(self._credentials.pair)
                more = {"deadline": WITHIN, "cap": CAP, "keep": KEEP}
                self._http = Http(self._clock, route=route, **more)  # type: ignore[arg-type]
        return self._http, headers

    async def _read(self, path: str, query: Mapping[str, str | int]) -> Answer:
        return await self._asked("GET", f"{path}?{urlencode(query)}" if query else path, None)

    async def _asked(self, method: str, path: str, document: object) -> Answer:
        """Return the answer to what only reads; with a new token where the former has expired."""
        for last in (False, True):
            access = await self._opened()
            http, headers = await self._headers(access)
            url = f"{access.server}{path}"
            try:
                if method == "GET":
                    answer = await http.get(url, headers, deadline=self._patience)
                else:
                    answer = await http.query(url, document, headers, deadline=self._patience)
            except HttpError as error:
                if error.kind is ErrorKind.TIMEOUT:
                    self._patience = min(MOST_PATIENCE, 2 * self._patience)
                raise
            if answer.status != 401 or last or not self._may_ask_again():
                break
        return self._checked(answer)

    async def _sent(self, method: str, path: str, body: object, form: str) -> Object:
        for last in (False, True):
            try:
                access = await self._opened()
                http, headers = await self._headers(access)
                typed = {**headers, "content-type": form}
                answer = await http.send(method, f"{access.server}{path}", body, typed)
            except LostAnswerError as error:
                raise LostError(f"{self.name}: {error}") from None
            except HttpError as error:
                raise CannotError(f"{error}; nothing was sent") from None
            if answer.status != 401 or last or not self._may_ask_again():
                break
        try:
            self._checked(answer)
            return self._document(answer)
        except ApiError as error:
            if error.status is None or error.status < 500:
                raise
            # a store, a webhook or a proxy did not answer the server in time: it may be done
            raise LostError(str(error)) from None
        except HttpError as error:
            raise LostError(f"{self.name}: {error}") from None

    def _may_ask_again(self) -> bool:
        """Forget the token that was refused; tell whether another may be had."""
        return self._credentials is not None and self._credentials.refused()

    def _checked(self, answer: Answer) -> Answer:
        date = date_of(answer.headers)
        if date is not None:
            self.skew = date - self._clock.now()
        if answer.status < 300:
            return answer
        try:
            document = answer.json()
        except HttpError:
            document = None
        raise self._refusal(document if isinstance(document, dict) else {}, answer.status)

    def _refusal(self, status: Object, code: int) -> ApiError:
        """Return the server's refusal as one sentence."""
        said = shown(status.get("message") or "it tells nothing more", 300)
        reason = clean(status.get("reason"), 60)
        if code == 401:
            remedy = "check the kubeconfig" if self._access is None else self._access.remedy
            text = f"{self.name} does not accept who we are (401): {remedy}"
            self._access = None  # read again by the next request: it may be renewed by then
        elif code == 403:
            text = f"{self.name} does not allow it: {said}" + (
                f"; {ROLE}" if NO_RIGHT in said else ""
            )
        elif code == 410:
            text = f"{self.name} has forgotten the list's version (410): {said}"
        else:
            text = f"{self.name}: {said} ({code}{f' {reason}' if reason else ''})"
        return ApiError(code, reason, text)

"""A GitHub on this machine: it keeps state, checks every request, and misbehaves on order."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from tests.records.openapi import Description

DESCRIPTION = Description()
STAMP = "2026-01-10T08:00:00Z"
OWNER, REPO = "ada", "runs"


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


class Reply(NamedTuple):
    status: int
    document: Any = None
    headers: dict[str, str] = {}  # noqa: RUF012


class Trouble(NamedTuple):
    """What to do wrong with the next requests of ``method`` whose path ends in ``end``.

    ``acts`` says whether the request is acted upon; then comes ``reply``, or, without one, the
    connection is closed after ``wait`` seconds without any answer. ``late`` acts only then.
    """

    method: str
    end: str
    acts: bool = False
    reply: Reply | None = None
    wait: float = 0.0
    late: bool = False


class FakeGitHub:
    """``broken`` lists every request and answer that is not as GitHub describes it."""

    def __init__(self) -> None:
        self.issues: dict[int, dict[str, Any]] = {}
        self.comments: dict[int, list[dict[str, Any]]] = {}
        self.labels = {"experiment"}
        self.pushes = True
        self.token: str | None = None
        self.locked = False
        self.asked: list[Request] = []
        self.broken: list[str] = []
        self.troubles: list[Trouble] = []
        self.before: Callable[[Request], None] = lambda request: None
        self.base = ""
        self.now: Callable[[], float] | None = None
        """Its own clock, which it then shows in every answer."""
        self._next = 1000
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        port = self._server.sockets[0].getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in list(self._writers):
            writer.close()
        await asyncio.sleep(0)

    def url(self, number: int) -> str:
        return f"https://github.com/{OWNER}/{REPO}/issues/{number}"

    def add_issue(self, title: str = "Hero run: toy", body: str = "", **more: Any) -> int:
        number = len(self.issues) + 1
        issue = DESCRIPTION.example("issue")
        issue |= {
            "id": self._number(), "number": number, "title": title, "body": body,
            "state": "open", "html_url": self.url(number), "comments": 0, "labels": [],
            "created_at": STAMP, "updated_at": STAMP, "locked": False, **more,
        }  # fmt: skip
        issue.pop("pull_request", None)
        self.issues[number] = issue | more
        self.comments[number] = []
        return number

    def add_comment(self, number: int, body: str, **more: Any) -> dict[str, Any]:
        comment = DESCRIPTION.example("issue-comment")
        key = self._number()
        comment |= {"id": key, "body": body, "html_url": f"{self.url(number)}#issuecomment-{key}"}
        comment |= more
        self.comments[number].append(comment)
        self.issues[number]["comments"] += 1
        self.issues[number]["updated_at"] = "2026-01-11T08:00:00Z"
        return comment

    def bodies(self, number: int = 1) -> list[str]:
        return [comment["body"] for comment in self.comments[number]]

    def count(self, method: str, end: str = "") -> int:
        return sum(r.method == method and r.path.endswith(end) for r in self.asked)

    def _number(self) -> int:
        self._next += 1
        return self._next

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while (request := await _read(reader)) is not None:
                if not await self._handle(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _handle(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; False closes the connection."""
        self.asked.append(request)
        self.before(request)
        trouble = self._trouble(request)
        acts = trouble is None or trouble.acts
        reply = self._reply(request) if acts and not (trouble and trouble.late) else None
        if trouble is not None:
            await asyncio.sleep(trouble.wait)
            if trouble.late:
                self._reply(request)
            reply = trouble.reply
        if reply is None:
            return False
        if self.now is not None:
            date = formatdate(self.now(), usegmt=True)
            reply = reply._replace(headers={**reply.headers, "date": date})
        _write(writer, reply)
        await writer.drain()
        return True

    def _trouble(self, request: Request) -> Trouble | None:
        for trouble in self.troubles:
            if trouble.method == request.method and request.path.endswith(trouble.end):
                self.troubles.remove(trouble)
                return trouble
        return None

    def _reply(self, request: Request) -> Reply:
        path = request.path
        wrong = list(DESCRIPTION.request(request.method, path, request.query, request.body))
        wrong += _wrong_headers(request)
        self.broken += [f"request {request.method} {path}: {line}" for line in wrong]
        if wrong:
            document = {"message": "Validation Failed", "documentation_url": "https://x"}
            return Reply(422, document)
        reply = self._refusal(request) or self._act(request)
        faults = DESCRIPTION.answer(request.method, path, reply.status, reply.document)
        self.broken += [f"answer to {request.method} {path}: {line}" for line in faults]
        return reply

    def _refusal(self, request: Request) -> Reply | None:
        given = request.headers.get("authorization")
        if given is not None and self.token is not None and given != f"Bearer {self.token}":
            return Reply(401, _said("Bad credentials"))
        if request.method != "GET" and given is None:
            return Reply(401, _said("Requires authentication"))
        if self.locked and request.method == "POST":
            return Reply(403, _said("Unable to create comment because issue is locked."))
        return None

    def _act(self, request: Request) -> Reply:
        operation = DESCRIPTION.operation(request.method, request.path)
        assert operation is not None
        given = operation.given
        if (given["owner"], given["repo"]) != (OWNER, REPO):
            return Reply(404, _said("Not Found"))
        number = int(given.get("issue_number", 0))
        document = json.loads(request.body) if request.body else {}
        if "comment_id" in given:
            return self._delete(int(given["comment_id"]))
        if not number:
            return self._list(request) if request.method == "GET" else self._create(document)
        if number not in self.issues:
            return Reply(404, _said("Not Found"))
        if request.path.endswith("/comments"):
            if request.method == "POST":
                return Reply(201, self.add_comment(number, document["body"]))
            since = request.query.get("since", "")
            found = [each for each in self.comments[number] if each["updated_at"] >= since]
            return _paged(request, self.base, found)
        if request.method == "PATCH":
            self.issues[number] |= document
        return self._issue(request, self.issues[number])

    def _issue(self, request: Request, issue: dict[str, Any]) -> Reply:
        tag = f'"{hashlib.sha1(json.dumps(issue).encode()).hexdigest()}"'
        if request.headers.get("if-none-match") == tag:
            return Reply(304)
        return Reply(200, issue, {"etag": tag})

    def _list(self, request: Request) -> Reply:
        wanted = request.query.get("state", "open")
        found = [issue for issue in self.issues.values() if issue["state"] == wanted]
        found.sort(key=lambda issue: issue["number"], reverse=True)
        return _paged(request, self.base, found)

    def _create(self, document: dict[str, Any]) -> Reply:
        names = document.get("labels", []) if self.pushes else []
        self.labels |= set(names)
        labels = [
            {
                "id": 1, "node_id": "x", "url": "https://api.github.com/x", "name": name,
                "description": None, "color": "ededed", "default": False,
            }
            for name in names
        ]  # fmt: skip
        number = self.add_issue(document["title"], document.get("body", ""), labels=labels)
        return Reply(201, self.issues[number])

    def _delete(self, key: int) -> Reply:
        for comments in self.comments.values():
            comments[:] = [comment for comment in comments if comment["id"] != key]
        return Reply(204)


@asynccontextmanager
async def running() -> AsyncIterator[FakeGitHub]:
    """A GitHub that has to agree with every request that it was sent."""
    fake = FakeGitHub()
    await fake.start()
    try:
        yield fake
    finally:
        await fake.stop()
    assert fake.broken == []


def _said(message: str) -> dict[str, str]:
    return {"message": message, "documentation_url": "https://docs.github.com/rest"}


def _wrong_headers(request: Request) -> list[str]:
    wanted = {"accept": "application/vnd.github+json", "x-github-api-version": "2022-11-28"}
    if request.body:
        wanted["content-type"] = "application/json"
    wrong = [name for name, value in wanted.items() if request.headers.get(name) != value]
    return wrong + [name for name in ("user-agent",) if not request.headers.get(name)]


def _paged(request: Request, base: str, items: list[dict[str, Any]]) -> Reply:
    size = int(request.query.get("per_page", 30))
    page = int(request.query.get("page", 1))
    last = max(1, -(-len(items) // size))
    headers = {}
    if page < last:
        at = f"{base}{request.path}?per_page={size}&page="
        headers["link"] = f'<{at}{page + 1}>; rel="next", <{at}{last}>; rel="last"'
    return Reply(200, items[(page - 1) * size : page * size], headers)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    first = (await reader.readline()).decode("latin-1").split()
    if len(first) != 3:
        return None
    headers = {}
    while line := (await reader.readline()).decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    parts = urlsplit(first[1])
    return Request(first[0], parts.path, dict(parse_qsl(parts.query)), headers, body)


def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    body = b"" if reply.document is None else json.dumps(reply.document).encode()
    lines = [f"HTTP/1.1 {reply.status} X", f"content-length: {len(body)}"]
    if reply.status in (204, 304):
        lines.pop()
    lines += [f"{name}: {value}" for name, value in reply.headers.items()]
    writer.write("\r\n".join([*lines, "content-type: application/json", "", ""]).encode() + body)

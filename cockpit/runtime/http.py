"""The one place that speaks HTTP: deadlines, limits, bounded retries, no secret in any text.

Only requests that read are repeated: GET, and ``query``, a POST that changes nothing. A request
that changes something is sent once. If its answer is lost, ``LostAnswerError`` says so, and the
caller finds out what became of it. Every error is one line without a secret.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import json
import random
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar
from urllib.parse import SplitResult, urljoin, urlsplit

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.runtime.offload import offload
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

if TYPE_CHECKING:
    import httpx


T = TypeVar("T")
LONGEST_WAIT: Final = 3600.0
SECONDARY_WAIT: Final = 60.0
"""GitHub's advice for a secondary limit that names no time."""
SAID: Final = 160
SAID_READ: Final = 4096

_WORDS: Final = {
    ErrorKind.TIMEOUT: "no answer in time",
    ErrorKind.REFUSED: "connection refused or lost",
    ErrorKind.DNS: "the name cannot be resolved; is the network up?",
    ErrorKind.TLS: "the certificate or the encryption is not accepted; is a proxy in between?",
    ErrorKind.BAD_ANSWER: "the answer cannot be read",
}


class HttpError(Exception):
    """A request that failed; ``retry_in`` is in how many seconds the server wants to be asked."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        status: int | None = None,
        retry_in: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.retry_in = retry_in


class LostAnswerError(HttpError):
    """It was sent and its answer is lost: whether it was acted upon must be looked up."""


class TooLongError(HttpError):
    """The answer was longer than is taken: less may be asked for."""


def trouble(host: str, error: BaseException) -> HttpError:
    """Return what a failed request means; the library's own text may hold too much."""
    kind = kind_of(error)
    return HttpError(kind, f"{host}: {_WORDS[kind]}")


def kind_of(error: BaseException) -> ErrorKind:
    """Return the kind of an error, by the first cause that tells."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return ErrorKind.TLS
        if isinstance(cause, socket.gaierror):
            return ErrorKind.DNS
        if isinstance(cause, TimeoutError) or "Timeout" in type(cause).__name__:
            return ErrorKind.TIMEOUT
        if type(cause).__name__ in ("DecodingError", "InvalidURL", "UnsupportedProtocol"):
            return ErrorKind.BAD_ANSWER
    return ErrorKind.REFUSED


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and everything behind it, each once."""
    waiting, seen = [error], set[int]()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions
        waiting += [each for each in (cause.__cause__, cause.__context__) if each is not None]


def limited_for(status: int, headers: Mapping[str, str], body: bytes, now: float) -> float | None:
    """Return for how many seconds the server wants to be left alone, or ``None``.

    429 always, 403 when it is a rate limit (GitHub's primary and secondary ones), 503 with a
    ``Retry-After``.
    """
    wait = _stated_wait(headers, now)
    if status == 429:
        return SECONDARY_WAIT if wait is None else wait
    if status == 403 and wait is None and b"rate limit" in body[:4096].lower():
        return SECONDARY_WAIT
    return wait if status == 403 or (status == 503 and "retry-after" in headers) else None


def date_of(headers: Mapping[str, str]) -> float | None:
    """Return the server's clock when it answered (``Date``), where it shows it."""
    return _instant(headers.get("date", ""))


def _stated_wait(headers: Mapping[str, str], now: float) -> float | None:
    """Return the wait in the headers, reckoned by the server's own clock where it shows it."""
    here = date_of(headers)
    here = now if here is None else here
    after = headers.get("retry-after", "").strip()
    if after.isascii() and after.isdigit():
        return min(float(after), LONGEST_WAIT)
    until = _instant(after)
    reset = headers.get("x-ratelimit-reset", "").strip()
    if until is None and headers.get("x-ratelimit-remaining", "").strip() == "0":
        until = float(reset) if reset.isascii() and reset.isdigit() else here + SECONDARY_WAIT
    if until is None and headers.get("ratelimit-remaining", "").strip() == "0":
        pause = headers.get("ratelimit-reset", "").strip()  # W&B: seconds from now, not a time
        until = here + (float(pause) if pause.isascii() and pause.isdigit() else SECONDARY_WAIT)
    return None if until is None else min(max(0.0, until - here), LONGEST_WAIT)


def _instant(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def server_message(body: bytes) -> str:
    """Return the server's message in the body of an error, as a short safe end of our own line.

    It is often the only explanation there is; pages made for browsers are left out.
    """
    text = scrub(clean(_words_of(body), SAID))
    return f": {text}" if text else ""


def _words_of(body: bytes) -> str:
    head = body[:SAID_READ].decode("utf-8", "replace").strip()
    if head.startswith("<"):
        return ""
    try:
        document = json.loads(body[: 1 << 16])
    except (ValueError, RecursionError):
        return head
    found = document
    for name in ("errors", "error", "message", "detail", "msg"):
        if isinstance(found, dict) and found.get(name):
            found = found[name]
        if isinstance(found, list) and found:
            found = found[0]
    return found if isinstance(found, str) else ""


__all__ = ["Answer", "Http", "HttpError", "LostAnswerError", "TooLongError"]

DEADLINE: Final = 10.0
CONNECT: Final = 5.0
CAP: Final = 8_000_000
CONNECTIONS: Final = 8
ATTEMPTS: Final = 3
BACK_OFF: Final = 0.5
REDIRECTS: Final = 3
RESOLVED_FOR: Final = 300.0
_AGAIN: Final = frozenset({500, 502, 503, 504})
_PASSING: Final = frozenset({ErrorKind.RATE_LIMITED, ErrorKind.REFUSED, ErrorKind.TIMEOUT})
"""After these asking again soon may help."""
_MOVED: Final = frozenset({301, 302, 307, 308})
_GIVEN_UP: Final = frozenset({408, 499})
"""Somebody waited no longer (Connect says so): as after a server error it may be done."""
_NEVER_SENT: Final = frozenset(
    {
        "ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol",
        "LocalProtocolError", "InvalidURL",
    }
)  # fmt: skip
"""Errors of the library after which the request is known not to have reached anyone."""


class Answer(NamedTuple):
    """A server's answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    host: str

    def json(self) -> Any:  # noqa: ANN401 - whatever the service sent; its reader checks it
        """Return the document in the body; raises ``HttpError`` for anything else."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            message = f"{self.host}: the answer is not JSON (status {self.status})"
            raise HttpError(ErrorKind.BAD_ANSWER, message, status=self.status) from None


@dataclass(frozen=True, repr=False)
class _Request:
    """What is to be sent; it has no representation, since its headers hold the token."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None = None
    reads: bool = False
    """True when nothing changes by it: it may be sent again."""

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def host(self) -> str:
        return clean(self.parts.netloc.rpartition("@")[2], 300)

    @property
    def origin(self) -> tuple[str, str]:
        return self.parts.scheme, self.parts.netloc


class Route(NamedTuple):
    """How a server is reached that this machine's certificates do not stand for."""

    trust: Callable[[], ssl.SSLContext]
    """Makes what its certificate is checked by, and what we show; it blocks."""
    server_name: str | None = None
    """The name in its certificate, where that is not the one in its address."""
    proxy: str | None = None


class Http:
    """An HTTP client. Connections live as long as a ``session`` is open and ``keep`` seconds after.

    A host that says it wants to be left alone is not asked again before that time.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        deadline: float = DEADLINE,
        cap: int = CAP,
        connections: int = CONNECTIONS,
        keep: float = 0.0,
        route: Route | None = None,
    ) -> None:
        self._clock = clock
        self._keep = keep
        self._route = route or Route(_trust)
        self._deadline = deadline
        self._cap = cap
        self._connections = connections
        self._rooms: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._client: httpx.AsyncClient | None = None
        self._users = 0
        self._left = 0.0
        self._idle: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._trust: ssl.SSLContext | None = None
        self._silent_until: dict[tuple[str, str], float] = {}
        self._resolved: dict[str, float] = {}

    async def get(
        self, url: str, headers: Mapping[str, str] | None = None, *, deadline: float | None = None
    ) -> Answer:
        """Return the answer to a GET, of any status, asked again while that may help.

        Redirects are followed inside one host only. Raises ``HttpError``: no answer within
        the deadline in all (seconds; the client's own if none is given), a rate limit, or a
        server error that stayed.
        """
        return await self._asked(_Request("GET", url, headers or {}, reads=True), deadline)

    async def query(
        self,
        url: str,
        document: object,
        headers: Mapping[str, str] | None = None,
        *,
        deadline: float | None = None,
    ) -> Answer:
        """Return the answer to a POST that only reads (GraphQL, RPC); it is asked again as a GET.

        Raises ``HttpError`` as ``get`` does.
        """
        typed = {"content-type": "application/json", **(headers or {})}
        content = json.dumps(document).encode()
        return await self._asked(_Request("POST", url, typed, content, reads=True), deadline)

    async def send(
        self,
        method: str,
        url: str,
        document: object = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request that changes something, once, and return its answer below status 500.

        Raises ``LostAnswerError`` when it may have been acted upon, as after any server error;
        ``HttpError`` when it surely was not (no connection, a rate limit).
        """
        content = None if document is None else json.dumps(document).encode()
        typed = {} if content is None else {"content-type": "application/json"}
        request = _Request(method, url, {**typed, **(headers or {})}, content, method == "GET")
        answer = await self._once(request, self._deadline)
        self._heed(request, answer)
        if answer.status >= 500 or answer.status in _GIVEN_UP:
            raise _unanswered(answer, LostAnswerError)
        return answer

    @asynccontextmanager
    async def session(self) -> AsyncIterator[httpx.AsyncClient]:
        """Keep connections open for several requests; nested ones share them."""
        async with self._opening:
            if self._client is None:
                self._client = await self._opened()
                if self._keep:
                    self._idle = asyncio.create_task(self._close_when_idle(self._client))
            client = self._client
            self._users += 1
        try:
            yield client
        finally:
            self._users -= 1
            self._left = self._clock.monotonic()
            if not self._users and not self._keep:
                self._client = None
                await client.aclose()

    async def _close_when_idle(self, client: httpx.AsyncClient) -> None:
        """Close the connections once nobody has used them for ``keep`` seconds, or at the end."""
        try:
            while self._users or self._clock.monotonic() - self._left < self._keep:
                await self._clock.sleep(self._keep)
        finally:
            self._client = None
            await client.aclose()

    async def _asked(self, request: _Request, deadline: float | None = None) -> Answer:
        """Return the answer to a request that only reads, asked again while that may help."""
        until = self._clock.monotonic() + (self._deadline if deadline is None else deadline)
        for attempt in range(ATTEMPTS):
            try:
                return await self._followed(request, until)
            except HttpError as error:
                pause = BACK_OFF * 2**attempt * (0.5 + random.random())
                pause = max(pause, error.retry_in or 0.0)
                left = until - self._clock.monotonic()
                passing = error.status in _AGAIN or error.kind in _PASSING
                if attempt == ATTEMPTS - 1 or pause >= left or not passing:
                    raise
                await self._clock.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    async def _followed(self, request: _Request, until: float) -> Answer:
        for _ in range(REDIRECTS + 1):
            answer = await self._once(request, until - self._clock.monotonic())
            self._heed(request, answer)
            if answer.status in _AGAIN:
                raise _unanswered(answer, HttpError)
            if answer.status not in _MOVED:
                return answer
            # Another host would be given our credentials.
            url = urljoin(request.url, answer.headers.get("location", ""))
            moved = replace(request, url=url)
            if moved.origin != request.origin:
                message = f"{request.host} sends us to {moved.host}, which is not followed"
                raise HttpError(ErrorKind.BAD_ANSWER, message, status=answer.status)
            request = moved
        raise HttpError(ErrorKind.BAD_ANSWER, f"{request.host}: redirected in a loop")

    async def _once(self, request: _Request, deadline: float) -> Answer:
        """Return the answer to one attempt; every failure is an ``HttpError``."""
        silent = self._silent_until.get(request.origin, 0.0) - self._clock.monotonic()
        if silent > 0:
            raise _limited(request, silent)
        if deadline <= 0:
            raise HttpError(ErrorKind.TIMEOUT, f"{request.host}: no answer in time")
        began = self._clock.monotonic()
        await self._resolve(request, min(CONNECT, deadline))
        async with self._room(request, began + deadline), self.session() as client:
            left = max(0.1, deadline - (self._clock.monotonic() - began))
            return await self._exchange(client, request, left)

    async def _exchange(
        self, client: httpx.AsyncClient, request: _Request, deadline: float
    ) -> Answer:
        import httpx

        stream = client.stream(
            request.method,
            request.url,
            headers=dict(request.headers),
            content=request.content,
            timeout=httpx.Timeout(deadline, connect=min(CONNECT, deadline)),
            extensions={"sni_hostname": name} if (name := self._route.server_name) else None,
        )
        body = bytearray()
        try:
            async with asyncio.timeout(deadline), stream as response:
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > self._cap:
                        message = f"{request.host}: the answer is longer than {self._cap:,} B"
                        raise TooLongError(ErrorKind.BAD_ANSWER, message)
        except (httpx.RequestError, httpx.InvalidURL, HttpError, OSError) as error:
            raise _error_of(request, error) from None
        headers = {name.lower(): value for name, value in response.headers.items()}
        return Answer(response.status_code, headers, bytes(body), request.host)

    async def _opened(self) -> httpx.AsyncClient:
        if self._trust is None:  # reading the certificates takes a while
            try:
                self._trust = await offload(self._route.trust, deadline=CONNECT)
            except TimeoutError:  # which is an OSError
                message = f"the certificates were not read within {CONNECT:g} s: a busy machine?"
                raise HttpError(ErrorKind.TIMEOUT, message) from None
            except OSError as error:
                message = f"the certificates cannot be read ({clean(error)}); see SSL_CERT_FILE"
                raise HttpError(ErrorKind.TLS, message) from None
        import httpx

        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self._connections)
        try:
            return httpx.AsyncClient(
                verify=self._trust, limits=limits, follow_redirects=False, proxy=self._route.proxy
            )
        except (ImportError, ValueError):  # it may hold a password, and so may the library's text
            scheme = clean((self._route.proxy or "").partition("://")[0], 20)
            message = f"a proxy by {scheme} cannot be used: one by http or https can"
            raise HttpError(ErrorKind.REFUSED, message) from None

    @asynccontextmanager
    async def _room(self, request: _Request, until: float) -> AsyncIterator[None]:
        """Keep the requests to one server few: one that hangs delays no other server.

        The library's own limit is for all servers together, and what is given up while it waits
        there takes a connection away for good.
        """
        room = self._rooms.setdefault(request.origin, asyncio.Semaphore(self._connections))
        try:
            async with asyncio.timeout(max(0.1, until - self._clock.monotonic())):
                await room.acquire()
        except TimeoutError:
            message = f"{request.host}: no answer in time to what was asked before"
            raise HttpError(ErrorKind.TIMEOUT, message) from None
        try:
            yield
        finally:
            room.release()

    async def _resolve(self, request: _Request, deadline: float) -> None:
        """Resolve a host's name in a thread that keeps nobody from leaving when it hangs.

        The event loop's own look-up follows and finds the name known; behind a proxy the name
        is the proxy's affair.
        """
        host, now = request.parts.hostname or "", self._clock.monotonic()
        by_proxy = self._route.proxy is not None or proxied(request.url)
        if now < self._resolved.get(host, now) or _is_address(host) or by_proxy:
            return
        try:
            await offload(functools.partial(socket.getaddrinfo, host, None), deadline=deadline)
        except (OSError, UnicodeError, TimeoutError):
            message = f"{request.host}: the name cannot be resolved; is the network up?"
            raise HttpError(ErrorKind.DNS, message) from None
        self._resolved[host] = now + RESOLVED_FOR

    def _heed(self, request: _Request, answer: Answer) -> None:
        """Remember a rate limit, and raise for one that tells that nothing was done."""
        wait = limited_for(answer.status, answer.headers, answer.body, self._clock.now())
        if wait is None:
            return
        self._silent_until[request.origin] = self._clock.monotonic() + wait
        if request.reads or answer.status < 500:
            raise _limited(request, wait)


def _error_of(request: _Request, error: BaseException) -> HttpError:
    """Return a failure as the caller must take it: a change may have been made all the same."""
    found = error if isinstance(error, HttpError) else trouble(request.host, error)
    if request.reads or type(error).__name__ in _NEVER_SENT:
        return found
    return LostAnswerError(found.kind, str(found), status=found.status)


def _unanswered(answer: Answer, error: type[HttpError]) -> HttpError:
    what = "server error" if answer.status >= 500 else "no answer, but status"
    text = f"{answer.host}: {what} {answer.status}{server_message(answer.body)}"
    return error(ErrorKind.BAD_ANSWER, text, status=answer.status)


def _limited(request: _Request, wait: float) -> HttpError:
    message = f"{request.host} limits requests: next in {wait:.0f} s"
    return HttpError(ErrorKind.RATE_LIMITED, message, retry_in=wait)


def _trust() -> ssl.SSLContext:
    import httpx  # a while too

    return httpx.create_ssl_context()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def proxied(url: str) -> bool:
    """Tell whether the environment has a proxy that requests to this address go through."""
    from urllib.request import getproxies, proxy_bypass  # loads all of HTTP, and mail

    proxies = getproxies()
    parts = urlsplit(url)
    through = parts.scheme in proxies or "all" in proxies
    return through and not proxy_bypass(parts.hostname or "")


class Get(NamedTuple):
    """A request that reads: a GET, or a POST of a ``document`` that changes nothing."""

    url: str
    headers: Mapping[str, str]
    document: object = None


class BlockingHttp:
    """The same for code that blocks: a thread of its own has the connections. For any thread."""

    def __init__(self, clock: Clock, deadline: float, cap: int) -> None:
        self._http = Http(clock, deadline=deadline, cap=cap, keep=120.0)
        self._deadline = deadline
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def get_all(self, requests: Sequence[Get]) -> list[Answer | HttpError]:
        """Return the answers to requests that are sent at once, each that or its error."""

        async def asked(_: Http) -> list[Answer | HttpError]:
            return list(await asyncio.gather(*map(self._one, requests)))

        return self.run(asked)

    def run(self, work: Callable[[Http], Coroutine[Any, Any, T]]) -> T:
        """Return what a coroutine returns that is given the client, on that thread."""
        future = asyncio.run_coroutine_threadsafe(work(self._http), self._running())
        return future.result(self._deadline + 2.0)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
            return self._loop

    async def _one(self, request: Get) -> Answer | HttpError:
        try:
            if request.document is None:
                return await self._http.get(request.url, request.headers)
            return await self._http.query(request.url, request.document, request.headers)
        except HttpError as error:
            return error
        except ValueError:  # not even taken apart
            return HttpError(ErrorKind.BAD_ANSWER, f"{clean(request.url, 300)}: not an address")

"""One cluster's API over HTTPS: how it is reached, what is read, and what is sent once.

It is reached by the kubeconfig's context, else by the account of the pod we run in. Nothing of what
is secret there (tokens, keys, what a plugin prints on its standard output) ever reaches a text; of
a plugin that failed its error is shown, with secrets masked.

What is read raises ``HttpError``; the server's own refusal is an ``ApiError`` with its status and
reason. What changes something also raises ``CannotError`` where nothing was sent, and
``LostError`` where the answer was lost: it may have been done.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import importlib
import json
import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, Literal
from urllib.parse import urlencode

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.objects import Object, ObjectKind, instant
from cockpit.platforms.table import PlaceClock
from cockpit.runtime.http import Answer, Http, HttpError, LostAnswerError, Route, date_of
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its own account."""
IN_CLUSTER: Final = "in-cluster"
"""The ``context`` that means this account, also where a kubeconfig exists."""
FILE_WITHIN: Final = 2.0
PLUGIN_WITHIN: Final = 10.0
"""Seconds that an exec plugin has for its answer."""
KEPT_FOR: Final = 60.0
"""Seconds for which a token is used again whose end is not told; files of tokens are renewed."""
EARLY: Final = 30.0
"""Seconds before its end from which a token is not used any more."""
_FILES: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
LOGINS: Final = {
    "aws": "aws sso login", "aws-iam-authenticator": "aws sso login",
    "gke-gcloud-auth-plugin": "gcloud auth login", "kubelogin": "az login",
    "kubectl-oidc_login": "kubectl oidc-login get-token", "tsh": "tsh login",
    "oci": "oci session authenticate", "doctl": "doctl auth init",
}  # fmt: skip
"""What logs in again, by the plugin that a kubeconfig calls."""


@dataclass(frozen=True, repr=False)
class Access:
    """One way into a cluster, as a kubeconfig's context or a pod's account describes it."""

    context: str
    server: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    moves: str = ""
    """Why the same run file may mean another place tomorrow: nothing is acted on then."""

    @property
    def plugin(self) -> str | None:
        """The program that the context gets its token from, where it calls one."""
        command = mapping(self.user.get("exec")).get("command")
        return Path(str(command)).name if command else None

    @property
    def remedy(self) -> str:
        """What gives us a token that is accepted."""
        if self.plugin is not None:
            return f"log in again ({LOGINS.get(self.plugin, f'the login of {self.plugin}')})"
        what = "certificate" if self.user.get("client-certificate-data") else "token"
        return f"renew the {what} of the context {clean(self.context, 120)} in the kubeconfig"

    def route(self, pair: tuple[str, str] | None = None) -> Route:
        """Return how its server is spoken to; ``pair`` is a plugin's own certificate and key."""
        proxy, name = self.cluster.get("proxy-url"), self.cluster.get("tls-server-name")
        return Route(lambda: self._trust(pair), name or None, proxy or None)

    def _trust(self, pair: tuple[str, str] | None) -> ssl.SSLContext:
        given = _bytes_of(self.cluster, "certificate-authority")
        try:
            text = None if given is None else given.decode("ascii")
            trust = ssl.create_default_context(cadata=text)
            if self.cluster.get("insecure-skip-tls-verify") is True:
                trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
            own = _bytes_of(self.user, "client-certificate")
            key = _bytes_of(self.user, "client-key")
            if pair is not None:
                own, key = pair[0].encode(), pair[1].encode()
            if own is not None:
                with NamedTemporaryFile(suffix=".pem") as file:  # mode 0600; ssl reads files only
                    file.write(own + b"\n" + (key or b""))
                    file.flush()
                    trust.load_cert_chain(file.name)
        except (ValueError, ssl.SSLError) as error:
            raise OSError(f"context {clean(self.context, 120)}: {clean(error, 120)}") from None
        return trust


def find_access(job: JobSpec) -> Access:
    """Return the access that a run file's job names; blocking. Raises ``HttpError``."""
    named = os.environ.get("KUBECONFIG", "")
    paths = [Path(each) for each in named.split(os.pathsep) if each]
    with suppress(RuntimeError):  # no home
        paths = paths or [Path.home() / ".kube" / "config"]
    files = []
    for path in paths:
        try:
            files.append((path.absolute().parent, document_of(path.read_bytes())))
        except ValueError:
            raise _unusable(f"{clean(path, 200)} is not a kubeconfig: no YAML") from None
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unusable(f"{clean(path, 200)}: {clean(error.strerror, 80)}") from None
    if job.context == IN_CLUSTER or (not files and job.context is None):
        return _in_cluster(job)
    return _merged(files, job)


def document_of(text: str | bytes) -> Mapping[str, Any]:
    """Return the object in a text of YAML or JSON; raises ``ValueError``."""
    yaml: Any = importlib.import_module("yaml")
    try:
        return mapping(yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError("no YAML") from error


def _merged(files: Sequence[tuple[Path, Mapping[str, Any]]], job: JobSpec) -> Access:
    """Return the context of several kubeconfigs: the first one that says a thing counts."""
    said = (document.get("current-context") for _, document in files)
    name = job.context or next(filter(None, said), None)
    if name is None:
        raise _unusable("no kubeconfig names a current context: set job.context")
    context = _entry(files, "contexts", "context", name)
    cluster = _entry(files, "clusters", "cluster", context.get("cluster"))
    named = context.get("user")
    user = _entry(files, "users", "user", named) if named else {}
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise _unusable(f"the cluster of context {clean(name, 120)} has no server")
    namespace = job.namespace or str(context.get("namespace") or "default")
    others = {row.get("name") for _, document in files for row in document.get("contexts") or ()}
    moves = [] if job.context or others == {name} else [f"job.context (now {clean(name, 120)})"]
    moves += [] if job.namespace else [f"job.namespace (now {clean(namespace, 80)})"]
    why = f"set {' and '.join(moves)}: the kubeconfig may name another one later" if moves else ""
    return Access(str(name), server, namespace, cluster, user, why)


def _entry(
    files: Sequence[tuple[Path, Mapping[str, Any]]], group: str, kind: str, name: object
) -> Mapping[str, Any]:
    """Return the first entry of a name, with its files by their whole paths."""
    names = []
    for folder, document in files:
        rows = document.get(group)
        for row in map(mapping, rows if isinstance(rows, list) else ()):
            names.append(clean(row.get("name"), 80))
            if row.get("name") == name:
                return _placed(mapping(row.get(kind)), folder)
    there = ", ".join(names[:8]) or "none"
    raise _unusable(f"no kubeconfig has the {kind} {clean(name, 120)} (there: {there})")


def _placed(part: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    found: dict[str, object] = {
        name: str(folder / str(part[name])) for name in _FILES if part.get(name)
    }
    plugin = mapping(part.get("exec"))
    if "/" in str(plugin.get("command")):
        found["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return {**part, **found}


def _in_cluster(job: JobSpec) -> Access:
    host = os.environ.get("KUBERNETES_SERVICE_HOST", "")
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host or not (ACCOUNT / "token").exists():
        raise _unusable("there is no kubeconfig (KUBECONFIG, ~/.kube/config)")
    host = f"[{host}]" if ":" in host else host
    try:
        own = (ACCOUNT / "namespace").read_text().strip()
    except OSError:
        own = "default"
    cluster = {"certificate-authority": str(ACCOUNT / "ca.crt")}
    user = {"tokenFile": str(ACCOUNT / "token")}
    return Access(IN_CLUSTER, f"https://{host}:{port}", job.namespace or own, cluster, user)


class Credentials:
    """What one access sends with each request; a token that was made is used until its end."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._until = float("-inf")
        self._header: dict[str, str] = {}
        self.pair: tuple[str, str] | None = None
        """The client certificate and key that a plugin has given."""

    async def headers(self) -> dict[str, str]:
        """Return the header with the token, none where a certificate tells who we are.

        Raises ``HttpError`` (unauthorized) where no token can be had.
        """
        if self._clock.now() >= self._until:
            token, until = await self._token()
            if token is not None and not (token.isascii() and token.isprintable()):
                raise _no_token("the token holds characters that no header can carry")
            self._header = {} if token is None else {"authorization": f"Bearer {token}"}
            self._until = self._clock.now() + KEPT_FOR if until is None else until - EARLY
        return self._header

    def refused(self, sent: Mapping[str, str]) -> bool:
        """Forget the token of the header that was ``sent``; tell whether another may be had now.

        One that has come since is kept: the refusal says nothing of it.
        """
        if sent == self._header:
            self._until = float("-inf")
        return self._access.plugin is not None or "tokenFile" in self._access.user

    async def _token(self) -> tuple[str | None, float | None]:
        user = self._access.user
        if user.get("exec"):
            return await self._from_plugin(mapping(user["exec"]))
        if user.get("tokenFile"):
            path = Path(str(user["tokenFile"]))
            try:
                data = await offload(path.read_bytes, deadline=FILE_WITHIN)
            except OSError as error:  # and TimeoutError, which is one
                raise _no_token(f"{clean(path, 200)}: {clean(error.strerror, 80)}") from None
            return data.decode("ascii", "replace").strip(), None
        if user.get("auth-provider"):
            raise _no_token("the context uses an auth-provider, which kubectl has given up too")
        return (str(user["token"]).strip() if user.get("token") else None), None

    async def _from_plugin(self, plugin: Mapping[str, Any]) -> tuple[str | None, float | None]:
        """Run an exec plugin without a terminal and take the credential that it prints."""
        name = self._access.plugin or "?"
        words = [str(plugin.get("command") or ""), *map(str, plugin.get("args") or ())]
        rows = map(mapping, plugin.get("env") or ())
        env = {str(row.get("name")): str(row.get("value")) for row in rows}
        env["KUBERNETES_EXEC_INFO"] = json.dumps(self._info(plugin))
        done = await run_command(words, deadline=PLUGIN_WITHIN, env=env)
        if not done.ok:
            how = f"gave no answer within {PLUGIN_WITHIN:g} s" if done.timed_out else "failed"
            why = shown(done.err.decode("utf-8", "replace").strip(), 160)
            raise _no_token(f"{clean(name, 80)} {how}; {self._access.remedy}{why and f': {why}'}")
        try:
            status = mapping(mapping(json.loads(done.out)).get("status"))
        except (ValueError, RecursionError):
            status = {}
        token, own, key = (
            status.get(part) for part in ("token", "clientCertificateData", "clientKeyData")
        )
        if not token and not own:
            raise _no_token(f"{clean(name, 80)} printed no credential; {self._access.remedy}")
        self.pair = (str(own), str(key or "")) if own else None
        return (str(token) if token else None), instant(status.get("expirationTimestamp"))

    def _info(self, plugin: Mapping[str, Any]) -> dict[str, object]:
        spec: dict[str, object] = {"interactive": False}
        if plugin.get("provideClusterInfo"):
            own = _bytes_of(self._access.cluster, "certificate-authority")
            spec["cluster"] = {
                "server": self._access.server,
                "certificate-authority-data": own and base64.b64encode(own).decode(),
            }
        version = plugin.get("apiVersion") or "client.authentication.k8s.io/v1"
        return {"apiVersion": version, "kind": "ExecCredential", "spec": spec}


def _bytes_of(part: Mapping[str, Any], name: str) -> bytes | None:
    """Return what stands in ``NAME-data``, else in the file that ``NAME`` names."""
    data = part.get(f"{name}-data")
    try:
        if data:
            return base64.b64decode(str(data))
        return Path(str(part[name])).read_bytes() if part.get(name) else None
    except binascii.Error:
        raise OSError(f"{name}-data is not base64") from None


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object of a document, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _unusable(why: str) -> HttpError:
    return HttpError(ErrorKind.NOT_FOUND, f"no access to Kubernetes: {why}")


def _no_token(why: str) -> HttpError:
    return HttpError(ErrorKind.UNAUTHORIZED, f"no token for Kubernetes: {why}")


CAP: Final = 64_000_000
WITHIN: Final = 20.0
"""Seconds for the answer to what changes something."""
PATIENCE: Final = 5.0
"""Seconds for what is read, at first: ``check`` gives a place 6 s; a watch 20 s."""
MOST_PATIENCE: Final = 15.0
"""The same where the server was too slow before."""
FILES_WITHIN: Final = 3.0
KEEP: Final = 90.0
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
        self.clock = PlaceClock()
        self._job = job
        self._clock = clock
        self._patience = PATIENCE
        self._moves: str | None = None
        self._opening = asyncio.Lock()
        self._access: Access | None = None
        self._credentials: Credentials | None = None
        self._http: Http | None = None

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
            if answer.status != 401 or last or not self._may_ask_again(headers):
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
            if answer.status != 401 or last or not self._may_ask_again(headers):
                break
        self._checked(answer)
        try:
            return self._document(answer)
        except HttpError as error:
            raise LostError(f"{self.name}: {error}") from None

    def _may_ask_again(self, sent: Mapping[str, str]) -> bool:
        """Forget the token that was sent and refused; tell whether another may be had."""
        return self._credentials is not None and self._credentials.refused(sent)

    def _checked(self, answer: Answer) -> Answer:
        self.clock.learn(date_of(answer.headers), self._clock.now())
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

"""How a cluster is reached: the kubeconfig's context, else the account of the pod we run in.

Nothing of what is secret here (tokens, keys, what a plugin prints on its standard output) ever
reaches a text; of a plugin that failed its error is shown, with secrets masked.
"""

from __future__ import annotations

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
from typing import Any, Final

from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.kubernetes.objects import instant
from cockpit.runtime.http import HttpError, Route
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
    files = _kubeconfigs()
    if job.context == IN_CLUSTER or (not files and job.context is None):
        return _in_cluster(job)
    return _merged(files, job)


def _kubeconfigs() -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the kubeconfigs that are there, in the order in which they count."""
    named = os.environ.get("KUBECONFIG", "")
    paths = [Path(each) for each in named.split(os.pathsep) if each]
    with suppress(RuntimeError):  # no home
        paths = paths or [Path.home() / ".kube" / "config"]
    found = []
    for path in paths:
        try:
            found.append((path.absolute().parent, document_of(path.read_bytes())))
        except ValueError:
            raise _unusable(f"{clean(path, 200)} is not a kubeconfig: no YAML") from None
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise _unusable(f"{clean(path, 200)}: {clean(error.strerror, 80)}") from None
    return found


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

    def refused(self) -> bool:
        """Forget the token; tell whether another one may be had now."""
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

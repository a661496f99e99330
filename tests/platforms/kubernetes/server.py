"""An API server of the tests' own on loopback: it answers as the captured real one does.

It keeps objects, plays the controllers of jobs and, where a test says so, a kubelet. What it
answers is compared with ``tests/data/kubernetes/captures.json`` (``test_server.py``). It can stand
still, forget, and do something without answering.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from tests.platforms.kubernetes.scenario import ADMIN, READER

Json = dict[str, Any]
KINDS = {
    "namespaces": ("", "Namespace"), "nodes": ("", "Node"), "pods": ("", "Pod"),
    "configmaps": ("", "ConfigMap"), "events": ("", "Event"), "jobs": ("batch", "Job"),
    "jobsets": ("jobset.x-k8s.io", "JobSet"), "rayjobs": ("ray.io", "RayJob"),
    "trainjobs": ("trainer.kubeflow.org", "TrainJob"), "workloads": ("kueue.x-k8s.io", "Workload"),
    "pytorchjobs": ("kubeflow.org", "PyTorchJob"),
}  # fmt: skip
REVIEWS = "selfsubjectaccessreviews"
PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/(?P<version>[^/]+)(?:/namespaces/(?P<space>[^/]+))?"
    r"/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[^/]+))?"
)
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
REJECTED = "the server rejected our request due to an error in our request"
NOT_FOUND = "404 page not found\n"
TOO_OLD = "The resourceVersion for the provided watch is too old."


class RefusedError(Exception):
    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code,
        }  # fmt: skip


class Request(NamedTuple):
    method: str
    group: str
    version: str
    space: str
    plural: str
    name: str
    sub: str
    query: dict[str, str]
    body: Any
    form: str

    @property
    def dotted(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Server:
    """``objects`` by plural, namespace and name; a test may change them and call ``settle``."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.events: list[tuple[int, str, str, str, Json]] = []
        self.version = 1
        self.forgotten = 0
        self.groups = {"", "batch", "authorization.k8s.io"}
        """The API groups that are installed: a test adds those of an operator."""
        self.drops_suspend = False
        """True for a server older than 1.22, which does not know the field."""
        self.default_queue = ""
        """The queue that Kueue's webhook puts on a job which names none."""
        self.lingering = False
        """True while pods that are told to end do not."""
        self.mutate: Callable[[Json], None] | None = None
        """What a webhook does with each job that is created."""
        self.refuses = ""
        """Why nothing can be created, where it is no matter of rights."""
        self.denied: set[tuple[str, str]] = set()
        """Verbs and plurals that nobody may use."""
        self.drops: list[tuple[str, str, str]] = []
        """Method, end of the path, and ``before``, ``after`` or ``late``: that once gets no answer,
        and is done never, at once, or when a test says so (``arrive``). ``504``: it is done, and
        answered as by a server whose store has not said so in time."""
        self.late: list[tuple[str, str, str, bytes]] = []
        self.before: list[tuple[str, str, Callable[[], object]]] = []
        """Method, end of the path, and what is done once right before such a request."""
        self.logs: dict[str, str] = {}
        self.asked: list[str] = []
        self.goes_on = threading.Event()
        """While it is not set the server stands still: what has come is done afterwards."""
        self.goes_on.set()
        self.url = ""

    def one(self, plural: str, name: str, space: str = "default") -> Json:
        return self.objects[plural, space, name]

    def all(self, plural: str, space: str | None = None) -> list[Json]:
        found = self.objects.items()
        return [each for key, each in found if key[0] == plural and space in (None, key[1])]

    def add(self, plural: str, document: Json, space: str = "default") -> Json:
        """Create an object as somebody does; return it, to be changed in place."""
        group = KINDS[plural][0]
        version = "v1" if group in ("", "batch", "ray.io", "kubeflow.org") else "v1alpha2"
        request = Request("POST", group, version, space, plural, "", "", {}, document, "")
        self.settle(made := self._create(request))
        return made

    def finish(self, pod: Json, phase: str = "Succeeded", code: int = 0, reason: str = "") -> None:
        """Let a pod end as a kubelet reports it."""
        ended = {"exitCode": code, "reason": reason or ("Completed" if not code else "Error")}
        container = pod["spec"]["containers"][0]["name"]
        state = {"name": container, "ready": False, "restartCount": 0}
        pod["status"] = {
            "phase": phase, "containerStatuses": [{**state, "state": {"terminated": ended}}],
        }  # fmt: skip
        self.settle(pod)

    def run(self, pod: Json, node: str = "") -> None:
        """Let a pod run as a kubelet reports it."""
        names = [each["name"] for each in pod["spec"]["containers"]]
        running = {"ready": True, "restartCount": 0, "state": {"running": {}}}
        pod["status"] = {
            "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": name, **running} for name in names],
        }  # fmt: skip
        if node:
            pod["spec"]["nodeName"] = node
        self.settle(pod)

    def kubeconfig(self, path: Path, token: str = ADMIN, space: str = "default") -> Path:
        """Write a kubeconfig for this server."""
        context = {"cluster": "tests", "user": "tests", "namespace": space}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": {"server": self.url}}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": context}],
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    # One request.

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"(?i)content-length: (\d+)", head)
                body = await reader.readexactly(int(length[1])) if length else b""
                await asyncio.to_thread(self.goes_on.wait)
                method, target = head.decode().split(" ", 2)[:2]
                self.asked.append(f"{method} {target}")
                dropped = self._dropped(method, target)
                if dropped == "late":
                    self.late.append((method, target, head.decode(), body))
                if dropped in ("before", "late"):
                    return
                for each in [each for each in self.before if _fits(each, method, target)]:
                    self.before.remove(each)
                    each[2]()
                code, answer = self._answer(method, target, head.decode(), body)
                if dropped == "504":
                    code, answer = 504, RefusedError(504, "Timeout", "request timed out").body
                elif dropped:
                    return
                if isinstance(answer, list):
                    await self._watched(writer, answer, target)
                    return
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                kind = "text/plain" if isinstance(answer, str) else "application/json"
                lines = [f"HTTP/1.1 {code} X", f"content-length: {len(data)}"]
                lines += [f"content-type: {kind}", "", ""]
                writer.write("\r\n".join(lines).encode() + data)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    def _dropped(self, method: str, target: str) -> str:
        for each in self.drops:
            if _fits(each, method, target):
                self.drops.remove(each)
                return each[2]
        return ""

    async def _watched(self, writer: asyncio.StreamWriter, lines: list[Json], target: str) -> None:
        """Answer a watch with what has come until now, and end it as the server does in time."""
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        writer.write(b"".join(json.dumps(each).encode() + b"\n" for each in lines))
        await writer.drain()

    def _answer(self, method: str, target: str, head: str, body: bytes) -> tuple[int, Any]:
        parts = urlsplit(target)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        token = re.search(r"(?i)authorization: Bearer (\S+)", head)
        user = {ADMIN: "admin", READER: "reader"}.get(token[1] if token else "")
        if user is None:
            refusal = RefusedError(401, "Unauthorized", "Unauthorized")
            return 401, refusal.body
        if (told := self._discovered(parts.path)) is not None:
            return 200, told
        found = PATH.fullmatch(parts.path)
        if found is None or found["plural"] not in (*KINDS, REVIEWS):
            return 404, NOT_FOUND
        form = re.search(r"(?i)content-type: (\S+)", head)
        group, plural = found["group"] or "", found["plural"]
        request = Request(
            method, group, found["version"], found["space"] or "", plural, found["name"] or "",
            found["sub"] or "", query, json.loads(body) if body else None, form[1] if form else "",
        )  # fmt: skip
        if plural == REVIEWS:
            asked = request.body["spec"]["resourceAttributes"]
            may = user == "admin" and (asked["verb"], asked["resource"]) not in self.denied
            return 201, {**request.body, "metadata": {}, "status": {"allowed": may}}
        try:
            self._allowed(user, request)
            if group not in self.groups:
                return 404, NOT_FOUND
            answer = self._done(request)
        except RefusedError as error:
            return error.code, error.body
        return (201 if method == "POST" else 200), answer

    def _discovered(self, path: str) -> Json | None:
        """Return what the server says of itself, and of a group that is installed."""
        if path == "/version":
            return {"major": "1", "minor": "20" if self.drops_suspend else "30"}
        found = re.fullmatch(r"/apis/([^/]+)(/v[^/]+)?", path)
        if found is None or found[1] not in self.groups:
            return None
        names = [name for name, (group, _) in KINDS.items() if group == found[1]]
        return {"name": found[1], "resources": [{"name": name} for name in names]}

    def _allowed(self, user: str, request: Request) -> None:
        reads = "get" if request.name else "watch" if "watch" in request.query else "list"
        verb = {"GET": reads, "POST": "create"}.get(request.method, request.method.lower())
        if user == "admin" and (verb, request.plural) not in self.denied:
            return
        name = f'{request.dotted} "{request.name}"' if request.name else request.dotted
        where = f' in the namespace "{request.space}"' if request.space else ""
        what = f'"{request.plural}" in API group "{request.group}"'
        text = f'{name} is forbidden: User "{user}" cannot {verb} resource {what}{where}'
        raise RefusedError(403, "Forbidden", text)

    def _done(self, request: Request) -> Any:
        if request.method == "POST":
            made = self._create(request)
            if "dryRun" not in request.query:
                self.settle(made)
            return made
        if not request.name:
            return self._watch(request) if "watch" in request.query else self._list(request)
        key = (request.plural, request.space, request.name)
        if key not in self.objects:
            raise RefusedError(404, "NotFound", f'{request.dotted} "{request.name}" not found')
        found = self.objects[key]
        if request.sub == "log":
            return self.logs.get(request.name, "")
        if request.method == "PATCH":
            changed = self._patched(request, found)
            found.clear()
            found.update(changed)
            answer = copy.deepcopy(found)  # the controllers act afterwards
            self.settle(found)
            return answer
        if request.method == "DELETE":
            self._delete(request, found)
        return copy.deepcopy(found)

    # What a request does.

    def _create(self, request: Request) -> Json:
        made: Json = copy.deepcopy(request.body)
        meta = made.setdefault("metadata", {})
        kind = KINDS[request.plural][1]
        name = meta.get("name") or f"{meta.get('generateName', '')}{uuid.uuid4().hex[:5]}"
        if not NAME.fullmatch(name):
            raise RefusedError(422, "Invalid", f'{kind} "{name}" is invalid: metadata.name')
        if self.refuses:
            text = f'{request.dotted} "{name}" is forbidden: {self.refuses}'
            raise RefusedError(403, "Forbidden", text)
        if (request.plural, request.space, name) in self.objects:
            raise RefusedError(409, "AlreadyExists", f'{request.dotted} "{name}" already exists')
        version = f"{request.group}/{request.version}" if request.group else request.version
        made |= {"apiVersion": version, "kind": kind}
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        meta |= {"name": name, "uid": str(uuid.uuid4()), "creationTimestamp": now}
        if request.plural not in ("namespaces", "nodes"):
            meta["namespace"] = request.space
        if request.plural == "jobs":
            self._default_job(made)
            if self.mutate is not None:
                self.mutate(made)
        if self.default_queue and "parallelism" in made.get("spec", {}):
            meta.setdefault("labels", {}).setdefault(
                "kueue.x-k8s.io/queue-name", self.default_queue
            )
        if "dryRun" not in request.query:
            self.objects[request.plural, request.space, name] = made
            self._note("ADDED", request.plural, made)
        return made

    def _default_job(self, job: Json) -> None:
        spec = job["spec"]
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        if self.drops_suspend:
            spec.pop("suspend", None)
        own = {"controller-uid": job["metadata"]["uid"], "job-name": job["metadata"]["name"]}
        spec["template"].setdefault("metadata", {}).setdefault("labels", {}).update(own)
        job["status"] = {}

    def _patched(self, request: Request, found: Json) -> Json:
        changed = copy.deepcopy(found)
        if "json-patch" in request.form:
            for operation in request.body:
                _operate(changed, operation)
        else:
            _merge(changed, request.body)
        if changed["metadata"].get("uid") != found["metadata"]["uid"]:
            text = f'{found["kind"]} "{request.name}" is invalid: metadata.uid: field is immutable'
            raise RefusedError(422, "Invalid", text)
        if self.drops_suspend and request.plural == "jobs":
            changed["spec"].pop("suspend", None)
        return changed

    def _delete(self, request: Request, found: Json) -> None:
        asked = request.body or {}
        expected = (asked.get("preconditions") or {}).get("uid")
        meta = found["metadata"]
        if expected is not None and expected != meta["uid"]:
            kind = f"{found['kind']}.{request.group}" if request.group else found["kind"]
            text = f'Operation cannot be fulfilled on {kind} "{request.name}": the UID in the '
            text += f"precondition ({expected}) does not match the UID in record ({meta['uid']})."
            raise RefusedError(409, "Conflict", text)
        meta["deletionTimestamp"] = meta["creationTimestamp"]
        if asked.get("propagationPolicy") == "Foreground":
            meta["finalizers"] = ["foregroundDeletion"]
        self.settle(found)

    def _list(self, request: Request) -> Json:
        items = [
            {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}
            for each in self.all(request.plural, request.space or None)
            if _selected(each, request.query)
        ]
        kind = f"{KINDS[request.plural][1]}List"
        return {
            "kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)},
            "items": copy.deepcopy(items),
        }  # fmt: skip

    def _watch(self, request: Request) -> list[Json]:
        since = int(request.query.get("resourceVersion", "0"))
        if since < self.forgotten:
            gone = RefusedError(410, "Expired", TOO_OLD)
            return [{"type": "ERROR", "object": gone.body}]
        return [
            {"type": kind, "object": document}
            for version, kind, plural, space, document in self.events
            if version > since and plural == request.plural and space == request.space
        ]

    def removed(self, document: Json) -> None:
        """Tell who watches that an object is gone which a test has taken away."""
        self._note("DELETED", self._key(document)[0], document)

    def arrive(self) -> list[int]:
        """Do what has come late; return how it was answered to nobody."""
        arrived = [self._answer(*each)[0] for each in self.late]
        self.late.clear()
        return arrived

    def forget(self, version: int) -> None:
        """Forget what was before a version: whoever watches from there must list again."""
        self.forgotten = version

    def _note(self, kind: str, plural: str, document: Json) -> None:
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)
        space = document["metadata"].get("namespace", "")
        self.events.append((self.version, kind, plural, space, copy.deepcopy(document)))

    # What the controllers do.

    def settle(self, changed: Json | None = None) -> None:
        """Let the controllers do all that there is to do now."""
        if changed is not None and self._key(changed) in self.objects:
            self._note("MODIFIED", self._key(changed)[0], changed)
        for _ in range(20):
            before = self.version
            for document in list(self.objects.values()):
                if self._key(document) in self.objects:
                    self._control(document)
            if self.version == before:
                return

    def _key(self, document: Json) -> tuple[str, str, str]:
        plural = next(key for key, (_, kind) in KINDS.items() if kind == document["kind"])
        meta = document["metadata"]
        return plural, meta.get("namespace", ""), meta["name"]

    def _control(self, document: Json) -> None:
        meta, key = document["metadata"], self._key(document)
        owned = [each for each in self.objects.values() if _owner(each) == meta["uid"]]
        if "deletionTimestamp" in meta:
            for each in owned:
                if "deletionTimestamp" not in each["metadata"]:
                    each["metadata"]["deletionTimestamp"] = meta["deletionTimestamp"]
                    self._note("MODIFIED", self._key(each)[0], each)
            waits = self.lingering and key[0] == "pods"
            if not waits and not (owned and meta.get("finalizers")):
                del self.objects[key]
                self._note("DELETED", key[0], document)
        elif document["kind"] == "Job":
            self._control_job(document, owned)
        elif document["kind"] in CHILDREN and not owned and _starts(document):
            for name, plural, spec in CHILDREN[document["kind"]](document):
                self._make(document, plural, f"{meta['name']}{name}", spec)
            self._note("MODIFIED", key[0], document)

    def _control_job(self, job: Json, pods: list[Json]) -> None:
        spec, status = job["spec"], job["status"]
        if status.get("conditions") and status["conditions"][-1]["type"] in ("Complete", "Failed"):
            return
        phases = [each.get("status", {}).get("phase") for each in pods]
        failed, done = phases.count("Failed"), phases.count("Succeeded")
        active = [each for each, phase in zip(pods, phases, strict=True)
                  if phase not in ("Failed", "Succeeded")]  # fmt: skip
        wanted = 0 if spec.get("suspend") else min(spec["parallelism"], spec["parallelism"] - done)
        before = copy.deepcopy(status)
        if failed > spec["backoffLimit"]:
            self._end_job(job, "Failed", "BackoffLimitExceeded")
        elif done and not active and done >= (spec.get("completions") or 1):
            self._end_job(job, "Complete", "Completed")
        else:
            for number in range(len(active), wanted):
                name = f"{job['metadata']['name']}-{number}{uuid.uuid4().hex[:4]}"
                self._make(job, "pods", name, copy.deepcopy(spec["template"]))
                self._event(job, "SuccessfulCreate", "Normal", f"Created pod: {name}")
            for each in active[wanted:]:
                each["metadata"]["deletionTimestamp"] = each["metadata"]["creationTimestamp"]
            active = active[:wanted] or [{}] * wanted
        counts = {"active": len(active), "succeeded": done, "failed": failed}
        for key, count in counts.items():
            status.pop(key, None)
            if count and not (key == "active" and status.get("conditions")):
                status[key] = count
        if status != before:
            self._note("MODIFIED", "jobs", job)

    def _end_job(self, job: Json, kind: str, reason: str) -> None:
        condition = {"type": kind, "status": "True"}
        if kind == "Failed":
            condition["reason"] = reason
            text = "Job has reached the specified backoff limit"
            self._event(job, reason, "Warning", text)
        job["status"]["conditions"] = [condition]

    def _make(self, owner: Json, plural: str, name: str, document: Json) -> None:
        group, kind = KINDS[plural]
        meta = {**document.get("metadata", {}), "name": name}
        up = {"kind": owner["kind"], "name": owner["metadata"]["name"]}
        up |= {"apiVersion": owner["apiVersion"], "uid": owner["metadata"]["uid"]}
        meta["ownerReferences"] = [{**up, "controller": True, "blockOwnerDeletion": True}]
        made = {**document, "metadata": meta}
        if plural == "pods":
            made["status"] = {"phase": "Pending"}
        version = "v1alpha2" if kind == "JobSet" else "v1"
        space = owner["metadata"]["namespace"]
        self._create(Request("POST", group, version, space, plural, "", "", {}, made, ""))

    def _event(self, about: Json, reason: str, kind: str, text: str) -> None:
        meta = about["metadata"]
        named = {"kind": about["kind"], "name": meta["name"], "uid": meta["uid"]}
        event = {
            "metadata": {"name": f"{meta['name']}.{uuid.uuid4().hex[:12]}"},
            "involvedObject": {**named, "namespace": meta["namespace"]},
            "reason": reason, "type": kind, "message": text, "count": 1,
            "firstTimestamp": meta["creationTimestamp"], "lastTimestamp": meta["creationTimestamp"],
        }  # fmt: skip
        request = Request("POST", "", "v1", meta["namespace"], "events", "", "", {}, event, "")
        self._create(request)


def _fits(row: tuple[str, str, object], method: str, target: str) -> bool:
    return row[0] == method and target.endswith(row[1])


def _owner(document: Json) -> str | None:
    owners = document["metadata"].get("ownerReferences") or []
    return owners[0]["uid"] if owners else None


def _starts(document: Json) -> bool:
    spec, status = document["spec"], document.get("status") or {}
    suspended = spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend")
    return not suspended and "rayClusterName" not in status


Child = tuple[str, str, Json]
JOBSET = "jobset.sigs.k8s.io/jobset-name"


def _labelled(template: Json, label: str, value: str) -> Json:
    """Return a pod template with the label that an operator puts on its pods."""
    made: Json = copy.deepcopy(template)
    made.setdefault("metadata", {}).setdefault("labels", {})[label] = value
    return made


def _of_jobset(document: Json) -> Iterator[Child]:
    for each in document["spec"]["replicatedJobs"]:
        job, name = copy.deepcopy(each["template"]), document["metadata"]["name"]
        job["spec"]["template"] = _labelled(job["spec"]["template"], JOBSET, name)
        for number in range(each.get("replicas", 1)):
            yield f"-{each['name']}-{number}", "jobs", copy.deepcopy(job)


def _of_trainjob(document: Json) -> Iterator[Child]:
    trainer = document["spec"].get("trainer") or {}
    words = {key: trainer[key] for key in ("image", "command", "args", "env") if key in trainer}
    pod = {"spec": {"restartPolicy": "Never", "containers": [{"name": "node", **words}]}}
    job = {"spec": {"parallelism": trainer.get("numNodes", 1), "template": pod}}
    yield "", "jobsets", {"spec": {"replicatedJobs": [{"name": "node", "template": job}]}}


def _of_pytorchjob(document: Json) -> Iterator[Child]:
    name = document["metadata"]["name"]
    for role, each in document["spec"]["pytorchReplicaSpecs"].items():
        for number in range(each.get("replicas", 1)):
            pod = _labelled(each["template"], "training.kubeflow.org/job-name", name)
            yield f"-{role.lower()}-{number}", "pods", pod


def _of_rayjob(document: Json) -> Iterator[Child]:
    cluster = f"{document['metadata']['name']}-cluster"
    document["status"] = {"rayClusterName": cluster, "jobDeploymentStatus": "Initializing"}
    head = document["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
    yield "-head", "pods", _labelled(head, "ray.io/cluster", cluster)


CHILDREN: dict[str, Callable[[Json], Iterator[Child]]] = {
    "JobSet": _of_jobset, "TrainJob": _of_trainjob,
    "PyTorchJob": _of_pytorchjob, "RayJob": _of_rayjob,
}  # fmt: skip


def _selected(document: Json, query: dict[str, str]) -> bool:
    labels = document["metadata"].get("labels", {})
    for term in filter(None, query.get("labelSelector", "").split(",")):
        key, sign, value = term.partition("=")
        if key not in labels or (sign and labels[key] != value):
            return False
    for term in filter(None, query.get("fieldSelector", "").split(",")):
        path, _, value = term.partition("=")
        at: Any = document
        for key in path.split("."):
            at = at.get(key) if isinstance(at, dict) else None
        if at != value:
            return False
    return True


def _merge(into: Json, change: Json) -> None:
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _operate(document: Json, operation: Json) -> None:
    """Do one operation of a JSON patch; a test that fails refuses all of them."""
    *parents, last = (
        part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
    )
    at: Any = document
    for key in parents:
        at = at.get(key) if isinstance(at, dict) else None
    missing = not isinstance(at, dict) or (last not in at and operation["op"] != "add")
    if missing or (operation["op"] == "test" and at[last] != operation["value"]):
        raise RefusedError(422, "Invalid", REJECTED)
    if operation["op"] == "remove":
        del at[last]
        if not at and last != "spec":
            with suppress(KeyError):
                del document["metadata"][parents[-1]]
    elif operation["op"] in ("add", "replace"):
        at[last] = operation["value"]


@contextmanager
def serving() -> Iterator[Server]:
    """Serve in a thread of its own, as long as the block lasts."""
    made, loop, ready = Server(), asyncio.new_event_loop(), threading.Event()

    async def begin() -> None:
        server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
        made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        ready.set()

    async def end() -> None:
        own = asyncio.current_task()
        open_connections = [task for task in asyncio.all_tasks() if task is not own]
        for task in open_connections:
            task.cancel()
        await asyncio.gather(*open_connections, return_exceptions=True)
        loop.stop()

    def work() -> None:
        loop.run_until_complete(begin())
        loop.run_forever()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield made
    finally:
        made.goes_on.set()
        asyncio.run_coroutine_threadsafe(end(), loop)
        thread.join(30)

"""One conversation with an API server, the same with the real one and with that of the tests.

``make test-kubernetes`` has it with a real server and compares what that says with
``tests/data/kubernetes/captures.json``; ``make test`` has it with the server of the tests. With
``python -m tests.platforms.kubernetes.scenario KUBECONFIG ETCD`` the captures are made anew.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

CAPTURES = Path(__file__).resolve().parents[2] / "data" / "kubernetes" / "captures.json"
ADMIN, READER = "rigtoken", "readtoken"
"""Tokens that both servers take: one may do everything, one nothing."""
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
WITHIN = 60.0

HELD = "cockpit/held"
NOTE = {"metadata": {"name": "toy-i001"}, "data": {"state": "taken"}}
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "toy-i001", "annotations": {HELD: "x"}, "labels": {"cockpit/run": "toy"}},
    "spec": {
        "suspend": True,
        "parallelism": 0,
        "backoffLimit": 0,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "train", "image": "x", "command": ["train"]}],
            }
        },
    },
}
OOM = {
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "train", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
                "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ],
    }
}  # fmt: skip


def gist(value: Any) -> Any:
    """Return what of an answer is the same each time."""
    if value is None or "metadata" not in value:
        return value
    if value.get("kind") == "Status":
        return {key: value[key] for key in ("code", "reason", "message") if key in value}
    if "items" in value:
        return {"kind": value["kind"], "items": [gist(each) for each in value["items"]]}
    meta, spec, status = value["metadata"], value.get("spec", {}), value.get("status", {})
    owners = ("kind", "name", "controller", "blockOwnerDeletion")
    held, counted = ("suspend", "parallelism", "backoffLimit"), ("active", "succeeded", "failed")
    conditions = status.get("conditions", ())
    return {
        "kind": value.get("kind"),
        "labels": sorted(meta.get("labels", {})),
        "annotations": meta.get("annotations", {}),
        "owners": [{key: each[key] for key in owners} for each in meta.get("ownerReferences", ())],
        "finalizers": meta.get("finalizers", []),
        "deleting": "deletionTimestamp" in meta,
        "spec": {key: spec[key] for key in held if key in spec},
        "data": value.get("data"),
        "event": [value.get("reason"), value.get("type")] if "involvedObject" in value else None,
        "phase": status.get("phase"),
        "conditions": [[each["type"], each["status"], each.get("reason")] for each in conditions],
        "counts": {key: status[key] for key in counted if key in status},
    }  # fmt: skip


class Talk:
    """A conversation about one namespace; ``said`` is what was answered, step by step."""

    def __init__(self, url: str, namespace: str, forget: Callable[[int], None]) -> None:
        self._http = httpx.Client(base_url=url, verify=False, timeout=WITHIN)
        self._forget = forget
        self.namespace = namespace
        self.said: dict[str, Any] = {}

    def __call__(
        self, title: str, method: str, path: str, body: Any = None, *,
        token: str = ADMIN, kind: str = "application/json",
    ) -> Any:  # fmt: skip
        """Ask, note the gist of the answer, and return it."""
        answer = self._asked(method, path, body, token, kind)
        try:
            value = answer.json()
        except ValueError:
            value = None
        said = value if value is not None else {"text": answer.text.strip()}
        self.said[title] = [answer.status_code, self._plain(gist(said))]
        return said

    def until(self, path: str, true: Callable[[Any], bool]) -> Any:
        """Ask for something until it is so."""
        end = time.monotonic() + WITHIN
        while True:
            answer = self._asked("GET", path, None, ADMIN, "")
            value = answer.json()
            if true(value):
                return value
            assert time.monotonic() < end, value
            time.sleep(0.1)

    def watched(self, title: str, path: str) -> None:
        """Note the kinds of the first event of a watch."""
        headers = {"authorization": f"Bearer {ADMIN}"}
        with self._http.stream("GET", self._full(path), headers=headers) as answer:
            event = json.loads(next(answer.iter_lines()))
        thing = gist(event["object"])
        self.said[title] = [answer.status_code, event["type"], self._plain(thing)]

    def forget(self, version: int) -> None:
        """Let the server forget what was before a version."""
        self._forget(version)

    def _full(self, path: str) -> str:
        return path.replace("{ns}", f"namespaces/{self.namespace}")

    def _asked(self, method: str, path: str, body: Any, token: str, kind: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}", "content-type": kind}
        content = None if body is None else json.dumps(body)
        return self._http.request(method, self._full(path), content=content, headers=headers)

    def _plain(self, value: Any) -> Any:
        return json.loads(json.dumps(value).replace(self.namespace, "NAMESPACE"))


JOBS, NOTES, PODS = "/apis/batch/v1/{ns}/jobs", "/api/v1/{ns}/configmaps", "/api/v1/{ns}/pods"
EVENTS = "/api/v1/{ns}/events"


def hold_test(value: str, *changes: Any) -> list[Any]:
    """Return a JSON patch that is refused unless the annotation has this value."""
    return [{"op": "test", "path": "/metadata/annotations/cockpit~1held", "value": value}, *changes]


def talk(with_: Talk) -> dict[str, Any]:
    """Have the whole conversation; return the gists of the answers."""
    for part in (_creating, _letting_go, _ending, _refusing, _forgetting):
        part(with_)
    return with_.said


def _creating(ask: Talk) -> None:
    ask("a note", "POST", NOTES, NOTE)
    ask("a note again", "POST", NOTES, NOTE)
    ask("a job tried", "POST", f"{JOBS}?dryRun=All", JOB)
    ask("a job that was only tried", "GET", f"{JOBS}/toy-i001")
    ask("a job", "POST", JOBS, JOB)
    ask("a job again", "POST", JOBS, JOB)
    bad = {**JOB, "metadata": {"name": "Bad"}}
    ask.said["a bad name"] = ask("bad", "POST", JOBS, bad)["code"]
    del ask.said["bad"]
    ask("pods of a held job", "GET", PODS)


def _letting_go(ask: Talk) -> None:
    go = {"op": "replace", "path": "/spec/parallelism", "value": 1}
    drop = {"op": "remove", "path": "/metadata/annotations/cockpit~1held"}
    one = f"{JOBS}/toy-i001"
    ask("let go, another hold", "PATCH", one, hold_test("y", drop, go), kind=JSON_PATCH)
    ask("let go, no such job", "PATCH", f"{JOBS}/no", hold_test("x", drop, go), kind=JSON_PATCH)
    ask("let go", "PATCH", one, hold_test("x", drop, go), kind=JSON_PATCH)
    ask("let go twice", "PATCH", one, hold_test("x", drop, go), kind=JSON_PATCH)
    ask.until(PODS, lambda found: bool(found["items"]))
    ask.until(one, lambda found: found["status"].get("active") == 1)
    ask("the job that was let go", "GET", one)
    ask("its pods", "GET", PODS)
    ask("by its run", "GET", f"{JOBS}?labelSelector=cockpit/run%3Dtoy")
    ask("by another run", "GET", f"{JOBS}?labelSelector=cockpit/run%3Dother")
    change = {"data": {"state": "released"}}
    ask("the note changed", "PATCH", f"{NOTES}/toy-i001", change, kind=MERGE)
    taken = {"op": "test", "path": "/data/state", "value": "taken"}
    ask("the note tested", "PATCH", f"{NOTES}/toy-i001", [taken], kind=JSON_PATCH)


def _ending(ask: Talk) -> None:
    pod = ask.until(PODS, lambda found: bool(found["items"]))["items"][0]["metadata"]["name"]
    ask("a pod's end", "PATCH", f"{PODS}/{pod}/status", OOM, kind=MERGE)
    one = f"{JOBS}/toy-i001"
    ask.until(one, lambda found: bool(found["status"].get("conditions")))
    job = ask("the failed job", "GET", one)
    ask.until(EVENTS, lambda found: len(found["items"]) > 1)
    ask("events", "GET", EVENTS)
    wrong = {"preconditions": {"uid": "x"}, "propagationPolicy": "Foreground"}
    said = ask("deleted, another uid", "DELETE", one, wrong)
    ask.said["deleted, another uid"][1]["message"] = said["message"].partition(" (x)")[0]
    right = {**wrong, "preconditions": {"uid": job["metadata"]["uid"]}}
    ask("deleted", "DELETE", one, right)
    ask.until(one, lambda found: found.get("code") == 404)
    ask("after it", "GET", one)
    ask("its pods after it", "GET", PODS)
    ask("deleted twice", "DELETE", one, right)
    ask("the same name again", "POST", JOBS, JOB)


def _refusing(ask: Talk) -> None:
    ask("no token of theirs", "GET", f"{JOBS}/toy-i001", token="nobody")
    ask("no right to read", "GET", f"{JOBS}/toy-i001", token=READER)
    ask("no right to list", "GET", PODS, token=READER)
    ask("no right to make", "POST", NOTES, NOTE, token=READER)
    ask("no right to delete", "DELETE", f"{JOBS}/toy-i001", {}, token=READER)
    ask("no such kind", "GET", "/apis/jobset.x-k8s.io/v1alpha2/{ns}/jobsets")
    ask("no such group", "GET", "/apis/kueue.x-k8s.io")
    may = {"verb": "create", "resource": "jobs", "group": "batch", "namespace": "default"}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    for title, token in (("may", ADMIN), ("may not", READER)):
        body = {**review, "spec": {"resourceAttributes": may}}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        ask.said[title] = ask(title, "POST", path, body, token=token)["status"]["allowed"]


def _forgetting(ask: Talk) -> None:
    listed = ask.until(EVENTS, lambda found: len(found["items"]) > 1)
    first = min(int(each["metadata"]["resourceVersion"]) for each in listed["items"]) - 1
    ask.watched("watched", f"{EVENTS}?watch=1&resourceVersion={first}")
    ask.forget(int(listed["metadata"]["resourceVersion"]))
    ask.watched("watched, forgotten", f"{EVENTS}?watch=1&resourceVersion={first}")


def compared(said: dict[str, Any]) -> Iterator[str]:
    """Yield each answer that differs from the captured one."""
    captured = json.loads(CAPTURES.read_text())
    for title in {*said, *captured}:
        if said.get(title) != captured.get(title):
            yield f"{title}: {said.get(title)}, and not {captured.get(title)}"


def opened(kubeconfig: Path, forget: Callable[[int], None]) -> Talk:
    """Begin a conversation with the server of a kubeconfig, in a namespace of its own."""
    config = json.loads(kubeconfig.read_text())
    url = config["clusters"][0]["cluster"]["server"]
    name = f"talk-{time.time_ns() % 10**10}"
    made = Talk(url, name, forget)
    made("namespace", "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    del made.said["namespace"]
    return made


def compact(etcd: str) -> Callable[[int], None]:
    """Return what lets a real server forget what was before a version."""

    def forget(version: int) -> None:
        body = {"revision": version, "physical": True}
        httpx.post(f"{etcd}/v3/kv/compaction", json=body, timeout=WITHIN).raise_for_status()

    return forget


if __name__ == "__main__":
    answers = talk(opened(Path(sys.argv[1]), compact(sys.argv[2])))
    CAPTURES.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")

"""Stops objects by uid and waits for the end of their pods; asks trainers to save; evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from cockpit.hosts.here import HERE_LINK
from cockpit.model.jobs import LiveJob
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.command import NO_WAY, save_by_command
from cockpit.platforms.describing import outlined
from cockpit.platforms.kubernetes.api import ApiError, Cluster
from cockpit.platforms.kubernetes.launching import CHANGED
from cockpit.platforms.kubernetes.objects import Object, part
from cockpit.platforms.kubernetes.pods import Pod
from cockpit.platforms.kubernetes.view import Look, Namespace
from cockpit.platforms.protocol import EndingJobs
from cockpit.platforms.reports import as_evidence, missing, safe_document
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

UID, PATH = "uid", "path"
"""What the handle of a living job holds: its uid, and the path of its API."""
NO_HANDLE: Final = "no object of this cluster: only what stands at the top of its owners is deleted"


class Target(NamedTuple):
    """One object: what people call it, its path and its uid."""

    id: str
    path: str
    uid: str


def target_of(job: LiveJob) -> Target:
    """Return what a job is ended by; raises ``CannotError`` for one that is not ours to end."""
    path, uid = job.handle.get(PATH), job.handle.get(UID)
    if not path or not uid:
        raise CannotError(f"{job.id}: {job.beyond or NO_HANDLE}")
    return Target(job.id, path, uid)


class EndingObjects(EndingJobs):
    """Objects of one namespace that are deleted, each by its uid, after all that they own."""

    slack: ClassVar[float] = 60.0

    def __init__(self, space: Namespace, targets: Sequence[Target]) -> None:
        self._space = space
        self._left = list(targets)
        self._pods: dict[Target, set[str]] = {each: {each.uid} for each in targets}
        """The uids of the pods that each was seen to have: they are waited for once it is gone."""
        self._going: set[Target] = set()

    async def left(self) -> Sequence[str]:
        """Return those that are still there, and the pods that have outlived theirs."""
        try:
            look = await self._space.look()
        except HttpError as error:
            raise LostError(clean(error, 400)) from error
        self._going.clear()
        said = [(target, self._state(target, look)) for target in self._left]
        self._left = [target for target, text in said if text]
        return [text for _, text in said if text]

    def _state(self, target: Target, look: Look) -> str:
        """Return how one lives; nothing once it and its pods are gone, or it is over."""
        word = target.id.partition("/")[0]
        if word in look.errors:
            raise LostError(clean(look.errors[word], 400))
        top = next((top for top in look.tops if top.uid == target.uid), None)
        self._pods[target] |= {_uid(body) for body in look.pods.get(target.uid, ())}
        every = [body for bodies in look.pods.values() for body in bodies]
        pods = [Pod.of(body, None) for body in every if _uid(body) in self._pods[target]]
        pods = [pod for pod in pods if not pod.over]
        state = None if top is None else look.job(top).state
        if not pods and (state is None or state.phase.terminal):
            return ""
        body = top.body if top is not None else pods[0].body
        if (top is None and _uid(body) != target.uid) or body["metadata"].get("deletionTimestamp"):
            self._going.add(target)
        names = ", ".join(clean(pod.name, 80) for pod in pods[:5]) or "none"
        how = "being deleted" if target in self._going else state.word if state else "running"
        return f"{target.id} ({how}; pods: {names})"

    async def tell(self, *, late: bool) -> None:
        """Delete each that is there and not being deleted, what it owns first."""
        for target in self._left:
            if target in self._going:
                continue
            body = {"preconditions": {"uid": target.uid}, "propagationPolicy": "Foreground"}
            try:
                await self._space.cluster.delete(target.path, body)
            except LostError:
                self.told = True
                raise
            except ApiError as error:
                if error.status in CHANGED:
                    continue  # it has gone meanwhile: the next look tells
                raise self.unreached(f"{target.id} was not deleted: {error}") from error
            except CannotError as error:
                raise self.unreached(error) from error
            self.told = True


def _uid(body: Object) -> str:
    return str(body["metadata"]["uid"])


# Asking to save.


async def save(space: Namespace, run: RunSpec, live: LiveJob) -> None:
    """Run ``save_command`` here, or send ``save_signal`` by `kubectl exec` to the first process.

    Both can name the pod of rank 0: of the kinds here `kubectl exec` takes a Job alone.
    Raises ``CannotError`` and ``LostError``.
    """
    job = run.job
    if job is None or not (job.save_command or job.save_signal):
        raise CannotError(NO_WAY)
    look = await space.look()
    own = (look.job(top, run).pods for top in look.tops if top.uid == live.handle.get(UID))
    pod = next((pod for pods in own for pod in pods if pod.runs), None)
    if pod is not None:
        live = live.model_copy(update={"handle": {**live.handle, "pod": pod.name}})
    if job.save_command is None:
        if pod is None:
            raise CannotError(f"{live.id}: no pod of it runs that could be asked to save")
        words = ["kubectl", "exec", pod.name, "-n", await space.cluster.namespace()]
        words += ["--context", job.context] if job.context else []
        words += ["-c", pod.container, "--", "kill", f"-{job.save_signal}", "1"]
        job = job.model_copy(update={"save_command": tuple(words)})
    await save_by_command(HERE_LINK, run.model_copy(update={"job": job}), live)


# Evidence.

MOST: Final = 8
LINES: Final = 1000
"""Lines of the end of a pod's log that are kept."""


async def gather(space: Namespace, jobs: Sequence[LiveJob]) -> dict[str, bytes]:
    """Return the objects, their pods, events and the ends of their logs, by file name.

    Never raises: what could not be had is said in the file.
    """
    cluster, found = space.cluster, dict[str, bytes]()
    try:
        look, base = await space.look(), f"/api/v1/namespaces/{await cluster.namespace()}"
        events = await _listed(cluster, f"{base}/events")
    except HttpError as error:
        return {"kubernetes.txt": _file(missing(error))}
    for number, job in enumerate(jobs[:MOST], 1):
        uid = job.handle.get(UID)
        tops = [top.body for top in look.tops if top.uid == uid]
        own = [Pod.of(body, None) for body in look.pods.get(uid or "", ())]
        names = {part(each, "metadata.name") for each in (*tops, *(pod.body for pod in own))}
        about = [each for each in events if part(each, "involvedObject.name") in names]
        whole = {"object": tops, "pods": [pod.body for pod in own], "events": about}
        found[f"kubernetes-{number}.json"] = _file(as_evidence(whole))
        for pod in own[:MOST]:
            try:
                path = f"{base}/pods/{pod.name}/log"
                log = await cluster.text(path, container=pod.container, tailLines=LINES)
                text = scrub(log.decode("utf-8", "replace"))
            except HttpError as error:
                text = missing(error)
            found[f"kubernetes-{number}-{clean(pod.name, 80)}.log"] = _file(text)
    return found


async def describe(space: Namespace, job_id: str) -> str:
    """Return an object, its pods and their events; raises ``CannotError``, ``HttpError``."""
    look, base = await space.look(), f"/api/v1/namespaces/{await space.cluster.namespace()}"
    events = await _listed(space.cluster, f"{base}/events")
    top = next((each for each in look.tops if each.id == job_id), None)
    if top is None:
        raise CannotError(f"the namespace has no {clean(job_id, 120) or 'job of the run'}")
    pods = [Pod.of(body, None).body for body in look.pods.get(top.uid, ())]
    names = {part(each, "metadata.name") for each in (top.body, *pods)}
    said = [
        f"{each.get('lastTimestamp') or each.get('eventTime') or ''} {each.get('type', '')} "
        f"{each.get('reason', '')} {part(each, 'involvedObject.name')}: {each.get('message', '')}"
        for each in events
        if part(each, "involvedObject.name") in names
    ]
    return "\n".join(outlined(safe_document({"events": said, "object": top.body, "pods": pods})))


async def _listed(cluster: Cluster, path: str) -> list[Object]:
    try:
        return list((await cluster.get(path))["items"])
    except HttpError:
        return []


def _file(text: str) -> bytes:
    return f"{text}\n".encode("utf-8", "replace")

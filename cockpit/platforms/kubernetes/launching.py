"""A launch on Kubernetes, at most once.

A note (a ConfigMap of the launch id's name) is created first; it is never deleted, so that each id
is used once. It says ``taken``, then ``released`` or ``closed``, whichever comes first. The object
follows under the same name, held: it starts only once its annotation ``HELD`` is removed together
with the hold, which a look-up that has marked it ``CLOSED`` makes impossible.
"""

from __future__ import annotations

import getpass
import json
import socket
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from cockpit.hosts.supervisor import LAUNCH_ID
from cockpit.model import wording
from cockpit.model.clock import Clock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Accepted, LookUp, Submission
from cockpit.model.observed import Phase
from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.api import ApiError, Cluster
from cockpit.platforms.kubernetes.manifest import command_checks, load
from cockpit.platforms.kubernetes.objects import (
    CLOSED,
    HELD,
    HOLDS,
    KINDS,
    LAUNCH_LABEL,
    NO_QUEUE,
    NOTE,
    QUEUE,
    RUN_LABEL,
    Object,
    ObjectKind,
    id_of,
    is_held,
    kept_hold,
    kind_of,
    labels_of,
    name_of,
    part,
    pod_templates,
    put,
)
from cockpit.platforms.kubernetes.states import Top
from cockpit.platforms.kubernetes.view import Namespace
from cockpit.platforms.protocol import NOTHING_STARTED, LaunchingPlatform, absent, looked_up
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

TAKEN, RELEASED, SHUT = "taken", "released", "closed"
"""What a note says of its launch."""
KUEUE: Final = "/apis/kueue.x-k8s.io"
TRIES: Final = 5
"""How often a look-up begins anew because a launch is going on meanwhile."""
CHANGED: Final = (404, 409, 422)
"""How a change is refused whose object has gone, or is not as it was tested to be."""
Patch = list[dict[str, object]]


async def found_at(cluster: Cluster, path: str) -> Object | None:
    """Return an object, ``None`` where there is none; raises ``HttpError``."""
    try:
        return await cluster.get(path)
    except ApiError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return None
        raise


class KubernetesLaunches(LaunchingPlatform):
    """What acts on the objects of a cluster: the launch protocol, on its notes and its objects."""

    def __init__(self, clock: Clock, logs: Logs) -> None:
        super().__init__(clock, logs)
        self._taken: dict[tuple[Namespace, str], str] = {}
        """The uids of the notes that this process has made, by namespace and launch id."""

    @abstractmethod
    def space_of(self, run: RunSpec) -> Namespace:
        """Return the namespace that a run is in."""

    def _cluster(self, run: RunSpec) -> Cluster:
        return self.space_of(run).cluster

    def name_for(self, launch_id: str) -> str:
        """Return the launch id as the name of an object."""
        return name_of(launch_id)

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against the object that the recorded words create."""
        return command_checks(run, words)

    async def used_ids(self, run: RunSpec) -> frozenset[str]:
        """Return the launch ids of a run that have a note."""
        path = await self._note_path(run)
        selector = f"{RUN_LABEL}={labels_of(run)[RUN_LABEL]}"
        found = await self._cluster(run).get(path, labelSelector=selector)
        ids = (part(each, "data.launch_id") for each in found["items"])
        return frozenset(str(each) for each in ids if each)

    async def try_start(self, run: RunSpec, submission: Submission) -> None:
        """See that the server would take the object in and hold it; nothing is created."""
        try:
            await self._held(run, submission, await self._cluster(run).namespace())
        except HttpError as error:
            raise CannotError(f"{error}; {NOTHING_STARTED}") from None

    async def check_unused(self, run: RunSpec, submission: Submission) -> None:
        """See that the id has no note but the one of this accept, and its name no object."""
        launch_id = submission.launch_id
        path = await self._note_path(run, launch_id)
        note = await found_at(self._cluster(run), path)
        mine = self._taken.get((self.space_of(run), launch_id))
        if note is None and mine is None:
            return
        if note is None:
            raise CannotError(f"the note of {launch_id} was deleted; {NOTHING_STARTED}")
        if note["metadata"]["uid"] != mine or part(note, "data.state") != TAKEN:
            raise CannotError(f"{_used(self._cluster(run), launch_id, note)}; plan again")

    async def offer(self, run: RunSpec, submission: Submission) -> Accepted:
        """Write the note, then create the object, held."""
        namespace, launch_id = await self._cluster(run).namespace(), submission.launch_id
        row, document, go = await self._held(run, submission, namespace)
        name = name_of(launch_id)
        told = {"path": row.path(namespace, name), "job": id_of(row, name)}
        try:
            note = await self._noted(run, launch_id, {"state": TAKEN, **told})
        except (ApiError, LostError) as error:
            raise CannotError(f"the note of {launch_id}: {error}; {NOTHING_STARTED}") from None
        self._taken[self.space_of(run), launch_id] = uid = str(note["metadata"]["uid"])
        document["metadata"]["annotations"] |= {NOTE: uid}
        try:
            made = await self._cluster(run).post(row.path(namespace), document)
        except ApiError as error:
            raise CannotError(f"{error}; {NOTHING_STARTED}") from None
        if not is_held(row, made):
            raise LostError(
                f"{self._cluster(run).name} has not kept {id_of(row, name)} from starting"
            )
        own: Patch = [{"op": "test", "path": "/metadata/uid", "value": made["metadata"]["uid"]}]
        handle = {
            "note": uid, "uid": str(made["metadata"]["uid"]), "path": row.path(namespace, name),
            "go": json.dumps([*own, *go]),
        }  # fmt: skip
        return Accepted(id=id_of(row, name), submission=submission, handle=handle)

    async def release(self, run: RunSpec, accepted: Accepted) -> str:
        """Say in the note that it is let go, unless it was closed; then take the hold away."""
        launch_id, handle = accepted.submission.launch_id, accepted.handle
        path = await self._note_path(run, launch_id)
        change = [*_step(handle["note"], TAKEN, RELEASED), _added("/data/uid", handle["uid"])]
        try:
            await self._cluster(run).patch(path, change, "json")
        except ApiError as error:
            why = str(error)
            with suppress(HttpError):
                if error.status in CHANGED:
                    why = _used(
                        self._cluster(run), launch_id, await found_at(self._cluster(run), path)
                    )
            raise CannotError(f"{why}; {NOTHING_STARTED}") from None
        try:
            await self._cluster(run).patch(handle["path"], json.loads(handle["go"]), "json")
        except ApiError as error:
            raise CannotError(f"{accepted.id} was not let go: {error}") from None
        return accepted.id

    async def go(self, run: RunSpec, accepted: Accepted) -> str:
        """Let an accepted job run; where that cannot be, delete what is held."""
        try:
            return await super().go(run, accepted)
        except CannotError:
            with suppress(CannotError, LostError, HttpError, TimeoutError):
                await self.close(run, accepted.submission.launch_id, accepted.handle)
            raise

    async def find(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> LookUp | str:
        """Return what became of a launch id by its note and its object."""
        note = await found_at(self._cluster(run), await self._note_path(run, launch_id))
        if note is not None:
            return (await self._of_note(run, launch_id, note, handle))[0]
        top = await self._without_note(run, launch_id, handle)
        if top is not None and not is_held(top.row, top.body):
            return await self._came(run, top)
        return f"{self._cluster(run).name} has no note of {launch_id}"

    async def close(self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None) -> LookUp:
        """Close a launch id and delete what is held under it; what was let go, if it was."""
        path, refused = await self._note_path(run, launch_id), ""
        for _ in range(TRIES):
            note = await found_at(self._cluster(run), path)
            try:
                if note is None:
                    top = await self._without_note(run, launch_id, handle)
                    if top is not None and not is_held(top.row, top.body):
                        return await self._came(run, top)
                    await self._shut_without_note(run, launch_id, top)
                    continue
                said, held = await self._of_note(run, launch_id, note, handle)
                if held is not None:
                    await self._shut(run, held)
                if isinstance(said, str):
                    state = str(part(note, "data.state"))
                    await self._cluster(run).patch(
                        path, _step(note["metadata"]["uid"], state, SHUT), "json"
                    )
                if held is not None:
                    await self._delete(run, held)
            except ApiError as error:  # most often it has changed meanwhile: look again
                refused = str(error)
                continue
            if isinstance(said, LookUp):
                return said
        raise LostError(f"{launch_id} cannot be closed: {refused or 'it changes all the time'}")

    async def _shut_without_note(self, run: RunSpec, launch_id: str, top: Top | None) -> None:
        """Mark what is held of an id that has no note, and only then write that it is closed."""
        if top is not None:
            await self._shut(run, top.body)
        await self._noted(run, launch_id, {"state": SHUT})
        if top is not None:
            await self._delete(run, top.body)

    async def _note_path(self, run: RunSpec, launch_id: str = "") -> str:
        base = f"/api/v1/namespaces/{await self._cluster(run).namespace()}/configmaps"
        return f"{base}/{name_of(launch_id)}" if launch_id else base

    async def _without_note(
        self, run: RunSpec, launch_id: str, handle: Mapping[str, str] | None
    ) -> Top | None:
        """Return the object of a launch whose note somebody has deleted.

        Raises ``ApiError`` where no kind of object may be read, or not the kind of this run's.
        """
        namespace, refused = await self._cluster(run).namespace(), None
        read, known = 0, (handle or {}).get("path")
        named = run.job.name if run.job is not None else None
        for row in KINDS.values():
            path = row.path(namespace, name_of(launch_id))
            try:
                found = await self._cluster(run).get(path)
            except ApiError as error:
                own = path == known or (named or "").startswith(f"{id_of(row, '')}")
                if own and error.kind is not ErrorKind.NOT_FOUND:
                    raise
                read += error.reason == "NotFound"
                refused = error if error.kind is not ErrorKind.NOT_FOUND else refused
                continue
            read += 1
            if (found["metadata"].get("annotations") or {}).get(LAUNCH_LABEL) == launch_id:
                return Top(row, found)
        if refused is not None and not read:
            raise refused
        return None

    async def _noted(self, run: RunSpec, launch_id: str, told: dict[str, str]) -> Object:
        """Write the note of an id; raises as ``Cluster.post`` does, also if there is one."""
        data = {
            **told, "launch_id": launch_id, "run": run.name,
            "who": f"{getpass.getuser()}@{socket.gethostname()}",
            "when": wording.moment(self._clock.now()),
        }  # fmt: skip
        meta = {"name": name_of(launch_id), "labels": labels_of(run, launch_id)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}
        return await self._cluster(run).post(await self._note_path(run), body)

    async def _held(
        self, run: RunSpec, submission: Submission, namespace: str
    ) -> tuple[ObjectKind, dict[str, Any], Patch]:
        """Return the object of a launch as the server will hold it, and what lets it go.

        The server is asked what it would make of it: an old one drops the field ``suspend``, and
        Kueue can put a job that names no queue into one of its own.
        """
        row, document = await load(run, submission)
        meta, spec = document["metadata"], document["spec"]
        meta["annotations"] |= {HELD: HOLDS}
        queue = meta["labels"].get(QUEUE) or meta["annotations"].pop(QUEUE, None)
        for path, value in row.holds:
            former = part(spec, path)
            put(spec, path, value)
            if queue:
                meta["labels"][QUEUE] = NO_QUEUE
            tried = await self._tried(run, row.path(namespace), document)
            given = (tried["metadata"].get("labels") or {}).get(QUEUE)
            if given not in (None, NO_QUEUE):
                queue, meta["labels"][QUEUE] = given, NO_QUEUE
                tried = await self._tried(run, row.path(namespace), document)
            if is_held(row, tried) and kept_hold(row, tried) == (path, value):
                starts = False if value is True else former or 1
                return row, document, await self._go(run, path, starts, queue)
        raise CannotError(
            f"{self._cluster(run).name} keeps no {row.kind} from starting, or a webhook of it "
            f"changes what is sent; {NOTHING_STARTED}"
        )

    async def _go(self, run: RunSpec, path: str, starts: object, queue: str | None) -> Patch:
        """Return what lets an object go; one in a queue Kueue starts by itself, once it admits."""
        annotation = f"/metadata/annotations/{_pointer(HELD)}"
        go: Patch = [
            {"op": "test", "path": annotation, "value": HOLDS},
            {"op": "remove", "path": annotation},
        ]
        if queue:
            go.append(_added(f"/metadata/labels/{_pointer(QUEUE)}", queue))
        if not queue or await found_at(self._cluster(run), KUEUE) is None:
            go.append(_added(f"/spec/{path.replace('.', '/')}", starts))
        return go

    async def _tried(self, run: RunSpec, path: str, document: Object) -> Object:
        try:
            return await self._cluster(run).review(document, f"{path}?dryRun=All")
        except HttpError as error:
            raise CannotError(f"{error}; {NOTHING_STARTED}") from None

    async def _of_note(
        self, run: RunSpec, launch_id: str, note: Object,
        handle: Mapping[str, str] | None
    ) -> tuple[LookUp | str, Object | None]:  # fmt: skip
        """Return what a note and its object tell, and the object where it is held."""
        state, uid = part(note, "data.state"), note["metadata"]["uid"]
        if (handle and handle.get("note") != uid) or state not in (TAKEN, RELEASED, SHUT):
            text = f"{_used(self._cluster(run), launch_id, note)}, and not by this launch"
            return absent(f"{text}; {NOTHING_STARTED}"), None
        path = str(part(note, "data.path") or "")
        found = await found_at(self._cluster(run), path) if path else None
        row = None if found is None else kind_of(found)
        if found is None or row is None or not _is_of(note, row, found, handle):
            return self._gone(run, launch_id, note), None
        held = is_held(row, found)
        if state == SHUT and held:
            return _closed(self._cluster(run), launch_id), found
        if held:
            return f"{self._cluster(run).name} holds {id_of(row, found['metadata']['name'])}", found
        return await self._came(run, Top(row, found)), None

    def _gone(self, run: RunSpec, launch_id: str, note: Object) -> LookUp | str:
        """Return what a note tells whose object is not there."""
        state = part(note, "data.state")
        if state == SHUT:
            return _closed(self._cluster(run), launch_id)
        if state != RELEASED:
            return f"{self._cluster(run).name} has no object of {launch_id}"
        job_id = clean(part(note, "data.job"), 120)
        text = f"{self._cluster(run).name}: {job_id} was let go, and is there no more"
        return looked_up(job_id, f"{text}: whether it ran is not known", lives=False)

    async def _came(self, run: RunSpec, top: Top) -> LookUp:
        """Return how the object of a launch fares."""
        space = self.space_of(run)
        look = await space.look()
        job = look.job(top, run)
        lives, reason = not job.state.phase.terminal, None
        if job.state.phase is Phase.WAITING:
            now = self._clock.now() + space.cluster.clock.off
            reason = (await space.wait(look, job, now)).text or job.state.reason
        text = f"{space.cluster.name}: {top.id} is {job.state.word}"
        return looked_up(top.id, text, lives=lives, waits_for=reason)

    async def _shut(self, run: RunSpec, held: Object) -> None:
        """Mark a held object so that nothing can let it go; raises ``ApiError`` if it was."""
        row = kind_of(held)
        hold = None if row is None else kept_hold(row, held)
        notes = held["metadata"]["annotations"]
        if hold is None or notes[HELD] == CLOSED:
            return
        annotation = f"/metadata/annotations/{_pointer(HELD)}"
        change: Patch = [
            {"op": "test", "path": "/metadata/uid", "value": held["metadata"]["uid"]},
            {"op": "test", "path": annotation, "value": notes[HELD]},
            {"op": "test", "path": f"/spec/{hold[0].replace('.', '/')}", "value": hold[1]},
            {"op": "replace", "path": annotation, "value": CLOSED},
        ]
        await self._cluster(run).patch(_path_of(held), change, "json")

    async def _delete(self, run: RunSpec, held: Object) -> None:
        """Delete an object that can never start; who cannot delete leaves it as it is."""
        body = {
            "preconditions": {"uid": held["metadata"]["uid"]}, "propagationPolicy": "Background",
        }  # fmt: skip
        with suppress(ApiError, LostError, CannotError):
            await self._cluster(run).delete(_path_of(held), body)


def _is_of(note: Object, row: ObjectKind, found: Object, handle: Mapping[str, str] | None) -> bool:
    """Tell whether an object is that of a note, also where a hand has taken our marks off it.

    Its pods keep the launch id in their environment.
    """
    meta, spec = found["metadata"], found["spec"]
    named = (meta.get("annotations") or {}).get(NOTE)
    if named is not None:
        return bool(named == note["metadata"]["uid"])
    mark = {"name": LAUNCH_ID, "value": part(note, "data.launch_id")}
    pods = [each for one in pod_templates(spec) for each in one["spec"]["containers"]]
    marked = any(
        mark in (one or ()) for one in (part(spec, row.env), *(p.get("env") for p in pods))
    )
    return marked or meta["uid"] in (part(note, "data.uid"), (handle or {}).get("uid"))


def _path_of(found: Object) -> str:
    row = kind_of(found)
    assert row is not None
    return row.path(str(found["metadata"]["namespace"]), str(found["metadata"]["name"]))


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _added(path: str, value: object) -> dict[str, object]:
    return {"op": "add", "path": path, "value": value}


def _step(uid: object, former: str, state: str) -> Patch:
    """Return what changes the state of a note, if it is the former one."""
    return [
        {"op": "test", "path": "/metadata/uid", "value": uid},
        {"op": "test", "path": "/data/state", "value": former},
        {"op": "replace", "path": "/data/state", "value": state},
    ]


def _used(cluster: Cluster, launch_id: str, note: Object | None) -> str:
    if note is None:
        return f"the note of {launch_id} was deleted"
    if part(note, "data.state") == SHUT:
        return f"{launch_id} was closed by a look-up"
    who = clean(part(note, "data.who") or "somebody", 80)
    return f"{launch_id} is used at {cluster.name} already, by {who}"


def _closed(cluster: Cluster, launch_id: str) -> LookUp:
    text = f"{cluster.name}: {launch_id} is closed; nothing of it ran, and nothing ever will"
    return absent(text)

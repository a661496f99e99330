"""A namespace of a Kubernetes cluster: each training is a Job that takes the code from a map."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import shlex
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from cockpit.config.file import load
from cockpit.demo.away import site
from cockpit.demo.away.site import TIME_LIMIT, Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import Submission
from cockpit.model.run import JobSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.api import ApiError, Cluster, find_access
from cockpit.platforms.kubernetes.objects import KINDS, Object
from cockpit.platforms.kubernetes.platform import KubernetesPlatform
from cockpit.platforms.kubernetes.states import Job, Top
from cockpit.runtime.http import HttpError
from cockpit.sources.logs.source import Logs
from cockpit.text.safe import clean

T = TypeVar("T")
IMAGE: Final = "python:3.12-slim"
SPARE: Final = 300
KEPT: Final = 86_400
"""Seconds after which the cluster itself removes a training that has ended."""
FILES: Final = "demo.tar.gz"
MANIFEST: Final = "job.json"
_START: Final = """\
mkdir -p {folder} && cd {folder} && {python} -m tarfile -e {mount}/{files} . && \
cd code && exec {command}"""


class KubernetesSite(Site):
    """A namespace, by the context of a kubeconfig; ``folder`` is the demo's, on this machine."""

    kind: ClassVar[str] = "kubernetes"

    def __init__(
        self, context: str | None, namespace: str | None, image: str | None, python: str | None,
        folder: str,
    ) -> None:  # fmt: skip
        asked = JobSpec(kind="kubernetes", context=context, namespace=namespace)
        try:
            access = find_access(asked)
        except HttpError as error:
            raise CannotError(str(error)) from None
        self._image, self._python = image or IMAGE, python or "python3"
        self._layout = DemoLayout(Path(folder))
        # what the kubeconfig calls the current one now may be another when the demo is removed
        where = {"context": access.context, "namespace": access.namespace}
        self._job = asked.model_copy(update=where)
        self.where = f"Kubernetes {clean(access.context, 120)}, {clean(access.namespace, 80)}"

    @property
    def settings(self) -> dict[str, Any]:
        """The context, the namespace, what trains there, and the folder here."""
        own = {"context": self._job.context, "namespace": self._job.namespace}
        used = {"image": self._image, "python": self._python}
        return {**own, **used, "folder": str(self._layout.folder)}

    def look(self, layout: DemoLayout, token: str) -> Ground:
        """See that the cluster answers, and lets us list jobs."""
        self._done(self._listed(KINDS["job"].path(self._space)))
        folder = f"/tmp/cockpit-demo-{token}"
        return Ground(folder=folder, python=self._python, tracker=False, seen=False)

    def ship(self, layout: DemoLayout, ground: Ground, situations: Sequence[Situation]) -> None:
        """Put code and configs into a config map, and write the manifests here."""
        name = f"demo-files-{ground.folder.rpartition('-')[2]}"
        data = base64.b64encode(gzip.compress(site.packed(layout, situations))).decode()
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        self._done(self._cluster().post(self._maps, {**made, "binaryData": {FILES: data}}))
        for situation in situations:
            manifest = json.dumps(self._manifest(name, ground), indent=1)
            (layout.run(situation.name).folder / MANIFEST).write_text(manifest, encoding="utf-8")

    def _manifest(self, files: str, ground: Ground) -> dict[str, Any]:
        """Return a Job that a namespace with the restricted security standard takes, too."""
        safe = {
            "allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 1000,
            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
        }  # fmt: skip
        limits = {"cpu": "1", "memory": "512Mi"}
        container = {
            "name": "train", "image": self._image, "securityContext": safe,
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": limits},
            "volumeMounts": [{"name": "files", "mountPath": self._mount(ground)}],
        }  # fmt: skip
        pod = {
            "restartPolicy": "Never", "containers": [container],
            "volumes": [{"name": "files", "configMap": {"name": files}}],
        }  # fmt: skip
        spec = {
            "backoffLimit": 0, "activeDeadlineSeconds": TIME_LIMIT + SPARE,
            "ttlSecondsAfterFinished": KEPT, "template": {"spec": pod},
        }  # fmt: skip
        return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}

    def _mount(self, ground: Ground) -> str:
        return f"{ground.folder}-files"

    def job(self, situation: Situation, ground: Ground) -> dict[str, Any]:
        """Return the namespace and the manifest; the job is found by its launch id."""
        manifest = str(self._layout.run(situation.name).folder / MANIFEST)
        own = {"context": self._job.context, "namespace": self._job.namespace}
        return {**own, "manifest": manifest}

    def resubmit(self, situation: Situation, ground: Ground) -> list[str]:
        """Return the command of the container: it unpacks the files and trains."""
        script = _START.format(
            folder=shlex.quote(ground.folder), python=shlex.quote(ground.python), files=FILES,
            mount=shlex.quote(self._mount(ground)), command=shlex.join(ground.words(situation)),
        )  # fmt: skip
        return ["sh", "-c", script]

    def submit(self, situation: Situation, ground: Ground) -> str:
        """Launch the training as the cockpit launches any job there."""
        run = next(run for run in load(self._layout.run_file).runs if run.name == situation.name)
        words = tuple(self.resubmit(situation, ground))
        submission = Submission(
            run=run.name, launch_id=situation.launch_id, command=words,
            workdir=str(self._layout.folder), env={},
        )  # fmt: skip

        async def launch() -> str:
            clock = SystemClock()
            platform = KubernetesPlatform(clock, Logs(clock))
            return await platform.go(run, await platform.accept(run, submission))

        return self._done(launch())

    def living(self, token: str) -> Mapping[str, str]:
        """Return the jobs of this demo that are there and not over, by the path and the uid."""
        row, found = KINDS["job"], {}
        for body in self._done(self._listed(row.path(self._space))):
            meta = body["metadata"]
            over = Job(Top(row, body), ()).state.phase.terminal
            if is_own(meta["name"], token) and (meta.get("deletionTimestamp") or not over):
                found[f"{row.path(self._space, meta['name'])} {meta['uid']}"] = str(meta["name"])
        return found

    def stop(self, ids: Sequence[str], *, gently: bool) -> None:
        """Delete these jobs with their pods, which have their grace."""
        for each in ids:
            path, _, uid = each.partition(" ")
            self._delete(path, uid, "Foreground")

    def forget(self, token: str) -> None:
        """Delete what is left of the demo: jobs that have ended, their notes, and the files."""
        for base in (KINDS["job"].path(self._space), self._maps):
            for body in self._done(self._listed(base)):
                meta = body["metadata"]
                if is_own(meta["name"], token):
                    self._delete(f"{base}/{meta['name']}", meta["uid"], "Background")

    def clear(self, ground: Ground) -> None:
        """Nothing is left: the folder was in the containers."""

    @property
    def _space(self) -> str:
        return str(self._job.namespace)

    @property
    def _maps(self) -> str:
        return f"/api/v1/namespaces/{self._space}/configmaps"

    def _cluster(self) -> Cluster:
        return Cluster(self._job, SystemClock())

    async def _listed(self, path: str) -> list[Object]:
        return list((await self._cluster().get(path))["items"])

    def _delete(self, path: str, uid: str, how: str) -> None:
        """Delete an object; one that is there no more is none of ours either."""

        async def delete() -> None:
            body = {"preconditions": {"uid": uid}, "propagationPolicy": how}
            try:
                await self._cluster().delete(path, body)
            except ApiError as error:
                if error.status not in (404, 409):
                    raise

        self._done(delete())

    def _done(self, asked: Coroutine[Any, Any, T]) -> T:
        try:
            return asyncio.run(asked)
        except HttpError as error:
            raise CannotError(str(error)) from None
        except LostError as error:
            raise LostError(f"{self.where}: {error}") from None

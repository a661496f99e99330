"""What a stop on Kubernetes deletes, and what it waits for; how a trainer is asked to save."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.jobs import LiveJob
from cockpit.platforms.base import CannotError, LostError
from tests.platforms.kubernetes.launches import KINDS, Launcher, job
from tests.platforms.kubernetes.server import Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def desk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    return Launcher(tmp_path, server)


async def living(desk: Launcher) -> LiveJob:
    run = desk.run()
    await desk.launch(run)
    (found,) = (await desk.platform.live([run]))["toy"].jobs
    return found


def deletes(desk: Launcher) -> list[str]:
    return [each for each in desk.server.asked if each.startswith("DELETE")]


async def test_pods_that_do_not_end_are_waited_for_and_named(desk: Launcher) -> None:
    one, run = await living(desk), desk.run()
    (pod,) = desk.server.all("pods")
    desk.server.lingering = True
    with pytest.raises(LostError, match=f"not gone in 100 s.*{pod['metadata']['name']}"):
        await desk.platform.stop(run, [one])
    assert deletes(desk) == ["DELETE /apis/batch/v1/namespaces/default/jobs/toy-i001"]
    desk.server.lingering = False
    desk.server.settle()
    await desk.platform.stop(run, [one])
    assert desk.server.all("pods") == desk.server.all("jobs") == []


async def test_pods_that_outlive_their_object_are_waited_for(desk: Launcher) -> None:
    """Somebody deletes the object and leaves its pods, as `--cascade=orphan` does."""
    one, run = await living(desk), desk.run()
    (pod,) = desk.server.all("pods")

    def orphan() -> None:
        pod["metadata"].pop("ownerReferences", None)
        desk.server.settle(pod)
        desk.server.add("events", {"metadata": {"name": "e"}, "involvedObject": {}})

    desk.server.before.append(("DELETE", "/jobs/toy-i001", orphan))
    with pytest.raises(LostError, match=str(pod["metadata"]["name"])):
        await desk.platform.stop(run, [one])
    assert desk.server.all("jobs") == [] and desk.server.all("pods") == [pod]


async def test_another_object_of_the_same_name_is_left_alone(desk: Launcher) -> None:
    one, run = await living(desk), desk.run()
    del desk.server.objects["jobs", "default", "toy-i001"]
    for key in [key for key in desk.server.objects if key[0] == "pods"]:
        del desk.server.objects[key]
    other = job()
    other["metadata"]["name"] = "toy-i001"
    desk.server.add("jobs", other)
    await desk.another().stop(run, [one])
    assert len(desk.server.all("jobs")) == len(desk.server.all("pods")) == 1


async def test_one_that_takes_the_name_right_before_the_delete_is_left_alone(
    desk: Launcher,
) -> None:
    one, run = await living(desk), desk.run()

    def replace() -> None:
        for key in [key for key in desk.server.objects if key[0] in ("pods", "jobs")]:
            gone = desk.server.objects.pop(key)
            desk.server.removed(gone)
        other = job()
        other["metadata"]["name"] = "toy-i001"
        desk.server.add("jobs", other)

    desk.server.before.append(("DELETE", "/jobs/toy-i001", replace))
    await desk.platform.stop(run, [one])
    assert len(desk.server.all("jobs")) == len(desk.server.all("pods")) == 1


async def test_a_child_is_never_deleted(desk: Launcher) -> None:
    """Its owner would make it again: the jobs of a TrainJob are its JobSet's, and its own."""
    run = desk.run(KINDS["trainjob"])
    await desk.launch(run)
    child = next(each for each in desk.server.all("pods"))
    meta = child["metadata"]
    strange = LiveJob(
        id=f"pod/{meta['name']}", name="x", why="y", beyond="its owner makes it again"
    )
    with pytest.raises(CannotError, match="makes it again"):
        await desk.platform.stop(run, [strange])
    (one,) = (await desk.platform.live([run]))["toy"].jobs
    await desk.platform.stop(run, [one])
    assert [each.rpartition("/")[0] for each in deletes(desk)] == [
        "DELETE /apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs"
    ]


async def test_who_may_not_delete_is_told_so_and_nothing_ends(desk: Launcher) -> None:
    one, run = await living(desk), desk.run()
    desk.server.denied = {("delete", "jobs")}
    with pytest.raises(CannotError, match='cannot delete resource "jobs"'):
        await desk.platform.stop(run, [one])
    assert len(desk.server.all("pods")) == 1


async def test_a_trainer_is_asked_to_save_by_kubectl_exec(
    desk: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await living(desk)
    run = desk.run()
    why = desk.platform.can_save(run, one)
    assert why is not None and "job.save_signal" in why
    with pytest.raises(CannotError):
        await desk.platform.save(run, one)
    tools = tmp_path / "bin"
    tools.mkdir()
    kubectl, said = tools / "kubectl", tmp_path / "said"
    kubectl.write_text(f'#!/bin/sh\necho "$*" >>{said}\n')
    kubectl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    by_signal = desk.run(save_signal="USR1", context="tests")
    assert desk.platform.can_save(by_signal, one) is None
    with pytest.raises(CannotError, match="no pod of it runs"):
        await desk.platform.save(by_signal, one)
    (pod,) = desk.server.all("pods")
    desk.server.run(pod)
    await desk.platform.save(by_signal, one)
    await desk.platform.save(desk.run(save_command="kubectl exec {pod} -- touch /save"), one)
    assert said.read_text().splitlines() == [
        f"exec {pod['metadata']['name']} -n default --context tests -c train -- kill -USR1 1",
        f"exec {pod['metadata']['name']} -- touch /save",
    ]

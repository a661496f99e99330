"""Objects and answers that mislead: what is said of the jobs of a cluster stays true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.observed import Phase
from cockpit.platforms.kubernetes import logs
from cockpit.runtime.http import Http, HttpError, Route
from tests.platforms.kubernetes.making import (
    Desk,
    at_desk,
    condition,
    job,
    jobset,
    pod_spec,
    run_of,
    status,
)
from tests.platforms.kubernetes.server import Json, Server
from tests.platforms.kubernetes.test_reading import lines_of, waiting


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_desk(tmp_path, monkeypatch) as made:
        yield made


def container(name: str, **state: Json) -> Json:
    return {"name": name, "ready": "running" in state, "restartCount": 0, "state": state}


def show(desk: Desk, pod: Json, **parts: Any) -> None:
    pod["status"] = {**pod.get("status", {}), **parts}
    desk.server.settle(pod)


def age(pod: Json, at: str) -> None:
    pod["metadata"]["creationTimestamp"] = at


# What runs, and what does not.


async def test_a_pod_on_a_node_that_went_silent_is_not_running(desk: Desk) -> None:
    """The cluster marks the pod not ready; its container stays as the kubelet saw it last."""
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    desk.server.run(pod, "node-a")
    rows = [condition("Ready", value="False"), condition("ContainersReady")]
    show(desk, pod, conditions=rows)
    value = await desk.job()
    assert value.phase is Phase.UNKNOWN and "node node-a does not answer" in (value.reason or "")
    rows[0]["reason"] = "ReadinessGatesNotReady"
    show(desk, pod, conditions=rows)
    assert (await desk.job()).phase is Phase.RUNNING


async def test_pods_on_a_silent_node_are_told_apart_from_those_that_do_not_run(desk: Desk) -> None:
    desk.server.add("jobsets", jobset(pods=2))
    first, second = desk.pods()
    desk.server.run(first)
    desk.server.run(second)
    show(desk, second, conditions=[condition("Ready", value="False"), condition("ContainersReady")])
    value = await desk.job(run_of(job="jobset/toy"))
    assert (value.phase, value.tasks and value.tasks.running) == (Phase.RUNNING, 1)
    assert "1 of 2 pods are on a node that does not answer" in (value.reason or "")


@pytest.mark.parametrize("code", [0, 1])
async def test_a_trainer_that_ended_beside_a_sidecar_does_not_wait(desk: Desk, code: int) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    pod["spec"]["nodeName"] = "node-a"
    ended = container("main", terminated={"exitCode": code, "reason": "Error"})
    rows = [ended, container("proxy", running={})]
    show(desk, pod, phase="Running", containerStatuses=rows)
    value = await desk.job()
    assert (value.phase, value.pending_since) == (Phase.UNKNOWN, None)
    assert f"exit {code}; its pod goes on with proxy" in (value.reason or "")


async def test_a_container_that_has_just_ended_is_not_being_made_ready(desk: Desk) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    pod["spec"]["nodeName"] = "node-a"
    ended = container("main", terminated={"exitCode": 1, "reason": "Error"})
    show(desk, pod, phase="Running", containerStatuses=[ended])
    value = await desk.job()
    assert value.phase is Phase.WAITING
    assert "exit 1; its kubelet has not said yet what follows" in (value.reason or "")


async def test_pods_that_a_quota_refuses_are_counted(desk: Desk) -> None:
    desk.server.add("jobs", job(parallelism=4, completions=4))
    for pod in desk.pods()[:2]:
        desk.server.run(pod)
    for pod in desk.pods()[2:]:
        desk.server.objects.pop(("pods", "default", pod["metadata"]["name"]))
    value = await desk.job()
    assert value.tasks is not None and (value.tasks.running, value.tasks.total) == (2, 4)
    assert "only 2 of 4 pods are there" in (value.reason or "")


# How it ended, and how often it began.


async def test_what_has_done_its_part_is_no_restart(desk: Desk) -> None:
    """Of three that run one after the other the first two are no attempts before the third."""
    made = desk.server.add("jobs", job(parallelism=3, completions=3))
    for number, pod in enumerate(desk.pods()):
        age(pod, f"2026-11-01T1{number}:00:00Z")
        (desk.server.finish if number < 2 else desk.server.run)(pod)
    made["spec"]["parallelism"] = 1
    value = await desk.job()
    assert (value.phase, value.restarts, len(value.children)) == (Phase.RUNNING, 0, 3)


async def test_a_success_after_a_failed_pod_ends_with_0(desk: Desk) -> None:
    made = desk.server.add("jobs", job(parallelism=2, completions=2, backoffLimit=3))
    for number, pod in enumerate(desk.pods()):
        desk.server.finish(pod, *(("Failed", 1) if not number else ("Succeeded", 0)))
    made["status"] = {"conditions": [condition("Complete")]}
    desk.server.settle(made)
    value = await desk.job()
    assert (value.phase, value.exit_code, value.state) == (Phase.SUCCEEDED, 0, "Complete")


async def test_a_preempted_pod_that_made_its_end_leaves_a_success(desk: Desk) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    desk.server.finish(pod)
    show(desk, pod, conditions=[condition("DisruptionTarget", "PreemptionByScheduler")])
    assert (await desk.job()).state == "Complete"


async def test_the_end_of_an_attempt_before_is_not_that_of_the_last(desk: Desk) -> None:
    made = desk.server.add("jobs", job(backoffLimit=1))
    first = desk.pods()[0]
    age(first, "2026-11-01T09:00:00Z")
    desk.server.finish(first, "Failed", 137, "OOMKilled")
    second = next(pod for pod in desk.pods() if pod is not first)
    show(desk, second, phase="Failed", containerStatuses=[container("main", waiting={})])
    value = await desk.job()
    assert made["status"]["conditions"][0]["type"] == "Failed"
    assert (value.phase, value.state, value.exit_code) == (Phase.FAILED, "Failed", None)


@pytest.mark.parametrize("group", ["initContainerStatuses", "containerStatuses"])
async def test_a_container_that_failed_beside_the_trainer_is_named(desk: Desk, group: str) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    beside = [container("fetch", terminated={"exitCode": 3, "reason": "Error"})]
    own = container("main", waiting={"reason": "PodInitializing"})
    if group == "containerStatuses":
        own = container("main", terminated={"exitCode": 0, "reason": "Completed"})
    rows = {"containerStatuses": [own], group: [own, *beside] if group[0] == "c" else beside}
    show(desk, pod, phase="Failed", **rows)
    value = await desk.job()
    assert (value.phase, value.exit_code) == (Phase.FAILED, 3)
    assert (value.reason or "").endswith("container fetch: exit 3")


async def test_a_job_ended_by_its_deadline_did_not_end_by_an_earlier_failure(desk: Desk) -> None:
    made = desk.server.add("jobs", job(backoffLimit=1))
    (pod,) = desk.pods()
    desk.server.finish(pod, "Failed", 137, "OOMKilled")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    ended["finishedAt"] = "2026-11-01T09:00:00Z"
    desk.server.settle(pod)
    made["status"] = {"conditions": [condition("Failed", "DeadlineExceeded", "too long")]}
    for other in [each for each in desk.pods() if each is not pod]:
        desk.server.objects.pop(("pods", "default", other["metadata"]["name"]))
    desk.server.settle(made)
    value = await desk.job()
    assert (value.state, value.exit_code) == ("Failed", None)
    assert value.reason == "DeadlineExceeded: too long"


async def test_an_eviction_counts_from_when_it_was_and_not_from_its_pods_start(desk: Desk) -> None:
    desk.server.add("jobsets", jobset(pods=2))
    first, second = desk.pods()
    desk.server.finish(first, "Failed", 1)
    first["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] = (
        "2026-11-01T09:30:00Z"
    )
    desk.server.settle(first)
    age(second, "2026-11-01T09:00:00Z")
    show(desk, second, phase="Failed", reason="Evicted", conditions=[condition("Ready")])
    status(desk.server, "jobsets", "toy", conditions=[condition("Failed", "FailedJobs")])
    value = await desk.job(run_of(job="jobset/toy"))
    assert (value.state, value.exit_code) == ("Failed", 1)


@pytest.mark.parametrize(("failed", "restarts"), [(1, 0), (3, 2)])
async def test_the_last_failure_of_a_ray_job_is_no_restart(
    desk: Desk, failed: int, restarts: int
) -> None:
    head = {"headGroupSpec": {"template": {"spec": pod_spec()}}}
    desk.server.add("rayjobs", {"metadata": {"name": "toy"}, "spec": {"rayClusterSpec": head}})
    parts = {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "failed": failed}
    status(desk.server, "rayjobs", "toy", **parts)
    assert (await desk.job(run_of(job="rayjob/toy"))).restarts == restarts


async def test_a_pod_that_is_made_again_waits_since_the_one_before_ended(desk: Desk) -> None:
    """The hours in which the job ran are no wait."""
    desk.server.add("jobs", job(backoffLimit=4))
    first = desk.pods()[0]
    age(first, "2026-11-01T01:00:00Z")
    desk.server.finish(first, "Failed", 1)
    ended = first["status"]["containerStatuses"][0]["state"]["terminated"]
    ended["finishedAt"] = "2026-11-01T09:00:00Z"
    desk.server.settle(first)
    desk.server.one("jobs", "toy")["metadata"]["creationTimestamp"] = "2026-11-01T01:00:00Z"
    age(next(pod for pod in desk.pods() if pod is not first), "2026-11-01T09:00:02Z")
    desk.server.settle(desk.server.one("jobs", "toy"))
    value = await desk.job()
    assert (value.phase, value.pending_since) == (Phase.WAITING, 1793523602.0)


async def test_a_deletion_keeps_the_time_at_which_it_was_seen(desk: Desk) -> None:
    made = desk.server.add("jobs", job())
    desk.server.run(desk.pods()[0])
    await desk.job()
    made["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    desk.server.settle(made)
    first = await desk.job()
    assert (await desk.job()).ended_at == first.ended_at and first.phase is Phase.CANCELLED


# Why it waits.


@pytest.mark.parametrize(
    ("reason", "message", "never"),
    [
        ("ErrImagePull", 'rpc error: code = NotFound desc = failed to pull "x": not found', True),
        ("ErrImagePull", "429 Too Many Requests - toomanyrequests: your pull rate limit", True),
        ("ImagePullBackOff", "received unexpected HTTP status: 503 Service Unavailable", True),
        ("CreateContainerError", 'the container name "/k8s_a" is reserved for "f00"', False),
        ("CreateContainerError", "context deadline exceeded", False),
    ],
)
async def test_an_image_that_cannot_be_pulled_is_said_at_once_with_the_registrys_words(
    desk: Desk, reason: str, message: str, never: bool
) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    pod["spec"]["nodeName"] = "node-a"
    show(desk, pod, **waiting(reason, message))
    value = await desk.job()
    assert value.never is never and message[:40] in (value.reason or "")


@pytest.mark.parametrize(
    ("said", "never"),
    [
        ('pods "a" is forbidden: failed quota: q: must specify limits.cpu,requests.cpu', True),
        ('pods "a" is forbidden: maximum cpu usage per Container is 1, but request is 4', True),
        ('Pod "a" is invalid: spec.containers[0].resources.requests: Invalid value: "4"', True),
        ('admission webhook "w" denied the request: image registry not allowed', False),
        ('Internal error occurred: failed calling webhook "w": context deadline exceeded', False),
    ],
)
async def test_a_pod_that_is_refused_as_it_is_never_starts(
    desk: Desk, said: str, never: bool
) -> None:
    made = desk.server.add("jobs", job())
    for pod in desk.pods():
        desk.server.objects.pop(("pods", "default", pod["metadata"]["name"]))
        desk.server.removed(pod)
    desk.server._event(made, "FailedCreate", "Warning", f"Error creating: {said}")
    value = await desk.job()
    assert value.never is never and said[:50] in (value.reason or "")


async def test_the_container_that_a_webhook_puts_first_does_not_train(desk: Desk) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    pod["spec"]["containers"].insert(0, {"name": "istio-proxy"})
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    rows = [container("istio-proxy", running={}), container("main", **ended)]
    show(desk, pod, phase="Running", containerStatuses=rows)
    value = await desk.job()
    assert value.phase is Phase.UNKNOWN
    assert "exit 3; its pod goes on with istio-proxy" in (value.reason or "")


@pytest.mark.parametrize(
    ("deleted", "failed", "ttl", "phase"),
    [
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:02Z", None, Phase.CANCELLED),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z", None, Phase.CANCELLED),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00Z", 0, Phase.FAILED),
        ("2026-11-01T10:00:02Z", "2026-11-01T10:00:00Z", None, Phase.FAILED),
    ],
)
async def test_a_job_that_its_deletion_ended_did_not_fail(
    desk: Desk, deleted: str, failed: str, ttl: int | None, phase: Phase
) -> None:
    """Its pods are ended first, so its controller says Failed while a finalizer keeps it."""
    made = desk.server.add("jobs", job(ttlSecondsAfterFinished=ttl))
    row = {**condition("Failed", "BackoffLimitExceeded"), "lastTransitionTime": failed}
    status(desk.server, "jobs", "toy", conditions=[row])
    desk.server.lingering = True
    made["metadata"] |= {"deletionTimestamp": deleted, "finalizers": ["example.com/hangs"]}
    desk.server.settle(made)
    assert (await desk.job()).phase is phase


@pytest.mark.parametrize("denied", [True, False])
async def test_an_autoscaler_that_cannot_be_heard_is_not_silent(desk: Desk, denied: bool) -> None:
    desk.server.add("nodes", {"metadata": {"name": "a"}}, "")
    desk.server.objects["nodes", "", "a"]["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
    made = job()
    limits = {"limits": {"nvidia.com/gpu": 16}}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = limits
    desk.server.add("jobs", made)
    (pod,) = desk.pods()
    unmet = condition("PodScheduled", "Unschedulable", "0/1 nodes are available", "False")
    unmet["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    show(desk, pod, phase="Pending", conditions=[unmet])
    desk.server.denied |= {("list", "events")} if denied else set()
    assert (await desk.job()).never is not denied


async def test_a_workload_that_may_not_be_read_is_not_absent(desk: Desk) -> None:
    made = jobset(suspend=True)
    made["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "ml"}
    desk.server.add("jobsets", made)
    desk.server.denied.add(("list", "workloads"))
    value = await desk.job(run_of(job="jobset/toy"))
    assert "suspended in Kueue's queue ml; why could not be read" in (value.reason or "")


async def test_the_newest_that_fits_may_be_of_a_kind_that_cannot_be_read(desk: Desk) -> None:
    desk.server.denied |= {("list", "jobs"), ("watch", "jobs")}
    kind, text = await desk.error(run_of(job=None, match="toy*"))
    assert kind == "forbidden" and "launch it" not in text


# What a server or its users send.


async def test_owners_in_a_circle_end(desk: Desk) -> None:
    desk.server.add("jobs", job(parallelism=0))
    one, two = (desk.server.add("jobs", job(name, parallelism=0)) for name in ("a", "b"))
    pod = desk.server.add("pods", {"metadata": {"name": "p"}, "spec": pod_spec()})
    for each, owner in ((one, two), (two, one), (pod, one)):
        uid = owner["metadata"]["uid"]
        row = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": uid, "controller": True}
        each["metadata"]["ownerReferences"] = [row]
    assert (await desk.job()).id == "job/toy"


@pytest.mark.parametrize(
    "answer",
    ["[1, 2]", "<html>", {}, {"items": None}, {"items": [7]}, {"items": [{"metadata": {}}]}],
)
async def test_garbage_is_one_clear_line_and_the_next_look_is_right(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    desk.server.add("jobs", job())
    with monkeypatch.context() as patch:
        patch.setattr(Server, "_list", lambda *_: answer)
        kind, text = await desk.error()
        assert kind == "bad_answer" and text.endswith(("describes it", "not JSON (status 200)"))
        assert (await desk.live()).unknown
    assert (await desk.job()).phase is Phase.WAITING


# Logs and the way there.


async def test_the_end_of_a_long_log_is_fetched_after_its_pod_is_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look fetches so many pages only: the last lines say why it ended."""
    monkeypatch.setattr(logs, "PAGES", 1)
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    desk.server.finish(pod, "Failed", 1)
    name = pod["metadata"]["name"]
    stamp = "2026-11-01T10:00:{n:02d}.000000000Z "
    text = "".join(f"{stamp.format(n=n)}line {n}\n" for n in range(4))
    monkeypatch.setattr(logs, "PAGE", len(text) // 2)
    monkeypatch.setattr(logs.fetched, "__defaults__", (len(text) // 2,))
    desk.server.logs[name] = text[: len(text) // 2]
    await desk.log()
    desk.server.logs[name] = text[len(text) // 4 :][: len(text) // 2]
    await desk.log()
    desk.server.logs[name] = text[len(text) * 3 // 4 :]
    assert lines_of(await desk.log())[-1] == "line 3"


async def test_no_token_is_in_what_is_said_of_a_log(desk: Desk) -> None:
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    desk.server.run(pod)
    secret = "AKIA" + "Q7RZ4M2KX9PLT6WB"
    desk.server.logs[pod["metadata"]["name"]] = f"refused: aws_access_key_id={secret}\x1b[2J\n"
    facet = await desk.log()
    assert facet.value is None and secret not in facet.error.message
    assert "\x1b" not in facet.error.message


@pytest.mark.parametrize("proxy", ["socks5://me:hunter22@127.0.0.1:1", "nonsense"])
async def test_a_proxy_of_another_kind_is_one_clear_line(proxy: str) -> None:
    import ssl

    http = Http(SystemClock(), route=Route(ssl.create_default_context, proxy=proxy))
    with pytest.raises(HttpError, match="cannot be used") as raised:
        await http.get("https://cluster.test/version")
    assert raised.value.kind is ErrorKind.REFUSED and "hunter22" not in str(raised.value)


async def test_behind_a_proxy_the_servers_name_is_the_proxys_affair(desk: Desk) -> None:
    """A private cluster's name is known there only: here the proxy answers, and not the name."""
    import ssl

    port = desk.server.url.rpartition(":")[2]
    route = Route(ssl.create_default_context, proxy=f"http://127.0.0.1:{port}")
    http = Http(SystemClock(), route=route)
    answer = await http.get("http://cluster.invalid/version")
    assert answer.status == 401, "the proxy was asked"


async def test_the_log_of_a_container_that_has_begun_again_stays_its_own(desk: Desk) -> None:
    """The log that was followed is that of the attempt before now: it gets no line of the next."""
    desk.server.add("jobs", job())
    (pod,) = desk.pods()
    desk.server.run(pod)
    name = pod["metadata"]["name"]
    desk.server.logs[name] = "2026-11-01T10:00:00.000000000Z step 1\n"
    await desk.log()
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    desk.server.settle(pod)
    await desk.job()
    desk.server.asked.clear()
    await desk.log()
    asked = ["previous=true" in each for each in desk.server.asked if "/log?" in each]
    assert sorted(asked) == [False, True]

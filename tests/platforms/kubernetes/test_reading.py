"""What is told of the jobs of a cluster: phases, ends, restarts, waits, and what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.jobs import Query
from cockpit.model.observed import JobValue, Phase
from cockpit.platforms.kubernetes import api
from cockpit.platforms.kubernetes.objects import HELD, HOLDS, LAUNCH_LABEL
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
from tests.platforms.kubernetes.scenario import READER
from tests.platforms.kubernetes.server import Json


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    with at_desk(tmp_path, monkeypatch) as made:
        yield made


def waiting(reason: str, message: str = "") -> Json:
    state = {"waiting": {"reason": reason, "message": message}}
    return {
        "phase": "Pending",
        "containerStatuses": [{"name": "main", "ready": False, "restartCount": 0, "state": state}],
    }


async def test_a_job_waits_runs_and_ends(desk: Desk) -> None:
    desk.server.add("jobs", job())
    value = await desk.job()
    assert (value.id, value.phase, value.pending_since is not None) == ("job/toy", "waiting", True)
    (pod,) = desk.pods()
    desk.server.run(pod, "node-a")
    value = await desk.job()
    assert (value.phase, value.node, value.tasks) == (Phase.RUNNING, "node-a", (value.tasks))
    assert value.tasks is not None and (value.tasks.running, value.tasks.total) == (1, 1)
    desk.server.finish(pod)
    value = await desk.job()
    assert (value.phase, value.exit_code) == (Phase.SUCCEEDED, 0)


@pytest.mark.parametrize(
    ("code", "reason", "state", "said"),
    [
        (137, "OOMKilled", "OOMKilled", "exit 137, OOMKilled"),
        (1, "Error", "Failed", "exit 1"),
        (128, "StartError", "Failed", "exit 128, StartError"),
    ],
)
async def test_a_failure_has_the_containers_own_exit_code_and_reason(
    desk: Desk, code: int, reason: str, state: str, said: str
) -> None:
    desk.server.add("jobs", job())
    desk.server.finish(desk.pods()[0], "Failed", code, reason)
    value = await desk.job()
    assert (value.phase, value.exit_code, value.state) == (Phase.FAILED, code, state)
    assert value.reason is not None and value.reason.startswith("BackoffLimitExceeded; toy-")
    assert value.reason.endswith(said)


async def test_the_pod_that_failed_first_is_the_cause(desk: Desk) -> None:
    """When one of a gang dies its operator ends the others, and they fail too."""
    desk.server.add("jobsets", jobset(pods=2))
    for number, (code, minute) in enumerate(((143, 1), (1, 0))):
        pod = desk.pods()[number]
        desk.server.finish(pod, "Failed", code)
        ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        ended["finishedAt"] = f"2026-11-01T10:0{minute}:00Z"
        desk.server.settle(pod)
    status(desk.server, "jobsets", "toy", conditions=[condition("Failed", "FailedJobs", "why")])
    value = await desk.job(run_of(job="jobset/toy"))
    assert (value.phase, value.exit_code) == (Phase.FAILED, 1)
    assert value.reason is not None and value.reason.startswith("FailedJobs: why; ")


async def test_an_evicted_pod_tells_so_without_any_container(desk: Desk) -> None:
    desk.server.add("jobs", job())
    pod = desk.pods()[0]
    text = "The node was low on resource: memory."
    pod["status"] = {"phase": "Failed", "reason": "Evicted", "message": text}
    desk.server.settle(pod)
    value = await desk.job()
    assert (value.state, value.exit_code) == ("Evicted", None)
    assert value.reason is not None and text in value.reason


@pytest.mark.parametrize(
    ("plural", "kind", "done", "phase"),
    [
        ("jobsets", "jobset", "Completed", Phase.SUCCEEDED),
        ("jobsets", "jobset", "Failed", Phase.FAILED),
        ("trainjobs", "trainjob", "Complete", Phase.SUCCEEDED),
        ("trainjobs", "trainjob", "Failed", Phase.FAILED),
        ("pytorchjobs", "pytorchjob", "Succeeded", Phase.SUCCEEDED),
        ("pytorchjobs", "pytorchjob", "Failed", Phase.FAILED),
        ("jobs", "job", "SuccessCriteriaMet", Phase.SUCCEEDED),
    ],
)
async def test_the_conditions_of_each_kind(
    desk: Desk, plural: str, kind: str, done: str, phase: Phase
) -> None:
    specs = {
        "jobs": job()["spec"], "jobsets": jobset()["spec"],
        "trainjobs": {"trainer": {"args": ["x"]}},
        "pytorchjobs": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": pod_spec()}}}},
    }  # fmt: skip
    desk.server.add(plural, {"metadata": {"name": "toy"}, "spec": specs[plural]})
    run = run_of(job=f"{kind}/toy")
    assert (await desk.job(run)).phase is Phase.WAITING
    for pod in desk.pods():
        desk.server.run(pod)
    value = await desk.job(run)
    assert (value.phase, value.children) == (Phase.RUNNING, (desk.pods()[0]["metadata"]["name"],))
    desk.server.objects = {
        key: each for key, each in desk.server.objects.items() if key[0] != "pods"
    }
    status(desk.server, plural, "toy", conditions=[condition("Suspended", value="False"),
        condition(done, "Why")])  # fmt: skip
    assert (await desk.job(run)).phase is phase


async def test_running_by_its_operator_is_waiting_while_no_pod_is_ready(desk: Desk) -> None:
    spec = {"pytorchReplicaSpecs": {"Master": {"template": {"spec": pod_spec()}}}}
    desk.server.add("pytorchjobs", {"metadata": {"name": "toy"}, "spec": spec})
    status(desk.server, "pytorchjobs", "toy", conditions=[condition("Running")])
    pod = desk.pods()[0]
    pod["status"] = waiting("CrashLoopBackOff", "back-off 40s restarting failed container")
    desk.server.settle(pod)
    value = await desk.job(run_of(job="pytorchjob/toy"))
    assert (value.phase, value.never) == (Phase.WAITING, False)
    assert value.reason is not None and "ends again and again (CrashLoopBackOff)" in value.reason


@pytest.mark.parametrize(
    ("deployment", "ray", "pod", "phase", "said"),
    [
        ("Running", "RUNNING", True, Phase.RUNNING, ""),
        ("Initializing", "", True, Phase.WAITING, "KubeRay: Initializing"),
        ("Running", "FAILED", True, Phase.UNKNOWN, "KubeRay has not said yet what follows"),
        ("Complete", "SUCCEEDED", True, Phase.SUCCEEDED, ""),
        ("Failed", "FAILED", True, Phase.FAILED, "AppFailed"),
        ("Complete", "STOPPED", False, Phase.CANCELLED, ""),
        ("Failed", "RUNNING", True, Phase.UNKNOWN, "its trainer may too"),
        ("Failed", "RUNNING", False, Phase.FAILED, "AppFailed"),
    ],
)
async def test_a_ray_job_by_kuberays_word_first(
    desk: Desk, deployment: str, ray: str, pod: bool, phase: Phase, said: str
) -> None:
    """KubeRay leaves Ray's word as it was last seen, also where it has given the job up."""
    head = {"headGroupSpec": {"template": {"spec": pod_spec()}}}
    spec = {"entrypoint": "python train.py", "rayClusterSpec": head}
    desk.server.add("rayjobs", {"metadata": {"name": "toy"}, "spec": spec})
    if pod:
        desk.server.run(desk.pods()[0])
    else:
        desk.server.objects.pop(("pods", "default", desk.pods()[0]["metadata"]["name"]))
    reason = "AppFailed" if deployment == "Failed" else ""
    parts = {"jobDeploymentStatus": deployment, "jobStatus": ray, "reason": reason}
    status(desk.server, "rayjobs", "toy", **parts)
    value = await desk.job(run_of(job="rayjob/toy"))
    assert value.phase is phase and said in (value.reason or "")
    lives = (await desk.live(run_of(job="rayjob/toy"))).jobs
    assert bool(lives) == (not phase.terminal), "what may run lives"


async def test_the_head_of_a_ray_job_that_was_launched_is_its_own_from_the_start(
    desk: Desk,
) -> None:
    """Its owner is a RayCluster, of which KubeRay has not told the name yet."""
    labels = {LAUNCH_LABEL: "toy-i001"}
    spec = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": pod_spec()}}}}
    desk.server.add("rayjobs", {"metadata": {"name": "toy", "labels": labels}, "spec": spec})
    owner = [{"kind": "RayCluster", "name": "toy-x", "uid": "of-a-cluster", "controller": True}]
    head = {"metadata": {"name": "head", "labels": labels, "ownerReferences": owner}}
    desk.server.add("pods", {**head, "spec": pod_spec("train.py", "--output_dir", "/runs/toy")})
    live = await desk.live(run_of(job="rayjob/toy"))
    assert [each.id for each in (*live.jobs, *live.possible)] == ["rayjob/toy"]


async def test_a_ray_head_that_began_after_its_job_has_lost_it(desk: Desk) -> None:
    head = {"headGroupSpec": {"template": {
        "metadata": {"labels": {"ray.io/node-type": "head", "ray.io/cluster": "c"}},
        "spec": pod_spec(),
    }}}  # fmt: skip
    desk.server.add("rayjobs", {"metadata": {"name": "toy"}, "spec": {"rayClusterSpec": head}})
    pod = desk.pods()[0]
    desk.server.run(pod)
    pod["status"]["containerStatuses"][0]["state"] = {
        "running": {"startedAt": "2026-11-01T12:00:00Z"}
    }
    desk.server.settle(pod)
    info = {"startTime": "2026-11-01T10:00:00Z"}
    parts = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "rayJobInfo": info}
    status(desk.server, "rayjobs", "toy", **parts)
    value = await desk.job(run_of(job="rayjob/toy"))
    assert value.phase is Phase.UNKNOWN and "began anew after the job" in (value.reason or "")


async def test_restarts_and_how_the_attempt_before_ended(desk: Desk) -> None:
    desk.server.add("jobs", job(backoffLimit=4))
    first = desk.pods()[0]
    desk.server.finish(first, "Failed", 137, "OOMKilled")
    first["metadata"]["creationTimestamp"] = "2026-11-01T09:00:00Z"
    second = next(pod for pod in desk.pods() if pod is not first)
    desk.server.run(second)
    again = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-01T11:00:00Z"}}
    second["status"]["containerStatuses"][0] |= {"restartCount": 2, "lastState": again}
    desk.server.settle(second)
    desk.server.one("jobs", "toy")["metadata"]["creationTimestamp"] = "2026-11-01T08:00:00Z"
    value = await desk.job()
    assert (value.phase, value.restarts) == (Phase.RUNNING, 3)
    assert "restarts: 3, the attempt before: " in (value.reason or "")
    assert (value.reason or "").endswith("exit 1")


async def test_the_failure_is_that_of_the_last_attempt(desk: Desk) -> None:
    desk.server.add("jobs", job(backoffLimit=1))
    first = desk.pods()[0]
    first["metadata"]["creationTimestamp"] = "2026-11-01T09:00:00Z"
    desk.server.finish(first, "Failed", 137, "OOMKilled")
    desk.server.one("jobs", "toy")["metadata"]["creationTimestamp"] = "2026-11-01T08:00:00Z"
    desk.server.finish(next(pod for pod in desk.pods() if pod is not first), "Failed", 1)
    value = await desk.job()
    assert (value.phase, value.exit_code, value.restarts) == (Phase.FAILED, 1, 1)


async def test_a_node_that_does_not_answer_leaves_its_pod_unknown(desk: Desk) -> None:
    desk.server.add("jobs", job())
    pod = desk.pods()[0]
    desk.server.run(pod, "node-a")
    pod["status"] |= {"phase": "Unknown", "reason": "NodeLost"}
    desk.server.settle(pod)
    value = await desk.job()
    assert value.phase is Phase.UNKNOWN and "node node-a does not answer" in (value.reason or "")


def check(name: str, state: str, message: str) -> Json:
    return {"name": name, "state": state, "message": message}


SCHEDULER = (
    "0/5 nodes are available: 2 Insufficient nvidia.com/gpu, 3 node(s) had untolerated taint "
    "{dedicated: eval}. preemption: 0/5 nodes are available: 5 No preemption victims found."
)


async def why(desk: Desk) -> JobValue:
    value = await desk.job()
    assert value.phase is Phase.WAITING
    return value


@pytest.mark.parametrize(
    ("reason", "never"),
    [
        ("ImagePullBackOff", True), ("ErrImagePull", True), ("CreateContainerConfigError", True),
        ("InvalidImageName", True), ("ContainerCreating", False), ("PodInitializing", False),
    ],
)  # fmt: skip
async def test_what_never_starts_is_said_at_once(desk: Desk, reason: str, never: bool) -> None:
    desk.server.add("jobs", job())
    pod = desk.pods()[0]
    pod["spec"]["nodeName"] = "node-a"
    pod["status"] = waiting(reason, "no such thing")
    desk.server.settle(pod)
    value = await why(desk)
    assert value.never is never
    assert (value.reason or "").startswith(pod["metadata"]["name"])


@pytest.mark.parametrize(
    ("asked", "event", "never", "said"),
    [
        (8, "", False, "of 5 nodes 2 lack free nvidia.com/gpu, 3 have the taint dedicated: eval"),
        (16, "", False, "no node has 16 nvidia.com/gpu (the most: 8)"),
        (16, "NotTriggerScaleUp", True, "no node has 16 nvidia.com/gpu (the most: 8)"),
        (16, "TriggeredScaleUp", False, "no node has 16 nvidia.com/gpu (the most: 8)"),
    ],
)
async def test_a_pod_without_a_node_in_plain_words(
    desk: Desk, asked: int, event: str, never: bool, said: str
) -> None:
    desk.server.add("nodes", {"metadata": {"name": "a"}}, "")
    desk.server.objects["nodes", "", "a"]["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
    made = job()
    limits = {"limits": {"nvidia.com/gpu": asked}}
    made["spec"]["template"]["spec"]["containers"][0]["resources"] = limits
    desk.server.add("jobs", made)
    pod = desk.pods()[0]
    unmet = {**condition("PodScheduled", "Unschedulable", SCHEDULER, "False")}
    unmet["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
    pod["status"] = {"phase": "Pending", "conditions": [unmet]}
    desk.server.settle(pod)
    if event:
        desk.server._event(pod, event, "Normal", "told by an autoscaler")
    value = await why(desk)
    assert value.never is never and said in (value.reason or "")


@pytest.mark.parametrize(
    ("used", "never"), [("requested: pods=4, used: pods=9, limited: pods=10", False),
        ("requested: pods=40, used: pods=0, limited: pods=10", True)],
)  # fmt: skip
async def test_a_quota_that_refuses_pods(desk: Desk, used: str, never: bool) -> None:
    made = desk.server.add("jobs", job(parallelism=0))
    desk.server._event(made, "FailedCreate", "Warning", f"exceeded quota: q, {used}")
    value = await why(desk)
    assert value.never is never and "its pods are refused: exceeded quota" in (value.reason or "")


@pytest.mark.parametrize(
    ("rows", "never", "said"),
    [
        ([condition("QuotaReserved", "Pending", "no flavors: insufficient unused quota "
            "for nvidia.com/gpu in flavor h100, 4 more needed", "False")], False, "4 more needed"),
        ([condition("QuotaReserved", "Pending", "insufficient quota for nvidia.com/gpu in flavor "
            "h100, request > maximum capacity (32 > 8)", "False")], True, "maximum capacity"),
        ([condition("QuotaReserved", "Pending", "insufficient quota for gpu in flavor a, request > "
            "maximum capacity (8 > 4), insufficient unused quota for gpu in b, 1 more needed",
            "False")], False, "1 more needed"),
        ([condition("QuotaReserved", "Misconfigured", "LocalQueue ml doesn't exist", "False")],
            True, "LocalQueue ml doesn't exist"),
        ([condition("QuotaReserved", "Suspended", "ClusterQueue ml is stopped", "False")],
            False, "is stopped"),
        ([condition("QuotaReserved"), condition("Admitted"), condition("Evicted", "Why",
            "Exceeded the PodsReady timeout")], False, "evicted, Exceeded the PodsReady timeout"),
        ([condition("QuotaReserved"), condition("Admitted")], False, "still suspended"),
        ([condition("QuotaReserved"), check("provisioning", "Pending", "waits for capacity")],
            False, "admission check provisioning is Pending: waits for capacity"),
        ([condition("QuotaReserved"), condition("Admitted"), condition("Evicted", "Why", "moved"),
            check("multikueue", "Rejected", "no cluster has it")], True, "no cluster has it"),
        ([condition("Evicted", "Deactivated", "exceeded all re-queuing retries"),
            {"active": False}], True, "until somebody activates it again: exceeded"),
        ([], False, "not admitted yet"),
    ],
)  # fmt: skip
async def test_what_kueue_says(desk: Desk, rows: list[Json], never: bool, said: str) -> None:
    made = desk.server.add("jobsets", jobset(suspend=True))
    owner = [{"kind": "JobSet", "name": "toy", "uid": made["metadata"]["uid"]}]
    spec = next((each for each in rows if "active" in each), {})
    work = {"metadata": {"name": "w", "ownerReferences": owner}, "spec": spec}
    desk.server.add("workloads", work)
    parts = {"conditions": [each for each in rows if "type" in each]}
    parts["admissionChecks"] = [each for each in rows if "state" in each]
    status(desk.server, "workloads", "w", **parts)
    value = await desk.job(run_of(job="jobset/toy"))
    assert (value.phase, value.state) == (Phase.WAITING, "Suspended")
    assert value.never is never and said in (value.reason or "")


async def test_what_happens_to_a_job_with_a_longer_name_is_not_its_own(desk: Desk) -> None:
    desk.server.add("jobs", job(parallelism=0))
    other = desk.server.add("jobs", job("toy-eval", parallelism=0))
    text = "exceeded quota: q, requested: pods=40, used: pods=0, limited: pods=10"
    desk.server._event(other, "FailedCreate", "Warning", text)
    assert "nobody has let it go" in ((await why(desk)).reason or "")


@pytest.mark.parametrize("hold", [{"suspend": True}, {"parallelism": 0}])
async def test_a_suspended_job_waits_for_a_hand(desk: Desk, hold: Json) -> None:
    desk.server.add("jobs", job(**hold))
    assert (await why(desk)).reason == "it is suspended: nobody has let it go yet"


async def test_an_object_that_no_controller_takes_up(desk: Desk) -> None:
    made = desk.server.add("pytorchjobs", {"metadata": {"name": "toy"}, "spec": {
        "pytorchReplicaSpecs": {}}})  # fmt: skip
    made["metadata"]["creationTimestamp"] = "2026-11-01T08:00:00Z"
    desk.server.settle(made)
    value = await desk.job(run_of(job="pytorchjob/toy"))
    assert value.reason == "no controller has taken it up: is the operator for pytorchjobs running?"


# What changes between two looks, and what cannot be read.


async def test_one_list_of_each_kind_and_then_only_changes(desk: Desk) -> None:
    desk.server.add("jobs", job())
    await desk.job()
    desk.server.asked.clear()
    desk.server.run(desk.pods()[0])
    assert (await desk.job()).phase is Phase.RUNNING
    lists = [each for each in desk.server.asked if "watch=1" not in each]
    assert lists == [] and len(desk.server.asked) == 6


async def test_a_version_that_is_forgotten_is_listed_again(desk: Desk) -> None:
    desk.server.add("jobs", job())
    await desk.job()
    desk.server.run(desk.pods()[0])
    desk.server.forget(desk.server.version)
    assert (await desk.job()).phase is Phase.RUNNING


@pytest.mark.parametrize("ended", [False, True])
async def test_a_deletion_that_was_seen_says_how_the_job_was(desk: Desk, ended: bool) -> None:
    made = desk.server.add("jobs", job())
    desk.server.run(desk.pods()[0])
    await desk.job()
    if ended:
        desk.server.finish(desk.pods()[0])
    made["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    desk.server.settle(made)
    value = await desk.job()
    expected = (Phase.SUCCEEDED, 0) if ended else (Phase.CANCELLED, None)
    assert (value.phase, value.exit_code) == expected


async def test_what_is_gone_is_unknown_unless_its_end_was_seen(desk: Desk) -> None:
    assert await desk.error() == (
        "not_found",
        "Kubernetes tests has no job/toy: that is unknown, not finished; it was deleted, or "
        "removed some time after its end (ttlSecondsAfterFinished)",
    )
    over = JobValue(id="job/toy", state="Failed", phase=Phase.FAILED)
    assert (await desk.facet(run_of(), ended=over)).value.phase is Phase.FAILED
    desk.server.add("jobsets", jobset())
    assert "but jobset/toy: set job.name" in (await desk.error())[1]
    assert "none of the kinds" in (await desk.error(run_of(job="deployment/toy")))[1]


async def test_who_may_not_read_is_told_the_verb_and_the_resource(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_desk(tmp_path, monkeypatch, READER) as desk:
        kind, text = await desk.error()
        assert kind == "forbidden"
        assert 'cannot list resource "pods"' in text and text.endswith("has the role to ask for")
        assert "cannot list" in (await desk.live()).unknown


async def test_a_kind_that_may_not_be_read_is_no_answer_about_the_lineage(desk: Desk) -> None:
    desk.server.add("jobs", job())
    desk.server.denied.add(("list", "rayjobs"))
    assert (await desk.job()).phase is Phase.WAITING
    assert 'cannot list resource "rayjobs"' in (await desk.live()).unknown
    others = [Query(run=run_of()), Query(run=run_of("other", job="rayjob/toy"))]
    told = await desk.platform.jobs(others)
    assert told["toy"].value is not None, "what is wrong with one kind is wrong with its runs alone"
    assert told["other"].error is not None and told["other"].error.kind.value == "forbidden"


@pytest.mark.parametrize("installed", [True, False])
async def test_a_kind_that_is_not_installed_needs_no_right(desk: Desk, installed: bool) -> None:
    """A server refuses who may not list a kind before it says that there is none."""
    desk.server.groups -= set() if installed else {"ray.io"}
    desk.server.denied = {("list", "rayjobs")}
    desk.server.add("jobs", job())
    live = await desk.live()
    assert bool(live.unknown) is installed and [each.id for each in live.jobs] == ["job/toy"]
    (found,) = await desk.platform.findings([run_of()])
    assert ("list rayjobs" in found.text) is installed


async def test_nothing_is_acted_on_where_the_kubeconfig_may_move_the_run(desk: Desk) -> None:
    """In another namespace, or another cluster, nothing of the lineage would be seen."""
    desk.server.add("jobs", job())
    run = run_of(namespace=None)
    assert (await desk.job(run)).id == "job/toy"
    assert "set job.namespace (now default)" in (await desk.live(run)).unknown
    assert (await desk.live()).unknown is None


async def test_a_token_that_has_expired_names_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with at_desk(tmp_path, monkeypatch, "expired") as desk:
        kind, text = await desk.error()
        assert kind == "unauthorized"
        assert text.endswith("(401): renew the token of the context tests in the kubeconfig")


async def test_a_server_that_hangs_is_unknown_in_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PATIENCE", 0.3)
    desk.server.goes_on.clear()
    kind, text = await desk.error()
    assert kind == "timeout" and text.endswith("no answer in time")


async def test_who_asks_meanwhile_shares_the_next_answer_and_never_one_from_before(
    desk: Desk,
) -> None:
    """What has been begun since a look was begun may be missing in it."""
    runs = [run_of(name) for name in ("a", "b", "c")]
    await asyncio.gather(*(desk.platform.live([run]) for run in runs))
    assert sum("/pods?" in each for each in desk.server.asked) == 2


# Which job is the run's, and what lives beside it.


def launched(name: str, launch_id: str, *words: str) -> Json:
    made = job(name, *words)
    made["metadata"]["annotations"] = {LAUNCH_LABEL: launch_id}
    return made


async def test_a_newer_launch_goes_before_a_recorded_job_that_is_over(desk: Desk) -> None:
    desk.server.add("jobs", launched("toy-i001", "toy-i001"))
    desk.server.finish(desk.pods()[0], "Failed", 1)
    desk.server.one("jobs", "toy-i001")["metadata"]["creationTimestamp"] = "2026-11-01T08:00:00Z"
    desk.server.add("jobs", launched("toy-i002", "toy-i002"))
    value = await desk.job(run_of(job="job/toy-i001"))
    assert (value.id, value.launch_id) == ("job/toy-i002", "toy-i002")


@pytest.mark.parametrize("settings", [{"match": "llama-*"}, {"selector": "app=llama, team=ml"}])
async def test_the_newest_that_fits_a_name_or_labels(desk: Desk, settings: dict[str, str]) -> None:
    labels = {"app": "llama", "team": "ml"}
    for name, at in (("llama-1", "08"), ("llama-2", "09"), ("other", "10")):
        made = job(name)
        made["metadata"]["labels"] = labels if name != "other" else {"app": "llama"}
        desk.server.add("jobs", made)["metadata"]["creationTimestamp"] = f"2026-11-01T{at}:00:00Z"
    run = run_of(job=None, **settings)
    assert (await desk.job(run)).id == "job/llama-2"
    assert [each.id for each in (await desk.live(run)).jobs] == ["job/llama-2"]


async def test_what_was_accepted_and_not_let_go_is_held_and_never_current(desk: Desk) -> None:
    made = launched("toy-i001", "toy-i001")
    made["metadata"]["annotations"][HELD] = HOLDS
    made["spec"]["suspend"] = True
    desk.server.add("jobs", made)
    live = await desk.live(run_of(job=None))
    assert ([each.id for each in live.held], live.jobs) == (["job/toy-i001"], ())
    assert (await desk.error(run_of(job=None)))[0] == "not_found"


async def test_a_job_by_hand_that_writes_there_is_a_rival(desk: Desk) -> None:
    desk.server.add("jobs", job("toy", "train.py", "--output_dir", "/runs/toy"))
    desk.server.add("jobs", job("hand", "train.py", "--output_dir", "/runs/toy"))
    desk.server.add("jobs", job("apart", "train.py", "--output_dir", "/runs/apart"))
    value = await desk.job()
    (rival,) = value.rivals
    assert (rival.id, rival.why) == ("job/hand", "the output root in its entrypoint (output_dir)")
    assert rival.handle["path"] == "/apis/batch/v1/namespaces/default/jobs/hand"
    assert [each.id for each in (await desk.live()).jobs] == ["job/toy", "job/hand"]


async def test_a_ray_job_names_the_run_in_its_runtime_environment(desk: Desk) -> None:
    spec = {"entrypoint": "python t.py", "runtimeEnvYAML": "env_vars:\n  OUTPUT_DIR: /runs/toy\n"}
    head = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": pod_spec()}}}}
    desk.server.add("rayjobs", {"metadata": {"name": "hand"}, "spec": {**spec, **head}})
    (rival,) = (await desk.live()).jobs
    assert rival.why == "the output root in its environment (OUTPUT_DIR)"


async def test_a_pod_that_has_outlived_its_object_lives(desk: Desk) -> None:
    """An object that is deleted may leave pods that still write."""
    made = desk.server.add("jobs", job("toy", "train.py", "--output_dir", "/runs/toy"))
    desk.server.run(desk.pods()[0])
    desk.server.objects.pop(("jobs", "default", "toy"))
    (left,) = (await desk.live()).jobs
    assert left.id == f"pod/{desk.pods()[0]['metadata']['name']}"
    assert left.beyond is not None and "its owner, the Job toy" in left.beyond
    assert made["metadata"]["uid"] not in left.handle.values()


async def test_a_child_is_never_a_job_of_its_own(desk: Desk) -> None:
    spec = {"trainer": {"command": ["python", "train.py"], "args": ["--output_dir", "/runs/toy"]}}
    desk.server.add("trainjobs", {"metadata": {"name": "toy"}, "spec": spec})
    live = await desk.live(run_of(job="trainjob/toy"))
    assert [each.id for each in live.jobs] == ["trainjob/toy"] and not live.possible


# Logs.


def lines_of(facet: Any) -> list[str]:
    return [line.plain for line in facet.value.lines]


def stamped(*lines: str, minute: int = 0) -> str:
    stamps = (f"2026-11-01T10:{minute:02d}:{n:02d}.{n:09d}Z" for n in range(len(lines)))
    return "".join(f"{at} {line}\n" for at, line in zip(stamps, lines, strict=True))


async def test_a_log_is_fetched_by_its_last_line_and_its_hole_is_said(desk: Desk) -> None:
    desk.server.add("jobs", job())
    pod = desk.pods()[0]
    name = pod["metadata"]["name"]
    desk.server.run(pod)
    desk.server.logs[name] = stamped("step 1 loss 2.0", "step 2 loss 1.9")
    assert lines_of(await desk.log()) == ["step 1 loss 2.0", "step 2 loss 1.9"]
    desk.server.logs[name] = stamped("step 1 loss 2.0", "step 2 loss 1.9", "step 3 loss 1.8")
    assert lines_of(await desk.log())[-2:] == ["step 2 loss 1.9", "step 3 loss 1.8"]
    desk.server.logs[name] = stamped("step 9 loss 1.0", minute=5)
    lines = lines_of(await desk.log())
    assert lines[-1] == "step 9 loss 1.0" and "lines are missing here" in lines[-2]
    (asked,) = [each for each in desk.server.asked if "sinceTime" in each][-1:]
    assert "sinceTime=2026-11-01T10%3A00%3A02Z" in asked and "timestamps=true" in asked


async def test_the_log_of_rank_0_is_shown_and_all_are_there_for_a_diagnosis(desk: Desk) -> None:
    template = {"template": {"spec": pod_spec()}}
    roles = {"Worker": {**template, "replicas": 2}, "Master": template}
    made = {"metadata": {"name": "toy"}, "spec": {"pytorchReplicaSpecs": roles}}
    desk.server.add("pytorchjobs", made)
    for pod in desk.pods():
        role, index = pod["metadata"]["name"].split("-")[1:]
        labels = {"replica-type": role, "replica-index": index}
        pod["metadata"]["labels"] = {f"training.kubeflow.org/{k}": v for k, v in labels.items()}
        desk.server.run(pod)
        desk.server.logs[pod["metadata"]["name"]] = stamped(f"from {role} {index}")
    facet = await desk.log(run_of(job="pytorchjob/toy"))
    assert lines_of(facet) == ["from master 0"] and len(facet.value.others) == 2


async def test_the_log_of_the_attempt_before_is_there_for_a_diagnosis(desk: Desk) -> None:
    desk.server.add("jobs", job())
    pod = desk.pods()[0]
    desk.server.run(pod)
    pod["status"]["containerStatuses"][0]["restartCount"] = 1
    desk.server.settle(pod)
    desk.server.logs[pod["metadata"]["name"]] = stamped("step 1")
    facet = await desk.log()
    assert lines_of(facet) == ["step 1"] and len(facet.value.others) == 1
    asked = [each for each in desk.server.asked if "/log?" in each]
    assert sorted("previous=true" in each for each in asked) == [False, True]
    await desk.log()
    later = [each for each in desk.server.asked if "previous=true" in each]
    assert len(later) == 1, "what is over is fetched once"


@pytest.mark.parametrize(
    ("text", "said"),
    [("unable to retrieve container logs for containerd://abc", "has no log of"), ("", "no log")],
)
async def test_a_log_that_is_none_is_said(desk: Desk, text: str, said: str) -> None:
    desk.server.add("jobs", job())
    desk.server.run(desk.pods()[0])
    desk.server.logs[desk.pods()[0]["metadata"]["name"]] = text
    facet = await desk.log()
    assert facet.value is None and said in facet.error.message


# Nodes, init and doctor.


async def test_a_node_that_takes_nothing_says_why(desk: Desk) -> None:
    desk.server.add("jobs", job())
    desk.server.run(desk.pods()[0], "node-a")
    ready = condition("Ready", "KubeletNotReady", "PLEG is not healthy", "False")
    node = {
        "metadata": {"name": "node-a", "labels": {"nvidia.com/gpu.product": "H100"}},
        "spec": {"unschedulable": True, "taints": [{"key": "repair", "value": "xid-79"}]},
    }
    desk.server.add("nodes", node, "")["status"] = {
        "conditions": [ready, condition("DiskPressure", "", "disk is full")],
        "capacity": {"nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"},
    }  # fmt: skip
    value = (await desk.platform.hosts([Query(run=run_of())]))["toy"].value
    assert value is not None and (len(value.gpus), value.gpus_lost) == (7, 1)
    assert value.gpus[0].name == "H100"
    assert value.out_of_service == (
        "not ready: PLEG is not healthy; DiskPressure: disk is full; cordoned xid-79"
    )


async def test_what_init_and_a_person_are_told(desk: Desk) -> None:
    made = job("llama", "train.py", "--output_dir", "/runs/llama")
    made["spec"]["template"]["spec"]["containers"][0]["env"] = [
        {"name": "WANDB_RUN_ID", "value": "abc"}, {"name": "KEY", "valueFrom": {}},
    ]  # fmt: skip
    desk.server.add("jobs", made)
    spec = run_of().job
    assert spec is not None
    (own,) = await desk.platform.own_jobs(spec)
    assert own.settings == {
        "job.name": "job/llama", "job.namespace": "default", "wandb.id": "abc",
        "output_root": "/runs/llama",
    }  # fmt: skip
    named = await desk.platform.named_job(run_of(), "job/llama")
    assert (named.lives, named.text) == (True, "job/llama is Pending")
    assert (await desk.platform.named_job(run_of(), "job/none")).lives is False
    elsewhere = await desk.platform.named_job(run_of(namespace=None), "job/none")
    assert elsewhere.lives is None, "it may live where the kubeconfig pointed before"


@pytest.mark.parametrize("denied", [(), (("delete", "jobs"), ("get", "nodes"))])
async def test_doctor_names_each_verb_that_is_lacking(desk: Desk, denied: Any) -> None:
    desk.server.denied |= set(denied)
    (finding,) = await desk.platform.findings([run_of()])
    lacking = "; not allowed: delete jobs, get nodes" if denied else ""
    assert finding.text.endswith(f"namespace default; for toy{lacking}")
    assert (finding.remedy is not None) == bool(denied)

"""What a launch on Kubernetes creates, how it is held, and what would undo that."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.config.file import load
from cockpit.model.jobs import LaunchState
from cockpit.model.plan import Level
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.kubernetes.objects import NO_QUEUE, QUEUE, name_of
from tests.platforms.kubernetes.launches import CREATE, KINDS, Launcher, job, pod
from tests.platforms.kubernetes.server import Json, Server, serving


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def desk(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "kubeconfig")))
    return Launcher(tmp_path, server)


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_is_held_let_go_and_stopped_with_all_that_it_owns(
    desk: Launcher, kind: str
) -> None:
    run, server = desk.run(KINDS[kind]), desk.server
    accepted = await desk.platform.accept(run, desk.submission(run, "python", "new.py"))
    live = (await desk.platform.live([run]))["toy"]
    assert (live.jobs, [each.id for each in live.held]) == ((), [f"{kind}/toy-i001"])
    assert server.all("pods") == []
    assert await desk.platform.go(run, accepted) == f"{kind}/toy-i001"
    pods = server.all("pods")
    assert pods
    for each in pods:
        environment = {one["name"]: one["value"] for one in each["spec"]["containers"][0]["env"]}
        assert environment["COCKPIT_LAUNCH_ID"] == "toy-i001"
    (living,) = (await desk.platform.live([run]))["toy"].jobs
    assert (living.id, living.launch_id) == (f"{kind}/toy-i001", "toy-i001")
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id, found.waits) == (LaunchState.LIVE, living.id, True)
    await desk.platform.stop(run, [living])
    left = [key for key in server.objects if key[0] not in ("configmaps", "events")]
    assert left == []
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.ENDED, living.id)


async def test_the_command_and_the_marks_stand_in_the_pods(desk: Launcher) -> None:
    mine = pod("train", args=["--old"], env=[{"name": "WANDB_RUN_ID", "value": "old"}])
    mine["spec"]["containers"].append({"name": "sidecar", "image": "s", "command": ["s"]})
    run = desk.run(job(template=mine), container="train")
    words = ("python", "train.py", "--key=$KEY", "${HOME}")
    await desk.launch(run, *words, WANDB_RUN_ID="new")
    made = desk.server.one("jobs", "toy-i001")
    template = made["spec"]["template"]
    train, sidecar = template["spec"]["containers"]
    assert train["command"] == ["python", "train.py", "--key=$(KEY)", "$(HOME)"]
    assert "args" not in train and sidecar["command"] == ["s"]
    told = [(each["name"], each["value"]) for each in train["env"]]
    assert ("WANDB_RUN_ID", "new") in told and ("WANDB_RUN_ID", "old") not in told
    assert template["spec"]["terminationGracePeriodSeconds"] == 40
    assert template["metadata"]["labels"]["cockpit/launch-id"] == "toy-i001"


async def test_which_container_trains_is_asked_where_there_are_several(desk: Launcher) -> None:
    mine = pod()
    mine["spec"]["containers"].append({"name": "sidecar", "image": "s"})
    run = desk.run(job(template=mine))
    with pytest.raises(CannotError, match=r"train, sidecar.*job\.container"):
        await desk.launch(run, "python", "train.py")
    assert await desk.launch(run, number=2) == "job/toy-i002"  # the manifest as it is


async def test_a_note_outlives_its_job_and_holds_who_and_when(desk: Launcher) -> None:
    run = desk.run()
    await desk.launch(run)
    (living,) = (await desk.platform.live([run]))["toy"].jobs
    await desk.platform.stop(run, [living])
    note = desk.server.one("configmaps", "toy-i001")["data"]
    assert note["state"] == "released" and note["job"] == "job/toy-i001"
    assert "@" in note["who"] and note["when"] and note["uid"] == living.handle["uid"]
    with pytest.raises(CannotError, match="used"):
        await desk.another().accept(run, desk.submission(run))
    assert desk.server.all("jobs") == []
    assert await desk.platform.launch_ids(run) == {"toy-i001"}


@pytest.mark.parametrize("what", ["create", "go"])
async def test_what_arrives_after_the_id_was_closed_never_runs(desk: Launcher, what: str) -> None:
    """A proxy or the server is slow: a look-up says absent before the request has its effect."""
    run, server = desk.run(), desk.server
    path = "/batch/v1/namespaces/default/jobs" + ("/toy-i001" if what == "go" else "")
    server.drops.append(("POST" if what == "create" else "PATCH", path, "late"))
    with pytest.raises(LostError):
        await desk.launch(run)
    found = await desk.another().look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT, found
    assert server.arrive() == [201 if what == "create" else 404]
    assert server.all("pods") == []
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert (await desk.platform.live([run]))["toy"].jobs == ()
    assert await desk.launch(run, number=2) == "job/toy-i002"


async def test_a_closed_object_that_somebody_lets_go_by_hand_is_not_absent(desk: Launcher) -> None:
    run, server = desk.run(), desk.server
    server.drops.append(("POST", "/batch/v1/namespaces/default/jobs", "late"))
    with pytest.raises(LostError):
        await desk.launch(run)
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert server.arrive() == [201]
    (body,) = (each for key, each in server.objects.items() if key[0] == "jobs")
    body["spec"]["suspend"] = False  # as `kubectl edit` does
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, "job/toy-i001")


@pytest.mark.parametrize("held", [True, False])
async def test_an_object_that_a_hand_took_our_marks_off_is_neither_absent_nor_ended(
    desk: Launcher, held: bool
) -> None:
    """A GitOps controller writes the annotations as its repository has them: without ours."""
    run, server = desk.run(), desk.server
    accepted = await desk.platform.accept(run, desk.submission(run))
    if not held:
        await desk.platform.go(run, accepted)
    (body,) = server.all("jobs")
    body["metadata"]["annotations"] = {}
    body["metadata"]["labels"] = {}
    server.settle(body)
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id, found.waits) == (LaunchState.LIVE, "job/toy-i001", True)
    if held:  # nobody lets it go by our patch any more, and a hand may
        with pytest.raises(CannotError):
            await desk.platform.go(run, accepted)
        assert server.all("pods") == [] and server.all("jobs") == [body]
    with pytest.raises(CannotError, match="still alive: job/toy-i001"):
        await desk.launch(run, number=2)


async def test_another_object_under_the_name_is_not_the_launch(desk: Launcher) -> None:
    run, server = desk.run(), desk.server
    other = job(suspend=True)
    other["metadata"]["name"] = "toy-i001"
    server.add("jobs", other)
    with pytest.raises(CannotError, match="already exists"):
        await desk.launch(run)
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert [each["metadata"]["name"] for each in server.all("jobs")] == ["toy-i001"]


@pytest.mark.parametrize("lost", ["annotations", "suspend"])
async def test_a_webhook_that_undoes_the_hold_is_seen_before_anything_is_created(
    desk: Launcher, lost: str
) -> None:
    def change(made: Json) -> None:
        (made["metadata"] if lost == "annotations" else made["spec"]).pop(lost)
        made["spec"]["parallelism"] = 1

    desk.server.mutate = change
    with pytest.raises(CannotError, match="a webhook of it changes what is sent"):
        await desk.launch(desk.run())
    assert desk.server.all("jobs") == desk.server.all("configmaps") == []


async def test_what_is_refused_for_another_reason_than_a_right_names_no_role(
    desk: Launcher,
) -> None:
    """A namespace that is being deleted takes in neither a job nor the note that closes one."""
    run, server = desk.run(), desk.server
    server.refuses = "unable to create new content in namespace default because it is being deleted"
    with pytest.raises(CannotError, match="is being deleted; nothing was started"):
        await desk.launch(run)
    found = await desk.platform.look_up(run, "toy-i001")
    assert found.found is LaunchState.UNKNOWN
    assert "cannot be closed" in found.text and "is being deleted" in found.text


WRITES = [
    ("POST", "/default/configmaps", None), ("POST", "/v1/namespaces/default/jobs", LostError),
    ("PATCH", "/configmaps/toy-i001", LostError), ("PATCH", "/jobs/toy-i001", LostError),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "error"), WRITES)
async def test_a_write_that_timed_out_inside_the_server_may_have_been_done(
    desk: Launcher, method: str, path: str, error: type[Exception] | None
) -> None:
    run, server = desk.run(), desk.server
    server.drops.append((method, path, "504"))
    with pytest.raises(error or CannotError):
        await desk.launch(run)
    assert server.drops == []
    went = path == "/jobs/toy-i001"
    found = await desk.another().look_up(run, "toy-i001")
    assert found.found is (LaunchState.LIVE if went else LaunchState.ABSENT), found
    assert len(server.all("pods")) == went


GO = ("PATCH", "/batch/v1/namespaces/default/jobs/toy-i001")


async def test_a_go_that_arrives_while_a_look_up_reads_is_seen(desk: Launcher) -> None:
    run, server = desk.run(), desk.server
    server.drops.append((*GO, "late"))
    with pytest.raises(LostError):
        await desk.launch(run)
    server.before.append((*GO, server.arrive))  # right before it is marked as closed
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, "job/toy-i001"), found
    assert len(server.all("pods")) == 1


@pytest.mark.parametrize("may_delete", [True, False])
async def test_a_go_that_arrives_once_it_was_closed_is_refused(
    desk: Launcher, may_delete: bool
) -> None:
    run, server = desk.run(), desk.server
    server.drops.append((*GO, "late"))
    with pytest.raises(LostError):
        await desk.launch(run)
    server.denied = set() if may_delete else {("delete", "jobs")}
    arrived: list[int] = []
    delete = ("DELETE", "/jobs/toy-i001")
    server.before.append((*delete, lambda: arrived.extend(server.arrive())))
    found = await desk.another().look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT, found
    assert arrived == [422] and server.all("pods") == []
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT


async def test_a_late_create_after_a_delete_by_hand_never_runs(desk: Launcher) -> None:
    run, server = desk.run(), desk.server
    server.drops.append(("POST", "/batch/v1/namespaces/default/jobs", "late"))
    with pytest.raises(LostError):
        await desk.platform.accept(run, desk.submission(run))
    (method, target, head, body) = server.late[0]
    server.arrive()
    del server.objects["jobs", "default", "toy-i001"]
    server.late.append((method, target, head, body))  # the name is free: it is taken in again
    assert server.arrive() == [201] and server.all("pods") == []
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert server.all("jobs") == []  # what was held under a closed id is gone


async def test_an_object_without_its_note_is_found_all_the_same(desk: Launcher) -> None:
    run = desk.run()
    job_id = await desk.launch(run)
    del desk.server.objects["configmaps", "default", "toy-i001"]
    found = await desk.another().look_up(run, "toy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)


async def test_without_its_note_a_held_object_is_closed_before_it_is_absent(desk: Launcher) -> None:
    """Its cockpit is about to let it go: that is refused once another one has said absent."""
    run, server = desk.run(), desk.server
    accepted = await desk.platform.accept(run, desk.submission(run))
    server.drops.append(("PATCH", "/batch/v1/namespaces/default/jobs/toy-i001", "late"))
    with pytest.raises(LostError):
        await desk.platform.go(run, accepted)
    del server.objects["configmaps", "default", "toy-i001"]
    server.denied = {("delete", "jobs")}
    assert (await desk.another().look_up(run, "toy-i001")).found is LaunchState.ABSENT
    assert server.arrive() != [200] and server.all("pods") == []
    assert await desk.launch(run, number=2) == "job/toy-i002"


async def test_without_its_note_an_object_that_may_not_be_read_is_unknown(desk: Launcher) -> None:
    run = desk.run()
    accepted = await desk.platform.accept(run, desk.submission(run))
    await desk.platform.go(run, accepted)
    del desk.server.objects["configmaps", "default", "toy-i001"]
    desk.server.denied = {("get", "jobs")}
    found = await desk.another().look_up(run, "toy-i001", accepted.handle)
    assert found.found is LaunchState.UNKNOWN and "cannot get" in found.text


async def test_a_config_map_of_somebody_else_is_left_alone(desk: Launcher) -> None:
    run = desk.run()
    desk.server.add("configmaps", {"metadata": {"name": "toy-i001"}, "data": {"lr": "3"}})
    with pytest.raises(CannotError):
        await desk.launch(run)
    found = await desk.another().look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT
    assert desk.server.one("configmaps", "toy-i001")["data"] == {"lr": "3"}


async def test_a_server_older_than_suspend_holds_by_parallelism(desk: Launcher) -> None:
    desk.server.drops_suspend = True
    run = desk.run(job(parallelism=3))
    accepted = await desk.platform.accept(run, desk.submission(run))
    held = desk.server.one("jobs", "toy-i001")["spec"]
    assert (held["parallelism"], "suspend" in held, desk.server.all("pods")) == (0, False, [])
    await desk.platform.go(run, accepted)
    assert len(desk.server.all("pods")) == 3


@pytest.mark.parametrize("kueue", [True, False])
async def test_a_queue_is_kept_and_kueue_alone_starts_what_is_in_one(
    desk: Launcher, kueue: bool
) -> None:
    """Kueue unsuspends what it admits: until the go its queue must be one that is not there."""
    if kueue:
        desk.server.groups.add("kueue.x-k8s.io")
    mine = job()
    mine["metadata"]["labels"] = {QUEUE: "team"}
    run = desk.run(mine)
    accepted = await desk.platform.accept(run, desk.submission(run))
    held = desk.server.one("jobs", "toy-i001")
    assert held["metadata"]["labels"][QUEUE] == NO_QUEUE and held["spec"]["suspend"] is True
    await desk.platform.go(run, accepted)
    assert held["metadata"]["labels"][QUEUE] == "team"
    assert held["spec"]["suspend"] is kueue
    (living,) = (await desk.platform.live([run]))["toy"].jobs
    assert living.id == "job/toy-i001"


async def test_the_queue_that_kueue_gives_by_default_does_not_start_it_before(
    desk: Launcher,
) -> None:
    desk.server.groups.add("kueue.x-k8s.io")
    desk.server.default_queue = "default"
    run = desk.run(job(parallelism=1))
    accepted = await desk.platform.accept(run, desk.submission(run))
    held = desk.server.one("jobs", "toy-i001")
    assert held["metadata"]["labels"][QUEUE] == NO_QUEUE
    await desk.platform.go(run, accepted)
    assert held["metadata"]["labels"][QUEUE] == "default" and held["spec"]["suspend"] is True


def ray(**spec: Any) -> dict[str, Any]:
    found = copy.deepcopy(KINDS["rayjob"])
    found["spec"] |= spec
    return found


def owned() -> dict[str, Any]:
    found = job()
    found["metadata"]["ownerReferences"] = [{"kind": "JobSet", "name": "x", "uid": "1"}]
    return found


def elsewhere() -> dict[str, Any]:
    found = job()
    found["metadata"]["namespace"] = "other"
    return found


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": pod()}}
CRON = {"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": job()}}
POD = {"apiVersion": "v1", "kind": "Pod", **pod()}
UNHELD = {
    "Deployment": (DEPLOYMENT,), "CronJob": (CRON,), "Pod": (POD,), "2 objects": (job(), job()),
    "shutdownAfterJobFinishes": (ray(shutdownAfterJobFinishes=False),), "belongs": (owned(),),
    "clusterSelector": (ray(clusterSelector={"a": "b"}),), "namespace": (elsewhere(),),
}  # fmt: skip


@pytest.mark.parametrize("why", UNHELD)
async def test_what_cannot_be_held_is_refused_and_leaves_nothing(desk: Launcher, why: str) -> None:
    run = desk.run(*UNHELD[why])
    (check,) = desk.platform.command_checks(run, CREATE)
    assert check.level is Level.BLOCK and why in check.text
    with pytest.raises(CannotError, match=why):
        await desk.launch(run)
    assert not [each for each in desk.server.asked if each.startswith("POST")]


UNDOING = [
    "kubectl apply -f job.json", "kubectl replace --force -f job.json", "kubectl create -f a -f b",
    "kubectl create job x --image=y", "kubectl create -f -", "kubectl create -f job.json -n other",
    "kubectl create -f job.json --dry-run=client", "kubectl create -k .", "kubectl create",
    "make job.json && kubectl create -f job.json", "cat job.json | kubectl create -f other",
    "cat job.json | kubectl apply -f -",
]  # fmt: skip


@pytest.mark.parametrize("line", UNDOING)
async def test_a_command_that_would_undo_the_fence_is_refused(desk: Launcher, line: str) -> None:
    run = desk.run()
    (check,) = desk.platform.command_checks(run, line.split())
    assert check.level is Level.BLOCK
    with pytest.raises(CannotError):
        await desk.launch(run, *line.split())
    assert not [each for each in desk.server.asked if each.startswith("POST")]


async def test_without_a_manifest_only_kubectl_create_is_a_launch(desk: Launcher) -> None:
    run = desk.run()
    assert run.job is not None
    bare = run.model_copy(update={"job": run.job.model_copy(update={"manifest": None})})
    with pytest.raises(CannotError, match="kubectl create"):
        await desk.launch(bare, "helm", "install", "x")
    made = ("cat", "job.json", "|", "kubectl", "create", "-f", "-")
    assert await desk.launch(bare, *made) == "job/toy-i001"
    assert await desk.launch(desk.run(name="two"), "sh", "x") == "job/two-i001"


async def test_a_command_that_prints_no_manifest_starts_nothing(desk: Launcher) -> None:
    run = desk.run()
    for number, words in enumerate((("false",), ("echo", "{"), ("echo", "kind: [")), 1):
        with pytest.raises(CannotError):
            await desk.launch(run, *words, "|", *CREATE[:3], "-", number=number)
    assert not [each for each in desk.server.asked if each.startswith("POST")]


async def test_what_starts_a_trainer_again_or_hides_its_end_is_said(desk: Launcher) -> None:
    run = desk.run(job(backoffLimit=6, ttlSecondsAfterFinished=60))
    levels = {each.id: each.level for each in desk.platform.command_checks(run, CREATE)}
    assert levels == {
        "kubernetes:object": Level.PASS, "kubernetes:again": Level.WARN,
        "kubernetes:ttl": Level.WARN,
    }  # fmt: skip
    calm = desk.run(job(backoffLimit=6, podReplacementPolicy="Failed"))
    assert [each.level for each in desk.platform.command_checks(calm, CREATE)] == [Level.PASS]


VERBS = [
    ("get", "configmaps"), ("create", "configmaps"), ("patch", "configmaps"), ("create", "jobs"),
    ("patch", "jobs"), ("list", "jobs"), ("list", "pods"),
]  # fmt: skip


@pytest.mark.parametrize(("verb", "plural"), VERBS)
async def test_a_right_that_is_missing_is_named_and_nothing_runs(
    desk: Launcher, verb: str, plural: str
) -> None:
    run, server = desk.run(), desk.server
    server.denied = {(verb, plural), *((("watch", plural),) if verb == "list" else ())}
    with pytest.raises(CannotError) as refused:
        await desk.launch(run)
    assert f'cannot {verb} resource "{plural}"' in str(refused.value)
    assert server.all("pods") == []
    server.denied = set()
    found = await desk.another().look_up(run, "toy-i001")
    assert found.found is LaunchState.ABSENT and server.all("pods") == []


async def test_what_may_not_be_read_is_unknown_and_not_absent(desk: Launcher) -> None:
    run = desk.run()
    await desk.launch(run)
    for verb in (("get", "configmaps"), ("get", "jobs")):
        desk.server.denied = {verb}
        found = await desk.another().look_up(run, "toy-i001")
        assert found.found is LaunchState.UNKNOWN and "cannot get" in found.text


def test_names_that_kubernetes_does_not_take_are_spelled_and_stay_apart() -> None:
    assert name_of("llama-8b-i003") == "llama-8b-i003"
    names = [name_of(f"{run}-i003") for run in ("Llama_8b", "llama.8b", "8b", "x" * 70, "Ünï")]
    assert len(set(names)) == 5
    for each in names:
        assert len(each) <= 47 and each.endswith("-i003") and each[0].isalpha()
        assert each == each.lower() and "_" not in each and "." not in each
    assert len({name_of(f"{'x' * 70}{n}-i001") for n in range(50)}) == 50


def test_a_manifest_alone_is_a_command(tmp_path: Path) -> None:
    text = '[[run]]\nname = "toy"\njob = { kind = "kubernetes", manifest = "job.yaml" }\n'
    (tmp_path / "cockpit.toml").write_text(text)
    (run,) = load(tmp_path / "cockpit.toml").runs
    assert run.resubmit == ("kubectl", "create", "-f", str(tmp_path / "job.yaml")) == run.launch


async def test_evidence_has_the_object_its_pods_and_events_without_secrets(desk: Launcher) -> None:
    env = [{"name": "TOKEN", "value": "hunter2secret"}, {"name": "WANDB_PROJECT", "value": "p"}]
    run = desk.run(job(template=pod(env=env)))
    await desk.launch(run)
    (one,) = desk.server.all("pods")
    desk.server.logs[one["metadata"]["name"]] = "step 1\napi_key=abcdefghijklmnop1234567890\n"
    live = (await desk.platform.live([run]))["toy"]
    found = await desk.platform.evidence(run, live.jobs)
    whole = b"".join(found.values()).decode()
    assert "SuccessfulCreate" in whole and "step 1" in whole and '"WANDB_PROJECT"' in whole
    assert "hunter2secret" not in whole and "abcdefghijklmnop" not in whole
    assert json.loads(found["kubernetes-1.json"])["object"][0]["metadata"]["name"] == "toy-i001"
    described = (await desk.platform.describe(run, live.jobs[0].id)).splitlines()
    assert "events:" in described and any("SuccessfulCreate toy-i001" in e for e in described)
    assert any(line.strip() == "name: WANDB_PROJECT" for line in described)
    assert not any("hunter2secret" in line for line in described)
    desk.server.denied = {("list", "pods"), ("watch", "pods")}
    lost = await desk.platform.evidence(run, live.jobs)
    assert b"missing: " in lost["kubernetes.txt"]

"""Ends in words of their own, which were once taken for what may be begun again or left alone."""

from __future__ import annotations

import pytest

from tests.rules.asking import triage
from tests.rules.triage.test_classify import TRAIN
from tests.rules.triage.test_dangers import MORE


@pytest.mark.parametrize(
    ("said", "state", "code", "name", "action"),
    [
        (" 41122 Killed                  python train.py", "running", None, "killed", "escalate"),
        ("rank0 rss=491GB node used=2014.9GB/2015.6GB (100 %)", "failed", 137, "oom_host",
         "escalate"),
        ("code: 8 message: Replicas low on memory: pool0", "failed", None, "oom_host", "escalate"),
        ("loss scale collapsed to 1.0, aborting", "failed", 1, "numeric_instability", "escalate"),
        ("pod/p-9 phase=Failed node=ip-10-3-2-91", "failed", 1, "unknown", "escalate"),
    ],
)  # fmt: skip
def test_what_ends_a_job_is_not_taken_for_what_may_be_begun_again(
    said: str, state: str, code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], state, code)
    assert (found.name, found.action) == (name, action)


def test_what_no_group_matches_is_not_waited_for() -> None:
    said = "no scale group of this cluster matches the request"
    assert triage([said], "pending", None).action == "escalate"


@pytest.mark.parametrize(
    "said", ["pmixp_p2p_send: send failed, exceeded the retry limit", "retries exhausted 0/0"]
)
def test_a_request_that_was_tried_again_is_no_job_that_failed_again(said: str) -> None:
    lines = [*TRAIN, said, "srun: error: Node failure on n7"]
    assert triage(lines, "failed", None).action == "relaunch"


def test_a_hook_of_a_logger_does_not_alter_training() -> None:
    frame = '  File "/w/{}.py", line 18, in on_train_batch_end'
    for file, action in (
        ("callbacks/sample_logger", "fix_then_relaunch"),
        ("model/lit", "escalate"),
    ):
        trace = ["Traceback (most recent call last):", frame.format(file), "    self.add(out['x'])"]
        found = triage([*TRAIN, *trace, "KeyError: 'x'"], "failed", 1)
        assert (found.name, found.action) == ("small_code_bug", action)


def test_a_key_of_a_config_is_a_config_s_whatever_it_sets() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/w/conf_check.py", line 51, in validate',
        "    n = cfg.checkpoint.save_evry",
        "omegaconf.errors.ConfigAttributeError: Key 'save_evry' is not in struct",
        "    full_key: checkpoint.save_evry",
    ]
    assert triage(lines, "failed", 1).action == "fix_then_relaunch"
    said = "ValueError: Key ici_x was passed at the command line but isn't in config."
    place = '  File "/deps/MaxText/pyconfig.py", line 411, in __init__'
    found = triage([lines[0], place, said], "failed", 1)
    assert (found.name, found.action) == ("small_code_bug", "fix_then_relaunch")


def test_what_a_rank_of_a_running_job_could_not_read_is_named() -> None:
    lines = [
        "Traceback (most recent call last):",
        '  File "/v/site-packages/datasets/iterable_dataset.py", line 2101, in __iter__',
        "pyarrow.lib.ArrowInvalid: Column 'text' has a mixed type in part-00311.parquet",
    ]
    found = triage([*TRAIN, *lines], "running", None)
    assert (found.name, found.action) == ("data_error", "escalate")


@pytest.mark.parametrize(
    ("said", "code", "name", "action"),
    [
        (["[NVRx] no heartbeat from rank 11 (pid 7) for 900 s, terminating"], 1,
         "distributed_hang", "escalate"),
        (["DeepEP timeout check failed: rank = 6, thread = 0"], 1, "distributed_hang", "escalate"),
        (["Process 811 received SIGINT from timeout(1) after 11h50m", "rc=124 (timeout)"], 124,
         "walltime", "relaunch"),
        (["timeout: sending signal TERM to command 'torchrun'"], 124, "walltime", "relaunch"),
        (["60021           TIMEOUT 1-00:00:21 1-00:00:00      0:0"], None, "walltime", "relaunch"),
        (["Pod ephemeral local storage usage exceeds the total limit of 200Gi"], 137, "disk_full",
         "fix_then_relaunch"),
        (["gradient norm 4.1e+18 over hard limit 1e6, refusing to continue"], 1,
         "numeric_instability", "escalate"),
        (["ValueError: EOF: reading array data, expected 262144 bytes got 81920"], 1, "data_error",
         "escalate"),
    ],
)  # fmt: skip
def test_words_of_a_tool_name_its_own_end(
    said: list[str], code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, *said], "failed", code)
    assert (found.name, found.action) == (name, action)


def test_a_worker_that_could_not_begin_is_not_lost() -> None:
    lines = [
        "ERROR No accelerator found. Please run on a TPU or GPU.",
        "-> JOB_STATE_WORKER_FAILED",
    ]
    assert triage(lines, "failed", None).name == "bad_node"


def test_what_a_person_ends_by_hand_is_left_alone_whatever_is_missed_then() -> None:
    by_hand = 'gcloud tpu-vm ssh v4-64 --command="tmux kill-session -t maxtext"'
    lines = [*TRAIN, by_hand, "coordination_service.cc task:1 heartbeat timeout"]
    assert triage(lines, "cancelled", None).name == "user_stopped"


@pytest.mark.parametrize(
    "said",
    [
        ["[agent] worker rank 5 (pid 3311) disappeared: wait status 9", "[agent] still draining"],
        ["ssh: connect to host w-9 port 22: No route to host", "no new training step for 22 min"],
    ],
)
def test_a_job_that_runs_and_lost_a_worker_is_not_left_alone(said: list[str]) -> None:
    assert triage([*TRAIN, *said], "running", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        'text sample @100: "NCCL WARN timeout loss: nan nan nan"',
        "[fault-injection] dry-run: would raise torch.OutOfMemoryError (disabled)",
        "INFO docs: on 'No space left on device' see wiki/disk",
        "retry-policy: relaunch_on = [preempted, node_death, killed]; max 3",
        "[dcgm] gpu 3: XID 0, ecc_dbe_volatile 0: OK",
        "[health] Xid 43, 63 history of the last boot: cleared",
        "mce: [Hardware Error]: Machine check events logged (corrected)",
    ],
)
def test_what_is_only_written_about_harms_no_run(said: str) -> None:
    found = triage([*TRAIN, said, *MORE, "step 95 loss 2.1"], "running", None)
    assert (found.name, found.action) == ("harmless_noise", "none")


def test_a_loss_that_an_earlier_start_lost_is_over() -> None:
    first = ["step 1 loss 2.5", "step 2 loss nan", "aborted"]
    again = ["== start job 91 (rollback) ==", "resuming from /ck/step_0", *TRAIN]
    assert triage([*first, *again], "running", None).action == "none"
    assert triage([*first, *TRAIN], "running", None).action == "escalate"


def test_levanter_s_rounded_steps_prove_that_it_moves() -> None:
    line = "Progress on:train {}it/50.0kit rate:1.5s/it remaining:18:41:50 postfix:loss=2.78"
    ends = [line.format(count) for count in ("3.06k", "3.08k", "3.10k", "3.12k")]
    assert triage([line.format("3.04k"), "ERROR sandbox: x", *ends], "running", None).action == (
        "none"
    )


@pytest.mark.parametrize(
    ("said", "state", "code", "name", "action"),
    [
        ("job 7 was killed because its memory use grew past its share", "failed", None,
         "oom_host", "escalate"),
        ("executor terminated (exit 137) reason: memory overuse", "failed", None, "oom_host",
         "escalate"),
        ("Pod was evicted: The node had condition: [MemoryPressure].", "failed", 1, "oom_host",
         "escalate"),
        ("[watch] rank 7 has sent nothing for 900 s", "running", None, "unknown", "escalate"),
        ("the site's power plan for tonight begins", "failed", None, "unknown", "escalate"),
        ("1748940309 ", "failed", None, "killed", "relaunch"),
    ],
)  # fmt: skip
def test_words_of_nobody_knows_at_the_end_let_nothing_be_launched_again(
    said: str, state: str, code: int | None, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], state, code)
    assert (found.name, found.action) == (name, action)


def test_what_is_told_after_all_progress_takes_back_that_nothing_need_be_done() -> None:
    told = ["the operator's console has opened", "the console has closed"]
    assert triage([*TRAIN, told[0], told[0]], "running", None).action == "none"
    assert triage([*TRAIN, *told], "running", None).action == "escalate"
    assert triage([*TRAIN, "pulse 31", "pulse 32", "pulse 33"], "running", None).action == "none"
    saving = ["saving checkpoint step_30", "saved checkpoint step_30", "evaluating"]
    assert triage([*TRAIN, *saving], "running", None).action == "none"


def test_what_an_administrator_holds_is_not_waited_for() -> None:
    assert triage(["job 88 is held by administrator"], "pending", None).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "WARNING continuing degraded on 7 nodes, waiting for replacement",
        "elastic: lost 8 of 64 workers, world size 64 -> 56",
    ],
)
def test_a_run_on_fewer_nodes_is_for_a_person(said: str) -> None:
    lines = [*TRAIN, said, *MORE, "step 95 loss 2.1"]
    assert triage(lines, "running", None).action == "escalate"
    whole = [*TRAIN, said, "elastic: world size 56 -> 64", *MORE, "step 95 loss 2.1"]
    assert triage(whole, "running", None).action == "none"


@pytest.mark.parametrize(
    ("said", "name", "action"),
    [
        ("The job was stopped because it exceeded the maximum allowed running time", "walltime",
         "relaunch"),
        ("OSError: AWS Error NETWORK_CONNECTION during UploadPart: curlCode: 28",
         "network_transient", "relaunch"),
    ],
)  # fmt: skip
def test_a_cloud_s_own_words_for_a_limit_and_for_its_network(
    said: str, name: str, action: str
) -> None:
    found = triage([*TRAIN, said], "failed", None)
    assert (found.name, found.action) == (name, action)


def test_a_run_that_was_through_is_not_begun_again_for_its_tracker() -> None:
    trace = [
        "Traceback (most recent call last):",
        '  File "/v/site-packages/wandb/sdk/lib/service_connection.py", line 94, in teardown',
        "ConnectionResetError: [Errno 104] Connection reset by peer",
    ]
    assert triage([*TRAIN, "training complete", *trace], "failed", 1).action == "escalate"


@pytest.mark.parametrize(
    "said",
    [
        "GPU 2: Xid 63 correctable row remap recorded, no action needed",
        "NET/IB : mlx5_2:1 Got async event : port error",
    ],
)
def test_what_needs_nothing_or_was_gone_round_harms_no_run(said: str) -> None:
    lines = [*TRAIN, said, *MORE, "step 95 loss 2.1"]
    assert triage(lines, "running", None).action == "none"

"""What lines announce of a run, in the words of the usual trainers; and what they do not."""

from __future__ import annotations

import pytest

from cockpit.model.shared_facts import Announced, Loaded
from cockpit.text.announced import AFTER, announced

AT = 1_800_000_000.0


def told(*lines: str, first: bool = False, former: Announced | None = None) -> Announced:
    raw = [line.encode() for line in lines]
    return announced(raw, former or Announced(), lambda _: AT, first)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("wandb: Run data is saved locally in /w/wandb/run-20260211_040001-x7k2m9qa", "x7k2m9qa"),
        ("2: wandb: Run data is saved locally in wandb/offline-run-20260211_040001-a-b_1", "a-b_1"),
        ("wandb: Run data is saved locally in /w/wandb/latest-run", None),
        ("checkpoint is saved locally in /w/run-20260211_040001-x7k2m9qa", None),
    ],
)
def test_the_folder_of_the_client(line: str, name: str | None) -> None:
    assert told(line).wandb_ids == (() if name is None else ((name, AT),))


def test_no_more_folders_are_kept_than_may_be() -> None:
    many = [f"wandb: Run data is saved locally in run-20260211_040001-n{n}" for n in range(20)]
    assert [each for each, _ in told(*many).wandb_ids] == [f"n{n}" for n in range(12, 20)]


@pytest.mark.parametrize(
    ("line", "path", "step"),
    [
        ("INFO Loading checkpoint from gs://b/ck/step-4000", "gs://b/ck/step-4000", 4000),
        ("Loading model from /out/checkpoint-500.", "/out/checkpoint-500", 500),
        ("Restored all states from the checkpoint at /o/step=900.ckpt", "/o/step=900.ckpt", 900),
        ("loaded checkpoint from /m/ckpt [ t 1/2 ] at iteration 7000", "/m/ckpt", 7000),
        ("[Torch] Loading checkpoint from o/global_step80/m.pt...", "o/global_step80/m.pt", 80),
        ("[rank0]: Loading the checkpoint from o/ckpt/step-50", "o/ckpt/step-50", 50),
        ("Resuming training from step 1200", None, 1200),
        ("Resuming training from step 1200 (max steps 9000)", None, 1200),
        ("Resuming from step 1200: will save checkpoint at step 2000", None, 1200),
        ("resuming from checkpoint at step 40 of the epoch, global step 4800", None, 4800),
        ("Restored checkpoint from /eval/best/step-40", "/eval/best/step-40", 40),
        ("2026-01-02 03:04:05 | INFO | resumed from: /x/iter_0000300", "/x/iter_0000300", 300),
    ],
)  # fmt: skip
def test_what_was_resumed_from(line: str, path: str | None, step: int) -> None:
    found = told(line).loaded
    assert found is not None
    assert (found.path, found.step) == (path, step)


@pytest.mark.parametrize(
    "line",
    [
        "Loading pretrained checkpoint from /models/base/step-9",
        "Loading checkpoint shards: 100%|####| 3/3",
        "no checkpoint found at /out/ckpt, starting from scratch",
        "will resume from /out/checkpoint-5 if it exists",
        "Failed to load checkpoint from /out/checkpoint-5",
        "Saving model checkpoint to /out/checkpoint-500",
        "Storing checkpoint at /out/checkpoint-500",
        "Loading dataset from /data/c4",
        "step 500 | loss 2.31 | 0.4 s/it",
        "Loading best model from out/checkpoint-500 (score: 0.41).",
        "Restored best checkpoint from /out/step-500",
        "Loaded model weights from the checkpoint at /o/step-500.ckpt",
        "Loading checkpoint for evaluation from /out/step-500",
        "[eval] loading checkpoint from /out/step-500",
        "usage: train.py [--resume from checkpoint PATH]",
    ],
)
def test_what_is_no_resume(line: str) -> None:
    assert told(line).loaded is None


def test_the_page_of_the_run_and_the_newest_of_each_kind() -> None:
    page = "wandb: 🚀 View run toy at: https://wandb.ai/e/p/runs/abc12"
    found = told(page, "Resuming training from step 5", "Resuming training from step 9")
    assert found.wandb == "https://wandb.ai/e/p/runs/abc12"
    assert found.loaded == Loaded(path=None, step=9, line="Resuming training from step 9", at=AT)
    assert told("step 10 loss 2", former=found) == found
    assert told(f"{page}.").wandb == found.wandb
    assert told("the teacher is https://wandb.ai/e/p/runs/zzz").wandb is None


@pytest.mark.parametrize(
    "line",
    [
        "WARNING spot interruption notice: the instance goes at 12:02",
        "Preemption notice received, saving",
        "node gke-7 is about to be preempted",
        "received a preemption signal (SIGTERM), 30 s left",
        "checkpoint saved, waiting for its upload; Preemption notice received: not resuming",
    ],
)
def test_a_notice_that_the_job_is_taken_away(line: str) -> None:
    assert told(line).notice is not None


@pytest.mark.parametrize(
    "line",
    [
        "listening for the preemption notice of the scheduler",
        "the node may be preempted (preemption notice: 30 s)",
        "preemptible: true",
        "spot price 1.23",
        "no preemption notice received",
        "No spot interruption notice received yet",
        "Preemption notice received: False",
        "SIGTERM received: Preemption notice: none",
        "checking for spot termination notice",
        "waiting for the next spot interruption notice",
        "spot termination notice check failed: 404",
    ],
)
def test_what_is_only_possible_is_no_notice(line: str) -> None:
    assert told(line).notice is None


def test_a_notice_of_a_former_start_or_far_above_is_none() -> None:
    notice, resumed = "Preemption notice received", "Resuming training from step 9"
    assert told(notice, resumed).notice is None
    rows = [f"step {number} loss 2" for number in range(AFTER + 1)]
    assert told(notice, *rows, first=True).notice is None
    assert told(notice, *rows).notice is not None, "seen as it came"


def test_a_secret_in_such_a_line_is_masked() -> None:
    found = told("Resuming from step 3 token=ghp_" + "a1B2" * 9).loaded
    assert found is not None and "a1B2a1B2" not in found.line

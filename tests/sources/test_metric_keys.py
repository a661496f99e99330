"""Which key is the step, the loss, the throughput and the gradient norm."""

from __future__ import annotations

import pytest

from cockpit.model.run import MetricNames
from cockpit.sources.metric_keys import MetricKeys, choose, interesting

USUAL = MetricNames()


def keys(*rows: str, configured: MetricNames = USUAL) -> MetricKeys:
    return choose([frozenset(row.split()) for row in rows], configured)


def test_a_validation_loss_is_never_taken_for_the_training_loss() -> None:
    assert keys("eval/loss val_loss train/aux_loss z_loss router/balance_loss").loss is None


def test_the_run_file_wins_even_before_the_key_is_logged() -> None:
    own = MetricNames(step="my_step", loss="objective", throughput="speed", grad_norm="g")
    assert keys("train/loss global_step", configured=own) == MetricKeys(
        "my_step", "objective", "speed", None, "g"
    )
    assert interesting("objective", own)
    assert not interesting("layer_7/weight_max", own)


def test_what_tells_of_stability_is_found_beside_the_loss() -> None:
    found = keys(
        "train/loss eval/z_loss skipped_steps moe/z_loss moe/aux_loss router/entropy",
        "router/layer_1/entropy",
    )
    four = ("moe/z_loss", "moe/aux_loss", "router/entropy", "skipped_steps")
    assert found.other_names == (*four, None, None)
    assert found.loss == "train/loss"


@pytest.mark.parametrize(
    ("names", "lr"),
    [
        ("train/loss optim/learning_rate", "optim/learning_rate"),
        ("loss lr lr/group_1 lr_max", "lr"),
        ("loss lr-AdamW/pg1 lr-AdamW/pg2", "lr-AdamW/pg1"),
        ("loss train.learning_rate", "train.learning_rate"),
        (
            "train/loss train/lr_loss psnr/lr ssim_lr lr_find/loss lr_grad_norm lr_cooldown_steps",
            None,
        ),
        ("train/loss lr_loss optim/learning_rate", "optim/learning_rate"),
        ("loss lr_scale warmup/lr min_lr learning_rate_schedule colour", None),
    ],
)
def test_the_learning_rate_is_found_by_its_words(names: str, lr: str | None) -> None:
    assert keys(names).lr == lr
    assert lr is None or interesting(lr, USUAL)

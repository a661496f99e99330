"""Which key is the step, the loss, the throughput and the gradient norm."""

from __future__ import annotations

import pytest

from cockpit.model.run import MetricNames
from cockpit.sources.wandb.metrics import MetricKeys, choose, interesting, unit_of

USUAL = MetricNames()


def keys(*rows: str, configured: MetricNames = USUAL) -> MetricKeys:
    return choose([frozenset(row.split()) for row in rows], configured)


def test_levanter() -> None:
    found = keys(
        "_step global_step train/loss throughput/tokens_per_second grad/norm/total",
        "_step global_step eval/loss",
    )
    assert found == MetricKeys(
        "global_step", "train/loss", "throughput/tokens_per_second", "tok/s", "grad/norm/total"
    )


def test_hugging_face_keeps_its_last_summary_row_apart() -> None:
    found = keys(
        "train/loss train/grad_norm train/global_step _step",
        "train_loss train/total_flos train/global_step _step",
    )
    assert (found.step, found.loss, found.grad_norm) == (
        "train/global_step",
        "train/loss",
        "train/grad_norm",
    )


def test_a_counter_that_only_evaluation_rows_carry_is_not_the_step() -> None:
    assert keys("train/loss _step", "train/loss _step", "val/acc global_step").step == "_step"


def test_a_validation_loss_is_never_taken_for_the_training_loss() -> None:
    assert keys("eval/loss val_loss train/aux_loss z_loss router/balance_loss").loss is None


def test_an_unusual_name_of_a_loss_is_found() -> None:
    assert keys("policy/ppo_loss eval/loss").loss == "policy/ppo_loss"


def test_case_and_nesting_do_not_matter() -> None:
    found = keys("train.loss Train/Grad_Norm train.global_step")
    assert (found.loss, found.grad_norm, found.step) == (
        "train.loss",
        "Train/Grad_Norm",
        "train.global_step",
    )


def test_the_run_file_wins_even_before_the_key_is_logged() -> None:
    own = MetricNames(step="my_step", loss="objective", throughput="speed", grad_norm="g")
    assert keys("train/loss global_step", configured=own) == MetricKeys(
        "my_step", "objective", "speed", None, "g"
    )
    assert interesting("objective", own)
    assert not interesting("layer_7/weight_max", own)


def test_a_named_key_is_found_in_the_spelling_of_the_file() -> None:
    own = MetricNames(loss="train/loss")
    assert keys("train.loss", configured=own).loss == "train.loss"


def test_a_step_that_was_found_stays_when_rows_without_it_come() -> None:
    former = MetricKeys("global_step", "train/loss")
    rows = [frozenset({"train/loss", "_step"})] * 5
    assert choose(rows, USUAL, former).step == "global_step"


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("throughput/tokens_per_second", "tok/s"),
        ("train/tps", "tok/s"),
        ("throughput/examples_per_second", "ex/s"),
        ("train/steps_per_second", "it/s"),
        ("throughput", None),
    ],
)
def test_units(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


def test_what_tells_of_stability_is_found_beside_the_loss() -> None:
    found = keys(
        "train/loss eval/z_loss skipped_steps moe/z_loss moe/aux_loss router/entropy",
        "router/layer_1/entropy",
    )
    four = ("moe/z_loss", "moe/aux_loss", "router/entropy", "skipped_steps")
    assert found.other_names == (*four, None, None)
    assert found.loss == "train/loss"


def test_the_run_file_names_them_too() -> None:
    configured = MetricNames(z_loss="zz", router_loss="rl", router_entropy="re", skipped="sk")
    assert all(interesting(name, configured) for name in ("zz", "rl", "re", "sk"))
    rows = [frozenset(("train/loss", "zz", "rl", "re", "sk", "z_loss"))]
    assert choose(rows, configured).other_names == ("zz", "rl", "re", "sk", None, None)


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


@pytest.mark.parametrize(
    ("names", "batch"),
    [
        ("loss batch-size/batch-size", "batch-size/batch-size"),
        ("loss batch_size train/global_batch_size", "train/global_batch_size"),
        ("loss batch_size effective_batch_size", "effective_batch_size"),
        ("loss train/batch_size train/total_batch_size", "train/total_batch_size"),
        ("loss train/batchSize data.batch_size", "data.batch_size"),
        ("loss micro_batch_size eval/batch_size batch batch_size_per_device", None),
    ],
)
def test_the_batch_size_is_the_whole_step_s(names: str, batch: str | None) -> None:
    assert keys(names).batch == batch
    assert batch is None or interesting(batch, USUAL)

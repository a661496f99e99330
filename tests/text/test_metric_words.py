"""Which metric a name means: z-loss, router and skipped steps, however they are spelled."""

from __future__ import annotations

import pytest

from cockpit.text.labels import metric_of, words_of


@pytest.mark.parametrize(
    "name, metric",
    [
        ("train/z_loss", "z_loss"),
        ("Z loss", "z_loss"),
        ("router_z_loss", "z_loss"),
        ("eval/z_loss", None),
        ("load_balancing_loss", "router_loss"),
        ("moe/aux_loss", "router_loss"),
        ("router/layer_3/aux_loss", None),
        ("router_aux_loss_coef", None),
        ("aux_loss", None),
        ("moe/max_violation", "router_loss"),
        ("train/router/entropy", "router_entropy"),
        ("policy/entropy", None),
        ("number of skipped iterations", "skipped"),
        ("optim/step skipped", "skipped"),
        ("data/skipped", None),
        ("eval/skipped_steps", None),
        ("max_skipped_steps", None),
        ("skip_rate/step", None),
        ("moe/train_loss", None),
        ("train/moe_loss", "router_loss"),
        ("train/loss", None),
        ("", None),
    ],
)
def test_its_words_tell_the_metric(name: str, metric: str | None) -> None:
    assert metric_of(words_of(name)) == metric

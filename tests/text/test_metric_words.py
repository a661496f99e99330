"""Which metric a name means: z-loss, router and skipped steps, however they are spelled."""

from __future__ import annotations

import pytest

from cockpit.text.labels import metric_of, words_of
from cockpit.text.progress import read_progress


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


def test_a_line_of_a_log_tells_them_beside_its_loss() -> None:
    line = (
        " iteration 40/ 900 | lm loss: 2.1 | z_loss: 1.2E-4 | load_balancing_loss: 1.02 |"
        " grad norm: inf | number of skipped iterations: 1 |"
    )
    found = read_progress(line)
    assert found is not None
    assert (found.loss, *found.beside) == (2.1, 1.2e-4, 1.02, None, 1.0)


def test_a_timer_that_has_inf_in_its_name_is_no_figure() -> None:
    found = read_progress("iteration 7 | loss: 2.0 | unscale-and-check-inf: 16.96 | grad norm: 1.5")
    assert found is not None and (found.loss, found.grad_norm) == (2.0, 1.5)

"""A record of any tracker's files becomes a row with every metric that the rules read."""

from __future__ import annotations

from cockpit.model.observed import Row
from cockpit.model.run import MetricNames
from cockpit.sources.rowlog.records import Record
from cockpit.sources.rowlog.rows import row_of
from cockpit.sources.wandb.metrics import choose


def test_what_is_logged_beside_the_loss_comes_with_its_row() -> None:
    values = {
        "global_step": 7.0, "train/loss": 2.5, "train/grad_norm": 1.2, "train/z_loss": 1e-4,
        "moe/load_balancing_loss": 1.03, "moe/router_entropy": 2.1, "train/skipped_steps": 1.0,
        "eval/loss": 2.7,
    }  # fmt: skip
    keys = choose([frozenset(values)], MetricNames())
    row = row_of(Record(3, 1.7e9 + 5, values), keys, offset=5.0)
    assert row == Row(7, 1.7e9, 2.5, None, 1.2, False, 1e-4, 1.03, 2.1, 1.0)


def test_a_metric_that_a_record_lacks_is_absent() -> None:
    keys = choose([frozenset(("step", "loss", "z_loss"))], MetricNames())
    assert row_of(Record(3, None, {"step": 3.0}), keys, 0.0) == Row(3, None)

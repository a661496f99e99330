"""Figures of a log: which are steps that were taken, and which a sign spells out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest

from cockpit.rules.triage import log, log_text, phrases
from cockpit.rules.triage import patterns as named_patterns
from cockpit.rules.triage.classify import diagnose
from cockpit.rules.triage.log_text import losses_of, norms_lost
from cockpit.rules.triage.signs import SIGNS
from cockpit.text.progress_lines import log_of_lines
from tests.rules.asking import triage

STEPS = [f"step {n} loss 2.{n}" for n in range(1, 9)]
SETTINGS = [
    "  Gradient Accumulation steps = 4",
    "  Total optimization steps = 12,000",
    "  warmup steps: 500",
    "python train.py --max-steps 9000 --eval-step 50",
]
SLURM = "slurmstepd: error: *** STEP 48211234.extern ON n1 CANCELLED DUE TO TIME LIMIT ***"
EPOCHS = [f"{{'loss': 2.{n}, 'epoch': 0.{n}}}" for n in range(10, 30)]


@pytest.mark.parametrize("line", [*SETTINGS, SLURM, "Saving checkpoint at step 9"])
def test_a_step_that_was_not_trained_is_not_the_last_one(line: str) -> None:
    assert triage([*STEPS, line], "TIMEOUT", None).step == 8


def test_a_launcher_that_prints_its_settings_again_has_overcome_nothing() -> None:
    full = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"
    found = triage([*STEPS, full, *SETTINGS], "running", None)
    assert (found.name, found.action) == ("oom_device", "escalate")


def test_steps_that_were_planned_do_not_make_a_short_run_whole() -> None:
    planned = diagnose(log_of_lines((*SETTINGS, *EPOCHS)), "succeeded", 0, short=True, final=12_000)
    assert (planned.name, planned.action) == ("unknown", "escalate")
    done = (*SETTINGS, *EPOCHS, "training finished at step 12000")
    assert diagnose(log_of_lines(done), "succeeded", 0, short=True, final=12_000).name == "success"


def spelled(nodes: Any) -> Iterator[str]:
    """Yield the figures that stand in an expression as they are."""
    run = ""
    for kind, value in [*nodes, (None, None)]:
        if kind is op.LITERAL and chr(value).isdigit():
            run += chr(value)
            continue
        yield from [run] if run else []
        run = ""
        inner = value if isinstance(value, tuple) else ()
        for each in (*inner, *(inner[1] if kind is op.BRANCH else ())):
            if isinstance(each, parser.SubPattern):
                yield from spelled(each)


def test_lines_that_differ_in_a_figure_that_a_sign_spells_out_are_not_alike() -> None:
    patterns = [sign.pattern for sign in SIGNS]
    for module in (named_patterns, phrases):
        patterns += [each for each in vars(module).values() if isinstance(each, re.Pattern)]
    names = {"4", "5"}  # the first of 4\d\d, and mlx5: a driver
    for pattern in patterns:
        for figure in {*spelled(parser.parse(pattern.pattern, pattern.flags))} - names:
            assert log._NUMBER.sub(log._figure, figure) == figure, pattern.pattern
    assert triage(["[Errno 5] gone", "[Errno 12] gone"], "failed", 1).name == "oom_host"


def test_a_process_that_was_killed_long_before_the_end_did_not_end_the_job() -> None:
    early = ["[helper] exited with code 137", *(f"step {n} loss 2" for n in range(1, 40)), "bye"]
    assert triage(early, "failed", 1).action == "escalate"
    assert triage([*early, "worker exited with code 137"], "failed", 1).name == "killed"


def test_a_loss_is_read_whatever_its_letters() -> None:
    """``re.I`` takes a long s for an s, and so does the look for the word."""
    lines = ["step 8 loss: 2.1", "\u017ftep 9 lo\u017f\u017f: nan"]
    assert losses_of(lines)[-1][0] == 1
    assert norms_lost(["step 1 grad NORM: nan"] * 3) == [0, 1, 2]
    assert triage(lines, "succeeded", 0).name == "numeric_instability"


def test_of_lines_whose_figures_differ_few_and_short_ones_are_remembered() -> None:
    before = log_text._losses_at.cache_info().currsize
    losses_of([f"step {'x' * 2000}{chr(97 + at)} loss: 2.0" for at in range(9)])
    assert log_text._losses_at.cache_info().currsize == before

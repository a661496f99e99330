from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.checks.setup import ready
from cockpit.model.clock import SystemClock
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.command import (
    fill,
    flags_of,
    masked,
    places_in,
    shown,
    values_of,
    words_of,
)
from cockpit.platforms.table import Platforms
from tests.actions.contexts import by_id, hard

RUN = RunSpec(name="toy", output_root="/o", wandb=WandbSpec(id="w1"), hardware="v5p-512")
HOSTILE = "; rm -rf / #\n\x1b[31m"


def test_a_string_is_shell_words_and_a_list_stays_as_it_is() -> None:
    assert words_of("python train.py --name 'a b'") == ("python", "train.py", "--name", "a b")
    assert words_of(("python", "a b; c")) == ("python", "a b; c")


@pytest.mark.parametrize("command", ["", "  ", "python 'x", (), ("", "x"), ("a\0b",)])
def test_what_is_no_command_is_said(command: str | tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        words_of(command)


def test_placeholders_are_filled_and_variables_stay() -> None:
    words = words_of("train --id {wandb_id} --root={output_root} $HOME ${KEY} {launch_id}")
    values = values_of(RUN, "toy-i003", None, None)
    assert fill(words, values) == (
        "train", "--id", "w1", "--root=/o", "$HOME", "${KEY}", "toy-i003",
    )  # fmt: skip


def test_a_filled_value_stays_one_word_and_is_not_read_again() -> None:
    values = {**values_of(RUN, "i", None, None), "checkpoint": "/c/{run} $(x)" + HOSTILE}
    assert fill(("load={checkpoint}",), values) == ("load=/c/{run} $(x)" + HOSTILE,)


def test_an_unknown_or_unset_placeholder_is_refused() -> None:
    with pytest.raises(CommandError, match=r"\{step_id\}, which is none of"):
        fill(("x{step_id}",), {})
    with pytest.raises(CommandError, match=r"\{checkpoint\}, which is not known"):
        fill(("{checkpoint}",), values_of(RUN, "i", None, None))


def test_braces_that_are_no_placeholder_stay() -> None:
    words = ('{"a": 1}', "{}", "${run}", "{1}", "a{b")
    assert fill(words, {}) == words
    assert places_in(words) == frozenset()


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1)))
def test_what_is_shown_can_be_read_back(words: list[str]) -> None:
    line = shown(["train", *words])
    if "*" not in line and "…" not in line:
        assert shlex.split(line) == [" ".join(word.split(" ")) for word in ["train", *words]]


def test_secrets_are_masked_in_both_forms() -> None:
    words = ("train", "--api-key", "hf_abcdefghijklmnopqrstuvwxyz0123456789", "--lr", "3")
    assert "hf_abc" not in shown(words)
    assert "hf_abc" not in " ".join(masked(words))
    assert masked(words)[-2:] == ("--lr", "3")
    three = ("iris", "job", "run", "-e", "WANDB_API_KEY", "toy-not-a-key", "-e", "STEPS", "400")
    assert masked(three) == (*three[:5], "****", *three[6:])


def test_flags_go_by_name_and_words_by_place() -> None:
    flags = flags_of(["python", "-m", "t", "--lr=1", "--n", "-3", "a.b=2", "x", "--go"])
    assert flags == {
        "word 0": "python", "-m": "t", "--lr": "1", "--n": "-3", "a.b": "2", "word 1": "x",
        "--go": "",
    }  # fmt: skip


def test_no_command_is_a_hard_block() -> None:
    checks, words = ready(None, RUN, None, {})
    assert hard(by_id(checks, "resubmit")) and words == ()
    checks, words = ready(None, RUN, "train {nothing}", {})
    assert hard(by_id(checks, "resubmit")) and words == ()


def run_of(kind: str, name: str = "toy") -> RunSpec:
    return RunSpec(name=name, job=JobSpec.model_validate({"kind": kind}))


def ready_on(kind: str, command: str, launch_id: str) -> tuple[list[Check], tuple[str, ...]]:
    run = run_of(kind)
    platform = Platforms(SystemClock()).of(run)
    return ready(platform, run, command, values_of(run, launch_id, None, None))


def test_the_launch_id_is_filled_in_as_its_platform_spells_it() -> None:
    for kind in ("box", "iris", "ray"):
        assert "llama-3.1-i001" in ready_on(kind, "go {launch_id}", "llama-3.1-i001")[1]


def test_slurm_is_told_the_launch_id_itself() -> None:
    """It is submitted held: nothing runs before its comment was read back."""
    words = ready_on("slurm", "sbatch -J {launch_id} job.sh", "a.b-i001")[1]
    held = ("sbatch", "-H", "--parsable", "--comment=a.b-i001")
    assert words == (*held, "-J", "a.b-i001", "job.sh")


@pytest.mark.parametrize(
    ("kind", "launch_id"),
    [
        ("ray", "team/toy-i001"),
        ("local", "../toy-i001"),
        ("local", "a b"),
        ("box", "llama-3.1:x-i001"),
    ],
)
def test_a_launch_id_that_cannot_be_spelled_is_a_hard_block(kind: str, launch_id: str) -> None:
    checks, words = ready_on(kind, "train {run}", launch_id)
    assert hard(by_id(checks, "launch-id")) and words == ()
    assert launch_id in by_id(checks, "launch-id").text

from __future__ import annotations

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.command import words_of
from cockpit.platforms.iris.spelling import command_checks
from cockpit.platforms.table import Platforms
from tests.actions.contexts import by_id, levels

IRIS = RunSpec(name="toy", job=JobSpec(kind="iris"), hardware="v5p-512")
GOOD = "uv run iris job run --no-wait --job-name {launch_id} --tpu v5p-512 -- python x.py"


@pytest.mark.parametrize(
    ("command", "block"),
    [
        (GOOD, None),
        (GOOD.replace(" --no-wait", ""), "iris:no-wait"),
        (GOOD.replace("--tpu v5p-512", "--reserve v5p-512"), "iris:tpu"),
        (GOOD.replace("--tpu", "--extra marin-core:cpu --tpu"), "iris:extra"),
        (GOOD.replace("--tpu", "--extra=marin-core:cpu --tpu"), "iris:extra"),
        (GOOD + " --no-wait --extra marin-core:cpu", None),
    ],
)
def test_the_rules_of_iris(command: str, block: str | None) -> None:
    checks = command_checks(IRIS, words_of(command))
    blocks = [name for name, level in levels(checks).items() if level == "block"]
    assert blocks == ([] if block is None else [block])


def test_a_fixed_job_name_is_said() -> None:
    fixed = command_checks(IRIS, words_of(GOOD.replace("{launch_id}", "grug")))
    assert "fixed" in by_id(fixed, "iris:job-name").text
    unnamed = command_checks(IRIS, words_of(GOOD.replace("--job-name {launch_id} ", "")))
    assert levels(unnamed)["iris:job-name"] == "pass"  # it is added
    assert levels(command_checks(IRIS, words_of(GOOD)))["iris:job-name"] == "pass"


def test_a_script_of_ones_own_must_hold_the_launch_id() -> None:
    silent = command_checks(IRIS, words_of("./submit.sh --big"))
    assert levels(silent) == {"iris:job-name": "block"}
    assert levels(command_checks(IRIS, words_of("./submit.sh {launch_id}"))) == {
        "iris:job-name": "warn"
    }


def test_the_words_are_read_behind_whatever_runs_iris() -> None:
    words = words_of(GOOD.replace("uv run iris", "uv run -- iris"))
    assert not [name for name, level in levels(command_checks(IRIS, words)).items()
                if level == "block"]  # fmt: skip


def test_another_user_than_the_recorded_job_has_is_refused() -> None:
    run = IRIS.model_copy(update={"job": JobSpec(kind="iris", id="/ada/toy")})
    theirs = command_checks(run, words_of(GOOD.replace("--no-wait", "--no-wait --user bob")))
    assert levels(theirs)["iris:user"] == "block"
    own = command_checks(run, words_of(GOOD.replace("--no-wait", "--no-wait --user ada")))
    assert "iris:user" not in levels(own)


def test_the_platform_says_them() -> None:
    platform = Platforms(SystemClock()).of(IRIS)
    assert platform is not None
    words = words_of("iris job run -- python x.py")
    assert platform.command_checks(IRIS, words) == command_checks(IRIS, words) != []

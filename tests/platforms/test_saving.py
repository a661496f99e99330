"""``job.save_command``: its words are filled in alike for every kind of job."""

from __future__ import annotations

import pytest

from cockpit.hosts.here import HERE_LINK
from cockpit.model.jobs import LiveJob
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.command import save_by_command, save_words

JOB = LiveJob(id="job-7", name="train", why="its id", launch_id="toy-i001", handle={"pid": "41"})
RUN = RunSpec(name="toy")


def test_what_is_known_is_filled_in_and_variables_stay() -> None:
    words = save_words(RUN, "ask ${HOST} {run} {launch_id} {job_id} {pid}", JOB)
    assert words == ["ask", "${HOST}", "toy", "toy-i001", "job-7", "41"]
    assert save_words(RUN, ("ask", "{job_id}"), JOB, "7_3") == ["ask", "7_3"]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("ask {wandb_id}", "names {wandb_id}, which is not known for this run"),
        ("ask {step}", "names {step}, which is none of {run} {launch_id}"),
        ("ask 'x", "job.save_command is not a list of shell words"),
        ("", "job.save_command is empty"),
        (("ask", "\0"), "job.save_command holds a NUL character"),
    ],
)
def test_what_cannot_be_run_is_said_by_the_name_of_the_setting(
    command: str | tuple[str, ...], why: str
) -> None:
    with pytest.raises(CannotError) as error:
        save_words(RUN, command, JOB)
    assert why in str(error.value) and "resubmit" not in str(error.value)


async def test_here_a_refusal_is_told_in_the_command_s_own_words() -> None:
    command = ("sh", "-c", "echo not yet >&2; exit 3")
    run = RunSpec(name="toy", job=JobSpec(kind="local", save_command=command))
    with pytest.raises(CannotError, match=r"job\.save_command ended with 3: not yet"):
        await save_by_command(HERE_LINK, run, JOB)
    unset = JobSpec(kind="local", save_command=("ask", "$NOBODY_HAS_SET_THIS"))
    with pytest.raises(CannotError, match=r"uses .NOBODY_HAS_SET_THIS, which is not set"):
        await save_by_command(HERE_LINK, RunSpec(name="toy", job=unset), JOB)

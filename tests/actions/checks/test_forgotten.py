"""A job that its system has forgotten: unknown for good, so a person says that it is over."""

from __future__ import annotations

from typing import ClassVar

import pytest

from cockpit.actions.checks import jobs
from cockpit.model.facet import ErrorKind, unknown
from cockpit.model.jobs import Live
from cockpit.model.plan import Level
from cockpit.model.run import JobSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.ray.platform import RayPlatform
from cockpit.platforms.slurm.platform import SlurmPlatform
from tests.actions.contexts import context, hard, living, soft
from tests.platforms.stand_in import StandIn
from tests.rules.making import T0, blind, run_spec


class Forgets(StandIn):
    forgets: ClassVar[bool] = RayPlatform.forgets


class SlurmForgets(StandIn):
    forgets: ClassVar[bool] = SlurmPlatform.forgets


GONE = unknown(ErrorKind.NOT_FOUND, "the head does not list job toy-i001", "ray", T0)


@pytest.mark.parametrize("platform", [Forgets(), SlurmForgets()])
def test_a_person_says_that_it_is_over_where_the_list_is_here_and_names_nothing(
    platform: Platform,
) -> None:
    (check,) = jobs.relaunch_state(context(job=GONE, platform=platform))
    assert soft(check) and check.id == "forgotten" and "does not list job toy-i001" in check.text
    assert "approve if you know that it is over" in check.text
    assert check.text.startswith("no such job is listed there: "), "one may never have been"


@pytest.mark.parametrize(
    ("facet", "live", "platform"),
    [
        (GONE, Live(), StandIn()),
        (blind(), Live(), Forgets()),
        (GONE, Live(unknown="no answer"), Forgets()),
        (GONE, Live(jobs=(living(),)), Forgets()),
        (GONE, Live(possible=(living(),)), Forgets()),
    ],
)
def test_nobody_says_so_in_any_other_case(facet: object, live: Live, platform: Platform) -> None:
    (check,) = jobs.relaunch_state(context(job=facet, live=live, platform=platform))
    assert hard(check) and check.id == "job-state"


def test_a_run_whose_job_is_forgotten_is_no_run_without_a_job() -> None:
    (check,) = jobs.launch_state(context(job=GONE))
    assert check.text == "the run has no job yet", "none is named"
    named = run_spec(job=JobSpec(kind="local", id="toy-i001"))
    (check,) = jobs.launch_state(context(named, job=GONE))
    assert check.level is Level.WARN and "does not list job toy-i001" in check.text

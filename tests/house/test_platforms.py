"""Every kind of job has its platform, and every key of ``[run.job]`` a kind that knows it."""

from __future__ import annotations

from typing import get_args

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.table import PLATFORMS, Platforms
from cockpit.platforms.unsupported import Unsupported

KINDS: tuple[str, ...] = get_args(JobSpec.model_fields["kind"].annotation)


def run_of(kind: str) -> RunSpec:
    return RunSpec(name="toy", job=JobSpec.model_validate({"kind": kind, "id": "1"}))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_kind_of_the_run_file_has_its_platform(kind: str) -> None:
    platforms, query = Platforms(SystemClock()), Query(run=run_of(kind))
    platform = platforms.of(query.run)
    assert platform is not None and platform.kind == kind
    for ask in (platforms.jobs, platforms.logs, platforms.hosts):
        facet = (await ask([query]))["toy"]
        error = facet.error
        assert error is None or error.message != "[run.job] is not in cockpit.toml"
    if type(platform).jobs is Unsupported.jobs:
        (job,) = (await platforms.jobs([query])).values()
        assert job.error is not None and job.error.kind is ErrorKind.UNSUPPORTED
    if not platform.acts:  # and this run names no system that could be asked
        live = (await platform.live([query.run]))["toy"]
        assert live.unknown, "what is not read is never taken for an empty answer"


async def test_a_run_without_a_job_has_none() -> None:
    platforms, query = Platforms(SystemClock()), Query(run=RunSpec(name="toy"))
    assert platforms.of(query.run) is None
    facet = (await platforms.jobs([query]))["toy"]
    assert facet.error is not None and facet.error.kind is ErrorKind.NOT_CONFIGURED


def test_the_run_file_takes_the_five_kinds() -> None:
    assert sorted(KINDS) == ["box", "iris", "local", "ray", "slurm"]


def test_each_kind_stands_once_in_the_table() -> None:
    assert sorted(PLATFORMS) == sorted(KINDS)


@pytest.mark.parametrize("key", [key for key in JobSpec.model_fields if key != "kind"])
def test_a_key_of_a_job_belongs_to_some_kind(key: str) -> None:
    platforms = Platforms(SystemClock())
    made = [platforms.of(run_of(kind)) for kind in KINDS]
    assert any(platform is not None and key in platform.fields for platform in made)


@pytest.mark.parametrize("kind", KINDS)
def test_a_platform_names_keys_that_exist(kind: str) -> None:
    platform = Platforms(SystemClock()).of(run_of(kind))
    assert platform is not None
    assert {*platform.fields, *platform.private} <= set(JobSpec.model_fields)

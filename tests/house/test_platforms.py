"""Every kind of job has its platform, and every key of ``[run.job]`` a kind that knows it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest
from textual.content import Content

from cockpit.init.sources import EXPECTED, kind_of_id
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.jobs import Query
from cockpit.model.run import CockpitFile, JobSpec, RunSpec
from cockpit.platforms.base import Platform
from cockpit.platforms.kinds import EACH, PLATFORMS, PRIVATE
from cockpit.platforms.table import Platforms, platform_of
from screens.mask import Mask
from tests.platforms.conformance.conftest import SEATS

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
    if type(platform).jobs is Platform.jobs:
        (job,) = (await platforms.jobs([query])).values()
        assert job.error is not None and job.error.kind is ErrorKind.UNSUPPORTED
    if not platform.acts:  # and this run names no system that could be asked
        live = (await platform.live([query.run]))["toy"]
        assert live.unknown, "what is not read is never taken for an empty answer"


@pytest.mark.parametrize("kind", [each for each in KINDS if platform_of(each).acts])
def test_a_kind_that_acts_stands_in_the_conformance_suite(kind: str) -> None:
    """What acts is proven to start one job at most: tests/platforms/conformance."""
    assert kind in {seat.kind for seat in SEATS.values()}


async def test_a_run_without_a_job_has_none() -> None:
    platforms, query = Platforms(SystemClock()), Query(run=RunSpec(name="toy"))
    assert platforms.of(query.run) is None
    facet = (await platforms.jobs([query]))["toy"]
    assert facet.error is not None and facet.error.kind is ErrorKind.NOT_CONFIGURED


def test_each_kind_stands_once_in_the_table() -> None:
    assert sorted(PLATFORMS) == sorted(KINDS)


KEYS = [key for key in JobSpec.model_fields if key != "kind"]


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_a_job_is_read_by_some_kind_and_masked_for_all_or_none(key: str) -> None:
    rows = PLATFORMS.values()
    assert any(key in row.fields for row in rows)
    assert not (key in PRIVATE and any(key in (*EACH, *row.public) for row in rows))


@pytest.mark.parametrize("kind", PLATFORMS)
def test_the_row_of_a_kind_says_every_part(kind: str) -> None:
    row = PLATFORMS[kind]
    assert row.fields <= set(KEYS), "the keys that it reads"
    assert {row.named_by, *(key for key, _ in row.needed)} <= row.fields and row.needed
    assert (row.address is None) == (row.starts == "here")
    assert row.address is None or row.address in row.private, "--present masks its host"
    word, at = row.spelled
    assert word and bool(at) == (row.address is not None)
    assert f"{kind}:{word}{at}" in EXPECTED
    job = JobSpec.model_validate({"kind": kind, **dict.fromkeys(row.private, "secret-host")})
    mask = Mask.of(CockpitFile(path="x.toml", runs=(RunSpec(name="toy", job=job),)), ())
    masked = mask(Content("at secret-host now")).plain
    assert ("secret-host" in masked) == (not row.private)


def test_the_shape_of_an_id_is_that_of_one_kind() -> None:
    shapes = {kind: row.id_shape for kind, row in PLATFORMS.items() if row.id_shape is not None}
    assert {"iris", "ray", "slurm"} <= set(shapes)
    for kind, (_, job_id) in shapes.items():
        fits = [each for each, (shape, _) in shapes.items() if re.fullmatch(shape, job_id)]
        assert fits == [kind] and kind_of_id(job_id) == kind


def test_nobody_asks_which_kind_a_job_is() -> None:
    """What differs by kind is a part of its row, or a method of its platform."""
    asks = re.compile(
        rf"""(?:job|named)\.kind\s*(?:==|!=|in\b)|kind\s*[!=]=\s*"(?:{"|".join(KINDS)})\""""
    )
    root = Path(__file__).parents[2]
    files = [
        path for part in ("cockpit", "screens", "widgets") for path in (root / part).rglob("*.py")
    ]
    others = [path for path in files if "platforms" not in path.parts]
    assert [str(path) for path in others if asks.search(path.read_text())] == []

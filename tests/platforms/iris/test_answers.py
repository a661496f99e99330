"""What a job was submitted with: the accelerators that it holds over all its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from cockpit.platforms.iris.answers import request_of

REQUESTS: list[tuple[dict[str, Any], int | None]] = [
    ({"resources": {"device": {"tpu": {"variant": "v5p", "count": 4}}}, "replicas": 16}, 64),
    ({"resources": {"device": {"gpu": {"count": 8}}}, "replicas": 1}, 8),
    ({"resources": {"device": {}}, "replicas": 16}, None),
    ({"resources": {"device": {"tpu": {"count": "4"}}}, "replicas": 1}, None),
    ({"resources": {"device": {"tpu": {"count": 4}}}}, None),
    ({}, None),
]


@pytest.mark.parametrize(("request_", "count"), REQUESTS)
def test_accelerators_are_those_of_each_task_times_the_tasks(
    request_: dict[str, Any], count: int | None
) -> None:
    assert request_of({"request": request_}).accelerators == count

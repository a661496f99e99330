"""Queries for tests of sources: runs of whose jobs nothing is known."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.jobs import Query
from cockpit.model.run import RunSpec


def queries_of(runs: Sequence[RunSpec]) -> list[Query]:
    return [Query(run=run) for run in runs]

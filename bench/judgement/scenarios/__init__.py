"""Generated runs with a known fault, and runs that only look as if they had one."""

from __future__ import annotations

from bench.judgement.scenario import ALL as ALL
from bench.judgement.scenarios import alike, artifacts, jobs, metrics

ROOMS = (jobs, metrics, artifacts, alike)
"""The files whose scenarios are in ``ALL``."""

"""What ``--present`` masks of every kind of job, known without loading any platform."""

from __future__ import annotations

from typing import Final

from cockpit.platforms import box, iris, local, ray, slurm

PRIVATE: Final = frozenset(name for kind in (iris, ray, slurm, box, local) for name in kind.PRIVATE)
"""The keys of ``[run.job]`` that are masked."""

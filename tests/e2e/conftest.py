"""What the tests of whole cockpits share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.lab import Lab
from tests.e2e.slurm_lab import SlurmLab, slurm_of_ones_own


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def slurm_lab(tmp_path: Path) -> Iterator[SlurmLab]:
    """A lab on a Slurm that nobody else uses."""
    with slurm_of_ones_own() as rig:
        made = SlurmLab(tmp_path, rig)
        try:
            yield made
        finally:
            made.end()

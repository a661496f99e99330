"""Slurm, as far as this version knows it: its settings, and what sbatch must be told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import ClassVar

from cockpit.model.run import RunSpec
from cockpit.platforms.base import CommandError
from cockpit.platforms.slurm import PRIVATE
from cockpit.platforms.unsupported import Unsupported


class SlurmPlatform(Unsupported):
    """Jobs of a Slurm cluster (SPEC S-3); not read or acted on yet."""

    kind: ClassVar[str] = "slurm"
    fields: ClassVar[frozenset[str]] = frozenset({"id", "host", "log", "workdir", "save_signal"})
    private: ClassVar[tuple[str, ...]] = PRIVATE

    def formed(self, words: Sequence[str], run: RunSpec, launch_id: str) -> tuple[str, ...]:
        """Return the words with the launch id as sbatch's comment (INTERFACE "resubmit")."""
        at = next((i for i, word in enumerate(words) if PurePosixPath(word).name == "sbatch"), None)
        if at is None:
            raise CommandError("a slurm run is submitted by sbatch, which resubmit does not name")
        return (*words[: at + 1], "--parsable", f"--comment={launch_id}", *words[at + 1 :])

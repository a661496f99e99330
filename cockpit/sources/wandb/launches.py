"""The file that one launch of a run has written, wherever it lies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath

from cockpit.sources.logs.local import stat_of
from cockpit.sources.logs.ranged import Stat
from cockpit.sources.wandb.file import WandbFile, WandbLog


class LaunchFile(ABC):
    """A ``.wandb`` file by its path. Every method raises ``OSError``."""

    path: str
    skew: float = 0.0
    """The clock of the machine that has it minus ours (s), as far as it is known."""
    far: bool = False
    """True where bytes must have been brought before they can be read."""
    written: bool = False
    """Of a file elsewhere: whether a process there has it open for writing, as far as seen."""

    @abstractmethod
    def stat(self) -> Stat:
        """Return what it is now; of a file elsewhere, at the last look."""

    @abstractmethod
    def open(self) -> WandbLog:
        """Open it for reading."""

    @property
    def name(self) -> str:
        """The directory's name, which tells when the launch was."""
        return PurePosixPath(self.path).parent.name


class LocalFile(LaunchFile):
    """A file of this machine."""

    def __init__(self, path: str) -> None:
        self.path = path

    def stat(self) -> Stat:
        """Return what the kernel says of it."""
        return stat_of(Path(self.path).stat())

    def open(self) -> WandbLog:
        """Open it anew."""
        return WandbFile(self.path)

"""The value of the host facet: disks, memory, load and accelerators (SPEC S-14)."""

from pydantic import Field

from cockpit.model.base import Frozen
from cockpit.model.facet import Problem


class Disk(Frozen):
    """A mounted disk; ``free`` in bytes, fractions from 0 to 1."""

    mount: str
    free: int
    used_frac: float
    inodes_frac: float | None = None
    holds: tuple[str, ...] = Field(default=(), exclude=True)
    """The run's places that lie on it, as the run file spells them."""
    shared: str | None = Field(default=None, exclude=True)
    """What a network file system is mounted from (``nas:/export``): the same on every machine."""


class Gpu(Frozen):
    """One accelerator."""

    index: int
    name: str
    util_frac: float | None = None
    mem_frac: float | None = None


class HostValue(Frozen):
    """The health of the box that the job runs on."""

    disks: tuple[Disk, ...] = ()
    mem_frac: float | None = None
    oom_kills: int | None = None
    load: float | None = None
    out_of_service: str | None = None
    """Why its scheduler starts nothing on it any more, by its own word; one line."""
    gpus: tuple[Gpu, ...] = ()
    gpus_error: Problem | None = None
    """Why the list of accelerators is not whole, in the words of the program that lists them."""
    gpus_lost: int | None = Field(default=None, exclude=True)
    """How many more that program says do not answer; ``None`` where it has counted nothing."""

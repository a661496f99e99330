"""The disks of an ssh host that runs write to, each asked for by itself: one may hang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cockpit.hosts.link import Answers, Ask, ask
from cockpit.model.facet import Problem
from cockpit.model.observed import Disk
from cockpit.model.place import Place
from cockpit.runtime.mounts import shared_source
from cockpit.text.safe import clean


def disk_asks(places: Iterable[Place]) -> dict[Place, Ask]:
    """Return what asks for the disk that holds each place or its nearest parent."""
    return {each: ask(f"the disk of {each.path}", "disk", path=each.path) for each in places}


def disks_of(asked: Mapping[Place, Ask], answers: Answers) -> dict[Place, Disk | Problem]:
    """Return the disk of each place, or why it is not known."""
    found = {place: answers[each] for place, each in asked.items()}
    return {
        place: said if isinstance(said, Problem) else disk_of(said) for place, said in found.items()
    }


def shared_by(disks: Mapping[Place, Disk | Problem]) -> dict[Place, str | None]:
    """Return from where the disk of each place is mounted, if from a network; else ``None``.

    A place whose disk is not known is left out.
    """
    return {place: disk.shared for place, disk in disks.items() if isinstance(disk, Disk)}


def disk_of(said: Mapping[str, Any]) -> Disk:
    """Return a disk from the agent's figures."""
    usable = said["used"] + said["free"]
    shared = shared_source(said["source"])
    inodes = said["inodes"]
    return Disk(
        mount=clean(said["mount"]),
        shared=None if shared is None else clean(shared),
        free=said["free"],
        used_frac=said["used"] / usable if usable else 1.0,
        inodes_frac=1 - said["inodes_free"] / inodes if inodes else None,
    )

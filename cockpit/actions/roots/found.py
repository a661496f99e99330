"""Which way acts on which root of a run: this machine, ssh hosts, buckets."""

from __future__ import annotations

from cockpit.actions.core.context import ActionContext
from cockpit.actions.roots.here import HereWays
from cockpit.actions.roots.host import HostWays
from cockpit.actions.roots.store import StoreWays
from cockpit.actions.roots.ways import RootError, Ways
from cockpit.model.place import SSH, Place, place_of
from cockpit.runtime.buckets import BUCKETS


class RunRoots:
    """The checkpoint roots of one run, and what acts on each."""

    def __init__(self, context: ActionContext) -> None:
        spec = context.spec.checkpoints
        self.roots: tuple[Place, ...] = spec.path if spec is not None else ()
        self._clock = context.parts.clock
        self._ways: dict[str, Ways] = {}

    def of(self, address: str | Place) -> Ways:
        """Return what acts on a path; raises ``RootError`` for a scheme that nothing acts on."""
        place = place_of(address) if isinstance(address, str) else address
        if place.endpoint not in self._ways:
            self._ways[place.endpoint] = self._made(place)
        return self._ways[place.endpoint]

    @property
    def unknown(self) -> Place | None:
        """A root that nothing acts on, if there is one."""
        known = (root.here or root.scheme in (SSH, *BUCKETS) for root in self.roots)
        return next((r for r, ok in zip(self.roots, known, strict=True) if not ok), None)

    def root_of(self, address: str) -> Place | None:
        """Return the root that a path lies in, as the run file names it."""
        place = place_of(address)
        return next((root for root in self.roots if root.contains(place)), None)

    def _made(self, place: Place) -> Ways:
        if place.here:
            return HereWays(self.roots)
        if place.scheme == SSH:
            return HostWays(place.host, self.roots)
        if place.scheme in BUCKETS:
            return StoreWays(place.scheme, place.host, self._clock)
        raise RootError(f"{place} is on a system that this version only names")

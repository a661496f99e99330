"""Ray Jobs, as far as this version knows them: their settings and how they spell a launch id."""

from __future__ import annotations

from typing import ClassVar

from cockpit.platforms.base import CannotError
from cockpit.platforms.ray import PRIVATE
from cockpit.platforms.unsupported import Unsupported


class RayPlatform(Unsupported):
    """Jobs of one or many Ray dashboards (SPEC S-2); not read or acted on yet."""

    kind: ClassVar[str] = "ray"
    fields: ClassVar[frozenset[str]] = frozenset(
        {"id", "address", "token_env", "auth", "token_command", "resubmit_runs"}
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE

    def name_for(self, launch_id: str) -> str:
        """Return the submission id; one with a slash makes a job that nobody can ask for."""
        if "/" in launch_id:
            raise CannotError(f"Ray takes no submission id with a slash: {launch_id}")
        return launch_id

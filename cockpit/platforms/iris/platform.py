"""Iris, as far as this version knows it: its settings, and what its commands must say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from cockpit.model.plan import Check
from cockpit.model.run import RunSpec
from cockpit.platforms.iris import PRIVATE
from cockpit.platforms.iris.command import command_checks
from cockpit.platforms.unsupported import Unsupported


class IrisPlatform(Unsupported):
    """Jobs of an Iris controller (SPEC S-1); not read or acted on yet."""

    kind: ClassVar[str] = "iris"
    fields: ClassVar[frozenset[str]] = frozenset(
        {
            *("id", "controller_url", "cluster", "auth", "token_command", "workdir"),
            *("production", "diagnostic", "bad_node_recipe"),
        }
    )
    private: ClassVar[tuple[str, ...]] = PRIVATE

    def command_checks(self, run: RunSpec, words: Sequence[str]) -> list[Check]:
        """Return what speaks for and against an Iris command (SPEC A-2)."""
        return command_checks(run, words)

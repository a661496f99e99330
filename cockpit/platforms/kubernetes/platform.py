"""Jobs of kind ``kubernetes``: objects of a cluster's namespace, over its API (SPEC S-17)."""

from __future__ import annotations

from typing import ClassVar

from cockpit.platforms.base import Platform


class KubernetesPlatform(Platform):
    """Jobs of one or many clusters."""

    kind: ClassVar[str] = "kubernetes"

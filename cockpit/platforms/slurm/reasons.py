"""What Slurm's reasons say of a waiting job."""

from __future__ import annotations

import re
from typing import Final

_NEVER: Final = re.compile(
    r"DependencyNeverSatisfied|JobHeld|PartitionNodeLimit|BadConstraints", re.I
)


def never_starts(reason: str | None) -> bool:
    """Tell whether a job that waits for this reason never starts, however long (SPEC J, C-04)."""
    return _NEVER.search(reason or "") is not None

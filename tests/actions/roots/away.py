"""A run that is over, whose checkpoints lie in a bucket or on a host; real actions on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cockpit.actions.core.action import Action
from cockpit.model.run import CheckpointSpec
from tests.actions.resting import Rest
from tests.sources.checkpoints.store_server import ObjectStore
from tests.sources.checkpoints.trees import metadata

BUCKET = "bucket"
RUN_ROOT = "runs/toy/checkpoints"


class BucketRest(Rest):
    """Its checkpoints are keys of ``store``; ``fill`` puts one there."""

    def __init__(
        self,
        folder: Path,
        action: Action,
        store: ObjectStore,
        *,
        scheme: str = "s3",
        keep: int = 1,
        **more: Any,
    ) -> None:
        super().__init__(folder, action, final_step=None, **more)
        self.bucket = store
        self.address = f"{scheme}://{BUCKET}/{RUN_ROOT}"
        spec = CheckpointSpec(path=(self.address,), keep=keep, rollback_depth=1, save_every=900.0)
        self.spec = self.spec.model_copy(update={"checkpoints": spec})

    def fill(self, *steps: int, marker: bool = True, at: float | None = None) -> None:
        """Put checkpoints of Levanter's shape there, an hour old each."""
        for step in steps:
            fill(self.bucket.put, step, marker=marker, at=at)

    @property
    def keys(self) -> set[str]:
        """Return what lies below the root."""
        held = self.bucket.buckets.get(BUCKET, {})
        return {key.removeprefix(f"{RUN_ROOT}/") for key in held if key.startswith(RUN_ROOT)}


def fill(
    put: Callable[..., None], step: int, *, marker: bool = True, at: float | None = None
) -> None:
    """Put one checkpoint by a function that takes bucket, key, bytes and time."""
    when = time.time() - 3600 + step if at is None else at
    base = f"{RUN_ROOT}/step-{step}"
    put(BUCKET, f"{base}/d/0c0ffee0", b"a" * 1000, when - 2)
    put(BUCKET, f"{base}/manifest.ocdbt", b"m" * 200, when - 1)
    if marker:
        put(BUCKET, f"{base}/metadata.json", metadata(step, when).encode(), when)

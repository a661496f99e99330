"""What places a controller's tasks: a closing job (``fence``) is proven for some of it only.

Iris' own workers heed every constraint, so a task that wants what no worker has is never placed.
Kubernetes is told only the constraints that it knows, and a controller with peers hands jobs on
whole. A controller of June 2026 has no peers, and tells its Kubernetes cluster, if it has one.
"""

from __future__ import annotations

from typing import Final

from cockpit.model.facet import ErrorKind
from cockpit.platforms.iris.rpc import Controller, MissingMethodError
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean

WORKERS: Final = "worker-daemon"
"""How a controller calls workers of its own."""
KUBERNETES: Final = "kubernetes"
_SAID_NO: Final = (ErrorKind.FORBIDDEN, ErrorKind.BAD_ANSWER, ErrorKind.NOT_FOUND)


async def why_open(controller: Controller) -> str | None:
    """Return why no name may be closed there by a job that never runs; ``None`` if one may.

    Raises ``HttpError`` where the controller gave no answer: another look may have one.
    """
    try:
        return await _why(controller)
    except HttpError as error:
        if error.kind not in _SAID_NO:
            raise
        return f"what places its tasks is unknown: {error}"


async def _why(controller: Controller) -> str | None:
    try:
        kinds = await controller.backends()
    except MissingMethodError:
        return await _in_june(controller)
    others = sorted({clean(kind, 40) or "nobody named" for kind in kinds if kind != WORKERS})
    if others or not kinds:
        return f"its tasks are placed by {', '.join(others) or 'nobody named'}"
    peers = await controller.peers()
    return f"it hands jobs on to {clean(', '.join(peers[:3]), 120)}" if peers else None


async def _in_june(controller: Controller) -> str | None:
    """Return why not, of a controller that does not know the question."""
    if await controller.has_endpoint_service():
        return "it is of a release that does not tell what places its tasks"
    return f"its tasks are placed by {KUBERNETES}" if await controller.on_kubernetes() else None

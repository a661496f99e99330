"""What a pending job waits for, and whether that can ever come.

Ray says the same of a job that waits for its turn and of one that asks for what the cluster does
not have. Which of the two it is tells the actor that runs its driver: the resources it wants are
compared with what the nodes have in all. *Never* is said only of a cluster to which nothing adds
nodes: an autoscaler may bring what is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cockpit.platforms.ray.answers import RayJob, Supervisor, mapping
from cockpit.platforms.ray.head import Head
from cockpit.text.safe import clean

_UNPLACED: Final = frozenset({"PENDING_CREATION", "DEPENDENCIES_UNREADY", "RESTARTING"})
_SHOWN: Final = 4
_GIB: Final = 1 << 30
_BYTES: Final = frozenset({"memory", "object_store_memory"})


class Wait(NamedTuple):
    """Why a job waits (one line), and whether it waits for something that cannot come."""

    reason: str
    never: bool


async def waits(
    head: Head, jobs: Sequence[RayJob], supervisors: Mapping[str, Supervisor]
) -> dict[str, Wait]:
    """Return what these pending jobs wait for, by id, as far as it is told; raises ``HttpError``.

    Asks for the nodes once, and for the autoscaler only where no node is large enough.
    """
    wanted = {
        job.id: actor.wants
        for job in jobs
        if (actor := supervisors.get(job.id)) is not None
        and actor.state in _UNPLACED
        and actor.wants
    }
    if not wanted:
        return {}
    nodes = await head.nodes()
    unmet = {name for name, wants in wanted.items() if not fits(wants, nodes)}
    fixed = bool(nodes) and bool(unmet) and is_fixed(await head.autoscaler())
    return {
        name: _wait(wants, nodes, unmet=name in unmet, fixed=fixed)
        for name, wants in wanted.items()
    }


def fits(wants: Mapping[str, float], nodes: Iterable[Mapping[str, float]]) -> bool:
    """Tell whether one node, all of it free, has everything that is wanted."""
    return any(
        all(node.get(name, 0.0) >= amount for name, amount in wants.items()) for node in nodes
    )


def is_fixed(report: Mapping[str, object]) -> bool:
    """Tell whether nothing adds nodes: each node is a type of its own, and none is on its way.

    So Ray reports of clusters that were put together by hand; an autoscaler names the types of
    its configuration. Without a report this cannot be told.
    """
    types = mapping(report.get("nodeTypeMapping"))
    by_hand = bool(types) and all(str(kind).startswith("node_") for kind in types.values())
    return by_hand and not report.get("pendingLaunches") and not report.get("pendingNodes")


def _wait(
    wants: Mapping[str, float], nodes: Sequence[Mapping[str, float]], *, unmet: bool, fixed: bool
) -> Wait:
    text = f"waiting for {_amounts(wants)}"
    if not unmet:
        return Wait(f"{text}, which a node has and others use", never=False)
    most = {name: max((node.get(name, 0.0) for node in nodes), default=0.0) for name in wants}
    text += f", and no node has so much (the most of each: {_amounts(most)})"
    if fixed:
        return Wait(f"{text}; nothing adds nodes to this cluster", never=True)
    return Wait(f"{text}; an autoscaler would have to bring a node", never=False)


def _amounts(resources: Mapping[str, float]) -> str:
    shown = [_amount(name, amount) for name, amount in list(resources.items())[:_SHOWN]]
    more = len(resources) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _amount(name: str, amount: float) -> str:
    if name in _BYTES:
        return f"{amount / _GIB:.3g} GiB {name}"
    return f"{amount:g} {clean(name, 40)}"

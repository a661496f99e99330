"""What a cluster says of a node, and what ``doctor`` says of a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from cockpit.model.jobs import Query
from cockpit.model.observed import Gpu, HostValue
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.kubernetes.access import mapping
from cockpit.platforms.kubernetes.api import STEADY, Cluster
from cockpit.platforms.kubernetes.objects import KINDS, Object, part
from cockpit.platforms.kubernetes.pods import ACCELERATORS, conditions
from cockpit.platforms.kubernetes.waits import quantity
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

VERBS: Final = (
    ("", "pods", "", "list watch"), ("", "pods", "log", "get"), ("", "events", "", "list"),
    ("", "configmaps", "", "list get create patch"), ("kueue.x-k8s.io", "workloads", "", "list"),
    ("", "nodes", "", "get list"),
)  # fmt: skip
"""What is needed beside the kinds of objects: group, resource, part of it, verbs."""
OF_KINDS: Final = "list watch create get patch delete"
SEEN: Final = "list watch"
"""The verbs for the other kinds: an object of any kind may write to a run's output root."""
CHECK: Final = "check the context with kubectl; docs/kubernetes.md says what is read"
ASK: Final = "ask for the role in docs/kubernetes.md"


def host_of(node: Object) -> HostValue:
    """Return a node's health: why nothing is started there, and its accelerators."""
    spec, status = mapping(node.get("spec")), mapping(node.get("status"))
    wrong = [
        f"{each['type']}: {shown(each.get('message'), 160)}"
        for each in conditions(node)
        if each["type"].endswith(("Pressure", "Unavailable"))
    ]
    ready = [each for each in status.get("conditions") or () if each["type"] == "Ready"]
    if ready and ready[0].get("status") != "True":
        wrong.insert(0, f"not ready: {shown(ready[0].get('message'), 160)}")
    if spec.get("unschedulable"):
        why = [clean(each.get("value"), 80) for each in spec.get("taints") or ()]
        wrong.append(" ".join(filter(None, ("cordoned", *why))))
    there, usable = mapping(status.get("capacity")), mapping(status.get("allocatable"))
    names = [name for name in there if name.startswith(ACCELERATORS)]
    counts = [int(sum(quantity(each.get(name)) for name in names)) for each in (there, usable)]
    product = mapping(node["metadata"].get("labels")).get("nvidia.com/gpu.product")
    name = clean(product or next(iter(names), ""), 80)
    return HostValue(
        out_of_service="; ".join(wrong) or None,
        gpus=tuple(Gpu(index=number, name=name) for number in range(counts[1])),
        gpus_lost=counts[0] - counts[1] if names else None,
    )


async def finding(cluster: Cluster, queries: Sequence[Query]) -> EndpointFinding:
    """Return whether a cluster answers for its runs, and which verbs our role lacks."""
    names = ", ".join(query.name for query in queries[:5])
    try:
        version = clean((await cluster.get("/version")).get("gitVersion"), 40)
        space = await cluster.namespace()
        lacks = await _lacking(cluster, space, queries)
    except HttpError as error:
        text = f"{clean(error, 400)} ({names})"
        return EndpointFinding(endpoint=cluster.name, text=text, remedy=CHECK)
    text = f"Kubernetes {version}, namespace {space}; for {names}"
    if abs(cluster.skew) > STEADY:
        way = "ahead of" if cluster.skew > 0 else "behind"
        text += f"; its clock is {abs(cluster.skew):.0f} s {way} ours"
    if lacks:
        text += f"; not allowed: {', '.join(lacks)}"
    return EndpointFinding(endpoint=cluster.name, text=text, remedy=ASK if lacks else None)


async def _lacking(cluster: Cluster, space: str, queries: Sequence[Query]) -> list[str]:
    """Return the verbs that we may not use, each with its resource."""
    words = {
        ((query.run.job and query.run.job.id) or "job/").partition("/")[0] for query in queries
    }
    served = [(word, row) for word, row in KINDS.items() if await cluster.serves(row)]
    verbs = ((row, OF_KINDS if word in words else SEEN) for word, row in served)
    wanted = [*((row.group, row.plural, "", each) for row, each in verbs), *VERBS]
    asked = [(verb, *row) for row in wanted for verb in row[3].split()]
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

    async def allowed(verb: str, group: str, plural: str, below: str) -> bool:
        about = {"verb": verb, "group": group, "resource": plural, "subresource": below}
        about |= {} if plural == "nodes" else {"namespace": space}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        found = await cluster.review({**kind, "spec": {"resourceAttributes": about}}, path)
        return part(found, "status.allowed") is True

    answers = await asyncio.gather(*(allowed(*each[:4]) for each in asked))
    return [
        f"{verb} {plural}{f'/{below}' if below else ''}"
        for (verb, _, plural, below, _), may in zip(asked, answers, strict=True)
        if not may
    ]

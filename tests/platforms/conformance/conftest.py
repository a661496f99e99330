"""Each platform that acts, at its own system; ``SEATS`` has one row for each of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.platforms.conformance.clusters import IrisSeat, RayHeadSeat, RaySeat, SlurmSeat
from tests.platforms.conformance.hosts import BoxSeat, LocalSeat
from tests.platforms.conformance.kubernetes import KubernetesRigSeat, KubernetesSeat
from tests.platforms.conformance.seat import Seat
from tests.platforms.iris.controller import Controller, running
from tests.platforms.kubernetes.server import serving
from tests.platforms.ray.real_head import TOKEN
from tests.platforms.ray.recorded import head as recorded_head
from tests.sshd import needs_sshd

SEATS: dict[str, type[Seat]] = {
    "local": LocalSeat,
    "box": BoxSeat,
    "slurm": SlurmSeat,
    "ray": RaySeat,
    "ray head": RayHeadSeat,
    "iris": IrisSeat,
    "kubernetes": KubernetesSeat,
    "kubernetes rig": KubernetesRigSeat,
}
SYSTEMS = {"box": "box", "slurm": "slurm", "ray head": "head", "kubernetes rig": "cluster"}
"""The fixtures that are real systems."""
ROWS = [pytest.param(name, marks=needs_sshd if name == "box" else ()) for name in SEATS]


@pytest.fixture(params=ROWS)
def system(request: pytest.FixtureRequest) -> tuple[str, object]:
    """The name of a seat, and the real system that it needs, if any."""
    name: str = request.param
    return name, request.getfixturevalue(SYSTEMS[name]) if name in SYSTEMS else None


@pytest.fixture
async def seat(
    system: tuple[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Seat]:
    name, real = system
    monkeypatch.setenv("IRIS_USER", "ada")
    monkeypatch.setenv("COCKPIT_TEST_RAY_TOKEN", TOKEN)
    (tmp_path / "train.py").touch()
    async with AsyncExitStack() as stack:
        if name == "slurm":
            monkeypatch.setenv("SLURM_CONF", str(getattr(real, "conf")))  # noqa: B009
        if name == "ray":
            served = await stack.enter_async_context(recorded_head())
            served.documents["/api/jobs/"] = []
            real = served
        elif name == "iris":
            real = await stack.enter_async_context(running(Controller()))
        elif name == "kubernetes":
            real = stack.enter_context(serving())
            config = real.kubeconfig(tmp_path / "kubeconfig")
            monkeypatch.setenv("KUBECONFIG", str(config))
        elif name == "kubernetes rig":
            monkeypatch.setenv("KUBECONFIG", str(getattr(real, "kubeconfig")))  # noqa: B009
        made = SEATS[name](tmp_path) if real is None else SEATS[name](tmp_path, real)  # type: ignore[call-arg]
        try:
            yield made
        finally:
            made.end()

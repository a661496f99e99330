"""The server of the tests answers as the real one did; where there is a real one, it still does."""

from __future__ import annotations

from pathlib import Path

from tests.platforms.kubernetes.rig import Rig
from tests.platforms.kubernetes.scenario import compact, compared, opened, talk
from tests.platforms.kubernetes.server import serving


def test_it_says_what_the_real_server_said(tmp_path: Path) -> None:
    with serving() as server:
        server.drops_suspend = True  # as the server of the captures, 1.20
        said = talk(opened(server.kubeconfig(tmp_path / "config"), server.forget))
    assert list(compared(said)) == []


def test_the_real_server_still_says_it(cluster: Rig) -> None:
    said = talk(opened(cluster.kubeconfig, compact(cluster.etcd)))
    assert list(compared(said)) == []

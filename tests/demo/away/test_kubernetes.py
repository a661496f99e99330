"""The demo on a Kubernetes: what it creates, and that nothing of it is left."""

from __future__ import annotations

import base64
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.cli import main
from cockpit.demo.away import session, site
from cockpit.demo.away.kubernetes import FILES, KubernetesSite
from cockpit.demo.away.session import Journal, prepare, remove, running, situations_of
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import SITUATIONS
from cockpit.platforms.base import CannotError
from tests.platforms.kubernetes.server import Server, serving
from tests.waiting import until


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for that the server here does at once; few runs stand for all."""
    monkeypatch.setattr(site, "LOOK_EVERY", 0.01)
    monkeypatch.setattr(session, "SETTLE", 0.0)
    monkeypatch.setattr(session, "SITUATIONS", SITUATIONS[:3])


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serving() as made:
        config = made.kubeconfig(tmp_path / "kubeconfig", space="ml")
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield made


def of(layout: DemoLayout) -> KubernetesSite:
    return KubernetesSite(None, None, None, None, str(layout.folder))


def test_it_trains_there_and_leaves_nothing(server: Server, layout: DemoLayout) -> None:
    other = {"metadata": {"name": "demo-slow-i001"}, "data": {}}  # somebody's
    server.add("configmaps", other, "ml")
    journal = prepare(layout, of(layout))
    token, names = journal.token, [each.launch_id for each in situations_of(journal)]
    with running(journal, keep=False) as demo:
        until(lambda: all(journal.jobs.get(name) for name in names))
        assert journal.jobs == {name: f"job/{name}" for name in names}
        files = server.one("configmaps", f"demo-files-{token}", "ml")["binaryData"][FILES]
        with tarfile.open(fileobj=io.BytesIO(base64.b64decode(files))) as archive:
            assert "code/cockpit/demo/trainer.py" in archive.getnames()
        (pod, _) = server.all("pods", "ml")
        (container,) = pod["spec"]["containers"]
        assert "-m cockpit.demo.trainer" in container["command"][2]
        assert container["image"] == "python:3.12-slim"
        server.finish(pod, "Failed", 1)  # one that has ended is removed, too
    assert demo.trouble is None and not layout.folder.exists()
    assert server.all("jobs") == server.all("pods") == []
    assert [each["metadata"]["name"] for each in server.all("configmaps")] == ["demo-slow-i001"]


def test_a_demo_is_removed_from_where_it_was_begun(
    server: Server, layout: DemoLayout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kubectl config set-context --current --namespace` has moved the context meanwhile."""
    journal = prepare(layout, of(layout))
    with running(journal, keep=True):
        until(lambda: all(journal.jobs.get(each.launch_id) for each in situations_of(journal)))
    assert len(server.all("jobs", "ml")) == 2
    monkeypatch.setenv("KUBECONFIG", str(server.kubeconfig(tmp_path / "other", space="default")))
    found = Journal.read(layout)
    assert found is not None and found.site.settings["namespace"] == "ml"
    remove(layout)
    assert server.all("jobs") == server.all("configmaps") == []


def test_where_no_cluster_is_at_hand_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    layout: DemoLayout,
) -> None:  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    words = ["demo", "--on", "kubernetes", "--headless", "--dir", str(tmp_path / "demo")]
    assert main(words) == 70
    assert "there is no kubeconfig (KUBECONFIG, ~/.kube/config)" in capsys.readouterr().err
    assert main([*words[:1], "--headless", "--image", "x"]) == 2
    assert "go with --on kubernetes" in capsys.readouterr().err
    with serving() as server:
        config = server.kubeconfig(tmp_path / "kubeconfig")
    monkeypatch.setenv("KUBECONFIG", str(config))
    with pytest.raises(CannotError, match=r"127\.0\.0\.1"):
        prepare(layout, of(layout))
    assert not layout.folder.exists()

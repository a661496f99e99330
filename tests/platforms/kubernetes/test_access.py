"""How a cluster is reached: kubeconfigs, accounts, plugins; what is said where that fails."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind
from cockpit.model.run import JobSpec
from cockpit.platforms.kubernetes import api
from cockpit.platforms.kubernetes.api import Access, Credentials, find_access
from cockpit.runtime.http import HttpError

SECRET = "k8s-secret-token"


def job(**settings: Any) -> JobSpec:
    return JobSpec.model_validate({"kind": "kubernetes", **settings})


def config(**parts: Any) -> str:
    """Return a kubeconfig; JSON is YAML too."""
    return json.dumps({"apiVersion": "v1", "kind": "Config", **parts})


def context(name: str, **more: str) -> dict[str, Any]:
    return {"name": name, "context": {"cluster": "c", "user": "u", **more}}


CLUSTER = {"name": "c", "cluster": {"server": "https://10.0.0.1:6443/"}}
USER = {"name": "u", "user": {"token": SECRET}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    return tmp_path


def test_the_first_file_that_says_a_thing_counts(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "one").write_text(config(clusters=[CLUSTER], contexts=[context("a", namespace="ml")]))
    other = {"name": "c", "cluster": {"server": "https://other"}}
    rest = config(
        **{"current-context": "a"}, clusters=[other], users=[USER], contexts=[context("b")]
    )
    (home / "two").write_text(rest)
    files = [home / "one", home / "missing", home / "two"]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, files)))
    found = find_access(job())
    assert (found.context, found.server) == ("a", "https://10.0.0.1:6443")
    assert (found.namespace, found.user["token"]) == ("ml", SECRET)
    assert find_access(job(context="b")).namespace == "default"
    assert find_access(job(context="b", namespace="mine")).namespace == "mine"
    assert find_access(job(context="b", namespace="mine")).moves == ""
    moves = find_access(job()).moves
    assert moves.startswith("set job.context (now a) and job.namespace (now ml): the kubeconfig")
    with pytest.raises(HttpError, match=r"no kubeconfig has the context gone \(there: a, b\)"):
        find_access(job(context="gone"))


def test_files_that_a_kubeconfig_names_lie_beside_it(home: Path) -> None:
    (home / ".kube").mkdir()
    cluster = {"server": "https://10.0.0.1", "certificate-authority": "pki/ca.crt"}
    plugin = {"exec": {"command": "./bin/login"}, "client-key": "/keys/own.key"}
    text = config(
        **{"current-context": "a"},
        clusters=[{"name": "c", "cluster": cluster}],
        users=[{"name": "u", "user": plugin}],
        contexts=[context("a")],
    )
    (home / ".kube" / "config").write_text(text)
    found = find_access(job())
    assert found.cluster["certificate-authority"] == str(home / ".kube" / "pki" / "ca.crt")
    assert found.user["exec"]["command"] == str(home / ".kube" / "bin" / "login")
    assert found.user["client-key"] == "/keys/own.key"


def test_a_file_that_is_none_and_no_file_at_all_are_one_sentence(home: Path) -> None:
    with pytest.raises(HttpError, match=r"there is no kubeconfig \(KUBECONFIG, ~/.kube/config\)"):
        find_access(job())
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("a: [")
    with pytest.raises(HttpError, match="is not a kubeconfig"):
        find_access(job())
    (home / ".kube" / "config").write_text("- a\n- b\n")
    with pytest.raises(HttpError, match="names a current context"):
        find_access(job())


def test_a_pod_uses_its_own_account(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "token").write_text(SECRET)
    (home / "namespace").write_text("training\n")
    monkeypatch.setattr(api, "ACCOUNT", home)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    found = find_access(job())
    assert (found.server, found.namespace) == ("https://[fd00::1]:443", "training")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(
        config(
            **{"current-context": "a"}, clusters=[CLUSTER], users=[USER], contexts=[context("a")]
        )
    )
    assert find_access(job()).context == "a"
    assert find_access(job(context="in-cluster")).namespace == "training"


def plugin(folder: Path, text: str, **more: Any) -> Credentials:
    script = folder / "aws"
    script.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{text}\n")
    script.chmod(0o755)
    made = {"exec": {"command": str(script), "args": ["eks", "get-token"], **more}}
    return Credentials(Access("a", "https://c", "ml", {}, made), SystemClock())


async def test_a_plugin_is_asked_once_until_its_token_ends(tmp_path: Path) -> None:
    made = plugin(
        tmp_path,
        "open(os.environ['ASKED'], 'a').write('once\\n')\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['spec']['interactive'] is False\n"
        f"print(json.dumps({{'status': {{'token': '{SECRET}', "
        "'expirationTimestamp': '2099-01-01T00:00:00Z'}}))",
        env=[{"name": "ASKED", "value": str(tmp_path / "asked")}],
    )
    for _ in range(2):
        assert await made.headers() == {"authorization": f"Bearer {SECRET}"}
    assert (tmp_path / "asked").read_text().count("\n") == 1
    assert made.refused({"authorization": "Bearer former"}), "another token may be had"
    await made.headers()
    assert (tmp_path / "asked").read_text().count("\n") == 1, "the newer one was not refused"
    assert made.refused({"authorization": f"Bearer {SECRET}"}), "another token may be had"
    await made.headers()
    assert (tmp_path / "asked").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit('Token has expired')", r"aws failed; log in again \(aws sso login\): Token has"),
        ("print('{}')", r"aws printed no credential; log in again \(aws sso login\)"),
        ("print('no JSON')", "aws printed no credential"),
        ("time.sleep(60)", "aws gave no answer within 0.5 s"),
    ],
)
async def test_a_plugin_that_gives_nothing_is_one_sentence(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PLUGIN_WITHIN", 0.5 if "sleep" in text else 30.0)
    with pytest.raises(HttpError, match=said) as raised:
        await plugin(tmp_path, text).headers()
    assert raised.value.kind is ErrorKind.UNAUTHORIZED


def test_a_certificate_that_is_none_is_said_and_no_key_is_shown() -> None:
    user = {"client-certificate-data": "abcde", "client-key-data": SECRET}
    with pytest.raises(OSError, match="client-certificate-data is not base64"):
        Access("a", "https://c", "ml", {}, user).route().trust()

"""A real Kubernetes API server with its job controller and an etcd, in a folder of their own.

``make test-kubernetes`` builds it (``build.sh``); ``COCKPIT_KUBERNETES`` names the folder. There is
no kubelet: pods wait until a test says how they fare, as a kubelet would (``report``).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from tests.platforms.kubernetes.scenario import ADMIN, READER
from tests.platforms.ray.real_head import free_ports

VARIABLE = "COCKPIT_KUBERNETES"
PATIENCE = 120.0
CONTROLLERS = "job,namespace,garbagecollector,ttl-after-finished"


def lacking() -> str | None:
    """Return why there is no real server here, and how to get one; ``None`` if there is."""
    folder = os.environ.get(VARIABLE)
    if folder is None or not (Path(folder) / "bin" / "kube-apiserver").exists():
        return "needs a real Kubernetes: make test-kubernetes"
    missing = [name for name in ("etcd", "openssl", "setpriv") if shutil.which(name) is None]
    return f"no {missing[0]} here: apt-get install etcd-server openssl" if missing else None


class Rig:
    """The three programs, started by ``up`` and ended by ``down``; a namespace for a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        self.url = self.etcd = ""
        self.namespace = "default"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._http = httpx.Client(verify=False, timeout=60)
        self._http.headers["authorization"] = f"Bearer {ADMIN}"

    def up(self) -> None:
        """Start everything, and wait until the namespace ``default`` is there."""
        port, etcd, peers = free_ports(3)
        self.url, self.etcd = f"https://127.0.0.1:{port}", f"http://127.0.0.1:{etcd}"
        key, public = self.folder / "sa.key", self.folder / "sa.pub"
        for words in (("genrsa", "-out", key), ("rsa", "-in", key, "-pubout", "-out", public)):
            subprocess.run(["openssl", *words], check=True, capture_output=True)
        tokens = self.folder / "tokens.csv"
        tokens.write_text(f"{ADMIN},admin,1,system:masters\n{READER},reader,2\n")
        self.write_kubeconfig(self.kubeconfig)
        others = f"http://127.0.0.1:{peers}"
        self._start(
            "etcd", "--data-dir", f"{self.folder}/etcd", "--listen-client-urls", self.etcd,
            "--advertise-client-urls", self.etcd, "--listen-peer-urls", others,
            "--initial-advertise-peer-urls", others, "--initial-cluster", f"default={others}",
        )  # fmt: skip
        self._start(
            "kube-apiserver", f"--etcd-servers={self.etcd}", f"--secure-port={port}",
            "--bind-address=127.0.0.1", f"--cert-dir={self.folder}/certs",
            f"--token-auth-file={tokens}", "--authorization-mode=RBAC",
            "--service-account-issuer=https://rig", f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.9.0.0/24",
            "--disable-admission-plugins=ServiceAccount",
        )  # fmt: skip
        self._until_up()
        self._start(
            "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={key}", f"--controllers={CONTROLLERS}",
            "--leader-elect=false", "--port=0", "--secure-port=0",
        )  # fmt: skip

    def down(self) -> None:
        """End all three."""
        self.resume()
        for process in reversed(self._running.values()):
            process.kill()
            process.wait()

    def stop(self) -> None:
        """Let the server stand still."""
        self._running["kube-apiserver"].send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the server go on."""
        if "kube-apiserver" in self._running:
            self._running["kube-apiserver"].send_signal(signal.SIGCONT)

    def write_kubeconfig(self, path: Path, token: str = ADMIN) -> Path:
        """Write a kubeconfig for this server and the namespace as it is now."""
        cluster = {"server": self.url, "insecure-skip-tls-verify": True}
        context = {"cluster": "rig", "user": "rig", "namespace": self.namespace}
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "rig",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": "rig", "user": {"token": token}}],
            "contexts": [{"name": "rig", "context": context}],
        }  # fmt: skip
        path.write_text(json.dumps(config))
        return path

    def ask(self, method: str, path: str, body: object = None, form: str = "") -> Any:
        """Return what the server says; ``{ns}`` in a path is this rig's namespace."""
        full = f"{self.url}{path}".replace("{ns}", f"namespaces/{self.namespace}")
        headers = {"content-type": form or "application/json"}
        return self._http.request(method, full, json=body, headers=headers).json()

    def _until_up(self) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            with suppress(httpx.HTTPError, ValueError):
                found = self.ask("GET", "/api/v1/namespaces/default")
                if found.get("kind") == "Namespace":
                    return
            log = self.folder / "kube-apiserver.log"
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)

    def _start(self, program: str, *options: str) -> None:
        own = Path(os.environ[VARIABLE]) / "bin" / program
        command = str(own) if own.exists() else program
        with (self.folder / f"{program}.log").open("wb") as log:
            self._running[program] = subprocess.Popen(  # whoever kills the tests ends it too
                ["setpriv", "--pdeathsig", "KILL", "--", command, *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

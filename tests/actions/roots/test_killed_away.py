"""A cockpit killed with -9 at each write of a rollback or a clean-up elsewhere: nothing is lost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.sources.checkpoints.store_server import ObjectStore, serving
from tests.sshd import Sshd, needs_sshd
from tests.sshd import serving as serving_ssh

ROOT = Path(__file__).resolve().parents[3]
FULL = {
    step: {f"step-{step}/{name}" for name in ("d/0c0ffee0", "manifest.ocdbt", "metadata.json")}
    for step in (100, 200, 300, 400)
}
pytestmark = pytest.mark.skipif(not os.environ.get("SOAK"), reason="long: set SOAK=1")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    (tmp_path / "sshd").mkdir()
    with serving_ssh(tmp_path / "sshd") as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/sshd/bin:{os.environ['PATH']}")
        yield server


def killed(folder: Path, kind: str, verb: str, address: str) -> list[dict[str, Any]]:
    more = {"AWS_ENDPOINT_URL": address} if kind == "s3" else {}
    keys = {"AWS_ACCESS_KEY_ID": "t", "AWS_SECRET_ACCESS_KEY": "t", "AWS_REGION": "us-east-1"}
    program = "tests.actions.roots.killing_away"
    done = subprocess.run(
        [sys.executable, "-m", program, str(folder), kind, verb, address],
        cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, **keys, **more},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def judge_rollback(seen: dict[str, Any]) -> None:
    cut = set(seen["cut"])
    assert cut >= FULL[100] | FULL[200], seen["point"]
    for step in (300, 400):
        for name in ("d/0c0ffee0", "manifest.ocdbt", "metadata.json"):
            found = re.compile(rf"(?:rejected-[\d-]+/)?step-{step}/{re.escape(name)}(?:\.rej.*)?")
            assert any(found.fullmatch(key) for key in cut), (seen["point"], step, name)
    for target in re.findall(r" -> \S+/checkpoints/(\S+)", seen["said"]):
        assert any(key == target or key.startswith(f"{target}/") for key in cut), seen["point"]
    assert seen["again"] in ("done", "refused"), seen["message"]
    whole = [int(step) for step, state in seen["after"].items() if state == "complete"]
    assert max(whole) == 200 and not seen["open"]


def judge_retain(seen: dict[str, Any]) -> None:
    cut = set(seen["cut"])
    assert cut >= FULL[300] | FULL[400], seen["point"]
    for step in (100, 200):
        whole = cut >= FULL[step]
        assert whole or seen["bare"].get(str(step)) != "complete", seen["point"]
        gone = not any(key.startswith(f"step-{step}") for key in cut)
        assert gone or f"step {step}: " not in seen["said"], seen["point"]
    assert seen["again"] in ("done", "refused"), seen["message"]
    left = {key.partition("/")[0] for key in seen["end"]} - {".cockpit"}
    assert left == {"step-300", "step-400"} and not seen["open"]


JUDGES = {"rollback": judge_rollback, "retain": judge_retain}


@pytest.mark.parametrize("verb", JUDGES)
def test_in_a_bucket_what_is_recorded_is_what_is_there(verb: str, tmp_path: Path) -> None:
    pytest.importorskip("obstore", reason="no obstore: pip install 'run-cockpit[stores]'")
    with serving(ObjectStore()) as store:
        for seen in killed(tmp_path, "s3", verb, store.url):
            JUDGES[verb](seen)


@needs_sshd
@pytest.mark.parametrize("verb", JUDGES)
def test_on_a_host_what_is_recorded_is_what_is_there(verb: str, host: Sshd, tmp_path: Path) -> None:
    there = tmp_path / "there"
    for seen in killed(tmp_path / "own", "ssh", verb, f"{host.host}:{there}"):
        JUDGES[verb](seen)
    shutil.rmtree(there)

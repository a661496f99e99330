"""The ways out of what is done for real: started, stopped, rolled back, cleaned up, sealed."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.notify.receivers import webhook
from tests.planted import FOREIGN, SECRETS, Launchable, git
from tests.sources.wandb import writer as wandb_writer
from tests.test_secrets import OPTIONS, WORDS, assert_none, github

PATIENCE = 180.0


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[Launchable]:
    run = Launchable(tmp_path)
    yield run
    run.close()


def done(planted: Launchable, *words: str, **more: str) -> tuple[str, bytes]:
    """Plan, approve all that a person may approve, and act; return what was said of it all."""
    planned = planted.here(*words, "--json", **more)
    plan = document(planned)
    open_ = [each["id"] for each in plan["checks"] if each["level"] == "block"]
    approvals = [part for check in open_ for part in
                 ("--approve", check, "--by", "ada", "--reason", WORDS)]  # fmt: skip
    said = planted.here(*words, *approvals, "--confirm", plan["words"], "--json", **more)
    if b"changed since it was shown" in said:  # a run that trains on loses more by the second
        return done(planted, *words, **more)
    assert said.startswith(b"exit 0"), (open_, said.decode(), planned.decode())
    return words[0], planned + said


def document(said: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said[said.index(b"{") :])
    return found


def until(path: Path, text: str) -> None:
    end = time.monotonic() + PATIENCE
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < end, f"{text} never came into {path}"
        time.sleep(0.02)


def test_a_run_that_is_started_stopped_and_rolled_back(planted: Launchable) -> None:
    folder = planted.folder
    with webhook() as hook, github() as service:
        where = {"HOOK": hook.url, "GITHUB_API_URL": service.base}
        said = [done(planted, "relaunch", "tiny", **where)]
        until(folder / "run.log", "step 21/")
        assert (folder / "out" / "given").read_text() == " ".join([SECRETS["Hugging Face"]] * 2)
        said.append(done(planted, "stop", "tiny", "--reason", WORDS, **where))
        config = json.loads((folder / "config.json").read_text())
        changed = {**config, "lr": 0.2, "hub_token": SECRETS["owner"]}
        (folder / "config.json").write_text(json.dumps(changed))
        said.append(("drift", planted.here("relaunch", "tiny", "--json", **where)))
        said.append(("drift in words", planted.here("relaunch", "tiny", **where)))
        back = ("rollback", "tiny", "--to", "10", "--move", "yes", "--reason", WORDS)
        said.append(done(planted, *back, **where))
        said.append(("history", planted.here("history", "tiny", "--json", **where)))
        bodies = [("issue", body) for body in service.bodies(1)]
        posted = [("webhook", json.dumps(each)) for each in hook.posted]
    written = list(planted.written())
    assert_none(*said, *bodies, *posted, *written)
    names = [name for name, _ in written]
    assert any("evidence" in name and "log-tail" in name for name in names), names
    assert any("evidence" in name and "processes" in name for name in names), names
    assert any("tiny-i001" in name for name in names), names
    book = (folder / "book" / "run.md").read_text()
    assert "--hf_token" in book and "$HF_TOKEN" in book, book
    assert "refs/cockpit" in dict(written)["commits of remote.git"].decode()
    assert bodies


def finish(planted: Launchable) -> None:
    """Let the run have ended well: exit 0, the tracker finished, the last checkpoint there."""
    now = time.time()
    trained = enumerate((5, 10, 15, 20, 500, 999, 1000))
    rows = [wandb_writer.row(step, "2.5", now - 70 + 10 * n) for n, step in trained]
    head = wandb_writer.run("abc", now - 90, project="p", name=f"run {SECRETS['display name']}")
    book = wandb_writer.log([head, *rows, wandb_writer.exited(0)])
    (planted.folder / "run-abc.wandb").write_bytes(book)
    (planted.folder / "run.exit").write_text("0\n")
    last = planted.folder / "out" / "checkpoints" / "step-1000"
    last.mkdir()
    document = {"step": 1000, "hub_token": SECRETS["Hugging Face"]}
    (last / "metadata.json").write_text(json.dumps(document))
    (last / "weights").write_bytes(b"w")
    os.utime(planted.folder / "run.pid", (now - 90, now - 90))  # when the job began
    for step, ago in ((10, 60), (20, 40), (1000, 10)):
        for file in (last.parent / f"step-{step}").iterdir():
            os.utime(file, (now - ago, now - ago))
    old = time.time() - 3600
    os.utime(planted.folder / "scratch" / FOREIGN, (old, old))
    state = json.loads((planted.folder / "scratch" / FOREIGN).read_text())
    state["ts"] = int(old * 1000)
    (planted.folder / "scratch" / FOREIGN).write_text(json.dumps(state))


def test_a_run_that_is_cleaned_up_and_sealed(planted: Launchable) -> None:
    finish(planted)
    code = planted.folder / "code"
    with github() as service:
        where = {"GITHUB_API_URL": service.base}
        said = [done(planted, "retain", "tiny", "--keep", "1", **where)]
        (code / "train.py").write_text(f"token = '{SECRETS['Hugging Face']}'\n")
        refused = planted.here("seal", "tiny", **where)
        assert b"looks like a secret" in refused and b"train.py:1" in refused
        (code / "train.py").write_text("token = None\n")
        said += [("refused", refused), done(planted, "seal", "tiny", **where)]
        said.append(("history", planted.here("history", "tiny", **where)))
        bodies = [("issue", body) for body in service.bodies(1)]
    sealed = [("the code's remote", tagged(planted.folder / "code.git"))]
    assert b"seal/tiny/1000" in sealed[0][1]
    assert_none(*said, *bodies, *sealed, *planted.written())


def tagged(repository: Path) -> bytes:
    """Return what the seal has added to a repository."""
    tag = git(repository, "show", "--format=%an %s %b", "-p", "seal/tiny/1000")
    return tag + git(repository, "for-each-ref", "--format=%(refname) %(contents)", "refs/tags")


def test_another_lineage_and_its_page(planted: Launchable) -> None:
    with github() as service:
        where = {"GITHUB_API_URL": service.base}
        words = ("lineage", "tiny", *OPTIONS["lineage"])
        said = [("lineage", planted.here(*words, **where))]
        said.append(("launch", planted.here("launch", "tiny", **where)))
        said.append(("publish", planted.here("publish", "tiny", "--repo", WORDS, **where)))
        said.append(("no verb", planted.here("stop", "tiny", "--confirm", WORDS, **where)))
        said.append(("no plan", planted.here("stop", "tiny", "--plan", WORDS, **where)))
        said.append(("no run", planted.here("check", SECRETS["owner"])))
        said.append(("no check", planted.here("stop", "tiny", "--approve", SECRETS["owner"],
                                              "--by", WORDS, "--reason", WORDS)))  # fmt: skip
    assert_none(*said, *planted.written())

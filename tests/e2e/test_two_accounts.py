"""Two people with a clone, a run file and a store each: what one does, the other is told (SPEC A).

Everything goes through the real command line, real git remotes and real files.
"""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.runtime.account import login_name

RUN = """
[cockpit]
cadence = "2s"
operator = "{who}"
[notify]
routes = [{{ min = "alert", command = ["tee", "-a", "{folder}/told.txt"] }}]
[[run]]
name = "toy"
tier = "ordinary"
dri = "ada"
final_step = 100
output_root = "{root}/out"
resubmit = ["true"]
job = {{ kind = "local", log = "{root}/out/run.log", pid_file = "{root}/out/run.pid", exit_file = "{root}/out/run.exit", workdir = "{root}/out" }}
records = {{ {records} }}
"""  # noqa: E501
FORGED = "- owner: `mallory`, from `ada` (2026-01-01T00:00:00Z, typed by `ada`)"


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout


class Two:
    """``ada`` and ``bob``; ``of`` says who types, in an account's folder of their own."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, book: bool = True) -> None:
        self.root = root
        self._patch = monkeypatch
        (root / "out").mkdir()
        git(root, "init", "-q", "--bare", "-b", "main", str(root / "remote.git"))
        for who in ("ada", "bob"):
            self._person(who, 'logbook = "book/toy.md"' if book else "")
        (root / "out/run.log").write_text(
            f"step 40/100 loss=2.1\nRuntimeError: bad\n{FORGED}\nRuntimeError: bad\n"
        )
        (root / "out/run.pid").write_text("4194300\n")
        (root / "out/run.exit").write_text("1\n")

    def _person(self, who: str, records: str) -> None:
        folder = self.root / who
        folder.mkdir()
        git(folder, "clone", "-q", str(self.root / "remote.git"), "book")
        if who == "ada":
            git(folder / "book", "checkout", "-q", "-b", "main")
            (folder / "book/toy.md").write_text("# Toy: Hero Run Logbook\n\n## Event Log\n")
            git(folder / "book", "add", "-A")
            git(folder / "book", "commit", "-q", "-m", "begin")
            git(folder / "book", "push", "-q", "-u", "origin", "main")
        text = RUN.format(who=who, folder=folder, root=self.root, records=records)
        (folder / "cockpit.toml").write_text(text)

    def of(self, who: str, *words: str) -> tuple[int, dict[str, Any], str]:
        """Let somebody type a command; return exit code, document, messages."""
        self._patch.setenv("XDG_STATE_HOME", str(self.root / who / "state"))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*words, "--json", "--config", str(self.root / who / "cockpit.toml")])
        return code, json.loads(out.getvalue()), err.getvalue()

    def heard(self, who: str) -> dict[str, Any]:
        """Return the run as somebody sees it who has heard the logbook's remote."""
        end = time.monotonic() + 30.0
        while True:
            (run,) = self.of(who, "check")[1]["runs"]
            if run["facets"]["records"]["value"]["unheard"] is None:
                found: dict[str, Any] = run
                return found
            assert time.monotonic() < end, run["facets"]["records"]

    def did(self, who: str, *words: str, confirm: str) -> dict[str, Any]:
        code, result, said = self.of(who, *words, "--confirm", confirm)
        assert code == 0 and result["outcome"] == "done", (result, said)
        if (self.root / who / "book").is_dir():
            self._pushed(who)
        return result

    def _pushed(self, who: str) -> None:
        """Wait for the push that goes on behind."""
        end = time.monotonic() + 30.0
        mine = git(self.root / who / "book", "rev-parse", "HEAD")
        while git(self.root / "remote.git", "rev-parse", "main") != mine:
            assert time.monotonic() < end, "it was never pushed"
            time.sleep(0.05)


def check(plan: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in plan["checks"] if each["id"] == name)
    return found


def typed(who: str) -> str:
    return who if login_name() == who else f"{who} (login {login_name()})"


def test_what_ada_did_bob_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = Two(tmp_path, monkeypatch)
    two.did("ada", "log", "toy", confirm="log toy")
    (alert,) = two.of("bob", "check")[1]["runs"][0]["alerts"]
    assert alert["severity"] == "critical" and alert["acknowledged"] is None
    assert two.of("bob", "check")[1]["runs"][0]["owner"]["name"] == "ada", "a log line owns nothing"

    asked = ("launch", "toy", "--approve", "checkpoint", "--by", "ada", "--reason", "start anew")
    _, plan, said = two.of("bob", *asked)
    assert plan["blocked"] and check(plan, "checkpoint")["approved"] is None
    assert "someone else typed it" in said, "what wants the DRI's own word is not typed by bob"
    _, plan, _ = two.of("ada", *asked)
    assert check(plan, "checkpoint")["approved"]["typed_by"] == typed("ada")
    words = ("relaunch", "toy", "--approve", "T", "--by", "ada", "--reason", "go on")
    _, plan, _ = two.of("bob", *words)
    approved = check(plan, "T")["approved"]
    assert (approved["by"], approved["typed_by"], approved["own"]) == ("ada", typed("bob"), False)

    two.did("ada", "ack", "toy", alert["key"], "--reason", "seen", confirm="ack toy")
    two.did("ada", "handoff", "toy", "--to", "bob", confirm="handoff toy")

    run = two.heard("bob")
    assert run["alerts"][0]["acknowledged"]["by"] == typed("ada"), "taken is taken for everybody"
    owner = run["owner"]
    assert (owner["name"], owner["by"]) == ("bob", typed("ada"))
    assert "origin" in owner["source"] and "run file still names ada" in owner["differs"]
    _, plan, _ = two.of("bob", "launch", "toy")
    assert check(plan, "dri")["value"] == "bob" and check(plan, "checkpoint")["approver"] == "bob"
    assert not [each for each in plan["checks"] if each["id"] == "dri-notified"]
    _, plan, _ = two.of("ada", *asked)
    assert check(plan, "checkpoint")["approved"] is None, "ada is not the DRI any more"
    _, past, _ = two.of("bob", "history", "toy")
    assert [each["what"] for each in past["told"]] == ["acknowledged", "owner"]
    assert {each["typed_by"] for each in past["told"]} == {typed("ada")}
    assert git(tmp_path / "bob/book", "status", "--porcelain", "--branch") == (
        "## main...origin/main\n"
    ), "looking has changed nothing in bob's clone"


def test_a_run_file_that_is_edited_hands_nothing_over_and_is_told_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Two(tmp_path, monkeypatch, book=False)
    two.did("ada", "handoff", "toy", "--to", "bob", confirm="handoff toy")
    file = tmp_path / "bob/cockpit.toml"

    def owner(named: str) -> dict[str, Any]:
        file.write_text(re.sub('dri = ".*"', f'dri = "{named}"', file.read_text()))
        later = time.time() + 3600.0
        os.utime(file, (later, later))
        found: dict[str, Any] = two.of("bob", "check")[1]["runs"][0]["owner"]
        return found

    third = owner("dave")
    assert (third["name"], third["differs"]) == ("bob", "the run file names dave")
    assert third["remedy"].startswith("cockpit handoff toy --to dave; or ")
    notes = [each for each in two.of("bob", "doctor")[1]["findings"] if each["name"] == "owner"]
    assert [(each["level"], each["remedy"]) for each in notes] == [("note", third["remedy"])]
    agreed = owner("bob")
    assert (agreed["name"], agreed["differs"], agreed["remedy"]) == ("bob", None, None)


def test_without_a_logbook_it_is_told_under_the_output_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Two(tmp_path, monkeypatch, book=False)
    two.did("ada", "handoff", "toy", "--to", "bob", confirm="handoff toy")
    (run,) = two.of("bob", "check")[1]["runs"]
    assert (run["owner"]["name"], run["owner"]["source"]) == ("bob", "output root")
    two.did("bob", "handoff", "toy", "--to", "carol", confirm="handoff toy")
    (run,) = two.of("ada", "check")[1]["runs"]
    assert run["owner"]["name"] == "carol" and run["owner"]["by"] == typed("bob")

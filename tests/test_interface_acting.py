"""The guarded actions to the letter of the interface: plans, results, words, exit codes, messages.

Everything goes through the real command line, on real processes and real git remotes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.cli import main
from cockpit.model.plan import Outcome, Result
from cockpit.runtime.account import login_name
from cockpit.verbs.act import exit_code
from tests.test_interface import (
    PICK,
    any_of,
    each,
    instant,
    null_or,
    shape,
    text,
    texts,
    truth,
)
from tests.verbs.acting_run import World, git
from tests.verbs.tiny_run import command

CHECK = shape(
    id=text, level=any_of("pass", "warn", "block"), overridable=truth, text=text,
    value=null_or(text), basis=any_of("recorded", "observed", "inferred"),
)  # fmt: skip
PLAN = shape(
    schema=lambda value: value == 1, plan_id=text, action=text, run=text, words=text,
    blocked=truth, checks=each(CHECK), command=null_or(text), stops=texts, spares=texts,
    checkpoint=PICK, trainer_would_load=PICK,
)  # fmt: skip
RESULT = shape(
    schema=lambda value: value == 1, plan_id=text,
    outcome=any_of("done", "refused", "unknown", "failed"), job_id=null_or(text),
    launch_id=null_or(text), steps=each(shape(name=text, state=text, at=instant)),
)  # fmt: skip
NEEDED = {
    "rollback": ("--to", "40"), "handoff": ("--to", "bob"), "ack": ("end",),
    "adopt": ("4194303",),
    "lineage": ("--run-id", "b", "--wandb-id", "b", "--output-root", "/x/b", "--from", "40",
                "--reason", "why"),
    "sync": ("--entity", "us", "--project", "toys"),
    "extend": ("--limit", "12h"), "standing": ("--until", "2h"),
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


@pytest.fixture
def ended(world: World) -> World:
    """A run that was killed at step 44, with four complete checkpoints."""
    world.add("toy")
    world.save("toy", 10, 20, 40, 41)
    world.ended("toy", 137, "step 43/100000 loss=2.1", "step 44/100000 loss=2.1")
    assert world.said("log", "toy", "--confirm", "log toy").returncode == 0
    return world


def by_id(plan: dict[str, Any]) -> dict[str, Any]:
    return {check["id"]: check for check in plan["checks"]}


def states(result: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["state"] for step in result["steps"]}


def test_every_verb_prints_its_plan_and_does_nothing(ended: World) -> None:
    words = {
        "launch": "launch toy", "relaunch": "relaunch toy", "lineage": "lineage toy b",
        "rollback": "rollback toy 40", "stop": "stop toy", "seal": "seal toy 100000",
        "handoff": "handoff toy", "escalate": "escalate toy", "log": "log toy",
        "publish": "publish toy", "ack": "ack toy", "retain": "delete 1 from toy",
        "sync": "sync toy", "adopt": "adopt toy", "hold": "hold toy", "release": "release toy",
        "requeue": "requeue toy", "extend": "extend toy",
    }  # fmt: skip
    before = git(ended.folder / "records", "rev-parse", "HEAD")
    for row in TABLE:
        code, plan, said = ended.told(row.verb, "toy", *NEEDED.get(row.verb, ()))
        assert PLAN(plan), row.verb
        assert (code, said) == (4 if plan["blocked"] else 0, ""), row.verb
        assert (plan["action"], plan["run"]) == (row.verb, "toy")
        assert plan["words"] == words.get(row.verb, plan["words"])
        assert plan["blocked"] == any(check["level"] == "block" for check in plan["checks"])
    assert git(ended.folder / "records", "rev-parse", "HEAD") == before
    assert sorted(path.name for path in (ended.folder / "out/toy/checkpoints").iterdir()) == [
        "step-10", "step-20", "step-40", "step-41",
    ]  # fmt: skip


def test_words_plan_id_and_dry_run_decide(ended: World) -> None:
    _, plan, _ = ended.told("retain", "toy")
    assert plan["words"] == "delete 1 from toy" and not plan["blocked"]
    code, again, _ = ended.told("retain", "toy", "--dry-run", "--confirm", plan["words"])
    assert code == 0 and PLAN(again) and again["plan_id"] == plan["plan_id"]
    code, refused, _ = ended.told("retain", "toy", "--confirm", "delete 2 from toy")
    assert code == 4 and RESULT(refused) and refused["outcome"] == "refused"
    assert plan["words"] in refused["message"] and refused["steps"] == []
    code, _, said = ended.told("retain", "toy", "--plan", "000000000000")
    assert code == 4 and plan["plan_id"] in said
    code, refused, _ = ended.told(
        "retain", "toy", "--plan", "000000000000", "--confirm", plan["words"]
    )
    assert code == 4 and refused["outcome"] == "refused"
    ended.save("toy", 42)
    code, result, said = ended.told(
        "retain", "toy", "--plan", plan["plan_id"], "--confirm", plan["words"]
    )
    assert (code, said, result["outcome"]) == (0, "", "done") and RESULT(result), result
    left = sorted(path.name for path in (ended.folder / "out/toy/checkpoints").iterdir())
    assert left == ["step-20", "step-40", "step-41", "step-42"], "only what was listed is deleted"


def test_c_18_is_approved_key_by_key_and_hard_blocks_by_nobody(world: World) -> None:
    world.add("toy")
    assert world.said("log", "toy", "--confirm", "log toy").returncode == 0
    code, result, said = world.told("launch", "toy", "--confirm", "launch toy")
    assert (code, said, result["outcome"]) == (0, "", "done") and RESULT(result), result
    assert result["launch_id"] == "toy-i001" and result["job_id"] == f"pid:{world.pid('toy')}"
    world.until((world.folder / "out/toy/checkpoints/step-20/metadata.json").exists)
    code, plan, _ = world.told("stop", "toy")
    assert code == 0 and plan["stops"] and plan["words"].split()[:2] == ["stop", "toy"]
    world.kill("toy")
    (world.folder / "config.json").write_text(json.dumps({"lr": 0.2, "seed": 1}))

    def planned(*more: str) -> tuple[int, dict[str, Any], str]:
        return world.told("relaunch", "toy", *more)

    lr = ("--approve", "C-18:lr", "--by", "ada", "--reason", "a sweep")
    seed = ("--approve", "C-18:seed", "--by", "bob", "--reason", "too")
    code, plan, _ = planned()
    assert code == 4 and by_id(plan)["C-18:lr"]["overridable"]
    code, plan, _ = planned(*lr)
    assert code == 4 and by_id(plan)["C-18:lr"]["approved"]["reason"] == "a sweep"
    code, plan, said = planned(*lr, "--approve", "C-16", "--by", "ada", "--reason", "x")
    assert code == 4 and "cannot be approved" in said
    code, plan, said = planned(*lr, "--approve", "C-99", "--by", "ada", "--reason", "x")
    assert code == 4 and "no such check" in said
    code, plan, _ = planned(*lr, *seed)
    assert (code, plan["blocked"]) == (0, False)
    go = ("relaunch", "toy", "--confirm", "relaunch toy", "--plan", plan["plan_id"])
    code, result, _ = world.told(*go)
    assert (code, result["outcome"]) == (4, "refused"), "approvals are not remembered"
    code, result, _ = world.told(*go, *lr, *seed)
    assert (code, result["outcome"], result["launch_id"]) == (0, "done", "toy-i002"), result[
        "message"
    ]
    typed = f"bob, typed by ada (login {login_name()})"
    assert f"C-18:seed approved by {typed}: too" in world.book("toy")


def test_a_record_that_is_refused_is_6_and_says_why(ended: World) -> None:
    hook = ended.folder / "records.git" / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'policy: entries need a ticket' >&2\nexit 1\n")
    hook.chmod(0o755)
    code, result, _ = ended.told("log", "toy", "--event", "a note", "--confirm", "log toy")
    assert (code, result["outcome"], result["recorded"]) == (6, "done", False)
    assert "entries need a ticket" in result["message"]
    assert "a note" in ended.book("toy")
    hook.unlink()
    assert ended.said("log", "toy", "--event", "later", "--confirm", "log toy").returncode == 0
    pushed = git(ended.folder / "records.git", "show", "main:toy.md")
    assert "a note" in pushed and "later" in pushed


def test_an_interrupt_is_130_and_the_journal_tells_of_it(world: World) -> None:
    world.add("toy", grace="60s")
    (world.folder / "code" / "trainer.py").write_text(
        "import signal, time\nsignal.signal(15, lambda *_: None)\n"
        "while True:\n    print('step 1/9 loss=2', flush=True)\n    time.sleep(0.1)\n"
    )
    git(world.folder / "code", "commit", "-qam", "stay")
    git(world.folder / "code", "push", "-q")
    assert world.said("launch", "toy", "--confirm", "launch toy").returncode == 0
    words = world.told("stop", "toy")[1]["words"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    acting = subprocess.Popen(
        command("stop", "toy", "--confirm", words), cwd=world.folder, env=world.env,
        stderr=subprocess.PIPE, text=True,
        preexec_fn=heard,  # a suite in a shell's background ignores it, and so would its children
    )  # fmt: skip
    assert acting.stderr is not None
    while "stop …" not in acting.stderr.readline():
        assert acting.poll() is None
    time.sleep(0.3)
    acting.send_signal(signal.SIGINT)
    assert acting.wait(60) == 130
    assert "Traceback" not in acting.stderr.read()
    os.kill(world.pid("toy"), 0)
    _, plan, _ = world.told("stop", "toy")
    assert any("interrupted" in check["text"] for check in plan["checks"]), plan["checks"]


@pytest.mark.parametrize(
    ("outcome", "recorded", "expected"),
    [("done", True, 0), ("done", False, 6), ("refused", True, 4), ("unknown", True, 5),
     ("unknown", False, 5), ("failed", True, 1)],
)  # fmt: skip
def test_exit_codes(outcome: str, recorded: bool, expected: int) -> None:
    assert exit_code(Result(plan_id="x", outcome=Outcome(outcome), recorded=recorded)) == expected


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("stop tyo", "it has: toy"),
        ("rollback toy", "--to"),
        ("rollback toy --to soon", "soon"),
        ("handoff toy", "--to"),
        ("ack toy end --until tomorrowish", "tomorrowish"),
        ("relaunch toy --save-first maybe", "maybe"),
        ("relaunch toy --approve C-18:lr", "--by NAME"),
        ("relaunch toy --nonsense", "--nonsense"),
        ("lineage toy --run-id b --wandb-id b --output-root rel --from 1 --reason x", "absolute"),
        ("stop", "RUN"),
        ("frobnicate toy", "frobnicate"),
        ("history nobody", "it has: toy"),
        ("stop toy --config nowhere.toml", "nowhere.toml"),
    ],
)
def test_a_wrong_call_is_2_with_one_clear_line(
    world: World, call: str, said: str,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    world.add("toy")
    monkeypatch.chdir(world.folder)
    try:
        code: object = main(call.split())
    except SystemExit as left:
        code = left.code
    told = capsys.readouterr()
    assert (code, told.out) == (2, ""), call
    assert said in told.err.splitlines()[-1], told.err


def test_without_a_run_file_it_is_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for row in TABLE:
        assert main([row.verb, "toy", *NEEDED.get(row.verb, ()), "--json"]) == 2, row.verb
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1, row.verb


def test_history_is_one_document_and_looks_back(ended: World) -> None:
    assert ended.said("handoff", "toy", "--to", "bob", "--confirm", "handoff toy").returncode == 0
    code, told, said = ended.told("history", "toy")
    assert (code, said, told["schema"]) == (0, "", 1)
    assert "handoff" in json.dumps(told)
    code, before, _ = ended.told("history", "toy", "--at", "2020-01-01T00:00:00Z")
    assert code == 0 and "bob" not in json.dumps(before)

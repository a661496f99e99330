"""A-12: the meter stops only when everything is here and loads, and only once."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.sealing.pulled import compare, verified
from cockpit.actions.sealing.teardown import Teardown
from cockpit.model.place import place_of
from cockpit.model.plan import Approval, Outcome
from cockpit.model.run import TeardownSpec
from tests.actions.resting import Rest, blocks, job
from tests.sources.checkpoints.trees import put

PYTHON = sys.executable


def world(folder: Path, **changes: Any) -> Rest:
    done = folder / "done"
    plain: dict[str, Any] = {
        "command": (PYTHON, "-c", f"open({str(done)!r}, 'a').write('x')"),
        "kind": "terminate",
        "survives": ("network volume",),
        "pulled_to": str(folder / "artifacts"),
        "verify": (PYTHON, "-c", "print('OK 3/3, errors 0')"),
    }
    spec = TeardownSpec(**{**plain, **changes})
    rest = Rest(folder, Teardown(), teardown=spec)
    rest.save(499)
    shutil.copytree(folder / "out", folder / "artifacts")
    return rest


def ran(rest: Rest) -> str:
    done = rest.folder / "done"
    return done.read_text() if done.exists() else ""


async def test_verified_artifacts_and_the_words_let_it_run_once(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    assert (plan.words, blocks(plan)) == ("terminate local 3", {})
    meter = next(check.text for check in plan.checks if check.id == "meter")
    assert "stops the meter" in meter and "network volume" in meter and "cannot be undone" in meter
    assert (await rest.act("terminate local 2")).outcome is Outcome.REFUSED
    result = await rest.act(plan.words)
    assert (result.outcome, ran(rest)) == (Outcome.DONE, "x"), result.message
    assert "terminate" in rest.book.entries[0].title
    again = await rest.plan()
    assert "already torn down by" in blocks(again)["teardown"]
    assert (await rest.act(again.words)).outcome is Outcome.REFUSED
    assert ran(rest) == "x"


@pytest.mark.parametrize("how", ["missing", "short", "more", "link", "empty", "same"])
async def test_a_copy_that_is_not_the_source_blocks(tmp_path: Path, how: str) -> None:
    rest = world(tmp_path)
    copy = tmp_path / "artifacts"
    file = copy / "checkpoints" / "step-499" / "manifest.ocdbt"
    if how == "missing":
        file.unlink()
    if how == "short":
        file.write_bytes(b"m")
    if how == "more":
        put(copy / "else")
    if how == "link":
        file.unlink()
        file.symlink_to(tmp_path / "out" / "checkpoints" / "step-499" / "manifest.ocdbt")
    if how == "empty":
        shutil.rmtree(tmp_path / "out" / "checkpoints")
        (tmp_path / "out" / "checkpoints").mkdir()
    if how == "same":
        shutil.rmtree(copy)
        copy.symlink_to(tmp_path / "out")
    found = blocks(await rest.plan())
    assert "pulled" in found and "verified" in found
    assert ran(rest) == ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('OK 2/3')", "only 2 of 3"),
        ("print('OK 3/3, errors 1')", "1 errors"),
        ("import sys; sys.exit('shard 2 is torn')", "shard 2 is torn"),
        ("print('OK 0/0')", "nothing"),
    ],
)
async def test_what_does_not_load_blocks(tmp_path: Path, code: str, said: str) -> None:
    rest = world(tmp_path, verify=(PYTHON, "-c", code))
    assert said in blocks(await rest.plan())["verified"]


async def test_a_silent_success_verifies_every_file(tmp_path: Path) -> None:
    rest = world(tmp_path, verify=(PYTHON, "-c", ""))
    assert (await rest.plan()).words == "terminate local 3"


@pytest.mark.parametrize("lacking", ["command", "verify", "pulled_to"])
async def test_nothing_is_guessed(tmp_path: Path, lacking: str) -> None:
    assert (await world(tmp_path, **{lacking: None}).plan()).blocked


async def test_a_run_without_the_table_blocks(tmp_path: Path) -> None:
    assert "[run.teardown]" in blocks(await Rest(tmp_path, Teardown()).plan())["teardown"]


async def test_a_source_that_cannot_be_read_says_where_to_look(tmp_path: Path) -> None:
    rest = world(tmp_path)
    rest.spec = rest.spec.model_copy(update={"output_root": place_of("gs://bucket/toy")})
    assert "provider's console" in blocks(await rest.plan())["pulled"]


async def test_what_lives_is_never_torn_down(tmp_path: Path) -> None:
    rest = world(tmp_path)
    rest.platform.living = (job(),)
    assert "job-state" in blocks(await rest.plan())


@pytest.mark.parametrize("kind", ["delete_files", "cancel_storage"])
async def test_durable_storage_goes_last(tmp_path: Path, kind: str) -> None:
    assert "not sealed" in blocks(await world(tmp_path, kind=kind).plan())["storage"]


async def test_an_answer_that_was_lost_is_unknown_and_looked_up_first(tmp_path: Path) -> None:
    code = "import os; os.kill(os.getpid(), 9)"
    rest = world(tmp_path, command=(PYTHON, "-c", code))
    plan = await rest.plan()
    result = await rest.act(plan.words)
    assert result.outcome is Outcome.UNKNOWN
    assert "provider's console" in result.message
    again = await rest.plan()
    assert "was started, outcome unknown" in blocks(again)["teardown"]
    looked = [
        Approval(check=check, by="ada", reason="the console shows it running")
        for check in blocks(again)
    ]
    assert len(looked) == 2
    assert (await rest.act(again.words, looked[0])).outcome is Outcome.REFUSED
    assert (await rest.act(again.words, *looked)).outcome is Outcome.UNKNOWN


def test_our_own_notes_do_not_count(tmp_path: Path) -> None:
    put(tmp_path / "a" / "x")
    put(tmp_path / "a" / ".cockpit" / "lease")
    put(tmp_path / "b" / "x")
    found = compare(str(tmp_path / "a"), str(tmp_path / "b"))
    assert (found.count, found.trouble) == (1, None)


@given(good=st.integers(0, 10**6), of=st.integers(0, 10**6), artifacts=st.integers(1, 100))
def test_only_all_of_them_are_verified(good: int, of: int, artifacts: int) -> None:
    found = verified(f"loading\nOK {good}/{of}, errors 0\n", artifacts)
    assert (found == good) == (good == of and good > 0)

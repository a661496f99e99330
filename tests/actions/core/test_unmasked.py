"""Masking hides secrets and nothing else: ids, digests, paths and words stay as they are."""

from __future__ import annotations

import re
import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core.action import masked_plan
from cockpit.model.plan import Outcome
from cockpit.text.scrub import scrub
from tests.actions.launch_place import Place, approve, save


def texts(value: Any) -> list[str]:
    """Return every text in a document."""
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in texts(each)]
    return [value] if isinstance(value, str) else []


def assert_unmasked(*documents: Any) -> None:
    found = texts(list(documents))
    assert len(found) > 20
    assert [text for text in found if scrub(text) != text or "****" in text] == []


async def test_a_relaunch_and_all_that_is_written_of_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for step in (50, 80):
        save(place.root / "checkpoints", step)
    place.changes = {"resubmit": "train --config c.json --root {output_root} --from {checkpoint}"}
    plan = await place.plan()
    blocks = [check.id for check in plan.checks if check.stands_in_the_way]
    result = await place.act(approvals=tuple(map(approve, blocks)))
    assert result.outcome is Outcome.DONE, result.message
    assert masked_plan(plan) == plan
    entries = [entry.to_json() for entry in await place.service.history("toy")]
    book = place.book
    written = [*(each.to_json() for each in (*book.events, *book.instances)), book.comments]
    assert any("sha256" in text for text in texts(written))
    assert_unmasked(plan.document(), result.document(), entries, written, book.commits)


async def test_other_plans(tmp_path: Path) -> None:
    place = Place(tmp_path)
    for step in (50, 80, 90):
        save(place.root / "checkpoints", step)
    plans = [
        await place.plan("rollback", to="50", move="yes", reason="loss spike at 60"),
        await place.plan("retain", keep="1"),
        await place.plan("handoff", to="bob", note="watch the key metric; pass it on"),
        await place.plan("lineage", run_id="toy-2", wandb_id="6ktyafba", reason="secret sauce",
                         output_root=str(tmp_path / "other"), **{"from": "80"}),
        await place.plan("stop", reason="the token counts are off"),
        await place.plan("publish"),
        await place.plan("seal"),
    ]  # fmt: skip
    assert_unmasked(*(plan.document() for plan in plans))


HEX = st.text("0123456789abcdef", min_size=40, max_size=40)
NAMES_A_SECRET = re.compile("pass|token|secret|key|auth|cred")
"""An id that is such a word, ``password``, may cost what stands behind it."""


def ids(words: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return words.filter(lambda word: NAMES_A_SECRET.search(word) is None)


SLUG = ids(st.from_regex(r"[a-z][a-z0-9]{1,9}(-[a-z0-9]{1,8}){0,4}", fullmatch=True))
WANDB_ID = ids(st.text(string.ascii_lowercase + string.digits, min_size=8, max_size=8))
BEHIND = ("relaunch {slug}", "delete 12 from {slug}", "seal {slug} 5000", "{slug}-i003",
          "seal/{slug}/5000", "git sha {sha}", "commit {sha}, tree dirty", "- Git SHA: {sha}",
          "config sha256 {sha}{sha:.24}", "patch identity {sha}", "W&B: {wandb} · p/{wandb}",
          "https://wandb.ai/team/{slug}/runs/{wandb}", "wandb id {wandb}, name {slug}",
          "gs://bucket/{slug}/checkpoints/step-46000/metadata.json", "pid:417183",
          "/data/{slug}/checkpoints/iter_0000500", "job_id={slug}-i001", "owner {slug}, pid 4711",
          "started {slug}-i003: pid:4711", "launch_id={slug}-i003\nticks=4711842\nboot={sha:.36}",
          "Command: `python train.py --run {slug} --wandb_id {wandb} --sha {sha}`",
          "Config: 12 settings, sha256 {sha}{sha:.24} (config.json)")  # fmt: skip


@pytest.mark.parametrize("form", BEHIND)
@given(SLUG, HEX, WANDB_ID)
def test_ids_and_digests_stay(form: str, slug: str, sha: str, wandb: str) -> None:
    text = form.format(slug=slug, sha=sha, wandb=wandb)
    assert scrub(text) == text


def test_every_word_that_a_person_types_stays() -> None:
    from cockpit.actions.core.table import TABLE

    for row in TABLE:
        for run in ("grug-moe-1e23-ep8", "token-mixer-7b", "secret-santa", "key-value-1b"):
            words = row.asks.replace("RUN", run).replace("STEP", "46000")
            assert scrub(words) == words

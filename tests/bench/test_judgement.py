"""A small slice of what ``make judgement`` plays and scores, and that its scores can be bad."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.judgement import labelled, tables
from bench.judgement.clock import HOUR
from bench.judgement.filled import filled
from bench.judgement.playing import FOUND, LATE, MISSED, NOISY, QUIET, Played, play
from bench.judgement.polled import polled
from bench.judgement.scenario import Scenario
from bench.judgement.scenarios import ALL

SLICE = (
    "the job ends with a traceback",
    "the monitor dies",
    "the job waits for resources",
    "no first step",
    "the loss becomes nan",
    "a second job writes to the same root",
    "success far short of the final step",
    "a slow start",
    "its last checkpoint is one step before the final one",
    "the log is rotated",
)


def scenario(name: str) -> Scenario:
    return next(each for each in ALL if each.name == name)


@pytest.mark.parametrize("name", SLICE)
def test_a_slice_of_the_generated_runs(name: str) -> None:
    found = play(scenario(name), seed=5)
    assert found.outcome == (QUIET if found.wants is None else FOUND), found
    assert not found.false and not found.faults
    assert found.closed in ("", "closed")


def test_a_fault_that_never_comes_is_missed_and_one_seen_late_is_late() -> None:
    quiet, ill = scenario("a slow start"), scenario("the job ends with a traceback")
    assert play(replace(quiet, wants="C-01", fault=HOUR), seed=1).outcome == MISSED
    assert play(replace(ill, fault=ill.fault - 2 * HOUR), seed=1).outcome == LATE


def test_an_alarm_in_a_look_alike_and_one_before_its_fault_are_false() -> None:
    ill = scenario("the job ends with a traceback")
    noisy = play(replace(ill, wants=None), seed=1)
    assert noisy.outcome == NOISY and [told[0] for told in noisy.false] == ["C-01"]
    early = play(replace(ill, fault=ill.fault + 2 * HOUR), seed=1)
    assert [told[0] for told in early.false] == ["C-01"]


def test_the_same_seed_gives_the_same_run() -> None:
    one, two = (play(scenario("no first step"), seed=3) for _ in range(2))
    assert replace(one, took=0.0) == replace(two, took=0.0)


def test_every_condition_has_a_fault_or_says_why_not() -> None:
    wanted = {each.wants for each in ALL}
    excused = {*tables.NO_GENERATOR, *tables.ONLY_ALIKE}
    assert {name for name in tables.IDS if name not in wanted} == excused
    assert set(tables.ONLY_ALIKE) <= {each.like for each in ALL}
    assert len({each.name for each in ALL}) == len(ALL)


def test_triage_is_scored_by_class_action_and_harm() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/x/train.py", line 3, in <module>\n'
        "    import torhc\nModuleNotFoundError: No module named 'torhc'\n"
    )
    right = {"id": "a", "text": text, "observed_state": "failed", "exit_code": 1,
             "label": "small_code_bug", "action": "fix_then_relaunch"}  # fmt: skip
    wrong = {**right, "id": "b", "label": "success", "action": "wait"}
    stop = {"id": "c", "text": "KeyboardInterrupt\n", "observed_state": "cancelled",
            "label": "node_death", "action": "escalate"}  # fmt: skip
    found = labelled.triaged([right, wrong, stop])
    assert (found.classes.right, found.classes.of, found.actions.right) == (1, 3, 1)
    assert len(found.dangerous) == 1 and found.dangerous[0].startswith("c ")
    assert found.confusion["success", "small_code_bug"] == 1
    assert "| success | " in tables.triage_part(found)


def test_progress_is_scored_field_by_field() -> None:
    line = {"id": "a", "text": "step 120/2000 loss 2.5", "is_training_progress": True, "step": 120,
            "step_exact": True, "max_step": 2000, "loss": 2.4, "throughput": None,
            "scope": "run"}  # fmt: skip
    download = {"id": "b", "text": "Downloading: 5/9 files", "is_training_progress": True}
    told, fields = labelled.read_progress([line, download])
    assert (told.right, told.of) == (1, 2)
    assert (fields["step"].right, fields["loss"].right, fields["loss"].of) == (2, 1, 2)


def test_secrets_are_scored_both_ways() -> None:
    key = "sk-ant-api03-" + "x1Y" * 31 + "AA"
    entries: list[dict[str, object]] = [
        {"id": "a", "text": f"export ANTHROPIC_API_KEY={key}", "secrets": [key]},
        {"id": "b", "text": "step 12 of 500", "secrets": ["of"]},
        {"id": "c", "text": "nothing here"},
        {"id": "d", "text": f"token {key}"},
    ]
    masked, left = labelled.scrubbed(entries)
    assert (masked.right, masked.of, left.right, left.of) == (1, 2, 1, 2)


def test_labelled_secrets_are_filled_alike_in_text_and_label() -> None:
    for entry in labelled.entries(labelled.HERE, "secrets.jsonl"):
        whole = filled(entry)
        assert "<%" not in whole["text"], entry["id"]
        assert all(secret in whole["text"] for secret in whole["secrets"]), entry["id"]


@pytest.mark.parametrize("way", [labelled.replayed, polled], ids=["row by row", "watched"])
def test_alarms_are_scored_by_event_and_by_quiet_row(
    way: Callable[[str], labelled.Told], tmp_path: Path
) -> None:
    def answers(paths: Sequence[str]) -> list[labelled.Told]:
        return [way(path) for path in paths]

    def entry(name: str, label: str, where: list[int], bad: range) -> tuple[dict[str, object], str]:
        path = tmp_path / f"{name}.jsonl"
        losses = (float("nan") if step in bad else 2.0 for step in range(400))
        rows = (json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(losses))
        path.write_text("\n".join(rows) + "\n")
        return {"name": name, "label": label, "where": where}, str(path)

    found = labelled.alarmed(
        [
            entry("true", "nan", [300, 399], range(300, 400)),
            entry("none", "nan", [300, 399], range(0)),
            entry("false", "healthy", [], range(50, 60)),
        ],
        answers,
    )
    assert (found.events.right, found.events.of) == (1, 2)
    assert found.delays == [0 if way is labelled.replayed else 59]  # 90 rows a look
    assert len(found.false) == 1 and found.rows == 1000
    assert found.per_10k == 10.0


def test_a_miss_and_a_false_alarm_stay_in_the_tables() -> None:
    played = [
        Played("a fault", "C-09", "C-09", MISSED, (), ()),
        Played("a week", None, "all", NOISY, (("C-05", "k", "slow", 60.0),),
               (("C-05", "k", "slow", 60.0),), rows=10_000, quiet_for=7 * 24 * HOUR),
    ]  # fmt: skip
    text = tables.generated_part(played)
    assert "| faults found in time | 0 of 1 (0%) |" in text
    assert "C-09 missed: a fault" in text and "C-05 false in “a week”" in text
    assert "| false alarms per run-week | 1.00 |" in text

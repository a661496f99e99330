from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.checks.config_file import (
    MOST,
    ResolvedConfig,
    command_drift,
    config_drift,
    digest,
    flattened,
    read_config,
    settled,
)
from tests.actions.contexts import by_id, hard, levels, soft

OLD = {"optimizer": {"lr": 1e-3, "betas": [0.9, 0.95]}, "trainer": {"seed": 0, "steps": 100.0}}


def config(document: object, source: str = "launch toy-i001") -> ResolvedConfig:
    return ResolvedConfig(values=flattened(document), source=source)


def changed(**sections: object) -> dict[str, object]:
    return {**OLD, **sections}


def test_equal_configs_pass_whatever_way_numbers_are_written() -> None:
    now = config({"optimizer": {"lr": 0.001, "betas": [0.9, 0.95]},
                  "trainer": {"seed": 0, "steps": 100}})  # fmt: skip
    drift = config_drift(config(OLD), now, whole=True)
    (check,) = settled([drift], "launch toy-i001")
    assert check.level.value == "pass" and "(4 settings)" in check.text


def test_each_difference_is_one_block_that_can_be_approved() -> None:
    now = config(changed(optimizer={"lr": 3e-3, "betas": [0.9, 0.99]}, extra={"flag": True}))
    drift = config_drift(config(OLD), now, whole=True)
    assert set(levels(drift.checks)) == {"C-18:optimizer.lr", "C-18:optimizer.betas",
                                         "C-18:extra.flag"}  # fmt: skip
    assert all(soft(check) for check in drift.checks)
    assert by_id(drift.checks, "C-18:optimizer.lr").text.endswith("ran 0.001, would run 0.003")
    assert drift.differences[0].what.startswith("optimizer")


def test_a_setting_that_is_gone_counts_between_two_snapshots_of_one_file() -> None:
    gone = config({"optimizer": OLD["optimizer"], "trainer": {"steps": 100}})
    assert "C-18:trainer.seed" in levels(config_drift(config(OLD), gone, whole=True).checks)
    by_tracker = config_drift(config(OLD, "the tracker's config"), gone, whole=False)
    assert levels(by_tracker.checks) == {"C-18:uncompared": "warn"}


def test_a_tracker_of_another_shape_is_not_compared_key_by_key() -> None:
    other = config({"cfg": {"optimizer": {"lr": 1e-3}}, "wandb_version": 1})
    drift = config_drift(other, config(OLD), whole=False)
    assert levels(drift.checks) == {"C-18:uncompared": "warn"}
    assert drift.compared == 0


def test_what_differs_by_itself_is_noise() -> None:
    was = config({**OLD, "run_dir": "/a", "hostname": "n1", "_wandb": {"x": 1}, "timestamp": 1})
    now = config({**OLD, "run_dir": "/b", "hostname": "n2", "_wandb": {"x": 2}, "timestamp": 2})
    assert config_drift(was, now, whole=True).checks == ()


def test_an_unknown_config_is_a_labelled_warning() -> None:
    unread = ResolvedConfig(source="x", trouble="x: permission denied")
    for was, now in ((None, config(OLD)), (config(OLD), None), (config(OLD), unread)):
        (check,) = config_drift(was, now, whole=True).checks
        assert (check.level.value, check.basis.value) == ("warn", "inferred")


def test_another_config_altogether_is_not_approved_key_by_key() -> None:
    now = config({f"k{n}": n for n in range(MOST + 5)})
    checks = config_drift(config({}), now, whole=True).checks
    assert len(checks) == MOST + 1 and hard(by_id(checks, "C-18:more"))


def test_secrets_in_values_are_masked() -> None:
    was = config({"api_key": "hf_abcdefghijklmnopqrstuvwxyz012345", "url": "x"})
    now = config({"api_key": "hf_abcdefghijklmnopqrstuvwxyz012345", "url": "https://u:pass1@h/"})
    text = repr(config_drift(was, now, whole=True))
    assert "hf_abc" not in text and "pass1" not in text and "C-18:url" in text


def test_flags_are_compared_in_any_order() -> None:
    was = ("python", "t.py", "--lr", "1", "--seed=0")
    assert command_drift(was, ("python", "t.py", "--seed=0", "--lr", "1")).checks == ()
    drift = command_drift(was, ("python", "t.py", "--lr", "2", "--new"))
    assert set(levels(drift.checks)) == {
        "C-18:command --lr", "C-18:command --seed", "C-18:command --new",
    }  # fmt: skip
    assert levels(command_drift(None, was).checks) == {"C-18:command": "warn"}


def test_how_a_record_quoted_the_command_does_not_matter() -> None:
    assert command_drift(("a", "b c"), ("a", "b", "c")).checks == ()
    older = tuple(["sh", "-c", "cd", "/r", "&&", "t", "--load", "/ck/step-80", "--lr", "1"])
    now = ("sh", "-c", "cd /r && t --load {checkpoint}", "--lr", "1")
    assert command_drift(older, now).checks == ()


@pytest.mark.parametrize("between", ["--clip 5", "--lr 2 && u"])
def test_behind_the_checkpoint_of_a_shells_line_no_setting_is_taken_for_a_part_of_it(
    between: str,
) -> None:
    now = ("sh", "-c", "t --load {checkpoint} --lr 1")
    assert command_drift(("sh", "-c", "t --load /ck/step-80 --lr 1"), now).checks == ()
    drift = command_drift(("sh", "-c", f"t --load /ck/step-80 {between} --lr 1"), now)
    assert set(levels(drift.checks)) == {"C-18:command -c"}


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), values, max_size=6))
def test_a_config_equals_itself_and_its_digest_is_stable(document: dict[str, object]) -> None:
    one, two = config(document), config(json.loads(json.dumps(document)))
    assert one.values is not None and two.values is not None
    assert digest(one.values) == digest(two.values)
    assert config_drift(one, two, whole=True).checks == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.json", '{"a": {"b": 1}}'), ("c.toml", "[a]\nb = 1\n"), ("c.yaml", "a:\n  b: 1\n")],
)
def test_files_are_read_by_their_name(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert read_config(str(tmp_path / name)).values == {"a.b": "1"}


@pytest.mark.parametrize(
    ("name", "text"),
    [("c.json", "{"), ("c.toml", "a = "), ("c.yaml", "a: [b"), ("c.txt", "x"), ("c.json", "[1]"),
     ("c.json", "[" * 100_000)],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_config(str(tmp_path / name))
    assert found.values is None and found.trouble and name in found.trouble


def test_a_pipe_or_no_file_does_not_hang(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "c.json")
    assert read_config(str(tmp_path / "c.json")).trouble
    assert "no such file" in (read_config(str(tmp_path / "no.json")).trouble or "")

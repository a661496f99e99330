"""The final step as the usual trainers' configs and commands tell it (SPEC C-20).

A late regex answers as ``re`` would, and costs nothing until it is asked.

What charts are drawn from.

The base of values.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from cockpit.model.base import Frozen
from cockpit.model.curve import PackedColumns, log_values, round_values
from cockpit.model.finalstep import FinalStepSource, differing, final_step_in, final_step_of_command
from cockpit.model.late_regex import late_regex
from cockpit.model.observed import Column, Row
from cockpit.model.shared_facts import SharedFact, own_word, owner_now, taken_in, typist, worded
from cockpit.sources.curve_fold import LossColumns

TRAINERS: list[tuple[dict[str, Any], int | None]] = [
    ({"trainer": {"num_train_steps": 119_209}}, 119_209),  # Levanter
    ({"trainer": {"trainer": {"num_train_steps": 700}}}, 700),  # a hero loop's
    ({"trainer.num_train_steps": 700}, 700),
    ({"max_steps": 5155, "num_train_epochs": 3.0}, 5155),  # Hugging Face
    ({"max_steps": -1, "num_train_epochs": 2.5, "num_update_steps_per_epoch": 101}, 253),
    ({"train_iters": 500_000, "train_samples": None}, 500_000),  # Megatron
    ({"train-iters": "500000"}, 500_000),
    ({"train_iters": None, "train_samples": 1_001, "global_batch_size": 10}, 100),
    ({"trainer": {"max_steps": 10_000, "max_epochs": -1}}, 10_000),  # Lightning, NeMo
    ({"training": {"steps": 10_000, "warmup_steps": 200}}, 10_000),  # torchtitan
    ({"max_iters": 600_000, "lr_decay_iters": 600_000}, 600_000),  # nanoGPT
    ({"SOLVER": {"MAX_ITER": 90_000}}, 90_000),  # Detectron2
    ({"optimization": {"max_update": [], "max_epoch": 0}}, None),  # fairseq, not set
    ({"max_duration": "4800ba"}, 4800),  # Composer
    ({"max_duration": "2ep"}, None),
    ({"num_epochs": 3, "steps_per_epoch": 40}, 120),
    ({"num_epochs": 3}, None),
]

NOT_IT: list[dict[str, Any]] = [
    {},
    {"eval": {"max_steps": 50}},
    {"lr_scheduler": {"num_training_steps": 90}},
    {"optimizer": {"train_steps": 90}},
    {"checkpointer": {"steps": 100}},
    {"max_steps": True},
    {"max_steps": float("nan")},
    {"max_steps": 12.5},
    {"max_steps": "5.16k"},  # a rounded text is never a final step
    {"max_steps": "many"},
]


@pytest.mark.parametrize(("config", "step"), TRAINERS)
def test_the_settings_of_the_usual_trainers_tell_it(
    config: dict[str, Any], step: int | None
) -> None:
    found = final_step_in(config, "config")
    assert (found.step if found is not None else None) == step


@pytest.mark.parametrize("config", NOT_IT)
def test_what_means_something_else_does_not(config: dict[str, Any]) -> None:
    assert final_step_in(config, "config") is None


def test_the_source_names_the_setting_and_a_hostile_key_is_not_repeated() -> None:
    found = final_step_in({"trainer": {"num_train_steps": 9}}, "the tracker's config")
    assert found is not None
    assert found.source == "the tracker's config: trainer.num_train_steps"
    hostile = final_step_in({"a\x1b[31m": {"max_steps": 9}}, "config")
    assert hostile is not None
    assert hostile.source == "config: max_steps"


def test_settings_that_differ_tell_nothing_and_say_so() -> None:
    found = final_step_in({"max_steps": 100, "trainer": {"num_train_steps": 200}}, "config")
    assert found is not None
    assert found.step is None
    assert "max_steps = 100" in str(found.why)
    assert "trainer.num_train_steps = 200" in str(found.why)


def test_samples_of_a_batch_size_that_ramps_up_are_no_exact_count() -> None:
    config = {"train_samples": 1000, "global_batch_size": 10, "rampup_batch_size": [2, 2, 100]}
    found = final_step_in(config, "config")
    assert found is not None
    assert (found.step, "ramps up" in str(found.why)) == (None, True)


def test_a_job_that_ends_at_an_interval_ends_no_run() -> None:
    found = final_step_in({"train_iters": 5000, "exit_interval": 1000}, "config")
    assert found is not None
    assert (found.step, "multiple of 1000" in str(found.note)) == (5000, True)
    late = final_step_in({"train_iters": 5000, "exit_interval": 5000}, "config")
    assert late is not None
    assert late.note is None


COMMANDS = [
    ("torchrun --nproc-per-node 8 pretrain.py --train-iters 500 --lr 1e-4", 500),
    ("python train.py trainer.max_steps=700 +data.train_steps=9", 700),
    ("python train.py --max_iters=10 --max_iters=20", 20),
    ("python train.py --max_steps -1", None),
    ("python train.py --eval.max_steps 5", None),
    ("python train.py 'unclosed", None),
]


@pytest.mark.parametrize(("command", "step"), COMMANDS)
def test_a_commands_flags_tell_it(command: str, step: int | None) -> None:
    found = final_step_of_command(command, "resubmit command")
    assert (found.step if found is not None else None) == step


def test_two_sources_that_differ_are_both_said_and_one_step_apart_is_the_same_end() -> None:
    first = FinalStepSource(step=1000, source="run file", explicit=True)
    assert differing([first, FinalStepSource(step=999, source="config")]) is None
    said = differing([first, FinalStepSource(step=900, source="config: max_steps")])
    assert said == "config: max_steps: 900"
    unread = FinalStepSource(step=None, source="final_step_from c.json", explicit=True, why="gone")
    assert differing([unread, first]) == "final_step_from c.json: gone"
    assert differing([]) is None


def test_it_answers_as_the_pattern_does() -> None:
    late, plain = late_regex(r"(?P<step>\d+)/\d+", re.I), re.compile(r"(?P<step>\d+)/\d+", re.I)
    for _ in range(2):  # the second answer is one that was kept
        match = late.search("step 3/10")
        assert match is not None and match["step"] == "3" and match.re is plain
        assert late.sub("x", "1/2 3/4") == "x x"
    assert late.pattern == plain.pattern and late.groupindex == plain.groupindex


def test_it_takes_bytes() -> None:
    assert late_regex(rb"\d+").findall(b"1 22") == [b"1", b"22"]


def test_it_is_compiled_when_it_is_asked_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    plain = re.compile

    def noting(expression: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(expression)
        return plain(expression, flags)

    monkeypatch.setattr(re, "compile", noting)
    late = late_regex("a+")
    assert compiled == []
    late.match("aa")
    late.match("a")
    assert compiled == ["a+"]


def test_what_is_no_expression_is_told_at_its_first_use() -> None:
    late = late_regex("(")
    with pytest.raises(re.error):
        late.search("")


def handed(to: str, of: str, at: float, typed_by: str = "", named: str = "ada") -> SharedFact:
    parts = {"from": of, "run file": named}
    return SharedFact(
        what="owner", value=to, at=at, typed_by=typed_by or of, parts=parts, source="book"
    )


def test_a_handover_stands_until_another_handover() -> None:
    told = [handed("carol", "bob", 20.0), handed("bob", "ada", 10.0)]
    assert owner_now("toy", "ada", []).name == "ada"
    assert owner_now("toy", None, told).name == "carol"
    agreed = owner_now("toy", "Carol", told)
    assert (agreed.name, agreed.differs, agreed.remedy) == ("carol", None, None)


@pytest.mark.parametrize(
    ("named", "differs", "remedy"),
    [
        ("ada", "the run file still names ada", 'dri = "bob" in the run file; or cockpit handoff'),
        ("dave", "the run file names dave", "cockpit handoff 'a run' --to dave; or dri = "),
    ],
)
def test_a_run_file_that_names_another_is_told_with_what_helps(
    named: str, differs: str, remedy: str
) -> None:
    found = owner_now("a run", named, [handed("bob", "ada", 10.0)])
    assert (found.name, found.differs) == ("bob", differs)
    assert found.remedy is not None and found.remedy.startswith(remedy)


def test_who_typed_stands_beside_whose_word_it_is() -> None:
    assert owner_now("toy", "ada", [handed("bob", "ada", 1.0, "bob")]).by == "ada, typed by bob"
    assert (typist("ada", "ada"), typist("Ada", "root")) == ("ada", "Ada (login root)")
    assert worded("ada", "Ada (login root)") == "Ada (login root)"
    assert worded("ada", "bob (login root)") == "ada, typed by bob (login root)"
    assert worded("ada", None) == "ada"


@pytest.mark.parametrize(
    ("typed_by", "own"),
    [
        ("ada", True), ("Ada (login root)", True), ("bob", False), ("bob (login ada)", False),
        ("ada (login bob)", False), ("agent:ada", False), ("ada (login carol)", True),
    ],
)  # fmt: skip
def test_a_word_is_somebodys_own(typed_by: str, own: bool) -> None:
    assert own_word("ada", typed_by, {"ada", "bob"}) is own


def test_an_acknowledgement_is_of_the_alert_that_stood_then() -> None:
    told = [
        SharedFact(what="acknowledged", value="C-09", at=at, typed_by="ada", parts={"by": by})
        for at, by in ((5.0, "eve"), (20.0, "ada"), (15.0, "bob"))
    ]
    found = taken_in(told, "C-09", 10.0)
    assert found is not None and (found[1].by, found[1].at) == ("ada", 20.0)
    assert taken_in(told, "C-09", 21.0) is None and taken_in(told, "C-01", 0.0) is None


steps = st.integers(-(2**63), 2**63 - 1)
figures = st.one_of(st.none(), st.floats(allow_nan=False))
columns = st.builds(Column, steps, steps, figures, figures, figures, st.integers(0, 10**9))


@given(every=st.lists(columns, max_size=20), cut=st.slices(20))
def test_the_same_columns_come_out(every: list[Column], cut: slice) -> None:
    packed = PackedColumns(every)
    assert list(packed) == every == [packed[at] for at in range(len(packed))]
    assert list(packed[cut]) == every[cut]
    assert packed == PackedColumns(every) and hash(packed) == hash(PackedColumns(every))
    assert packed == tuple(every)


def test_others_are_others() -> None:
    gap = Column(1, 2, None, None, None, 1)
    assert PackedColumns([gap]) == PackedColumns([gap])
    assert PackedColumns([gap]) != PackedColumns([gap._replace(nonfinite=2)])
    assert PackedColumns([gap]) != PackedColumns([gap, gap])
    assert PackedColumns([gap]) != "1"


def test_a_step_that_no_run_has_is_refused() -> None:
    with pytest.raises(OverflowError):
        PackedColumns([Column(2**63, 2**63, 1.0, 1.0, 1.0)])


def test_a_thousand_rows_and_their_columns_take_forty_bytes_each() -> None:
    rows = [Row(step, None, 2.5 + step) for step in range(1000)]
    kept = LossColumns()
    tracemalloc.start()
    try:
        kept.add(rows)
        shown = kept.columns()
        bytes_kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(shown) == 1000 and bytes_kept < 40_000


ABOVE_ZERO = st.floats(min_value=5e-324, max_value=1.7e308)


@pytest.mark.parametrize("values", [log_values, round_values])
@given(ends=st.tuples(ABOVE_ZERO, ABOVE_ZERO), count=st.integers(1, 12))
@example(ends=(1.0, 1.0000000000000655e308), count=3)
@example(ends=(5e-324, 1.7e308), count=5)
def test_labels_lie_between_the_ends_in_their_order(
    values: Callable[[float, float, int], list[float]], ends: tuple[float, float], count: int
) -> None:
    low, high = sorted(ends)
    found = values(low, high, count)
    assert found == sorted(found) and low <= found[0] and found[-1] <= high


class Sample(Frozen):
    a: int = 1
    b: tuple[int, ...] = ()
    c: str | None = None


@pytest.mark.parametrize("update", [None, {}, {"a": 2}, {"b": (1,), "c": "x"}, {"c": None}])
@pytest.mark.parametrize("sample", [Sample(), Sample(a=5), Sample(a=1, b=(3,), c="y")])
def test_a_copy_is_what_pydantic_would_make(sample: Sample, update: dict[str, Any] | None) -> None:
    before = deepcopy(sample)
    ours, theirs = sample.model_copy(update=update), BaseModel.model_copy(sample, update=update)
    assert ours == theirs and type(ours) is Sample
    assert ours.model_fields_set == theirs.model_fields_set
    assert ours.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    assert (sample, sample.model_fields_set) == (before, before.model_fields_set), "as it was"


def test_a_copy_of_a_copy_has_no_set_of_its_own_and_stays_frozen() -> None:
    one = Sample().model_copy(update={"a": 2})
    other = one.model_copy(update={"a": 3})
    assert other.__pydantic_fields_set__ is one.__pydantic_fields_set__
    with pytest.raises(ValidationError):
        other.a = 4  # type: ignore[misc]
    assert hash(other) == hash(Sample(a=3))


def test_values_of_which_the_same_was_given_share_one_set_however_they_were_made() -> None:
    made = Sample(a=2), Sample.model_validate({"a": 3}), Sample.model_construct(a=4)
    other = Sample().model_copy(update={"a": 5})
    assert len({id(each.__pydantic_fields_set__) for each in (*made, other)}) == 1
    assert Sample(a=2, b=()).model_fields_set == {"a", "b"} and made[0].model_fields_set == {"a"}


def test_a_deep_copy_shares_nothing() -> None:
    one = Sample(b=(1,))
    other = one.model_copy(update={"a": 9}, deep=True)
    assert other == Sample(a=9, b=(1,)) and other.__dict__ is not one.__dict__


ROOT = Path(__file__).resolve().parents[2]
PLUGIN = """
raise SystemExit("a plugin was loaded")
"""
PROGRAM = """
import sys
from cockpit.model.run import UiSpec
assert UiSpec.model_validate({"ascii": True}).ascii
print(*(each for each in ("importlib.metadata", "email") if each in sys.modules))
"""


def test_no_plugin_is_looked_for(tmp_path: Path) -> None:
    about = tmp_path / "nosy-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: nosy\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pydantic]\nnosy = nosy:plugin\n")
    (tmp_path / "nosy.py").write_text(PLUGIN)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "\n", "")

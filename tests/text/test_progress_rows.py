"""Lines of progress that a row of data reads: every example is tried against every row."""

from __future__ import annotations

import pytest

from cockpit.text.fields import shape_of
from cockpit.text.progress import Row, plain, progress_rows
from cockpit.text.progress_lines import read_lines

EXAMPLES = [(row, example) for row in progress_rows() for example in row.examples]


@pytest.mark.parametrize(("row", "example"), EXAMPLES, ids=[row.id for row, _ in EXAMPLES])
def test_an_example_is_read_as_its_row_says_and_by_no_other(
    row: Row, example: dict[str, object]
) -> None:
    line = str(example["line"])
    ((_, found),) = read_lines([line])
    said = {"step": found.step, "most": found.max_step, "loss": found.loss}
    assert said == {name: example.get(name) for name in said}
    assert found.scope == row.scope
    shape = shape_of(plain(line)).shape
    assert [each.id for each in progress_rows() if each.pattern.search(shape)] == [row.id]


def test_every_row_has_an_example_and_a_name_of_its_own() -> None:
    rows = progress_rows()
    assert all(row.examples for row in rows)
    assert len({row.id for row in rows}) == len(rows)


@pytest.mark.parametrize(
    "line",
    [
        "Epoch 3/500",
        "37700 val 3.571585",
        "37700 train files",
        "[15,   250/ 2562] - test_losses - Parent Class: 1.2",
        "loaded: 5;skipped: 2:  50%|█████     | 5/10 [00:05<00:05,  1.01it/s]",
    ],
)
def test_a_line_that_only_looks_alike_is_none(line: str) -> None:
    assert not list(read_lines([line]))


def test_a_bar_that_is_described_by_metrics_alone_is_of_the_training() -> None:
    line = "d: -0.001;gen: -0.006:  96%|█████████▌| 19243/20000 [11:47:36<25:51,  2.05s/it]"
    ((_, found),) = read_lines([line])
    assert (found.step, found.max_step) == (19243, 20000)

"""Rows of a table of training are read by the names above them."""

from __future__ import annotations

import pytest

from cockpit.text.progress_lines import Nesting, read_chunks, read_lines, read_more, read_raw

FASTAI = """epoch     train_loss  valid_loss  accuracy  time
0         0.513122    0.400012    0.812000  00:03
Better model found at epoch 0 with valid_loss value: 0.400012.
1         0.413122    0.300012    0.832000  00:03"""
CSV = """train/loss_step,global_step,epoch,created_at
0.2514,49.0,0,2025-11-07 06:02:10.484610
0.0960,99.0,0,2025-11-07 06:09:01.771131"""
NOTEBOOK = "Step\tTraining Loss\tValidation Loss\n10\t1.23\t1.40\n20\t1e-05\t1.30"
PAINTED = "| step | train loss |\n|------|------------|\n| 1 | 0.5 |\n| 2 | nan |"


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (FASTAI, [(2, "epochs", 0, 0.513122), (4, "epochs", 1, 0.413122)]),
        (CSV, [(2, "run", 49, 0.2514), (3, "run", 99, 0.096)]),
        (NOTEBOOK, [(2, "run", 10, 1.23), (3, "run", 20, 1e-05)]),
        (PAINTED, [(3, "run", 1, 0.5)]),
    ],
)
def test_a_row_is_read_by_the_names_above_it(
    table: str, told: list[tuple[int, str, int, float]]
) -> None:
    found = read_lines(table.split("\n"))
    rows = [(number, one.scope, one.step, one.loss) for number, one in found]
    assert rows[: len(told)] == told


@pytest.mark.parametrize(
    "lines",
    [
        ["epoch  val_loss  val_acc", "1  0.5  0.6"],
        ["name  size  loss", "1  2.0  0.5"],
        ["epoch  train_loss  time", "1  0.5"],
        ["epoch  train_loss  time", "1  0.5  never"],
        ["1  0.5  00:03"],
    ],
)
def test_what_is_no_row_of_a_training_tells_nothing(lines: list[str]) -> None:
    assert not list(read_lines(lines))


def test_a_table_is_over_where_no_row_comes_for_long() -> None:
    head, row = "step  train_loss", "7  0.5"
    assert [number for number, _ in read_lines([head, *["."] * 100, row])] == [102]
    assert not list(read_lines([head, *["."] * 300, row]))


def test_a_table_goes_on_in_the_next_piece_of_a_log() -> None:
    nesting = Nesting()
    assert not list(read_more([b"step  train_loss"], nesting))
    assert [(number, one.step) for number, one in read_more([b"7  0.5"], nesting)] == [(1, 7)]
    chunks = [b"step  train_loss\n7  0.5", b"8  0.4"]
    assert [(number, one.step) for number, one in read_chunks(chunks)] == [(2, 7), (3, 8)]


def test_a_table_of_a_windows_shell_is_read() -> None:
    text = NOTEBOOK.replace("\n", "\r\n").encode("utf-16")
    assert [(number, one.step) for number, one in read_chunks([text])] == [(2, 10), (3, 20)]
    lines = text.split(b"\n")
    assert [number for number, _ in read_raw(lines)] == [2, 3]

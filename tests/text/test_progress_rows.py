"""Lines of progress that a row of data reads: every example is tried against every row."""

from __future__ import annotations

import pytest

from cockpit.text.fields import shape_of
from cockpit.text.progress import Row, plain, progress_rows
from cockpit.text.progress_lines import read_lines, read_training

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
        "s:4960 tel:3.423866",
        "iters: 20000 lr: 0.1 loss: 1.0",
        "[val] loss: 2.093296  [ 6400/10000]",
        "(eval) loss: 2.093296  [ 6400/10000]",
        "Test | [   2/   3][   500/  1000] |   67/1932 batches | train_loss 1.5",
        "Training BPE merges [ 1200/125000] time: 0.3 s",
        "Step 3/10: set learning rate 0.1",
        "Batch 40/165 | Perplexity: 12.1",
        "Evaluating: 100%|██████████| 20/20 [00:02<00:00, 9.1it/s] step 1200 loss 2.31 lr 1e-4",
        "loaded: 5;skipped: 2:  50%|█████     | 5/10 [00:05<00:05,  1.01it/s]",
        "Epoch 3: acc 45/50, lr 0.1",
        "{'eval/loss': 0.4, 'val/ratio': 0.97, 'epoch': 0.92}",
        "[val] Epoch  1, 13350/37527; xent:   9.69; acc:   4.25",
    ],
)
def test_a_line_that_only_looks_alike_is_none(line: str) -> None:
    assert not list(read_lines([line]))


def test_a_bar_that_is_described_by_metrics_alone_is_of_the_training() -> None:
    line = "d: -0.001;gen: -0.006:  96%|█████████▌| 19243/20000 [11:47:36<25:51,  2.05s/it]"
    ((_, found),) = read_lines([line])
    assert (found.step, found.max_step) == (19243, 20000)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("Iters: 10/20000 || Lr: 0.0199 || Task Loss: 3.28 || KD Loss: 1.60", (10, 20000, 3.28)),
        ("  Batch 40/165 | Batch Energy: 1.4539 | Perplexity: 1115.5", (40, 165, None)),
        ("<epoch:  3, iter:   1,200, lr:1.000e-04> l_pix: 3.4567e-02 ", (1200, None, 0.034567)),
        ("x.py:1] Training  [ 12/125]  lr: 0.1 (0.1)  total_loss: 9.5 (9.7)", (12, 125, 9.5)),
        ("Episode [1/20]:   5%|5     | 5/100 [01:00<19:00, 12.0s/it]", (5, 100, None)),
        ("| epoch 011  4000 / 8223 loss=1.18 (1.33), wps=963, lr=0.001", (4000, 8223, 1.18)),
        ("Epoch  1, 13350/37527; acc:   4.25; ppl: 16091.52; xent:   9.69;", (13350, 37527, 9.69)),
        (
            "{'objective/kl': 11.2, 'loss/policy_avg': -0.002, 'loss/value_avg': 0.08, "
            "'val/ratio': 0.97, 'lr': 1.9e-06, 'episode': 832, 'epoch': 0.92}",
            (None, None, -0.002),
        ),
        (
            "{'loss/eval/total': 3.5, 'loss/train/total': 2.5, 'lr': 1.9e-06, 'epoch': 0.92}",
            (None, None, 2.5),
        ),
        (
            "| epoch 017:  54%|▌| 19/35 [00:21<00:16,  1.03s/it, loss=11.824, gnorm=0.415, cl"
            "| epoch 017:  57%|▌| 20/35 [00:22<00:15,  1.02s/it, loss=11.831, gnorm=0.425, cl",
            (20, 35, 11.831),
        ),
        (
            "Evaluating: 100%|██████████| 20/20 [00:02<00:00, 9.1it/s]"
            "2024-05-01 10:00:00,123 - INFO - step 1200 loss 2.31",
            (1200, None, 2.31),
        ),
        (
            "Validation: |    | 0/? [00:00<?, ?it/s]\x1b[A[12/09/24 21:33:16] INFO   Epoch 123:"
            " v_loss 1.9e+00  loss 4.2e-01",
            (123, None, 0.42),
        ),
    ],
)
def test_what_the_training_says_beside_other_work_is_read(
    line: str, told: tuple[int | None, int | None, float | None]
) -> None:
    ((_, found),) = read_lines([line])
    assert (found.step, found.max_step, found.loss) == told


def test_a_dictionary_with_the_loss_of_an_evaluation_alone_tells_none_of_training() -> None:
    line = "{'loss/eval/total': 3.5, 'lr': 1.9e-06, 'epoch': 0.92}"
    assert list(read_lines([line])) == []


def test_the_bar_of_an_evaluation_in_the_midst_of_the_steps_counts_no_step() -> None:
    log = """
  2%|1         | 500/28013 [02:59<2:41:40,  2.84it/s]
  logits = stack(logits)
  0%|          | 3/6226 [00:00<10:43,  9.14it/s]
  0%|          | 11/6226 [00:01<12:43,  8.14it/s]
  2%|1         | 501/28013 [14:59<2:41:40,  2.84it/s]
"""
    assert [found.step for _, found in read_training([log.encode()])] == [500, 501]


def test_a_training_that_begins_anew_with_another_total_is_no_evaluation() -> None:
    log = """
  2%|1         | 500/28013 [02:59<2:41:40,  2.84it/s]
slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-01-01T10:00:00 DUE TO PREEMPTION ***
  0%|          | 1/14000 [00:00<1:40:43,  2.14it/s]
{'loss': 2.1, 'grad_norm': 1.0, 'learning_rate': 0.0001, 'epoch': 0.1}
  0%|          | 2/14000 [00:01<1:40:43,  2.14it/s]
{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 0.0001, 'epoch': 0.1}
  0%|          | 3/14000 [00:02<1:40:43,  2.14it/s]
"""
    found = [each.step for _, each in read_training([log.encode()]) if each.step is not None]
    assert found == [500, 2, 3]


def test_the_bar_of_batches_within_one_of_epochs_is_read() -> None:
    log = """
 20%|##        | 1/5 [10:00<40:40,  600.0s/it]
  0%|          | 3/2000 [00:00<10:43,  3.34it/s]
  0%|          | 4/2000 [00:00<10:43,  3.34it/s]
"""
    assert [found.step for _, found in read_training([log.encode()])] == [1, 3, 4]


def test_the_bar_of_a_second_stage_begins_where_the_first_is_complete() -> None:
    log = """
 99%|######### | 99/100 [00:50<00:01,  2.00it/s]
100%|##########| 100/100 [00:50<00:00,  2.00it/s]
  0%|          | 1/6226 [00:01<12:43,  8.14it/s]
"""
    assert [found.step for _, found in read_training([log.encode()])] == [99, 100, 1]


BLOCKS = {
    "iter = 48720\n\tloss = 1.646612, accuracy (cur) = 0.328125": (48720, None, 1.646612),
    "[batch=12/4800]:\n   Train trainer/global_step: 11\n   Train loss/train/total: 9.5237": (
        12,
        4800,
        9.5237,
    ),
}


@pytest.mark.parametrize(("block", "told"), BLOCKS.items())
def test_the_head_of_a_block_counts(block: str, told: tuple[int, int | None, float]) -> None:
    ((_, found),) = read_training([block.encode()])
    assert (found.step, found.max_step, found.loss) == told


def test_bars_of_keras_that_nothing_parts_tell_the_last_of_them() -> None:
    bar = "{}/82 [=====>........] - ETA: 37s - loss: 0.6{} - accuracy: 0.9260 "
    ((_, found),) = read_lines(["".join(bar.format(at, at) for at in (61, 62, 63))])
    assert (found.step, found.max_step, found.loss) == (63, 82, 0.663)


def test_a_day_is_no_rate() -> None:
    ((_, found),) = read_lines(["   --> TIME: 2022-01-31 10:00:00 -- GLOBAL_STEP: 1200 loss: 2.1"])
    assert (found.step, found.loss, found.throughput) == (1200, 2.1, None)

"""Progress is read by mechanism from many trainers' lines, and from nothing that is not."""

# ruff: noqa: E501 - trainers write long lines, and each stays one row of a table

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.text.progress import LineProgress, read_progress
from cockpit.text.progress_lines import read_lines
from tests.growing import grows_with_its_size

CORPUS = Path(os.environ.get("COCKPIT_CORPORA", "no-corpora")) / "progress.jsonl"

RUN = [
    ("step 46012 loss=2.314 0.83M tok/s grad 0.41", 46012, None, 2.314, (830000.0, "tok/s")),
    ("step=7 | loss=1.5 | tok/s=12,500", 7, None, 1.5, (12500.0, "tok/s")),
    ("completed step: 3, seconds: 0.5, Tokens/s/device: 90.5, loss: 8.1", 3, None, 8.1, (90.5, "tok/s/device")),
    ("iteration 70/ 900 | elapsed time per iteration (ms): 12.5 | lm loss: 2.5E+00 |", 70, 900, 2.5, (12.5, "ms/it")),
    ("samples/sec: 25.1 | iteration 70/ 900 | elapsed time per iteration (ms): 12.5 | lm_loss: 2.5", 70, 900, 2.5, (25.1, "samples/s")),
    ("iter 90: loss 3.25, time 51.50ms, mfu 6.20%", 90, None, 3.25, (51.5, "ms/it")),
    ("step:9/80 train_loss:3.5 train_time:1350ms step_avg:150.25ms", 9, 80, 3.5, (150.25, "ms/it")),
    ("1: 2026-01-02 03:04:05,678 - root - INFO - \x1b[36mstep: 90  \x1b[32mloss:  3.50  \x1b[34mtps: 6,785\x1b[39m", 90, None, 3.5, (6785.0, "tok/s")),
    ("step   10 | loss: 4.5 | lr 6.0e-04 | norm: 0.98 | dt: 320.5ms | tok/sec: 1630.5", 10, None, 4.5, (1630.5, "tok/s")),
    ("step 10/99 | loss 4.5 (+0.1z)| norm 1.2 (-0.3z)| lr 1e-4 | 300.2 ms | 45% bf16 MFU | 17000 tok/s", 10, 99, 4.5, (17000.0, "tok/s")),
    ("iteration: 10 / 99 | consumed_tokens: 1M | lm_loss: 10.5 | lr: 0.0001", 10, 99, 10.5, None),
    ("step:36 - train/loss:0.5 - train/lr(1e-3):7.5e-06 - train/time(s):5.25", 36, None, 0.5, (5.25, "s/it")),
    ("[Rank 0] step=10, skipped=6, lr=[9.5e-06, 9.5e-06], mom=[(0.9, 0.95)]", 10, None, None, None),
    ("[timer.py:1:stop] epoch=0/micro_step=40/global_step=10, CurrSamplesPerSec=12.5", 10, None, None, (12.5, "samples/s")),
    ("Epoch 1 | iter 8 step 2 | loss train: 1.75, val: n/a | iter time: 50.25 ms (step)", 2, None, 1.75, (50.25, "ms/it")),
    ("| epoch 002 | loss 4.5 | ppl 16.3 | wps 4205 | ups 3.5 | num_updates 208 | oom 0", 208, None, 4.5, (4205.0, "words/s")),
    ('{"epoch": 1, "loss": "8.5", "wps": "520.5", "num_updates": "100", "lr": "1e-05"}', 100, None, 8.5, (520.5, "words/s")),
    ("eta: 0:10:00  iter: 19  total_loss: 2.5  loss_cls: 1.2  time: 0.25  data_time: 0.01", 19, None, 2.5, (0.25, "s/it")),
    ("2026/01/02 03:04:05 - INFO - Iter(train) [  100/8000]  lr: 1e-3  eta: 1:00:00  time: 0.25  loss: 1.5", 100, 8000, 1.5, (0.25, "s/it")),
    ("Training epoch 0, iteration 99/999 | lr: 1e-05 | global_step: 99 | reduced_train_loss: 11.5 | train_step_timing in s: 1.25", 99, None, 11.5, (1.25, "s/it")),
    ("[step=10/1000,epoch=1,eta=2 days] train/CE loss=2.5", 10, 1000, 2.5, None),
    ("[batch=3/100]:\n\t Train LanguageCrossEntropy: 10.5\n\t Train Perplexity: 58365.8", 3, 100, 10.5, None),
    ("2026-01-02 [step=1/739]\n    train/CrossEntropyLoss=11.25\n    throughput/total_tokens=4,194", 1, 739, 11.25, None),
    ("Ep. 1 : Up. 1000 : Sen. 64,000 : Cost 7.5 : Time 10.12s : 12345.00 words/s", 1000, None, 7.5, (12345.0, "words/s")),
    ("steps: 10 loss: 1.5 iter time (s): 0.45 samples/sec: 17.5", 10, None, 1.5, (0.45, "s/it")),
    ("Steps:  10%|# | 100/1000 [00:10<01:30,  9.5it/s, lr=1e-5, step_loss=0.25]", 100, 1000, 0.25, (9.5, "it/s")),
    ("  1%|█     | 100/7560 [00:57<1:02:03,  2.00it/s]/x/y.py:68: UserWarning: gather 12", 100, 7560, None, (2.0, "it/s")),
    (" 1%| | 1/9 [00:01<?, ?it/s]\r 2%| | 2/9 [00:02<00:07, 1.20s/it]", 2, 9, None, (1.2, "s/it")),
    ("Progress on:train 11.0it/18.0it rate:34.5s/it remaining:04:01 elapsed:17:46 postfix:loss=15.5", 11, 18, 15.5, (34.5, "s/it")),
    ("Progress on:train 119it/120it rate:1.2kit/s remaining:00:01 elapsed:17:46", 119, 120, None, (1200.0, "it/s")),
    ("train: 100it [00:57, 2.00it/s, loss=2.5]", 100, None, 2.5, (2.0, "it/s")),
    ("12/240 [01:10<22:12,  5.8s/it, loss=3.21]", 12, 240, 3.21, (5.8, "s/it")),
    (" 1%| | 1/9 [00:01<00:09, 1.0s/it]  2%| | 2/9 [00:02<00:07, 1.20s/it]", 2, 9, None, (1.2, "s/it")),
    (" 10%|# | 500/5000 [08:20<1:15:00,  1.0s/it]{'loss': 1.5, 'learning_rate': 4.5e-05, 'epoch': 0.3}", 500, 5000, 1.5, (1.0, "s/it")),
    ("Training: 10%|# | 500/5000 [06:29<1:22:40, 1.1s/it, loss=0.5, tok/s=27851.5]", 500, 5000, 0.5, (27851.5, "tok/s")),
    ("Progress on:train 812it/900it rate:2.1it/s remaining:03", 812, 900, None, (2.1, "it/s")),
    ("I0102 03:04:05.678901 140000 logging_writer.py:48] [1200] accuracy=0.5, loss=2.5, steps_per_second=3.5", 1200, None, 2.5, (3.5, "it/s")),
    ("[120/5000] loss: 2.5 lr: 1.2e-4 412ms/step", 120, 5000, 2.5, (412.0, "ms/it")),
    ("ining-demo/0 [default0]:Training epoch 0, iteration 7/19 | lr: 1.5e-07 | global_step: 7 | reduced_train_loss: 11.5", 7, None, 11.5, None),
    ("{'loss': 2.5, 'learning_rate': 9.9e-05, 'train_speed(iter/s)': 0.5, 'global_step/max_steps': '310/900'}", 310, 900, 2.5, (0.5, "it/s")),
    ("Step #120 | total loss: 2.5 | 0.41 s/step", 120, None, 2.5, (0.41, "s/it")),
    ("global_step=120.0 loss=2.5 sec/step=0.41", 120, None, 2.5, (0.41, "s/it")),
    ("step: 9 - actor/entropy:0.5 - actor/pg_loss:-0.25 - timing_s/step:10.5", 9, None, -0.25, (10.5, "s/it")),
    ("{'accuracy': 0.5,\n 'learning_rate': 0.0003,\n 'loss': 2.5,\n 'step': 1200}", 1200, None, 2.5, None),
    ("[batch=20/48]:\n\t Train time/batch: 19\n\t Train loss/train/total: 2.5\n\t Train throughput/samples_per_sec: 51.5", 20, 48, 2.5, (51.5, "samples/s")),
    ("epoch: [3/50], global_step: 120, lr: 0.1, loss: 2.5, avg_batch_cost: 0.2 s, ips: 1206.5 samples/s, eta: 1 day, 2:00:00", 120, None, 2.5, (1206.5, "samples/s")),
    ("Loss at step 120 : 2.5", 120, None, 2.5, None),
    ("[main] Minibatch loss at step  120/900: 2.5, 41.5 tok/s", 120, 900, 2.5, (41.5, "tok/s")),
    ("Training loss (one batch) after 120 iterations is 2.5", 120, None, 2.5, None),
    ("step 120 value_loss 0.5 loss -0.25", 120, None, -0.25, None),
    ("| Device=xla:0/3 Epoch=1 Step=120 Loss=4.5 Rate=412.5 Time=03:04:05", 120, None, 4.5, None),
]  # fmt: skip


@pytest.mark.parametrize(("line", "step", "maximum", "loss", "rate"), RUN)
def test_a_training_line_is_read(
    line: str, step: int, maximum: int | None, loss: float | None, rate: tuple[float, str] | None
) -> None:
    found = read_progress(line)
    assert found is not None
    assert (found.step, found.max_step, found.loss) == (step, maximum, loss)
    assert (found.throughput, found.unit) == (rate or (None, None))
    assert (found.scope, found.step_exact, found.step_shown) == ("run", True, None)


OTHER_SCOPE = [
    ("    Epoch 3:  33%|███▉   | 307/938 [00:01<00:02, 289.5it/s, loss=0.5, v_num=51]", 307, 938, "epoch"),
    ("1|3|Loss: 1.5:   0%|     | 3/1617 [00:21<3:04:47,  6.5s/it]", 3, 1617, "epoch"),
    ("Training Epoch: 1/3, step 10/100 completed (loss: 1.5): 10%|# | 10/100 [00:10<01:30,  1.01s/it]", 10, 100, "epoch"),
    ("Train: 0 [  50/1000 (  5%)]  Loss:  6.5 (6.9)  Time: 1.4s,   87.5/s  (1.8s", 50, 1000, "epoch"),
    ("Epoch: [0][  10/505]\tTime  0.512 ( 0.602)\tLoss 6.9e+00 (7.0e+00)", 10, 505, "epoch"),
    ("2026/01/02 03:04:05 - Epoch(train)  [1][  50/1000]  lr: 1e-03  time: 0.35  loss: 1.5", 50, 1000, "epoch"),
    ("Epoch [1/5], Step [100/600], Loss: 0.5", 100, 600, "epoch"),
    ("INFO [train.py:9] (0/4) Epoch 1, batch 50, loss[loss=7.5, simple_loss=7.0, over 400.00 frames. ], lr: 2e-02", 50, None, "epoch"),
    ("32/100 [========>.....................] - ETA: 5s - loss: 0.5 - accuracy: 0.8", 32, 100, "epoch"),
    ("Epoch [65/650], Train Loss: 0.0008, Train L1 Loss: 0.1963", 65, 650, "epochs"),
    ("Epoch 3/10 - loss: 0.5 - val_loss: 0.6", 3, 10, "epochs"),
    ("      3/300    3.62G   0.051   0.031     41    640:  25%|##   | 100/400 [00:25<01:15,  3.98it/s]", 100, 400, "epoch"),
    ("[01/02 03:04:05] INFO: Epoch: [1] [ 100/1250] learning_rate: 0.1 loss: 2.5 ips: 25.5 images/s", 100, 1250, "epoch"),
    ("Train Epoch: 3 [ 8192/99999 (7%)] Data (t): 0.3 Batch (t): 1.2, 3379.5/s LR: 0.1 Loss: 2.5 (2.6)", 8192, 99999, "epoch"),
    ("Epoch:[3/10](310/1000) loss:2.5 lr:0.1", 310, 1000, "epoch"),
    ("train   Epoch   0:   12%|##    | 120/1000 [01:00<07:20,  2.00ba/s, loss/train/total=2.5]", 120, 1000, "epoch"),
    ("Train [3/10]:  20%|##   | 20/100 [00:20<01:20,  1.00s/it, loss=0.5]", 20, 100, "epoch"),
    ("| epoch   3 |   200/ 2900 batches | ms/batch 21.5 | loss  4.5", 200, 2900, "epoch"),
    ("313/313 - 1s - loss: 0.5 - accuracy: 0.9 - 900ms/epoch - 3ms/step", 313, 313, "epoch"),
    ("Loss at epoch 7: 0.5", 7, None, "epochs"),
    ("Epoch 20/20: 100%|####| 20/20 [03:20<00:00, 10.0s/it]", 20, 20, "epochs"),
    ("Epoch 8/20: 35%|##  | 7/20 [01:10<02:10, 10.0s/it, loss=0.5]", 7, 20, "epochs"),
    ("Epoch 3/20: 35%|##  | 7/20 [01:10<02:10, 10.0s/it, loss=0.5]", 7, 20, "epoch"),
    ("Epoch 20/20: 5%|#   | 20/400 [01:10<02:10, 10.0s/it, loss=0.5]", 20, 400, "epoch"),
    ("Epoch: 3/10... Loss: 2.5", 3, 10, "epochs"),
    ("Epochs:  30%|###   | 3/10 [00:30<01:10, 10.0s/it]", 3, 10, "epochs"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "step", "maximum", "scope"), OTHER_SCOPE)
def test_counts_of_an_epoch_are_not_steps_of_the_run(
    line: str, step: int, maximum: int | None, scope: str
) -> None:
    found = read_progress(line)
    assert found is not None
    assert (found.step, found.max_step, found.scope) == (step, maximum, scope)


NOT_PROGRESS = [
    "",
    "no number at all",
    "2026-01-02 03:04:05 INFO 12 workers ready",
    "step 750: train loss 1.95, val loss 1.58",
    "step:125/6200 val_loss:4.5 train_time:27000ms step_avg:216.0ms",
    "{'eval_loss': 0.69, 'eval_runtime': 8.6, 'eval_steps_per_second': 5.5, 'epoch': 0.53}",
    "{'train_runtime': 100.5, 'train_samples_per_second': 3.5, 'train_loss': 0.5, 'epoch': 3.0}",
    "validation loss at iteration 1000 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |",
    "Iter(val) [  100/500]    eta: 0:01:00  time: 0.05  loss: 0.5",
    "Test:  [  10/100]  eta: 0:00:10  loss: 6.9 (6.9)  time: 0.5",
    "Evaluating: step 100 loss 2.3",
    "Validation loss at step 120: 2.5",
    "Best loss at step 120 : 2.5",
    "Final loss after 120 steps: 2.5",
    "[10]\ttrain-rmse:0.25",
    "[10]\tvalidation_0-logloss:0.65\tvalidation_1-logloss:0.75",
    "120:\tlearn: 0.55\ttest: 0.65\tbest: 0.65 (120)\ttotal: 3.5s\tremaining: 22s",
    "  2     400        210.25   1930.5     58.5   60.25   56.5    0.5",
    "  successfully saved checkpoint at iteration   33241 to /data/run-13/checkpoints",
    "Resuming from step 5000, loss 2.3",
    "Training already complete at step 5155 (target: 5155). Running final hooks only.",
    "max_steps: 1000, warmup_steps: 100, lr: 1e-4",
    "Total optimization steps = 7,560",
    "Loading checkpoint shards: 100%|##| 3/3 [00:10<00:00, 3.3s/it]",
    "model.safetensors: 100%|##| 4.97G/4.97G [00:41<00:00, 120MB/s]",
    "Map: 100%|##| 1000/1000 [00:01<00:00, 900.1 examples/s]",
    "Running tokenizer on dataset:  37%|##    | 497000/1359146 [02:28<04:18, 3341.01 examples/s]",
    "Validation DataLoader 0: 33%|## | 10/30 [00:01<00:02, 9.1it/s]",
    "Progress on:eval 1.00it/8.00it rate:3.1it/s remaining:00:02 elapsed:00:01 postfix:loss=2.3",
    "Epoch 3/10",
    "Step 500: eval loss 2.3",
    "[val] step 1200 loss 2.5",
    "[2026/01/02 03:04:05] INFO: [Eval][Epoch 2][Iter: 10/98] loss: 2.5, batch_cost: 0.1s, ips: 900.5 images/s",
    "Epoch 4, validation: loss=0.25, simple_loss=0.5, over 944034.00 frames.",
    "step 1200: saved checkpoint, loss 2.5",
    "Watchdog: no progress since step 1200 (loss 2.5)",
    "Rolling back to step 1100 because loss is nan",
    "Skipping batch 120: loss is nan",
    "{'train_runtime': 120.5, 'train_steps_per_second': 2.5, 'train_loss': 0.5, 'epoch': 3.0, 'step': 312}",
    "train: Scanning labels/train... 11000 images:  10%|#     | 11000/110000 [00:04<00:40, 2440.1it/s]",
    "Evolving anchors: fitness = 0.75: 100%|####| 1000/1000 [00:01<00:00, 912.1it/s]",
    "100%|####| 170498071/170498071 [00:05<00:00, 30123456.12it/s]",
    "Progress on:train 4.00it/5",
    "498383it [00:12, 5927.95it/s]",
    "decode step 310, 81.5 tok/s",
    "batch 310 ready, 12.5 samples/s",
    '    raise ValueError("step 100 loss 2.3 lr 1e-3")',
    '    print(f"loss at step 100: 2.3")',
    'ValueError: could not parse "step 100 loss 2.3"',
    '  --fmt FMT   how a line looks (default: "step 100 loss 2.3 lr 1e-4")',
    "usage: prints 'step 100 loss 2.3'",
    "e.g. step 100 loss 2.3",
    "expected 'step 100 loss 2.3 lr 1', got 'x'",
    "{'pattern': 'step 100 loss 2.3', 'lr': 0.1}",
    "config: {step: 100, loss: 2.3, lr: 1}",
]


NOT_BEGUN = [
    "  0%|          | 0/300 [00:00<?, ?it/s]",
    "  0%|          | 0/300 [00:00<?",
    " 20%|██        | 60/300 [00:00<?, ?it/s]",
    "  2%|▏         | 6/300 [00:00<?, ?it/s, loss=2.3]",
    "  0%|          | 0/300 [00:00<?, ?step/s]",
    "  0%|          | 0/300 [00:12<00:00,  0.00it/s]",
    "Epoch 0:   0%|          | 0/30 [00:00<?, ?it/s, v_num=0]",
    "0it [00:00, ?it/s]",
    "Progress on:train -/300 rate:-it/s remaining:? elapsed:00:00 postfix:-",
    "Progress on:train 0.00it/300it rate:?it/s remaining:? elapsed:00:00 postfix:-",
    "Epoch 0/9  ━━━━━━━━━━━━━━━━━ 0/300 0:00:00 • -:--:-- 0.00it/s v_num: 0.000",
    "Sanity Checking ━━━━━━━━━━━━━ 1/2 0:00:12 • 0:01:50 2.45it/s",
]


@pytest.mark.parametrize("line", NOT_BEGUN)
def test_a_bar_without_a_rate_is_no_step(line: str) -> None:
    assert read_progress(line) is None


def test_rich_s_bar_is_read() -> None:
    line = (
        "Epoch 0/9  ━━━━━━━━━━╸━━━━━━ 29/300 0:00:12 • 0:01:50 2.45it/s v_num: 0 train_loss: 2.301"
    )
    found = read_progress(line)
    assert found is not None and found.scope == "epoch" and found.format == "rich"
    assert (found.step, found.max_step, found.loss, found.throughput) == (29, 300, 2.301, 2.45)


@pytest.mark.parametrize(
    "line",
    [
        'level=info msg="step 100 loss 2.3"',
        '{"log": "step 100 loss 2.3\\n", "stream": "stdout"}',
        "gpu usage: 93% step 100 loss 2.3",
        "INFO:default:step 100 loss 2.3",
        "log('train', step=100, loss=2.3)",
    ],
)
def test_a_message_in_quotes_is_progress(line: str) -> None:
    found = read_progress(line)
    assert found is not None and (found.step, found.loss) == (100, 2.3)


@pytest.mark.parametrize("line", NOT_PROGRESS)
def test_other_work_is_not_progress(line: str) -> None:
    assert read_progress(line) is None


def test_a_rounded_bar_gives_no_exact_step_and_no_maximum() -> None:
    line = "Progress on:train 4.60kit/5.16kit rate:- remaining:? elapsed:1:00:00 postfix:loss=2.31"
    assert read_progress(line) == LineProgress(
        step=None,
        step_exact=False,
        step_shown="4.60k",
        max_step=None,
        max_shown="5.16k",
        loss=2.31,
        format="tqdm_loggable",
    )


@pytest.mark.parametrize("shown", ["3.1e+4", "2E3", "1.5k"])
def test_a_step_in_few_digits_is_rounded(shown: str) -> None:
    found = read_progress(f"epoch 0 | lr: 0.1 | global_step: {shown} | train_loss: 2.5")
    assert found is not None
    assert (found.step, found.step_exact, found.step_shown) == (None, False, shown)


@pytest.mark.parametrize("shown", ["4.60k", "1.50M", "1.50T", "12.0"])
def test_a_rounded_step_is_known_as_rounded(shown: str) -> None:
    found = read_progress(f"Progress on:train {shown}it/9.00Mit rate:1.0it/s remaining:? elapsed:1")
    assert found is not None
    assert found.step_exact is (shown == "12.0")


def test_a_loss_that_is_no_number_is_read() -> None:
    found = read_progress("step 100 loss nan lr 1e-4")
    assert found is not None
    assert found.loss is not None
    assert math.isnan(found.loss)
    assert found.to_json()["loss"] == "NaN"


def test_a_dict_without_a_step_still_tells_the_loss() -> None:
    found = read_progress("{'loss': 0.69, 'grad_norm': 2.5, 'learning_rate': 5e-05, 'epoch': 0.26}")
    assert found == LineProgress(loss=0.69, grad_norm=2.5, format="dict")


def test_a_break_that_journald_has_spelled_out_is_one() -> None:
    lines = ["^Mstep 5/100 loss 2.5", "host python[3]: ^Miter 6: loss 2.5", "seen: (^M)"]
    assert [(at, one.step) for at, one in read_lines(lines)] == [(1, 5), (2, 6)]


def test_lines_and_blocks_of_a_log_are_numbered() -> None:
    log = (
        "start\n[batch=3/9]:\n\t Train loss/train/total: 1.5\nother\nstep 4 loss 1.25\n[batch=5/9]:"
    )
    found = [(number, each.step, each.loss) for number, each in read_lines(log.split("\n"))]
    assert found == [(2, 3, 1.5), (5, 4, 1.25)]


PARTS = st.sampled_from([part for line, *_ in RUN for part in line.split(" ")])


@given(st.text() | st.lists(PARTS, max_size=20).map(" ".join))
def test_any_text_is_read_without_an_error(text: str) -> None:
    found = read_progress(text)
    assert found is None or found.step is None or found.step >= 0


LONG = ["step 1/", "1%|", "[1/2 ", "loss: ", "9" * 50 + " ", "a b ", "1.5it [1,", "(1", "1,111"]


@pytest.mark.parametrize("part", LONG)
def test_long_lines_are_read_in_bounded_time(part: str) -> None:
    assert grows_with_its_size(lambda size: read_progress(part * size), 100_000)


@pytest.mark.skipif(not CORPUS.exists(), reason="COCKPIT_CORPORA names no corpus")
def test_the_corpus_of_progress_lines() -> None:
    for entry in map(json.loads, CORPUS.read_text(encoding="utf-8").splitlines()):
        found = read_progress(entry["text"])
        if not entry["is_training_progress"]:
            assert found is None, entry["id"]
            continue
        assert found is not None, entry["id"]
        rate = entry["throughput"] or {"value": None, "unit": None}
        assert (found.throughput, found.unit) == (rate["value"], rate["unit"]), entry["id"]
        for name in ("step", "step_exact", "max_step", "max_shown", "scope", "loss"):
            assert getattr(found, name) == entry[name], entry["id"]


@pytest.mark.parametrize("digits", [17, 320, 3900])
def test_a_number_that_no_run_counts_to_is_neither_step_nor_maximum(digits: int) -> None:
    many = "9" * digits
    assert read_progress(f"step={many} loss=2.0 lr=1 grad_norm=1") is None
    found = read_progress(f"step=7/{many} loss=2.0 lr=1")
    assert found is not None and (found.step, found.max_step) == (7, None)
    bar = read_progress(f"train: 1%|#| {many}/{many} [00:10<01:00, 1.0it/s, loss=2.0]")
    assert bar is None or (bar.step, bar.step_exact, bar.max_step) == (None, False, None)

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.logbook.run_logs import sanitized

LOG = """\
# train_front_cam — stage 1

## Mode
- run_type: replication
- objective: does training work at all

## Config
- script: `slurm/train.sh`
- config: `configurations/train.yaml`
- dataset: `/projects/u5bd/ada/data/episodes_26.h5`
- key settings: lr 1e-4, batch 64, `--out=/scratch/u5bd/ada/out/front/step_50000.pt`
  resumed with `sbatch --export=ALL,LOAD=$SCRATCH/ada/out/front/step_50000.pt run.sh`

## Job
- execution_id: `2732782` (first submission)
- submitted/start: `2026-03-11T12:31:00+00:00`
- node: nid010979
- runtime: `05:12:00`

## Job (resumed)
- job_id: 2732865
- resumed from: `/scratch/u5bd/ada/out/front/step_50000.pt`
- node: `nid010985`

## Status
- 2026-03-11 12:31 UTC - job `2732782` failed in 6s on nid010979, see slurm-2732782.out
- 2026-03-11 15:00 UTC - running, step 2,400, train_loss 0.085 (JobId=2732865_4)
- 2026-03-11 16:00 UTC - copied by `ssh ada@login01.cluster.example.org ls /home/ada`, 10.1.2.3:22
- read the id from wandb/wandb_id.txt

## Results
- final step: 100000
- start_train_loss: 0.412
- end_train_loss: 0.028
- loss_one_liner: falls fast, then flat after 60k
- throughput: 1200 tok/s on 8 nodes, 16/16 samples

## W&B
- local: `wandb/offline-run-20260311_150000-abc123`
- synced: `https://wandb.ai/team/project/runs/abc123`
- token: WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567

## Next
- eval with ~/eval.py, or bucket gs://secret-bucket/ckpt/x/y/step-100
"""


def test_what_trained_stays_and_where_it_trained_goes() -> None:
    text = sanitized(LOG)
    for gone in (
        *(
            "2732782",
            "2732865",
            "nid0109",
            "/scratch",
            "u5bd",
            "/home",
            "$SCRATCH",
            "ada",
            "login01",
        ),
        *("10.1.2.3", "wandb_id.txt", "0123456789abcdef", "secret-bucket", "~/eval", "offline-run"),
    ):
        assert gone not in text, gone
    for kept in (
        *(
            "run_type: replication",
            "lr 1e-4, batch 64",
            "slurm/train.sh",
            "configurations/train.yaml",
        ),
        *("final step: 100000", "start_train_loss: 0.412", "falls fast, then flat after 60k"),
        *("https://wandb.ai/team/project/runs/abc123", "running, step 2,400, train_loss 0.085"),
        *("submitted/start: `2026-03-11T12:31:00+00:00`", "1200 tok/s", "8 nodes", "16/16 samples"),
        *("<path>/step_50000.pt", "<path>/episodes_26.h5", "## Job (resumed)", "failed in 6s"),
    ):
        assert kept in text, (kept, text)
    assert sanitized(text) == text


@pytest.mark.parametrize(
    "line",
    [
        "- 2026-03-11 15:00 — loss 0.31, val 0.4, lr 1e-4, 3/4 done, 12:30:01",
        "- the job ran for 1234 steps and and/or stopped at 50 %",
        "- see https://huggingface.co/a/b and https://github.com/a/b/issues/3",
        "- config: `configs/a/b.yaml`, key `train/loss`",
    ],
)
def test_plain_words_and_links_are_untouched(line: str) -> None:
    assert sanitized(f"## Status\n{line}\n") == f"## Status\n{line}\n"


@given(st.text(max_size=200))
def test_no_text_raises_and_lines_without_places_stay(text: str) -> None:
    sanitized(text)
    assert "- loss 0.5 at step 7\n" in sanitized(
        f"## Results\n- loss 0.5 at step 7\n\n## X\n{text}"
    )

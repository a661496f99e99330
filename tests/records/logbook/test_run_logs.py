"""Text that somebody typed stays text, in whatever file it lands (SPEC L)."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cockpit.model.records import EventEntry
from cockpit.records.logbook.forms import FieldForm, normal
from cockpit.records.logbook.reading import guarded, read_fields, read_logbook, unguarded, value_of
from cockpit.records.logbook.run_logs import (
    new_run_log,
    run_log_name,
    sanitized,
    with_huggingface,
    with_results,
    with_resumed_job,
    with_row,
    with_run,
    with_status,
)
from cockpit.records.logbook.writing import with_contract, with_event, with_text
from cockpit.text.logbook_scan import Blocks, read_entries, read_page

AT = datetime(2026, 3, 11, 15, 0, 30, tzinfo=UTC).timestamp()
FRESH = new_run_log(
    "train_front_cam",
    "does it train here?",
    {
        "Mode": {"run_type": "replication", "objective": "verify the repository"},
        "Job": {"execution_id": "12345", "partition": "gpu"},
    },
)


def section(data: bytes, title: str) -> dict[str, str]:
    page = read_page(data.decode("utf-8", "replace"))
    ends = [*(each.number for each in page.headings[1:]), len(page.lines) + 1]
    found = [
        read_fields(page.between(each.number + 1, end - 1))
        for each, end in zip(page.headings, ends, strict=False)
        if each.title == title
    ]
    return {field.label: field.value for field in found[0]} if found else {}


def test_a_new_run_log_has_every_section_of_the_template() -> None:
    text = FRESH.decode()
    assert text.startswith("# train_front_cam — does it train here?\n\n## Mode\n- run_type: rep")
    titles = [each.title for each in read_page(text).headings[1:]]
    assert titles == ["Mode", "Config", "Job", "Status", "Results", "W&B", "Next"]
    assert section(FRESH, "Job")["execution_id"] == "12345"
    assert section(FRESH, "Job")["partition"] == "gpu"


def test_the_name_of_a_run_log_is_safe() -> None:
    day = date(2026, 3, 11)
    assert run_log_name(day, "train_front_cam") == "2026-03-11_train_front_cam.md"
    assert run_log_name(day, "../../etc/passwd; rm -rf") == "2026-03-11_etc_passwd_rm_-rf.md"
    assert run_log_name(day, "\n") == "2026-03-11_run.md"


def test_status_lines_are_added_once_below_the_last() -> None:
    one = with_status(FRESH, AT, "running, step 2400, train_loss 0.085")
    two = with_status(one, AT + 86_400, "completed\nexit code 0")
    assert b"## Status\n- 2026-03-11 15:00 UTC \xe2\x80\x94 running, step 2400" in one
    assert "- 2026-03-12 15:00 UTC — completed\n  exit code 0\n\n## Results\n" in two.decode()
    assert with_status(two, AT, "running, step 2400, train_loss 0.085") == two


def test_a_status_line_takes_the_form_of_those_above() -> None:
    data = (
        b"# t\n\n## Status\n* 2026-03-11 16:00 CET: queued\n* 2026-03-11 16:30 CET: runs\n## Next\n"
    )
    after = with_status(data, AT, "ends")
    assert b"16:30 CET: runs\n* 2026-03-11 16:00 CET: ends\n\n## Next\n" in after


def test_resumed_jobs_follow_the_last_job() -> None:
    first = {"execution_id": "12346", "submitted": "2026-03-12 15:00 UTC"}
    one = with_resumed_job(FRESH, first)
    two = with_resumed_job(one, {**first, "execution_id": "12399"})
    text = two.decode()
    assert text.index("12345") < text.index("12346") < text.index("12399") < text.index("## Status")
    assert "- partition: gpu\n\n## Job (resumed)\n- execution_id: 12346\n" in text
    assert with_resumed_job(two, first) == two


def test_results_links_and_publication_are_filled_in_place() -> None:
    data = with_results(FRESH, {"final step": "100000", "loss_one_liner": "falls, then flat"})
    data = with_huggingface(
        data, {"repo": "https://huggingface.co/a/b", "signoff verdict": "`pass`"}
    )
    text = data.decode()
    assert "## Results\n\n- final step: 100000\n" in text or "## Results\n- final step" in text
    assert text.endswith(
        "## HuggingFace\n- repo: https://huggingface.co/a/b\n- signoff verdict: `pass`\n"
    )
    assert with_huggingface(data, {"signoff verdict": "`pass`"}) == data


LIST = """# ARX5 Multitask Timeline

1. `2026-02-20_train.md` — Friday, Feb 20th
2. `2026-02-21_train.md` — Saturday, Feb 21st
   the one with both cameras
4. `2026-02-25_eval.md` — Wednesday, Feb 25th
5. `2026-02-26_eval.md` — Thursday, Feb 26th

Kept by hand.
"""


def test_the_timeline_is_kept_in_order_and_renumbers_what_it_must() -> None:
    data = LIST.encode()
    last = with_run(data, "2026-03-11_eval.md", date(2026, 3, 11), "x").decode()
    assert "Feb 26th\n6. `2026-03-11_eval.md` — Wednesday, Mar 11th\n\nKept" in last
    inside = with_run(data, "2026-02-22_eval.md", date(2026, 2, 22), "x").decode()
    assert "both cameras\n4. `2026-02-22_eval.md` — Sunday, Feb 22nd\n5. `2026-02-25" in inside
    assert "\n6. `2026-02-26_eval.md` — Thursday, Feb 26th\n\nKept" in inside
    before = with_run(data, "2026-02-01_a.md", date(2026, 2, 1), "x").decode()
    assert "1. `2026-02-01_a.md` — Sunday, Feb 1st\n2. `2026-02-20" in before
    assert "\n3. `2026-02-21_train.md`" in before and "\n4. `2026-02-25_eval.md`" in before
    assert with_run(data, "2026-02-25_eval.md", date(2026, 2, 25), "x") == data
    new = with_run(b"", "2026-03-03_a.md", date(2026, 3, 3), "ARX5")
    assert new.decode() == "# ARX5 Timeline\n\n1. `2026-03-03_a.md` — Tuesday, Mar 3rd\n"


TABLE = """# Experiments

| run               | description       | val_loss | status  | notes              |
|-------------------|-------------------|---------:|---------|--------------------|
| train_baseline    | front cam         |    0.028 | keep    | baseline           |
| train_lr          | LR 1e-3 -> 5e-4   |    0.025 | keep    |                    |

Lower is better.
"""


def test_a_table_row_is_added_and_updated_in_the_tables_own_form() -> None:
    data = TABLE.encode()
    row = {"run": "train_both", "description": "front | wrist", "val_loss": "0.031"}
    after = with_row(data, row).decode()
    line = "| train_both        | front \\| wrist    |    0.031 |         |                    |\n"
    assert f"0.025 | keep    |                    |\n{line}\nLower" in after
    assert with_row(after.encode(), row).decode() == after
    told = with_row(data, {"run": "train_lr", "val_loss": "0.024", "status": "discard", "gpu": "8"})
    assert (
        "| train_lr          | LR 1e-3 -> 5e-4   |    0.024 | discard | gpu: 8             |"
        in told.decode()
    )
    assert len(told) == len(data)
    new = with_row(b"", {"run": "a", "val_loss": "1"}).decode()
    assert new.splitlines()[2:] == [
        "| run | description | val_loss | status | notes |",
        "|-----|-------------|----------|--------|-------|",
        "| a |  | 1 |  |  |",
    ]


LINES = """# t
## Status
## Job
## Job (resumed)
## Results
## W&B
## Next
```
- execution_id: 7
1. b
- 2026-03-11 15:00 — x
1. `2026-02-20_a.md` — Friday
- final step: 4

---
<!--""".splitlines()
PIECE = st.one_of(
    st.text(max_size=12), st.sampled_from([*LINES, "| run | notes |", "|---|---:|", "| a | b |"])
)
DATA = st.lists(st.tuples(PIECE, st.sampled_from(["\n", "\r\n", "\n\n"])), max_size=12).map(
    lambda rows: "".join(a + b for a, b in rows).encode("utf-8", "replace")
)
RAW = st.one_of(DATA, st.binary(max_size=40), st.tuples(DATA, st.binary(max_size=9)).map(b"".join))
QUICK = settings(
    max_examples=max(40, settings().max_examples),
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def kept(before: bytes, after: bytes) -> bool:
    """Return whether every line that was there is there still, in order."""
    lines = iter(after.replace(b"\r", b"\n").split(b"\n"))
    return all(line in lines for line in before.replace(b"\r", b"\n").split(b"\n") if line.strip())


@given(RAW, st.text(max_size=20), st.floats(0, 4e9))
@QUICK
def test_status_lines_and_jobs_leave_all_else(data: bytes, text: str, at: float) -> None:
    after = with_status(data, at, text)
    assert kept(data, after) and with_status(after, at, text) == after
    job = {"execution_id": "99", "resumed from": text}
    resumed = with_resumed_job(data, job)
    assert kept(data, resumed) and with_resumed_job(resumed, job) == resumed


@given(RAW, st.text(max_size=20))
@QUICK
def test_results_are_read_back(data: bytes, text: str) -> None:
    after = with_results(data, {"never before": text})
    assert section(after, "Results").get("never before", "") == normal(text)
    assert kept(data, after)


@given(RAW, st.dates(date(1990, 1, 1), date(2090, 1, 1)))
@QUICK
def test_timelines_and_tables_take_any_bytes(data: bytes, day: date) -> None:
    name = run_log_name(day, "zz")
    after = with_run(data, name, day, "T")
    assert with_run(after, name, day, "T") == after and name.encode() in after
    row = {"run": "zz-unheard", "notes": "a|b\nc"}
    told = with_row(data, row)
    assert kept(data, told) and with_row(told, row) == told and b"zz-unheard" in told


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


GUARDING_AT = 1_773_219_331.0
LATER = "### 2026-03-11 10:00 UTC - later"
BOOK = f"""# Toy: Hero Run Logbook

## Run Contract

- DRI: ada
- Final step: about 1000, ask ada
- Issue:

## Heartbeat contract

Every 15 minutes send this:

```
curl -d "Issue: none" x
```

## Event Log (newest first)

{LATER}
- Status: well
""".encode()
LINE = st.sampled_from(
    ["## x", "#", "---", "-", "===", "```", "~~~~", "<!--", "<details>", "<pre>", "\\## x", "x",
     "", "- ```", "- # x", "> x", "| a | b |", "    ## x", "\\\\---", "<script>", "</details>"]
)  # fmt: skip


@given(st.lists(LINE, max_size=7))
@example(["```", "\\## x", "```"])
@settings(deadline=None)
def test_guarded_lines_are_read_back_and_open_nothing(lines: list[str]) -> None:
    kept = guarded(["label:", *lines], 1)
    blocks, quoted = Blocks(), []
    for line in kept:
        assert not blocks.take(line), "no heading"
        quoted.append(blocks.quoted)
    assert not blocks.open
    plain = [
        line if code else unguarded(line) for line, code in zip(kept[1:], quoted[1:], strict=True)
    ]
    assert [line.rstrip() for line in plain] == [line.rstrip() for line in lines]


@pytest.mark.parametrize("typed", ["## Notes", "text\n---", "text\n===", "```\nopen", "<!-- x",
                                   "<details>\nx", "<pre>\nx", "---\ntitle: x\n---"])  # fmt: skip
@pytest.mark.parametrize("field", ["status", "evidence", "decision", "next", "text"])
def test_what_a_person_types_swallows_nothing(typed: str, field: str) -> None:
    if field == "text":
        after = with_text(BOOK, "Event Log", f"{typed}\n- Status: fine", GUARDING_AT)
    else:
        entry = EventEntry.model_validate(
            {"title": "note", "at": GUARDING_AT, field: f"seen\n{typed}"}
        )
        after = with_event(BOOK, entry)
        titles = [each.title for each in read_entries(after.decode())]
        assert titles.count("note") == 1
        assert with_event(after, entry) == after
    page = read_page(after.decode())
    assert [each.title for each in page.headings if each.level == 2] == [
        "Run Contract", "Heartbeat contract", "Event Log (newest first)",
    ]  # fmt: skip
    newest, later = read_entries(after.decode())
    assert newest.section == later.section and later.text == "- Status: well"
    assert "2026-03-11 08:55 UTC" in after.decode(), "dated as this file dates its headings"


def test_a_contract_takes_its_own_fields_alone_and_keeps_what_stands_there() -> None:
    values = {"Final step": "2000", "Issue": "https://github.com/o/r/issues/7", "W&B": "a/b/c"}
    after = with_contract(BOOK, values, GUARDING_AT).decode()
    assert (
        after.split("## Heartbeat contract")[1] == BOOK.decode().split("## Heartbeat contract")[1]
    )
    contract = after.split("## Heartbeat")[0].split("## Run Contract\n\n")[1]
    assert contract == (
        "- DRI: ada\n- Final step: about 1000, ask ada\n- Final step (since 2026-03-11): 2000\n"
        "- Issue: https://github.com/o/r/issues/7\n- W&B: a/b/c\n\n"
    )
    fields = read_logbook(after).contract
    assert {name: value_of(fields, name) for name in values} == values
    assert with_contract(after.encode(), values, GUARDING_AT + 86400).decode() == after


@pytest.mark.parametrize(
    "title", ["## run contract", "### RUN-CONTRACT", "## 1. Run Contract:", "## Run Contract (v2)",
              "# Run Contract", "## The RunContract", "Run Contract\n------------"],
)  # fmt: skip
def test_the_run_contract_is_found_however_it_is_written(title: str) -> None:
    book = f"Toy\n===\n\n{title}\n\n- DRI: ada\n\n## Heartbeat contract\n\nHow:\n".encode()
    after = with_contract(book, {"Goal": "win"}).decode()
    assert after.count("ontract") == book.decode().count("ontract")
    assert "- DRI: ada\n- Goal: win\n\n## Heartbeat contract" in after


@pytest.mark.parametrize("title", ["Heartbeat contract", "Data contract", "Contract tests"])
def test_another_contract_is_left_alone(title: str) -> None:
    book = f"# Toy\n\n## {title}\n\nSend this:\n\n```\nx\n```\n\n## Event Log\n"
    after = with_contract(book.encode(), {"Goal": "win"}).decode()
    assert "Send this:\n\n```\nx\n```\n\n## Run Contract\n\n- Goal: win\n\n## Event Log" in after


def test_a_new_section_never_goes_above_the_title_nor_takes_entries_in() -> None:
    for book in ("## Event Log\n\n### 2026-03-11 08:00 UTC - a\n- Status: x\n\n# Toy\n\nwords\n",
                 "# Toy\n\n### 2026-03-11 08:00 UTC - a\n- Status: x\n",
                 "Toy\n===\n\n- 2026-03-11 08:00 UTC: a\n"):  # fmt: skip
        after = with_contract(book.encode(), {"Goal": "win"}).decode()
        assert after.startswith(book.rstrip()) and after.endswith("Run Contract\n\n- Goal: win\n")


def test_fields_without_bullets_never_become_one_paragraph() -> None:
    lines = [
        *FieldForm(bullet="", opening="**", ending="**").write("Status", "a\nb"),
        "**Next:** x",
    ]
    assert lines == ["**Status:** a  ", "    b  ", "**Next:** x"]

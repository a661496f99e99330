from __future__ import annotations

from datetime import UTC, date, datetime

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cockpit.records.logbook.forms import normal
from cockpit.records.logbook.reading import read_fields
from cockpit.records.logbook.run_logs import (
    new_run_log,
    run_log_name,
    with_huggingface,
    with_results,
    with_resumed_job,
    with_row,
    with_run,
    with_status,
)
from cockpit.text.logbook_scan import read_page

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

"""The documents that others read, to the letter of the interface: every key, type and time."""

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.sources.wandb import writer as wandb_writer
from tests.verbs.tiny_run import TinyRun, program

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
KINDS = {
    "not_configured", "unsupported", "unauthorized", "forbidden", "not_found", "rate_limited",
    "timeout", "refused", "dns", "tls", "bad_answer", "permission",
}  # fmt: skip
NON_FINITE = {"NaN", "Infinity", "-Infinity"}

Check = Callable[[Any], bool]


def text(value: Any) -> bool:
    return isinstance(value, str)


def count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def number(value: Any) -> bool:
    return value in NON_FINITE or (isinstance(value, int | float) and not isinstance(value, bool))


def truth(value: Any) -> bool:
    return isinstance(value, bool)


def instant(value: Any) -> bool:
    return isinstance(value, str) and TIME.fullmatch(value) is not None


def listed(value: Any) -> bool:
    return isinstance(value, list)


def texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def any_of(*words: str) -> Check:
    return lambda value: value in words


def null_or(check: Check) -> Check:
    return lambda value: value is None or check(value)


def shape(**fields: Check) -> Check:
    """Return a check that a value has each of these keys, of these types (more are allowed)."""

    def check(value: Any) -> bool:
        wrong = [key for key, fits in fields.items() if key not in value or not fits(value[key])]
        assert not wrong, {key: value.get(key, "missing") for key in wrong}
        return True

    return check


def each(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(check(item) for item in value)


PICK = null_or(shape(path=text, step=null_or(count), why=text))
ITEM = shape(
    step=null_or(count), name_step=null_or(count), path=text, root=text,
    state=any_of("complete", "writing", "incomplete", "rejected", "unknown"),
    marker=null_or(text), saved_at=null_or(instant), size=null_or(count),
    permanent=null_or(truth), protected=texts, suspect=null_or(text), note=null_or(text),
)  # fmt: skip
TRIAGE = shape(
    **{"class": text},
    action=any_of("relaunch", "fix_then_relaunch", "escalate", "wait", "none"),
    confidence=text, evidence=each(shape(line=null_or(count), text=text)),
    code_location=null_or(shape(file=text, line=null_or(count))), step=null_or(count),
)  # fmt: skip
POINT: Check = lambda value: len(value) == 2 and count(value[0]) and number(value[1])  # noqa: E731
CHECKPOINTS = shape(
    latest_complete=null_or(count), relaunch_from=PICK, trainer_would_load=PICK, items=each(ITEM)
)
VALUES: Mapping[str, Check] = {
    "job": shape(
        id=null_or(text), state=text,
        phase=any_of("waiting", "running", "succeeded", "failed", "cancelled", "unknown"),
        tasks=null_or(shape(running=count, total=count)), reason=null_or(text),
        exit_code=null_or(count), pending_since=null_or(instant), started_at=null_or(instant),
        ended_at=null_or(instant), restarts=null_or(count), launch_id=null_or(text),
        children=listed, diagnostic=listed,
    ),
    "log": shape(
        path=text, size=count, mtime=instant, last_line_at=null_or(instant), lines=texts,
        triage=null_or(TRIAGE),
    ),
    "tracker": shape(
        id=null_or(text), name=null_or(text), entity=null_or(text), project=null_or(text),
        url=null_or(text), state=text, step=null_or(count), loss=null_or(number),
        throughput=null_or(number), baseline=null_or(number), last_step_at=null_or(instant),
        last_record_at=null_or(instant), file_mtime=null_or(instant),
        heartbeat_at=null_or(instant), exit_code=null_or(count), history=each(POINT),
    ),
    "checkpoints": CHECKPOINTS,
    "monitor": shape(
        fresh=truth, last_update=null_or(instant), cadence_s=number, owner=null_or(text),
        restart_count=null_or(count), others=listed,
    ),
    "host": shape(
        disks=each(
            shape(mount=text, free=count, used_frac=number, inodes_frac=null_or(number))
        ),
        mem_frac=null_or(number), oom_kills=null_or(count), load=null_or(number), gpus=listed,
    ),
    "code": shape(
        sha=null_or(text), branch=null_or(text), dirty=texts, unpushed=null_or(count),
        record_sha=null_or(text), patch_id=null_or(text),
    ),
    "records": shape(
        logbook=null_or(text), last_entry_at=null_or(instant), pushed=null_or(truth),
        issue=null_or(text), issue_updated_at=null_or(instant),
    ),
}  # fmt: skip
FACET = {"value", "source", "observed_at", "age_s", "error"}
RUN = {
    "cost", "goodput", "name", "owner", "verdict", "verdict_reason", "facets", "progress", "alerts",
    "next_action",
}  # fmt: skip
ERROR = null_or(shape(kind=any_of(*KINDS), message=text))
ALERT = shape(
    id=text, key=text, severity=any_of("info", "warning", "alert", "critical"), title=text,
    since=instant, evidence=each(shape(text=text, source=text)), confidence=text,
    next_action=text, acknowledged=null_or(shape(by=text, at=instant, until=null_or(instant))),
)  # fmt: skip
PROGRESS = shape(
    step=null_or(count), final_step=null_or(count), final_step_source=null_or(text),
    text=text, eta_s=null_or(number),
)  # fmt: skip


def assert_fleet(document: Mapping[str, Any]) -> None:
    assert document.keys() == {"schema", "checked_at", "runs"}
    assert document["schema"] == 1 and instant(document["checked_at"])
    for run in document["runs"]:
        assert run.keys() == RUN
        assert run["verdict"] in (
            "healthy", "attention", "critical", "unknown", "finished", "sealed"
        )  # fmt: skip
        assert list(run["facets"]) == list(VALUES)
        assert PROGRESS(run["progress"]) and each(ALERT)(run["alerts"]) and text(run["next_action"])
        for name, facet in run["facets"].items():
            assert_facet(name, facet)


def assert_facet(name: str, facet: Mapping[str, Any]) -> None:
    assert facet.keys() == FACET, name
    assert ERROR(facet["error"]) and text(facet["source"])
    assert null_or(instant)(facet["observed_at"]) and null_or(number)(facet["age_s"])
    if facet["value"] is None:
        assert facet["error"] is not None, name
    else:
        assert VALUES[name](facet["value"]), name


def told(*words: str, folder: Path) -> tuple[int, list[dict[str, Any]], str]:
    """Run the program; return its exit code, its JSON documents, one per text block, and stderr."""
    done = program(*words, folder=folder)
    out = done.stdout
    documents = (
        [json.loads(out, parse_constant=pytest.fail)]
        if out.startswith("{\n")
        else [json.loads(line, parse_constant=pytest.fail) for line in out.splitlines()]
    )
    return done.returncode, documents, done.stderr


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyRun]:
    run = TinyRun(tmp_path)
    yield run
    run.stop()


@pytest.fixture
def troubled(tiny: TinyRun) -> Iterator[TinyRun]:
    """A real run with a NaN loss in its tracker, a torn checkpoint and a monitor long dead."""
    now = time.time()
    losses = ["2.5", "2.4", "NaN", "2.3", "NaN"]
    rows = [wandb_writer.row(n, loss, now - 10 + n) for n, loss in enumerate(losses)]
    (tiny.folder / "run-abc.wandb").write_bytes(
        wandb_writer.log([wandb_writer.run("abc", now - 20, project="p"), *rows])
    )
    (tiny.folder / "checkpoints" / "step-20").mkdir()
    (tiny.folder / "checkpoints" / "step-20" / "manifest.ocdbt").write_bytes(b"torn")
    (state,) = (tiny.folder / "scratch").iterdir()
    state.write_text(json.dumps({"ts": int((now - 9999) * 1000), "job_id": "tiny"}))
    (tiny.folder / "book.md").write_text("# tiny: Hero Run Logbook\n")
    subprocess.run(["git", "init", "-q"], cwd=tiny.folder, check=True)
    tiny.config.write_text(
        tiny.config.read_text() + 'wandb = { dir = "run-abc.wandb" }\ncode = { repo = "." }\n'
        'records = { logbook = "book.md" }\n[[run]]\nname = "bare"\n'
    )
    yield tiny


def test_check(troubled: TinyRun) -> None:
    code, (document,), said = told("check", "--json", folder=troubled.folder)
    assert (code, said) == (1, "")
    assert_fleet(document)
    run, bare = document["runs"]
    facets = run["facets"]
    assert all(facet["error"] is None for facet in facets.values()), facets
    assert facets["tracker"]["value"]["loss"] == "NaN"
    assert facets["monitor"]["value"]["fresh"] is False
    items = facets["checkpoints"]["value"]["items"]
    assert [item["step"] or item["name_step"] for item in items] == [10, 20]
    assert items[1]["state"] in ("writing", "incomplete")
    assert {"C-09", "C-03"} <= {alert["id"] for alert in run["alerts"]}
    assert run["verdict"] == "critical"
    assert {facet["error"]["kind"] for facet in bare["facets"].values()} <= {"not_configured"}
    assert bare["progress"]["text"] == "unknown/unknown"


def test_watch_prints_one_line_a_cadence(troubled: TinyRun) -> None:
    code, documents, _ = told("watch", "tiny", "--once", "--json", folder=troubled.folder)
    assert code == 1
    assert len(documents) == 1
    assert_fleet(documents[0])


def test_checkpoints(troubled: TinyRun) -> None:
    code, (document,), said = told("checkpoints", "checkpoints", "--json", folder=troubled.folder)
    assert (code, said) == (0, "")
    assert document["schema"] == 1
    assert CHECKPOINTS(document)


def test_doctor(troubled: TinyRun) -> None:
    code, (document,), _ = told("doctor", "--json", folder=troubled.folder)
    assert code in (0, 1)
    assert document["schema"] == 1
    finding = shape(name=text, level=text, text=text, remedy=null_or(text), run=null_or(text))
    assert document["findings"] and each(finding)(document["findings"])


def test_a_time_that_no_calendar_holds_is_null(troubled: TinyRun) -> None:
    row = wandb_writer.row(1, "2.5", 1e300)
    head = wandb_writer.run("abc", time.time())
    (troubled.folder / "run-abc.wandb").write_bytes(wandb_writer.log([head, row]))
    _, (document,), _ = told("check", "--json", folder=troubled.folder)
    assert_fleet(document)


def test_trouble_leaves_stdout_empty(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text("[[run]\n")
    for words in (["check", "--json"], ["watch", "--json"], ["checkpoints", "nowhere", "--json"]):
        code, documents, said = told(*words, folder=tmp_path)
        assert (code, documents) == (2, [])
        assert len(said.splitlines()) == 1

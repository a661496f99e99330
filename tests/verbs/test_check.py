import json
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import state_dir
from tests.verbs.tiny_run import TinyRun

FACETS = ["job", "log", "tracker", "checkpoints", "monitor", "host", "code", "records"]
RUN = {
    "cost", "goodput", "name", "owner", "verdict", "verdict_reason", "facets", "progress", "alerts",
    "next_action",
}  # fmt: skip
FACET = {"value", "source", "observed_at", "age_s", "error"}
PROGRESS = {
    "step", "step_source", "final_step", "final_step_source", "final_step_doubt", "text", "eta_s",
}  # fmt: skip
ALERT = {
    "id", "key", "severity", "title", "since", "since_or_before", "no_success", "evidence",
    "confidence", "next_action", "acknowledged",
}  # fmt: skip
VALUES = {
    "job": {
        "id", "state", "phase", "tasks", "reason", "exit_code", "pending_since", "started_at",
        "ended_at", "restarts", "launch_id", "children", "diagnostic",
    },
    "log": {"path", "size", "mtime", "last_line_at", "lines", "triage"},
    "checkpoints": {"latest_complete", "relaunch_from", "trainer_would_load", "items"},
    "monitor": {"fresh", "last_update", "cadence_s", "owner", "restart_count", "others"},
    "host": {"disks", "mem_frac", "oom_kills", "load", "gpus"},
}  # fmt: skip


def checked(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, dict[str, Any]]:
    code = main(["check", "--json", "--config", str(tiny.config), *words])
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    return code, document


def test_the_document_has_interface_s_shape(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = checked(tiny, capsys)
    assert code == 0
    assert list(document) == ["schema", "checked_at", "runs"]
    assert document["schema"] == 1
    (run,) = document["runs"]
    assert run.keys() == RUN
    assert list(run["facets"]) == FACETS
    assert all(facet.keys() == FACET for facet in run["facets"].values())
    assert run["progress"].keys() == PROGRESS
    for name, keys in VALUES.items():
        assert run["facets"][name]["value"].keys() >= keys, name
    assert run["facets"]["tracker"]["error"]["kind"] == "not_configured"


def test_a_healthy_run_is_seen_as_it_is(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert (code, run["verdict"], run["alerts"]) == (0, "healthy", [])
    assert run["facets"]["job"]["value"]["phase"] == "running"
    assert run["facets"]["checkpoints"]["value"]["latest_complete"] == 10
    assert run["progress"]["text"] == f"~{run['progress']['step']}/1000"


def test_a_dead_run_is_critical_with_its_triage(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.die()
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert (code, run["verdict"]) == (1, "critical")
    alert = run["alerts"][0]
    assert alert.keys() == ALERT
    assert (alert["id"], alert["severity"]) == ("C-01", "critical")
    assert alert["evidence"] and alert["evidence"][0].keys() == {"text", "source"}
    assert run["facets"]["log"]["value"]["triage"].keys() >= {
        "class", "action", "confidence", "evidence", "code_location", "step",
    }  # fmt: skip


def test_check_writes_nothing(tiny: TinyRun, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.die()
    before = {path: path.stat().st_mtime_ns for path in tiny.folder.rglob("*")}
    checked(tiny, capsys)
    assert {path: path.stat().st_mtime_ns for path in tiny.folder.rglob("*")} == before
    assert not state_dir().exists()


def test_a_later_now_finds_the_monitor_stale(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = checked(tiny, capsys, "--now", "2099-01-01T00:00:00Z")
    assert document["checked_at"] == "2099-01-01T00:00:00.000Z"
    assert "C-03" in [alert["id"] for alert in document["runs"][0]["alerts"]]
    assert code == 1


def test_a_half_written_state_file_is_an_unknown_facet_and_the_rest_works(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    (state,) = (tiny.folder / "scratch").iterdir()
    state.write_text('{"ts": 17')
    code, document = checked(tiny, capsys)
    (run,) = document["runs"]
    assert code == 1
    assert run["facets"]["monitor"]["value"] is None
    assert run["facets"]["monitor"]["error"]["message"]
    assert run["facets"]["job"]["value"]["phase"] == "running"


def test_nothing_that_can_be_observed_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "r"\njob = { kind = "slurm", id = "1", host = "nowhere" }\n')
    assert main(["check", "--config", str(path)]) == 3
    assert "UNKNOWN" in capsys.readouterr().out


def test_the_table_is_aligned_and_the_worst_is_first(
    tiny: TinyRun, capsys: pytest.CaptureFixture[str]
) -> None:
    with tiny.config.open("a") as file:
        file.write('\n[[run]]\nname = "gone"\njob = { kind = "local", pid_file = "x", ')
        file.write('exit_file = "bad.exit" }\n')
    (tiny.folder / "bad.exit").write_text("3\n")
    assert main(["check", "--config", str(tiny.config)]) == 1
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if not line.startswith(" ")]
    assert [row.split()[:2] for row in rows] == [
        ["VERDICT", "RUN"],
        ["CRITICAL", "gone"],
        ["HEALTHY", "tiny"],
    ]
    column = rows[0].index("STEP")
    assert all(row[column - 1] == " " and row[column] != " " for row in rows)
    assert any("C-01 critical" in line for line in lines)

"""Signatures of a team: as docs/signatures.md says, tried when read, never sure (SPEC T)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import ConfigError, Reloader, load
from cockpit.config.signatures import pattern_trouble
from cockpit.model.observed import Triage
from cockpit.model.own_rules import SignatureSpec
from cockpit.model.run import own_signatures
from cockpit.rules.triage.classify import diagnose
from cockpit.text.progress_lines import log_of_lines
from tests.verbs.checking import check

PAGE = (Path(__file__).parents[2] / "docs" / "signatures.md").read_text("utf-8")
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
CALLS = re.findall(r"```console\n\$ cockpit (.*?)\n(.*?)\n```", PAGE)
STEPS = [f"step {n}/100 loss 2.{n}" for n in range(1, 40)]
LINE = "poold: lease 99-b revoked by pool (quota of team-7)"
PREEMPTED = SignatureSpec.model_validate({
    "class": "preempted", "pattern": r"lease \S+ revoked by pool", "examples": (LINE,),
})  # fmt: skip


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what the page writes, and its log."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.log").write_text("\n".join([*STEPS, LINE]) + "\n")
    (tmp_path / "signatures.toml").write_text(TOML[0])
    (tmp_path / "cockpit.toml").write_text(TOML[1] + TOML[2])
    return tmp_path


@pytest.mark.usefixtures("team")
def test_a_stranger_who_follows_the_page_gets_what_it_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert len(CALLS) == 2
    for call, answer in CALLS:
        assert main(shlex.split(call)) == 0
        assert capsys.readouterr().out.splitlines()[0] == answer


def test_both_of_the_pages_ways_into_the_run_file_count(team: Path) -> None:
    (run,) = load(team / "cockpit.toml").runs
    assert [each.cause for each in own_signatures(run)] == ["bad_node", "preempted"]
    found = said([*STEPS, "[fm] Fabric manager lost port 3 on node7"], own=own_signatures(run))
    assert (found.name, found.action, found.yours) == ("bad_node", "escalate", True)


def test_the_page_says_which_action_each_class_has() -> None:
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| (.*?) \|$", PAGE, re.M)
    told = {name: (ended, alive) for names, ended, alive in rows[-9:]
            for name in re.findall(r"`(\w+)`", names)}  # fmt: skip
    words = {"relaunch": "relaunch", "fix_then_relaunch": "fix, then relaunch", "wait": "wait",
             "escalate": "escalate", "none": "nothing: who stopped it is asked"}  # fmt: skip
    causes = SignatureSpec.model_json_schema()["properties"]["class"]["enum"]
    assert told.keys() == set(causes)
    for cause, (ended, alive) in told.items():
        own = PREEMPTED.model_copy(update={"cause": cause})
        assert words[said([*STEPS, LINE], own=[own]).action] == ended, cause
        assert words[said([*STEPS, LINE], "running", own=[own]).action] == alive, cause


def test_a_check_says_whose_word_it_is(team: Path) -> None:
    job = '[run.job]\nkind = "local"\nlog = "run.log"\npid_file = "pid"\nexit_file = "exit"\n'
    (team / "cockpit.toml").write_text(f'{TOML[1]}\n[[run]]\nname = "toy"\n{job}')
    (team / "pid").write_text("4194300\n")
    (team / "exit").write_text("1\n")
    run = check(team)
    triage = run["facets"]["log"]["value"]["triage"]
    assert (triage["class"], triage["confidence"], triage["yours"]) == ("preempted", "likely", True)
    (ended,) = (each for each in run["alerts"] if each["id"] == "C-01")
    assert [each for each in ended["evidence"] if "a signature of your own" in each["text"]]
    assert ended["confidence"] == "likely"


def said(
    lines: list[str], state: str = "failed", exit_code: int | None = 1, *, own: Any = (PREEMPTED,)
) -> Triage:
    return diagnose(log_of_lines(lines), state, exit_code, own=own)


def test_a_relaunch_on_ones_own_word_is_never_sure() -> None:
    kernel = PREEMPTED.model_copy(update={"speaker": "kernel"})
    found = said([*STEPS, f"kernel: {LINE}"], own=[kernel])
    assert (found.name, found.action, found.confidence) == ("preempted", "relaunch", "likely")
    assert found.yours and found.basis == "likely, yours"


@pytest.mark.parametrize(
    ("before", "after", "action"),
    [
        (["step 40/100 loss nan"], [], "escalate"),
        (["attempt 2 of 5 failed with exit 1", "restart_count: 3"], [], "relaunch"),
        ([], ["training completed successfully"], "escalate"),
        ([], ["Job requeued by the scheduler"], "wait"),
        ([], ["job 7 cancelled by user ada"], "none"),
    ],
)
def test_what_speaks_against_a_relaunch_speaks_against_ones_own(
    before: list[str], after: list[str], action: str
) -> None:
    assert said([*STEPS, *before, LINE, *after]).action == action


def test_the_same_failure_before_is_a_persons_and_still_ones_own() -> None:
    node = PREEMPTED.model_copy(update={"cause": "node_death"})
    found = said([*STEPS, "the previous run died with the same error", LINE], own=[node])
    assert (found.action, found.yours) == ("escalate", True)


def test_memory_that_had_run_out_is_no_reason_to_go_on() -> None:
    lines = [*STEPS, "worker killed because of memory", LINE]
    assert said(lines, exit_code=137).name == "oom_host"


def test_what_is_sure_or_overcome_or_well_is_not_asked() -> None:
    sure = [*STEPS, LINE, "slurmstepd: error: *** JOB 7 ON n1 CANCELLED DUE TO TIME LIMIT ***"]
    assert not said(sure).yours
    assert not said([LINE, *STEPS], "running", None).yours
    assert said([*STEPS, LINE, "step 100/100 loss 2.1"], "succeeded", 0).action == "none"


def test_a_figure_of_the_pattern_is_meant() -> None:
    own = PREEMPTED.model_copy(update={"pattern": "agent left with code 77"})
    lines = [*STEPS, "agent left with code 12", "agent left with code 77"]
    assert [each.line for each in said(lines, own=[own]).evidence] == [41]
    assert not said(lines[:-1], own=[own]).yours


def test_a_line_of_metrics_counts_only_where_it_is_named() -> None:
    line = "fabric/lost: 3 fabric/up: 61 fabric/errors: 3 fabric/rate: 0.5 fabric/x: 1"
    own = PREEMPTED.model_copy(update={"pattern": "fabric/lost: [1-9]"})
    assert not said([*STEPS, line], own=[own]).yours
    assert said([*STEPS, line], own=[own.model_copy(update={"speaker": "metrics"})]).yours


@pytest.mark.parametrize(
    ("row", "where", "what"),
    [
        ("pattern = 'lost (port'\nexamples = ['lost port']", "3: signature.pattern", "no regular"),
        ("pattern = 'lost port'\nexamples = ['port lost']", "4: signature.examples", "not find"),
        ("pattern = 'port'\nexamples = ['port']\nothers = ['ports']", "5: signature.others",
         "finds this line"),
        (r"pattern = '(\w+\s?)+!'" + "\nexamples = ['it is down!']", "3: signature.pattern",
         "is slow on long lines"),
        ("pattern = 'x*'\nexamples = ['x']", "3: signature.pattern", "finds every line"),
        ("pattern = 'port'\nexamples = []", "4: signature.examples", "at least one line"),
        ("pattern = 'port'\nexamples = ['port']\nspeaker = 'kernle'", "5: signature.speaker",
         'did you mean "kernel"'),
        ("pattern = 'a: 1'\nexamples = ['a: 1 b: 2 c: 3 d: 4 e: 5']", "a: 1", "metrics"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_at_its_place(
    row: str, where: str, what: str, team: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (team / "own.toml").write_text(f'[[signature]]\nclass = "bad_node"\n{row}\n')
    assert main(["triage", "run.log", "--signatures", "own.toml"]) == 2
    (line, *more) = capsys.readouterr().err.splitlines()
    assert where in line and what in line and not more


@pytest.mark.parametrize(
    ("pattern", "example"),
    [
        ("(#+)+: fabric lost", "##: fabric lost"),
        (r"(-+\s*)+fabric lost", "--- fabric lost"),
        (r"(\s*\|\s*)+fabric lost", "a | b | fabric lost"),
        (r"(\x3d+)+> fabric lost", "==> fabric lost"),
        (r"(█+)+ fabric lost", "██ fabric lost"),
        (r"(\t+)+fabric lost", "\t\tfabric lost"),
    ],
)
def test_a_pattern_that_a_ruler_would_hang_is_refused(pattern: str, example: str) -> None:
    assert "slow on long lines" in (pattern_trouble(pattern, (example,)) or "")


def test_a_bad_team_file_keeps_the_good_one_and_a_new_one_is_read(team: Path) -> None:
    reloader = Reloader(load(team / "cockpit.toml"))
    path = team / "signatures.toml"
    path.write_text(TOML[0].replace("revoked by", "("))
    assert reloader.check()
    assert [each for each in reloader.problems if "signatures.toml:3" in each]
    assert len(own_signatures(reloader.file.runs[0])) == 2
    path.write_text(TOML[0] + TOML[0].replace("preempted", "node_death"))
    assert reloader.check() and reloader.problems == ()
    assert len(own_signatures(reloader.file.runs[0])) == 3


def test_a_team_file_that_is_not_there_is_said(team: Path) -> None:
    (team / "signatures.toml").unlink()
    with pytest.raises(ConfigError, match=r"named by cockpit\.signatures"):
        load(team / "cockpit.toml")

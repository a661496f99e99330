"""Every verb is wired: through the real parser, into the overview, the page and its example."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.actions.core.table import TABLE
from cockpit.cli import FAULT, all_verbs, main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "verbs.md").read_text(encoding="utf-8")

CALLS: dict[str, tuple[str, set[int]]] = {
    "open": ("open", {2}),  # no terminal here
    "demo": ("demo --clean --dir demo", {0}),
    "init": ("init slurm:7 --set name=b --print --json", {0}),
    "check": ("check --json", {0, 1, 3}),
    "watch": ("watch --once --json", {0, 1, 3}),
    "checkpoints": ("checkpoints . --json", {0}),
    "doctor": ("doctor --json", {0, 1}),
    "describe": ("describe toy --json", {3}),
    "history": ("history toy --json", {0}),
    "report": ("report --since 22:00 --json", {0}),
    "backtest": ("backtest rows.jsonl --json", {0}),
    "plot": ("plot toy --json", {3}),
    "veto": ("veto toy --json", {4}),
    "triage": ("triage - --json", {0}),
    "progress": ("progress - --json", {0}),
    "scrub": ("scrub", {0}),
    "schema": ("schema", {0}),
    "serve": ("serve nobody", {2}),  # no such run: it would go on until interrupted
    "completions": ("completions bash", {0}),
    "mcp": ("mcp --name ...", {2}),  # no name: it would take over this process's own streams
    "launch": ("launch toy --json", {4}),
    "relaunch": ("relaunch toy --json", {4}),
    "lineage": (
        "lineage toy --run-id b --wandb-id b --output-root /x/b --from 40 --reason why --json",
        {4},
    ),
    "rollback": ("rollback toy --to 40 --json", {4}),
    "stop": ("stop toy --json", {4}),
    "retain": ("retain toy --json", {4}),
    "seal": ("seal toy --json", {4}),
    "handoff": ("handoff toy --to bob --json", {0, 4}),
    "escalate": ("escalate toy --json", {0, 4}),
    "log": ("log toy --json", {4}),
    "autolog": ("autolog toy --json", {4}),
    "sync": ("sync toy --entity acme --project hero --json", {4}),
    "teardown": ("teardown toy --json", {4}),
    "publish": ("publish toy --json", {4}),
    "ack": ("ack toy end --json", {0, 4}),
    "standing": ("standing toy --until 10h --json", {4}),
    "hold": ("hold toy --json", {4}),
    "release": ("release toy --json", {4}),
    "requeue": ("requeue toy --json", {4}),
    "extend": ("extend toy --limit 12h --json", {4}),
    "adopt": ("adopt toy 90 --json", {4}),
}
"""A call of each verb that can be made on a run of which nothing is known, and its exit codes."""
SILENT = {"open", "demo", "scrub", "schema", "serve", "completions", "mcp"}
"""Verbs whose call prints no document of the cockpit's own shape."""
LISTS = {"progress"}
"""Verbs that print a list."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "cockpit.toml").write_text('[cockpit]\ncadence = "1s"\n[[run]]\nname = "toy"\n')
    (tmp_path / "rows.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    monkeypatch.chdir(tmp_path)
    (tmp_path / "piped.log").write_text("step 1\n")
    with (tmp_path / "piped.log").open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        yield tmp_path


def helped(verb: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_does_its_work_from_the_command_line(
    verb: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, codes = CALLS[verb]
    if verb == "completions":
        pytest.importorskip(
            "shtab", reason="an environment made before shtab was needed: make test"
        )
    assert main(shlex.split(words)) in codes
    out = capsys.readouterr().out
    if verb in SILENT:
        return
    document = json.loads(out)
    if verb in LISTS:
        assert document == []
        return
    assert document["schema"] == 1
    if verb in {row.verb for row in TABLE}:
        assert (document["action"], document["run"]) == (verb, "toy")


def test_no_verb_is_without_a_call() -> None:
    assert sorted(verb.name for verb in all_verbs()) == sorted(CALLS)


@pytest.mark.parametrize("verb", CALLS)
def test_the_example_of_a_verb_is_a_call_of_it(
    verb: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = " ".join(helped(verb, capsys).split())
    example = re.search(r"example: (?:cat \S+ \| )?(?:.* \| )?cockpit (.*)$", said)
    assert example is not None, said
    words = shlex.split(example[1].partition(" | ")[0].partition(" > ")[0])
    assert words[0] == verb
    with pytest.raises(SystemExit) as left:
        main([*words, "--help"])
    assert left.value.code == 0
    options = {word for word in words if word.startswith("--")}
    assert options <= set(re.findall(r"--[\w-]+", said.partition("example:")[0]))


def test_a_verb_that_there_is_not_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zzz", "toy"]) == 2
    assert capsys.readouterr().err == "cockpit: no verb 'zzz'; cockpit --help lists them\n"
    assert main(["chekc"]) == 2
    assert capsys.readouterr().err == "cockpit: no verb 'chekc'; did you mean check?\n"


def test_the_page_of_verbs_has_them_all_with_every_option(
    capsys: pytest.CaptureFixture[str],
) -> None:
    sections = dict(re.findall(r"^### cockpit (\w+)\n(.*?)(?=^### |\Z)", PAGE, re.M | re.S))
    assert sorted(sections) == sorted(CALLS)
    for verb, text in sections.items():
        options = set(re.findall(r"--[a-z][\w-]+", helped(verb, capsys).partition("options:")[2]))
        assert {each for each in options if each not in text} == {"--help"}, verb


def test_the_exit_codes_of_the_page_happen(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = PAGE[PAGE.index("## Exit codes") :].partition("<!-- /exit codes")[0]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", text, re.M)}
    seen = {main(["scrub"]), main(["check"]), main(["check", "nobody"]), main(["stop", "toy"])}

    def break_off(*_: object) -> int:
        raise KeyboardInterrupt

    def fail(*_: object) -> int:
        raise RuntimeError

    monkeypatch.setattr("cockpit.verbs.scrub.run", break_off)
    seen.add(main(["scrub"]))
    monkeypatch.setattr("cockpit.verbs.scrub.run", fail)
    seen.add(main(["scrub"]))
    assert FAULT in seen
    by_others = {1, 5, 6}
    assert seen | by_others == told, "1 in tests/verbs/test_check, 5 and 6 in test_exit_codes"

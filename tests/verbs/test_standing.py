"""A standing order is armed by typed words, seen by every look at the run, and ended at once."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.model.shared_facts import SharedFact, is_agent
from cockpit.text.logbook_lines import message_line

RUN_FILE = """
[cockpit]
operator = "{operator}"
[notify]
routes = [{{ min = "info", command = "true" }}]
[[run]]
name = "toy"
dri = "ada"
output_root = "{root}"
resubmit = "true"
job = {{ kind = "local", pid_file = "{root}/pid", log = "{root}/log" }}
"""
STANDING = """
[run.standing]
relaunch = { classes = ["preempted", "walltime"], at_most = 2, within = "6h" }
"""
CONFIRM = ("--confirm", "standing toy")


class Desk:
    """One run file and the commands on it."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.root = folder / "out"
        self.root.mkdir()
        (self.root / "log").touch()
        self.path = folder / "cockpit.toml"
        self.capsys = capsys
        self.write()

    def write(self, operator: str = "ada", standing: str = STANDING) -> None:
        self.path.write_text(RUN_FILE.format(operator=operator, root=self.root) + standing)

    def do(self, *words: str) -> tuple[int, str]:
        self.capsys.readouterr()
        code = main([*words, "--config", str(self.path)])
        return code, self.capsys.readouterr().out

    def blocks(self, *words: str) -> dict[str, str]:
        code, out = self.do("standing", "toy", *words, "--json")
        found = {each["id"]: each["text"] for each in json.loads(out)["checks"]
                 if each["level"] == "block"}  # fmt: skip
        assert (code == 4) == bool(found)
        return found

    def order(self) -> dict[str, Any] | None:
        found: dict[str, Any] = json.loads(self.do("check", "toy", "--json")[1])["runs"][0]
        return found.get("standing")


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(tmp_path, capsys)


def test_it_is_armed_by_words_and_ended_by_a_veto(desk: Desk) -> None:
    assert desk.order() is None, "what stands in the run file does nothing"
    code, out = desk.do("standing", "toy", "--until", "10h")
    assert code == 0, out
    assert "relaunch after preempted, walltime; at most 2 times within 6h" in out
    assert desk.order() is None, "a plan arms nothing"
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    order = desk.order()
    assert order is not None
    assert (order["by"].partition(" ")[0], order["terms"]["at_most"]) == ("ada", 2)
    assert desk.do("veto", "toy", "--reason", "I am up") == (
        0,
        "the standing order of ada has ended\n"
        "orders on other machines end as soon as they read it\n",
    )
    assert desk.order() is None
    code, out = desk.do("veto", "toy")
    assert (code, "it has no standing order" in out) == (4, True)
    assert "I am up" in desk.do("history", "toy", "--json")[1]


def test_the_verb_ends_it_too_and_a_new_one_may_be_armed(desk: Desk) -> None:
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    code, out = desk.do("standing", "toy", "--off", "yes")
    assert (code, "ends the standing order of ada" in out) == (0, True)
    assert desk.do("standing", "toy", "--off", "yes", *CONFIRM)[0] == 0
    assert desk.order() is None
    assert desk.do("standing", "toy", "--until", "1h", *CONFIRM)[0] == 0
    assert desk.order() is not None


def test_what_a_person_does_to_the_run_ends_it(desk: Desk) -> None:
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    assert desk.do("log", "toy", "--confirm", "log toy")[0] == 4
    assert desk.order() is not None, "what only tells, or was refused, ends nothing"
    code, out = desk.do("handoff", "toy", "--to", "bob", "--confirm", "handoff toy")
    assert code in (0, 6), out
    assert desk.order() is None


@pytest.mark.parametrize(
    ("words", "standing", "operator", "check", "said"),
    [
        (("--until", "10h"), "", "ada", "standing", "[run.standing] of toy is not in the run file"),
        (("--until", "10h"), STANDING, "bob", "by", "who may arm it: ada"),
        (("--until", "10h"), STANDING, "agent:x", "by", "an agent cannot arm it"),
        (("--until", "9d"), STANDING, "ada", "until", "more than 7 days away"),
        (("--until", "2020-01-01T00:00:00Z"), STANDING, "ada", "until", "is over already"),
    ],
)
def test_it_is_not_armed(
    desk: Desk, words: tuple[str, ...], standing: str, operator: str, check: str, said: str
) -> None:
    desk.write(operator, standing)
    assert said in desk.blocks(*words)[check]
    assert desk.do("standing", "toy", *words, *CONFIRM)[0] == 4
    assert desk.order() is None


def test_others_arm_it_where_the_run_file_names_them(desk: Desk) -> None:
    desk.write("bob", STANDING + 'by = ["bob", "eve"]\n')
    assert desk.blocks("--until", "10h") == {}


def test_nothing_can_be_armed_where_no_guard_is_seen_by_other_machines(desk: Desk) -> None:
    text = desk.path.read_text()
    desk.path.write_text(text.replace(f'output_root = "{desk.root}"\n', ""))
    assert "guard" in desk.blocks("--until", "10h")


def test_its_end_must_be_said(desk: Desk) -> None:
    assert desk.do("standing", "toy")[0] == 2
    desk.write(standing=STANDING.replace('"6h" }', '"6h", until = "8h" }'))
    assert desk.blocks() == {}


@pytest.mark.parametrize("cause", ["numeric_instability", "oom_device", "user_stopped", "unknown"])
def test_only_what_a_relaunch_can_mend_is_named_in_a_run_file(desk: Desk, cause: str) -> None:
    desk.write(standing=STANDING.replace("walltime", cause))
    assert desk.do("check", "toy")[0] == 2


def tell(desk: Desk, value: str, by: str, ago: float = 5.0) -> None:
    """Tell under the output root what another account did to its standing order."""
    fact = SharedFact(what="standing", value=value, at=time.time() - ago, typed_by=by)
    place = desk.root / ".cockpit" / "told.md"
    place.parent.mkdir(exist_ok=True)
    with place.open("a") as file:
        file.write(f"- {message_line(fact)}\n")


def test_a_veto_ends_the_orders_of_other_machines_too(desk: Desk) -> None:
    tell(desk, "armed", "bob")
    code, out = desk.do("veto", "toy")
    assert (code, out) == (0, "orders on other machines end as soon as they read it\n")
    assert "standing: `ended`" in (desk.root / ".cockpit" / "told.md").read_text()
    code, out = desk.do("veto", "toy")
    assert (code, "it has no standing order" in out) == (4, True), "it was ended already"


def test_what_a_machine_tells_whose_clock_is_behind_ends_an_order_as_well(desk: Desk) -> None:
    tell(desk, "ended", "bob", ago=60.0)
    assert desk.do("standing", "toy", "--until", "10h", *CONFIRM)[0] == 0
    assert desk.order() is not None, "what was known when it was armed is no later word"
    tell(desk, "ended", "eve", ago=600.0)
    assert desk.order() is None


@pytest.mark.parametrize("name", ["standing order of ada", "Standing  Order of\u200b ada"])
def test_nobody_acts_under_the_name_of_a_standing_order(desk: Desk, name: str) -> None:
    assert is_agent(name)
    desk.write(name)
    for verb in ("standing", "relaunch", "log"):
        assert desk.do(verb, "toy", "--confirm", f"{verb} toy")[0] == 2
        assert desk.do("history", "toy", "--json")[1].count('"action"') == 0


def test_arming_says_that_a_kill_by_hand_looks_like_any_other(desk: Desk) -> None:
    desk.write(standing=STANDING.replace('"walltime"', '"killed"'))
    code, out = desk.do("standing", "toy", "--until", "10h")
    assert code == 0
    assert "a kill -9 that a person types looks the same" in out

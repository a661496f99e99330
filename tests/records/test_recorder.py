from __future__ import annotations

import re
from pathlib import Path

from cockpit.model.clock import SystemClock
from cockpit.model.records import EventEntry, InstanceEntry, Recorded, SaveStage
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.records.git.saver import PushStage, Saver
from cockpit.records.issue.service import IssueService
from cockpit.records.recorder import NO_LOGBOOK, RecordWriter, scrubbed
from tests.records.remotes import LOGBOOK, git, remote_logbook, shared

SECRET = "ghp_" + "a1B2" * 9
AT = 1773219300.0


class Issues(IssueService):
    def __init__(self) -> None:
        self.said: list[str] = []

    async def comment(self, run: RunSpec, event: str, body: str) -> Recorded:
        self.said.append(f"{event}: {body}")
        return Recorded(stage=SaveStage.PUSHED)

    async def create(self, run: RunSpec, body: str) -> Recorded:
        self.said.append(body)
        return Recorded(stage=SaveStage.PUSHED, url="https://example.org/1")


def run_of(folder: Path, logbook: str = LOGBOOK) -> RunSpec:
    return RunSpec(name="run", dri="ada", records=RecordsSpec(logbook=str(folder / logbook)))


async def test_entries_reach_the_remote_once_and_without_secrets(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    service = RecordWriter(Saver(SystemClock()), Issues())
    entry = EventEntry(title="relaunch", at=AT, status=f"token {SECRET}", next="look again")
    for _ in range(2):
        done = await service.event(run_of(ada), entry, "run: log relaunch")
        assert (done.trouble, done.lasting) == (None, True)
    instance = InstanceEntry(launch_id="run-i002", at=AT, fields={"Git SHA": "abc", "X": SECRET})
    assert (await service.instance(run_of(ada), instance, "run: log relaunch")).lasting
    (push,) = await service.pushes([ada / LOGBOOK], within=30.0)
    assert push.stage is PushStage.PUSHED
    text = remote_logbook(tmp_path).decode()
    assert text.count("relaunch") == 1 and "run-i002" in text and SECRET not in text
    assert git(ada, "rev-list", "--count", "HEAD") == "3\n"


async def test_the_contract_makes_a_logbook_and_keeps_it(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    service, run = RecordWriter(Saver(SystemClock()), Issues()), run_of(ada, "logs/new.md")
    await service.contract(run, {"Goal": "win"}, "run: start hero-run logbook")
    assert (await service.contract(run, {"Goal": "win more"}, "run: log contract")).lasting
    text = (ada / "logs/new.md").read_text()
    assert "## Run Contract" in text and "- Goal: win\n" in text
    assert re.search(r"^- Goal \(since \d{4}-\d\d-\d\d\): win more$", text, re.MULTILINE)
    assert git(ada, "log", "-2", "--format=%s").split("\n")[:2] == [
        "run: log contract",
        "run: start hero-run logbook",
    ]


async def test_an_entry_for_a_logbook_that_is_not_there_begins_one(tmp_path: Path) -> None:
    ada = shared(tmp_path)
    service, run = RecordWriter(Saver(SystemClock()), Issues()), run_of(ada, "logs/new.md")
    await service.event(run, EventEntry(title="by hand", at=AT, status="Well."), "run: log")
    text = (ada / "logs/new.md").read_text()
    assert text.startswith("# run") and "by hand" in text and "Well." in text


async def test_a_run_without_a_logbook_has_nothing_in_the_way() -> None:
    service, run = RecordWriter(Saver(SystemClock()), Issues()), RunSpec(name="x")
    assert await service.event(run, EventEntry(title="t", at=AT), "c") == NO_LOGBOOK
    assert NO_LOGBOOK.lasting


async def test_what_goes_to_the_issue_is_scrubbed(tmp_path: Path) -> None:
    issues = Issues()
    service = RecordWriter(Saver(SystemClock()), issues)
    await service.comment(RunSpec(name="x"), "e1", f"key {SECRET}")
    assert (await service.create_issue(RunSpec(name="x"), SECRET)).url is not None
    assert not any(SECRET in said for said in issues.said) and len(issues.said) == 2


def test_a_label_can_make_its_value_a_secret() -> None:
    entry = InstanceEntry(launch_id="i", at=AT, fields={"WANDB_API_KEY": "f00dbeef" * 5, "A": "b"})
    assert "f00dbeef" not in str(scrubbed(entry)) and scrubbed(entry).fields["A"] == "b"

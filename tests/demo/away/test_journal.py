"""The journal of a demo on another system: what a later one can rely on."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from cockpit.cli import main
from cockpit.config.file import load
from cockpit.demo import folder
from cockpit.demo.away.kinds import BoxSite, RaySite, SlurmSite
from cockpit.demo.away.session import AwayFleet, Journal, run_file, situations_of
from cockpit.demo.away.site import Ground, Site, is_own
from cockpit.demo.layout import DemoLayout
from cockpit.demo.situations import Situation
from cockpit.platforms.base import CannotError, LostError
from cockpit.verbs.doctor import _foreign_settings, _unaddressed_paths, _unread_settings


class Cluster(SlurmSite):
    """A cluster on which a submission ends as the test says."""

    def __init__(self, layout: DemoLayout, error: BaseException | None) -> None:
        super().__init__()
        self.layout, self.error = layout, error
        self.before: dict[str, str | None] = {}

    def submit(self, situation: Situation, ground: Ground) -> str:
        written = Journal.read(self.layout)
        assert written is not None
        self.before = written.jobs
        if self.error is not None:
            raise self.error
        return "7"


@pytest.mark.parametrize(
    ("error", "after"),
    [
        (None, "7"),
        (CannotError("no"), "absent"),
        (LostError("?"), None),
        (KeyboardInterrupt(), None),
    ],
)
def test_a_submission_is_noted_before_and_after(
    layout: DemoLayout, error: BaseException | None, after: str | None
) -> None:
    site = Cluster(layout, error)
    journal = Journal.begin(layout, site)
    journal.found(Ground("/there", "python3"))
    situations = situations_of(journal)
    folder.build_runs(layout, situations)
    with suppress(CannotError, LostError, KeyboardInterrupt):
        AwayFleet(journal, situations)._start_run(situations[0], "sha")
    name = situations[0].launch_id
    assert site.before == {name: None}
    written = Journal.read(layout)
    assert written is not None and written.ground == Ground("/there", "python3")
    assert written.jobs.get(name, "absent") == after
    assert written.doubtful is (after is None)


@pytest.mark.parametrize(
    "site", [SlurmSite(), SlurmSite("h"), RaySite("http://h:8265"), BoxSite("h")]
)
@pytest.mark.parametrize("seen", [True, False])
def test_the_run_file_holds_nothing_that_is_not_read(
    layout: DemoLayout, site: Site, seen: bool
) -> None:
    journal = Journal.begin(layout, site)
    host = site.settings.get("host")
    journal.found(Ground("/there", "python3", host=host, tracker=seen, seen=seen))
    assert journal.ground is not None
    situations = situations_of(journal)
    folder.build_runs(layout, situations)
    layout.run_file.write_text(run_file(journal, journal.ground, "ada", situations))
    file = load(layout.run_file)
    assert [run.name for run in file.runs] == [each.name for each in situations]
    findings = (_unread_settings(file), _foreign_settings(file), _unaddressed_paths(file))
    assert not [each for found in findings for each in found]
    for run in file.runs:
        assert run.job is not None and run.job.kind == site.kind
        assert run.resubmit and run.records.logbook and run.monitor and run.dri
        assert (run.checkpoints is not None) is (run.output_root is not None) is seen


def test_a_demo_here_does_not_take_the_folder_of_one_elsewhere(
    layout: DemoLayout, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal.begin(layout, SlurmSite())
    assert main(["demo", "--headless", "--dir", str(layout.folder)]) == 2
    assert "remove that one with --clean" in capsys.readouterr().err
    assert layout.away.exists()


def test_two_demos_share_no_name(layout: DemoLayout) -> None:
    one, two = (Journal.begin(layout, SlurmSite()) for _ in range(2))
    names = [{each.name for each in situations_of(journal)} for journal in (one, two)]
    assert len(names[0]) == 7 and names[0].isdisjoint(names[1])
    assert all(is_own(name, one.token) and not is_own(name, two.token) for name in names[0])


@pytest.mark.parametrize(
    "name",
    ["demo-slow", "demo-slow-bcdfg2", "xdemo-slow-bcdfg", "demo-slow-bcdfg-i1x", "demo--bcdfg", ""],
)
def test_what_is_not_the_demos_own(name: str) -> None:
    assert is_own("demo-slow-bcdfg", "bcdfg") and is_own("demo-slow-bcdfg-i012", "bcdfg")
    assert not is_own(name, "bcdfg")


@pytest.mark.parametrize("change", [{"kind": "pbs"}, {"site": {"x": 1}}, {"ground": {}}, None])
def test_a_journal_that_cannot_be_read_is_said(
    layout: DemoLayout, change: dict[str, object] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal.begin(layout, SlurmSite())
    document = json.loads(layout.away.read_text())
    layout.away.write_text("{" if change is None else json.dumps(document | change))
    assert main(["demo", "--clean", "--dir", str(layout.folder)]) == 70
    assert "away.json cannot be read" in capsys.readouterr().err
    assert layout.folder.exists()

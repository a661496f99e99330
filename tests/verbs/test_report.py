"""``cockpit report``: a night as the store has it, as text, Markdown, HTML and JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.cli import main
from cockpit.config.file import load, store_path
from cockpit.model.acts import Outcome
from cockpit.model.alert import Severity
from cockpit.model.base import rfc3339
from cockpit.model.cost import Cost
from cockpit.model.goodput import Goodput, Restarts, Split
from cockpit.model.history import PhaseMark
from cockpit.model.observed import Phase
from cockpit.model.plan import Draft, Request, plan_of
from cockpit.model.report import RunReport, Verdict
from cockpit.model.run import RunSpec
from cockpit.model.standing import StandingRelaunch
from cockpit.records.lease.state import this_holder
from cockpit.store.alerts import Alerts, Kept
from cockpit.store.journal import ENDS, SPEC, TERMS, VERB, Journal, run_digest
from cockpit.store.memory import Observation, Pasts, RunMemory
from cockpit.store.store import Store, run_key
from tests.widgets import reports as made

HOUR, CADENCE = 3600.0, 600.0
HOSTILE = "Loss <script>alert(1)</script> of @ada"


class Night:
    """A run that was watched from two hours before ``since`` on, but for the third hour after."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "cockpit.toml"
        self.config.write_text('[[run]]\nname = "llama-70b"\ncadence = "10m"\n')
        self.now = time.time()
        self.since = self.now - 9 * HOUR
        self.spec: RunSpec = load(self.config).runs[0]
        self.store = Store(store_path())
        self.key = run_key(load(self.config).path, "llama-70b")

    def watched(self) -> None:
        at, number = self.since - 2 * HOUR - 30, 0
        while at < self.now - 1:
            if not 3 * HOUR <= at - self.since < 4 * HOUR:
                seen = Observation(
                    at=at, verdict=Verdict.HEALTHY, phase=Phase.RUNNING, step=number * 100
                )
                assert RunMemory(self.store).observe(self.key, seen, CADENCE)
            at, number = at + CADENCE, number + 1

    def kept(self, at: float, spent: float, restarts: int, **changes: Any) -> None:
        """Keep a whole moment whose account says so much."""
        began = self.since - 2 * HOUR
        cost = Cost(currency="EUR", price=36.0, per="job", per_hour=36.0, since=began, until=at,
                    held_s=at - began, spent=spent, lost_to_repeats=spent / 10,
                    basis=("36.00 EUR/h, by cockpit.toml",))  # fmt: skip
        account = Goodput(since=began, until=at, share=0.9, split=Split(productive_s=1.0),
                          restarts=Restarts(ours=restarts))  # fmt: skip
        report: RunReport = made.report(
            "llama-70b", checked_at=at, spec=self.spec, cost=cost, goodput=account, **changes
        )
        assert Pasts(self.store).keep(self.key, report, str(at), CADENCE)

    def told(self, capsys: pytest.CaptureFixture[str], *words: str) -> str:
        self.store.close()
        since = rfc3339(self.since)
        capsys.readouterr()
        assert main(["report", "--config", str(self.config), "--since", since, *words]) == 0
        return capsys.readouterr().out


@pytest.fixture
def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    monkeypatch.setenv("COLUMNS", "80")
    found = Night(tmp_path)
    found.watched()
    open_now = made.alert("C-09", Severity.CRITICAL, HOSTILE, since=found.now - HOUR)
    found.kept(found.since - 60, 72.0, 0)
    found.kept(found.now - 30, 396.0, 2, verdict=Verdict.CRITICAL, alerts=(open_now,),
               next_action="stop llama-70b")  # fmt: skip
    gone = made.alert("C-05", Severity.ALERT, "Throughput 31 % below its baseline")
    Alerts(found.store).save(
        found.key,
        [
            Kept(alert=gone.model_copy(update={"since": found.since + HOUR}),
                 opened_at=found.since + HOUR, closed_at=found.since + 2 * HOUR),
            Kept(alert=open_now, opened_at=found.now - HOUR),
        ],
    )  # fmt: skip
    marks = [PhaseMark(at=found.since + 5 * HOUR, phase=Phase.FAILED, job_id="71")]
    RunMemory(found.store).add_phases(found.key, marks)
    journal, by = Journal(found.store), "standing order of ada"
    for at in (found.since - HOUR, found.since + 5.1 * HOUR):
        draft = Draft(words="relaunch llama-70b")
        plan = plan_of(Request(action="relaunch", run="llama-70b", operator=by), draft, at)
        begun = journal.begin(found.key, plan, by, this_holder(), at, exclusive=False)
        journal.end(begun.number, Outcome.DONE, at + 60, "submitted job 72")
    yield found
    found.store.close()


def test_a_night_reads_at_80_columns(night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    text = night.told(capsys)
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    flat = " ".join(text.split())
    assert lines[2].startswith("llama-70b CRITICAL")
    assert f"C-09 critical: {HOSTILE}, since" in flat
    assert "next stop llama-70b" in flat
    assert "step 1,200 to 6,600 of 20,000 (+5,400) 2 restarts" in flat
    assert "spent in this time: 324.00 EUR since" in flat and ", 32.40 EUR lost to repeats" in flat
    assert "basis: 36.00 EUR/h, by cockpit.toml" in flat
    assert "nobody: " in flat and "(1h 10m)" in flat
    assert "C-05 Throughput 31 % below its baseline" in flat
    assert "Closed unseen after 1h 00m: Throughput 31 %" in flat
    assert "Job 71 failed" in flat
    assert flat.count("relaunch by standing order of ada: done (submitted job 72)") == 1


def test_foreign_text_is_escaped_in_the_page_and_in_markdown(
    night: Night, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    comment = night.told(capsys, "--markdown", "--html", str(page))
    html = page.read_text()
    assert "&lt;script&gt;alert(1)" in html and "<script" not in html
    assert "default-src 'none'" in html and "http" not in html.replace("http-equiv", "")
    assert comment.startswith("🤖 Report from ")
    assert "<script>" not in comment and "@ada" not in comment
    assert "**Next**: stop llama-70b" in comment


@pytest.mark.parametrize("shape", ["--html", "--markdown", "text"])
def test_no_secret_and_no_control_gets_out_folded_or_escaped(
    night: Night, shape: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    token = f"hf_{'aB3dE5fG7hJ9kL1mN3' * 6}"
    hostile = f'"token": "s3cr3tV4lueAbcdef99" {token} \x1b[31m\u202e red\nline'
    alert = made.alert("C-09", Severity.CRITICAL, hostile, since=night.now - HOUR)
    night.kept(night.now - 20, 400.0, 2, verdict_reason=hostile, alerts=(alert,),
               next_action=hostile)  # fmt: skip
    page = tmp_path / "report.html"
    page.write_text("what was there before")
    told = night.told(capsys, *{"--html": ("--html", str(page)), "text": ()}.get(shape, (shape,)))
    told = page.read_text() if shape == "--html" else told
    assert "C-09 critical: " in told and "red line" in " ".join(told.split())
    assert not [each for each in ("s3cr3tV4lue", "aB3dE5fG7hJ9", "\x1b", "\u202e") if each in told]


def test_the_document_has_what_the_text_says(
    night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(night.told(capsys, "--json"))
    assert (document["schema"], document["since"]) == (1, rfc3339(night.since))
    (run,) = document["runs"]
    assert (run["verdict"], run["restarts"], run["step_from"]) == ("critical", 2, 1200)
    assert (run["spent"], run["spent_why"]) == (pytest.approx(324.0), None)
    assert len(run["unwatched"]) == 1
    assert [each["text"] for each in run["done"]] == ["relaunch by standing order of ada: done"]
    assert run["alerts"][0]["title"] == HOSTILE


@pytest.mark.parametrize(
    ("ends", "file", "said"),
    [
        (HOUR, "", "relaunches used happened"),
        (-HOUR, "", "relaunches used; over: it ended at "),
        (
            HOUR,
            'goal = "else"\n',
            "relaunches used; over: the run's table in the run file was changed",
        ),
        (-9.5 * HOUR, "", None),
    ],
)
def test_an_order_is_told_with_why_it_is_over(
    night: Night, ends: float, file: str, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = StandingRelaunch(classes=("preempted",)).model_dump_json()
    facts = {TERMS: terms, SPEC: run_digest(night.spec)}
    plan = plan_of(Request(action=VERB, run="llama-70b", operator="ada"),
                   Draft(words="standing llama-70b", facts=facts), night.since)  # fmt: skip
    journal, at = Journal(night.store), night.since - 2 * HOUR
    begun = journal.begin(night.key, plan, "ada", this_holder(), at, exclusive=False)
    journal.note(begun.number, {ENDS: str(night.now + ends)})
    journal.end(begun.number, Outcome.DONE, at, "armed")
    night.config.write_text(night.config.read_text() + file)
    told = " ".join(night.told(capsys).replace("watched", "happened").split())
    assert ("standing standing order of ada until" in told) is (said is not None)
    assert said is None or said in told


def test_a_single_look_in_the_time_is_a_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Night(tmp_path)
    seen = Observation(at=found.since + HOUR, verdict=Verdict.HEALTHY, phase=Phase.RUNNING, step=1)
    assert RunMemory(found.store).observe(found.key, seen, CADENCE)
    told = " ".join(found.told(capsys).split())
    assert "no cockpit of this machine looked" not in told
    assert "watched 0s of 9h 00m; nobody: " in told


def test_figures_of_an_earlier_look_say_up_to_when_they_count(
    night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "up to" not in night.told(capsys)
    night.store = Store(store_path())
    night.now += 2 * HOUR
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cockpit.verbs.report.SystemClock.now", lambda self: night.now)
        flat = " ".join(night.told(capsys).split())
    assert flat.count(" up to ") == 3


def test_more_than_is_read_is_said(night: Night, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(night.store)
    for number in range(1005):
        at = night.since + 60 + number
        plan = plan_of(Request(action="log", run="llama-70b", operator="ada"),
                       Draft(words="log llama-70b"), at)  # fmt: skip
        begun = journal.begin(night.key, plan, "ada", this_holder(), at, exclusive=False)
        journal.end(begun.number, Outcome.DONE, at, "")
    assert "only the newest 1,000 are read" in " ".join(night.told(capsys).split())


def test_a_price_that_changed_leaves_the_time_unknown(
    night: Night, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = Cost(currency="EUR", price=40.0, per="job", per_hour=40.0, spent=400.0,
                since=night.since - 2 * HOUR, lost_to_repeats=0.0)  # fmt: skip
    report = made.report("llama-70b", checked_at=night.now - 10, spec=night.spec, cost=cost)
    assert Pasts(night.store).keep(night.key, report, "dearer", CADENCE)
    text = " ".join(night.told(capsys).split())
    assert "spent in this time: unknown (the price has changed since)" in text
    assert "restarts: unknown" in text


def test_a_run_that_nobody_has_seen_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Night(tmp_path)
    text = " ".join(found.told(capsys).split())
    assert "llama-70b UNKNOWN (never seen) open not known next look at it: cockpit check" in text
    assert "no cockpit of this machine looked in this time" in text
    assert "nothing is kept here" in text


def test_two_shapes_at_once_are_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Night(tmp_path)
    found.store.close()
    with pytest.raises(SystemExit) as raised:
        main(["report", "--config", str(found.config), "--since", "1h ago", "--markdown", "--json"])
    assert raised.value.code == 2
    told = capsys.readouterr()
    assert "argument --json: not allowed with argument --markdown" in told.err
    assert told.out == ""


def test_a_time_to_come_and_a_run_that_is_not_there_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Night(tmp_path)
    found.store.close()
    with pytest.raises(SystemExit) as raised:
        main(["report", "--config", str(found.config), "--since", "2999-01-01T00:00Z"])
    assert raised.value.code == 2
    assert "is still to come" in capsys.readouterr().err
    assert main(["report", "other", "--config", str(found.config), "--since", "1h ago"]) == 2
    assert "has no run 'other'" in capsys.readouterr().err

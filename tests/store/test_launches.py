"""What this machine remembers of rejected checkpoints and of seals."""

from __future__ import annotations

from pathlib import Path

from cockpit.model.plan import Draft, Outcome, Plan, Request, plan_of
from cockpit.model.records import Rejected
from cockpit.store.journal import Holder, Journal
from cockpit.store.launches import Rejections, Seals
from cockpit.store.memory import LaunchedJob, RunMemory
from cockpit.store.store import Store


def rejected(at: float, reason: str = "spike") -> Rejected:
    return Rejected(step=4, path="/c/step-4", at=at, by="ada", reason=reason)


def test_they_are_kept_by_run_and_the_later_of_one_path_stays(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    Rejections(store).add("a", [rejected(10.0), rejected(20.0, "again")])
    Rejections(store).add("a", [rejected(15.0)])
    assert Rejections(Store(tmp_path / "store.sqlite")).of("a") == (rejected(20.0, "again"),)
    assert Rejections(store).of("b") == ()


def plan() -> Plan:
    return plan_of(Request(action="seal", run="a", operator="ada"), Draft(words="seal a 1"), 1.0)


def test_a_seal_holds_until_the_run_is_launched_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    journal = Journal(store)
    assert Seals(store).last("a") is None
    entry = journal.begin("a", plan(), "ada", Holder(host="h", pid=1), 10.0, exclusive=True)
    assert Seals(store).last("a") is None
    journal.end(entry.number, Outcome.DONE, 11.0, "")
    assert Seals(store).last("a") == "ada"
    RunMemory(store).add_launch("a", LaunchedJob(at=12.0, job_id="j"))
    assert Seals(store).last("a") is None

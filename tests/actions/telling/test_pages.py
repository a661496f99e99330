"""A-8, A-9, A-10: pages whose figures move with a living run, recorded once.

A-14: who, until when, why; seen by every cockpit of the run.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.telling.acknowledge import Acknowledge, Escalate
from cockpit.actions.telling.handoff import Handoff
from cockpit.actions.telling.log_entry import Logbooks, LogEntry
from cockpit.model.alert import ClosedAlert, RowSpan, Severity
from cockpit.model.cost import Cost
from cockpit.model.notify import NotifySpec
from cockpit.model.plan import Level, Outcome, Plan, Request, plan_of
from cockpit.model.run import RecordsSpec, RunSpec
from cockpit.model.shared_facts import owner_now
from cockpit.store.alerts import Alerts
from cockpit.store.journal import handed_over
from cockpit.store.launches import Endings
from cockpit.store.store import run_key
from tests.actions.contexts import NOW, alert, context, entry
from tests.actions.resting import RUN, Rest, blocks, job
from tests.rules.making import run_spec, tracker

SECRET = "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567"


def _run(path: Path | None = None, **more: object) -> RunSpec:
    records = RecordsSpec(logbook=None if path is None else str(path))
    plain = {"records": records, "dri": "ada", "resubmit": f"env {SECRET} python train.py"}
    return run_spec().model_copy(update=plain | more)


def _asked(action: str, **params: str) -> Request:
    return Request(action=action, run="toy", operator="ada", params=params)


async def _plan(action: Handoff | Escalate | LogEntry, run: RunSpec, **params: str) -> Plan:
    request = _asked(action.verb, **params)
    return plan_of(request, await action.draft(context(run, alerts=[alert("C-01")]), request), NOW)


async def test_a_handoff_page_says_what_the_next_person_needs() -> None:
    plan = await _plan(Handoff(), _run(), to="bob", note="watch the loss\n# not a heading")
    page = plan.page or ""
    for part in ("ada → bob", "python train.py", "Next check due", "Owner: bob; until now ada"):
        assert part in page
    assert "0123456789abcdef" not in page, "the resubmit command is scrubbed"
    assert "> # not a heading" in page, "a note cannot break the page up"
    assert (plan.words, plan.blocked) == ("handoff toy", False)


async def test_a_handoff_page_has_its_steps_as_a_person_reads_them() -> None:
    run = _run(final_step=20_000)
    request = _asked("handoff", to="bob")
    where = context(run, tracker=tracker(step=1984))
    page = plan_of(request, await Handoff().draft(where, request), NOW).page or ""
    assert "Progress: ~1,984/20,000, 9.9 %" in page


async def test_a_handoff_page_says_what_the_run_costs_and_on_what_basis() -> None:
    where, request = context(_run()), _asked("handoff", to="bob")
    assert "## Cost" not in ((await Handoff().draft(where, request)).page or "")
    cost = Cost(currency="EUR", price=36.0, per="job", per_hour=36.0, held_s=3600.0, spent=36.0,
                lost_to_repeats=0.0, basis=("36.00 EUR/h, by cockpit.toml",))  # fmt: skip
    priced = replace(where, report=where.report.model_copy(update={"cost": cost}))
    page = (await Handoff().draft(priced, request)).page or ""
    assert "## Cost\n- 36.00 EUR spent (1h 00m, 36.00 EUR/h)\n- basis: 36.00 EUR/h, by" in page


async def test_a_check_that_no_watch_makes_is_not_promised() -> None:
    where, request = context(_run()), _asked("handoff", to="bob")
    page = (await Handoff().draft(where, request)).page or ""
    assert "Watched by: nobody" in page and ", only while a cockpit is open\n" in page
    watched = where.report.model_copy(update={"watched_by": "ada (watch on box, pid 1)"})
    page = (await Handoff().draft(replace(where, report=watched), request)).page or ""
    assert "Next check due" in page and "only while" not in page


async def test_an_unfinished_draft_is_told_of_and_never_quoted(tmp_path: Path) -> None:
    run, request = _run(tmp_path / "book.md"), _asked("handoff", to="bob")
    where = context(run, alerts=[alert("C-01")])
    where = replace(where, parts=replace(where.parts, drafts=tmp_path / "drafts"))
    assert "Not in the logbook" not in ((await Handoff().draft(where, request)).page or "")
    books = Logbooks(where.parts.clock, tmp_path / "drafts")
    await books.keep(where.report, "### half\n- a thought", "ada")
    page = (await Handoff().draft(where, request)).page or ""
    assert "## Not in the logbook yet\n- an unfinished draft by ada, 2 lines, 20" in page
    assert "a thought" not in page and "half" not in page


async def test_who_keeps_a_run_is_named_once() -> None:
    page = (await _plan(Handoff(), _run(), to="Ada")).page or ""
    assert "\nOwner: Ada (unchanged), " in page and "- Owner: Ada\n" in page and "→" not in page


async def test_a_page_that_another_looks_at_changes_no_dri_and_makes_none_up() -> None:
    """The page of the key H is planned by whoever looks; a run may have no DRI yet."""
    asked = Request(action="handoff", run="toy", operator="bob", params={"to": "ada"})
    seen = await Handoff().draft(context(_run(), operator="bob"), asked)
    assert "\nOwner: ada (unchanged), " in (seen.page or "")
    none = (await _plan(Handoff(), _run(dri=None), to="bob")).page or ""
    assert "\nOwner: bob (none before), " in none and "until now" not in none


async def test_the_owner_is_who_it_was_handed_to_last() -> None:
    handed = [
        entry("handoff", NOW - 30, facts={"to": "bob"}),
        entry("handoff", NOW - 20, facts={"to": "eve"}, outcome=Outcome.FAILED),
    ]
    told = handed_over(handed)
    assert [each.value for each in told] == ["bob"]
    assert owner_now("toy", "ada", told).name == "bob"
    again = await Handoff().draft(context(_run(dri="bob")), _asked("handoff", to="bob"))
    assert again.checks[0].level is Level.WARN


@pytest.mark.parametrize("to", ["", "  ", "\x1b[0m"])
async def test_a_handoff_to_nobody_is_refused(to: str) -> None:
    with pytest.raises(RefuseError, match="--to is missing"):
        await _plan(Handoff(), _run(), to=to)


async def test_a_page_may_be_used_for_a_while_and_not_when_it_is_old() -> None:
    plan = await _plan(Handoff(), _run(), to="bob")
    moved = plan.model_copy(update={"page": "other figures", "plan_id": "other"})
    assert Handoff().revalidate(plan, moved.model_copy(update={"made_at": NOW + 60})) is None
    old = Handoff().revalidate(plan, moved.model_copy(update={"made_at": NOW + 3600}))
    assert old is not None and "old" in old


async def test_an_escalation_needs_somebody_and_a_way_to_reach_them() -> None:
    nobody = await _plan(Escalate(), _run(dri=None))
    assert [c.id for c in nobody.checks if c.stands_in_the_way] == ["dri", "routes"]
    issue = RecordsSpec(issue="https://github.com/o/r/issues/1")
    posted = await _plan(Escalate(), _run(records=issue), note="stop it?")
    assert not posted.blocked
    assert "stop it?" in (posted.page or "")
    assert "stop it?" in posted.facts["comment"]


async def test_an_escalation_that_no_route_would_carry_is_not_begun() -> None:
    request = _asked("escalate")
    for least, severity, blocked in (("critical", "alert", True), ("alert", "alert", False)):
        worst = alert("C-01").model_copy(update={"severity": Severity(severity)})
        world = context(_run(), alerts=[worst])
        routes = NotifySpec.model_validate({"routes": [{"min": least, "command": ["true"]}]})
        file = world.file.model_copy(update={"notify": routes})
        draft = await Escalate().draft(replace(world, file=file), request)
        plan = plan_of(request, draft, NOW)
        assert plan.blocked == blocked, plan.checks


async def test_an_entry_is_prefilled_and_what_is_given_wins(tmp_path: Path) -> None:
    book = tmp_path / "toy.md"
    book.write_bytes(b"# Toy\r\n\r\n## Event Log\r\n")
    plan = await _plan(LogEntry(), _run(book), event="drop", decision=f"wait\n{SECRET}")
    page = plan.page or ""
    assert "- drop" in page and "Status" in page and "wait" in page
    assert "0123456789abcdef" not in page + "".join(plan.facts.values())
    assert book.read_bytes() == b"# Toy\r\n\r\n## Event Log\r\n", "a plan writes nothing"


@pytest.mark.parametrize(("operator", "title"), [("agent:x", "drop, by agent:x"), ("ada", "drop")])
async def test_an_agents_entry_says_that_it_is_one(
    tmp_path: Path, operator: str, title: str
) -> None:
    request, world = _asked("log", event="drop"), context(_run(tmp_path / "toy.md"))
    draft = await LogEntry().draft(replace(world, operator=operator), request)
    assert draft.facts["title"] == title


async def test_without_a_logbook_there_is_nothing_to_append_to(tmp_path: Path) -> None:
    assert (await _plan(LogEntry(), _run())).blocked
    begun = await _plan(LogEntry(), _run(tmp_path / "new.md"))
    assert not begun.blocked
    with pytest.raises(RefuseError, match="--colour"):
        await _plan(LogEntry(), _run(tmp_path / "new.md"), colour="red")


async def test_a_handoff_page_tells_what_came_and_went_unseen() -> None:
    span = RowSpan(opened_step=459, opened_at=NOW - 90, closed_step=474, closed_at=NOW - 60)
    gone = alert("C-11").model_copy(update={"span": span, "since": NOW - 90})
    closed = ClosedAlert(alert=gone, closed_at=NOW - 60, seen=False)
    given = context(_run())
    asked = _asked("handoff", to="bob")
    for closings, told in (((closed,), True), ((closed.model_copy(update={"seen": True}),), False)):
        report = given.report.model_copy(update={"closed": closings})
        draft = await Handoff().draft(replace(given, report=report), asked)
        assert ("Closed before anyone looked" in (draft.page or "")) == told
        assert ("step 459 to 474" in (draft.page or "")) == told


KEY = f"C-01:{RUN}"


@pytest.fixture
def rest(tmp_path: Path) -> Rest:
    world = Rest(tmp_path, Acknowledge())
    world.save(100)
    (tmp_path / "exit").write_text("1\n")
    return world


async def key_of(rest: Rest) -> str:
    report = await rest.look(RUN)
    return next(alert.key for alert in report.alerts if alert.id == "C-01")


async def test_it_is_taken_where_every_cockpit_looks(rest: Rest) -> None:
    key = await key_of(rest)
    result = await rest.act("ack toy", key=key, by="bob", until="2h", reason="on it")
    assert result.outcome is Outcome.DONE, result.message
    (kept,) = Alerts(rest.store).open(run_key(rest.file.path, RUN))
    taken = kept.alert.acknowledged
    assert taken is not None and taken.by == "bob, typed by ada"
    assert taken.until is not None and abs(taken.until - taken.at - 7200) < 1
    report = await rest.look(RUN)
    assert next(a for a in report.alerts if a.key == key).acknowledged == taken


async def test_an_agent_takes_it_for_nobody_but_itself(rest: Rest) -> None:
    key, agent = await key_of(rest), "agent:sonnet"
    for by in ("ada", "agent:other"):
        asked = Request(action="ack", run=RUN, operator=agent, params={"key": key, "by": by})
        with pytest.raises(RefuseError, match="as itself alone"):
            await rest.service.plan(asked)
    own = asked.model_copy(update={"params": {"key": key, "by": agent}})
    facts = (await rest.service.plan(own)).facts
    assert facts["by"] == agent


async def test_until_now_gives_it_back(rest: Rest) -> None:
    key = await key_of(rest)
    await rest.act("ack toy", key=key)
    result = await rest.act("ack toy", key=key, until="now")
    assert result.outcome is Outcome.DONE, result.message
    report = await rest.look(RUN)
    assert next(a for a in report.alerts if a.key == key).acknowledged is None


async def test_a_key_that_is_not_open_is_told_with_those_that_are(rest: Rest) -> None:
    key = await key_of(rest)
    assert key in blocks(await rest.plan(key="C-99:toy"))["alert"]


async def test_the_end_is_acknowledged_and_can_be_taken_back(rest: Rest) -> None:
    key = run_key(rest.file.path, RUN)
    assert (await rest.act("ack toy", key="end")).outcome is Outcome.DONE
    assert len(Endings(rest.store).acknowledged(key)) == 1
    assert (await rest.act("ack toy", key="end", until="now")).outcome is Outcome.DONE
    assert not Endings(rest.store).acknowledged(key)


async def test_a_running_job_has_no_end_to_acknowledge(rest: Rest) -> None:
    (rest.folder / "exit").unlink()
    rest.platform.living = (job(),)
    assert "end" in blocks(await rest.plan(key="end"))


@pytest.mark.parametrize("until", ["soon", "2026-99-99", "-2h", "2x", "\x1b[31m"])
async def test_a_time_that_is_none_is_refused(rest: Rest, until: str) -> None:
    with pytest.raises(RefuseError, match="expected a time"):
        await rest.plan(key="end", until=until)


async def test_a_moment_is_taken_as_it_is(rest: Rest) -> None:
    key = await key_of(rest)
    await rest.act("ack toy", key=key, until="2099-03-11T09:00:00Z")
    (kept,) = Alerts(rest.store).open(run_key(rest.file.path, RUN))
    assert kept.alert.acknowledged is not None
    at = datetime(2099, 3, 11, 9, tzinfo=UTC).timestamp()
    assert kept.alert.acknowledged.until == at

"""What the issue is told: all that HERO asks for, in few lines, and nothing foreign in it acts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cockpit.model.alert import Alert, Evidence, Severity
from cockpit.model.facet import known
from cockpit.model.observed import (
    Checkpoint,
    CheckpointState,
    CheckpointsValue,
    JobValue,
    Phase,
    TrackerValue,
)
from cockpit.model.plan import Approval, Basis, Check, Level, Plan
from cockpit.model.report import Facets, Progress, RunReport, Verdict
from cockpit.model.run import RecordsSpec, RunSpec, WandbSpec
from cockpit.records.issue import service
from cockpit.records.issue.outbox import PostMarker, post_text
from tests.records.logbook.test_markdown import CALLS, shape, visible

NOW = 1_800_000_000.0
SECRET = "ghp_" + "a1B2c3D4e5F6" * 3
EVIL = f"@everyone #12 <b> ``` {SECRET}\n# head\n- item <!-- x -->"
SAVED = Checkpoint(
    step=46_000, name_step=46_000, path="/out/step-46000", root="/out",
    state=CheckpointState.COMPLETE,
)  # fmt: skip
Made = Callable[[str], str]


def run(word: str) -> RunSpec:
    return RunSpec(
        name=word, tier="hero", dri=word, goal=word, stop_criteria=word, output_root=word,
        final_step=119_209, wandb=WandbSpec(entity=word, project=word, id=word),
        records=RecordsSpec(logbook=word),
    )  # fmt: skip


def alert(word: str) -> Alert:
    return Alert(
        id="C-09", key="C-09:toy", severity=Severity.CRITICAL, title=word, since=NOW,
        evidence=(Evidence(text=word, source=word),), confidence="sure", next_action=word,
    )  # fmt: skip


def report(word: str) -> RunReport:
    facets = Facets(
        job=known(JobValue(id=word, state="RUNNING", phase=Phase.RUNNING), "job", NOW),
        tracker=known(TrackerValue(id=word, state="running", loss=2.5), "tracker", NOW),
        checkpoints=known(CheckpointsValue(latest_complete=46_000, items=(SAVED,)), "c", NOW),
    )
    return RunReport(
        spec=run(word), checked_at=NOW, verdict=Verdict.CRITICAL, facets=facets,
        progress=Progress(step=5, final_step=9, final_step_source=None, text=word),
        alerts=(alert(word),) * 7, next_action=word, next_check_at=NOW + 600,
    )  # fmt: skip


def happened(word: str) -> str:
    """Return a comment of an action, with all that one can hold."""
    let = Approval(check=f"C-18:{word}", by=word, reason=word)
    check = Check(id="C-18", level=Level.PASS, text=word, basis=Basis.RECORDED, approved=let)
    plan = Plan(words=word, plan_id="p", action="relaunch", run=word, made_at=NOW, checks=(check,))
    code, prose = service.code(word), service.prose(word)
    rows: service.Rows = (
        ("Why", prose),
        ("Job", code),
        ("By", service.person(word)),
        ("Former", None),
    )
    named = service.coded({"Git SHA": word, word: word, "none": ""}, " before")
    more = (service.approved(plan), service.command_of(word), None)
    return service.comment(run(word), f"relaunched as {code}", [*rows, *named], *more)


BODIES: dict[str, Made] = {
    "new": lambda w: service.new_issue(run(w), logbook=w, command=w),
    "acted": happened,
    "handed off": lambda w: service.handed_off(report(w), by=w, to=w),
    "escalated": lambda w: service.escalated(run(w), by=w, reason=w, evidence=alert(w).evidence),
    "critical": lambda w: service.new_critical(run(w), alert(w)),
}  # fmt: skip


@pytest.mark.parametrize("make", BODIES.values(), ids=list(BODIES))
def test_hostile_words_change_nothing_but_the_words(make: Made) -> None:
    evil = make(EVIL)
    assert not CALLS.search(visible(evil))
    assert SECRET not in evil and "****" in evil.replace("\\", "")
    assert shape(evil) == shape(make("word"))
    posted = shape(post_text(evil, PostMarker("0" * 16, "1" * 8)))
    assert posted.count("html_block") == 1, "the marker, and no other HTML"
    posted.remove("html_block")
    assert posted == shape(f"🤖 {evil}")


@pytest.mark.parametrize("make", BODIES.values(), ids=list(BODIES))
def test_they_are_short_and_name_the_run(make: Made) -> None:
    told = make("grug-moe")
    assert "grug-moe" in told and len(told) < 1500 and told == told.strip()


def test_the_template_names_everything_of_the_contract() -> None:
    told = service.new_issue(run("toy"), logbook="a/toy.md", logbook_url="https://github.com/x")
    for label in ("DRI", "Goal", "Stop/escalation criteria", "Logbook", "W&B", "Output root"):
        assert f"- {label}: " in told
    assert "`a/toy.md` (https://github.com/x)" in told and "119,209" in told
    bare = service.new_issue(RunSpec(name="toy"))
    assert "- Goal: unknown" in bare and "Final step: unknown" in bare
    assert service.title(run("toy")) == "Hero run: toy"


def test_an_action_s_comment_has_its_rows_and_who_let_it_pass() -> None:
    told = happened("x")
    assert told.startswith(
        "**x** relaunched as `x`\n\n- Why: x\n- Job: `x`\n- By: x\n- Git SHA before"
    )
    assert "`C-18:x` approved by x: x" in told and "Former" not in told and "none" not in told


def test_many_steps_are_counted() -> None:
    assert service.steps_of(range(0, 90_000, 1000)).startswith("50 more and 50000, ")
    assert service.steps_of([]) == "none"


def test_a_hand_over_shows_what_matters_of_the_report() -> None:
    told = BODIES["handed off"]("toy")
    for figure in ("running", "2.500", "46,000", "2 more", "2027-01-15 08:00 UTC"):
        assert figure in told


def test_an_escalation_calls_the_dri_who_is_written_as_a_login() -> None:
    spec = run("toy").model_copy(update={"dri": "@ada"})
    told = service.escalated(spec, by="bob", reason="loss is NaN", evidence=())
    assert "@ada: this needs your decision" in told

"""Addresses.

What a plan says of itself in one sentence: never more than it knows.

What a report tells of the present job, wherever it is written down.

Quiet hours: over midnight, in a zone, and what is none of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from cockpit.actions.core.table import TABLE
from cockpit.actions.telling.handoff import page
from cockpit.model.base import Frozen
from cockpit.model.facet import ErrorKind, Facet, Problem
from cockpit.model.jobs import Stopped
from cockpit.model.lineage import related, root_key, tag_of, wandb_key
from cockpit.model.notify import Quiet, QuietHours
from cockpit.model.observed import JobValue, Phase, Pick
from cockpit.model.place import (
    DEFAULT,
    FORMER,
    HERE,
    Place,
    WandbAddress,
    address_of,
    on_host,
    page_of,
    place_of,
    server_of,
)
from cockpit.model.plan import Plan, Request, plan_of
from cockpit.model.report import RunReport, phase_text, present_loss
from cockpit.model.run import JobSpec, RunSpec, WandbSpec
from cockpit.notify.due import Due, message_of
from cockpit.records.issue.service import new_critical, state_of
from cockpit.records.logbook.entry_text import prefill
from cockpit.watch.headless import _last_signal
from tests.screens.acting.stand_in_service import BLOCKED, CLEAN, draft, target
from tests.widgets import reports as made
from tests.widgets.reports import NOW

NAMES = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=8)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


class Holder(Frozen):
    root: Place


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/runs/a", Place("file", "", "/runs/a")),
        ("runs/a", Place("file", "", "runs/a")),
        ("file:///runs/a", Place("file", "", "/runs/a")),
        ("ssh://gpu/runs/a", Place("ssh", "gpu", "/runs/a")),
        ("ssh://gpu/~/a", Place("ssh", "gpu", "~/a")),
        ("ssh://gpu/./a", Place("ssh", "gpu", "a")),
        ("gs://bucket/a/b", Place("gs", "bucket", "a/b")),
        ("s3://bucket", Place("s3", "bucket", "")),
    ],
)
def test_an_address_is_read_as_it_is_written(text: str, place: Place) -> None:
    assert place_of(text) == place
    assert place_of(str(place)) == place


@given(st.sampled_from(("file", "ssh", "gs", "s3")), NAMES, PATHS, st.booleans())
def test_what_is_written_is_read_again(scheme: str, host: str, path: str, home: bool) -> None:
    place = {
        "file": Place("file", "", f"/{path}"),
        "ssh": Place("ssh", host, f"~/{path}" if home else f"/{path}"),
    }.get(scheme, Place(scheme, host, path))
    assert place_of(str(place)) == place
    assert Holder.model_validate_json(json.dumps(Holder(root=place).to_json())).root == place


def test_a_value_takes_text_and_nothing_else() -> None:
    assert Holder.model_validate({"root": "gs://b/x"}).root == Place("gs", "b", "x")
    for wrong in (3, {"scheme": "gs"}, ["x"]):
        with pytest.raises(ValidationError, match="string"):
            Holder.model_validate_json(json.dumps({"root": wrong}), strict=True)


def test_a_file_address_of_another_machine_is_not_here() -> None:
    other = place_of("file://elsewhere/x")
    assert not other.here and other.local is None and str(other) == "file://elsewhere/x"


def test_all_that_share_a_machine_or_a_bucket_share_an_endpoint() -> None:
    texts = ("/a", "ssh://gpu/a", "ssh://gpu/~/b", "gs://b/x", "gs://b/y", "s3://b/x")
    ends = [place_of(text).endpoint for text in texts]
    assert ends == [HERE, "gpu", "gpu", "gs://b", "gs://b", "s3://b"]


def test_a_job_sees_its_own_host_as_paths_and_the_rest_as_addresses() -> None:
    job = JobSpec(kind="slurm", host="cluster")
    root = place_of("ssh://cluster/scratch/ada/x")
    assert root.seen_from(job) == "/scratch/ada/x"
    assert root.seen_from(JobSpec(kind="slurm", host="other")) == str(root)
    assert place_of("gs://b/x").seen_from(job) == "gs://b/x"
    assert place_of("/x").seen_from(None) == "/x"


def test_one_root_is_one_lineage_from_the_laptop_and_from_the_host() -> None:
    far = RunSpec(
        name="a", output_root="ssh://cluster/scratch/a/", job=JobSpec(kind="slurm", host="cluster")
    )
    near = RunSpec(name="a", output_root="/scratch/a", job=JobSpec(kind="slurm"))
    assert root_key(far) == root_key(near) == "root /scratch/a"
    assert related(tag_of(far), tag_of(near))


def test_inside_is_told_part_by_part() -> None:
    root = place_of("gs://b/runs/a")
    assert root.contains(root.below("c", "d")) and root.contains(place_of("gs://b/runs/a/"))
    assert not root.contains(place_of("gs://b/runs/ab"))
    assert not root.contains(place_of("gs://other/runs/a/c"))
    assert not place_of("/runs/a").contains(on_host("gpu", "/runs/a/c"))
    assert place_of("/runs/a/../b").contains(place_of("/runs//b/c"))


def test_a_path_on_no_host_is_of_this_machine() -> None:
    assert on_host(None, "/x").here and not on_host("gpu", "/x").here


OWN = "https://w.example.org:8443"


@pytest.mark.parametrize(
    ("text", "base"),
    [
        ("acme/hero/abc", None),
        ("acme/hero/runs/abc", None),
        ("/acme/hero/runs/abc", None),
        ("wandb://acme/hero/abc", None),
        ("https://wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://www.wandb.ai/acme/hero/runs/abc/", FORMER),
        ("wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://app.wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://api.wandb.ai/acme/hero/runs/abc", FORMER),
        ("https://wandb.ai/acme/hero/runs/abc/overview?nw=nwuserada#top", FORMER),
        ("https://wandb.ai/acme/hero/runs/abc?workspace=user-ada", FORMER),
        ("https://forge.coreweave.com/wandb/acme/hero/runs/abc", DEFAULT),
        ("forge.coreweave.com/wandb/acme/hero/runs/abc/logs", DEFAULT),
        ("https://ada:pw@w.example.org:8443/acme/hero/runs/abc", OWN),
        (f"{OWN.upper()}/acme/hero/runs/abc", OWN),
        (f"{OWN}/tools/wb/acme/hero/runs/abc/workspace?nw=1", f"{OWN}/tools/wb"),
        ("http://127.0.0.1:8080/acme/hero/runs/abc", "http://127.0.0.1:8080"),
        ("http://[::1]:8080/acme/hero/runs/abc", "http://[::1]:8080"),
        (" https://wandb.ai/ac%6De/hero/runs/abc ", FORMER),
    ],
)
def test_a_runs_address_in_every_form(text: str, base: str | None) -> None:
    assert address_of(text) == WandbAddress(base, "acme", "hero", "abc")
    assert WandbSpec(url=text).online and WandbSpec(url=text).run_id == "abc"


@pytest.mark.parametrize(
    "text",
    [
        "https://wandb.ai/acme/hero", "https://wandb.ai/acme/hero/workspace?nw=x",
        "https://wandb.ai/acme/hero/sweeps/abc", "https://wandb.ai/acme/hero/runs", "acme/hero",
    ],
)  # fmt: skip
def test_a_projects_address_names_no_run(text: str) -> None:
    found = address_of(text)
    assert (found.entity, found.project, found.run) == ("acme", "hero", None)
    assert not WandbSpec(url=text).online


@pytest.mark.parametrize(
    "text", [None, "", "abc", "ftp://w.org/a/b/runs/c", "https://[::1/a/b/runs/c", "https://a b/c"]
)
def test_other_texts_name_nothing(text: str | None) -> None:
    assert address_of(text) == WandbAddress()


@pytest.mark.parametrize(
    ("text", "server"),
    [
        ("https://wandb.ai/", FORMER), ("https://api.wandb.ai", FORMER),
        ("https://api.forge.coreweave.com/", DEFAULT),
        ("https://forge.coreweave.com/wandb", DEFAULT),
        ("https://w.example.org:8443/", OWN), (f"{OWN}/a/b/graphql", f"{OWN}/a/b"),
        ("http://localhost:8080", "http://localhost:8080"), ("w.example.org", None), ("", None),
        (None, None),
    ],
)  # fmt: skip
def test_a_setting_names_the_server(text: str | None, server: str | None) -> None:
    assert server_of(text) == server


def test_what_is_recorded_by_itself_comes_before_the_url() -> None:
    spec = WandbSpec(url="https://wandb.ai/acme/hero/runs/abc", id="new", base_url=OWN)
    assert spec.recorded == WandbAddress(OWN, "acme", "hero", "new")


def test_a_folder_is_online_too_only_if_it_is_recorded_whose_it_is() -> None:
    assert not WandbSpec(dir="/x", project="hero", id="abc").online
    assert WandbSpec(dir="/x", project="hero", id="abc", entity="acme").online
    assert not WandbSpec(entity="acme", id="abc").online


def test_one_run_is_one_lineage_however_its_address_is_written() -> None:
    forms = (
        {"url": "https://wandb.ai/acme/hero/runs/abc/overview?x=1"},
        {"url": "acme/hero/abc"},
        {"entity": "acme", "project": "hero", "id": "abc"},
    )
    assert len({wandb_key(RunSpec(name="r", wandb=WandbSpec(**form))) for form in forms}) == 1


def test_the_page_of_a_run() -> None:
    assert page_of(FORMER, "a", "b", "c") == "https://wandb.ai/a/b/runs/c"
    assert page_of(DEFAULT, "a", "b", "c") == "https://forge.coreweave.com/wandb/a/b/runs/c"
    assert page_of(OWN, "a", "b", "c") == f"{OWN}/a/b/runs/c"


DEAD = {"stops": (), "loses": "49 steps since step 46,000 (≈ 10s)"}


def plan(action: str = "relaunch", params: dict[str, str] | None = None, **fields: Any) -> Plan:
    request = Request(action=action, run="toy", operator="ada", params=params or {})
    return plan_of(request, draft("toy", action, **fields), 0.0)


def test_every_action_says_what_it_does_and_blocked_what_it_would_do() -> None:
    known = {"entity": "e", "project": "p", "send": '["a"]', "kind": "stop", "host": "box",
             "key": "C-09", "by": "ada", "to": "bob", "step": "9"}  # fmt: skip
    for row in TABLE:
        does, would = plan(row.verb, facts=known), plan(row.verb, facts=known, checks=(BLOCKED,))
        assert does.summary and " would " not in f" {does.summary.lower()} "
        assert would.summary.startswith("Cannot run now: 1 check blocks it. ")
        assert " would " in would.summary.lower()
        assert does.document()["summary"] == does.summary


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (DEAD, "Starts from step 46,000 and loses 49 steps (about 10s). "
               "Nothing will be stopped."),
        (DEAD | {"checkpoint": None, "loses": None}, "Starts without a checkpoint that is known. "
                                                     "Nothing will be stopped."),
        ({"loses": None}, "Stops /ada/toy (4 tasks). Then it starts from step 46,000."),
        (DEAD | {"trainer_would_load": None},
         "Is meant to start from step 46,000 (not known what the trainer picks itself) and loses "
         "49 steps (about 10s). Nothing will be stopped."),
        ({"stops": ("a", "b", "c"), "loses": None, "facts": {"save-first": "yes"}},
         "Asks the trainer for a checkpoint first. Stops 3 jobs. Then it starts from that one "
         "(newest now: step 46,000) and loses only the steps after that checkpoint."),
    ],
)  # fmt: skip
def test_a_relaunch_says_where_it_begins_and_what_it_stops(
    fields: dict[str, Any], said: str
) -> None:
    assert plan(**fields).summary == said


def test_another_checkpoint_of_the_trainer_is_no_start_unless_the_command_names_ours() -> None:
    other = Pick(path="/data/ckpt/step-9", step=9, why="by name")
    ours = Pick(path="/data/ckpt/step-7", step=7, why="newest complete")
    picks: dict[str, Any] = {"checkpoint": ours, "trainer_would_load": other, "loses": None}
    said = plan(**picks, command="train --from /data/ckpt/step-70").summary
    assert "though the trainer would load step 9" in said
    assert "starts from step 7." in plan(**picks, command="train --from=/data/ckpt/step-7").summary


def test_what_is_not_known_is_not_said() -> None:
    blocked = plan(stops=(), checks=(*CLEAN, BLOCKED)).summary
    assert "stopped" not in blocked
    assert plan("stop", loses=None).summary == (
        "Stops /ada/toy (4 tasks), and it is not known what is lost.")  # fmt: skip
    saved = plan("stop", loses="49 steps", facts={"save-first": "yes"}).summary
    assert saved.endswith("and loses only the steps after that checkpoint.") and "49" not in saved
    assert plan("stop", stops=(), checks=(BLOCKED,)).summary == (
        "Cannot run now: 1 check blocks it.")  # fmt: skip
    gone = plan("retain", targets=(target(1), target(2).model_copy(update={"size": None})))
    assert "Deletes 2 checkpoints (16.4 GB or more) for good." in gone.summary


def test_the_sentence_is_no_part_of_the_identity() -> None:
    assert plan(loses="1 step").plan_id == plan(loses="2 steps").plan_id
    assert plan(loses="1 step").summary != plan(loses="2 steps").summary


def test_a_job_that_is_called_by_its_whole_command_goes_by_its_id_in_the_sentence() -> None:
    command = "/venv/bin/python -m trainer --config config.json --steps 20000 (pid:13275)"
    assert "Stops pid:13275. Then" in plan(stops=(command,)).summary
    assert (
        "Stops /ada/run-failed (4 tasks). Then"
        in plan(stops=("/ada/run-failed (4 tasks)",)).summary
    )


LOST = Problem(kind=ErrorKind.TIMEOUT, message="no answer")
SEEN = "2026-03-11 07:52 UTC"


def job(phase: Phase, *, answers: bool = True, **more: object) -> Facet[JobValue]:
    value = JobValue(id="17", state=phase.value, phase=phase)
    error = None if answers else LOST
    return Facet[JobValue](
        value=value.model_copy(update=more), source="job", observed_at=NOW - 3600, error=error
    )


@pytest.mark.parametrize(
    ("facet", "said"),
    [
        (job(Phase.RUNNING), "running"),
        (job(Phase.RUNNING, stopped=Stopped(pid=17, since=NOW)), "stopped"),
        (job(Phase.RUNNING, answers=False), f"unknown (was running {SEEN})"),
        (job(Phase.FAILED, answers=False), "failed"),
        (job(Phase.UNKNOWN, answers=False), "unknown"),
        (Facet[JobValue](source="job", error=LOST), "unknown"),
        (
            job(Phase.FAILED, answers=False).model_copy(update={"remembered": True}),
            f"unknown (was failed {SEEN})",
        ),
    ],
)
def test_a_job_that_gives_no_answer_is_not_said_to_live(facet: Facet[JobValue], said: str) -> None:
    assert phase_text(facet) == said


def sick() -> RunReport:
    """A run whose job answers no more, whose loss is a zero for NaN, sick for longer than read."""
    report = made.failed()
    tracker = report.facets.tracker
    assert tracker.value is not None
    masked = tracker.value.model_copy(update={"loss": 0.0, "grad_norm": math.nan})
    facets = report.facets.model_copy(
        update={
            "job": job(Phase.RUNNING, answers=False),
            "tracker": tracker.model_copy(update={"value": masked}),
        }
    )
    worst = report.alerts[0].model_copy(update={"since_or_before": True})
    return report.model_copy(update={"facets": facets, "alerts": (worst,)})


def message(report: RunReport) -> str:
    alert = report.alerts[0]
    return message_of(Due(report, alert, "open", alert.key, 0.0), None).body


RECORDS: dict[str, Callable[[RunReport], str]] = {
    "message": message,
    "state file": _last_signal,
    "issue": state_of,
    "critical": lambda report: new_critical(report.spec, report.alerts[0]),
    "log entry": lambda report: str(prefill(report, "check", NOW)),
    "handoff": lambda report: page(report, [], NOW, of="ada", to="bob", note=""),
}


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_written_down_says_what_is_not_known(record: str) -> None:
    report = sick()
    said = RECORDS[record](report)
    assert math.isnan(present_loss(report)[1] or 0.0)
    if record in ("message", "state file", "issue"):
        assert f"unknown (was running {SEEN})" in said
    if record in ("issue", "log entry", "handoff"):
        assert "NaN" in said and "loss 0" not in said
    if record == "handoff":
        assert f"running, id 17, seen {SEEN}; unknown since then (no answer)" in said
    if record in ("message", "critical", "log entry", "handoff"):
        assert " or before" in said


HOURS: TypeAdapter[Quiet] = TypeAdapter(QuietHours)
MIDNIGHT = 1_800_057_600.0  # a midnight in UTC, in winter


def at(text: str, hour: float) -> bool:
    return HOURS.validate_python(text).at(MIDNIGHT + hour * 3600.0)


def test_midnight_is_one() -> None:
    assert MIDNIGHT % 86400.0 == 0.0


@pytest.mark.parametrize(
    ("hour", "quiet"), [(21.99, False), (22, True), (23.5, True), (6.99, True), (7, False)]
)
def test_they_may_go_over_midnight(hour: float, quiet: bool) -> None:
    assert at("22:00-07:00 UTC", hour) is quiet


def test_they_may_lie_within_a_day_and_in_a_zone() -> None:
    assert at("12:00-13:00 UTC", 12.5)
    assert not at("12:00-13:00 UTC", 13)
    assert at("22:00-07:00 Asia/Tokyo", 13.5)  # 22:30 there
    assert not at("22:00-07:00 Asia/Tokyo", 23)


@pytest.mark.parametrize("text", ["22-7", "25:00-07:00", "07:00-07:00", "22:00-07:00 Nowhere/X", 5])
def test_what_is_no_hours_is_refused(text: object) -> None:
    with pytest.raises(ValidationError):
        HOURS.validate_python(text)

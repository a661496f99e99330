"""A W&B server's runs: what is known of them, what is asked, and why something is unknown.

What a W&B server did not send: rows that are read later, a summary that is lost.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.run import MetricNames, RunSpec, WandbSpec
from cockpit.sources.wandb.online import OnlineWandb, Wandb
from cockpit.watch.onepass import feed_chunk
from cockpit.watch.runstate import Rows
from tests.queries import queries_of
from tests.records.issue_services import SkipClock
from tests.sources.wandb.fake_wandb import KEY, NOW_S, FakeRun, FakeWandb, Made, Reply, serving

pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")

ENV = {"WANDB_API_KEY": KEY, "HOME": "/nonexistent"}


@pytest.fixture
def wandb() -> Iterator[FakeWandb]:
    with serving() as fake:
        fake.now = lambda: NOW_S
        yield fake
        assert fake.wrong == []


class Clock(SkipClock):
    """A clock that stands where the rows end."""

    def now(self) -> float:
        return NOW_S


def row(step: int, loss: float = 2.5, **more: Any) -> dict[str, Any]:
    at = NOW_S - 1000 + step
    return {"_step": step, "_timestamp": at, "global_step": 2 * step, "train/loss": loss, **more}


def run_of(fake: FakeWandb, name: str = "abc", project: str = "hero") -> RunSpec:
    spec = WandbSpec(entity="acme", project=project, id=name, base_url=fake.base)
    return RunSpec(name=f"run-{name}", wandb=spec)


class Looking:
    """A source, one run, and what its rows are so far."""

    def __init__(self, *runs: RunSpec, **more: Any) -> None:
        patient = {"first": 60.0, "deadline": 60.0}  # the server works on a busy machine
        self.source = OnlineWandb(Clock(), env=ENV, **(patient | more))
        self.runs = runs
        self.rows: list[Row] = []
        self.restarts = 0

    async def facets(self) -> dict[str, Facet[TrackerValue]]:
        return await self.source.observe(queries_of(self.runs))

    async def facet(self) -> Facet[TrackerValue]:
        return (await self.facets())[self.runs[0].name]

    async def value(self) -> TrackerValue:
        facet = await self.facet()
        assert facet.value is not None and facet.error is None, facet.error
        return facet.value

    async def read(self) -> bool:
        """Take the rows that have come; return whether those are all."""
        while True:
            chunk = await self.source.more_rows(self.runs[0])
            self.restarts += chunk.restarted
            self.rows = [*([] if chunk.restarted else self.rows), *chunk.rows]
            if chunk.caught_up or chunk.later:
                return chunk.caught_up


async def test_what_a_server_says_of_a_run(wandb: FakeWandb) -> None:
    rows = [row(step, 3.0 - step / 100, **{"grad/norm/total": 0.5}) for step in range(40)]
    settings = {"lr": 0.1, "api_token": "hunter2hunter2"}
    wandb.add(FakeRun("abc", rows, displayName="hero-1", settings=settings))
    look = Looking(run_of(wandb))
    facet = await look.facet()
    value = facet.value
    assert value is not None and facet.source == f"W&B at {wandb.base.removeprefix('http://')}"
    assert (value.id, value.name, value.entity, value.project) == ("abc", "hero-1", "acme", "hero")
    assert value.url == f"{wandb.base}/acme/hero/runs/abc"
    assert (value.state, value.step, value.counts_calls) == ("running", 78, False)
    assert value.loss == pytest.approx(2.61) and value.grad_norm == 0.5
    assert value.throughput == pytest.approx(2.0) and value.throughput_unit == "it/s"
    assert (value.last_step_at, value.heartbeat_at) == (NOW_S - 961, NOW_S)
    assert value.usual_step_s == pytest.approx(0.5) and value.producer == "0.31.0"
    assert value.history[0] == (0, 3.0) and value.history[-1] == (78, value.loss)
    assert value.scanned == 1.0 and len(value.columns) == 40
    assert value.config["lr"] == 0.1 and "hunter2" not in str(value.config)
    assert await look.read()
    assert [each.step for each in look.rows] == list(range(0, 80, 2))


async def test_new_rows_ride_in_the_one_query_of_each_look(wandb: FakeWandb) -> None:
    kept = wandb.add(FakeRun("abc", [row(step) for step in range(30)]))
    look = Looking(run_of(wandb))
    for step in range(30, 60, 3):
        assert (await look.value()).step == 2 * (step - 1)
        assert await look.read()
        kept.add(*(row(each) for each in range(step, step + 3)))
    assert [each.step for each in look.rows] == list(range(0, 114, 2))
    assert len(wandb.asked) == 11 and look.restarts == 0


async def test_two_hundred_runs_are_the_queries_of_one(wandb: FakeWandb) -> None:
    names = [f"r{number:03}" for number in range(200)]
    for name in names:
        wandb.add(FakeRun(name, [row(step) for step in range(20)]))
    look = Looking(*(run_of(wandb, name) for name in names))
    for _ in range(3):
        facets = await look.facets()
        assert all(facet.known for facet in facets.values())
    assert [asked.runs for asked in wandb.asked] == [200] * 4  # the first look takes two
    for run in look.runs:
        chunk = await look.source.more_rows(run)
        assert (len(chunk.rows), chunk.caught_up) == (20, True)


async def test_a_million_steps_cost_each_look_no_more_than_its_bytes(
    wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BUDGET", "FIRST_BUDGET"):
        monkeypatch.setattr(f"cockpit.sources.wandb.online.{name}", 1_000_000)
    wide = {f"layer{number}/norm": 1.5 for number in range(10)}
    wandb.add(FakeRun("abc", Made(1_000_000, lambda step: row(step, **wide))))
    look = Looking(run_of(wandb))
    value = await look.value()
    assert value.step == 1_999_998 and len(value.history) > 100
    assert not await look.read()
    recent = await look.source.recent(look.runs[0])
    assert [recent.rows[0].step, recent.rows[-1].step] == [1_998_000, 1_999_998]
    assert recent.share == pytest.approx(0.001)
    for _ in range(2):
        await look.value()
        assert not await look.read()
    steps = [each.step for each in look.rows]
    assert len(steps) > 4000 and steps == list(range(0, 2 * len(steps), 2))
    assert all(asked.size < 1_300_000 for asked in wandb.asked)
    assert 0.004 < (await look.value()).scanned < 0.1


async def test_older_rows_of_many_metrics_come_without_them(wandb: FakeWandb) -> None:
    wide = {f"layer{number}/norm": 1.5 for number in range(100)}
    wandb.add(FakeRun("abc", Made(5000, lambda step: row(step, **wide))))
    look = Looking(run_of(wandb))
    while True:
        await look.value()
        if await look.read():
            break
    assert [each.step for each in look.rows] == list(range(0, 10_000, 2))
    assert all(each.loss == 2.5 and each.at is not None for each in look.rows)
    assert sum(asked.size for asked in wandb.asked) < 4_500_000  # the rows themselves: 11 MB


async def test_a_server_without_ranges_of_steps_is_asked_for_whole_rows(wandb: FakeWandb) -> None:
    wide = {f"layer{number}/norm": 1.5 for number in range(60)}
    rows = [row(step, **wide) for step in range(3000)]
    wandb.add(FakeRun("abc", rows, ranged=False))
    look = Looking(run_of(wandb))
    for _ in range(20):
        await look.value()
        if await look.read():
            break
    assert [each.step for each in look.rows] == list(range(0, 6000, 2))


async def test_a_number_that_is_none_is_read_as_such(wandb: FakeWandb) -> None:
    losses = [2.5, math.nan, math.inf, 2.4]
    wandb.add(FakeRun("abc", [row(step, loss) for step, loss in enumerate(losses)]))
    look = Looking(run_of(wandb))
    await look.value()
    await look.read()
    assert str([each.loss for each in look.rows]) == "[2.5, nan, inf, 2.4]"


async def test_metrics_are_the_run_files_else_the_usual_ones(wandb: FakeWandb) -> None:
    wandb.add(FakeRun("abc", [{"_step": 4, "_timestamp": NOW_S, "a/l": 2.0, "b": {"it": 9}}]))
    run = run_of(wandb)
    assert run.wandb is not None
    value = await Looking(run).value()
    assert (value.step, value.loss, value.counts_calls) == (4, None, True)
    spec = run.wandb.model_copy(update={"metrics": MetricNames(loss="a/l", step="b/it")})
    value = await Looking(run.model_copy(update={"wandb": spec})).value()
    assert (value.step, value.loss, value.counts_calls) == (9, 2.0, False)


async def test_a_loss_that_comes_later_has_every_row_read_again(wandb: FakeWandb) -> None:
    kept = wandb.add(FakeRun("abc", [{"_step": n, "_timestamp": NOW_S} for n in range(5)]))
    look = Looking(run_of(wandb))
    await look.value()
    assert await look.read() and look.rows[-1].loss is None
    kept.add(*(row(step) for step in range(5, 9)))
    for _ in range(3):
        await look.value()
        await look.read()
    assert look.restarts == 1
    assert [each.loss for each in look.rows] == [None] * 5 + [2.5] * 4


async def test_a_run_without_rows_yet_and_one_made_anew(wandb: FakeWandb) -> None:
    wandb.add(FakeRun("abc", heartbeatAt=None, state="pending"))
    look = Looking(run_of(wandb))
    value = await look.value()
    assert (value.state, value.step, value.last_step_at) == ("pending", None, None)
    assert await look.read() and look.rows == []
    wandb.add(FakeRun("abc", [row(step) for step in range(50)]))
    for _ in range(2):
        assert (await look.value()).state == "running"
    assert await look.read() and len(look.rows) == 50
    wandb.add(
        FakeRun("abc", [row(step, 9.0) for step in range(8)], createdAt="2026-01-11T00:00:00")
    )
    for _ in range(3):
        await look.value()
        await look.read()
    assert [each.loss for each in look.rows] == [9.0] * 8


async def test_an_unknown_state_is_shown_as_itself(wandb: FakeWandb) -> None:
    wandb.add(FakeRun("abc", [row(1)], state="transmogrified\x1b[2J"))
    assert (await Looking(run_of(wandb)).value()).state.startswith("transmogrified")


async def test_hostile_names_are_made_safe_and_wrong_types_left_out(wandb: FakeWandb) -> None:
    hostile = {"displayName": "x\x1b[31m\u202e<b>", "historyLineCount": "many", "state": 7}
    fields = {"name": "abc", "createdAt": [], "heartbeatAt": "yesterday", **hostile}
    rows = ["[1]", "{", '{"_step": "x"}', '{"_step": 1e400}', '{"_step": 3, "loss": "y"}']
    fields |= {
        "summaryMetrics": '{"_step": 3, "loss": true}',
        "config": "[",
        "n": rows,
        "commit": 1,
    }
    document = {"data": {"project": {"name": 3, "entityName": None, "r0": fields}}}
    wandb.reply = Reply(200, json.dumps(document).encode())
    look = Looking(run_of(wandb))
    for _ in range(2):
        value = await look.value()
    assert value.name is not None and "\x1b" not in value.name and "\u202e" not in value.name
    assert (value.state, value.step, value.loss) == ("unknown", 3, None)
    assert (value.heartbeat_at, value.entity, value.git_commit) == (None, "acme", None)


async def test_an_hour_of_skew_on_either_side_is_taken_out(wandb: FakeWandb) -> None:
    hour = 3600.0
    ahead = wandb.add(FakeRun("ahead", [row(step) for step in range(999, 1001)]))
    for each in ahead.rows.between(0, 2000):
        each["_timestamp"] += hour
    rows = [{**row(step), "_timestamp": NOW_S - hour - 1000 + step} for step in range(900, 930)]
    behind = wandb.add(FakeRun("behind", rows))
    wandb.headers = {"Date": formatdate(NOW_S + hour, usegmt=True)}
    for run in (ahead, behind):
        run.heartbeatAt = "2026-01-10T09:00:00Z"
    look = Looking(run_of(wandb, "ahead"), run_of(wandb, "behind"))
    facets = await look.facets()
    first = facets["run-ahead"].value
    assert first is not None
    assert first.heartbeat_at == first.last_step_at == NOW_S
    assert first.clock_offset_s == hour
    behind.add({**row(931), "_timestamp": NOW_S - hour})
    late = (await look.facets())["run-behind"].value
    assert late is not None
    assert (late.clock_offset_s, late.last_step_at) == (-hour, NOW_S)


Bad = tuple[Reply, ErrorKind, str]
HTML = b"<!doctype html><title>Sign in</title>"
BAD: dict[str, Bad] = {
    "401": (Reply(401, b"{}"), ErrorKind.UNAUTHORIZED, "the key from WANDB_API_KEY (401)"),
    "403": (Reply(403, b'{"error": "no seat"}'), ErrorKind.FORBIDDEN, "acme/hero (403: no seat)"),
    "404": (Reply(404, b"nope"), ErrorKind.NOT_FOUND, "check wandb.base_url"),
    "400": (
        Reply(400, b'{"errors": [{"message": "Cannot query field x"}]}'),
        ErrorKind.BAD_ANSWER,
        "status 400: Cannot query field x",
    ),
    "429": (Reply(429), ErrorKind.RATE_LIMITED, "next in 60 s"),
    "429 for 7 s": (Reply(429, b"", {"Retry-After": "7"}), ErrorKind.RATE_LIMITED, "in 7 s"),
    "429, W&B's own": (
        Reply(429, b"", {"RateLimit-Remaining": "0", "RateLimit-Reset": "33"}),
        ErrorKind.RATE_LIMITED,
        "in 33 s",
    ),
    "500": (Reply(500, b'{"error": "boom"}'), ErrorKind.BAD_ANSWER, "server error 500: boom"),
    "html": (Reply(200, HTML), ErrorKind.BAD_ANSWER, "got a web page"),
    "403 html": (Reply(403, HTML), ErrorKind.FORBIDDEN, "cannot read acme/hero (403)"),
    "truncated": (Reply(200, b'{"data": {"proj'), ErrorKind.BAD_ANSWER, "not JSON"),
    "a list": (Reply(200, b"[1]"), ErrorKind.BAD_ANSWER, "not a GraphQL document"),
    "wrong types": (Reply(200, b'{"data": 3}'), ErrorKind.BAD_ANSWER, "does not mention acme/hero"),
    "nothing": (Reply(200, b'{"data": null}'), ErrorKind.BAD_ANSWER, "does not mention acme/hero"),
    "no such field": (Reply(200, b'{"data": {}}'), ErrorKind.BAD_ANSWER, "not mention acme/hero"),
    "without the run": (
        Reply(200, b'{"data": {"project": {}}}'),
        ErrorKind.BAD_ANSWER,
        "run abc in acme/hero is not in the answer",
    ),
    "an empty run": (
        Reply(200, b'{"data": {"project": {"r0": {}}}}'),
        ErrorKind.BAD_ANSWER,
        "is not an object with a name",
    ),
    "an error of nothing": (
        Reply(200, b'{"errors": [{"message": "boom"}], "data": {"project": {"r0": null}}}'),
        ErrorKind.BAD_ANSWER,
        "run abc in acme/hero: boom",
    ),
    "null": (Reply(200, b'{"data": {"project": null}}'), ErrorKind.NOT_FOUND, "cannot see it"),
    "denied": (
        Reply(200, b'{"errors": [{"message": "permission denied", "path": ["project"]}]}'),
        ErrorKind.FORBIDDEN,
        "permission denied",
    ),
    "a run of another type": (
        Reply(200, b'{"data": {"project": {"r0": [1]}}}'),
        ErrorKind.BAD_ANSWER,
        "is not an object",
    ),
    "long": (Reply(200, b"x" * 17_000_000), ErrorKind.BAD_ANSWER, "longer than"),
    "silent": (Reply(hang=True), ErrorKind.TIMEOUT, "no answer"),
    "silent in the middle": (Reply(200, b"{}" * 99, cut=True), ErrorKind.TIMEOUT, "no answer"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_answer_is_unknown_with_its_reason_and_heals(
    wandb: FakeWandb, name: str
) -> None:
    wandb.add(FakeRun("abc", [row(1)]))
    reply, kind, text = BAD[name]
    first = 0.3 if "silent" in name else 2.5
    look = Looking(run_of(wandb), first=first, deadline=2.5)
    wandb.reply = reply
    facet = await look.facet()
    assert facet.value is None and facet.error is not None
    assert facet.error.kind is kind and text.split(" (")[0] in facet.error.message
    assert text in facet.error.message or name == "401"
    assert KEY not in facet.error.message and "\n" not in facet.error.message
    assert len(wandb.asked) <= 3
    assert await look.source.more_rows(look.runs[0]) == ((), True, False, 0.0, False, "", ())
    if kind is ErrorKind.RATE_LIMITED:
        assert facet.retry_after is not None and f"{facet.retry_after:.0f} s" in facet.error.message
        return  # nothing is asked until then
    wandb.reply = None
    healed = OnlineWandb(Clock(), env=ENV) if kind is ErrorKind.UNAUTHORIZED else look.source
    assert (await healed.observe(queries_of(look.runs)))["run-abc"].known


async def test_without_a_key_nothing_is_asked(wandb: FakeWandb, tmp_path: Path) -> None:
    source = OnlineWandb(Clock(), env={"HOME": str(tmp_path)})
    (tmp_path / ".netrc").write_text("machine")
    facet = (await source.observe(queries_of([run_of(wandb)])))["run-abc"]
    assert facet.error is not None and facet.error.kind is ErrorKind.UNAUTHORIZED
    assert facet.error.message.startswith("no W&B key for 127.0.0.1:")
    assert ".netrc cannot be read as a netrc file" in facet.error.message
    assert wandb.asked == []
    (tmp_path / ".netrc").unlink()
    (tmp_path / ".wandb_key").write_text(KEY)
    wandb.add(FakeRun("abc", [row(1)]))
    assert (await source.observe(queries_of([run_of(wandb)])))["run-abc"].known


async def test_a_server_that_is_not_there() -> None:
    with serving() as fake:
        run = run_of(fake)
    facet = await Looking(run, first=1.0).facet()
    assert facet.error is not None and facet.error.kind is ErrorKind.REFUSED


async def test_what_ails_one_run_leaves_the_others_known(wandb: FakeWandb) -> None:
    wandb.add(FakeRun("abc", [row(1)]))
    broken = wandb.add(FakeRun("def", [row(1)], broken=RuntimeError("rows timed out")))
    look = Looking(*(run_of(wandb, name) for name in ("abc", "def", "ghi")))
    facets = await look.facets()
    assert facets["run-abc"].known
    missing = facets["run-ghi"].error
    assert missing is not None and missing.kind is ErrorKind.NOT_FOUND
    assert "run ghi in acme/hero does not exist" in missing.message
    error = facets["run-def"].error
    assert error is not None and error.kind is ErrorKind.TIMEOUT and "rows timed" in error.message
    facets = await look.facets()  # its rows are left alone for a while: the rest is known
    assert facets["run-def"].known and facets["run-abc"].known
    broken.broken = None
    for _ in range(3):
        await look.facets()
    assert (await look.source.more_rows(look.runs[1])).rows


async def test_a_spent_limit_is_heeded_although_the_answer_is_good(wandb: FakeWandb) -> None:
    wandb.add(FakeRun("abc", [row(1)]))
    wandb.headers = {"RateLimit-Remaining": "0", "RateLimit-Reset": "41"}
    facet = await Looking(run_of(wandb)).facet()
    assert facet.known and facet.retry_after == 41.0
    assert len(wandb.asked) == 1


async def test_the_step_is_told_by_rows_of_training_not_of_validations(wandb: FakeWandb) -> None:
    trained = [row(step) for step in range(100)]
    validated = [
        {"_step": 100 + n, "_timestamp": NOW_S - 5, "global_step": 5000 + n, "val_loss": 2.7}
        for n in range(30)
    ]
    wandb.add(FakeRun("abc", trained + validated))
    value = await Looking(run_of(wandb)).value()
    assert (value.step, value.loss, value.last_step_at) == (198, 2.5, NOW_S - 901)


pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")


async def test_after_a_long_silence_the_newest_step_is_shown_and_the_hole_is_said(
    wandb: FakeWandb,
) -> None:
    kept = wandb.add(FakeRun("abc", [row(step) for step in range(100)]))
    look = Looking(run_of(wandb))
    tracker, rows = Wandb(Clock(), server=look.source), Rows()

    async def fed() -> tuple[bool, float]:
        while not (await feed_chunk(tracker, look.runs[0], rows)).caught_up:
            pass
        return rows.complete, round(rows.skipped, 1)

    await look.value()
    assert await fed() == (True, 0.0)
    kept.add(*(row(step, 9.0) for step in range(100, 9000)))
    value = await look.value()
    assert (value.step, value.loss, value.last_step_at) == (17_998, 9.0, NOW_S)
    assert await fed() == (False, 0.9) and value.scanned < 0.2
    for _ in range(3):
        await look.value()
        told = await fed()
    assert told == (True, 0.0) and rows.trend.rows == 9000


async def test_a_run_whose_summary_is_lost_is_not_one_without_rows(wandb: FakeWandb) -> None:
    def fail(info: object, keys: object = None) -> str:
        raise RuntimeError("summary timed out")

    run = wandb.add(FakeRun("abc", [row(step) for step in range(30)]))
    vars(run)["summaryMetrics"] = fail
    look = Looking(run_of(wandb))
    facet = await look.facet()
    assert facet.error is not None and "summary timed out" in facet.error.message
    del vars(run)["summaryMetrics"]
    assert (await look.value()).step == 58
    vars(run)["summaryMetrics"] = fail  # the newest rows tell it
    run.add(row(30))
    assert (await look.value()).step == 60


async def test_too_long_an_answer_is_asked_for_in_smaller_pieces(
    wandb: FakeWandb, monkeypatch: pytest.MonkeyPatch
) -> None:
    make: Callable[[int], dict[str, Any]] = lambda step: row(step, note="n" * 900)  # noqa: E731
    wandb.add(FakeRun("abc", Made(60_000, make)))
    for name, size in {"CAP": 700_000, "BUDGET": 1_200_000, "FIRST_BUDGET": 600_000}.items():
        monkeypatch.setattr(f"cockpit.sources.wandb.online.{name}", size)
    look = Looking(run_of(wandb))
    known = 0
    for _ in range(6):
        known += (await look.facet()).known
    assert known >= 3
    await look.read()
    assert len(look.rows) > 1000


@pytest.mark.parametrize("at", [math.inf, math.nan, -5.0, NOW_S * 1000])
async def test_a_time_that_is_none_moves_no_other(wandb: FakeWandb, at: float) -> None:
    rows = [*(row(step) for step in range(30)), {**row(30), "_timestamp": at}]
    wandb.add(FakeRun("abc", rows))
    look = Looking(run_of(wandb))
    value = await look.value()
    assert (value.step, value.clock_offset_s, value.last_step_at) == (60, None, NOW_S - 971)
    assert await look.read() and look.rows[29].at == NOW_S - 971 and look.rows[30].at is None

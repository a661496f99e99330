"""Checkpoints in a bucket: the same judgement as on a disk, in few requests, with honest errors.

Against a server on loopback that counts; ``test_moto.py`` asks moto the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import Query
from cockpit.model.observed import CheckpointsValue, JobValue, Phase
from cockpit.model.run import CheckpointSpec, CustomLayout, RunSpec
from cockpit.runtime import buckets
from cockpit.sources.checkpoints import source as reading
from cockpit.sources.checkpoints.assembly import LOADABLE
from cockpit.sources.checkpoints.contents import AWAY
from cockpit.sources.checkpoints.source import Checkpoints, list_checkpoints
from tests.house.test_layouts import TREES
from tests.sources.checkpoints.layout_examples import SHOWN
from tests.sources.checkpoints.store_server import Handler, ObjectStore, serving
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import metadata, put

pytest.importorskip("obstore", reason="no obstore here: pip install 'run-cockpit[stores]'")

SCHEMES = ("s3", "gs")
QUIET = 3600.0
STEPS, OBJECTS = 500, 20


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ObjectStore]:
    with serving(ObjectStore()) as served:
        served.buckets["b"] = {}
        for module, name in ((reading, "AT_FIRST"), (reading, "SECONDS"), (buckets, "TIMEOUT")):
            monkeypatch.setattr(module, name, 60.0)  # however busy this machine is
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_ENDPOINT_URL", served.url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", served.url)
        yield served


def saved(
    store: ObjectStore,
    root: str,
    step: int,
    *,
    ago: float = QUIET,
    torn: bool = False,
    temporary: bool = False,
) -> None:
    """Put one save of Levanter's, as old as it is by the store's own clock."""
    at = time.time() + store.ahead - ago
    store.put("b", f"{root}/step-{step}/d/0c0ffee0", b"a" * 100, at)
    if not torn:
        store.put(
            "b", f"{root}/step-{step}/metadata.json", metadata(step, at, temporary).encode(), at
        )


def run_of(*paths: str, name: str = "a", **more: Any) -> RunSpec:
    return RunSpec(name=name, checkpoints=CheckpointSpec(path=paths, **more))


async def looked(
    source: Checkpoints, *runs: RunSpec, alive: bool = True
) -> Facet[CheckpointsValue]:
    phase = Phase.RUNNING if alive else Phase.FAILED
    job = JobValue(id="1", state="?", phase=phase)
    return (await source.observe([Query(run=run, job=job) for run in runs]))[runs[0].name]


def states(facet: Facet[CheckpointsValue]) -> list[tuple[int | None, str]]:
    assert facet.value is not None, facet.error
    return [(item.step, item.state.value) for item in facet.value.items]


def failure(facet: Facet[CheckpointsValue]) -> tuple[ErrorKind, str]:
    assert facet.value is None and facet.error is not None
    assert "\n" not in facet.error.message
    return facet.error.kind, facet.error.message


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("layout", TREES)
async def test_a_layout_is_judged_as_on_a_disk(
    layout: str, scheme: str, store: ObjectStore
) -> None:
    for path, content in TREES[layout].items():
        store.put("b", f"run/ckpt/{path}", content, time.time() - QUIET)
    if layout == "orbax":  # a bucket cannot rename: there a commit is a file
        store.put("b", "run/ckpt/500/commit_success.txt", b"ok", time.time() - QUIET)
    custom = CustomLayout(pattern=r"snap_(\d+)", marker="DONE") if layout == "custom" else None
    more: dict[str, Any] = {"layout": "custom", "custom": custom} if custom else {}
    facet = await looked(Checkpoints(SystemClock()), run_of(f"{scheme}://b/run/ckpt", **more))
    assert states(facet) == [SHOWN.get(layout, (500, "complete"))]
    assert facet.value is not None
    assert facet.value.items[0].path.startswith(f"{scheme}://b/run/ckpt/")
    assert facet.value.items[0].root == f"{scheme}://b/run/ckpt"


async def test_a_second_look_at_five_hundred_steps_takes_a_handful_of_requests(
    store: ObjectStore,
) -> None:
    for step in range(1, STEPS + 1):
        saved(store, "hero", step)
        for number in range(OBJECTS - 2):
            store.put("b", f"hero/step-{step}/d/{number:032x}", b"a")
    source, run = Checkpoints(SystemClock()), run_of("s3://b/hero")
    first = await looked(source, run)
    assert first.value is not None and first.value.latest_complete == STEPS
    assert len(first.value.items) == STEPS and not first.value.unjudged
    pages = STEPS * OBJECTS // 1000
    most = 1 + AWAY.newest + pages + STEPS + LOADABLE
    assert store.count() <= most, "names, the newest, all keys and markers once, a byte of a few"
    second = await looked(source, run)
    assert store.count() == 1 + AWAY.rotation
    assert states(second) == states(first)
    saved(store, "hero", STEPS + 1, ago=1.0, torn=True)
    assert states(await looked(source, run))[-1] == (STEPS + 1, "writing")
    assert store.count() == 3 + AWAY.rotation, "its files, and a byte of one of them"
    saved(store, "hero", STEPS + 1, ago=0.0)
    assert states(await looked(source, run))[-1] == (STEPS + 1, "complete")
    assert store.count() == 4 + AWAY.rotation, "its marker, and that byte of the new file"


async def test_two_hundred_runs_of_a_bucket_are_the_requests_of_one(store: ObjectStore) -> None:
    runs = [run_of(f"s3://b/all/run-{n}/ckpt", name=f"run-{n}") for n in range(200)]
    for number in range(200):
        saved(store, f"all/run-{number}/ckpt", 100)
    counts = []
    for some in (runs[:1], runs):
        source = Checkpoints(SystemClock())
        assert states(await looked(source, *some)) == [(100, "complete")]
        store.count()
        assert states(await looked(source, *some)) == [(100, "complete")]
        counts.append(store.count())
    assert counts[1] <= counts[0]


async def test_data_that_a_rule_of_the_bucket_takes_is_missed_in_turn(store: ObjectStore) -> None:
    many = 3 * AWAY.rotation
    for step in range(1, many + 1):
        saved(store, "run", step)
    source, run = Checkpoints(SystemClock()), run_of("s3://b/run")
    await looked(source, run)
    store.gone("b", "run/step-2/d/")
    looks = []
    for _ in range(many):
        store.count()
        looks.append(dict(states(await looked(source, run)))[2])
        assert store.count() <= 2 + AWAY.rotation
    assert looks[0] in ("complete", "incomplete") and looks[-1] == "incomplete"
    store.gone("b", f"run/step-{many}/")
    assert many not in dict(states(await looked(source, run)))


@pytest.mark.parametrize("ahead", [3600.0, -3600.0])
async def test_ages_are_told_by_the_servers_own_clock(ahead: float, store: ObjectStore) -> None:
    store.ahead = ahead
    saved(store, "run", 100)
    saved(store, "run", 200, ago=10.0, torn=True)
    facet = await looked(Checkpoints(SystemClock()), run_of("s3://b/run"))
    assert states(facet) == [(100, "complete"), (200, "writing")]
    assert facet.value is not None and facet.value.items[0].saved_at is not None
    assert abs(time.time() - QUIET - facet.value.items[0].saved_at) < 30.0


async def test_a_root_that_may_not_be_read_blocks_picks_and_leaves_the_rest(
    store: ObjectStore, tmp_path: Path
) -> None:
    saved(store, "run/perm", 100)
    saved(store, "run/temp", 150, temporary=True)
    store.fault = lambda asked: "run/temp" in asked.path.replace("%2F", "/") and denied(asked)
    source, run = Checkpoints(SystemClock()), run_of("s3://b/run/perm", "s3://b/run/temp")
    facet = await looked(source, run)
    assert states(facet) == [(100, "complete")]
    assert facet.value is not None and facet.value.unlisted == ("s3://b/run/temp",)
    assert facet.value.relaunch_from is None and facet.value.latest_complete is None
    assert facet.error is not None and facet.error.kind is ErrorKind.FORBIDDEN
    assert "s3://b/run/temp" in facet.error.message and "ListBucket" in facet.error.message
    store.fault = None
    facet = await looked(source, run)
    assert facet.error is None and facet.value is not None
    assert facet.value.latest_complete == 150
    assert [item.permanent for item in facet.value.items] == [True, False]


async def test_roots_here_and_in_two_buckets_are_judged_together(
    store: ObjectStore, tmp_path: Path
) -> None:
    saved(store, "perm", 100)
    store.buckets["other"] = {"temp/step-300/metadata.json": (b'{"step": 300}', 0.0)}
    put(tmp_path / "here" / "step-200" / "metadata.json", metadata(200, 0.0))
    put(tmp_path / "here" / "step-200" / "d" / "0")
    run = run_of("s3://b/perm", str(tmp_path / "here"), "gs://other/temp")
    source = Checkpoints(SystemClock())
    await looked(source, run)
    facet = await looked(source, run)
    assert states(facet) == [(100, "complete"), (200, "complete"), (300, "incomplete")]
    assert facet.error is None and facet.value is not None
    assert facet.value.relaunch_from is not None and facet.value.relaunch_from.step == 200
    del store.buckets["other"]
    facet = await looked(source, run)
    assert facet.error is not None and "gs://other does not exist" in facet.error.message
    assert facet.value is not None and facet.value.unlisted == ("gs://other/temp",)
    assert facet.value.relaunch_from is None


async def test_an_empty_prefix_is_not_there_and_one_of_two_holds_nothing(
    store: ObjectStore,
) -> None:
    source = Checkpoints(SystemClock())
    kind, said = failure(await looked(source, run_of("s3://b/nowhere")))
    assert kind is ErrorKind.NOT_FOUND and "s3://b/nowhere" in said
    saved(store, "perm", 100)
    facet = await looked(source, run_of("s3://b/perm", "s3://b/temp", name="two"))
    assert facet.error is None and states(facet) == [(100, "complete")]


async def test_a_rejected_checkpoint_is_known_from_the_bucket_itself(store: ObjectStore) -> None:
    saved(store, "run", 100)
    saved(store, "run", 200)
    mark = {"name": "step-200", "step": 200, "at": time.time(), "by": "ada", "reason": "spike"}
    store.put("b", "run/.cockpit/rejected.json", json.dumps({"rejected": [mark]}).encode())
    source, run = Checkpoints(SystemClock()), run_of("s3://b/run")
    assert states(await looked(source, run)) == [(100, "complete"), (200, "rejected")]
    store.put("b", "run/.cockpit/rejected.json", b"{")
    kind, said = failure(await looked(source, run))
    assert kind is ErrorKind.BAD_ANSWER and "rejected" in said


async def test_files_of_torch_are_looked_into_a_block_at_a_time(
    store: ObjectStore, tmp_path: Path
) -> None:
    whole = archive({"iter_num": 700, "model": {}})
    files = {"own/ckpt.pt": whole, "lit/step=800.ckpt": whole[:-30], "old/ckpt.pt": b"x" * 99}
    for name, content in files.items():
        store.put("b", f"out/{name}", content, time.time() - QUIET)
        put(tmp_path / name, content, time.time() - QUIET)
    source = Checkpoints(SystemClock())
    for name, found in (("own", "complete"), ("lit", "incomplete"), ("old", "unknown")):
        run = run_of(f"s3://b/out/{name}", name=name)
        facet = await looked(source, run)
        (here,) = list_checkpoints([str(tmp_path / name)], now=time.time()).items
        assert states(facet) == [(here.step, here.state.value)] and here.state.value == found
        assert facet.value is not None and facet.value.items[0].note == here.note
        store.count()
        await looked(source, run)
        assert store.count() == 1, "read once"


def denied(asked: Handler) -> bool:
    asked.refuse(403, "AccessDenied")
    return True


def status(code: int, word: str = "", **headers: str) -> Callable[[Handler], bool]:
    def fault(asked: Handler) -> bool:
        asked.refuse(code, word, headers)
        return True

    return fault


def body(text: bytes) -> Callable[[Handler], bool]:
    def fault(asked: Handler) -> bool:
        asked.answer(200, text)
        return True

    return fault


def hangs(sent: bytes) -> Callable[[Handler], bool]:
    """Send the head of an answer and nothing after it, for longer than anyone waits."""

    def fault(asked: Handler) -> bool:
        asked.send_response(200)
        asked.send_header("Content-Length", "5000")
        asked.end_headers()
        asked.wfile.write(sent)
        asked.wfile.flush()
        asked.rfile.read(1)  # until the other side hangs up
        return True

    return fault


def hangs_up(asked: Handler) -> bool:
    asked.close_connection = True
    asked.connection.shutdown(2)
    return True


CUT = b'<?xml version="1.0"?><ListBucketResult><Contents><Key>run/st'
BAD: dict[str, tuple[Callable[[Handler], bool], ErrorKind, str]] = {
    "401": (status(401), ErrorKind.UNAUTHORIZED, "log in"),
    "403": (denied, ErrorKind.FORBIDDEN, "refused (AccessDenied"),
    "404": (status(404, "NoSuchBucket"), ErrorKind.NOT_FOUND, "does not exist"),
    "expired": (status(400, "ExpiredToken"), ErrorKind.UNAUTHORIZED, "expired"),
    "wrong key": (status(403, "InvalidAccessKeyId"), ErrorKind.UNAUTHORIZED, "not accepted"),
    "clock": (status(403, "RequestTimeTooSkewed"), ErrorKind.UNAUTHORIZED, "clock"),
    "region": (status(301, "PermanentRedirect"), ErrorKind.BAD_ANSWER, "AWS_REGION"),
    "429": (status(429), ErrorKind.RATE_LIMITED, "rate limited"),
    "429, when": (status(429, **{"Retry-After": "1"}), ErrorKind.RATE_LIMITED, "rate limited"),
    "slow down": (status(503, "SlowDown"), ErrorKind.RATE_LIMITED, "rate limited"),
    "500": (status(500), ErrorKind.REFUSED, "server error 500"),
    "html": (body(b"<html><body>Sign in</body></html>"), ErrorKind.BAD_ANSWER, "no listing"),
    "json": (body(b'{"items": [1, 2'), ErrorKind.BAD_ANSWER, "no listing"),
    "truncated": (body(CUT), ErrorKind.BAD_ANSWER, "no listing"),
    "hangs": (hangs(b""), ErrorKind.TIMEOUT, "no answer in time"),
    "hangs in the middle": (hangs(CUT), ErrorKind.TIMEOUT, "no answer in time"),
    "hangs up": (hangs_up, ErrorKind.REFUSED, "refused or lost"),
}  # fmt: skip


async def test_a_bucket_is_left_alone_for_as_long_as_it_asks_for(store: ObjectStore) -> None:
    """The client shows no header: it is a plain request that learns of ``Retry-After``."""

    def limits(asked: Handler) -> bool:
        asked.answer(429, b"", {"Retry-After": "40"})
        return True

    class Slow(SystemClock):
        ahead = 0.0

        def monotonic(self) -> float:
            return super().monotonic() + self.ahead

    clock, run = Slow(), run_of("s3://b/run")
    saved(store, "run", 100)
    source = Checkpoints(clock)
    assert states(await looked(source, run)) == [(100, "complete")]
    store.fault = store.clock_fault = limits
    kind, _ = failure((await source.observe([Query(run=run)]))[run.name])
    assert kind is ErrorKind.RATE_LIMITED
    store.fault = store.clock_fault = None
    store.asked.clear()
    kind, said = failure((await source.observe([Query(run=run)]))[run.name])
    assert kind is ErrorKind.RATE_LIMITED and "limits requests: next in" in said and not store.asked
    clock.ahead = 41.0
    assert states(await looked(source, run)) == [(100, "complete")]


@pytest.mark.parametrize("name", BAD)
async def test_a_bad_answer_is_one_line_a_bounded_number_of_requests_and_heals(
    name: str, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault, kind, told = BAD[name]
    monkeypatch.setattr(buckets, "TIMEOUT", 0.5 if "hangs" in name else 30.0)
    monkeypatch.setattr(buckets, "AGAIN_WITHIN", 0.4)
    monkeypatch.setattr(buckets, "RETRIES", 1)
    runs = [run_of(f"s3://b/run-{n}", name=f"run-{n}") for n in range(20)]
    for number in range(20):
        saved(store, f"run-{number}", 100)
    store.fault = fault
    source = Checkpoints(SystemClock())
    answers = await source.observe([Query(run=run) for run in runs])
    for facet in answers.values():
        found, said = failure(facet)
        assert found is kind and told in said and "s3://b" in said, said
        assert len(said) < 300 and "testing" not in said
    few = len(runs) + 3 if kind is ErrorKind.FORBIDDEN else 2
    assert 1 <= store.count() <= few, "what refuses one is not asked for the others"
    store.fault = None
    facets = [await looked(source, *runs) for _ in range(3)]  # a busy machine may be late once
    assert states(facets[-1]) == [(100, "complete")]


async def test_a_marker_that_cannot_be_read_is_unknown_and_read_again(store: ObjectStore) -> None:
    saved(store, "run", 100)
    saved(store, "run", 200)
    store.fault = lambda asked: "step-200/metadata" in asked.path and denied(asked)
    source, run = Checkpoints(SystemClock()), run_of("s3://b/run")
    facet = await looked(source, run)
    assert states(facet) == [(100, "complete"), (200, "unknown")]
    assert facet.value is not None and "is refused" in str(facet.value.items[1].note)
    store.fault = None
    assert states(await looked(source, run))[-1] == (200, "complete")


async def test_who_has_no_extra_is_told_what_to_install(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    kind, said = failure(await looked(Checkpoints(SystemClock()), run_of("s3://b/run")))
    assert kind is ErrorKind.UNSUPPORTED and "pip install 'run-cockpit[stores]'" in said


def heard(store: ObjectStore) -> Sequence[str]:
    """Let the store refuse all, and return the keys with which it is asked."""
    keys: list[str] = []

    def fault(asked: Handler) -> bool:
        signed = asked.headers.get("Authorization", "none")
        keys.append(signed.partition("Credential=")[2].partition("/")[0] or signed)
        return False

    store.fault = fault
    return keys


async def test_credentials_are_found_where_the_stores_tools_look(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    saved(store, "run", 100)
    keys, run = heard(store), run_of("s3://b/run")
    await looked(Checkpoints(SystemClock()), run)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    put(tmp_path / ".aws/credentials", "[default]\naws_access_key_id=no\n[hero]\n"
        "aws_access_key_id = filed\naws_secret_access_key = s%cret\n")  # fmt: skip
    monkeypatch.setenv("AWS_PROFILE", "hero")
    await looked(Checkpoints(SystemClock()), run)
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    await looked(Checkpoints(SystemClock()), run)
    assert list(dict.fromkeys(keys)) == ["testing", "filed", "none"]


async def test_without_credentials_it_says_what_to_set(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"{store.url}/no-machine-of-amazon")
    store.fault = status(404)
    kind, said = failure(await looked(Checkpoints(SystemClock()), run_of("s3://b/run")))
    assert kind is ErrorKind.UNAUTHORIZED and "AWS_ACCESS_KEY_ID" in said


async def test_nobody_listens_there(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    kind, said = failure(await looked(Checkpoints(SystemClock()), run_of("s3://b/run")))
    assert kind is ErrorKind.REFUSED and "refused" in said
    monkeypatch.setenv("AWS_ENDPOINT_URL", store.url.replace("http:", "https:"))
    kind, said = failure(await looked(Checkpoints(SystemClock()), run_of("s3://b/run")))
    assert kind is ErrorKind.TLS and "certificate" in said

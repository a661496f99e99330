"""One tracker out of a run's files and its server: the newer step is believed, and says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Facet, known, unknown
from cockpit.model.jobs import Query
from cockpit.model.observed import Row, TrackerValue
from cockpit.model.place import HERE
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.sources.curve_fold import RowChunk
from cockpit.sources.wandb.online import Wandb, places
from tests.queries import queries_of
from tests.records.issue_services import SkipClock

URL = "http://127.0.0.1:9/acme/hero/runs/abc"
PLACE = "http://127.0.0.1:9/acme/hero"
T0 = 1_768_032_000.0
BOTH = RunSpec(name="r", wandb=WandbSpec(dir="/x/wandb", url=URL))


class Part:
    """One of the two: it says what it is told to, and gives out rows of its own."""

    def __init__(self, step: int) -> None:
        self.said: Facet[TrackerValue] | None = None
        self.step = step
        self.rewound = 0

    async def observe(
        self, queries: Sequence[Query], at: str | None = None
    ) -> Mapping[str, Facet[TrackerValue]]:
        assert self.said is not None
        return {query.name: self.said for query in queries}

    async def more_rows(self, run: RunSpec) -> RowChunk:
        return RowChunk((Row(self.step, T0),), True, bool(self.rewound), 1.0)

    recent = more_rows

    def may_have_rows(self, run: RunSpec) -> bool:
        return self.step == 2

    def join(
        self, at: str, answers: Mapping[str, Facet[TrackerValue]]
    ) -> Mapping[str, Facet[TrackerValue]]:
        return answers

    def rewind(self, run: str) -> None:
        self.rewound += 1


class Joined:
    def __init__(self) -> None:
        self.files, self.server = Part(1), Part(2)
        parts: Any = (self.files, self.server)
        self.wandb = Wandb(SkipClock(), *parts)

    async def facet(
        self, files: Facet[TrackerValue] | None, server: Facet[TrackerValue] | None
    ) -> Facet[TrackerValue]:
        """Return the run's facet after these answers (``None``: that place has not answered)."""
        self.files.said, self.server.said = files, server
        found = {}
        for place, said in ((HERE, files), (PLACE, server)):
            if said is not None:
                answers = await self.wandb.observe(queries_of([BOTH]), place)
                found = self.wandb.join(place, answers)
        return found["r"]

    async def rows(self) -> tuple[int | None, bool]:
        chunk = await self.wandb.more_rows(BOTH)
        return chunk.rows[0].step, chunk.restarted


def here(at: float, state: str = "running", **more: Any) -> Facet[TrackerValue]:
    value = TrackerValue(
        id="abc", name="written", state=state, step=5, last_step_at=at, file_mtime=at,
        last_record_at=at, files=("/x/f",), fragments=("f",), **more,
    )  # fmt: skip
    return known(value, "W&B files in /x/wandb", T0)


def there(at: float, state: str = "running") -> Facet[TrackerValue]:
    value = TrackerValue(
        id="abc", name="renamed", entity="acme", project="hero", state=state, step=4,
        last_step_at=at, heartbeat_at=T0,
    )  # fmt: skip
    return known(value, "W&B at w.example", T0)


def failed(kind: ErrorKind, text: str) -> Facet[TrackerValue]:
    return unknown(kind, text, "it", T0)


async def test_files_of_a_run_on_its_box_are_asked_for_there_and_joined() -> None:
    wandb = WandbSpec(dir="ssh://gpu-7/x/wandb", url=URL)
    run = BOTH.model_copy(update={"wandb": wandb})
    joined = Joined()
    assert places(run) == ("gpu-7", PLACE)
    found = {}
    joined.files.said, joined.server.said = here(T0), there(T0 - 9)
    for place in places(run):
        found = joined.wandb.join(place, await joined.wandb.observe(queries_of([run]), place))
    assert found["r"].source == "W&B files in /x/wandb, ahead of w.example"


async def test_what_became_of_a_run_whose_files_fell_silent_is_the_servers_to_say() -> None:
    facet = await Joined().facet(here(T0, "silent"), there(T0 - 9, "crashed"))
    assert facet.value is not None and facet.value.state == "crashed"
    facet = await Joined().facet(here(T0, "finished", exit_code=0), there(T0 - 9, "running"))
    assert facet.value is not None and facet.value.state == "finished"


@pytest.mark.parametrize(
    ("state", "kind", "is_known"),
    [
        ("running", ErrorKind.TIMEOUT, True),
        ("finished", ErrorKind.REFUSED, True),
        ("silent", ErrorKind.NOT_FOUND, True),  # never synced: it is nobody else's
        ("silent", ErrorKind.UNAUTHORIZED, False),
        ("silent", ErrorKind.TIMEOUT, False),
    ],
)
async def test_silent_files_are_no_evidence_while_the_server_says_nothing(
    state: str, kind: ErrorKind, is_known: bool
) -> None:
    facet = await Joined().facet(here(T0 - 700, state), failed(kind, "no word from w.example"))
    assert facet.value is not None and facet.value.step == 5
    assert "no word from w.example" in facet.source
    assert facet.known is is_known
    if not is_known:
        assert facet.observed_at == T0 - 700 and facet.error is not None


async def test_files_behind_what_the_server_said_before_are_not_shown_in_its_place() -> None:
    joined = Joined()
    for state in ("silent", "running"):
        await joined.facet(here(T0 - 900, state), there(T0))
        facet = await joined.facet(here(T0 - 900, state), failed(ErrorKind.TIMEOUT, "hangs"))
        assert facet.value is None and facet.error is not None and facet.error.message == "hangs"
    facet = await joined.facet(here(T0 + 5), failed(ErrorKind.TIMEOUT, "hangs"))
    assert facet.known and facet.value is not None and facet.value.step == 5


async def test_the_server_alone_where_the_files_are_not() -> None:
    missing = failed(ErrorKind.NOT_FOUND, "there is no /x/wandb")
    facet = await Joined().facet(missing, there(T0))
    assert facet.known and facet.source == "W&B at w.example"
    facet = await Joined().facet(missing, failed(ErrorKind.FORBIDDEN, "may not"))
    assert facet.error is not None and facet.error.message == "may not"
    unread = failed(ErrorKind.PERMISSION, "may not be read")
    facet = await Joined().facet(unread, failed(ErrorKind.FORBIDDEN, "may not"))
    assert facet.error is not None and facet.error.message == "may not be read; may not"


async def test_a_run_that_says_too_little_names_what_is_missing() -> None:
    for spec, missing in (
        (WandbSpec(id="abc"), "wandb.project"),
        (WandbSpec(url="https://wandb.ai/acme/hero"), "wandb.id"),
    ):
        run = RunSpec(name="r", wandb=spec)
        for at in (None, HERE):
            facet = (await Wandb(SkipClock()).observe(queries_of([run]), at))["r"]
            assert facet.error is not None and not facet.configured
            assert facet.error.message.startswith(f"{missing} (or wandb.url, or wandb.dir)")
    facet = (await Wandb(SkipClock()).observe(queries_of([RunSpec(name="r")])))["r"]
    assert facet.error is not None and facet.error.message == "[run.wandb] is not in cockpit.toml"


async def test_rows_are_asked_for_until_the_files_that_gave_all_of_theirs_are_best() -> None:
    joined = Joined()
    assert joined.wandb.may_have_rows(BOTH), "nobody has looked yet"
    await joined.facet(here(T0), there(T0 - 9))
    assert joined.wandb.may_have_rows(BOTH), "none of its rows were asked for"
    await joined.rows()
    assert not joined.wandb.may_have_rows(BOTH)
    await joined.facet(here(T0), there(T0 + 9))
    assert joined.wandb.may_have_rows(BOTH), "the server is ahead"
    await joined.rows()
    assert joined.wandb.may_have_rows(BOTH), "a server's rows come by themselves"
    await joined.facet(here(T0 + 9), there(T0))
    assert joined.wandb.may_have_rows(BOTH), "its files' rows begin again"

"""What an agent is told of a log: whole only where it is, each line once, no part of a key."""

from __future__ import annotations

import base64
from hashlib import shake_256
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cockpit.attach.server import LogReading
from cockpit.mcp.desk import Desk
from cockpit.mcp.reading import Log, Search, log, log_search
from cockpit.sources.logs import search
from cockpit.sources.logs.pieces import LocalLog
from tests.mcp.client import nothing
from tests.watch.fakes import SteppedClock


class Logs(LogReading):
    """The real reading of one file."""

    def __init__(self, path: Path) -> None:
        self.log = LocalLog(str(path))

    def _log(self, run: str) -> LocalLog:
        return self.log


def desk_of(path: Path) -> Desk:
    async def report(run: str) -> None:
        return

    engine = SimpleNamespace(logs=Logs(path))
    return cast("Desk", SimpleNamespace(engine=engine, report=report, clock=SteppedClock()))


async def searched(path: Path, term: str, cursor: str | None = None) -> dict[str, object]:
    return await log_search(desk_of(path), Search(run="toy", term=term, cursor=cursor), nothing)


async def test_an_unfinished_last_line_is_one_match(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text("step 1\nloss=nan\nstep 2\nloss=nan and it is still writ")
    found = await searched(path, "nan")
    assert (found["matches"], found["whole"], found["next"]) == (2, True, None)
    assert found["foreign_lines"] == ["loss=nan", "loss=nan and it is still writ"]


@pytest.mark.parametrize("cursor", [None, "from-999999"])
async def test_a_log_of_which_only_a_part_was_read_is_not_whole(
    tmp_path: Path, cursor: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run.log"
    path.write_text("nan\n" + "step\n" * 100)
    if cursor is None:  # far away only its end is read
        monkeypatch.setattr(LocalLog, "far", property(lambda log: True))
        monkeypatch.setattr(search, "FAR_COUNTED", 50)
    found = await searched(path, "nan", cursor)
    assert (found["matches"], found["whole"], found["next"]) == (0, False, None)


async def test_a_line_of_a_key_is_masked_wherever_a_page_begins(tmp_path: Path) -> None:
    path, body = tmp_path / "run.log", base64.b64encode(shake_256(b"key").digest(1200)).decode()
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    key = ["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"]
    path.write_text("\n".join(["step 1", *key, "step 2", ""]))
    found = await searched(path, lines[7][:20])
    assert found["matches"] == 1
    assert lines[7] not in str(found["foreign_lines"])
    place = path.read_text().index(lines[3])
    for count in (1, 2, 3):
        ask = Log(run="toy", lines=count, cursor=f"from-{place}")
        page = await log(desk_of(path), ask, nothing)
        assert page["foreign_lines"] == ["****"] * count
    end = await log(desk_of(path), Log(run="toy", lines=2), nothing)
    assert end["foreign_lines"] == [key[-1], "step 2"]

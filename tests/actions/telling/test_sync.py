"""A-11: offline W&B folders uploaded by the client, judged by its marks; nothing twice, no hang."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.core.service import ActionService
from cockpit.actions.telling import sync, wandb_upload
from cockpit.actions.telling.sync import Sync
from cockpit.actions.telling.wandb_upload import Destination, Uploader
from cockpit.hosts.script import run_script
from cockpit.model.jobs import Live
from cockpit.model.place import FILE, SSH, Place
from cockpit.model.plan import Approval, Level, Outcome, Plan, Request, Result
from cockpit.model.records import EventEntry, Recorded, SaveStage
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from tests.actions.contexts import context, living
from tests.actions.toys import RUN, FileRecorder, World
from tests.sources.wandb import writer
from tests.sshd import Sshd, needs_sshd, serving
from tests.waiting import until

ID = os.environ.get("UPLOAD_ID") or f"abc{os.getpid()}"
"""Of this process alone: all processes of the machine are looked at for a client of this run."""
NAMES = [f"offline-run-20260102_00000{number}-{ID}" for number in range(1, 4)]
CLIENT = """\
#!/bin/sh
# Says and does what the client of 0.31 does, of which the last test makes sure.
here=$(dirname "$0"); echo "$*" >>"$here/calls"; dry=
IFS='
'; left=
for word; do case $word in
  --dry-run) dry=1;;
  */offline-run-*) [ -e "$word/run-RUN-ID.wandb.synced" ] || left="$left$IFS$word";;
esac; done
[ -z "$dry" ] || { echo "wandb: Would sync some run(s):" >&2
  for each in $left; do echo "wandb:   $each/run-RUN-ID.wandb" >&2; done; exit 0; }
[ ! -e "$here/hangs" ] || { sleep 1000 & echo $! >"$here/child"; wait; }
[ ! -e "$here/no-key" ] || {
  echo "Error: No API key configured. WANDB_API_KEY=$WANDB_API_KEY" >&2; exit 1; }
for each in $left; do
  [ ! -e "$here/takes" ] || { rm -r "$each"; continue; }
  if [ "$(basename "$each")" = "$(cat "$here/torn" 2>/dev/null)" ]; then
    echo "wandb: ERROR Failed to sync all data from $each: it ends with an incomplete record." >&2
    exit 0
  fi
  : >"$each/run-RUN-ID.wandb.synced"
  echo "wandb: [acme/hero/RUN-ID] View run toy at http://w.example/acme/hero/runs/RUN-ID" >&2
done
""".replace("RUN-ID", ID)


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A client that is none, in a folder that tells how it shall behave."""
    place = tmp_path / "client" / "wandb"
    place.parent.mkdir()
    place.write_text(CLIENT)
    place.chmod(0o755)
    monkeypatch.setattr(wandb_upload, "own_python", lambda module: (str(place),))
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    return place.parent


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    runs = tmp_path / "the run's $(wandb)"
    for name in NAMES:
        (runs / name).mkdir(parents=True)
        (runs / name / f"run-{ID}.wandb").write_bytes(writer.log([writer.run(ID)]))
    (runs / "offline-run-20260102_000009-other").mkdir()
    return runs


def service(tmp_path: Path, folder: Path, **more: str) -> ActionService:
    world = World(tmp_path)
    run = world.file.runs[0].model_copy(update={"wandb": WandbSpec(dir=str(folder), id=ID, **more)})
    file = world.file.model_copy(update={"runs": (run,)})
    return ActionService(lambda: file, world.parts, {"sync": Sync()})


def asked(**params: str) -> Request:
    given = {"entity": "acme", "project": "hero", **params}
    return Request(action="sync", run=RUN, operator="ada", params=given)


async def done(acting: ActionService, *approvals: str) -> Result:
    given = tuple(Approval(check=each, by="ada", reason="known") for each in approvals)
    return await acting.act(asked(), f"sync {RUN}", given)


def levels(plan: Plan) -> dict[str, Level]:
    return {check.id: check.level for check in plan.checks}


def said(plan: Plan, check: str) -> str:
    return next(each.text for each in plan.checks if each.id == check)


def synced(folder: Path) -> list[str]:
    return sorted(path.parent.name for path in folder.glob("*/*.synced"))


async def test_a_plan_lists_what_the_dry_run_says_and_sends_nothing(
    client: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    staged = tmp_path / "data" / "artifacts" / "staging"
    staged.mkdir(parents=True)
    (staged / "big").write_bytes(b"x" * 300_000)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    (folder / NAMES[0] / f"run-{ID}.wandb.synced").touch()
    (folder / NAMES[2] / f"run-{ID}.wandb").write_bytes(writer.MAGIC)
    plan = await service(tmp_path, folder).plan(asked())
    assert not plan.blocked and plan.words == f"sync {RUN}"
    command = plan.command or ""
    assert "--entity acme --project hero" in command and NAMES[1] in command
    page = plan.page or ""
    assert page.index("Would be uploaded") < page.index(NAMES[1]) < page.index("Synced already")
    assert page.index("Without a record in it, not uploaded") < page.index(NAMES[2])
    assert "other" not in page and f"{NAMES[1]}/run-{ID}.wandb" in page
    assert said(plan, "wandb").startswith("1 folder to upload")
    assert "kB in" in said(plan, "staging") and str(staged) in said(plan, "staging")
    assert "WANDB_API_KEY" in said(plan, "key")
    calls = (client / "calls").read_text().splitlines()
    assert len(calls) == 1 and "--dry-run" in calls[0] and "--clean" not in calls[0]
    assert synced(folder) == NAMES[:1]


async def test_it_is_done_once_and_a_second_time_says_so(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    acting = service(tmp_path, folder)
    first = await done(acting)
    assert first.outcome is Outcome.DONE and synced(folder) == NAMES, first
    uploads = [line for line in _calls(client) if "--dry-run" not in line]
    assert len(uploads) == 1
    (entry,) = await acting.history(RUN)
    assert entry.facts["urls"] == f"http://w.example/acme/hero/runs/{ID}"
    plan = await acting.plan(asked())
    assert said(plan, "wandb") == "all 3 are synced already: nothing to do"
    again = await done(acting)
    assert again.outcome is Outcome.DONE and "synced already" in str(again.steps[0].note)
    assert [line for line in _calls(client) if "--dry-run" not in line] == uploads


def _calls(client: Path) -> list[str]:
    return (client / "calls").read_text().splitlines()


async def test_one_whose_end_was_cut_off_is_named_and_does_not_keep_back_the_others(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    (client / "torn").write_text(NAMES[1])
    result = await done(service(tmp_path, folder))
    assert result.outcome is Outcome.FAILED
    assert f"2 of 3 synced; not {NAMES[1]}" in result.message
    assert "incomplete record" in result.message and "View run" not in result.message
    assert synced(folder) == [NAMES[0], NAMES[2]]


async def test_what_a_kill_cut_off_is_sent_once_until_it_changes(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    (client / "torn").write_text(NAMES[1])
    acting = service(tmp_path, folder)
    first = await done(acting)
    assert "is not sent again" in first.message and "sync it again" not in first.message
    calls = len(_calls(client))
    plan = await acting.plan(asked())
    assert said(plan, "wandb") == "2 synced already: nothing to do"
    assert NAMES[1] in said(plan, "wandb:torn")
    assert (await done(acting)).outcome is Outcome.DONE and len(_calls(client)) == calls
    with (folder / NAMES[1] / f"run-{ID}.wandb").open("ab") as file:
        file.write(b"more")
    assert "1 folder to upload" in said(await acting.plan(asked()), "wandb")


async def test_a_client_that_does_nothing_and_ends_well_is_no_success(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    (client / "no-key").touch()
    result = await done(service(tmp_path, folder))
    assert result.outcome is Outcome.FAILED and "0 of 3 synced" in result.message
    assert "No API key configured" in result.message and "k" * 40 not in result.message


async def test_what_is_not_there_any_more_is_not_said_to_be_synced(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    (client / "takes").touch()
    acting = service(tmp_path, folder)
    result = await done(acting)
    assert result.outcome is Outcome.UNKNOWN and NAMES[0] in result.message, result
    (folder / NAMES[0]).mkdir()
    (folder / NAMES[0] / f"run-{ID}.wandb").write_bytes(writer.MAGIC)
    plan = await acting.plan(asked())
    assert said(plan, "wandb") == "0 synced already, 1 without a record in it: nothing to do"


async def test_marks_that_were_there_already_are_not_told_as_our_upload(
    client: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        (folder / name / f"run-{ID}.wandb.synced").touch()
    entries: list[EventEntry] = []

    async def event(self: FileRecorder, run: RunSpec, entry: EventEntry, commit: str) -> Recorded:
        entries.append(entry)
        return Recorded(stage=SaveStage.PUSHED)

    monkeypatch.setattr(FileRecorder, "event", event)
    assert (await done(service(tmp_path, folder))).outcome is Outcome.DONE
    assert entries[0].status == f"nothing to upload; meant for acme/hero/{ID}"


async def test_a_look_that_was_cut_off_is_no_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(where: str | None, script: str, **more: Any) -> Completed:
        done = await run_script(where, script, **more)
        return done._replace(out=done.out[: done.out.index(b" seen ")], rc=137)

    monkeypatch.setattr(wandb_upload, "run_script", cut)
    with pytest.raises(RemoteError, match="not told to its end"):
        await Uploader(Place(FILE, "", str(folder)), ID).look(None)


async def test_one_that_hangs_is_killed_with_all_that_it_has_started(
    client: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "upload_within", lambda fragments: 1.0)
    (client / "hangs").touch()
    begun = time.monotonic()
    result = await done(service(tmp_path, folder))
    assert time.monotonic() - begun < 15 and result.outcome is Outcome.FAILED
    assert "killed at its deadline" in result.message and "0 of 3 synced" in result.message
    child = int((client / "child").read_text())
    until(lambda: not Path(f"/proc/{child}").exists() or _defunct(child))
    (client / "hangs").unlink()
    assert (await done(service(tmp_path, folder))).outcome is Outcome.DONE


def _defunct(pid: int) -> bool:
    return ") Z " in Path(f"/proc/{pid}/stat").read_text()


async def test_what_was_cut_short_is_told_by_its_marks(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    """The cockpit is killed after the client was begun: the next one looks, and sends nothing."""
    code = (
        "import asyncio, os, signal, sys; from pathlib import Path\n"
        f"os.environ['UPLOAD_ID'] = {ID!r}\n"
        "from cockpit.actions.telling import wandb_upload\n"
        "from tests.actions.telling import test_sync as here\n"
        f"wandb_upload.own_python = lambda module: ({str(client / 'wandb')!r},)\n"
        f"acting = here.service(Path({str(tmp_path)!r}), Path({str(folder)!r}))\n"
        "acting._at = lambda at: os.kill(os.getpid(), 9) if at == 'sync:did' else None\n"
        "asyncio.run(here.done(acting))\n"
    )
    argv = sys.executable, "-c", code
    died = await asyncio.create_subprocess_exec(*argv, cwd=Path(__file__).parents[3])
    assert await died.wait() == -signal.SIGKILL and synced(folder) == NAMES
    calls = _calls(client)
    acting = service(tmp_path, folder)
    (settled,) = await acting.recover(RUN)
    assert settled.outcome is not None and _calls(client) == calls
    (entry,) = await acting.history(RUN)
    assert entry.outcome is Outcome.DONE, entry
    assert (tmp_path / "logbook.md").read_text().count("wandb sync") == 1


async def test_what_speaks_against_it(client: Path, folder: Path, tmp_path: Path) -> None:
    acting = service(tmp_path, folder, entity="ada", project="hero")
    plan = await acting.plan(asked())
    assert levels(plan)["C-13"] is Level.BLOCK and "ada is recorded" in said(plan, "C-13")
    assert (await done(acting, "C-13")).outcome is Outcome.DONE, "a person may say so"
    for name in ("entity", "project"):
        with pytest.raises(RefuseError):
            await acting.plan(asked(**{name: " "}))
        with pytest.raises(RefuseError):
            await acting.plan(asked(**{name: "--clean"}))
    nothing = await service(tmp_path, folder / "nowhere").plan(asked())
    assert nothing.blocked and f"no folder offline-run-*-{ID}" in said(nothing, "wandb")
    run = acting._spec(RUN)
    alive = context(run, live=Live(jobs=(living(),)))
    draft = await Sync().draft(alive, asked())
    (running,) = [check for check in draft.checks if check.id == "running"]
    assert running.level is Level.BLOCK and running.overridable


async def test_a_mark_older_than_its_file_is_told(
    client: Path, folder: Path, tmp_path: Path
) -> None:
    for name in NAMES:
        mark = folder / name / f"run-{ID}.wandb.synced"
        mark.touch()
        os.utime(mark, (1.0, 1.0) if name == NAMES[2] else None)
    plan = await service(tmp_path, folder).plan(asked())
    assert levels(plan)["wandb:grown"] is Level.WARN and NAMES[2] in said(plan, "wandb:grown")


@pytest.fixture
def real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with serving(tmp_path) as server:
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        yield server


@needs_sshd
async def test_on_a_host_it_is_done_there(real: Sshd, folder: Path, client: Path) -> None:
    own = real.home / "work" / ".venv" / "bin"
    own.mkdir(parents=True)
    (client / "wandb").rename(own / "wandb")
    (real.home / ".wandb_token").write_text("s" * 40 + "\n")
    real.rc("unset WANDB_API_KEY")
    uploader = Uploader(Place(SSH, real.host, str(folder)), ID, str(own.parents[1]))
    found = await uploader.look(None)
    assert [each.path.rpartition("/")[2] for each in found.left] == NAMES and found.key == "file"
    await uploader.run(Destination("acme", "hero"), found.left, 20.0)
    assert (await uploader.look(None)).left == () and (own / "calls").exists()


@pytest.mark.slow
async def test_the_real_client_uploads_to_a_server_and_leaves_its_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("graphql", reason="graphql-core is missing: make test installs it")
    pytest.importorskip("wandb", reason="the W&B client is missing: make test installs it")
    from tests.sources.wandb.fake_wandb import KEY
    from tests.sources.wandb.fake_wandb import serving as serving_wandb

    runs, away = tmp_path / "wandb", tmp_path / "away"
    away.mkdir()
    monkeypatch.chdir(away)
    for number, name in enumerate(NAMES[:2]):
        (runs / name).mkdir(parents=True)
        rows = [writer.row(step, "2.5", 1.7e9 + step) for step in range(3 * number, 3 * number + 3)]
        data = writer.log([writer.run(ID, entity="x", project="y"), *rows, writer.exited(0)])
        (runs / name / f"run-{ID}.wandb").write_bytes(data)
    uploader = Uploader(Place(FILE, "", str(runs)), ID)
    with serving_wandb() as server:
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        to = Destination("acme", "hero", server.base)
        found = await uploader.look(to.base_url)
        dry = await uploader.run(to, found.left, 60.0, dry=True)
        assert {check.level for check in sync._dry(dry, found)} == {Level.PASS}, dry
        assert [*server.runs] == [] and found.left == found.fragments
        told = await sync._judged(
            uploader, to, found.left, await sync._uploaded(uploader, to, found.left)
        )
        assert told == "2 folders synced to acme/hero" and synced(runs) == NAMES[:2]
        assert [*server.runs] == [("acme", "hero", ID)] and server.wrong == []
    assert list(away.iterdir()) == [], "its own logs are not left where a person works"

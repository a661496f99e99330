"""A real ``cockpit watch`` that hangs or is not read: who tells people, who finds out, how often.

With ``SOAK=1`` in the environment also Ctrl-Z in a shell.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cockpit.config.file import load, store_path
from cockpit.model.clock import SystemClock
from cockpit.services.wiring import app_services
from cockpit.store.store import Store
from cockpit.watch.engine import Engine
from tests.notify.receivers import Webhook, webhook
from tests.verbs.tiny_run import TinyRun, command, environment

SOAK = bool(os.environ.get("SOAK"))
PATIENCE = 180.0
NOTIFY = '[notify]\nroutes = [{ min = "alert", url_env = "HOOK" }]\nunacked_after = "1h"\n'


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyRun]:
    run = TinyRun(tmp_path)
    run.config.write_text(NOTIFY + run.config.read_text().replace('"2s"', '"500ms"'))
    yield run
    run.stop()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webhook]:
    with webhook() as server:
        monkeypatch.setenv("HOOK", server.url)
        yield server


def watch(tiny: TinyRun, *words: str, out: int, err: int) -> subprocess.Popen[bytes]:
    argv = command("watch", "--config", str(tiny.config), *words)
    return subprocess.Popen(argv, stdout=out, stderr=err, env=environment())


def until(condition: Callable[[], object], what: str = "it never happened") -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


async def soon(condition: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def written(tiny: TinyRun) -> int:
    """Return when the watch has written its state file last (ms)."""
    found = (json.loads(path.read_text()) for path in tiny.folder.glob("scratch/2*_state.json"))
    return max((each["ts"] for each in found if each.get("owner") == "ada"), default=0)


def owner() -> int | None:
    """Return the process that owns the run."""
    with Store(store_path()).reading() as connection:
        row = connection.execute("SELECT pid FROM owners").fetchone()
    return None if row is None else int(row[0])


async def test_a_stopped_watch_is_stood_in_for_and_told_so_when_it_goes_on(
    tiny: TinyRun, hook: Webhook
) -> None:
    clock = SystemClock()
    hung = watch(tiny, out=subprocess.PIPE, err=subprocess.PIPE)
    store = Store(store_path())
    engine = Engine(load(tiny.config), store=store, clock=clock)
    services = app_services(engine, store, clock, "bob", lambda sequence: None)
    running = asyncio.ensure_future(engine.run())
    services.start()

    def by() -> str | None:
        return engine.report().runs[0].watched_by

    try:
        await soon(lambda: by() is not None, "the watch never owned the run")
        hung.send_signal(signal.SIGSTOP)
        tiny.die()
        await soon(lambda: hook.posted, "nobody was told")
        (said,) = (each for each in services.notices if "hung since" in each)
        assert f"(pid {hung.pid})" in said and said.endswith(": this cockpit tells people now")
        assert by() is None, "the head goes on naming the hung watch"
        hung.send_signal(signal.SIGCONT)
        await soon(lambda: by() is not None, "the watch never came back")
        await soon(lambda: not any("hung" in each for each in services.notices), "it is said on")
        hung.send_signal(signal.SIGTERM)
        _, err = await asyncio.to_thread(partial(hung.communicate, timeout=PATIENCE))
    finally:
        await services.stop(1.0)
        running.cancel()
        hung.kill()
        hung.wait(PATIENCE)
    assert "this watch hung from " in err.decode() and "; bob (cockpit on " in err.decode()
    assert len(hook.titles) == len(set(hook.titles)), hook.titles


def test_output_that_nobody_takes_holds_no_watch_up(tiny: TinyRun) -> None:
    """Standard output is a pipe of 4 KiB that nobody reads, standard error a stopped terminal."""
    out, into = os.pipe()
    fcntl.fcntl(into, fcntl.F_SETPIPE_SZ, 4096)
    leader, follower = pty.openpty()
    os.write(leader, b"\x13")  # Ctrl-S
    watching = watch(tiny, "--json", out=into, err=follower)
    os.close(into)
    os.close(follower)
    try:
        until(lambda: written(tiny), "it never began")
        first = written(tiny)
        tiny.config.write_text(tiny.config.read_text() + "\nnonsense = 1\n")  # to be said
        until(lambda: written(tiny) - first > 2000, "it is held up by its output")
        os.write(leader, b"\x11")  # Ctrl-Q
        until(lambda: b"nonsense" in os.read(leader, 65536), "its message never came")
        watching.send_signal(signal.SIGTERM)
        assert watching.wait(PATIENCE) == 130
        with os.fdopen(out) as lines:
            documents = [json.loads(line) for line in lines]  # no half one, also at the end
    finally:
        watching.kill()
        watching.wait(PATIENCE)
        os.close(leader)
    assert documents and all(each["schema"] == 1 for each in documents)


@pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")
def test_ctrl_z_in_a_shell_gives_the_run_to_the_next_watch(tiny: TinyRun) -> None:
    leader, follower = pty.openpty()
    words = " ".join(command("watch", "--config", str(tiny.config)))
    shell = subprocess.Popen(
        ["bash", "--norc", "-i"], stdin=follower, stdout=follower, stderr=follower,
        env={**environment(), "PS1": "$ "}, start_new_session=True, preexec_fn=controlling,
    )  # fmt: skip
    os.close(follower)
    seen = bytearray()

    def shown(words: bytes) -> bool:
        seen.extend(os.read(leader, 65536))
        return words in seen

    try:
        os.write(leader, f"{words}\n".encode())
        until(lambda: shown(b" tiny healthy "))
        os.write(leader, b"\x1a")
        until(lambda: shown(b"Stopped"))
        argv = command(
            "watch", "--config", str(tiny.config), "--until", "time=2020-01-01T00:00:00Z"
        )
        second = subprocess.run(argv, env=environment(), capture_output=True, timeout=PATIENCE)
        assert second.returncode in (0, 1), second
        assert (
            b" hung since " in second.stderr and b"this watch notifies people now" in second.stderr
        )
        third = watch(tiny, out=subprocess.DEVNULL, err=subprocess.DEVNULL)
        until(lambda: owner() == third.pid)
        os.write(leader, b"fg\n")
        until(lambda: shown(b"was taken over by ada (watch on"))
        third.send_signal(signal.SIGTERM)
        assert third.wait(PATIENCE) == 130
    finally:
        shell.kill()
        shell.wait(PATIENCE)
        os.close(leader)


def controlling() -> None:
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)

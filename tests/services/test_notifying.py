"""A whole ``watch`` with people at the other end: told, rung, and a switch that is pinged."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cockpit.cli import main
from tests.notify.receivers import Webhook, webhook
from tests.verbs.tiny_run import TinyRun, command, environment

PATIENCE = 180.0
NOTIFY = """
[notify]
routes = [{ min = "alert", url_env = "HOOK" }, { min = "alert", kind = "terminal" }]
heartbeat_url_env = "DEADMAN"
unacked_after = "4s"
second = "bob"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[TinyRun]:
    run = TinyRun(tmp_path)
    run.config.write_text(NOTIFY + run.config.read_text().replace('"2s"', '"1s"'))
    yield run
    run.stop()


@pytest.fixture
def hook() -> Iterator[Webhook]:
    with webhook() as server:
        yield server


def started(tiny: TinyRun, hook: Webhook, *words: str, err: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command("watch", "--config", str(tiny.config), *words),
        stdout=subprocess.DEVNULL, stderr=err,
        env={**environment(), "HOOK": hook.url, "DEADMAN": hook.url, "TERM": "xterm"},
    )  # fmt: skip


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def test_a_death_is_told_rung_and_told_again(tiny: TinyRun, hook: Webhook) -> None:
    tiny.config.write_text(tiny.config.read_text().replace('"4s"', '"1s"'))
    leader, follower = pty.openpty()
    watch = started(tiny, hook, err=follower)
    os.close(follower)
    try:
        until(lambda: len(hook.paths) >= 2)
        assert hook.posted == []
        tiny.die()
        until(lambda: len(hook.posted) >= 3)
        watch.send_signal(signal.SIGTERM)
        assert watch.wait(PATIENCE) == 130
        said = os.read(leader, 65536).decode()
    finally:
        watch.kill()
        watch.wait(PATIENCE)
        os.close(leader)
    heads = [title.partition("]")[0] for title in hook.titles[:3]]
    assert heads[0] == "[critical" and heads[1].startswith("[critical, unacknowledged for ")
    assert heads[2].startswith("[critical, for bob: unacknowledged for ")
    assert "\a" in said and "\x1b]9;cockpit: [critical] tiny: C-01" in said


def test_watch_once_tells_before_it_ends_and_once_in_all(tiny: TinyRun, hook: Webhook) -> None:
    tiny.config.write_text(tiny.config.read_text().replace('"4s"', '"1h"'))
    tiny.die()
    for _ in range(2):
        watch = started(tiny, hook, "--once", err=subprocess.PIPE)
        _, said = watch.communicate(timeout=PATIENCE)
        assert watch.returncode == 1
        assert said == b""
    assert [title for title in hook.titles if "C-01" in title] == hook.titles[:1]
    assert len(hook.paths) == len(hook.posted) + 2


def test_a_killed_watch_tells_nothing_twice(tiny: TinyRun, hook: Webhook) -> None:
    tiny.die()
    for _ in range(3):
        watch = started(tiny, hook, err=subprocess.DEVNULL)
        until(lambda: hook.posted)
        time.sleep(0.5)
        watch.kill()
        watch.wait(PATIENCE)
    opened = [title for title in hook.titles if title.startswith("[critical] ")]
    assert opened and len(opened) == len(set(opened))


def test_who_takes_it_has_quiet_also_after_a_restart(
    tiny: TinyRun, hook: Webhook, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.die()

    def pings() -> int:
        return len(hook.paths) - len(hook.posted)

    watch = started(tiny, hook, err=subprocess.DEVNULL)
    try:
        until(lambda: any("C-01" in title for title in hook.titles))
        message = next(each["message"] for each in hook.posted if "C-01" in each["title"])
        offered = re.search(r"cockpit (ack tiny \S+ --by) NAME", message)
        assert offered is not None, message
        ack = offered[1].split()
        ack += ["ada", "--until", "2h", "--reason", "mine"]
        code = main([*ack, "--confirm", "ack tiny", "--config", str(tiny.config)])
        assert code == 0, capsys.readouterr()
        assert " done" in capsys.readouterr().out
        told, seen = list(hook.titles), pings()
        # A watch ends by itself once the run is over and somebody has taken that.
        until(lambda: watch.poll() is not None or pings() >= seen + 7)
    finally:
        watch.kill()
        watch.wait(PATIENCE)
    for _ in range(2):
        again = started(tiny, hook, "--once", err=subprocess.DEVNULL)
        assert again.wait(PATIENCE) in (0, 1)
    assert [title for title in hook.titles[len(told) :] if "C-01" in title] == []
    assert [title for title in told if title.startswith("[critical] tiny: C-01")] == told[:1]

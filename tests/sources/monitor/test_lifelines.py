"""What a monitor needs to live: sessions here or on the job's host, its MCP endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from cockpit.hosts.link import Answers, Ask, know_pythons
from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.observed import MonitorValue
from cockpit.model.run import JobSpec, MonitorSpec, RunSpec
from cockpit.sources.monitor import Gone, Lifelines, Monitors, Wanted, sessions_in
from tests.sshd import needs_sshd, reachable

NOW = 1_770_000_000.0
TMUX = ("=mon\n=a b\n", "There is a screen on:\n\t12.old.one\t(Detached)\n")
NO_TMUX = "no server running on /tmp/tmux-0/default\n"
SCREENS = (
    NO_TMUX,
    "There are screens on:\n"
    "\t7.a b\t(11/22/26 15:42:56)\t(Detached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    "Remove dead screens with 'screen -wipe'.\n2 Sockets in /x.\n",
)


@pytest.fixture
def tmux(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a session of a tmux server of this test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here: apt-get install tmux")
    monkeypatch.delenv("TMUX", raising=False)
    with tempfile.TemporaryDirectory(prefix="ck-", dir="/tmp") as folder:
        monkeypatch.setenv("TMUX_TMPDIR", folder)
        subprocess.run(["tmux", "new-session", "-d", "-s", "tunnel-1", "sleep 60"], check=True)
        yield "tunnel-1"
        subprocess.run(["tmux", "kill-server"], check=True)


class Machines:
    """Stands in for ``ask_host``: what tmux and screen print on each machine; what was asked."""

    def __init__(self, **listed: tuple[str, ...] | Problem) -> None:
        self.listed = listed
        self.asked: list[str] = []

    async def __call__(self, host: str | None, asks: Iterable[Ask], deadline: float) -> Answers:
        self.asked.append(host or "here")
        asks, said = list(asks), self.listed[host or "here"]
        if isinstance(said, Problem):
            return dict.fromkeys(asks, said)
        none = Problem(kind=ErrorKind.NOT_FOUND, message="no such file")
        printed = [{"pid": 1}, *([0, text, "", False] for text in said)]
        return dict(zip(asks, [*printed, none, none], strict=False))


def looked(run: Machines | None, wanted: dict[str, Wanted]) -> dict[str, Gone]:
    clock = FixedClock(NOW)
    lifelines = Lifelines(clock) if run is None else Lifelines(clock, run)
    return asyncio.run(lifelines.look(wanted))


def test_sessions_that_live_and_those_that_do_not(tmux: str) -> None:
    wanted = Wanted({"tunnel session": tmux, "server session": "tunnel"})
    (found,) = looked(None, {"a": wanted}).values()
    text = (
        "its server session tunnel is gone: no tmux or screen session of that name on this machine"
    )
    assert found == Gone((text,))


@needs_sshd
def test_a_host_is_asked_for_its_own_sessions(tmux: str) -> None:
    with reachable() as server:
        env = {**os.environ, "TMUX_TMPDIR": str(server.home)}
        subprocess.run(["tmux", "new-session", "-d", "-s", "tunnel 2", "sleep 60"], env=env)
        names = {"first": tmux, "second": "tunnel 2", "third": "none"}
        (found,) = looked(None, {"a": Wanted(names, server.host)}).values()
        subprocess.run(["tmux", "kill-server"], env=env, check=True)
        where = f"this machine or {server.host}"
        text = f"its third none is gone: no tmux or screen session of that name on {where}"
        assert found == Gone((text,))


@needs_sshd
def test_a_host_without_python_cannot_tell() -> None:
    with reachable() as server:
        know_pythons({server.host: "/no/python3"})
        try:
            (found,) = looked(None, {"a": Wanted({"session": "mon"}, server.host)}).values()
        finally:
            know_pythons({})
    assert found.gone == () and len(found.notes) == 1
    assert f"is alive: {server.host}: it has no /no/python3: install it" in found.notes[0]


@pytest.mark.parametrize("kind", [ErrorKind.REFUSED, ErrorKind.NOT_FOUND])
def test_a_machine_that_does_not_answer_makes_it_unknown_and_never_gone(kind: ErrorKind) -> None:
    silent = Problem(kind=kind, message="box: Connection refused; log in")
    machines = Machines(here=(), box=silent)
    (found,) = looked(machines, {"a": Wanted({"tunnel session": "mon"}, "box")}).values()
    assert found.gone == ()
    (note,) = found.notes
    assert note.startswith("cannot tell whether its tunnel session mon is alive: box: Connection")


CONNECTING = "error connecting to /tmp/tmux-0/default"
LISTINGS: dict[tuple[str, ...], frozenset[str] | None] = {
    TMUX: frozenset({"mon", "a b", "old.one"}),
    SCREENS: frozenset({"a b"}),
    (): frozenset(),
    (NO_TMUX, "No Sockets found in /x.\n"): frozenset(),
    (f"{CONNECTING} (No such file or directory)\n",): frozenset(),
    (f"{CONNECTING} (Permission denied)\n",): None,
    ("<html>",): None,
}


@pytest.mark.parametrize("said", LISTINGS)
def test_what_a_machine_lists(said: tuple[str, ...]) -> None:
    assert sessions_in(said) == LISTINGS[said]


def test_an_mcp_server_lives_while_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        async def answers() -> dict[str, Gone]:
            serving = asyncio.create_task(serve())
            try:
                return await Lifelines(FixedClock(NOW)).look(
                    {"a": Wanted({}, None, f"http://127.0.0.1:{port}/mcp")}
                )
            finally:
                serving.cancel()

        async def serve() -> None:
            server.setblocking(False)
            connection, _ = await asyncio.get_running_loop().sock_accept(server)
            with connection:
                await asyncio.get_running_loop().sock_recv(connection, 10_000)
                await asyncio.get_running_loop().sock_sendall(
                    connection, b"HTTP/1.1 406 Not Acceptable\r\nContent-Length: 0\r\n\r\n"
                )

        assert asyncio.run(answers()) == {"a": Gone()}
    (found,) = looked(None, {"a": Wanted({}, None, f"http://127.0.0.1:{port}/mcp")}).values()
    assert found.gone == (
        f"its MCP server is down: http://127.0.0.1:{port}/mcp refuses connections",
    )
    (other,) = looked(None, {"a": Wanted({}, None, "http://example.org/mcp")}).values()
    assert other.gone == () and "not asked" in other.notes[0]


def test_a_state_file_names_what_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x_monitoring_state.json"
    said = {"ts": int(NOW * 1000), "job_id": "1", "tunnel_session": "t", "server_session": "s"}
    path.write_text(json.dumps(said))
    os.utime(path, (NOW, NOW))
    spec = MonitorSpec(state=str(tmp_path / "*_monitoring_state.json"), cadence=60.0)
    run = RunSpec(name="a", monitor=spec, job=JobSpec(kind="box", host="box"))
    machines = Machines(here=("=t\n",), box=())
    clock = FixedClock(NOW)
    monitors = Monitors(clock, Lifelines(clock, machines))
    value = asyncio.run(monitors.observe([run]))["a"].value
    assert isinstance(value, MonitorValue) and value.fresh
    none = "no tmux or screen session of that name on this machine or box"
    text = f"its server session s is gone: {none}"
    assert value.gone == (text,)
    path.write_text(json.dumps({"ts": int(NOW * 1000), "job_id": "1"}))
    machines.asked.clear()
    asyncio.run(monitors.observe([run]))
    assert machines.asked == []

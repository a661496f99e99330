"""What a monitor needs to live: sessions here or on the job's host, its MCP endpoint."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cockpit.model.clock import FixedClock
from cockpit.model.facet import ErrorKind
from cockpit.model.observed import MonitorValue
from cockpit.model.run import JobSpec, MonitorSpec, RunSpec
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.monitor import Gone, Lifelines, Monitors, Wanted, sessions_in

NOW = 1_770_000_000.0
TMUX = "@tmux\n=mon\n=a b\n@screen\nThere is a screen on:\n\t12.old.one\t(Detached)\n@end\n"
SCREENS = (
    "@tmux\nno server running on /tmp/tmux-0/default\n@screen\nThere are screens on:\n"
    "\t7.a b\t(11/22/26 15:42:56)\t(Detached)\n\t8.old\t(11/22/26 15:42:56)\t(Dead ???)\n"
    "Remove dead screens with 'screen -wipe'.\n2 Sockets in /x.\n@end\n"
)


@pytest.fixture
def tmux(runtime_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a session of a tmux server of this test's own."""
    if shutil.which("tmux") is None:
        pytest.skip("no tmux here: apt-get install tmux")
    monkeypatch.setenv("TMUX_TMPDIR", str(runtime_folder))
    monkeypatch.delenv("TMUX", raising=False)
    subprocess.run(["tmux", "new-session", "-d", "-s", "tunnel-1", "sleep 60"], check=True)
    yield "tunnel-1"
    subprocess.run(["tmux", "kill-server"], check=True)


class Machines:
    """Stands in for ``run_script``: what each machine lists; what it was asked."""

    def __init__(self, **listed: str | RemoteError) -> None:
        self.listed = listed
        self.asked: list[str] = []

    async def __call__(self, host: str | None, script: str, *, deadline: float) -> Completed:
        self.asked.append(host or "here")
        said = self.listed[host or "here"]
        if isinstance(said, RemoteError):
            raise said
        return Completed(0, said.encode(), b"")


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


def test_each_machine_is_asked_once_for_all_monitors_and_may_hold_the_session() -> None:
    machines = Machines(here="@tmux\nno server running on /tmp/x\n@end\n", box=TMUX)
    wanted = {f"r{n}": Wanted({"tunnel session": "mon"}, "box") for n in range(200)}
    found = looked(machines, wanted)
    assert set(found.values()) == {Gone()}
    assert sorted(machines.asked) == ["box", "here"]
    assert looked(machines, {"a": Wanted({"s": "mon"})})["a"].gone


def test_a_machine_that_does_not_answer_makes_it_unknown_and_never_gone() -> None:
    silent = RemoteError(ErrorKind.REFUSED, "box: Connection refused; log in")
    machines = Machines(here="@end\n", box=silent)
    (found,) = looked(machines, {"a": Wanted({"tunnel session": "mon"}, "box")}).values()
    assert found.gone == ()
    (note,) = found.notes
    assert note.startswith("cannot tell whether its tunnel session mon is alive: box: Connection")


LISTINGS = {
    TMUX: frozenset({"mon", "a b", "old.one"}),
    "@end\n": frozenset(),
    "@tmux\nno server running on /tmp/tmux-0/default\n@screen\nNo Sockets found in /x.\n@end": (
        frozenset()
    ),
    "@tmux\nerror connecting to /tmp/tmux-0/default (No such file or directory)\n@end": frozenset(),
    "@tmux\nerror connecting to /tmp/tmux-0/default (Permission denied)\n@end\n": None,
    "@tmux\n=cut off": None,
    "<html>": None,
    "": None,
}


@pytest.mark.parametrize("said", LISTINGS)
def test_what_a_machine_lists(said: str) -> None:
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
    machines = Machines(here="@tmux\n=t\n@end", box="@end")
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


def test_a_screen_that_is_dead_is_no_session_and_a_name_may_have_a_space() -> None:
    assert sessions_in(SCREENS) == frozenset({"a b"})

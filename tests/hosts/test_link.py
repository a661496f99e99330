"""The agent over a real ssh: what it answers, what hangs, what is missing there."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import agent
from cockpit.hosts import link as link_module
from cockpit.hosts.link import Answers, Ask, HostLink, ask, know_pythons, link_to, shell
from cockpit.model.facet import ErrorKind, Problem
from tests.hosts.threadless import python_without_threads
from tests.sshd import Sshd, needs_sshd, reachable
from tests.waiting import until

pytestmark = needs_sshd


@pytest.fixture(scope="module")
def server() -> Iterator[Sshd]:
    with reachable() as found:
        yield found


@pytest.fixture
def link(server: Sshd) -> Iterator[HostLink]:
    made = HostLink(server.host)
    yield made
    made.close()
    server.rc("")


@pytest.fixture
def python_of(server: Sshd) -> Iterator[Callable[[str], HostLink]]:
    def named(python: str) -> HostLink:
        know_pythons({server.host: python})
        return HostLink(server.host)

    yield named
    know_pythons({})


def answers(link: HostLink, asked: list[Ask], deadline: float = 12.0) -> Answers:
    return asyncio.run(link.ask(asked, deadline))


def one(link: HostLink, asked: Ask, deadline: float = 12.0) -> Any:
    return answers(link, [asked], deadline)[asked]


def test_a_host_answers_what_this_machine_answers(link: HostLink, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("step 1\n")
    wanted = [[str(tmp_path / "*.log"), 100], [str(tmp_path / "none"), 0]]
    asked = [
        ask("its facts", "about"),
        ask("the files", "files", wanted=wanted),
        ask("the disk", "disk", path=str(tmp_path / "not" / "yet")),
        ask("its processes", "processes", environments=["NOBODY"], files=["/nowhere"]),
    ]
    about, files, disk, processes = answers(link, asked).values()
    assert (about["uid"], about["boot"]) == (os.getuid(), agent.about()["boot"])
    assert files == agent.files(wanted)
    assert [found.get("text") for found in files] == ["step 1\n", "No such file or directory"]
    assert disk["mount"] == agent.disk(str(tmp_path))["mount"]
    assert os.getpid() in {each[0] for each in processes}


def test_one_ssh_serves_all_that_is_asked(server: Sshd, link: HostLink) -> None:
    one(link, ask("its facts", "about"))
    entered = server.entered
    asked = [ask(f"sleep {number}", "run", argv=["sleep", "0"]) for number in range(50)]
    assert all(found[0] == 0 for found in answers(link, asked).values())
    assert server.entered == entered


def test_what_hangs_delays_nothing_and_is_not_asked_again(link: HostLink, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hangs = ask("the pipe", "run", argv=["cat", str(pipe)], seconds=60)
    one(link, ask("its facts", "about"))

    async def both() -> tuple[Any, float]:
        began = time.monotonic()
        slow = asyncio.create_task(link.ask([hangs], 1.0))
        await link.ask([ask("its facts", "about")])
        quick = time.monotonic() - began
        return (await slow)[hangs], quick

    said, quick = asyncio.run(both())
    assert quick < 0.9 and isinstance(said, Problem)
    assert said.kind is ErrorKind.TIMEOUT and "the pipe did not answer" in said.message
    again = answers(link, [hangs, ask("its facts", "about")])
    assert isinstance(again[hangs], Problem)
    cats = subprocess.run(["pgrep", "-fc", f"cat {pipe}"], capture_output=True, text=True)
    assert cats.stdout.strip() == "1", "asked once"
    with pipe.open("w"):  # the late answer comes; it tells of then, so it is asked for anew
        pipe.unlink()
        pipe.write_text("now\n")
    assert one(link, hangs)[:2] == [0, "now\n"], "it is known again once it answered"


def test_a_noisy_login_is_nobodys_answer(server: Sshd, link: HostLink) -> None:
    server.rc("echo welcome; echo beware >&2; printf 'no newline'\n")
    assert one(link, ask("its facts", "about"))["uid"] == os.getuid()


def test_a_host_without_python_says_what_to_do(python_of: Callable[[str], HostLink]) -> None:
    said = one(python_of("python3-not-here"), ask("its facts", "about"))
    assert isinstance(said, Problem) and "it has no python3-not-here: install it" in said.message


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_the_agent_runs_on_old_and_new_pythons(
    python_of: Callable[[str], HostLink], version: str
) -> None:
    python = shutil.which(f"python{version}")
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no python{version} here")
    assert one(python_of(python), ask("its facts", "about"))["hz"] > 0


def test_an_old_python_is_named(python_of: Callable[[str], HostLink], tmp_path: Path) -> None:
    fake = tmp_path / "python3"
    fake.write_text("#!/bin/sh\nexit 86\n")
    fake.chmod(0o755)
    said = one(python_of(str(fake)), ask("its facts", "about"))
    assert isinstance(said, Problem) and "older than 3.8" in said.message


def test_a_connection_that_breaks_off_is_said_and_made_again(server: Sshd, link: HostLink) -> None:
    pid = one(link, ask("its facts", "about"))["pid"]
    waits = ask("a sleep", "run", argv=["sleep", "30"], seconds=60)

    async def cut() -> Any:
        task = asyncio.create_task(link.ask([waits]))
        await link.ask([ask("its facts", "about")])
        server.signal(signal.SIGKILL)
        return (await task)[waits]

    said = asyncio.run(cut())
    assert isinstance(said, Problem) and said.kind is ErrorKind.REFUSED
    assert one(link, ask("its facts", "about"))["pid"] != pid


def test_a_server_that_is_stopped_is_unknown_in_time(server: Sshd, link: HostLink) -> None:
    one(link, ask("its facts", "about"))
    server.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        said = one(link, ask("its facts", "about"), 1.0)
        assert isinstance(said, Problem) and said.kind is ErrorKind.TIMEOUT
        assert time.monotonic() - began < 15
    finally:
        server.signal(signal.SIGCONT)


def test_a_command_that_hangs_is_killed_with_what_it_started(link: HostLink) -> None:
    said = one(link, shell("a script", "sleep 61.5 & wait", seconds=0.5))
    assert isinstance(said, Problem) and "a script did not answer" in said.message
    assert subprocess.run(["pgrep", "-f", "sleep 61.5"], capture_output=True).returncode == 1


def test_it_ends_with_its_link_and_leaves_nothing(link: HostLink) -> None:
    pid = one(link, ask("its facts", "about"))["pid"]
    link.close()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_a_fault_in_a_call_is_an_answer(link: HostLink) -> None:
    said = one(link, ask("nothing", "no_such_call"))
    assert isinstance(said, Problem) and "KeyError" in said.message


def test_modules_in_the_home_there_are_not_the_agents(server: Sshd, link: HostLink) -> None:
    server.rc("export PYTHONPATH=:/nowhere")
    own = [server.home / f"{name}.py" for name in ("json", "glob", "zlib", "struct")]
    for path in own:
        path.write_text("open('run', 'w'); raise SystemExit('not yours')")
    try:
        assert one(link, ask("its facts", "about"))["uid"] == os.getuid()
        assert not (server.home / "run").exists()
    finally:
        for path in own:
            path.unlink()


def test_what_else_writes_between_answers_costs_one_connection(
    server: Sshd, link: HostLink, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    server.rc(f"cat {pipe} &")
    one(link, ask("its facts", "about"))
    server.rc("")
    waits = ask("a sleep", "run", argv=["sleep", "30"], seconds=60)
    pipe.write_text("the weather today\n")
    said = one(link, waits)
    assert isinstance(said, Problem) and "something else has written" in said.message
    assert one(link, ask("its facts", "about"))["uid"] == os.getuid()


def test_an_answer_that_is_too_long_costs_no_other_one(link: HostLink) -> None:
    one(link, ask("its facts", "about"))
    long = ask(
        "zeros", "run", argv=["head", "-c", "12000000", "/dev/zero"], seconds=60, most=20_000_000
    )
    facts = ask("its facts", "about")
    found = answers(link, [long, facts], 60.0)
    assert isinstance(found[long], Problem) and "is too long" in found[long].message
    assert found[facts]["uid"] == os.getuid()


def test_a_question_that_hangs_ends_with_the_agent(link: HostLink) -> None:
    one(link, ask("its facts", "about"))
    hangs = ask("a sleep", "run", argv=["sleep", "71.25"], seconds=60)
    assert isinstance(one(link, hangs, 0.5), Problem)
    link.close()
    until(lambda: subprocess.run(["pgrep", "-f", "^sleep 71.25"], capture_output=True).returncode)


def test_an_agent_without_a_sign_of_life_is_started_anew(
    link: HostLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "SIGN_OF_LIFE", 0.2)
    pid = one(link, ask("its facts", "about"))["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        asked = [ask("a path", "real", path=f"/{number}") for number in range(2)]
        assert all(isinstance(one(link, each, 0.5), Problem) for each in asked)
        until(lambda: link._agent is not None and link._agent.ended)
        assert one(link, ask("its facts", "about"))["pid"] != pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_agent_that_only_waits_for_a_disk_is_kept(
    link: HostLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "SIGN_OF_LIFE", 0.0)
    pid = one(link, ask("its facts", "about"))["pid"]
    for number in range(3):
        hangs = ask("a sleep", "run", argv=["sleep", f"3{number}"], seconds=60)
        assert isinstance(one(link, hangs, 0.5), Problem)
    assert one(link, ask("its facts", "about"))["pid"] == pid


def test_a_process_that_was_forked_has_links_of_its_own(server: Sshd) -> None:
    facts = ask("its facts", "about")
    mine = one(link_to(server.host), facts)["pid"]
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        theirs = pool.submit(_pid_of_agent, server.host).result(20.0)
    assert theirs != mine == one(link_to(server.host), facts)["pid"]
    link_to(server.host).close()


def _pid_of_agent(host: str) -> int:
    pid: int = one(link_to(host), ask("its facts", "about"))["pid"]
    return pid


def test_a_host_at_its_limit_of_threads_says_so_and_goes_on(
    python_of: Callable[[str], HostLink], tmp_path: Path
) -> None:
    link = python_of(python_without_threads(tmp_path, "real"))
    pid = one(link, ask("its facts", "about"))["pid"]
    refused = one(link, ask("a path", "real", path="/"))
    assert isinstance(refused, Problem) and "can't start new thread" in refused.message
    assert one(link, ask("its facts", "about"))["pid"] == pid
    link.close()


def test_an_agent_that_cannot_begin_a_call_leaves_with_its_link(
    python_of: Callable[[str], HostLink], tmp_path: Path
) -> None:
    link = python_of(python_without_threads(tmp_path, "real", hangs=True))
    pid = one(link, ask("its facts", "about"))["pid"]
    assert isinstance(one(link, ask("a path", "real", path="/"), 0.5), Problem)
    link.close()
    until(lambda: not Path(f"/proc/{pid}").exists())


def test_what_a_host_says_of_an_error_is_one_safe_line(link: HostLink, tmp_path: Path) -> None:
    said = one(link, ask("a program", "run", argv=[f"{tmp_path}/\x1b[2J\nx"]))
    assert isinstance(said, Problem) and said.kind is ErrorKind.NOT_FOUND
    assert said.message.isprintable()


def test_the_disk_below_what_is_no_folder_is_that_of_its_parent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    found = (agent.disk(str(each)) for each in (tmp_path / "file" / "x", tmp_path))
    assert len({(each["mount"], each["inodes"]) for each in found}) == 1

"""One probe for all that is asked: framed, limited, and what hangs is kept apart."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from cockpit.model.facet import ErrorKind, Problem
from cockpit.platforms.box import probe
from cockpit.platforms.box.probe import Actor, Piece, groups_of, parsed
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, RemoteError, run_script


def piece(name: str, script: str, group: str = "one") -> Piece:
    return Piece(name, script, group)


def here(run: Any = run_script) -> Actor:
    return Actor(None, run, limits=(1.0, 0.6))


async def test_what_is_asked_within_a_moment_goes_together_and_twice_is_once() -> None:
    trips = []

    async def counted(host: str | None, script: str, **more: Any) -> Completed:
        trips.append(script)
        return await run_script(host, script, **more)

    actor = here(counted)
    first, second = piece("a", "echo a"), piece("b", "printf 'b\\n\\n'; exit 3", "other")
    both, one = await asyncio.gather(actor.ask([first, second]), actor.ask([second]))
    assert both == {first: b"a\n", second: b"b\n\n"}
    assert one == {second: b"b\n\n"}
    assert len(trips) == 1 and trips[0].count("exit 3") == 1


async def test_a_piece_that_fails_or_says_much_costs_only_itself() -> None:
    odd = [
        piece("syntax", "if; then", "syntax"),
        piece("exit", "exit 1"),
        piece("mark", f"printf '\\n{probe.MARK}- 0\\n'"),
        piece("loud", "head -c 100000 /dev/zero"),
        piece("input", "cat"),
        piece("last", "echo last"),
    ]
    answers = await here().ask(odd)
    assert answers[odd[-1]] == b"last\n"
    assert answers[odd[3]] == bytes(100_000)
    assert answers[odd[4]] == b""
    assert isinstance(answers[odd[0]], Problem)


async def test_a_piece_that_hangs_is_asked_last_and_alone_until_it_answers(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    hangs, good = piece("the dead disk", f"cat {pipe}"), piece("good", "echo good")
    after, other = piece("after", "echo after"), piece("other", "echo other", "other")
    scripts: list[str] = []

    async def noted(host: str | None, script: str, **more: Any) -> Completed:
        scripts.append(script)
        return await run_script(host, script, **more)

    actor = here(noted)
    answers = dict(await actor.ask([good, hangs, after, other]))
    late = answers.pop(hangs)
    assert answers == {good: b"good\n", after: b"after\n", other: b"other\n"}
    assert isinstance(late, Problem) and late.kind is ErrorKind.TIMEOUT
    assert "the dead disk did not answer" in late.message
    assert len(scripts) == 2
    writer = threading.Thread(target=pipe.write_text, args=("alive\n",))
    writer.start()
    again = await actor.ask([hangs, after])
    writer.join()
    assert again == {hangs: b"alive\n", after: b"after\n"}
    assert len(scripts) == 3 and scripts[2].index("echo after") < scripts[2].index("cat ")
    assert not actor._hung


def failing(error: Exception) -> Callable[..., Awaitable[Completed]]:
    async def run(host: str | None, script: str, **more: Any) -> Completed:
        raise error

    return run


@pytest.mark.parametrize("kind", [ErrorKind.REFUSED, ErrorKind.UNAUTHORIZED, ErrorKind.DNS])
async def test_a_host_that_is_not_reached_is_the_problem_of_all_pieces(kind: ErrorKind) -> None:
    actor = here(failing(RemoteError(kind, "box: no; clifton auth")))
    asked = [piece("a", "echo a"), piece("b", "echo b")]
    problem = Problem(kind=kind, message="box: no; clifton auth")
    assert await actor.ask(asked) == dict.fromkeys(asked, problem)
    assert not actor._hung


async def test_what_had_come_before_the_link_broke_is_known() -> None:
    asked = [piece("a", "echo a"), piece("b", "echo b"), piece("c", "echo c")]

    async def run(host: str | None, script: str, **more: Any) -> Completed:
        found = re.search(r"(cockpit-probe-\w+)[+] 0", script)
        assert found is not None
        mark = found[1]
        out = f"\n{mark}+ 0\na\n\n{mark}- 0\n\n{mark}+ 1\nhalf".encode()
        raise RemoteError(ErrorKind.TIMEOUT, "box: no answer within 12 s", sent=True, out=out)

    actor = here(run)
    answers = await actor.ask(asked)
    assert answers[asked[0]] == b"a\n"
    assert all(isinstance(answers[each], Problem) for each in asked[1:])
    assert list(actor._hung) == [asked[1]]


async def test_more_than_a_probe_may_say_is_a_bad_answer() -> None:
    async def run(host: str | None, script: str, **more: Any) -> Completed:
        return Completed(0, b"x" * 100, b"", cut=True)

    (problem,) = (await here(run).ask([piece("a", "yes")])).values()
    assert isinstance(problem, Problem) and problem.kind is ErrorKind.BAD_ANSWER
    assert "more than 16 MB" in problem.message


async def test_who_gives_up_waiting_takes_nothing_from_the_others() -> None:
    actor, asked = here(), piece("slow", "sleep 0.3; echo slow")
    given_up = asyncio.create_task(actor.ask([asked]))
    await asyncio.sleep(0.1)
    waiting = asyncio.create_task(actor.ask([asked]))
    given_up.cancel()
    assert (await waiting)[asked] == b"slow\n"


def test_a_host_without_timeout_has_limits_all_the_same(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    fallback = LIMITED.replace("timeout", "no-such-program")
    mark = "m"
    groups = [(1, [(0, piece("hangs", f"cat {pipe}"))]), (1, [(1, piece("good", "echo good"))])]
    script = probe.script_of(mark, groups).replace(LIMITED, fallback)
    done = asyncio.run(run_script(None, script, deadline=10.0))
    assert parsed(mark, done.out) == ({1: b"good\n"}, {0})
    left = subprocess.run(["pgrep", "-f", f"cat {pipe}"], capture_output=True, text=True).stdout
    assert not left, "what it started stays on the host for good"


def test_no_group_is_longer_than_a_word_may_be() -> None:
    pieces = list(enumerate(piece(f"{n}", "x" * 1000) for n in range(200)))
    groups = groups_of(pieces, [])
    assert sum(len(group) for _, group in groups) == 200
    assert max(sum(len(each.script) for _, each in group) for _, group in groups) < 100_000


async def test_a_fault_of_ours_is_told_to_all_who_wait_and_not_again() -> None:
    actor = here(failing(KeyError("bug")))
    first, second = piece("a", "echo a"), piece("b", "echo b")
    told = await asyncio.gather(actor.ask([first]), actor.ask([second]), return_exceptions=True)
    assert [type(each) for each in told] == [KeyError, KeyError]
    actor.run = run_script
    assert await actor.ask([first]) == {first: b"a\n"}

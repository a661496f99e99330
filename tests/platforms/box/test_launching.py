"""The launcher of a host in a shell of this machine: no ssh is needed to see what it does."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts import notes
from cockpit.model.jobs import Submission
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.box import launching
from cockpit.runtime.shell import Completed, run_command
from tests.platforms.box.making import spec, told
from tests.platforms.local.making import slay, submission, supervisors, trainers
from tests.waiting import until

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the launcher needs Linux's /proc"
)


class Shell:
    """A host that is this machine, whose programs are in one folder."""

    def __init__(self, before: str = "") -> None:
        self.before = before

    async def __call__(self, host: str | None, script: str, **more: Any) -> Completed:
        return await run_command(["sh", "-c", self.before + script], deadline=more["deadline"])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[RunSpec]:
    found = spec("a-host", tmp_path, name="skiff")
    yield found
    slay(found)


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("", ""),
        ("a b", "a b"),
        ("it's", "it's"),
        ("$(id) `id` ;&|<>*?~", "$(id) `id` ;&|<>*?~"),
        ("$ONE", "1 2"),
        ("--x=${ONE}$ONE!", "--x=1 21 2!"),
        ("$1 $ {ONE} \\$", "$1 $ {ONE} \\$"),
        ("~/bin", "~/bin"),
        ("é\n\t-", "é\n\t-"),
    ],
)
def test_a_word_is_one_word_in_which_only_variables_are_resolved(word: str, value: str) -> None:
    script = f"ONE='1 2'; printf '%s|' {launching.word_of(word)} end"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{value}|end|"


def test_of_the_first_word_a_home_is_resolved() -> None:
    script = f"HOME='/a b'; printf '%s|' {launching.word_of('~/it is', first=True)}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "/a b/it is|"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"command": ()}, "no command"),
        ({"command": ("a\0b",)}, "zero byte"),
        ({"env": {"A B": "x"}}, "no shell knows"),
        ({"launch_id": "../up"}, "bad launch id"),
    ],
)
def test_what_no_host_could_start_is_refused_before_it_is_asked(
    run: RunSpec, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(CannotError, match=said):
        launching.startable(run, submission(run).model_copy(update=changes))
    assert run.job is not None
    here = run.job.model_copy(update={"pid_file": None})
    with pytest.raises(CannotError, match=r"job\.pid_file must name a file of a-host"):
        launching.startable(run.model_copy(update={"job": here}), submission(run))


def hidden(folder: Path, *programs: str) -> str:
    """Return a line that gives a shell all programs of this machine but these."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for path in Path(place).iterdir():
            if path.name not in programs and not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path)
    return f"PATH={shlex.quote(str(folder))}; export PATH\n"


async def _race(send: Shell, run: RunSpec, given: list[Submission]) -> list[object]:
    for each in given:
        await launching.accept(send, run, each)
    starts = (launching.go(send, run, each, 60.0) for each in given)
    return list(await asyncio.gather(*starts, return_exceptions=True))


@pytest.mark.parametrize("without", [(), ("flock",)], ids=["flock", "python"])
async def test_of_several_starts_one_wins_and_what_it_left_still_excludes(
    run: RunSpec, tmp_path: Path, without: tuple[str, ...]
) -> None:
    send = Shell(hidden(tmp_path / "bin", *without) if without else "")
    found = await _race(send, run, [submission(run, number) for number in (1, 2, 3)])
    started = [each for each in found if isinstance(each, str)]
    assert [int(each) for each in started] == trainers(run), found
    assert len(started) == 1, found
    assert [type(each) for each in found].count(CannotError) == 2, found
    for pid in supervisors(run):
        os.kill(pid, signal.SIGKILL)
    (late,) = await _race(send, run, [submission(run, 4)])
    assert isinstance(late, CannotError) and "still lives" in str(late)
    assert len(trainers(run)) == 1


async def test_where_no_lock_can_be_held_nothing_is_started(run: RunSpec, tmp_path: Path) -> None:
    send = Shell(hidden(tmp_path / "bin", "flock", "python3"))
    (found,) = await _race(send, run, [submission(run, 1)])
    assert isinstance(found, CannotError) and "no lock can be held" in str(found)
    assert trainers(run) == []


@pytest.mark.parametrize("shell", ["busybox", "ksh93", "yash"])
async def test_a_job_is_started_once_and_its_end_is_noted_whatever_sh_is(
    run: RunSpec, tmp_path: Path, shell: str
) -> None:
    if (there := shutil.which(shell)) is None:
        pytest.skip(f"no {shell} here")
    send = Shell(hidden(tmp_path / "bin", "sh"))
    (tmp_path / "bin" / "sh").symlink_to(there)
    (first,) = await _race(send, run, [submission(run, 1)])
    assert [first] == [str(pid) for pid in trainers(run)]
    (second,) = await _race(send, run, [submission(run, 2)])
    assert isinstance(second, CannotError) and "still lives" in str(second)
    os.kill(int(str(first)), signal.SIGTERM)
    until(lambda: not supervisors(run))
    assert told(run, "exit_file").split() == ["143"]


async def test_a_shell_that_hands_no_open_file_on_is_named(run: RunSpec, tmp_path: Path) -> None:
    """Of some shells a program inherits 0, 1 and 2 only: it could hold no lock."""
    send = Shell(hidden(tmp_path / "bin", "sh"))
    (tmp_path / "bin" / "sh").write_text('#!/bin/bash\nexec 7>&-; exec /bin/sh "$@"\n')
    (tmp_path / "bin" / "sh").chmod(0o755)
    with pytest.raises(CannotError, match=r"sh hands no open file on.*make it dash or bash"):
        await launching.accept(send, run, submission(run))


async def test_a_strangers_file_in_the_way_starts_nothing(run: RunSpec) -> None:
    assert run.output_root is not None
    folder = Path(run.output_root.path) / notes.BELOW
    folder.mkdir(parents=True)
    (folder / "skiff-i001").mkdir()
    (folder / "skiff-i002").symlink_to("/nowhere")
    for number in (1, 2):
        with pytest.raises(CannotError, match="was used before"):
            await launching.accept(Shell(), run, submission(run, number))
    (folder.parent / "job.lock").symlink_to("/nowhere")
    (found,) = await _race(Shell(), run, [submission(run, 3)])
    assert isinstance(found, CannotError) and "is a link: remove it" in str(found)
    assert not trainers(run) and not supervisors(run)

"""The box platform on real processes of a real host: started once, found, saved, stopped."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, Ask, HostLink, Value
from cockpit.hosts.notes import BELOW
from cockpit.model.facet import ErrorKind, Problem
from cockpit.model.jobs import LaunchState
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.platforms.local.launching import Starting
from cockpit.runtime.ssh import RemoteError
from cockpit.sources.logs.source import Logs
from tests.platforms.box.making import box as platform_of
from tests.platforms.box.making import living, spec, told
from tests.platforms.local.making import (
    carrying,
    contents,
    local,
    slay,
    submission,
    submit,
    supervisors,
    trainers,
)
from tests.platforms.local.making import spec as local_spec
from tests.platforms.ray.recorded import Skips
from tests.sshd import Sshd, needs_sshd
from tests.waiting import until

pytestmark = needs_sshd
long = pytest.mark.skipif(not os.environ.get("SOAK"), reason="only in the long run: SOAK=1")
NOTES = BELOW


@pytest.fixture
def run(box: Sshd, tmp_path: Path) -> Iterator[RunSpec]:
    found = spec(box.host, tmp_path)
    yield found
    slay(found)


def made_for(run: RunSpec) -> None:
    """Make the working folder of a run."""
    assert run.job is not None and run.job.workdir is not None
    Path(run.job.workdir.path).mkdir(parents=True)


def notes_of(run: RunSpec) -> Path:
    assert run.output_root is not None
    return Path(run.output_root.path) / NOTES


async def test_a_cockpit_on_the_host_itself_and_one_over_ssh_exclude_each_other(
    box: Sshd, tmp_path: Path, run: RunSpec
) -> None:
    """Both hold one lock file, and each reads what the other has noted."""
    here = local_spec(tmp_path, name="buoy")
    mine, theirs = local(tmp_path), platform_of()
    job_id = await submit(mine, here, submission(here))
    found = await theirs.look_up(run, "buoy-i001")
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)
    with pytest.raises(CannotError, match="a job of this lineage is still alive"):
        await submit(theirs, run, submission(run, 2))
    await theirs.stop(run, (await living(theirs, run)).jobs)
    assert not trainers(run)
    job_id = await submit(theirs, run, submission(run, 2))
    found = await mine.look_up(here, "buoy-i002")
    assert (found.found, found.job_id) == (LaunchState.LIVE, job_id)
    await mine.stop(here, (await living(mine, here)).jobs)
    assert (await mine.look_up(here, "buoy-i002")).text.endswith("ended with 143")


@long
async def test_what_holds_the_lock_out_of_sight_refuses_a_start(run: RunSpec) -> None:
    platform = platform_of()
    accepted = await platform.accept(run, submission(run))
    lock = notes_of(run).parent / "job.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write("launch_id=buoy-i000\n")
        held.flush()
        with pytest.raises(
            CannotError, match="locked: something of a job of buoy-i000 still lives"
        ):
            await platform.go(run, accepted)
    assert not trainers(run)
    assert "closed" in (await platform.look_up(run, "buoy-i001")).text


async def test_words_arrive_as_they_are_and_only_variables_are_resolved(
    box: Sshd, tmp_path: Path
) -> None:
    box.rc("A_TOKEN='sk-planted-secret 1234'; export A_TOKEN")
    box.signal(signal.SIGKILL)  # the shell that is open has not read it
    run = spec(box.host, tmp_path / "a b; $(touch oops) 'c'")
    made_for(run)
    words = ("", "$A_TOKEN", "${A_TOKEN}x", "~", "*", "`id`", "a'b\"c\\", "$(id)", "é\n2")
    code = "import sys, os; print(sys.argv[1:], os.environ.get('COCKPIT_SUPERVISES'), flush=True)"
    given = submission(run, code=code, env={"MORE": "$HOME 'x'"})
    try:
        await submit(
            platform_of(), run, given.model_copy(update={"command": (*given.command, *words)})
        )
        until(lambda: not supervisors(run))
        secret = "sk-planted-secret 1234"
        expected = ["", secret, secret + "x", "~", "*", "`id`", "a'b\"c\\", "$(id)", "é\n2"]
        assert told(run, "log") == f"{expected!r} None\n"
        kept = contents(tmp_path)
        assert not [name for name, text in kept.items() if "planted" in text and name != "run.log"]
        assert "oops" not in kept
    finally:
        box.rc("")
        box.signal(signal.SIGKILL)
        slay(run)


ASKED = """
import signal, time
signal.signal(signal.SIGUSR1, lambda *_: print('saved', flush=True))
print('step 1', flush=True)
time.sleep(120) or time.sleep(120)
"""


async def test_a_trainer_that_listens_is_asked_to_save_and_people_may_look_in(
    box: Sshd, there: Callable[[str], str], tmp_path: Path
) -> None:
    named = {"save_signal": "USR1", "session": "look.in"}
    run, deaf = (spec(box.host, tmp_path, name=name, **named) for name in ("a", "b"))
    platform = platform_of()
    try:
        for each, code in (
            (run, ASKED),
            (deaf, "import time; print(1, flush=True); time.sleep(99)"),
        ):
            await submit(platform, each, submission(each, code=code))
            until(lambda each=each: told(each, "log"))  # type: ignore[misc]
        (job,), (other,) = [(await living(platform, each)).jobs for each in (run, deaf)]
        await platform.save(run, job)
        until(lambda: told(run, "log") == "step 1\nsaved\n")
        with pytest.raises(CannotError, match="does not handle SIGUSR1"):
            await platform.save(deaf, other)
        assert trainers(deaf) == [int(other.id[4:])]
        assert "look_in" in there("tmux list-sessions")
        await platform.stop(run, [job])
        assert not carrying(run) and trainers(deaf) == [int(other.id[4:])]
    finally:
        slay(run, deaf)
        until(lambda: "look_in" not in there("tmux list-sessions 2>&1; :"))


class Refused(HostLink):
    """A link by which nothing is done: what is asked never reaches the host."""

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        raise RemoteError(ErrorKind.REFUSED, f"{self.host}: connection refused", sent=False)


class Cut(HostLink):
    """A link on which the answer to one call is lost, done or not."""

    def __init__(self, host: str, which: str, *, done: bool) -> None:
        super().__init__(host)
        self.which, self.done = which, done
        self.lost: list[Ask] = []

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        if each.call != self.which:
            return await super().act(each, deadline)
        if self.done:
            await super().act(each, deadline)
        self.lost.append(each)
        raise RemoteError(ErrorKind.TIMEOUT, f"{self.host}: no answer", sent=True)


async def test_a_stop_whose_answer_is_lost_is_looked_after(box: Sshd, run: RunSpec) -> None:
    """What was told to leave is seen to leave; what was perhaps never asked is not killed."""
    await submit(platform_of(), run, submission(run))
    jobs = (await living(platform_of(), run)).jobs
    clock = Skips()
    cut = Cut(box.host, "kill", done=False)
    with pytest.raises(LostError, match=r"not gone in 20 s: pid .*whether it was told to stop"):
        await BoxPlatform(clock, Logs(clock), link=lambda _: cut).stop(run, jobs)
    assert len(cut.lost) == 1 and trainers(run)
    await platform_of(link=lambda _: Cut(box.host, "kill", done=True)).stop(run, jobs)
    assert (await living(platform_of(), run)).jobs == () and not carrying(run)


class Away(HostLink):
    """A link that answers nothing any more once something was done by it."""

    away = False

    async def act(self, each: Ask, deadline: float = DEADLINE) -> Value:
        value = await super().act(each, deadline)
        self.away = True
        return value

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        if not self.away:
            return await super().ask(asks, deadline, patience)
        refused = Problem(kind=ErrorKind.REFUSED, message=f"{self.host}: connection refused")
        return dict.fromkeys(asks, refused)


async def test_what_was_last_seen_to_live_may_be_gone(box: Sshd, run: RunSpec) -> None:
    """The host is not reached after the stop: that the job goes on is not known either."""
    await submit(platform_of(), run, submission(run))
    jobs = (await living(platform_of(), run)).jobs
    clock = Skips()
    said = r"^told to stop, and cannot tell whether it is gone .* refused; last seen: pid \d+ "
    with pytest.raises(LostError, match=said):
        await BoxPlatform(clock, Logs(clock), link=lambda _: Away(box.host)).stop(run, jobs)
    until(lambda: not carrying(run))


@long
async def test_a_host_that_is_not_there_has_started_nothing(box: Sshd, run: RunSpec) -> None:
    platform = platform_of()
    await submit(platform, run, submission(run))
    (job,) = (await living(platform, run)).jobs
    link = Refused(box.host)
    with pytest.raises(CannotError, match="refused; nothing was told to stop"):
        await platform_of(link=lambda _: link).stop(run, [job])
    assert trainers(run) == [int(job.id[4:])]


def hidden(folder: Path, *programs: str) -> str:
    """Return lines that give a login all programs of this machine but these."""
    folder.mkdir()
    for place in ("/usr/bin", "/bin"):
        for path in Path(place).iterdir():
            if path.name not in programs and not (folder / path.name).is_symlink():
                (folder / path.name).symlink_to(path)
    return f"PATH={folder}; export PATH"


@pytest.fixture
def without(box: Sshd, tmp_path: Path) -> Iterator[Callable[..., None]]:
    def take(*programs: str) -> None:
        box.rc(hidden(tmp_path / "bin", *programs))
        box.signal(signal.SIGKILL)

    yield take
    box.rc("")
    box.signal(signal.SIGKILL)


@long
async def test_a_host_without_python_is_never_acted_on(
    without: Callable[..., None], run: RunSpec
) -> None:
    without("python3")
    for work in (platform_of().try_start(run, submission(run)), submit_blindly(run)):
        with pytest.raises(CannotError, match="it has no python3: install it"):
            await work
    assert not notes_of(run).exists()


async def submit_blindly(run: RunSpec) -> None:
    """Start a job whatever lives: what a host cannot do is said by its launcher, too."""
    assert run.job is not None and run.job.host is not None
    await Starting(HostLink(run.job.host)).accept(run, submission(run))

"""What became of a launch, in the moments between two of its states: never ended by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from cockpit.hosts import notes
from cockpit.hosts.here import HereLink
from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, Ask
from cockpit.hosts.notes import boot_id, machine_id
from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, SUPERVISES
from cockpit.model.clock import SystemClock
from cockpit.model.jobs import LaunchState, LookUp
from cockpit.model.lineage import tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.local.census import Process, census
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.sources.logs.source import Logs
from tests.platforms.local.making import spec
from tests.platforms.reading import waited_for

ID = "toy-i001"
SUPERVISOR, JOB = 701, 702


@pytest.fixture
def run(tmp_path: Path) -> RunSpec:
    return spec(tmp_path)


def note(run: RunSpec, state: str, **more: object) -> None:
    """Write the launch's note as its supervisor does."""
    assert run.output_root is not None
    folder = notes.launches_folder(Path(run.output_root.path), Path("/nowhere"))
    folder.mkdir(parents=True, exist_ok=True)
    told = {"state": state, "launch_id": ID, "machine": machine_id(), "boot": boot_id()}
    if state != notes.STARTING:
        told |= {"pid": str(JOB), "ticks": "9"}
    notes.write_note(folder / ID, {**told, **more})


def process(pid: int, env: dict[str, str], *argv: str) -> Process:
    told = b"".join(f"{key}={value}\0".encode() for key, value in env.items())
    return Process(pid, 1, pid, pid, 0, "R", 9, argv or ("",), told, "/")


def supervisor(run: RunSpec) -> Process:
    return process(SUPERVISOR, {SUPERVISES: f"{ID} {tag_of(run)}"}, "python", "supervisor.py")


def trainer(run: RunSpec) -> Process:
    return process(JOB, {LAUNCH_ID: ID, LINEAGE: tag_of(run)}, "python", "train.py")


class Staged(HereLink):
    """The machine we are on, with other processes; ``before`` is done when they are listed."""

    def __init__(self, *processes: Process, before: Callable[[], None] = lambda: None) -> None:
        self.processes = list(processes)
        self.before = before

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        wanted = list(asks)
        answers = dict(await super().ask(wanted, deadline, patience))
        for each in wanted:
            if each.call == "processes":
                self.before()
                answers[each] = [
                    [*one[:7], list(one.argv), one.cwd, (one.env or b"").decode(), None, []]
                    for one in self.processes
                ]
        return answers


def look_up(run: RunSpec, launch_id: str, link: Staged) -> LookUp:
    clock = SystemClock()
    platform = LocalPlatform(clock, Logs(clock), link=link)
    return waited_for(platform.look_up(run, launch_id))


@pytest.mark.parametrize("state", [notes.STARTING, notes.RUNNING])
def test_while_its_supervisor_lives_a_launch_is_not_over(run: RunSpec, state: str) -> None:
    """The process that becomes the command may show nothing at all in that moment."""
    note(run, state)
    assert look_up(run, ID, Staged(supervisor(run))).found is LaunchState.UNKNOWN
    assert look_up(run, ID, Staged(supervisor(run), trainer(run))).found is LaunchState.LIVE


def test_a_noted_process_that_becomes_its_command_lives(run: RunSpec) -> None:
    note(run, notes.RUNNING)
    assert look_up(run, ID, Staged(process(JOB, {}))).found is LaunchState.LIVE
    assert look_up(run, ID, Staged()).found is LaunchState.ENDED


@pytest.mark.parametrize("noted", [True, False])
def test_a_note_that_changes_while_the_processes_are_read_is_read_again(
    run: RunSpec, noted: bool
) -> None:
    """The supervisor let the command go and was killed in between: it is no launch without job.

    Or it began after the processes were listed: its pid file is there, and names none of them.
    """
    assert run.job is not None and run.job.pid_file is not None
    if noted:
        note(run, notes.STARTING)
    else:
        Path(run.job.pid_file.path).write_text(f"{JOB}\nticks=9\nlaunch_id={ID}\n")
    link = Staged()

    def let_go() -> None:
        note(run, notes.RUNNING)
        link.before = lambda: link.processes.append(trainer(run))

    link.before = let_go
    assert look_up(run, ID, link).found is LaunchState.LIVE


def test_one_that_ends_while_it_is_looked_at_has_its_exit_status(run: RunSpec) -> None:
    note(run, notes.RUNNING)

    found = look_up(run, ID, Staged(before=lambda: note(run, notes.ENDED, exit=3)))
    assert found.found is LaunchState.ENDED and "ended with 3" in found.text


@pytest.mark.parametrize("state", [notes.STARTING, notes.RUNNING])
def test_what_another_machine_has_noted_is_not_over_here(run: RunSpec, state: str) -> None:
    note(run, state, machine="0" * 32, host="elsewhere")
    found = look_up(run, ID, Staged())
    assert found.found is LaunchState.UNKNOWN and "elsewhere" in found.text


def test_a_process_that_becomes_another_program_is_in_the_table(tmp_path: Path) -> None:
    """It has memory and no words yet; a thread of the kernel and one at its end have neither."""
    for pid, state, memory in ((JOB, "R", 4096), (2, "S", 0), (5, "R", 0), (6, "Z", 4096)):
        (tmp_path / f"{pid}").mkdir()
        for name in ("cmdline", "environ"):
            (tmp_path / f"{pid}" / name).touch()
        fields = f"{state} 1 {pid} {pid} " + "0 " * 15 + f"9 {memory}"
        (tmp_path / f"{pid}" / "stat").write_text(f"{pid} (any) {fields} 0\n")
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").touch()
    found = census(tmp_path)
    assert set(found) == {JOB} and found[JOB].ticks == 9 and found[JOB].argv == ("",)

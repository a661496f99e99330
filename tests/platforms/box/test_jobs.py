"""Jobs of an ssh host: found by file, session, command line or what they write (SPEC J).

A real sshd and a real tmux of this user's own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cockpit.hosts.agent import ENVIRONMENTS
from cockpit.hosts.link import DEADLINE, PATIENCE, Answers, Ask, HostLink
from cockpit.hosts.script import run_script
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, Facet
from cockpit.model.jobs import LiveJob
from cockpit.model.lineage import tag_of
from cockpit.model.observed import JobValue, Phase
from cockpit.model.run import RunSpec
from cockpit.platforms.box.platform import BoxPlatform
from cockpit.platforms.local import marks, sight
from cockpit.platforms.local.census import census
from cockpit.platforms.local.jobs import ProcessJobs
from cockpit.sources.logs.source import Logs
from tests import waiting
from tests.platforms.box.conftest import MakeRun, Start
from tests.queries import queries_of
from tests.sshd import Sshd, needs_sshd
from tests.watch.fakes import until

pytestmark = needs_sshd
SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
There = Callable[[str], str]


class Counted(HostLink):
    """A link that counts its trips."""

    trips = 0

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        Counted.trips += 1
        return await super().ask(asks, deadline, patience)


LINKS: dict[str, Counted] = {}


def platform() -> BoxPlatform:
    Counted.trips = 0
    clock = SystemClock()

    def link(host: str) -> Counted:
        return LINKS.setdefault(host, Counted(host))

    made = BoxPlatform(clock, Logs(clock), link)
    made._jobs = ProcessJobs(clock, link, reap_wait=0.05)
    return made


def jobs_of(runs: Sequence[RunSpec], asked: BoxPlatform | None = None) -> dict[str, Any]:
    made = asked or platform()
    return dict(asyncio.run(made.jobs(queries_of(runs))))


def value_of(facet: Facet[JobValue]) -> JobValue:
    assert facet.value is not None, facet.error
    return facet.value


def test_a_session_with_a_dead_pane_has_its_status_and_one_with_a_shell_tells_nothing(
    run_of: MakeRun, there: There, box: Sshd
) -> None:
    there(
        "tmux new-session -d -s dead 'sleep 0.1; exit 7' \\; set-option -t dead remain-on-exit on;"
        "tmux new-session -d -s idle 'exec sh -i'; n=0; sleep 0.3;"
        # a busy machine's tmux may miss an exit, and never learn of it
        "until tmux list-panes -s -t dead -F '#{pane_dead_status}' | grep 7 || [ $n = 20 ]; do"
        " n=$((n + 1)); tmux respawn-pane -k -t dead 'sleep 0.1; exit 7'; sleep 0.3; done;"
        f"tmux display-message -p '#{{pid}}' >{box.home}/tmux.pid"
    )
    found = jobs_of([run_of("dead", session="dead"), run_of("idle", session="idle")])
    dead = value_of(found["dead"])
    assert (dead.phase, dead.exit_code) == (Phase.FAILED, 7)
    idle = found["idle"]
    assert value_of(idle).phase is Phase.UNKNOWN
    assert "only a shell runs in it" in idle.error.message


def test_a_session_that_only_follows_a_log_is_no_second_job(
    run_of: MakeRun, start: Start, there: There, box: Sshd, tmp_path: Path
) -> None:
    """The trainer runs beside it by nohup: "2 running jobs", and a stop took both."""
    root, log = tmp_path / "out", tmp_path / "out" / "run.log"
    root.mkdir()
    log.write_text("step 1\n")
    there(f"tmux new-session -d -s follows 'tail -f {log}'")
    there(f"tmux display-message -p '#{{pid}}' >{box.home}/tmux.pid")
    run = run_of("follows", root=root, session="follows", log=log)
    alone = jobs_of([run])["follows"]
    assert value_of(alone).phase is Phase.UNKNOWN
    assert "only tail -f" in alone.error.message
    writes = f'f = open("{log}", "a"); import time; time.sleep(60)'
    pid = start(sys.executable, "-c", writes)
    asked = platform()
    waiting.until(lambda: value_of(jobs_of([run], asked)["follows"]).phase is Phase.RUNNING)
    value = value_of(jobs_of([run], asked)["follows"])
    assert (value.id, value.rivals) == (f"pid:{pid}", ())
    assert "only tail -f" in str(value.reason)
    live = asyncio.run(asked.live([run]))["follows"]
    assert [job.id for job in live.jobs] == [f"pid:{pid}"], "a stop takes the trainer alone"


def test_what_a_session_has_found_is_not_told_as_recorded_in_a_file_that_nobody_wrote(
    run_of: MakeRun, there: There, box: Sshd, tmp_path: Path
) -> None:
    there("tmux new-session -d -s noted 'sleep 62'")
    there(f"tmux display-message -p '#{{pid}}' >{box.home}/tmux.pid")
    run = run_of("both", session="noted", pid_file=tmp_path / "run.pid")
    (job,) = asyncio.run(platform().live([run]))["both"].jobs
    assert job.why == "recorded by session noted"


def test_every_way_to_find_a_job_and_two_hundred_runs_in_one_trip(
    run_of: MakeRun, start: Start, there: There, tmp_path: Path, box: Sshd
) -> None:
    log = tmp_path / "train.log"
    log.write_text("step 1\n")
    mine, other = start(*SLEEP, "my_train.py"), start(*SLEEP, "--output_dir", str(tmp_path / "out"))
    (tmp_path / "run.pid").write_text(f"{mine}\n")
    there("tmux new-session -d -s train-2 'exec sleep 60'; tmux new-session -d -s train 'sleep 61'")
    there(f"tmux display-message -p '#{{pid}}' >{box.home}/tmux.pid")
    runs = [
        run_of("by-file", pid_file=tmp_path / "run.pid", log=log),
        run_of("by-session", session="train"),
        run_of("by-prefix", session="trai"),
        run_of("by-match", match="my_trai[n].py", log=log),
        run_of("by-root", root=tmp_path / "out"),
        *(run_of(f"many-{n}", pid_file=tmp_path / "run.pid", log=log) for n in range(195)),
    ]
    asked = platform()
    found = jobs_of(runs, asked)
    assert {name for name, facet in found.items() if not facet.known} == {"by-prefix"}
    assert found["by-prefix"].error.kind is ErrorKind.NOT_FOUND
    ids = {name: value_of(facet).id for name, facet in found.items() if facet.value}
    assert ids["by-file"] == ids["by-match"] == ids["many-194"] == f"pid:{mine}"
    assert (ids["by-session"], ids["by-root"]) == ("session:train", f"pid:{other}")
    assert all(value_of(facet).phase is Phase.RUNNING for facet in found.values() if facet.value)
    started = value_of(found["by-match"]).started_at
    assert started is not None and abs(started - SystemClock().now()) < 60
    assert Counted.trips == 2  # where links lead is asked once
    jobs_of(runs, asked)
    assert Counted.trips == 3
    assert box.logins == 1


GONE = 4_194_300


def test_another_job_that_writes_to_the_run_is_a_rival(
    run_of: MakeRun, start: Start, tmp_path: Path
) -> None:
    root = tmp_path / "out"
    root.mkdir()
    mine = start(*SLEEP, "--output_dir", str(root))
    writes = f"f = open({str(root / 'x.pt')!r}, 'w'); import time; time.sleep(60)"
    (tmp_path / "pid").write_text(f"{mine}\n")
    rivals = {
        start(*SLEEP, "--save-dir", str(root)),
        start("env", f"OUTPUT_DIR={root}", *SLEEP),
        start(sys.executable, "-c", writes.replace("'", '"')),
    }
    start("tail", "-f", str(root / "x.pt"))
    start(*SLEEP, "--output_dir", f"{root}-2")
    run = run_of("a", root=root, pid_file=tmp_path / "pid")
    (facet,) = jobs_of([run]).values()
    value = value_of(facet)
    assert (value.id, value.phase) == (f"pid:{mine}", Phase.RUNNING)
    assert {job.id for job in value.rivals} == {f"pid:{pid}" for pid in rivals}
    live = asyncio.run(platform().live([run]))["a"]
    assert live.unknown is None
    assert {job.id for job in live.jobs} == {f"pid:{pid}" for pid in (mine, *rivals)}


def test_what_we_ask_beside_the_probe_is_no_job(run_of: MakeRun, box: Sshd, tmp_path: Path) -> None:
    root, seen, stop = (tmp_path / name for name in ("out", "asked", "stop"))
    wait = f"echo >>{seen}; until [ -e {stop} ]; do sleep 0.1; done"
    script = f"sh -c '{wait}' sh {root}/checkpoints/"
    run = run_of("a", root=root)

    async def both() -> list[LiveJob]:
        asked = [run_script(box.host, script, deadline=9.0, stdin=given) for given in (None, b"")]
        tasks = [asyncio.create_task(each) for each in asked]
        await until(lambda: seen.exists() and seen.read_text() == "\n\n")
        live = (await platform().live([run]))["a"]
        stop.touch()
        await asyncio.gather(*tasks)
        assert live.unknown is None
        return [*live.jobs, *live.possible]

    assert asyncio.run(both()) == []


def test_a_job_has_its_children_and_the_loop_that_starts_it_again(
    run_of: MakeRun, start: Start, tmp_path: Path
) -> None:
    name = f"{tmp_path.name}-k"
    again = f'while :; do {SLEEP[0]} -c "import time; time.sleep(60)" {name}; done'
    loop = start("sh", "-c", again)
    children: list[int] = []

    def begun() -> bool:
        children[:] = [
            one.pid
            for one in census().values()
            if one.ppid == loop and one.argv and one.argv[-1] == name
        ]
        return bool(children)

    try:
        waiting.until(begun)
        value = value_of(jobs_of([run_of("a", match=f"[s]leep.*{name}")])["a"])
        assert value.id == f"pid:{loop}" and set(value.processes) == set(children)
        (tmp_path / "run.pid").write_text(f"{children[0]}\n")
        value = value_of(jobs_of([run_of("a", pid_file=tmp_path / "run.pid")])["a"])
        assert [each.id for each in value.queued] == [f"pid:{loop}"]
    finally:
        for pid in (loop, *children):
            os.kill(pid, signal.SIGKILL)


def test_names_that_would_be_commands_are_words(
    run_of: MakeRun, there: There, tmp_path: Path
) -> None:
    folder = tmp_path / 'it\'s $(touch pwned) `id`\n;rm -rf "x"'
    folder.mkdir()
    (folder / "-rf").write_text(f"{GONE}\n")
    (folder / "exit").write_text("4\n")
    runs = [
        run_of("a", pid_file=folder / "-rf", exit_file=folder / "exit", log=folder / "*.log"),
        run_of("b", session="$(touch pwned)"),
        run_of("c", match="-rf'; touch pwned; '"),
        run_of("d", pid_file="-rf"),
        run_of("e", pid_file="~/run.pid"),
    ]
    there(f"echo {GONE} >run.pid")
    found = jobs_of(runs)
    assert value_of(found["a"]).exit_code == 4
    assert {name: facet.value for name, facet in found.items() if name in "bcd"} == {
        "b": None, "c": None, "d": None
    }  # fmt: skip
    assert value_of(found["e"]).state == "gone"
    assert "pwned" not in there("ls")


def test_a_host_that_went_is_unknown_and_comes_back_without_a_restart(
    run_of: MakeRun, tmp_path: Path, box: Sshd
) -> None:
    (tmp_path / "pid").write_text(f"{GONE}\n")
    runs, asked = [run_of(f"r{n}", pid_file=tmp_path / "pid") for n in range(3)], platform()
    assert value_of(jobs_of(runs, asked)["r0"]).state == "gone"
    box.signal(signal.SIGKILL)
    box.stop()
    trips = Counted.trips
    lost = jobs_of(runs, asked)
    assert {facet.value for facet in lost.values()} == {None}
    assert {facet.error.kind for facet in lost.values()} == {ErrorKind.REFUSED}
    assert Counted.trips == trips + 1
    (finding,) = asyncio.run(asked.findings(runs))
    assert finding.endpoint == box.host and finding.remedy
    box.start()
    assert value_of(jobs_of(runs, asked)["r2"]).state == "gone"
    (finding,) = asyncio.run(asked.findings(runs))
    assert finding.text.startswith("answers; ") and finding.remedy is None


def test_a_run_without_a_host_is_not_configured() -> None:
    run = RunSpec.model_validate({"name": "a", "job": {"kind": "box", "match": "x"}})
    (facet,) = jobs_of([run]).values()
    assert not facet.configured


def test_what_a_run_is_known_by_is_found_out_once_until_a_link_leads_elsewhere(
    run_of: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def counted(run: RunSpec, *more: Any) -> Any:
        made.append(run.name)
        return marks.marks_of(run, *more)

    monkeypatch.setattr(sight, "marks_of", counted)
    (tmp_path / "run.pid").write_text(f"{os.getpid()}\n")
    root, asked = tmp_path / "out", platform()
    root.mkdir()
    runs = [run_of(name, pid_file=tmp_path / "run.pid", root=root) for name in "ab"]
    for _ in range(3):
        jobs_of(runs, asked)
    assert sorted(made) == ["a", "b"]
    root.rmdir()
    root.symlink_to(tmp_path)
    asyncio.run(asked.live(runs))
    assert sorted(made) == ["a", "a", "b", "b"]


def test_before_an_action_links_are_followed_anew(
    run_of: MakeRun, start: Start, there: There, tmp_path: Path
) -> None:
    root, scratch = tmp_path / "out", tmp_path / "scratch"
    run, asked = run_of("linked", root=root), platform()
    assert jobs_of([run], asked)["linked"].value is None, "its folder is not there yet"
    scratch.mkdir()
    root.symlink_to(scratch)
    writes = f"f = open({str(scratch / 'a.pt')!r}, 'w'); import time; time.sleep(60)"
    pid = start(sys.executable, "-c", writes.replace("'", '"'))
    waiting.until((scratch / "a.pt").exists)
    live = asyncio.run(asked.live([run]))["linked"]
    assert [job.id for job in live.jobs] == [f"pid:{pid}"]


class Short(Counted):
    """A link to a host of so many processes that a usual look tells of no environment."""

    async def ask(
        self, asks: Iterable[Ask], deadline: float = DEADLINE, patience: float = PATIENCE
    ) -> Answers:
        answers = dict(await super().ask(asks, deadline, patience))
        for each in answers:
            if each.call == "processes" and json.loads(each.arguments)["most"] == ENVIRONMENTS:
                answers[each] = [[*one[:9], None, one[10]] for one in answers[each]]
        return answers


def test_before_an_action_no_process_is_beyond_those_whose_environment_is_told(
    run_of: MakeRun, start: Start, tmp_path: Path, box: Sshd
) -> None:
    run = run_of("carried", root=tmp_path / "out")
    LINKS[box.host] = Short(box.host)
    pid = start(*SLEEP, env=f"COCKPIT_LINEAGE={tag_of(run)}")
    live = asyncio.run(platform().live([run]))["carried"]
    LINKS.pop(box.host).close()
    assert [job.id for job in live.jobs] == [f"pid:{pid}"]

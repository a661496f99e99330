"""A night without a person: failures in a row, real jobs, and one standing order (SPEC A-15)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.service import ActionService
from cockpit.actions.core.wiring import build_service
from cockpit.actions.launching import submitting
from cockpit.config.file import load
from cockpit.model.alert import Acknowledgement, Alert, Severity
from cockpit.model.clock import SystemClock
from cockpit.model.facet import ErrorKind, unknown
from cockpit.model.plan import Outcome, Request
from cockpit.model.report import RunReport
from cockpit.platforms.local.census import census
from cockpit.platforms.local.platform import LocalPlatform
from cockpit.services import follow_up
from cockpit.services.follow_up import StandingService
from cockpit.store.journal import Journal, JournalEntry
from cockpit.store.store import Store, run_key
from cockpit.watch.engine import Engine

TRAINER = """
import json, os, sys, time
root = sys.argv[1]
saves, fate = os.path.join(root, "checkpoints"), os.path.join(root, "fate")
os.makedirs(saves, exist_ok=True)
step = max([0, *(int(name[5:]) for name in os.listdir(saves) if name.startswith("step-"))])
with open(os.path.join(root, "starts"), "a") as file:
    file.write("%s %d\\n" % (os.environ.get("COCKPIT_LAUNCH_ID", "-"), step))
while True:
    while os.path.exists(os.path.join(root, "pause")):
        time.sleep(0.01)
    step += 1
    print("step %d/1000000 loss=%.3f" % (step, 2 + step % 7 / 10), flush=True)
    if step % 20 == 0:
        place = os.path.join(saves, "step-%d" % step)
        os.makedirs(os.path.join(place, "model"))
        open(os.path.join(place, "model", "weights"), "w").write("x" * 4096)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        with open(os.path.join(place, "new"), "w") as file:
            json.dump({"step": step, "timestamp": stamp, "is_temporary": False}, file)
        os.rename(os.path.join(place, "new"), os.path.join(place, "metadata.json"))
    if os.path.exists(fate):
        told = json.load(open(fate))
        if step >= told["step"]:
            os.unlink(fate)
            print("\\n".join(told["lines"]), flush=True)
            sys.exit(told["code"])
    time.sleep(0.01)
"""
RUN_FILE = """
[cockpit]
cadence = "10s"
operator = "ada"

[agents]
grace = "200ms"

[notify]
routes = [{{ min = "info", command = [{python}, "-c", {told}] }}]

[[run]]
name = "dusk"
tier = "ordinary"
dri = "ada"
final_step = 1000000
output_root = "{root}"
resubmit = {command}
job = {job}
checkpoints = {{ path = ["{root}/checkpoints"], layout = "levanter", keep = 3 }}
records = {{ logbook = "{code}/dusk.md" }}
code = {{ repo = "{code}" }}
thresholds = {{ warmup_steps = 1, flap_restarts = 100 }}

[run.standing]
relaunch = {{ classes = ["preempted", "node_death", "killed", "walltime"], at_most = 3 }}
"""
LOCAL = """{{ kind = "local", log = "{root}/run.log", pid_file = "{root}/run.pid", \
exit_file = "{root}/run.exit", workdir = "{code}", grace = "5s" }}"""
PREEMPTED = [
    "slurmstepd: error: *** JOB 4242 ON n1 CANCELLED AT 2026-11-29T02:10:00 DUE TO PREEMPTION ***"
]
CRASH = [
    "Traceback (most recent call last):", '  File "train.py", line 40, in <module>', "    main()",
    '  File "train.py", line 31, in main', "    batch = batch.reshape(shape)",
    "RuntimeError: shape '[8, 4]' is invalid for input of size 31",
]  # fmt: skip
OOM = [
    "Traceback (most recent call last):", '  File "train.py", line 40, in <module>', "    main()",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.11 GiB of which 1.2 GiB is free.",
]  # fmt: skip
DISK = [
    "Traceback (most recent call last):", '  File "train.py", line 40, in <module>', "    save()",
    "OSError: [Errno 28] No space left on device: 'checkpoints/step-900/model'",
]  # fmt: skip
NAN = ["step 0/1000000 loss=nan", "FloatingPointError: loss is nan, training stops"]


class NightClock(SystemClock):
    """The machine's clock; ``later`` has it jump, as a night passes."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.passed

    def later(self, seconds: float) -> None:
        self.passed += seconds


class Cockpit:
    """One engine with its store; ``asleep`` nobody sits at it."""

    def __init__(self, night: Night, name: str) -> None:
        self.night = night
        self.store = Store(night.folder / f"{name}.sqlite")
        self.clock = NightClock()
        self.file = load(night.config)
        self.engine = Engine(self.file, store=self.store, clock=self.clock)
        parts = (lambda: self.file, self.engine, self.store, self.clock)
        self.service: ActionService = build_service(*parts, operator="ada")
        self.orders = StandingService(self.engine, self.store, self.clock, lambda report: True)

    async def person(self, action: str, *approve: str, **params: str) -> str:
        """Do something as ada does it, with the words of the plan."""
        from cockpit.model.plan import Approval

        request = Request(action=action, run="dusk", operator="ada", params=params)
        given = [Approval(check=name, by="ada", reason="seen") for name in approve]
        plan = await self.service.plan(request)
        result = await self.service.act(request, plan.words, given, shown=plan.plan_id)
        assert result.outcome is Outcome.DONE, f"{result.message}\n{plan.checks}"
        return result.launch_id or ""

    async def look(self) -> RunReport:
        """Look at the run once, as the watch does, and let the order do what it will."""
        engine = Engine(self.file, store=self.store, clock=self.clock)
        (report,) = (await engine.check(["dusk"], 20)).runs
        self.orders._hear(report)
        await self.orders.look()
        for task in self.orders._tasks.values():
            await task
        assert self.orders.notices == (), self.orders.notices
        return report

    async def wait(self, looks: int = 3) -> None:
        """Let more time pass than anything may take that comes right by itself."""
        for _ in range(looks):
            await self.look()
            self.clock.later(follow_up.PATIENCE + 1)

    async def why(self) -> list[str]:
        """What stands against a relaunch by the order at this moment."""
        request = Request(action="relaunch", run="dusk", operator="standing order of ada")
        plan = await self.service.plan(request)
        return [f"{each.id}: {each.text}" for each in plan.checks if each.stands_in_the_way]

    @property
    def entries(self) -> list[JournalEntry]:
        key = run_key(self.file.path, "dusk")
        return list(Journal(self.store).entries(key))

    def did(self, action: str) -> list[JournalEntry]:
        return [
            entry
            for entry in self.entries
            if entry.action == action and entry.operator.startswith("standing order of ada")
        ]


class Night:
    """A run, its trainer, and what is to become of it."""

    job = LOCAL

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root, self.code = folder / "root", folder / "code"
        for each in (self.root, self.code):
            each.mkdir()
        (self.code / "trainer.py").write_text(TRAINER)
        (self.code / "dusk.md").write_text("# dusk: Hero Run Logbook\n\n## Event Log\n")
        for words in (
            ("init", "-q", "-b", "main"), ("config", "user.name", "ada"),
            ("config", "user.email", "ada@example.org"), ("add", "."), ("commit", "-qm", "one"),
        ):  # fmt: skip
            subprocess.run(["git", *words], cwd=self.code, check=True)
        self.config = folder / "cockpit.toml"
        told = f"import sys; open({str(folder / 'told')!r}, 'a').write(sys.stdin.read())"
        self.config.write_text(
            RUN_FILE.format(
                root=self.root, code=self.code, command=json.dumps(self.command()),
                python=json.dumps(sys.executable), told=json.dumps(told),
                job=self.job.format(root=self.root, code=self.code),
            )
        )  # fmt: skip

    def command(self) -> list[str]:
        """The recorded command of the run."""
        return [sys.executable, "-S", str(self.code / "trainer.py"), str(self.root)]

    @property
    def starts(self) -> list[str]:
        """The launch ids of all trainers that ever began."""
        path = self.root / "starts"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split()[0] for line in lines]

    @property
    def step(self) -> int:
        with (self.root / "run.log").open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 4096))
            lines = log.read().decode().splitlines()[1:]
        steps = [int(line.split()[1].partition("/")[0]) for line in lines if line[:5] == "step "]
        return steps[-1] if steps else 0

    @property
    def between_saves(self) -> int:
        """A step that is yet to come, and has no checkpoint of its own."""
        return (self.step // 20 + 2) * 20 + 10

    @property
    def told(self) -> str:
        path = self.folder / "told"
        return path.read_text() if path.exists() else ""

    def pid(self) -> int:
        return int((self.root / "run.pid").read_text().split()[0])

    def goes_on(self, steps: int = 50) -> None:
        begun = self.step
        until(lambda: self.step >= begun + steps or self.step < begun, "it does not train")
        until(lambda: self.step >= begun + steps, "it does not get on")

    def ends(self, lines: list[str], code: int = 1) -> None:
        """Have the trainer end so, once it has got on."""
        self.goes_on()
        (self.root / "run.exit").unlink(missing_ok=True)
        self.will_end(lines, code)
        until((self.root / "run.exit").exists, "it has not ended")

    def will_end(self, lines: list[str], code: int) -> None:
        """Tell the trainer with which words it ends, and at which step."""
        fate = self.root / "new-fate"
        fate.write_text(json.dumps({"lines": lines, "code": code, "step": self.between_saves}))
        fate.rename(self.root / "fate")

    def end(self) -> None:
        """Kill what trains there, whatever became of it."""
        for one in census().values():
            if str(self.root) in one.argv:
                os.kill(one.pid, signal.SIGKILL)


def until(true: Callable[[], object], what: str, patience: float = 60.0) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@pytest.fixture
async def night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Night]:
    monkeypatch.setattr(submitting, "LIVES_FOR", 0.1)
    made = Night(tmp_path)
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
async def cockpit(night: Night) -> Cockpit:
    """A cockpit whose person has launched the run, armed the order, and gone to sleep."""
    made = Cockpit(night, "here")
    assert await made.person("launch") == "dusk-i001"
    await made.person("standing", until="10h")
    return made


async def test_a_preempted_job_is_relaunched_once_and_everybody_is_told(
    night: Night, cockpit: Cockpit
) -> None:
    await cockpit.wait()
    assert night.starts == ["dusk-i001"], "a job that trains is left alone"
    night.ends(PREEMPTED, 143)
    await cockpit.look()
    assert night.starts == ["dusk-i001", "dusk-i002"], await cockpit.why()
    await cockpit.wait()
    assert night.starts == ["dusk-i001", "dusk-i002"], "once"
    said = "relaunched by standing order of ada, 1 of 3, from step "
    assert said in night.told
    assert said in (night.code / "dusk.md").read_text()
    assert "; lost " in night.told
    (entry,) = cockpit.did("relaunch")
    assert entry.outcome is Outcome.DONE
    assert cockpit.did("escalate") == []


@pytest.mark.parametrize(
    ("lines", "code"), [(CRASH, 1), (OOM, 1), (DISK, 1), (NAN, 1), (["Terminated"], 0)],
    ids=["crash", "oom", "disk full", "nan", "success"],
)  # fmt: skip
async def test_what_the_order_does_not_name_is_escalated_once_and_the_order_is_over(
    night: Night, cockpit: Cockpit, lines: list[str], code: int
) -> None:
    night.ends(lines, code)
    await cockpit.wait(4)
    assert night.starts == ["dusk-i001"]
    assert cockpit.did("relaunch") == []
    if code == 0:
        assert cockpit.did("escalate") == [], "a success is no failure"
        return
    (told,) = cockpit.did("escalate")
    assert told.outcome is Outcome.DONE
    assert "The standing order of ada is over" in night.told
    report = await cockpit.look()
    assert report.standing is None


async def test_a_job_whose_state_is_unknown_for_two_hours_is_left_alone(
    night: Night, cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(self: LocalPlatform, runs: Any) -> dict[str, Any]:
        now = time.time()
        return {run.name: unknown(ErrorKind.TIMEOUT, "no answer", "head", now) for run in runs}

    with monkeypatch.context() as patch:
        patch.setattr(LocalPlatform, "jobs", silent)
        for _ in range(4):
            await cockpit.look()
            cockpit.clock.later(1800.0)
    assert night.starts == ["dusk-i001"]
    assert cockpit.did("relaunch") == cockpit.did("escalate") == []
    assert (await cockpit.look()).standing is not None, "the order goes on holding"


async def test_what_a_person_stops_is_never_relaunched(night: Night, cockpit: Cockpit) -> None:
    night.goes_on()
    await cockpit.person("stop")
    await cockpit.wait(4)
    assert night.starts == ["dusk-i001"]
    assert cockpit.did("relaunch") == cockpit.did("escalate") == []


async def test_an_end_that_a_person_acknowledged_is_left_at_rest(
    night: Night, cockpit: Cockpit
) -> None:
    night.ends(PREEMPTED, 143)
    await cockpit.person("ack", key="end")
    await cockpit.wait(4)
    assert night.starts == ["dusk-i001"]
    assert cockpit.did("relaunch") == cockpit.did("escalate") == []


async def test_what_somebody_kills_by_hand_is_told_and_not_relaunched(
    night: Night, cockpit: Cockpit
) -> None:
    night.goes_on()
    os.kill(night.pid(), signal.SIGINT)
    until((night.root / "run.exit").exists, "it has not ended")
    await cockpit.wait(4)
    assert night.starts == ["dusk-i001"]
    assert len(cockpit.did("escalate")) == 1


async def test_a_night_of_failures_in_a_row(night: Night, cockpit: Cockpit) -> None:
    for count in (1, 2, 3):
        await cockpit.look()
        night.ends(PREEMPTED, 143)
        await cockpit.look()
        assert f"{count} of 3, from step " in night.told, await cockpit.why()
    night.ends(PREEMPTED, 143)
    await cockpit.wait(4)
    assert night.starts == [f"dusk-i00{number}" for number in (1, 2, 3, 4)], "the count is reached"
    assert len(cockpit.did("escalate")) == 1
    assert "all 3 relaunches within 12h are used up" in night.told
    assert [entry.outcome for entry in cockpit.did("relaunch")] == [Outcome.DONE] * 3


async def test_a_job_that_fails_again_before_it_is_past_the_failure_is_not_relaunched(
    night: Night, cockpit: Cockpit
) -> None:
    night.ends(PREEMPTED, 143)
    (night.root / "pause").touch()
    await cockpit.look()
    (night.root / "run.exit").unlink(missing_ok=True)
    (night.root / "fate").write_text(json.dumps({"lines": PREEMPTED, "code": 143, "step": 0}))
    (night.root / "pause").unlink()
    until((night.root / "run.exit").exists, "it has not ended")
    await cockpit.wait(5)
    assert night.starts == ["dusk-i001", "dusk-i002"]
    assert "it failed at step" in night.told, night.told[-3000:]
    assert len(cockpit.did("escalate")) == 1


async def test_a_veto_within_the_grace_ends_it(night: Night, cockpit: Cockpit) -> None:
    night.ends(PREEMPTED, 143)
    text = night.config.read_text().replace('"200ms"', '"60s"')
    night.config.write_text(text)
    cockpit.file = load(night.config)
    looking = asyncio.ensure_future(cockpit.look())
    await asyncio.to_thread(until, lambda: "will relaunch dusk" in night.told, "no grace")
    (_, order) = await cockpit.service.veto("dusk", "ada")
    assert order is not None
    await looking
    await cockpit.wait(4)
    assert night.starts == ["dusk-i001"]
    assert cockpit.did("escalate") == [], "whoever vetoes knows"


def edited(cockpit: Cockpit, old: str, new: str) -> None:
    """Save the run file with one change; the cockpit has not read it yet."""
    text = cockpit.night.config.read_text()
    assert text.count(old) == 1, old
    cockpit.night.config.write_text(text.replace(old, new))


async def test_an_order_holds_for_the_run_that_it_was_armed_for(
    night: Night, cockpit: Cockpit
) -> None:
    night.ends(PREEMPTED, 143)
    assert await cockpit.why() == []
    armed = night.config.read_text()
    for old, new in (
        ("[run.standing]", '[run.standing]\nby = ["bob"]'), ('dri = "ada"', 'dri = "bob"'),
        ("final_step = 1000000", "final_step = 2000000"), ('grace = "5s"', 'grace = "6s"'),
        ("at_most = 3", "at_most = 4"), ("keep = 3", "keep = 1"),
    ):  # fmt: skip
        edited(cockpit, old, new)
        cockpit.file = load(night.config)
        (why,) = await cockpit.why()
        assert "was changed since the order was armed" in why, new
        night.config.write_text(armed)
    cockpit.file = load(night.config)
    assert await cockpit.why() == []


@pytest.mark.parametrize(
    ("old", "new"),
    [('"preempted", ', ""), ('trainer.py", ', 'trainer.py", "-lr=3", ')],
    ids=["terms", "command"],
)
async def test_a_run_file_that_is_edited_within_the_grace_starts_nothing(
    night: Night, cockpit: Cockpit, old: str, new: str
) -> None:
    night.ends(PREEMPTED, 143)
    edited(cockpit, '"200ms"', '"3s"')
    cockpit = Cockpit(night, "here")
    looking = asyncio.ensure_future(cockpit.look())
    await asyncio.to_thread(until, lambda: "will relaunch dusk" in night.told, "no grace")
    edited(cockpit, old, new)
    await looking
    assert night.starts == ["dusk-i001"]


async def test_an_order_can_be_ended_whatever_it_has_done_since_that_was_planned(
    night: Night, cockpit: Cockpit
) -> None:
    request = Request(action="standing", run="dusk", operator="ada", params={"off": "yes"})
    plan = await cockpit.service.plan(request)
    night.ends(PREEMPTED, 143)
    await cockpit.look()
    assert len(night.starts) == 2
    result = await cockpit.service.act(request, plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message


async def test_a_clock_that_was_set_back_is_a_doubt(
    night: Night, cockpit: Cockpit, monkeypatch: pytest.MonkeyPatch
) -> None:
    night.ends(PREEMPTED, 143)
    monkeypatch.setattr(cockpit.clock, "now", lambda: time.time() - 86400.0)
    assert "the clock was set back" in "".join(await cockpit.why())


async def test_a_cause_that_is_a_guess_is_a_doubt(night: Night) -> None:
    text = night.config.read_text()
    night.config.write_text(text.replace('"walltime"]', '"network_transient"]'))
    cockpit = Cockpit(night, "here")
    await cockpit.person("launch")
    await cockpit.person("standing", until="10h")
    night.ends(["store.example.org: Connection reset by peer"], 1)
    assert "is a guess" in "".join(await cockpit.why())


async def test_an_alert_is_a_doubt_until_a_person_has_acknowledged_it(
    night: Night, cockpit: Cockpit
) -> None:
    night.ends(PREEMPTED, 143)
    parts, alerts = cockpit.service._parts, list[Alert]()

    async def look(run: str) -> RunReport:
        return (await parts.look(run)).model_copy(update={"alerts": tuple(alerts)})

    cockpit.service._parts = replace(parts, look=look)
    for by, doubts in ((None, True), ("agent:x", True), ("ada", False)):
        taken = None if by is None else Acknowledgement(by=by, at=time.time())
        alerts[:] = [
            Alert(
                key="C-08:dusk", severity=Severity.ALERT, title="The loss is odd",
                since=time.time(), evidence=(), confidence="likely", next_action="look at it",
                acknowledged=taken,
            )
        ]  # fmt: skip
        assert ("C-08 is open" in "".join(await cockpit.why())) is doubts, by


async def test_it_escalates_also_where_its_terms_are_gone_from_the_run_file(
    night: Night, cockpit: Cockpit
) -> None:
    text = night.config.read_text()
    night.config.write_text(text.partition("[run.standing]")[0])
    cockpit = Cockpit(night, "here")
    night.ends(PREEMPTED, 143)
    await cockpit.wait(3)
    (told,) = cockpit.did("escalate")
    assert told.outcome is Outcome.DONE
    assert night.starts == ["dusk-i001"]


async def test_a_run_file_that_cannot_be_read_is_told_after_three_attempts(
    night: Night, cockpit: Cockpit
) -> None:
    night.ends(PREEMPTED, 143)
    night.config.write_text(night.config.read_text() + "[[run")
    for _ in range(follow_up.TRIES + 2):
        await cockpit.look()
        cockpit.clock.later(follow_up.AGAIN + 1)
    assert night.starts == ["dusk-i001"]
    (told,) = cockpit.did("escalate")
    assert told.outcome is Outcome.DONE
    assert night.told.count("will relaunch dusk") == follow_up.TRIES

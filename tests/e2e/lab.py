"""A real small run under the real command line: trainer, checkpoints, code, logbook, remote.

The trainer writes down every step that it takes, so that two which ever trained at one time are
seen afterwards, however short the time was.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from cockpit.hosts.supervisor import LAUNCH_ID, SUPERVISES
from cockpit.platforms.local.census import Process, census
from tests.warm import Warm

REPO = Path(__file__).resolve().parents[2]
RUN = "tiny"
WORDS = f"relaunch {RUN}"
SAID = ("--by", "ada", "--reason", "again")
RELAUNCH = ("relaunch", "--confirm", WORDS, "--approve", "C-14", *SAID, "--approve", "T", *SAID)
"""Somebody answers for a failure like the last one, and for one that another store knows of."""
OVER = {"done", "failed", "refused"}
SOAK = bool(os.environ.get("SOAK"))
PROGRAM = "cockpit"
HASTY = "tests.e2e.hasty"

TRAINER = """
import json, os, sys, time
root, lives, final = sys.argv[1], sys.argv[2], int(sys.argv[3])
saves = os.path.join(root, "checkpoints")
os.makedirs(saves, exist_ok=True)
def whole(name):
    return name.startswith("step-") and os.path.exists(os.path.join(saves, name, "metadata.json"))
step = max((int(name[5:]) for name in os.listdir(saves) if whole(name)), default=0)
mine = os.open(lives, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
who = "%d %s" % (os.getpid(), os.environ.get("COCKPIT_LAUNCH_ID", "-"))
saved = time.monotonic()
while step < final:
    step += 1
    os.write(mine, ("%s %.4f\\n" % (who, time.monotonic())).encode())
    print("step %d/%d loss=%.3f" % (step, final, 2 + step % 7 / 10), flush=True)
    if time.monotonic() - saved > 0.2 or step == final:
        saved = time.monotonic()
        place = os.path.join(saves, "step-%d" % step)
        os.makedirs(os.path.join(place, "model"), exist_ok=True)
        with open(os.path.join(place, "model", "weights"), "wb") as file:
            file.write(bytes(4096))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        with open(os.path.join(place, "metadata.json.new"), "w") as file:
            json.dump({"step": step, "timestamp": stamp, "is_temporary": False}, file)
        os.rename(file.name, os.path.join(place, "metadata.json"))
    time.sleep(0.02)
"""

RUN_FILE = """
[cockpit]
cadence = "10s"
operator = "{operator}"

[[run]]
name = "tiny"
tier = "ordinary"
dri = "ada"
final_step = {final}
output_root = "{root}"
hardware = "cpu"
resubmit = {command}
{wandb}
job = {{ kind = "local", log = "{root}/run.log", pid_file = "{root}/run.pid", \
exit_file = "{root}/run.exit", workdir = "{code}", grace = "5s" }}
checkpoints = {{ path = ["{root}/checkpoints"], layout = "levanter", save_every = "1s", keep = 3 }}
records = {{ logbook = "{logbook}" }}
code = {{ repo = "{code}" }}
thresholds = {{ flap_restarts = 1000000, warmup_steps = 1 }}
"""

WANDB = 'wandb = {{ project = "lab", id = "{id}", name = "tiny", entity = "lab" }}'
LOGBOOK = """# tiny: Hero Run Logbook

## Run Contract

- DRI: ada

## Launched Instances

### 2026-01-01 00:00 UTC - by hand

- Git SHA: {sha}
## Event Log
"""


@dataclass
class Answer:
    """How one command ended: its exit code, what it printed, and its JSON if it was asked for."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    def __str__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


class Machine:
    """One store, one clone of the logbook, one run file: what one machine has of its own."""

    def __init__(self, lab: Lab, name: str, root: Path) -> None:
        self.lab, self.name, self.root = lab, name, root
        self.program = PROGRAM if SOAK else HASTY
        self.folder = lab.folder / name
        self.folder.mkdir()
        root.mkdir(exist_ok=True)
        self.state = self.folder / "state"
        self.clone = self.folder / "book"
        git(lab.folder, "clone", "-q", str(lab.remote), str(self.clone))
        git(self.clone, "config", "user.name", name)
        git(self.clone, "config", "user.email", f"{name}@example.org")
        self.config = self.folder / "cockpit.toml"
        self.write()

    def write(self, final: int = 10**6, *, tracked: bool = True) -> None:
        """Write the run file; without a tracker a run may be sealed."""
        command = [sys.executable, "-S", str(self.lab.trainer), str(self.root)]
        command += [str(self.lab.lives), str(final)]
        self.config.write_text(
            RUN_FILE.format(
                operator="ada",
                final=final,
                root=self.root,
                code=self.lab.code,
                wandb=WANDB.format(id=self.lab.wandb) if tracked else "",
                logbook=self.clone / "tiny.md",
                command=json.dumps(command),
            )
        )

    @property
    def env(self) -> dict[str, str]:
        return {
            **os.environ, "PYTHONPATH": str(REPO), "XDG_STATE_HOME": str(self.state),
            "GIT_TERMINAL_PROMPT": "0",
        }  # fmt: skip

    def begin(self, verb: str, *words: str, run: str = RUN) -> subprocess.Popen[str]:
        """Start a command; ``ended`` waits for it.

        Whoever approves has seen the plan: an approval counts for blocks that were shown.
        """
        if "--approve" in words and "--confirm" in words:
            self._started(verb, run).communicate()
        return self._started(verb, run, *words)

    def _started(self, *words: str) -> subprocess.Popen[str]:
        """Start the program: in a long run as a person does, else from where it is loaded."""
        words = (*words, "--config", str(self.config))
        if not SOAK:
            return Warm(self.program, *words, cwd=self.folder, env=self.env)
        return subprocess.Popen(
            [sys.executable, "-m", self.program, *words], cwd=self.folder, env=self.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip

    def do(self, verb: str, *words: str, within: float = 120.0) -> Answer:
        """Run a command to its end."""
        return ended(self.begin(verb, *words), within)

    def history(self) -> dict[str, Any]:
        """Return what ``cockpit history --json`` tells."""
        answer = self.do("history", "--json")
        assert answer.code == 0, str(answer)
        return answer.document

    def words(self, verb: str, *params: str) -> str:
        """Return the words that the plan asks for."""
        answer = self.do(verb, *params, "--json")
        assert answer.code == 0, str(answer)
        return str(answer.document["words"])

    @property
    def actions(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.history()["actions"]
        return found

    def saved(self) -> list[int]:
        """Return the steps of the complete checkpoints."""
        names = (self.root / "checkpoints").glob("step-*/metadata.json")
        return sorted(int(path.parent.name[5:]) for path in names)


class Lab:
    """A remote, a code repository, and the machines that share them; ``end`` kills what lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives = folder / "lives"
        self.lives.touch()
        self.wandb = f"lab-{os.getpid()}-{abs(hash(str(folder))) % 10**8}"
        self.code = folder / "code"
        self.code.mkdir()
        self.trainer = self.code / "trainer.py"
        self.trainer.write_text(TRAINER)
        self._repository(self.code)
        self.remote = folder / "remote.git"
        git(folder, "init", "-q", "--bare", "-b", "main", str(self.remote))
        first = folder / "first"
        first.mkdir()
        (first / "tiny.md").write_text(LOGBOOK.format(sha=git(self.code, "rev-parse", "HEAD")))
        self._repository(first)
        git(first, "push", "-q", str(self.remote), "HEAD:refs/heads/main")

    @staticmethod
    def _repository(folder: Path) -> None:
        git(folder, "init", "-q", "-b", "main")
        git(folder, "config", "user.name", "lab")
        git(folder, "config", "user.email", "lab@example.org")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "one")

    def machine(self, name: str, root: Path | None = None) -> Machine:
        return Machine(self, name, root or self.folder / "root")

    @property
    def trainers(self) -> list[Process]:
        """Return every trainer that lives: by its own arguments, whoever started it."""
        words = ["-S", str(self.trainer)]
        return [one for one in census().values() if list(one.argv[1:3]) == words]

    @property
    def supervisors(self) -> list[Process]:
        """Return the supervisors, and their children that have not become the command yet."""
        return [
            one
            for one in census().values()
            if one.variable(SUPERVISES) is not None and str(self.trainer) in one.argv
        ]

    def die(self) -> None:
        """Kill the trainers as the kernel does, once they have gone on; wait for the notes."""
        for one in self.trainers:
            kill(one.pid)
        until(lambda: not self.trainers and not self.supervisors, "a trainer is left")

    def steps(self) -> int:
        """Return how many steps were ever trained."""
        return self.lives.read_text().count("\n")

    def goes_on(self, machine: Machine, saves: int = 2) -> None:
        """Wait until the trainer has saved so many checkpoints more."""
        there = len(machine.saved())
        until(lambda: len(machine.saved()) >= there + saves, "it saves nothing")

    def settled(self) -> list[Process]:
        """Return the live trainers, once nobody is starting one any more."""
        until(lambda: not self._starting(), "a supervisor never came to an end")
        return self.trainers

    def _starting(self) -> bool:
        parents = {one.ppid for one in self.trainers}
        return any(one.pid not in parents for one in self.supervisors)

    def prepare(self, machine: Machine) -> None:
        """Have one job behind us that was killed: what a relaunch is for."""
        from cockpit.hosts.launches import start
        from cockpit.hosts.supervisor import Launch

        root = machine.root
        started = start(
            Launch(
                command=[sys.executable, "-S", str(self.trainer), str(root), str(self.lives),
                         str(10**6)],
                log=root / "run.log", pid_file=root / "run.pid", exit_file=root / "run.exit",
                cwd=self.code,
            )
        )  # fmt: skip
        until(lambda: machine.saved(), "no checkpoint was saved")
        kill(started.pid)
        started.supervisor.wait(60)

    def overlaps(self) -> list[str]:
        """Return each pair of trainers that trained at one time; one step's length is no time."""
        spans: dict[str, tuple[float, float]] = {}
        for line in self.lives.read_text().splitlines():
            who, _, at = line.rpartition(" ")
            first, last = spans.get(who, (float(at), float(at)))
            spans[who] = (min(first, float(at)), max(last, float(at)))
        ordered = sorted((span, who) for who, span in spans.items())
        return [f"{one} and {two}" for (a, one), (b, two) in pairwise(ordered) if b[0] < a[1]]

    def started(self) -> set[str]:
        """Return the launch ids under which anything ever trained."""
        return {line.split()[1] for line in self.lives.read_text().splitlines()} - {"-"}

    def logbook(self) -> str:
        """Return the logbook as the remote has it."""
        return git(self.folder, "--git-dir", str(self.remote), "show", "main:tiny.md")

    def end(self) -> None:
        for one in [*self.supervisors, *self.trainers]:
            kill(one.pid)
        until(lambda: not self.trainers and not self.supervisors, "something is left")


def check(lab: Lab, *machines: Machine) -> None:
    """See that "at most once" held: one trainer at a time, and each that ever was is recorded."""
    alive = lab.settled()
    names = [f"{one.pid} {one.variable(LAUNCH_ID)}" for one in alive]
    assert len(alive) <= 1, f"{len(alive)} trainers live: {names}"
    assert not lab.overlaps(), lab.overlaps()
    told = [machine.history() for machine in machines]
    acts = [one for each in told for one in each["actions"]]
    still = [one for one in acts if one["outcome"] not in OVER]
    assert not still, f"left open: {json.dumps(still, indent=1)}"
    launches = [each["launch_id"] for one in told for each in one["launches"]]
    # "failed": it was started, and had ended before it could be seen to train
    ended = [one for one in acts if one["outcome"] in ("done", "failed")]
    acted = [one["launch_id"] for one in ended if one["launch_id"]]
    until(lambda: all(launch in lab.logbook() for launch in lab.started()), "never pushed")
    book = lab.logbook()
    for launch in lab.started():
        assert launches.count(launch) == 1, f"{launch} in the launches: {launches}"
        assert acted.count(launch) == 1, f"{launch} in the journal: {acts}"
        assert launch in book, f"{launch} is not in the logbook:\n{book}"


def ended(process: subprocess.Popen[str], within: float = 120.0) -> Answer:
    """Wait for a command; it is killed when it hangs."""
    try:
        out, err = process.communicate(timeout=within)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"hung for {within} s:\n{out}\n{err}") from None
    return Answer(process.returncode, out, err)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def until(
    true: Callable[[], object], what: str, patience: float = 30.0, every: float = 0.02
) -> None:
    deadline = time.monotonic() + patience
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(every)


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout

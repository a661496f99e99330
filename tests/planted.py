"""A run with secrets planted wherever text comes from, and how to look for them."""

from __future__ import annotations

import base64
import contextlib
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.sources.wandb import writer as wandb_writer
from tests.verbs.tiny_run import environment, program
from tests.warm import Warm

_MADE = "9f8e7d6c5b4a39281706f5e4d3c2b1a098765432"
SECRETS: Mapping[str, str] = {
    "W&B key": _MADE,
    "Hugging Face": "hf_" + "qWeRtYuIoP" + "aSdFgHjKlZ" + "xCvBnM1234",
    "branch": "ghp_" + "Zz9Yy8Xx7Ww6" + "Vv5Uu4Tt3Ss2" + "Rr1Qq0Pp12AB",
    "checkpoint's name": "ghp_" + "Aa1Bb2Cc3Dd4" + "Ee5Ff6Gg7Hh8" + "Ii9Jj0Kk12MN",
    "file's name": "gho_" + "Mm1Nn2Oo3Pp4" + "Qq5Rr6Ss7Tt8" + "Uu9Vv0Ww12XY",
    "display name": "ghs_" + "Bb1Cc2Dd3Ee4" + "Ff5Gg6Hh7Ii8" + "Jj9Kk0Ll12PQ",
    "job id": "glpat-" + "Dd1Ee2Ff3Gg4" + "Hh5Ii6",
    "owner": "npm_" + "Ss1Tt2Uu3Vv4" + "Ww5Xx6Yy7Zz8" + "Aa9Bb0Cc12RS",
    "remote's path": "gsk_" + "Kk1Ll2Mm3Nn4" + "Oo5Pp6Qq7Rr8",
    "AWS id": "AKIA" + "QZ7K4MXN2PLW5RTV",
    "AWS key": "uT9/kP2xQ7mZ4vB8" + "nC6yL3wR5sD1fG0hJqKe" + "Xo/a",
    "bearer": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkw" + ".Qk9PTQzYk9PTQzYkN9",
    "Slack hook": "T0PLANTED/B0PLANTED/" + "pLaNtEdSeCrEtPaTh12345678",
    "git password": "Rem0te" + "Pa55word" + "Zq81",
    "GitHub token": "github_pat_" + "11ABCDEFG0" + "plantedPLANTED1234567890",
}
"""Made up, in the shapes of real ones, and put together here so that no scanner takes them so."""

LOG_LINES = (
    f"+ WANDB_API_KEY={SECRETS['W&B key']} python train.py",
    f"using token {SECRETS['Hugging Face']} for the hub",
    f"AWS_SECRET_ACCESS_KEY={SECRETS['AWS key']} {SECRETS['AWS id']}",
    f"Authorization: Bearer {SECRETS['bearer']}",
    f"posting to https://hooks.slack.com/services/{SECRETS['Slack hook']}",
)


def leaks(data: bytes | str, *, seen: str) -> list[str]:
    """Return a line for each secret, or half of one, that stands in ``data``."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    flat = re.sub(r"\s+", "", html.unescape(re.sub(r"<[^>]*>", "", text)))
    found = []
    for name, secret in SECRETS.items():
        parts = {secret, secret[: len(secret) // 2 + 2], secret[len(secret) // 2 - 2 :]}
        coded = base64.b64encode(secret.encode()).decode()[:-4]
        for part in (*parts, coded):
            for place in (text, flat):
                at = place.find(part)
                if at >= 0:
                    near = place[max(0, at - 80) : at + 20]
                    found.append(f"{seen}: {name} behind {near!r}")
                    break
    return sorted(set(found))


class Planted:
    """A failed run of which every file, name and address holds a secret."""

    bystander: subprocess.Popen[bytes] | None = None

    def __init__(self, folder: Path, *, resubmit: str = "python train.py") -> None:
        self.folder = folder
        self.config = folder / "cockpit.toml"
        self.state = folder / "state"
        self._files(resubmit)
        self._checkpoints()
        self._tracker()
        self._code()
        self._logbook()
        self.bystander = self._bystander()

    def environment(self, **more: str) -> dict[str, str]:
        own = {
            "XDG_STATE_HOME": str(self.state),
            "WANDB_API_KEY": SECRETS["W&B key"],
            "HF_TOKEN": SECRETS["Hugging Face"],
            "AWS_SECRET_ACCESS_KEY": SECRETS["AWS key"],
            "GH_TOKEN": SECRETS["GitHub token"],
            "TERM": "xterm-256color",
        }
        return {**environment(), **own, **more}

    def cockpit(self, *words: str) -> bytes:
        """Return all that the program, and what it starts, say to these words."""
        words = (*words, "--config", str(self.config))
        done = Warm("cockpit", *words, cwd=self.folder, env=self.environment())
        out, err = done.communicate(timeout=120)
        return f"exit {done.returncode}\n{out}{err}".encode()

    def here(self, *words: str, **more: str) -> bytes:
        """Return the same, said by this process: no second is lost on starting another."""
        done = program(
            *words, "--config", str(self.config), folder=self.folder, env=self.environment(**more)
        )
        return f"exit {done.returncode}\n{done.stderr}{done.stdout}".encode()

    def written(self) -> Iterator[tuple[str, bytes]]:
        """Yield all that the program itself has written down."""
        for path in sorted(self.state.rglob("*")):
            if path.is_file():
                yield f"state: {path.relative_to(self.state)}", path.read_bytes()
        for path in sorted((self.folder / "scratch").iterdir()):
            if path.name != FOREIGN:
                yield f"state file: {path.name}", path.read_bytes()
        yield "the logbook", (self.folder / "book" / "run.md").read_bytes()
        for repository in (self.folder / "book", self.folder / "remote.git"):
            yield f"commits of {repository.name}", everything(repository)
        yield from self._beside_the_job()

    def _beside_the_job(self) -> Iterator[tuple[str, bytes]]:
        """Yield the notes of launches, claims and locks: other users can read them."""
        for path in sorted((self.folder / "out" / ".cockpit").rglob("*")):
            if path.is_file():
                yield f"beside the job: {path.name}", path.read_bytes()
        for name in ("run.pid", "run.exit"):
            if (self.folder / name).exists():
                yield name, (self.folder / name).read_bytes()

    def close(self) -> None:
        if self.bystander is not None:
            self.bystander.kill()
            self.bystander.wait(60)

    def _files(self, resubmit: str) -> None:
        now = time.time()
        step = "\n".join(f"step {n}/1000 loss=2.0" for n in range(5))
        error = f"ValueError: cannot log in with token={SECRETS['Hugging Face']}"
        trace = f'Traceback (most recent call last):\n  File "train.py", line 3\n{error}'
        (self.folder / "run.log").write_text("\n".join((*LOG_LINES, step, trace)) + "\n")
        (self.folder / "run.pid").write_text("999999\n")
        (self.folder / "run.exit").write_text("1\n")
        (self.folder / "scratch").mkdir()
        state = {
            "ts": int(now * 1000), "job_id": f"job-{SECRETS['job id']}", "restart_count": 1,
            "owner": f"eve {SECRETS['owner']}",
            "resubmit_command": f"WANDB_API_KEY={SECRETS['W&B key']} python train.py",
        }  # fmt: skip
        (self.folder / "scratch" / FOREIGN).write_text(json.dumps(state))
        config = {"hub_token": SECRETS["Hugging Face"], "lr": 0.1, "trainer": {"steps": 1000},
                  "aws_secret_access_key": SECRETS["AWS key"]}  # fmt: skip
        (self.folder / "config.json").write_text(json.dumps(config))
        self.config.write_text(RUN_FILE.replace("RESUBMIT", json.dumps(resubmit)))

    def _checkpoints(self) -> None:
        for name in ("step-10", "step-20", f"step-30-{SECRETS[NAME]}"):
            folder = self.folder / "out" / "checkpoints" / name
            folder.mkdir(parents=True)
            document = {"step": int(name.split("-")[1]), "hub_token": SECRETS["Hugging Face"]}
            (folder / "metadata.json").write_text(json.dumps(document))
            (folder / "weights").write_bytes(b"w")

    def _tracker(self) -> None:
        now = time.time()
        rows = [wandb_writer.row(n, "2.5", now - 60 + n) for n in range(5)]
        head = wandb_writer.run("abc", now - 90, project="p", name=f"run {SECRETS['display name']}")
        (self.folder / "run-abc.wandb").write_bytes(wandb_writer.log([head, *rows]))

    def _code(self) -> None:
        code = self.folder / "code"
        code.mkdir()
        git(code, "init", "-q", "-b", f"fix-{SECRETS['branch']}")
        (code / "train.py").write_text("print(1)\n")
        git(code, "add", "train.py")
        git(code, "commit", "-q", "-m", f"use WANDB_API_KEY={SECRETS['W&B key']}")
        git(code, "remote", "add", "origin", f"https://ada:{SECRETS['git password']}@127.0.0.1:9/x")
        (code / "train.py").write_text(f"print('{SECRETS['Hugging Face']}')\n")
        (code / f"new {SECRETS[FILE]}.py").write_text("x\n")

    def _logbook(self) -> None:
        git(self.folder, "init", "-q", "--bare", str(self.folder / "remote.git"))
        book = self.folder / "book"
        book.mkdir()
        git(book, "init", "-q", "-b", "main")
        (book / "run.md").write_text("# tiny: Hero Run Logbook\n\n## Run Contract\n\n- DRI: ada\n"
                                     f"- Issue: {ISSUE}\n\n## Event Log\n")  # fmt: skip
        git(book, "add", "run.md")
        git(book, "commit", "-q", "-m", "tiny: start hero-run logbook")
        git(book, "remote", "add", "origin", str(self.folder / "remote.git"))
        git(book, "push", "-q", "-u", "origin", "main")

    def _bystander(self) -> subprocess.Popen[bytes]:
        """Start a process that seems to be of this run, with a secret in its arguments."""
        script = "import time\nwhile True: time.sleep(1)"
        return subprocess.Popen(
            [sys.executable, "-c", script, "--output_root", str(self.folder / "out"),
             "--hf_token", SECRETS["Hugging Face"]],
            env={**os.environ, "WANDB_API_KEY": SECRETS["W&B key"]},
        )  # fmt: skip


class Launchable(Planted):
    """A killed run that can be acted on for real: its command names a secret, by its variable."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "train.py", "--output_root", str(folder / "out"),
                   "--hf_token", "$HF_TOKEN", "--resume", "{checkpoint}"]  # fmt: skip
        super().__init__(folder, resubmit=" ".join(command))
        assert self.bystander is not None
        super().close()
        self.bystander = None
        (folder / "run.exit").write_text("137\n")
        log = (folder / "run.log").read_text()
        (folder / "run.log").write_text(log.partition("Traceback")[0])
        shutil.rmtree(folder / "out" / "checkpoints" / f"step-30-{SECRETS[NAME]}")
        text = self.config.read_text()
        self.config.write_text(
            text.replace('exit_file = "run.exit" }', f'exit_file = "run.exit", {WORK} }}')
        )

    def close(self) -> None:
        """End whatever was started, by the pid that was noted."""
        super().close()
        pid = int((self.folder / "run.pid").read_text().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)

    def _code(self) -> None:
        """Make clean, pushed code whose history and branch hold a secret."""
        super()._code()
        code = self.folder / "code"
        (code / f"new {SECRETS[FILE]}.py").unlink()
        (code / "train.py").write_text(TRAINER)
        git(self.folder, "init", "-q", "--bare", str(self.folder / "code.git"))
        git(code, "remote", "set-url", "origin", str(self.folder / "code.git"))
        git(code, "commit", "-qam", "train")
        git(code, "push", "-q", "-u", "origin", "HEAD")


WORK = 'workdir = "code", grace = "5s"'
TRAINER = """
import os, sys, time
root = sys.argv[sys.argv.index("--output_root") + 1]
given = sys.argv[sys.argv.index("--hf_token") + 1], os.environ["HF_TOKEN"]
with open(root + "/given", "w") as file:
    file.write(" ".join(given))
print("using token", given[0], "for the hub", flush=True)
step = 20
while True:
    step += 1
    print(f"step {step}/1000 loss=2.0", flush=True)
    time.sleep(1.0)
"""
NAME = "checkpoint's name"
FILE = "file's name"
FOREIGN = "20260101-0000_monitoring_state.json"
ISSUE = "https://github.com/ada/runs/issues/1"
RUN_FILE = f"""
[cockpit]
cadence = "2s"
operator = "ada"

[notify]
routes = [{{ min = "info", url_env = "HOOK" }}, {{ min = "info", url_env = "NOT_SET" }}]
heartbeat_url_env = "DEADMAN"

[[run]]
name = "tiny"
tier = "ordinary"
dri = "ada"
goal = "see nothing"
final_step = 1000
output_root = "out"
config_file = "config.json"
resubmit = RESUBMIT
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
wandb = {{ dir = "run-abc.wandb" }}
checkpoints = {{ path = "out/checkpoints", layout = "levanter" }}
monitor = {{ state = "scratch/*_monitoring_state.json" }}
records = {{ logbook = "book/run.md", issue = "{ISSUE}" }}
code = {{ repo = "code" }}
"""


def everything(repository: Path) -> bytes:
    """Return every ref, tag, commit and patch of a repository as one text."""
    asked = (
        ("log", "--all", "-p", "--format=%an %ae %cn %d %s %b"),
        ("for-each-ref", "--format=%(refname) %(contents)"),
    )
    return b"".join(git(repository, *words, check=False) for words in asked)


def git(folder: Path, *words: str, check: bool = True) -> bytes:
    done = subprocess.run(
        ["git", *words], cwd=folder, check=check, capture_output=True, timeout=60,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
    )  # fmt: skip
    return done.stdout

"""Completion, in the shells that are here, and the manual page, read by what reads manual pages."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cockpit import __version__
from cockpit.cli import all_verbs, main
from cockpit.verbs.completing import candidates
from docs.reference import Argument, VerbPage, described, manual
from tests.e2e.tmux import Tmux

ROOT = Path(__file__).resolve().parents[2]
RUN_FILE = """
[[run]]
name = "my-run"
[run.checkpoints]
path = ["ck", "s3://b/ck", "gone"]
[[run]]
name = "other"
[[run]]
name = "$(touch hit)"
"""
LINES = {
    "cockpit chec": {"check", "checkpoints"},
    "cockpit check ": {"my-run", "other"},
    "cockpit check my-run ": {"other"},
    "cockpit relaunch --config cockpit.toml m": {"my-run"},
    "cockpit rollback my-run --to ": {"1000", "200", "30"},
    "cockpit rollback other --to ": set(),
    "cockpit triage --state c": {"cancelled"},
    "cockpit stop my-run --only ": {"held"},
    "cockpit completions ": {"bash", "fish", "zsh"},
    "cockpit schema --": {"--help"},
}
"""What stands on the line, and all that may follow."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("ck/step-200", "ck/checkpoint-30", "ck/9.orbax-checkpoint-tmp-1", "bin"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "ck" / "epoch=3-step=1000.ckpt").touch()
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    program = tmp_path / "bin" / "cockpit"
    words = shlex.join((sys.executable, str(ROOT / "run_cockpit.py")))
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    pytest.importorskip("shtab", reason="an environment made before shtab was needed: make test")
    assert main(["completions", shell]) == 0
    return capsys.readouterr().out


def ran(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_runs_and_steps_come_out_of_the_run_file(here: Path) -> None:
    assert candidates("run", ["check", ""]) == ["my-run", "other"]
    assert candidates("step", ["rollback", "my-run", "--to", ""]) == ["1000", "200", "30"]
    assert candidates("step", ["rollback", "nobody", "--to", ""]) == []
    assert candidates("run", ["check", "--config", "nowhere.toml", ""]) == []
    assert candidates("run", ["check", "--config=cockpit.toml", "m"]) == ["my-run", "other"]
    assert candidates("colour", [""]) == []


@pytest.mark.parametrize(
    "text",
    ["run = 3", "[[run]]", "[run]\nname='a'", "[[run]]\nname=['a']", "run = [1]", "\0", "[["],
)
def test_a_run_file_that_is_none_completes_nothing(text: str, here: Path) -> None:
    (here / "cockpit.toml").write_text(text)
    assert candidates("run", [""]) == []
    assert candidates("step", ["rollback", "a", ""]) == []


def test_a_tab_loads_nothing_heavy(here: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", str(ROOT / "run_cockpit.py"),
         "completions", "--values", "run", "check", ""],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert told.stdout.split() == ["my-run", "other"]
    loaded = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines()}
    assert "cockpit.verbs.completing" in loaded
    assert loaded & {"pydantic", "argparse", "asyncio", "textual", "cockpit.cli"} == set()


def test_bash_completes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "c.bash").write_text(script("bash", capsys))
    calls = "\n".join(f"try {_bash_words(line)}" for line in LINES)
    told = ran(
        "bash", "--norc", "-c",
        'source ./c.bash; try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_cockpit; '
        f'echo "${{COMPREPLY[*]}}"; }}\n{calls}',
    )  # fmt: skip
    assert dict(zip(LINES, map(set, map(str.split, told.splitlines())), strict=True)) == LINES
    assert not (here / "hit").exists()


def _bash_words(line: str) -> str:
    return " ".join(map(shlex.quote, line.split(" ")))


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "c.fish").write_text(script("fish", capsys))
    calls = "\n".join(f"complete -C {shlex.quote(line)}; echo ." for line in LINES)
    told = ran("fish", "--no-config", "-c", f"source c.fish\n{calls}").split(".\n")[:-1]
    found = [{row.partition("\t")[0] for row in each.splitlines()} for each in told]
    assert dict(zip(LINES, found, strict=True)) == LINES


@pytest.mark.tty
@pytest.mark.skipif(
    shutil.which("zsh") is None or shutil.which("tmux") is None,
    reason="zsh or tmux is not installed",
)
def test_zsh_completes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "_cockpit").write_text(script("zsh", capsys))
    opened = Tmux(here, (100, 30), {"ZDOTDIR": str(here)})
    try:
        opened.ready()
        opened.run_line("exec zsh -f")
        opened.run_line(
            "fpath=($PWD $fpath); autoload -U compinit; compinit -D -u; PS1='z''> '; clear"
        )
        opened.see_that(lambda seen: seen.strip() == "z>")
        for line in ("cockpit chec", "cockpit check my-run ", "cockpit rollback my-run --to "):
            opened.tell("send-keys", "-l", line)
            opened.press("Tab", "Tab")
            opened.see(*LINES[line])
            opened.press("C-u", "C-l")
            opened.see_that(lambda seen: seen.strip() == "z>")
    finally:
        opened.end()


def test_a_shell_that_is_not_known_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", "/opt/bin/nu")
    assert main(["completions"]) == 2
    assert "bash, zsh, fish ($SHELL is 'nu')" in capsys.readouterr().err
    monkeypatch.setenv("SHELL", "/bin/zsh")
    assert script("zsh", capsys) == (main(["completions"]), capsys.readouterr().out)[1]


@pytest.mark.parametrize("reader", [("groff", "-man", "-ww", "-z", "-Tutf8"),
                                    ("mandoc", "-Tlint", "-Werror")])  # fmt: skip
def test_the_manual_page_is_read_without_a_complaint(reader: tuple[str, ...]) -> None:
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed")
    text = manual(described(all_verbs()), __version__)
    done = subprocess.run(reader, input=text, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_nothing_in_a_help_text_is_a_request_of_the_manual_page() -> None:
    odd = Argument(("--x",), "X", ".so /etc/passwd \\fB")
    text = manual((VerbPage("v", "look", "", "'nothing", ".sh", (odd,)),), "1")
    assert "\n\\&.so /etc/passwd \\efB\n" in text and "\n\\(aqnothing\n" in text
    assert "\n\\&.sh\n" in text

"""Ctrl-C ends a verb that reads what does not end.

What ``cockpit serve`` takes, through the real entry.

The key that shows what the job's own system says reads what the verb prints.

The command line of the guarded verbs: options, approvals, examples that parse.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cockpit import __version__, cli
from cockpit.actions.core.table import TABLE, ActionEntry
from cockpit.app.replaying import described
from cockpit.cli import FAULT, all_verbs, main
from cockpit.config.file import state_dir
from cockpit.verbs import act
from cockpit.verbs.common import INTERRUPTED, USAGE, UsageError
from tests.verbs.tiny_run import TinyRun, command, environment, program


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith(f"cockpit {__version__}")


@pytest.mark.parametrize("verb", [verb.name for verb in all_verbs()])
def test_every_verb_has_help_with_an_example(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([verb, "--help"])
    assert left.value.code == 0
    assert f"example: cockpit {verb}" in capsys.readouterr().out


def test_the_overview_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    assert all(verb.name in said for verb in all_verbs())


@pytest.mark.parametrize("words", [["check", "--nonsense"], ["check", "--now", "soon"]])
def test_a_wrong_call_ends_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)
    assert left.value.code == 2
    assert capsys.readouterr().out == ""


def test_a_verb_that_there_is_not_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chekc"]) == 2
    assert capsys.readouterr().out == ""


def test_no_run_file_and_no_terminal_ends_with_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in ([], ["open"], ["check"], ["watch"]):
        assert main(words) == 2
    assert "cockpit demo" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no [[run]]"),
        ("[[run]]\nname = \n", "cockpit.toml:2"),
        ('[[run]]\nname = "r"\ncadense = "5s"\n', "cadence"),
        ('[[run]]\nname = "r"\nfinal_step = "many"\n', "cockpit.toml:3"),
    ],
)
def test_a_bad_run_file_is_one_line_each_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text(text)
    for verb in ("check", "watch", "open"):
        assert main([verb, "--config", str(path)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert said in captured.err
        assert "Traceback" not in captured.err
        assert len(captured.err.strip().splitlines()) == 1


def test_a_run_that_is_not_in_the_file_ends_with_2_and_names_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "hero"\n')
    for verb in ("check", "watch", "open"):
        assert main([verb, "heroo", "--config", str(path)]) == 2
        assert "it has: hero" in capsys.readouterr().err


def test_a_fault_of_ours_is_one_line_and_a_private_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "r"\n')

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567")

    monkeypatch.setattr("cockpit.verbs.check.Engine", broken)
    assert main(["check", "--config", str(path)]) == FAULT
    (line,) = capsys.readouterr().err.strip().splitlines()
    (details,) = (state_dir() / "crashes").iterdir()
    assert str(details) in line
    assert details.stat().st_mode & 0o077 == 0
    assert "RuntimeError" in details.read_text()
    assert "0123456789abcdef" not in line + details.read_text()


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "cockpit.toml"
    path.write_text('[[run]]\nname = "r"\n')
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        command("check", "--json", "--config", str(path)),
        stdout=write, stderr=subprocess.PIPE, env=environment(), timeout=60, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.stderr == b""


def test_looking_up_a_verb_imports_no_other(tmp_path: Path) -> None:
    code = (
        "import sys; from cockpit.cli import main\n"
        "try: main(['check', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'textual', 'wandb', 'httpx', 'git', 'plotext', 'cockpit.verbs.watch'}\n"
        "print(sorted(heavy & sys.modules.keys()), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stderr.strip() == "[]"


def _said(words: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[bytes]:
    (folder / "cockpit.toml").write_text('[[run]]\nname = "r"\n')
    return subprocess.run(
        ["sh", "-c", f'"$@" {words[-1]}', "sh", *command(*words[:-1])],
        cwd=folder, env={**environment(), **variables}, capture_output=True, check=False,
    )  # fmt: skip


def test_a_closed_standard_output_is_no_fault(tmp_path: Path) -> None:
    done = _said(["check", ">&-"], tmp_path)
    assert (done.returncode, done.stderr) == (3, b"")


@pytest.mark.parametrize("words", [["open", "<&-"], ["open", ">&-"], ["demo", "<&-"]])
def test_the_ui_with_a_closed_stream_says_that_it_needs_a_terminal(
    words: list[str], tmp_path: Path
) -> None:
    done = _said(words, tmp_path)
    assert done.returncode == 2 and b"needs a terminal" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_below_standard_output_is_one_line(tmp_path: Path) -> None:
    done = _said(["check", "> /dev/full"], tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        b"cockpit: standard output cannot be written: No space left on device"
    ]


def test_a_terminal_without_unicode_gets_escapes_and_valid_json(tmp_path: Path) -> None:
    done = _said(["doctor", ""], tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode in (0, 1) and done.stdout.isascii()
    (tmp_path / "\U0001f916" / "step-5").mkdir(parents=True)
    (tmp_path / "\U0001f916" / "step-5" / "metadata.json").write_text('{"step": 5}')
    listed = ["checkpoints", "\U0001f916", "--json", ""]
    done = _said(listed, tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout)["items"][0]["path"].endswith("\U0001f916/step-5")


def test_a_digit_that_is_no_number_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["watch", "--until", "step=\u00b2"])
    assert "expected step=20000" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--config", "a.toml"],
        ["--config=runs/a.toml", "--ascii"],
        ["--read-only"],
        ["--present", "--config", "a.toml"],
        ["hero-7b"],
        ["--config", "--read-only"],
        ["--read"],
    ],
)
def test_a_plain_call_of_the_ui_is_understood_as_a_parser_would(words: list[str]) -> None:
    argv = ["open", *words]
    plain = cli._plain(argv)
    if plain is None:
        assert words in (["hero-7b"], ["--config", "--read-only"], ["--read"])
        return
    parsed = cli._parser(cli._named("open", cli.all_verbs())).parse_args(argv)
    read_only = parsed.read_only or parsed.present
    wanted = {**vars(parsed), "read_only": read_only}
    del wanted["verbs"]
    assert vars(plain) == wanted


@pytest.mark.parametrize("verb", ["backtest", "plot", "progress", "triage"])
def test_one_ctrl_c_ends_what_reads_rows_that_do_not_end(verb: str) -> None:
    """An event loop takes the first one and hears it only where something is awaited."""
    reading = subprocess.Popen(
        command(verb, "-"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reading.stdin is not None
    try:
        for step in range(20_000):  # more than a pipe holds: it is within the rows by then
            reading.stdin.write(b'{"step": %d, "loss": 2.5}\n' % step)
        reading.stdin.flush()
        reading.send_signal(signal.SIGINT)
        assert reading.wait(60.0) == INTERRUPTED
    finally:
        reading.kill()
        reading.communicate()


RUN = """
[[run]]
name = "toy"
output_root = "out"
"""


@pytest.mark.parametrize(
    ("token", "code"),
    [
        ("0123456789abcdef", 0),
        ("", USAGE),
        ("0123456789abcde", USAGE),
        ("0123456789 abcdef", USAGE),
        ("0123456789abcdef\n", USAGE),
        ("ключ-ключ-ключ-ключ", USAGE),
        ("\udcff" * 16, USAGE),
    ],
)
def test_a_token_that_no_header_can_carry_is_refused(
    token: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A proxy would send it in vain: nobody whom it lets in could look."""
    file = tmp_path / "cockpit.toml"
    file.write_text(RUN)
    monkeypatch.setattr("cockpit.app.browser_app.serve_app", lambda *_, **__: 0)
    monkeypatch.setenv("COCKPIT_TOKEN", token)
    proxy = ("--url", "https://ops.example/", "--token-env", "COCKPIT_TOKEN")
    assert main(["serve", "--config", str(file), *proxy]) == code
    said = capsys.readouterr()
    assert ("has no token of 16 characters" in said.err) is (code == USAGE)
    assert not token.strip() or token not in said.err + said.out


async def test_a_screen_reads_what_the_verb_prints(tiny: TinyRun) -> None:
    before = time.time()
    found = await described(str(tiny.config), "tiny")
    assert (found.run, found.system, found.problem) == ("tiny", "this machine", None)
    assert before <= found.at <= time.time() + 1 and "what has process number" in found.text


def test_what_a_person_names_as_a_job_is_safe_to_print(tiny: TinyRun) -> None:
    done = program("describe", "tiny", "--job", "x\x1b[31m", folder=tiny.config.parent)
    assert done.returncode == 0 and "\x1b" not in done.stdout


def _parsed(call: str) -> tuple[argparse.Namespace, ActionEntry]:
    words = shlex.split(call)
    row = next(row for row in TABLE if row.verb == words[0])
    parser = argparse.ArgumentParser()
    act.add_row_arguments(parser.add_subparsers().add_parser(row.verb), row)
    return parser.parse_args(words), row


def test_interface_s_forms_are_understood() -> None:
    for call, expected in {
        "rollback hero --to 46000": {"to": "46000"},
        "handoff hero --to bob": {"to": "bob"},
        "ack hero C-05:hero --by ada --until 2026-03-11T09:00:00Z --reason dip": {
            "key": "C-05:hero", "by": "ada", "until": "2026-03-11T09:00:00Z", "reason": "dip",
        },
        "log hero --event drop --status a --evidence b --decision c --next d": {
            "event": "drop", "status": "a", "evidence": "b", "decision": "c", "next": "d",
        },
        "lineage hero --run-id b --wandb-id w --output-root gs://b --from 5 --reason why": {
            "run-id": "b", "wandb-id": "w", "output-root": "gs://b", "from": "5", "reason": "why",
        },
    }.items():  # fmt: skip
        args, row = _parsed(call)
        assert act.params_of(args, row) == expected
        assert act.approvals_of(args) == ()


def test_by_and_reason_belong_to_the_approval_before_them() -> None:
    args, row = _parsed(
        "lineage hero --run-id b --reason 'new data' --approve C-15 --by bob --reason 'only a log' "
        "--approve C-18:lr --reason wanted --by ada"
    )
    assert act.params_of(args, row) == {"run-id": "b", "reason": "new data"}
    given = [(each.check, each.by, each.reason) for each in act.approvals_of(args)]
    assert given == [("C-15", "bob", "only a log"), ("C-18:lr", "ada", "wanted")]


@pytest.mark.parametrize("missing", ["", "--by bob", "--reason because", "--by '' --reason x"])
def test_an_approval_without_a_name_or_a_reason_is_a_usage_error(missing: str) -> None:
    args, _ = _parsed(f"relaunch hero --approve C-15 {missing}")
    with pytest.raises(UsageError, match="--by NAME and --reason TEXT"):
        act.approvals_of(args)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.verb)
def test_every_verb_has_an_example_that_parses(row: ActionEntry) -> None:
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers()
    act.add_row_arguments(verbs.add_parser(row.verb), row)
    epilog = verbs.choices[row.verb].epilog or ""
    words = shlex.split(epilog.partition("cockpit ")[2].replace("…", "x"))
    assert parser.parse_args(words).confirm

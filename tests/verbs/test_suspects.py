"""Suspect, emptied and stepless checkpoints, through the program itself, on real files.

More checkpoints than one look has time for: what is not looked at is never called nothing.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.actions.core import whole
from cockpit.cli import main
from cockpit.sources.checkpoints import look
from cockpit.sources.checkpoints.bucket import Survey
from cockpit.sources.checkpoints.host import HostTree
from cockpit.sources.checkpoints.source import list_checkpoints
from cockpit.text.scrub import Scrubber
from cockpit.verbs import checkpoints, scrub
from cockpit.verbs.common import UsageError
from cockpit.verbs.scrub import copy
from tests.sources.checkpoints.test_archive import archive
from tests.sources.checkpoints.trees import NOW, levanter, put
from tests.verbs.acting_run import World
from tests.verbs.tiny_run import command, environment

HEAD = '[cockpit]\ncadence = "30s"\noperator = "ada"\n'
RUN = """
[[run]]
name = "toy"
dri = "ada"
tier = "ordinary"
final_step = 5000
output_root = "out"
resubmit = "{command}"
job = {{ kind = "local", log = "run.log", pid_file = "run.pid", exit_file = "run.exit" }}
checkpoints = {{ path = "out", layout = "{layout}", save_every = "5m", keep = 2 }}
"""


class Folder:
    """A run that is over, its log and its saves; nothing in it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.out.mkdir()
        self.began = time.time() - 7200
        self.lines: list[str] = []
        self.config = folder / "cockpit.toml"
        self.of()

    def of(self, command: str = "python3 train.py", layout: str = "auto") -> None:
        self.config.write_text(HEAD + RUN.format(command=command, layout=layout))

    def logged(self, first: int, last: int, at: float, bad: int | None = None) -> None:
        """Log a step a second, without a number from ``bad`` on."""
        for step in range(first, last + 1):
            moment = datetime.fromtimestamp(at + step, tz=UTC).strftime("%Y-%m-%d %H:%M:%SZ")
            loss = "nan" if bad is not None and step >= bad else f"{3 - step / 5000:.4f}"
            self.lines.append(f"{moment} step {step}/5000 loss={loss}")
        put(self.folder / "run.log", "\n".join(self.lines) + "\n", at + last)

    def ended(self, status: int = 1) -> None:
        put(self.folder / "run.exit", f"{status}\n", (self.folder / "run.log").stat().st_mtime + 1)

    def told(self, *words: str) -> dict[str, Any]:
        main([*words, "--json", "--config", str(self.config)])
        document: dict[str, Any] = json.loads(self.capsys.readouterr().out)
        return document

    capsys: pytest.CaptureFixture[str]

    def seen(self) -> dict[str, Any]:
        (run,) = self.told("check")["runs"]
        found: dict[str, Any] = run
        return found

    def checks(self, *words: str) -> dict[str, tuple[str, bool, str]]:
        plan = self.told(*words)
        found = ((c["id"], (c["level"], c["overridable"], c["text"])) for c in plan["checks"])
        return dict(found)


@pytest.fixture
def folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Folder]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    made = Folder(tmp_path)
    made.capsys = capsys
    yield made


def suspects(value: dict[str, Any]) -> list[int]:
    return [item["step"] for item in value["items"] if item["suspect"]]


def test_a_listing_says_that_the_rows_which_tell_the_suspect_ones_could_not_be_read(
    folder: Folder,
) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    assert main(["checkpoints", "out", "--config", str(folder.config)]) == 0
    assert "suspect is not known" not in folder.capsys.readouterr().err
    (folder.folder / "run.log").unlink()
    (folder.folder / "run.log").mkdir()
    assert main(["checkpoints", "out", "--config", str(folder.config)]) == 0
    assert "it is not certain which are suspect: " in folder.capsys.readouterr().err


def test_a_listing_of_a_folder_above_the_roots_knows_the_suspect_ones_too(folder: Folder) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    assert suspects(folder.told("checkpoints", str(folder.folder))) == [200]
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"second"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    levanter(folder.folder / "second", 250, at=folder.began + 250.5)
    both = folder.told("checkpoints", str(folder.folder))
    assert suspects(both) == [200]
    protected = {item["step"]: item["protected"] for item in both["items"]}
    assert "newest complete" in " ".join(protected[200]) and protected[250] == ["newest complete"]
    assert both["relaunch_from"] is None and both["trainer_would_load"] is None
    main(["checkpoints", str(folder.folder), "--config", str(folder.config)])
    assert "checkpoints of 2 runs: name one run's roots" in folder.capsys.readouterr().out


def test_a_listing_of_one_checkpoint_tells_what_a_relaunch_of_the_run_would_take(
    folder: Folder,
) -> None:
    folder.logged(1, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    (one,) = (each["path"] for each in folder.seen()["facets"]["checkpoints"]["value"]["items"][1:])
    part = folder.told("checkpoints", one)
    assert suspects(part) == [200] and part["relaunch_from"]["step"] == 100
    main(["checkpoints", one, "--config", str(folder.config)])
    assert "every complete checkpoint is suspect" not in folder.capsys.readouterr().out


def test_a_listing_from_far_above_has_what_lies_in_the_roots(folder: Folder) -> None:
    far = str(folder.folder)
    levanter(folder.out / "a/b/c", 100, at=folder.began)
    deep = HEAD + RUN.format(command="python3 train.py", layout="auto")
    folder.config.write_text(deep.replace('path = "out"', 'path = "out/a/b/c"'))
    one = folder.told("checkpoints", far)
    assert [item["step"] for item in one["items"]] == [100] and one["latest_complete"] == 100
    assert one["relaunch_from"]["step"] == 100
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"out/second/b/c"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    levanter(folder.out / "second/b/c", 250, at=folder.began)
    both = folder.told("checkpoints", far)
    assert [item["step"] for item in both["items"]] == [100, 250]
    assert both["relaunch_from"] is None
    (folder.out / "second").rename(folder.folder / "elsewhere")
    assert [item["step"] for item in folder.told("checkpoints", far)["items"]] == [100]


def test_no_checkpoint_in_sight_of_several_runs_is_no_start_from_scratch(folder: Folder) -> None:
    second = RUN.format(command="python3 train.py", layout="auto").replace("run.", "second.")
    second = second.replace('"out"', '"second"').replace('"toy"', '"other"')
    folder.config.write_text(folder.config.read_text() + second)
    main(["checkpoints", str(folder.folder), "--config", str(folder.config)])
    told = folder.capsys.readouterr().out
    assert "no checkpoint was found" in told and "scratch" not in told


def test_a_listing_has_the_remark_on_one_saved_between_the_last_sound_row_and_the_first_other(
    folder: Folder,
) -> None:
    folder.logged(1, 120, folder.began)
    folder.logged(130, 300, folder.began, bad=130)
    folder.ended()
    for step in (100, 125, 200):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    notes = {item["step"]: item["note"] for item in folder.told("checkpoints", "out")["items"]}
    assert "saved between step 120, still good, and step 130" in (notes[125] or "")


def test_what_was_saved_after_the_numbers_were_lost_is_nowhere_taken_for_good(
    folder: Folder,
) -> None:
    folder.logged(1, 1500, folder.began, bad=130)  # its end holds no number at all
    folder.ended()
    for step in range(50, 1501, 50):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    run = folder.seen()
    value = run["facets"]["checkpoints"]["value"]
    assert suspects(value) == list(range(150, 1501, 50))
    assert value["relaunch_from"]["step"] == 100 and value["latest_complete"] == 1500
    assert value["trainer_would_load"]["step"] == 1500
    assert "from step 1,500" not in run["next_action"]
    assert suspects(folder.told("checkpoints", "out")) == list(range(150, 1501, 50))
    level, overridable, text = folder.checks("relaunch", "toy")["suspect"]
    assert (level, overridable) == ("block", True) and "step 1,500" in text
    assert "cockpit rollback toy --to 100" in text
    level, overridable, text = folder.checks("rollback", "toy", "--to", "1000")["suspect"]
    assert (level, overridable) == ("block", True) and "step 130" in text and "step 100" in text
    assert "suspect" not in folder.checks("rollback", "toy", "--to", "100")
    plan = folder.told("retain", "toy")
    assert not {50, 100} & {target["step"] for target in plan["targets"]}
    folder.of("python3 train.py --load {checkpoint}")
    plan = folder.told("relaunch", "toy")
    assert plan["checkpoint"]["step"] == 100 and plan["command"].endswith("/step-100")
    assert "suspect" not in {check["id"] for check in plan["checks"]}


def test_a_replay_that_is_sound_is_good_and_the_old_saves_stay_suspect(folder: Folder) -> None:
    folder.logged(1, 400, folder.began, bad=130)
    folder.logged(101, 300, folder.began + 1000)
    folder.ended()
    for step in (50, 100, 350, 400):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    for step in (150, 200, 250, 300):
        levanter(folder.out, step, at=folder.began + 1000 + step + 0.5)
    value = folder.seen()["facets"]["checkpoints"]["value"]
    assert suspects(value) == [350, 400]
    assert value["relaunch_from"]["step"] == 300


def test_a_marker_whose_data_is_gone_is_not_taken(folder: Folder) -> None:
    folder.logged(1, 700, folder.began)
    folder.ended(137)
    for step in (500, 600, 700):
        levanter(folder.out, step, at=folder.began + step + 0.5)
    for path in (folder.out / "step-700").rglob("*"):
        if path.is_file() and path.name != "metadata.json":
            path.unlink()
    value = folder.seen()["facets"]["checkpoints"]["value"]
    last = value["items"][-1]
    assert (last["step"], last["state"]) == (700, "incomplete")
    assert last["note"] == "no data beside metadata.json"
    assert value["relaunch_from"]["step"] == value["latest_complete"] == 600
    level, overridable, text = folder.checks("relaunch", "toy")["C-17"]
    assert (level, overridable) == ("block", False) and "would load step 700" in text
    assert "--to 600 --move yes" in text


def test_a_file_without_a_step_is_relaunched_from(folder: Folder) -> None:
    folder.logged(1, 260, folder.began)
    folder.ended(137)
    state = {"model": {}, "optimizer": {}, "iter_num": 250}
    put(folder.out / "ckpt.pt", archive(state), folder.began + 251)
    for layout in ("auto", "nanogpt"):
        folder.of("python3 train.py --init_from=resume", layout)
        run = folder.seen()
        value = run["facets"]["checkpoints"]["value"]
        assert [item["step"] for item in value["items"]] == [250]
        assert value["relaunch_from"]["path"].endswith("/out/ckpt.pt")
        assert "relaunch toy from step 250" in run["next_action"]
        plan = folder.told("relaunch", "toy")
        found = {check["id"]: check for check in plan["checks"]}
        assert found["C-17"]["level"] == "pass" and "--init_from=resume" in found["C-17"]["text"]
        assert "checkpoint" not in found and plan["checkpoint"]["step"] == 250
    put(folder.out / "ckpt.pt", archive({"model": {}}), folder.began + 251)
    folder.of("python3 train.py --from {checkpoint}", "nanogpt")
    plan = folder.told("relaunch", "toy")
    found = {check["id"]: check for check in plan["checks"]}
    assert found["C-17"]["level"] == "pass" and "step unknown" in found["C-17"]["text"]
    assert plan["checkpoint"]["step"] is None and plan["command"].endswith("/out/ckpt.pt")
    folder.of("python3 train.py", "nanogpt")
    level, overridable, text = folder.checks("relaunch", "toy")["resume"]
    assert (level, overridable) == ("block", True) and "overwrites" in text
    main(["check", "--config", str(folder.config)])
    assert "ckpt.pt" in folder.capsys.readouterr().out


def test_what_a_former_job_left_torn_is_not_blamed_on_the_new_one(folder: Folder) -> None:
    folder.logged(1, 700, folder.began)
    levanter(folder.out, 600, at=folder.began + 600)
    levanter(folder.out, 700, at=folder.began + 700, marker=None)
    (folder.folder / "run.pid").write_text(f"{os.getpid()}\n")  # a job that has just begun
    run = folder.seen()
    torn = run["facets"]["checkpoints"]["value"]["items"][-1]
    assert torn["state"] == "incomplete"
    told = json.dumps(run["alerts"])
    assert "full disk" not in told and "unfinished for too long" not in told
    assert "left by an earlier job" in told


def call(*words: str) -> int:
    parser = argparse.ArgumentParser()
    checkpoints.add_arguments(parser.add_subparsers(dest="verb").add_parser("checkpoints"))
    return checkpoints.run(parser.parse_args(["checkpoints", *words]))


def test_json_is_the_facets_value_and_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path / "p", 100)
    levanter(tmp_path / "t", 115, temporary=True)
    assert call(str(tmp_path / "p"), str(tmp_path / "t"), "--json") == 0
    out = capsys.readouterr()
    document = json.loads(out.out)
    assert out.err == ""
    shape = {"latest_complete", "relaunch_from", "trainer_would_load", "items"}
    assert set(document) == {"schema", *shape}
    assert document["schema"] == 1 and document["latest_complete"] == 115
    assert set(document["items"][0]) == {
        *("step", "name_step", "path", "root", "state", "marker", "saved_at", "size"),
        *("permanent", "protected", "suspect", "lineage", "note"),
    }


def test_the_table_marks_what_a_relaunch_takes_and_why_another_is_torn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    levanter(tmp_path, 46000)
    levanter(tmp_path, 46250, marker=None)
    assert call(str(tmp_path)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("▸" in line and "46,000" in line and "complete" in line for line in lines)
    assert any("46,250" in line and "no metadata.json" in line for line in lines)
    assert lines[-1].startswith("a relaunch would take step 46,000")


def test_the_table_tells_when_the_trainer_would_take_another(tmp_path: Path) -> None:
    levanter(tmp_path, 100)
    levanter(tmp_path, 200, marker='{"step": 200}')
    lines = checkpoints.table(list_checkpoints([str(tmp_path)], now=NOW), NOW)
    assert f"the trainer itself would load {tmp_path / 'step-100'}" in lines[-1]


def test_what_is_not_found_is_not_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hydra makes a folder for the date, one for the time, and the trainer one for its saves."""
    levanter(tmp_path / "llama" / "2026-11-29" / "10-00-00" / "checkpoints", 100)
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path, tmp_path / "empty"):
        assert call(str(folder)) == 0
        out = capsys.readouterr().out
        assert "no checkpoint was found here or up to 2 folders below" in out
        assert "what a relaunch would start from cannot be told" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["{tmp}/nowhere"], "does not exist"),
        (["{tmp}", "--layout", "orbix"], 'did you mean "orbax"'),
        (["hdfs://bucket/x"], "cannot be read"),
        (["{tmp}", "--pattern", r"a(\d+)"], "needs both"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path: Path, words: list[str], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        call(*(word.format(tmp=tmp_path) for word in words))
    assert len(caught.value.lines) == 1 and told in caught.value.lines[0]


@pytest.mark.parametrize("in_time", [True, False])
def test_a_relaunch_takes_the_time_that_its_listing_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, in_time: bool
) -> None:
    monkeypatch.setattr(look, "survey_here", _three_at_a_look)
    if not in_time:
        monkeypatch.setattr(whole, "Anew", _hung)
    world = World(tmp_path)
    world.add("toy")
    world.save("toy", *range(20, 180, 20))
    world.ended("toy", 137)
    _, plan, _ = world.told("relaunch", "toy")
    (check,) = [each for each in plan["checks"] if each["id"] == "C-17"]
    if in_time:
        assert check["level"] == "pass" and "the trainer agrees" in check["text"]
        assert plan["trainer_would_load"]["path"] == plan["checkpoint"]["path"]
    else:
        assert check["level"] == "block" and plan["trainer_would_load"] is None
        assert "5 checkpoints not read in time" in check["text"]
        assert "start at 0" not in check["text"]


def _three_at_a_look() -> Survey:
    tree = HostTree(None)
    tree.limits = tree.limits._replace(newest=1, growth=1, rounds=4)
    return Survey(tree)


def _hung(*_: object) -> None:
    raise TimeoutError


KEY = "0123456789abcdef" * 2 + "01234567"
NAMED = f"WANDB_API_KEY={KEY}".encode()


def masked(data: bytes) -> bytes:
    target = io.BytesIO()
    copy(io.BufferedReader(io.BytesIO(data)), target)
    return target.getvalue()


def test_keys_go_and_every_other_byte_stays() -> None:
    data = b"a " + NAMED + b" b\r\n\xff\xfe raw\x00\n\n" + NAMED
    assert masked(data) == b"a WANDB_API_KEY=**** b\r\n\xff\xfe raw\x00\n\nWANDB_API_KEY=****"


def test_a_private_key_over_several_lines() -> None:
    body = ("MIIEpAIBAAKCAQEA" * 4).encode()
    begin, end = b"-----BEGIN RSA PRIVATE KEY-----", b"-----END RSA PRIVATE KEY-----"
    data = b"\n".join([b"before", begin, body, body, end, b"after " + b"x" * 64, b""])
    out = masked(data)
    assert body not in out
    assert out.startswith(b"before\n" + begin) and out.endswith(b"after " + b"x" * 64 + b"\n")


def test_progress_bars_are_lines_too() -> None:
    assert masked(b"1%\r" + NAMED + b"\r3%\n") == b"1%\rWANDB_API_KEY=****\r3%\n"


@pytest.mark.parametrize(
    ("filler", "shift"),
    [(b"step loss ", shift) for shift in (0, 3, 17, 30, 400, 520, 70_000)]
    + [(b"x" * 10, shift) for shift in (17, 70_000)],
)
def test_a_line_without_an_end_is_masked_in_parts(
    filler: bytes, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    longest = 1 << 17
    monkeypatch.setattr(scrub, "LONGEST", longest - 1)  # so the first parting is there
    before = (filler * (longest // len(filler) + 1))[: longest - shift]
    after = filler * 8_000
    out = masked(before + b" " + NAMED + b" " + after)
    assert out == before + b" WANDB_API_KEY=**** " + after


@given(st.binary(max_size=300))
def test_any_bytes_come_out_as_the_scrubber_says(data: bytes) -> None:
    scrubber = Scrubber()
    lines = data.decode("utf-8", "surrogateescape").split("\n")
    expected = "\n".join("\r".join(map(scrubber.line, line.split("\r"))) for line in lines)
    assert masked(data) == expected.encode("utf-8", "surrogateescape")


def test_it_speaks_as_it_hears_and_leaves_when_nobody_reads() -> None:
    process = subprocess.Popen(
        command("scrub"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(NAMED + b"\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"WANDB_API_KEY=****\n"
    process.stdout.close()
    try:
        for _ in range(1000):
            process.stdin.write(b"more\n" * 100)
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(60) == 141
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_memory_stays_the_same_however_long_the_text() -> None:
    script = (
        "import io, os, resource, sys\n"
        "from cockpit.verbs import scrub\n"
        "scrub.LONGEST = 1 << 18\n"
        "class Endless(io.RawIOBase):\n"
        "    left = 16_000_000\n"
        "    def readable(self): return True\n"
        "    def readinto(self, into):\n"
        "        n = min(len(into), self.left); self.left -= n\n"
        "        into[:n] = (b'step 1 loss 2.0' * (n // 15 + 1))[:n]; return n\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "scrub.copy(io.BufferedReader(Endless()), open(os.devnull, 'wb'))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [command()[0], "-c", script], env=environment(), capture_output=True, check=True
    )
    assert int(done.stdout) < 12_000

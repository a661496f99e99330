from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.records.logbook.entry_text import Drafts


def test_a_draft_is_kept_replaced_and_dropped(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path / "drafts")
    assert drafts.get("run", "event") is None
    drafts.put("run", "event", "half a sen")
    drafts.put("run", "event", "half a sentence\r\n\ttail  ")
    drafts.put("other", "event", "x")
    assert Drafts(tmp_path / "drafts").get("run", "event") == "half a sentence\r\n\ttail  "
    drafts.drop("run", "event")
    drafts.drop("run", "event")
    assert drafts.get("run", "event") is None
    assert drafts.get("other", "event") == "x"


def test_drafts_are_private(tmp_path: Path) -> None:
    Drafts(tmp_path / "a/drafts").put("run", "event", "x")
    folder = tmp_path / "a/drafts"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]


@given(st.text(max_size=30), st.text(max_size=30), st.text())
def test_any_name_and_any_text_come_back(
    tmp_path_factory: pytest.TempPathFactory, run: str, kind: str, text: str
) -> None:
    folder = tmp_path_factory.mktemp("drafts")
    drafts = Drafts(folder)
    drafts.put(run, kind, text)
    assert drafts.get(run, kind) == text
    assert [path.parent for path in folder.rglob("*")] == [folder]


def test_what_is_not_a_draft_is_none(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path)
    drafts.put("run", "event", "x")
    (place,) = tmp_path.iterdir()
    for other in ("{", "[]", "{}", "[" * 100_000):
        place.write_text(other)
        assert drafts.get("run", "event") is None
        assert drafts.unfinished("run", "event") is None
    place.unlink()
    place.mkdir()
    assert drafts.get("run", "event") is None


WRITER = """
import sys
from pathlib import Path
from cockpit.records.logbook.entry_text import Drafts
n = 0
while True:
    n += 1
    Drafts(Path(sys.argv[1])).put("run", "event", f"{n} " * 20000)
    if n == 5: print("ready", flush=True)
"""


def test_killed_while_writing_it_leaves_one_whole_draft(tmp_path: Path) -> None:
    for _ in range(5):
        argv = [sys.executable, "-c", WRITER, str(tmp_path)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.kill()
        words = (Drafts(tmp_path).get("run", "event") or "").split()
        assert len(words) == 20000 and len(set(words)) == 1


def test_what_is_told_of_a_draft_is_not_what_it_says(tmp_path: Path) -> None:
    drafts = Drafts(tmp_path)
    assert drafts.unfinished("run", "event") is None
    drafts.put("run", "event", "a secret thought\n\nand another\n", "ada\x1b[2J")
    found = drafts.unfinished("run", "event")
    assert found is not None and found.by.startswith("ada") and "\x1b" not in found.by
    assert found.lines == 3 and "thought" not in found.words
    os.utime(next(tmp_path.iterdir()), (1773198720.0, 1773198720.0))
    found = drafts.unfinished("run", "event")
    assert found is not None and found.words.endswith(", 3 lines, 2026-03-11 03:12 UTC")
    drafts.put("run", "event", " \n")
    assert drafts.unfinished("run", "event") is None
    drafts.put("run", "event", "one")
    found = drafts.unfinished("run", "event")
    assert found is not None and "by nobody named, 1 line, " in found.words

"""Several logs of one job through ``check``: each is read for why the job ended."""

from __future__ import annotations

from pathlib import Path

from tests.verbs.checking import check

RUN_FILE = """
[cockpit]
operator = "ada"
[[run]]
name = "toy"
final_step = 600
[run.job]
kind = "local"
log = ["run.out", "run.err"]
exit_file = "run.exit"
"""
TRACEBACK = """Traceback (most recent call last):
  File "/home/u/train.py", line 12, in <module>
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 3 has a total
"""


def test_what_ended_it_stands_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "cockpit.toml").write_text(RUN_FILE)
    (tmp_path / "run.err").write_text(TRACEBACK)
    (tmp_path / "run.out").write_text("".join(f"step {at}/600 loss 2.5\n" for at in range(9)))
    (tmp_path / "run.exit").write_text("1\n")
    found = check(tmp_path)
    log = found["facets"]["log"]["value"]
    assert log["path"] == str(tmp_path / "run.out")
    assert [each["path"] for each in log["others"]] == [str(tmp_path / "run.err")]
    assert log["triage"]["class"] == "oom_device"
    ended = next(each for each in found["alerts"] if each["id"] == "C-01")
    assert any(each["source"].startswith(str(tmp_path / "run.err")) for each in ended["evidence"])

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.sources.logs.file import line_at, nearest_step, nearest_time, step_pattern
from cockpit.sources.logs.pieces import LocalLog


@pytest.mark.parametrize(
    "line",
    ["step 130 | loss 2", "step: 130", "step=130,", "{'step': 130}", "iter 130:", "[step=130/9000",
     "global_step 130", " 13%|#| 130/1000 [", "at step 130.", "steps 130"],
)  # fmt: skip
def test_a_step_is_known_in_many_forms(line: str) -> None:
    assert re.search(step_pattern(130), line)


@pytest.mark.parametrize(
    "line", ["step 1305", "step 1130", "step 130.5", "step 130,000", "130 ms", "loss 130", "13/130"]
)
def test_a_step_is_no_part_of_another_number(line: str) -> None:
    assert not re.search(step_pattern(130), line)


def test_the_thousands_may_be_told_apart() -> None:
    assert re.search(step_pattern(12345), "step 12,345 | loss")
    assert not re.search(step_pattern(345), "step 12,345 | loss")


@given(st.lists(st.sampled_from(["a", "", "step 3 loss 2"]), max_size=50), st.integers(1, 60))
def test_a_line_is_found_by_its_number(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], number: int
) -> None:
    path = tmp_path_factory.mktemp("line") / "run.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    found = line_at(LocalLog(path), number)
    starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
    assert found == (starts[number - 1] if number <= len(lines) else None)


def test_the_nearest_step_of_a_large_log(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    noise = "a line that tells nothing at all, 12 of them\n" * 3
    path.write_text("".join(f"step {n} | loss 2.5\n{noise}" for n in range(0, 200_000, 8)))
    data = path.read_bytes()
    for step, near in ((0, 0), (130, 128), (1304, 1304), (199_999, 199_992), (10**9, 199_992)):
        found = nearest_step(LocalLog(path), step)
        assert found is not None and found.value == near
        assert data[found.offset :].startswith(b"step %d |" % near)
    assert nearest_time(LocalLog(path), 5.0) is None
    path.write_text("nothing\n")
    assert nearest_step(LocalLog(path), 5) is None

"""How much of a log was looked through for the first broken line, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path

from cockpit.rules.present import gap
from cockpit.sources.logs.follow import CLEAN, before
from cockpit.sources.logs.local import LocalLog
from tests.rules.making import T0, history


def test_it_tells_where_its_reading_began_also_in_a_log_read_in_one_piece(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    lines = [f"step {n} loss=2.5\n".encode() for n in range(2000)]
    lines += [f"step {n} loss=nan\n".encode() for n in range(2000, 2100)]
    log.write_bytes(b"".join(lines))
    found = before(LocalLog(log), log.stat().st_size)
    assert found.found and found.begin == sum(map(len, lines[: 2000 - CLEAN]))
    assert found.states[0] == lines[2000 - CLEAN].strip()


def test_the_part_that_was_not_read_is_never_none_of_it() -> None:
    cases = [history(T0).model_copy(update={"rows_from": share}) for share in (0.001, 0.45, 1.0)]
    told = [gap(case)[0].text for case in cases]
    assert [text.partition(" of ")[0] for text in told] == [
        "the beginning", "the first 45 %", "the first 99 %"
    ]  # fmt: skip

from pathlib import Path

import pytest

from cockpit.hosts.here import HERE_LINK
from cockpit.hosts.link import ask
from cockpit.model.facet import Problem
from cockpit.platforms.local.census import Process


async def test_where_there_is_no_proc_one_line_says_so(tmp_path: Path) -> None:
    asked = ask("its processes", "processes", proc=str(tmp_path))
    (said,) = (await HERE_LINK.ask([asked])).values()
    assert isinstance(said, Problem)
    assert said.message == f"{tmp_path}: processes are seen on Linux alone"


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (b"COCKPIT_RUN=a\0HOME=/root\0", "a"),
        (b"HOME=/root\0COCKPIT_RUN=a", "a"),
        (b"A=1\0COCKPIT_RUN=a\0COCKPIT_RUN=b\0", "a"),
        (b"OLD_COCKPIT_RUN=b\0COCKPIT_RUN=a=c\0", "a=c"),
        (b"A=COCKPIT_RUN=b\0", None),
        (b"A=1\0COCKPIT_RUN=\0B=2\0", ""),
        (b"COCKPIT_RUN=\xff\0", "\N{REPLACEMENT CHARACTER}"),
        (b"COCKPIT_RUNS=b\0", None),
        (b"", None),
        (None, None),
    ],
)
def test_a_variable_is_what_its_own_name_stands_for(env: bytes | None, told: str | None) -> None:
    process = Process(7, 1, 7, 7, 0, "S", 5, ("python",), env, None)
    assert process.variable("COCKPIT_RUN") == told

from __future__ import annotations

import os
import subprocess

import pytest

from cockpit.runtime.incarnation import (
    Machine,
    Start,
    Where,
    here,
    lives,
    same_start,
    where,
)
from cockpit.runtime.process import process_facts

MINE = Machine("box", "m1", "b1", "s1")


@pytest.mark.parametrize(
    ("noted", "found"),
    [
        (Machine(), Where.HERE),
        (MINE, Where.HERE),
        (MINE._replace(machine=None), Where.HERE),
        (MINE._replace(host="other"), Where.ELSEWHERE),
        (MINE._replace(machine="m2", boot="b2"), Where.ELSEWHERE),
        (MINE._replace(boot="b2"), Where.RESTARTED),
        (Machine("box", None, "b2"), Where.UNCLEAR),
        (MINE._replace(space="s2"), Where.CONTAINER),
    ],
)
def test_where_a_noted_process_is(noted: Machine, found: Where) -> None:
    assert where(noted, MINE) is found


def test_the_kernels_count_decides_and_the_clock_stands_in() -> None:
    assert same_start(Start(7, 100.0), Start(7, 9000.0)) is True, "the clock was set"
    assert same_start(Start(7, 100.0), Start(8, 100.0)) is False
    assert same_start(Start(None, 100.0), Start(8, 104.0)) is True
    assert same_start(Start(None, 100.0), Start(8, 106.0)) is False
    assert same_start(Start(), Start(8, 106.0)) is None


def test_a_process_lives_until_it_ends_and_its_id_is_no_one_elses() -> None:
    child = subprocess.Popen(["sleep", "60"])
    facts = process_facts(child.pid)
    start = Start(facts.ticks, facts.started_at)
    assert lives(child.pid, here(), start) is True
    assert lives(child.pid, here(), Start()) is True
    assert lives(os.getpid(), here(), Start(1, None)) is False
    assert lives(child.pid, here()._replace(host="other"), start) is None
    child.kill()
    child.wait()
    assert lives(child.pid, here(), start) is False

"""The periodic entry of a logbook, of several cockpits at once that are killed meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from cockpit.model.clock import Moment, SystemClock
from cockpit.model.observed import RecordsValue
from cockpit.model.run import RecordsSpec
from cockpit.records.git.saver import Saver
from cockpit.records.issue.service import IssueService
from cockpit.records.logbook.book import MarkdownFile
from cockpit.records.recorder import RecordWriter
from cockpit.services.notifying import PeriodicEntries
from cockpit.store.ownership import CLAIMED_FOR, NotOursError, Owner, Turns
from cockpit.store.store import Store
from cockpit.watch.fleet import turns_of
from tests.records.remotes import git
from tests.widgets.reports import facets, observed, report, spec

NOW = Moment(1_800_000_000.0, 500.0, "this boot")
EVERY = 600.0
BOOK = "# r: Hero Run Logbook\n\n## Run Contract\n\n- DRI: ada\n\n## Event Log\n"
SOAK = bool(os.environ.get("SOAK"))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store.sqlite")


def turns(store: Store, pid: int, *dead: int) -> Turns:
    return Turns(store, Owner(name="", host="here", pid=pid), lambda owner: owner.pid in dead)


def test_a_period_has_one_turn(store: Store) -> None:
    one, two = turns(store, 1), turns(store, 2)
    turn = one.take("r", "entry", EVERY, NOW)
    assert turn is not None and two.take("r", "entry", EVERY, NOW + 1) is None
    one.begin(turn)
    one.done(turn)
    assert two.take("r", "entry", EVERY, NOW + (EVERY - 1)) is None
    assert two.take("r", "entry", EVERY, NOW + EVERY) is not None
    assert two.take("s", "entry", EVERY, NOW) is not None


def test_a_clock_that_is_set_begins_no_period(store: Store) -> None:
    one = turns(store, 1)
    assert one.take("r", "entry", EVERY, NOW) is not None
    for jump in (7200.0, -7200.0):
        moved = Moment(NOW.wall + jump, 510.0, "this boot")
        assert one.take("r", "entry", EVERY, moved) is None


def test_what_a_hung_one_claimed_is_the_next_ones(store: Store) -> None:
    hung, other = turns(store, 1), turns(store, 2)
    old = hung.take("r", "entry", EVERY, NOW)
    new = other.take("r", "entry", EVERY, NOW + CLAIMED_FOR)
    assert old is not None and new is not None and not new.again and new.at == NOW
    with pytest.raises(NotOursError):
        hung.begin(old)
    hung.done(old)
    other.begin(new)
    assert hung.take("r", "entry", EVERY, NOW + (CLAIMED_FOR + 1)) is None


def test_what_was_begun_is_taken_over_from_the_dead_alone(store: Store) -> None:
    one = turns(store, 1)
    turn = one.take("r", "entry", EVERY, NOW)
    assert turn is not None
    one.begin(turn)
    assert turns(store, 2).take("r", "entry", EVERY, NOW + 2 * CLAIMED_FOR) is None
    again = turns(store, 2, 1).take("r", "entry", EVERY, NOW + 1)
    assert again is not None and again.again and again.at == NOW


WRITERS = """
import asyncio, os, random, signal, sys, time
from pathlib import Path
from cockpit.model.observed import RecordsValue
from cockpit.model.run import RecordsSpec
from cockpit.records.git.saver import Saver
from cockpit.records.issue.service import IssueService
from cockpit.records.recorder import RecordWriter
from cockpit.services.notifying import PeriodicEntries
from cockpit.store.store import Store
from cockpit.watch.fleet import turns_of
from tests.widgets.reports import facets, observed, report, spec

store_path, book, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
began = time.monotonic()

class Fast:  # a second is ten minutes
    def now(self): return 1_800_000_000.0 + self.monotonic()
    def monotonic(self): return (time.monotonic() - began) * 600.0
    async def sleep(self, seconds): await asyncio.sleep(seconds)

async def write():
    clock, store = Fast(), Store(Path(store_path))
    recorder = RecordWriter(Saver(clock), IssueService(store, clock))
    entries = PeriodicEntries(recorder, turns_of(store), clock)
    run = spec("r", cadence=600, tier="hero", records=RecordsSpec(logbook=book))
    seen = facets(records=observed(RecordsValue(logbook=book)))
    while True:
        made = {"spec": run, "facets": seen, "checked_at": clock.now()}
        await entries.write("r", report("r").model_copy(update=made))
        await asyncio.sleep(0.01)

def begin():
    pid = os.fork()
    if not pid:
        asyncio.run(write())
    return pid

dice, writers = random.Random(7), [begin() for _ in range(3)]
while "- check" not in Path(book).read_text():
    time.sleep(0.02)
an_entry = time.monotonic() - began  # on a busy machine one takes longer than they would live
end = time.monotonic() + max(seconds, 4 * an_entry)
while time.monotonic() < end:
    time.sleep(dice.uniform(0.02, max(0.3, 2 * an_entry)))
    victim = dice.randrange(len(writers))
    os.kill(writers[victim], signal.SIGKILL)
    os.waitpid(writers[victim], 0)
    writers[victim] = begin()
for each in writers:
    os.kill(each, signal.SIGKILL)
print(time.monotonic() - began)
"""


def test_several_cockpits_that_are_killed_write_one_entry_a_period(tmp_path: Path) -> None:
    book = tmp_path / "books" / "r.md"
    book.parent.mkdir()
    book.write_text(BOOK)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(book.parent, *words)
    path, seconds = tmp_path / "store.sqlite", 60.0 if SOAK else 3.0
    Store(path).close()
    argv = [sys.executable, "-c", WRITERS, str(path), str(book), str(seconds)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=seconds + 300)
    assert done.returncode == 0, done.stderr
    entries = MarkdownFile(book.read_bytes()).entries
    found = [each.at for each in entries if each.at is not None and each.title == "check"]
    gaps = [after - before for before, after in pairwise(found)]
    assert all(gap > EVERY - 60 for gap in gaps), gaps  # stamps are cut to whole minutes
    assert 1 <= len(found) <= float(done.stdout) + 2, found


async def test_two_stores_over_one_logbook_write_one_entry_a_period(tmp_path: Path) -> None:
    book = tmp_path / "books" / "r.md"
    book.parent.mkdir()
    book.write_text(BOOK)
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        git(book.parent, *words)
    run = spec("r", cadence=600, tier="hero", records=RecordsSpec(logbook=str(book)))
    seen = facets(records=observed(RecordsValue(logbook=str(book))))
    told = report("r").model_copy(update={"spec": run, "facets": seen})
    for name in ("ada", "bob"):
        theirs, clock = Store(tmp_path / f"{name}.sqlite"), SystemClock()
        recorder = RecordWriter(Saver(clock), IssueService(theirs, clock))
        await PeriodicEntries(recorder, turns_of(theirs), clock).write("r", told)
        theirs.close()
    assert [each.title for each in MarkdownFile(book.read_bytes()).entries] == ["check"]

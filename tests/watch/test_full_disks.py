"""A full disk of one machine opens one alert, however many runs save to it (C-22)."""

from __future__ import annotations

from typing import Any

from cockpit.model.alert import Alert
from cockpit.model.facet import known
from cockpit.model.observed import Disk, HostValue, JobValue, Phase
from cockpit.model.report import Facets
from cockpit.platforms.base import Platform
from cockpit.rules.judge import judge
from cockpit.store.alerts import Kept
from cockpit.watch.fleet import find_full_disks
from cockpit.watch.reports import case_of
from cockpit.watch.runstate import CORE, RunState
from tests.rules.making import T0, job, run_spec


def saving(name: str, used: float, value: JobValue | None = None, **more: Any) -> RunState:
    """Return a run on ``/data`` of this machine, of which ``used`` is used."""
    disk = Disk(**{"mount": "/data", "free": 10**15, "used_frac": used, **more})
    host = HostValue(disks=(disk,), mem_frac=0.1, oom_kills=0, load=1.0, gpus=())
    facets = {"job": known(value or job(), "j", T0), "host": known(host, "h", T0)}
    state = RunState(run_spec(name=name), name, facets=Facets().model_copy(update=facets))
    state.looked = CORE
    return state


def nowhere(_: Any) -> Platform | None:
    return None


def told(*states: RunState) -> dict[str, Alert]:
    """Judge each once; return what each says of the disk, which stays open."""
    disks = find_full_disks(states, nowhere)
    found = {}
    for state in states:
        state.full_disks = disks.get(state.spec.name, ())
        alerts = judge(state.spec, case_of(state, T0 + 1).history)
        mine = [each for each in alerts if each.id == "C-22"]
        state.open = {each.key: Kept(alert=each, opened_at=T0) for each in mine}
        for each in mine:
            found[state.spec.name] = each
    return found


def test_one_run_tells_of_the_disk_and_the_others_follow_from_that() -> None:
    states = [saving("b", 0.95), saving("a", 0.95), saving("c", 0.5)]
    for _ in range(2):
        found = told(*states)
        assert found.keys() == {"a", "b"} and found["a"].runs == ("b", "a")
        assert found["a"].title == "Disk /data of this machine nearly full, used by 2 runs"
        assert (found["a"].caused_by, found["b"].caused_by) == (None, found["a"].key)


def test_who_tells_goes_on_telling_and_another_does_when_it_is_over() -> None:
    late, early = saving("a", 0.95), saving("b", 0.95)
    assert told(early)["b"].runs == ()
    found = told(late, early)
    assert (found["a"].caused_by, found["b"].caused_by) == (found["b"].key, None)
    over = job(Phase.FAILED, ended_at=T0)
    alone = told(late, saving("b", 0.95, over))
    assert alone["a"].caused_by is None and alone["a"].runs == () and "b" not in alone


def test_disks_of_two_machines_and_runs_that_are_not_judged_are_told_apart() -> None:
    near, far = saving("a", 0.95, job(node="n1")), saving("b", 0.95, job(node="n2"))
    assert find_full_disks([near, far], nowhere) == {}
    unread = saving("c", 0.95, job(node="n1"))
    unread.looked = frozenset()
    assert find_full_disks([near, unread], nowhere) == {}, "what tells nothing yet takes nothing"


def test_a_network_file_system_of_two_machines_is_one_disk() -> None:
    near = saving("a", 0.95, job(node="n1"), shared="nas:/data")
    far = saving("b", 0.95, job(node="n2"), shared="nas:/data", mount="/mnt/big")
    other = saving("c", 0.95, job(node="n2"), shared="nas:/home")
    for _ in range(2):
        found = told(near, far, other)
        assert found["a"].title == "Disk /data of n1, n2 nearly full, used by 2 runs"
        assert (found["a"].key, found["a"].caused_by) == ("C-22:a:disk:/data", None)
        assert (found["b"].key, found["b"].caused_by) == ("C-22:b:disk:/mnt/big", found["a"].key)
        assert found["c"].runs == () and found["c"].caused_by is None
    crowd = [saving(f"r{i}", 0.95, job(node=f"n{i}"), shared="nas:/data") for i in range(5)]
    assert find_full_disks(crowd, nowhere)["r0"][0].machine == "n0, n1, n2 and 2 more"


def test_a_new_look_and_a_new_limit_count_at_once() -> None:
    one, other = saving("a", 0.95), saving("b", 0.5)
    assert find_full_disks([one, other], nowhere) == {}
    other.facets = saving("b", 0.95).facets
    assert find_full_disks([one, other], nowhere).keys() == {"a", "b"}
    lenient = other.spec.thresholds.model_copy(update={"disk_frac": 0.99})
    other.spec = other.spec.model_copy(update={"thresholds": lenient})
    assert find_full_disks([one, other], nowhere) == {}

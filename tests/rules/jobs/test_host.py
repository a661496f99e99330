"""C-22 in one look, over many looks, and where a look does not tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cockpit.model.alert import Alert
from cockpit.model.facet import ErrorKind, Facet, Problem, known
from cockpit.model.history import HostMark
from cockpit.model.observed import Disk, Gpu, HostValue, Phase
from cockpit.model.run import CheckpointSpec, RunSpec, TeardownSpec, Thresholds
from cockpit.rules.jobs.host import at_ease, host_pressure, looked_at, of_job, recalled
from cockpit.watch.reports import case_of, judged, reconcile
from cockpit.watch.runstate import RunState
from tests.rules.making import (
    CADENCE,
    T0,
    blind,
    checkpoint,
    checkpoints,
    folded,
    history,
    job,
    losses,
    run_spec,
    seen,
    tracker,
)

GB = 10**9


def disk(used: float = 0.5, free: int = 500 * GB, **more: Any) -> Disk:
    return Disk(mount="/data", free=free, used_frac=used, **more)


def gpus(*used: float | None) -> tuple[Gpu, ...]:
    return tuple(Gpu(index=at, name="H100", util_frac=share) for at, share in enumerate(used))


def found(value: HostValue, run: RunSpec | None = None, **more: Any) -> list[str]:
    facets = {"job": job(), **more}
    past = history(T0 + 60, host=value, **facets)
    return [alert.key.removeprefix("C-22:toy:") for alert in host_pressure(run or run_spec(), past)]


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        (HostValue(mem_frac=0.91), ["memory"]),
        (HostValue(mem_frac=0.90), []),
        (HostValue(disks=(disk(0.91),)), ["disk:/data"]),
        (HostValue(disks=(disk(0.4, inodes_frac=0.97),)), ["disk:/data"]),
        (HostValue(disks=(disk(0.95, inodes_frac=0.97),)), ["disk:/data"]),
        (HostValue(disks=(disk(0.4),), mem_frac=0.5, oom_kills=7, gpus=gpus(0.0, 0.0)), []),
        (HostValue(), []),
    ],
)
def test_shares_above_their_limit_each_once(value: HostValue, keys: list[str]) -> None:
    assert found(value) == keys


def test_the_limits_are_settings_and_a_job_that_is_over_has_no_pressure() -> None:
    value = HostValue(mem_frac=0.8, disks=(disk(0.8),))
    tight = run_spec(thresholds=Thresholds(mem_frac=0.7, disk_frac=0.7))
    assert found(value, tight) == ["memory", "disk:/data"]
    assert found(value, tight, job=job(Phase.FAILED, ended_at=T0)) == []


def test_room_for_two_saves_on_the_disk_that_holds_them() -> None:
    saved = checkpoint(100, T0).model_copy(update={"size": 30 * GB})
    run, there = run_spec(), disk(0.5, 59 * GB, holds=("/c",))
    listed = checkpoints(saved)
    assert found(HostValue(disks=(there,)), run, checkpoints=listed) == ["disk:/data"]
    assert found(HostValue(disks=(disk(0.5, 61 * GB, holds=("/c",)),)), checkpoints=listed) == []
    assert found(HostValue(disks=(disk(0.5, 1 * GB, holds=("/log",)),)), checkpoints=listed) == []
    bucket = run_spec(checkpoints=CheckpointSpec(path=("gs://b/c",)))
    assert found(HostValue(disks=(there,)), bucket, checkpoints=listed) == []


def billed(after: float, value: HostValue, **changes: Any) -> list[str]:
    run = run_spec(teardown=TeardownSpec(kind="terminate"), **changes)
    over = job(Phase.SUCCEEDED, ended_at=T0)
    past = history(T0 + after, job=over, host=value)
    return [alert.title for alert in host_pressure(run, past)]


def test_a_rented_box_that_answers_an_hour_after_the_end_still_bills() -> None:
    assert billed(3601, HostValue(load=0.1)) == ["Job over, box still billed"]
    assert billed(3599, HostValue(load=0.1)) == []
    assert billed(9999, HostValue(gpus=gpus(0.9))) == [], "somebody uses it"
    over = history(T0 + 9999, job=job(Phase.SUCCEEDED, ended_at=T0), host=HostValue(load=0.1))
    assert list(host_pressure(run_spec(), over)) == [], "it is nobody's rented box"
    kept = known(HostValue(load=0.1), "box", T0 - 5)
    late = history(T0 + 9999, job=job(Phase.SUCCEEDED, ended_at=T0), host=kept)
    assert list(host_pressure(run_spec(teardown=TeardownSpec(kind="stop")), late)) == []


class Watched:
    """A run whose host is looked at again and again, as the engine does it."""

    def __init__(self, **changes: Any) -> None:
        rows = losses([2.0] * 100)
        facets = seen(T0, job=job(), tracker=tracker(step=99, last_step_at=T0 + 99))
        self.state = RunState(run_spec(monitor=None, **changes), "key", facets=facets)
        self.state.rows.trend, self.state.rows.complete = folded(rows), True
        self.opened: list[str] = []
        self.closed: list[str] = []

    def look(self, at: float, value: HostValue | None) -> list[Alert]:
        facet = blind(at) if value is None else known(value, "box", at)
        self.state.take("host", facet)
        outcome = judged(case_of(self.state, at))
        before = self.state.open
        kept = reconcile(before, (), outcome.alerts, at, grace=0.0, may_close=True)
        self.state.open = {each.alert.key: each for each in kept.open}
        self.opened += [key for key in self.state.open if key not in before]
        self.closed += [each.alert.key for each in kept.closed]
        return [alert for alert in outcome.alerts if alert.id == "C-22"]


@given(st.lists(st.sampled_from([0.885, 0.895, 0.905, 0.92, None]), max_size=12))
def test_a_share_that_trembles_at_its_limit_is_one_alert_and_silence_changes_nothing(
    shares: list[float | None],
) -> None:
    watched = Watched()
    for turn, share in enumerate(shares):
        value = HostValue(load=1.0, mem_frac=share, disks=(disk(share),) if share else ())
        watched.look(T0 + turn, value)
    high = any(share is not None and share > 0.9 for share in shares)
    ours = [key for key in watched.opened if key.startswith("C-22")]
    assert sorted(ours) == (["C-22:toy:disk:/data", "C-22:toy:memory"] if high else [])
    assert watched.closed == []
    watched.look(T0 + 50, None)
    assert watched.closed == []
    watched.look(T0 + 60, HostValue(mem_frac=0.87, disks=(disk(0.87),)))
    assert sorted(watched.closed) == sorted(ours)


def test_only_a_rise_of_the_oom_counter_counts_and_it_closes_by_itself() -> None:
    watched = Watched()
    assert watched.look(T0 + 1, HostValue(oom_kills=7)) == []
    assert watched.look(T0 + 2, HostValue(oom_kills=None, load=1.0)) == []
    (alert,) = watched.look(T0 + 3, HostValue(oom_kills=8))
    assert alert.evidence[0].text.startswith("oom_kill counter 7 → 8, seen at ")
    assert watched.look(T0 + 60, HostValue(oom_kills=8)) == [alert]
    assert watched.look(T0 + 3 + 2 * CADENCE + 1, HostValue(oom_kills=8)) == []
    assert watched.look(T0 + 200, HostValue(oom_kills=0)) == [], "another cgroup counts anew"


def test_another_job_begins_with_the_count_that_it_finds() -> None:
    mark = looked_at(of_job(HostMark(), job()), known(HostValue(oom_kills=3), "b", T0))
    other = of_job(mark, job(id="host:2", started_at=T0 + 50))
    mark = looked_at(other, known(HostValue(oom_kills=5), "b", T0 + 60))
    assert (mark.oom_kills, mark.oom_at) == (5, None)


def test_what_a_former_cockpit_saw_of_another_job_s_host_is_no_sign_of_this_one() -> None:
    """Relaunched on a smaller host while nobody watched: whichever is looked at first."""
    now = HostValue(oom_kills=7, gpus=gpus(0.9, 0.9))
    for first in ("job", "host"):
        state = RunState(spec=run_spec(), key="k")
        state.host = recalled(job(id="old:1"), HostValue(oom_kills=0, gpus=gpus(0.9, 0.9, 0.9)))
        state.facets = seen(T0, job=job(id="old:1"))
        host: Facet[Any] = known(now, "h", T0 + 1)
        answers = {"job": known(job(), "j", T0 + 1), "host": host}
        for name in (first, *(answers.keys() - {first})):
            state.take(name, answers[name])
        assert (state.host.oom_at, state.host.fewer_since) == (None, None), first
    same = recalled(job(), HostValue(oom_kills=6, gpus=gpus(0.9, 0.9, 0.9)))
    mark = looked_at(of_job(same, job()), known(now, "h", T0 + 1))
    assert (mark.oom_from, mark.oom_kills, mark.fewer_since) == (6, 7, T0 + 1)


def test_an_accelerator_that_is_gone_and_one_of_which_nothing_is_told() -> None:
    watched = Watched()
    assert watched.look(T0 + 100, HostValue(gpus=gpus(0.9, 0.8))) == []
    (alert,) = watched.look(T0 + 101, HostValue(gpus=gpus(0.9)))
    assert alert.title == "1 of 2 accelerators lost"
    assert watched.look(T0 + 102, HostValue(load=1.0)) == [alert], "nothing is told: it stays"
    assert watched.look(T0 + 103, HostValue(gpus=gpus(0.9, 0.0))) == []
    assert Watched().look(T0 + 100, HostValue(load=1.0)) == []


def test_accelerators_whose_driver_is_gone_are_lost_in_its_own_words() -> None:
    words = "nvidia-smi: couldn't communicate with the NVIDIA driver"
    gone = Problem(kind=ErrorKind.BAD_ANSWER, message=words)
    failing = HostValue(load=1.0, gpus_lost=0, gpus_error=gone)
    watched = Watched()
    assert watched.look(T0 + 100, HostValue(gpus=gpus(0.9, 0.8, 0.7), gpus_lost=0)) == []
    (alert,) = watched.look(T0 + 101, failing)
    assert alert.title == "3 of 3 accelerators lost"
    assert [each.text for each in alert.evidence][1] == words
    late = Problem(kind=ErrorKind.TIMEOUT, message="nvidia-smi: no answer within 5 s")
    assert watched.look(T0 + 102, HostValue(load=1.0, gpus_error=late)) == [alert], "as it was"
    assert Watched().look(T0 + 100, failing) == [], "a machine that has none is no loss"


def test_one_that_does_not_answer_is_lost_though_nobody_saw_it_before() -> None:
    handle = Problem(kind=ErrorKind.BAD_ANSWER, message="nvidia-smi: Unable to determine GPU2")
    value = HostValue(gpus=gpus(0.9, 0.8), gpus_lost=1, gpus_error=handle)
    (alert,) = Watched().look(T0 + 100, value)
    assert alert.title == "1 of 3 accelerators lost"


def test_idle_accelerators_count_only_while_steps_stand_still() -> None:
    watched = Watched()
    still = T0 + 99 + 3 * CADENCE
    assert watched.look(T0 + 110, HostValue(gpus=gpus(0.0, 0.0))) == [], "between two steps"
    watched.state.take("tracker", known(tracker(step=99, last_step_at=T0 + 99), "t", still))
    titles = [alert.title for alert in watched.look(still, HostValue(gpus=gpus(0.0, 0.0)))]
    assert titles == ["Accelerators idle and steps stalled"]
    assert watched.look(still + 1, HostValue(gpus=gpus(0.0, 0.4))) == []


@pytest.mark.parametrize(
    ("changes", "calm"),
    [
        ({"load": 40.0, "mem_frac": 0.4, "disks": (disk(0.51, free=490 * GB),)}, True),
        ({"mem_frac": 0.93}, False),
        ({"mem_frac": None}, False),
        ({"disks": (disk(0.88),)}, False),
        ({"disks": ()}, False),
        ({"oom_kills": 1}, False),
        ({"gpus": gpus(0.0)}, False),
    ],
)
def test_a_host_is_at_ease_while_only_figures_far_from_their_limits_move(
    changes: dict[str, Any], calm: bool
) -> None:
    value = HostValue(disks=(disk(),), mem_frac=0.3, oom_kills=0, load=1.0, gpus=gpus(0.9))
    other = value.model_copy(update=changes)
    assert at_ease(run_spec(), value, other) is at_ease(run_spec(), other, value) is calm
    assert not at_ease(run_spec(), None, value), "the first look is news"


def test_a_node_that_is_taken_out_of_service_is_told_with_its_reason() -> None:
    draining = HostValue(out_of_service="node gpu3 is MIXED+DRAIN: bad fan")
    assert found(draining) == ["node"]
    assert found(HostValue(load=1.0)) == []
    assert not at_ease(RunSpec(name="toy"), HostValue(mem_frac=0.1), draining)

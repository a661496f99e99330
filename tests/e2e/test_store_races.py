"""Two cockpits on two stores relaunch one run whose output root is a bucket: one claim decides.

Long: ``SOAK=1`` runs it. The bucket is served here, asked as Amazon's and as Google's.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from tests.e2e.lab import RELAUNCH, SOAK, Lab, Machine, check, ended
from tests.sources.checkpoints.store_server import ObjectStore, serving, variables

ROUNDS = int(os.environ.get("ROUNDS", "15"))
SEED = int(os.environ.get("SEED", "7"))
CLAIM = ".cockpit/"
pytestmark = pytest.mark.skipif(not SOAK, reason="only in the long run: SOAK=1")


class BucketMachine(Machine):
    """One whose run writes to a bucket, as far as cockpits are told; its job is of this machine."""

    address = ""

    def write(self, final: int = 10**6, *, tracked: bool = True) -> None:
        super().write(final, tracked=False)
        text = self.config.read_text()
        own = f'output_root = "{self.root}"'
        assert own in text
        self.config.write_text(text.replace(own, f'output_root = "{self.address}"'))


@pytest.fixture(params=["s3", "gs"])
def address(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    store = ObjectStore()
    store.put("bucket", "runs/other/metadata.json")
    with serving(store) as served:
        for name, value in variables(served.url).items():
            monkeypatch.setenv(name, value)
        yield f"{request.param}://bucket/runs/tiny"
        assert [key for key in store.buckets["bucket"] if CLAIM in key], "it was never claimed"


def test_two_stores_relaunch_at_once(
    lab: Lab, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BucketMachine, "address", address)
    chance = random.Random(f"{SEED} {address}")
    here, there = (BucketMachine(lab, name, lab.folder / "root") for name in "ab")
    lab.prepare(here)
    for number in range(ROUNDS):
        begun = []
        for machine in (here, there):
            begun.append(machine.begin(*RELAUNCH))
            time.sleep(chance.random() * chance.choice((0.0, 0.2, 1.0)))
        answers = [ended(each) for each in begun]
        said = "\n".join(map(str, answers))
        assert sorted(each.code for each in answers) == [0, 4], said
        check(lab, here, there)
        assert len(lab.trainers) == 1, said
        print(number, [each.out.strip().splitlines()[-1:] for each in answers], flush=True)
        lab.die()

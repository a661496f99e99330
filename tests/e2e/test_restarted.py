"""A machine restarts in the middle of a launch: what a person sees, and one approval is enough."""

from __future__ import annotations

import json
from pathlib import Path

from cockpit.runtime.process import machine_id
from tests.e2e.lab import RELAUNCH, Lab, ended, kill, until

APPROVED = ("--approve", "second-machine", "--by", "bob", "--reason", "it has restarted")


def test_the_claim_of_a_machine_that_has_restarted_is_taken_over_at_the_first_approval(
    tmp_path: Path,
) -> None:
    """The look-up that closes the launch of before changes what lies beside the claim."""
    lab = Lab(tmp_path)
    try:
        ada, bob = lab.machine("a"), lab.machine("b")
        lab.prepare(ada)
        claim = ada.root / ".cockpit" / "claim.json"
        process = ada.begin(*RELAUNCH)
        until(claim.exists, "nothing was claimed")
        kill(process.pid)
        ended(process)
        lab.settled()
        for one in lab.trainers:
            kill(one.pid)
        held = json.loads(claim.read_text())
        held["holder"]["boot"] = "the-boot-of-before"
        claim.write_text(json.dumps(held))
        plan = bob.do("relaunch")
        assert plan.code == 4 and "--approve second-machine --by NAME" in plan.out, str(plan)
        (line,) = (line for line in plan.out.splitlines() if "BLOCK  second-machine" in line)
        assert f"is held by ada (login {held['holder']['login']}) on" in line
        assert f"for relaunch of {held['launch_id']}" in line
        known = machine_id() is not None
        assert ("it ended when this machine restarted" if known else "has restarted since") in line
        assert "approve once you know that it has ended" in line
        done = bob.do(*RELAUNCH, *APPROVED)
        assert done.code == 0, str(done)
        assert len(lab.settled()) == 1
    finally:
        lab.end()

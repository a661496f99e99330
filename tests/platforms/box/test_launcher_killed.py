"""A supervisor, an agent or a link is killed at any moment: what a look-up says is what happened.

A slice by default; ``SOAK=1`` goes on for many rounds.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from cockpit.model.jobs import LaunchState
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError, LostError
from tests.platforms.box.making import box as platform_of
from tests.platforms.box.making import spec
from tests.platforms.local.making import slay, submission, supervisors, trainers
from tests.sshd import Sshd, needs_sshd

pytestmark = needs_sshd
ROUNDS = int(os.environ.get("ROUNDS", "100" if os.environ.get("SOAK") else "1"))
SEED = int(os.environ.get("SEED", "7"))
WAITS = (0.0, 0.1, 0.5, 2.0)
"""Seconds after which they are killed, at most: a busy machine is slow to start anything."""
RAN = "import sys, time; open(sys.argv[1], 'a').write('ran\\n'); time.sleep(120)"


@pytest.mark.parametrize("victim", ["supervisor", "agent", "link"])
async def test_what_a_look_up_says_is_what_happened(box: Sshd, tmp_path: Path, victim: str) -> None:
    chance, platform = random.Random(f"{SEED} {victim}"), platform_of(answer_within=10.0)
    said: dict[str, int] = {}
    for number in range(1, ROUNDS + 1):
        run = spec(box.host, tmp_path / str(number))
        (tmp_path / str(number)).mkdir()
        ran = tmp_path / str(number) / "ran"
        given = submission(run, code=RAN)
        given = given.model_copy(update={"command": (*given.command, str(ran))})
        try:
            accepted = await platform.accept(run, given)
            begun = asyncio.create_task(platform.go(run, accepted))
            wait = chance.random() * chance.choice(WAITS)
            await asyncio.to_thread(_killed, box, run, victim, wait)
            with suppress(CannotError, LostError):
                await begun
            found = await platform.look_up(run, given.launch_id)
            while found.found is LaunchState.UNKNOWN:  # what waits for its turn is not killed
                found = await platform.look_up(run, given.launch_id)
            said[found.found.value] = said.get(found.found.value, 0) + 1
            alive, has_run = len(trainers(run)), await asyncio.to_thread(ran.exists)
            expected = {LaunchState.LIVE: (1,), LaunchState.ENDED: (0,), LaunchState.ABSENT: (0,)}[
                found.found
            ]
            assert alive in expected, (found, alive)
            assert not (found.found is LaunchState.ABSENT and has_run), found
            with suppress(CannotError, LostError):
                await platform.go(run, accepted)
            assert len(trainers(run)) == alive, "it was started twice"
        finally:
            slay(run)
    assert sum(said.values()) == ROUNDS, said


def _killed(box: Sshd, run: RunSpec, victim: str, after: float) -> None:
    """Kill it a moment after a supervisor is there; what asks for one at times before that."""
    until = time.monotonic() + 5.0
    while (victim == "supervisor" or after > 0.2) and time.monotonic() < until:
        if supervisors(run):
            break
    time.sleep(after)
    if victim == "link":
        box.signal(signal.SIGKILL)
        return
    for pid in supervisors(run) if victim == "supervisor" else box.started():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

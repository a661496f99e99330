"""The key that shows what the job's own system says reads what the verb prints."""

from __future__ import annotations

import time

from cockpit.app.replaying import described
from tests.verbs.tiny_run import TinyRun


async def test_a_screen_reads_what_the_verb_prints(tiny: TinyRun) -> None:
    before = time.time()
    found = await described(str(tiny.config), "tiny")
    assert (found.run, found.system, found.problem) == ("tiny", "this machine", None)
    assert before <= found.at <= time.time() + 1 and "process:" in found.text

"""The key that shows what the job's own system says reads what the verb prints."""

from __future__ import annotations

import time

from cockpit.app.replaying import described
from tests.verbs.tiny_run import TinyRun, program


async def test_a_screen_reads_what_the_verb_prints(tiny: TinyRun) -> None:
    before = time.time()
    found = await described(str(tiny.config), "tiny")
    assert (found.run, found.system, found.problem) == ("tiny", "this machine", None)
    assert before <= found.at <= time.time() + 1 and "what has process number" in found.text


def test_what_a_person_names_as_a_job_is_safe_to_print(tiny: TinyRun) -> None:
    done = program("describe", "tiny", "--job", "x\x1b[31m", folder=tiny.config.parent)
    assert done.returncode == 0 and "\x1b" not in done.stdout

"""A recorded command of the user's own that submits the job (``resubmit_runs = "command"``).

It is run on this machine in ``workdir``, and killed with its process group at a deadline. What
it prints and how it ends decide nothing: whether the job came, the head is asked by its id.
"""

from __future__ import annotations

import os
from typing import Final

from cockpit.model.jobs import Submission
from cockpit.model.lineage import tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE
from cockpit.platforms.local.launcher.supervisor import expand
from cockpit.platforms.local.tools import SUBMITS
from cockpit.platforms.ray.head import Head
from cockpit.runtime.shell import Completed, run_command
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

WITHIN: Final = 180.0
"""Seconds that a submitter may take: it packs the code and uploads it."""
CAP: Final = 200_000
ADDRESS: Final = "RAY_API_SERVER_ADDRESS"
"""Where Ray's own client looks for the head that its command line does not name."""


async def submitted(head: Head, run: RunSpec, submission: Submission) -> str:
    """Run the command to its end or the deadline; return how it ended, in one line.

    Raises ``CannotError`` where it was not run: it names a variable that is not set.
    """
    tag = tag_of(run)
    own = {LAUNCH_ID: submission.launch_id, SUBMITS: submission.launch_id}
    own |= {ADDRESS: head.base, **submission.env}
    own |= {LINEAGE: tag} if tag else {}
    try:
        words = expand(submission.command, {**os.environ, **own})
    except KeyError as error:
        raise CannotError(f"the command uses ${error.args[0]}, which is not set") from error
    done = await run_command(words, deadline=WITHIN, cwd=submission.workdir, env=own, cap=CAP)
    return f"the submitter {_how(done)}, and {head.name} has no job {submission.launch_id}"


def _how(done: Completed) -> str:
    if done.timed_out:
        return f"was ended after {WITHIN:.0f} s"
    said = (done.err.strip() or done.out.strip()).decode("utf-8", "replace").rpartition("\n")[2]
    return f"ended with {done.rc}{f' ({scrub(clean(said, 300))})' if said else ''}"

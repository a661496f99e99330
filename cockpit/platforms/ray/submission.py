"""A submission as a Ray head takes it: its id, its entrypoint, and what tells whose it is.

The submission id is the launch id, and a head takes each id once. So what closes a launch id for
good is a job of that id that does nothing: a submit that comes after it is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final

from cockpit.model.jobs import Submission
from cockpit.model.lineage import tag_of
from cockpit.model.run import RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.local.launcher.detached import LAUNCH_ID, LINEAGE
from cockpit.platforms.ray.answers import RayJob
from cockpit.text.safe import clean

NONCE: Final = "nonce"
"""The key of the metadata, and of what the journal keeps, that tells one submitter's job."""
CLOSES: Final = "cockpit_closes"
NOTHING: Final = "true"
"""The entrypoint of a job that does nothing."""
LONGEST_ID: Final = 200
"""Characters of an id; Ray names a log file by it."""
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._:@+=-]*")
_VARIABLE: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_IN_QUOTES: Final = re.compile(r'([\\"`$])')


def name_of(launch_id: str) -> str:
    """Return the submission id; raises ``CannotError`` where nobody could ask for such a job."""
    if len(launch_id) > LONGEST_ID or not _ID.fullmatch(launch_id):
        shown = clean(launch_id, 80)
        raise CannotError(f"Ray takes no submission id like {shown!r}: letters, digits, . _ - only")
    return launch_id


def document_of(run: RunSpec, submission: Submission, nonce: str) -> dict[str, Any]:
    """Return what is posted to start a job."""
    tag = tag_of(run)
    own = {LAUNCH_ID: submission.launch_id, **({LINEAGE: tag} if tag else {})}
    metadata = {"cockpit_run": run.name, **({"lineage": tag} if tag else {}), NONCE: nonce}
    return {
        "submission_id": name_of(submission.launch_id),
        "entrypoint": entrypoint_of(submission.command),
        "metadata": metadata,
        "runtime_env": {"env_vars": {**submission.env, **own}},
    }


def closing_of(run: RunSpec, launch_id: str) -> dict[str, Any]:
    """Return what is posted to close a launch id: a job that does nothing."""
    metadata = {"cockpit_run": run.name, CLOSES: launch_id}
    return {
        "submission_id": name_of(launch_id), "entrypoint": NOTHING, "metadata": metadata,
    }  # fmt: skip


def is_closing(job: RayJob) -> bool:
    """Tell whether a job only closes its id; one that runs anything at all never counts as one."""
    return job.entrypoint == NOTHING and job.metadata.get(CLOSES) == job.submission_id


def entrypoint_of(words: Sequence[str]) -> str:
    """Return words as the line that the shell of the driver's machine splits into them again.

    A ``$NAME`` is filled in there if it is set, and stays as it is if it is not.
    """
    first, *rest = words
    home = "~/" if first.startswith("~/") else ""
    return " ".join([home + _quoted(first.removeprefix(home)), *map(_quoted, rest)])


def _quoted(word: str) -> str:
    if not _VARIABLE.search(word):
        return shlex.quote(word)
    parts, at = [], 0
    for match in _VARIABLE.finditer(word):
        parts.append(_IN_QUOTES.sub(r"\\\1", word[at : match.start()]))
        literal = match[0].replace("}", "\\}")
        parts.append(f"${{{match[1] or match[2]}-\\{literal}}}")
        at = match.end()
    return '"' + "".join([*parts, _IN_QUOTES.sub(r"\\\1", word[at:])]) + '"'

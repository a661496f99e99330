"""Ask triage about the lines of a whole log, as the verb does."""

from __future__ import annotations

from collections.abc import Sequence

from cockpit.model.observed import Triage
from cockpit.rules.triage.classify import diagnose
from cockpit.text.progress_lines import log_of_lines


def triage(lines: Sequence[str], state: str, exit_code: int | None) -> Triage:
    """Return the answer for a whole log, given as its lines; see ``diagnose``."""
    return diagnose(log_of_lines(lines), state, exit_code)

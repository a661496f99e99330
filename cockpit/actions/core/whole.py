"""A report whose listing had no time for every checkpoint, completed for an action.

A look is short: of very many folders, of a slow root or a busy machine it judges the newest, and
then what the trainer would load is not known. That is not "it would find nothing": an action
takes the time that it needs.
"""

from __future__ import annotations

from cockpit.model.clock import Clock
from cockpit.model.report import RunReport
from cockpit.sources.checkpoints.contents import ListingError
from cockpit.sources.checkpoints.source import Anew


async def completed(report: RunReport, clock: Clock) -> RunReport:
    """Return the report with what the trainer would load by all that lies there, if it was cut."""
    facet = report.facets.checkpoints
    value = facet.value
    if value is None or facet.error is not None or not value.unjudged or value.unlisted:
        return report
    try:
        found = await Anew(report.spec, clock).look(alive=None)
    except (OSError, ValueError, TimeoutError, ListingError):
        return report
    # One that was saved behind the listing: its pick would not be of the same moment.
    if found.unjudged or found.latest_complete != value.latest_complete:
        return report
    known = {"trainer_would_load": found.trainer_would_load, "unjudged": 0}
    facet = facet.model_copy(update={"value": value.model_copy(update=known)})
    facets = report.facets.model_copy(update={"checkpoints": facet})
    return report.model_copy(update={"facets": facets})

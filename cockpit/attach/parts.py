"""Reports cross in parts, so that a window reads anew only what has changed of a run.

Each facet and the run's table are sent as texts of their own. Of a thousand runs most say the
same of what is not configured, and of one run most facets stay as they were: a window decodes
and checks every such text once, whichever run it comes with, and knows it again by its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from pydantic import ValidationError

from cockpit.attach.wire import Document, WireError, as_text, report_in
from cockpit.model.base import Frozen
from cockpit.model.report import FACETS, Facets, RunReport
from cockpit.model.run import RunSpec

_SPEC: Final = "spec"
_KINDS: Final[Mapping[str, Any]] = {
    _SPEC: RunSpec,
    **{name: Facets.model_fields[name].annotation for name in FACETS},
}
_DIGEST: Final = 16


def parted(report: RunReport) -> Document:
    """Return a report as it crosses."""
    facets = {name: as_text(facet) for name, facet in report.facets.items()}
    return {**report.__dict__, _SPEC: as_text(report.spec), "facets": facets}


class Parts:
    """What a window holds of parts that crossed, for as long as any of its reports has them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Frozen] = WeakValueDictionary()

    def joined(self, content: object) -> RunReport:
        """Return the report that crossed; raises ``WireError``."""
        if not isinstance(content, dict) or not isinstance(content.get("facets"), dict):
            raise WireError("a report of another shape")
        facets = {name: self._part(name, part) for name, part in content["facets"].items()}
        spec = self._part(_SPEC, content.get(_SPEC))
        return report_in({**content, _SPEC: spec, "facets": facets})

    def _part(self, name: str, part: object) -> object:
        """Return a part that came as a text; what came as it is stays so."""
        if not isinstance(part, str) or name not in _KINDS:
            return part
        digest = hashlib.blake2b(f"{name} {part}".encode(), digest_size=_DIGEST).digest()
        found = self._known.get(digest)
        if found is None:
            try:
                found = self._known[digest] = _KINDS[name].model_validate(json.loads(part))
            except (ValidationError, ValueError) as error:
                raise WireError("a report of another shape") from error
        return found

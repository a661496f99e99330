"""Reports cross in parts, so that a window reads anew only what has changed of a run.

The run's table, each facet and each facet's value are texts of their own: a facet is looked at
again and again, its value mostly stays. Of a thousand runs most say the same of what is not
configured, and of one run most values stay as they were: the engine writes such a text once, and
a window decodes and checks it once, whichever run it comes with, and knows it by its digest.

Of a run that a window was told of before only what changed crosses: a facet that was looked at
again and is as it was crosses as the time of that look.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping
from typing import Any, Final, get_args
from weakref import WeakValueDictionary

from pydantic import ValidationError

from cockpit.attach.wire import Document, WireError, as_text, report_in
from cockpit.model.base import Frozen
from cockpit.model.facet import Facet
from cockpit.model.report import FACETS, Facets, RunReport
from cockpit.model.run import RunSpec

_SPEC: Final = "spec"
_FACETS: Final[Mapping[str, Any]] = {name: Facets.model_fields[name].annotation for name in FACETS}
_VALUES: Final[Mapping[str, Any]] = {
    name: get_args(facet.model_fields["value"].annotation)[0] for name, facet in _FACETS.items()
}
_DIGEST: Final = 16


class Texts:
    """What is told of runs as texts; a value that is still the same one is not written anew."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, tuple[object, str]]] = {}

    def parted(self, report: RunReport) -> Document:
        """Return a report as it crosses."""
        known = self._known.setdefault(report.name, {})
        facets = {}
        for name, facet in report.facets.items():
            told = {**facet.__dict__, "value": None}
            facets[name] = (as_text(told), _kept(known, name, facet.value))
        spec = _kept(known, _SPEC, report.spec)
        return {**report.__dict__, _SPEC: spec, "facets": facets}

    def changed(self, report: RunReport, former: RunReport) -> Document:
        """Return what of a report differs from the ``former`` one of the same run table."""
        theirs = former.__dict__
        changed = {
            name: each
            for name, each in report.__dict__.items()
            if each is not theirs[name] and name != "facets" and each != theirs[name]
        }
        known = self._known.setdefault(report.name, {})
        facets: Document = {}
        for name, facet in report.facets.items():
            before: Facet[Any] = getattr(former.facets, name)
            if facet is before:
                continue
            if not facet.reads_as(before):
                told = {**facet.__dict__, "value": None}
                facets[name] = (as_text(told), _kept(known, name, facet.value))
            elif facet.observed_at != before.observed_at:
                facets[name] = facet.observed_at
        return {**changed, "facets": facets}

    def keep(self, names: Container[str]) -> None:
        """Forget all but these runs."""
        self._known = {name: texts for name, texts in self._known.items() if name in names}


def _kept(known: dict[str, tuple[object, str]], name: str, value: object) -> str | None:
    if value is None:
        known.pop(name, None)
        return None
    if name not in known or known[name][0] is not value:
        known[name] = (value, as_text(value))
    return known[name][1]


class Parts:
    """What a window holds of parts that crossed, for as long as any of its reports has them."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[bytes, Frozen] = WeakValueDictionary()

    def joined(self, content: object) -> RunReport:
        """Return the report that crossed; raises ``WireError``."""
        if not isinstance(content, dict) or not isinstance(content.get("facets"), dict):
            raise WireError("a report of an unexpected shape")
        facets = {name: self._facet(name, part) for name, part in content["facets"].items()}
        spec = content.get(_SPEC)
        if isinstance(spec, str):
            spec = self._part(RunSpec, spec)
        return report_in({**content, _SPEC: spec, "facets": facets})

    def rejoined(self, content: object, former: RunReport | None) -> RunReport:
        """Return the report of which only what changed has crossed; raises ``WireError``."""
        parts = content.get("facets") if isinstance(content, dict) else None
        if former is None or not isinstance(content, dict) or not isinstance(parts, dict):
            raise WireError("news of a report that was never told")
        facets = former.facets.__dict__
        if not parts.keys() <= facets.keys():
            raise WireError("a report of an unexpected shape")
        changes = {
            name: facets[name].model_copy(update={"observed_at": part})
            if type(part) in (int, float)
            else self._facet(name, part)
            for name, part in parts.items()
        }
        return report_in({**former.__dict__, **content, "facets": {**facets, **changes}})

    def _facet(self, name: str, part: object) -> object:
        """Return a facet that came as two texts; what came as it is stays so."""
        match part:
            case [str(told), str() | None as text] if name in _FACETS:
                pass
            case _:
                return part
        if text is None:
            return self._part(_FACETS[name], told)
        value = self._part(_VALUES[name], text)
        return self._part(_FACETS[name], told, text, value)

    def _part(self, kind: Any, told: str, text: str = "", value: Frozen | None = None) -> Frozen:  # noqa: ANN401 - a class of the model
        """Return what texts say, the same object as long as they do."""
        digest = hashlib.blake2b(f"{kind.__name__} {told}\0{text}".encode(), digest_size=_DIGEST)
        found = self._known.get(digest.digest())
        if found is None:
            try:
                content = json.loads(told)
                content = content if value is None else {**content, "value": value}
                found = self._known[digest.digest()] = kind.model_validate(content)
            except (ValidationError, ValueError, TypeError) as error:
                raise WireError("a report of an unexpected shape") from error
        return found

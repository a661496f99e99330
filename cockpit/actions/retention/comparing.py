"""The pulled copy of a run held against its source, wherever that lies (SPEC A-12, A-13)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cockpit.actions.core.context import ActionContext
from cockpit.actions.core.parameters import plural
from cockpit.actions.retention.listed_away import NotListedError, listed
from cockpit.actions.retention.pulled import PulledComparison, compare, held_against, tree_of
from cockpit.model.place import Place
from cockpit.model.plan import Check
from cockpit.model.wording import duration, size
from cockpit.runtime.offload import offload
from cockpit.text.checks import blocked, passed

COMPARE_WITHIN: Final = 120.0
CONSOLE: Final = "check the provider's console"


async def pulled(context: ActionContext, pulled_to: str | None) -> tuple[Check, int]:
    """Compare the pulled copy with its source; return how many files it holds, too."""
    sources = _sources(context)
    if not sources:
        return blocked("pulled", "no output_root in cockpit.toml to compare with"), 0
    if pulled_to is None:
        text = "no folder is named that the artifacts are pulled to (teardown.pulled_to)"
        return blocked("pulled", text), 0
    named = " + ".join(map(str, sources))
    try:
        parts = [
            await compared(context, source, _copy_of(source, sources, pulled_to))
            for source in sources
        ]
    except TimeoutError:
        text = f"{named} did not answer within {duration(COMPARE_WITHIN)}; {CONSOLE}"
        return blocked("pulled", text), 0
    except NotListedError as error:
        return blocked("pulled", f"{error}; {CONSOLE}"), 0
    except OSError as error:
        reason = (error.strerror or "cannot be read").lower()
        where = error.filename or named
        return blocked("pulled", f"{where}: {reason}; {CONSOLE}"), 0
    count, bytes_ = sum(part.count for part in parts), sum(part.size for part in parts)
    trouble = next((part.trouble for part in parts if part.trouble is not None), None)
    if trouble is not None:
        return blocked("pulled", trouble), count
    text = f"{plural(count, 'file')}, {size(bytes_)}, equal to {named}"
    return passed("pulled", text, value=str(count)), count


def _sources(context: ActionContext) -> tuple[Place, ...]:
    """Return what must be pulled: the output root, else the checkpoints' roots."""
    root, spec = context.spec.output_root, context.spec.checkpoints
    if root is not None:
        return (root,)
    return spec.path if spec is not None else ()


def _copy_of(source: Place, sources: Sequence[Place], copy: str) -> str:
    """Return where a source's copy lies; of several, each has a folder of its name."""
    return copy if len(sources) == 1 else str(Path(copy, Path(source.path).name))


async def compared(
    context: ActionContext, source: Place, copy: str, beside: frozenset[str] = frozenset()
) -> PulledComparison:
    """Return how a copy compares with its source, listed where it lies."""
    if source.here and not beside:
        return await offload(compare, source.path, copy, deadline=COMPARE_WITHIN)
    if source.here:
        there = await offload(tree_of, source.path, deadline=COMPARE_WITHIN)
    else:
        there = await listed(source, context.parts.clock)
    return await offload(held_against, there, copy, beside, deadline=COMPARE_WITHIN)

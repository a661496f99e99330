"""C-18, config drift while a job runs: its resolved config against the prior instance's.

The prior is what the last launch has recorded, its differences accepted then, else the config of
the job before this one. Only what both tell is compared: a config file and a tracker's config are
of two shapes, and a setting that one of them lacks is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cockpit.model import wording
from cockpit.model.alert import Alert, Severity
from cockpit.model.history import History
from cockpit.model.run import RunSpec
from cockpit.rules import present
from cockpit.rules.lineage.memo import Memo
from cockpit.rules.lineage.settings import counted, differing, weighs
from cockpit.rules.present import phase_of, phase_since, still_open

SHOWN: Final = 12
LONGEST: Final = 120
_OF_A_START: Final = re.compile(
    r"resume|restore|(?:^|[._])load(?:$|[._])|init(?:ialize)?_from|ckpt_path|start_(?:step|epoch)"
    r"|global_step|last_step|restart|attempt|run_?name|run_?id|output|out_dir|save_(?:dir|path)"
    r"|log(?:ging)?_?dir|(?:checkpoint|ckpt)_(?:dir|path)|port$|world_?size|rank$|num_nodes|devices$",
    re.I,
)
"""Settings that each start has its own of; where it writes and what it loads are C-16 and C-17."""


def config_drifts(run: RunSpec, history: History) -> Iterator[Alert]:
    """C-18: one alert of a living job that names each setting with both values."""
    if not phase_of(history).lives:
        return
    key, now, prior = f"C-18:{run.name}", history.settings, _prior(history)
    if now is None or prior is None:
        former = still_open(history, key)
        yield from () if former is None else (former,)
        return
    by, old = prior
    new = now.values
    changed = _CHANGED(old, new)
    if not changed:
        return
    lines = [f"{each}: {_short(old[each])} → {_short(new[each])}" for each in changed[:SHOWN]]
    if len(changed) > SHOWN:
        lines.append(f"and {len(changed) - SHOWN} more settings")
    more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
    serious = any(weighs(each) for each in changed)
    yield Alert(
        id="C-18",
        key=key,
        severity=Severity.ALERT if serious else Severity.WARNING,
        title=f"Config differs from {by}: {', '.join(changed[:3])}{more}",
        since=phase_since(history),
        evidence=present.evidence(f"{now.source} against {by}", *lines),
        confidence="likely",
        next_action=f"ask {wording.person(run)} whether each difference is meant; if not, stop"
        f" {run.name} before it saves on, and relaunch with the previous config",
    )


def _prior(history: History) -> tuple[str, Mapping[str, str]] | None:
    used, former = history.used, history.former_settings
    if used is not None and used.config:
        return f"launch {used.launch_id}", used.config
    return None if former is None else ("the previous job", former.values)


def _changed(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    return differing(_compared(was), _compared(now))


_CHANGED: Final[Memo[list[str]]] = Memo(_changed)


def _compared(values: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in counted(values).items() if _OF_A_START.search(k) is None}


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"

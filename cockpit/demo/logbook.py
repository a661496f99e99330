"""The demo's logbooks as they begin, in the shape of SPEC L; entries are added by the writer."""

from __future__ import annotations

from collections.abc import Mapping


def fresh(name: str, contract: Mapping[str, str]) -> str:
    """Return a new logbook: the run contract and two empty sections."""
    title = f"# {name}: Hero Run Logbook"
    values = "".join(f"- {label}: {text}\n" for label, text in contract.items())
    return f"{title}\n\n## Run Contract\n\n{values}\n## Launched Instances\n\n## Event Log\n"

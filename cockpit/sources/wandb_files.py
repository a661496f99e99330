"""Where a run's ``.wandb`` files lie: one per launch, several when it was resumed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def find(place: str, run_id: str | None) -> list[str]:
    """Return the ``.wandb`` files of a run, sorted by path.

    ``place`` is such a file, a run's directory (``offline-run-…``), a folder of them
    (``wandb``) or the folder that holds ``wandb``. Without ``run_id`` a folder means its
    newest run. Links such as ``latest-run`` add nothing twice. Raises ``OSError`` if ``place``
    cannot be read; an empty list says that the run is not there.
    """
    root = Path(place)
    if root.is_file():
        return [str(root)]
    return _in_folder(root, run_id) or _in_folder(root / "wandb", run_id, missing_ok=True)


def id_in_name(path: str) -> str:
    """Return the run id that a file's name gives: ``run-<id>.wandb``."""
    return Path(path).stem.removeprefix("run-")


def _in_folder(folder: Path, run_id: str | None, *, missing_ok: bool = False) -> list[str]:
    if missing_ok and not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    own = [folder / name for name in names if _is_log(name)]
    if own:
        return [str(path) for path in own if run_id in (None, id_in_name(str(path)))]
    run_id = run_id or _newest_id(folder, names)
    if run_id is None:
        return []
    likely = [name for name in names if run_id in name]
    found = set(_logs(folder, likely, run_id)) or set(_logs(folder, names, run_id))
    return sorted(found)


def _is_log(name: str) -> bool:
    return name.startswith("run-") and name.endswith(".wandb")


def _logs(folder: Path, names: list[str], run_id: str) -> Iterator[str]:
    for name in names:
        path = folder / name / f"run-{run_id}.wandb"
        if path.is_file():
            yield str(path.resolve())


def _newest_id(folder: Path, names: list[str]) -> str | None:
    """Return the id of the run that was started last, by the names of the directories."""
    runs = [name for name in names if name.removeprefix("offline-").startswith("run-")]
    for name in sorted(runs, key=lambda name: name.removeprefix("offline-"), reverse=True):
        for path in sorted((folder / name).glob("run-*.wandb")):
            return id_in_name(str(path))
    return None

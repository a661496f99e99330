"""What a demo on another system has submitted, written down before and after each submission.

``away.json`` in the demo's folder names the system, the demo's token and every job, so that
whatever ends the demo, ``--clean`` finds what it has left: a job without an id may exist or not.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict
from typing import Any, Final

from cockpit.demo.away.box import BoxSite
from cockpit.demo.away.ray import RaySite
from cockpit.demo.away.site import Ground, Site
from cockpit.demo.away.slurm import SlurmSite
from cockpit.demo.layout import DemoLayout
from cockpit.platforms.local.launcher.kernel import write_atomically

SITES: Final[dict[str, type[Site]]] = {
    "slurm": SlurmSite, "ray": RaySite, "box": BoxSite,
}  # fmt: skip
LETTERS: Final = "bcdfghjkmnpqrstvwxz"
"""No vowels: a token is never a word, nor part of one."""
TOKEN: Final = 5


class JournalError(Exception):
    """The journal cannot be read; the text is one line."""


class Journal:
    """The journal of one demo; every change of it is on disk before the call returns."""

    def __init__(self, layout: DemoLayout, site: Site, token: str) -> None:
        self.layout = layout
        self.site = site
        self.token = token
        self.ground: Ground | None = None
        self.jobs: dict[str, str | None] = {}

    @classmethod
    def begin(cls, layout: DemoLayout, site: Site) -> Journal:
        """Begin the journal of a new demo, with a token of its own."""
        made = cls(layout, site, "".join(secrets.choice(LETTERS) for _ in range(TOKEN)))
        made._write()
        return made

    @classmethod
    def read(cls, layout: DemoLayout) -> Journal | None:
        """Return the journal of the demo in a folder, ``None`` if it holds none.

        Raises ``JournalError``.
        """
        try:
            document = json.loads(layout.away.read_text(encoding="utf-8"))
            site = SITES[document["kind"]](**document["site"])
            found = cls(layout, site, document["token"])
            ground = document["ground"]
            found.ground = None if ground is None else Ground(**ground)
            found.jobs = dict(document["jobs"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{layout.away} cannot be read: {error}") from None
        return found

    def found(self, ground: Ground) -> None:
        """Note where the trainings run."""
        self.ground = ground
        self._write()

    def note(self, launch_id: str, job_id: str | None) -> None:
        """Note that a job is about to be submitted (``None``), or which one it became."""
        self.jobs[launch_id] = job_id
        self._write()

    def strike(self, launch_id: str) -> None:
        """Note that nothing was submitted under a launch id."""
        self.jobs.pop(launch_id, None)
        self._write()

    @property
    def doubtful(self) -> bool:
        """True if it is not known of a job whether it was submitted."""
        return None in self.jobs.values()

    def _write(self) -> None:
        ground = None if self.ground is None else asdict(self.ground)
        document: dict[str, Any] = {
            "schema": 1,
            "kind": self.site.kind,
            "site": self.site.settings,
            "token": self.token,
            "ground": ground,
            "jobs": self.jobs,
        }
        write_atomically(self.layout.away, json.dumps(document, indent=2) + "\n")

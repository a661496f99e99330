"""The tracker facet of W&B: a run's files, here or on a host, its server, or both joined."""

from __future__ import annotations

from functools import partial
from typing import Final

from cockpit.hosts.link import CallHost, call_blocking
from cockpit.model.clock import Clock, machine_time
from cockpit.model.facet import WANDB, ErrorKind, Facet, not_configured, unknown
from cockpit.model.observed import TrackerValue
from cockpit.model.place import address_of
from cockpit.model.run import RunSpec
from cockpit.sources.file_tracker import FileTracker
from cockpit.sources.two_trackers import FilesAndServer, Part, TwoTrackers
from cockpit.sources.wandb.listing import LaunchFiles, wanted_of
from cockpit.sources.wandb.online import OnlineWandb, where_of
from cockpit.sources.wandb.run_files import read_run
from cockpit.text.safe import clean


class OfflineWandb(FileTracker):
    """Reads the ``.wandb`` files that ``[run.wandb] dir`` names; never imports the client."""

    def __init__(self, clock: Clock, call: CallHost = call_blocking) -> None:
        """``call`` calls functions of the agents of ssh hosts."""
        files = LaunchFiles(call, partial(machine_time, clock))

        super().__init__(
            clock,
            WANDB,
            lambda spec: spec.dir,
            lambda spec: read_run(spec, files),
            files,
            wanted_of,
            "W&B files",
        )

    def _not_read(self, run: RunSpec, now: float) -> Facet[TrackerValue] | None:
        """Return why nothing is read: also where the newest run may be another one's."""
        facet = super()._not_read(run, now)
        if facet is not None or not run.same_tracker:
            return facet
        others = ", ".join(clean(name) for name in run.same_tracker)
        text = (
            f"{others} reads the same folder, so the newest run may be theirs: "
            "set wandb.id, or one dir each"
        )
        source = self._source(None if run.wandb is None else run.wandb.dir)
        return unknown(ErrorKind.BAD_ANSWER, text, source, now)


URL_MEANT: Final = "https://wandb.ai/ENTITY/PROJECT/runs/ID"


def places(run: RunSpec) -> tuple[str, ...]:
    """Return where a run's tracker is asked for: where its files lie, its project's server."""
    return (*_files_at(run), *_server_at(run))


def _files_at(run: RunSpec) -> tuple[str, ...]:
    return () if run.wandb is None or run.wandb.dir is None else (run.wandb.dir.endpoint,)


def _server_at(run: RunSpec) -> tuple[str, ...]:
    where = None if run.wandb is None else where_of(run.wandb)
    return () if where is None else (where.place,)


class Wandb(TwoTrackers):
    """The tracker of runs with ``[run.wandb]``: the files, and the server."""

    def __init__(
        self, clock: Clock, files: OfflineWandb | None = None, server: OnlineWandb | None = None
    ) -> None:
        self.server = server or OnlineWandb(clock)
        parts = Part(files or OfflineWandb(clock), _files_at), Part(self.server, _server_at)
        super().__init__(clock, parts, FilesAndServer)

    def _nowhere(self, run: RunSpec) -> Facet[TrackerValue]:
        if run.wandb is None:
            return not_configured("[run.wandb]")
        recorded = run.wandb.recorded
        if run.wandb.url is not None and address_of(run.wandb.url).project is None:
            text = f"wandb.url is not the URL of a run: {URL_MEANT} is meant"
            return unknown(ErrorKind.NOT_FOUND, text, "run file", self._clock.now())
        missing = "wandb.project" if recorded.project is None else "wandb.id"
        return not_configured(f"{missing} (or wandb.url, or wandb.dir)")

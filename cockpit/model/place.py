"""Addresses: where something lies on a machine, in a store, or at W&B.

A bare string says a path and leaves the machine to be remembered; a ``Place`` says both.
``parse_wandb`` reads a W&B run from every form in which people write it down.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from cockpit.model.late_regex import late_regex

if TYPE_CHECKING:
    from cockpit.model.run import JobSpec


HERE: Final = "this machine"
"""The endpoint of everything that lies on this machine. No ssh alias is two words."""
FILE: Final = "file"
SSH: Final = "ssh"
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


@dataclass(frozen=True, slots=True)
class Place:
    """Where something lies: ``scheme`` (``file``, ``ssh``, ``gs``, ``s3`` …), host, path.

    ``host`` is the ssh alias or the bucket, empty on this machine. ``path`` is as that system
    spells it: absolute for files, except where only the host can resolve it (``~/x``, ``x``);
    without a leading slash in a bucket. In a run file and in JSON it is the string.
    """

    scheme: str
    host: str
    path: str

    def __str__(self) -> str:
        if self.here:
            return self.path
        if self.scheme != SSH or self.path.startswith("/"):
            return f"{self.scheme}://{self.host}{_slashed(self.path)}"
        return f"{SSH}://{self.host}/{self.path if self.path.startswith('~') else './' + self.path}"

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Place], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Read a value's field from text, and write it as text."""
        from_text = core_schema.no_info_after_validator_function(
            place_of, core_schema.str_schema(strict=True)
        )
        return core_schema.json_or_python_schema(
            json_schema=from_text,
            python_schema=core_schema.union_schema(
                [core_schema.is_instance_schema(cls), from_text]
            ),
            serialization=core_schema.plain_serializer_function_ser_schema(
                str, return_schema=core_schema.str_schema()
            ),
        )

    @property
    def here(self) -> bool:
        """True when it lies on this machine."""
        return self.scheme == FILE and not self.host

    @property
    def local(self) -> str | None:
        """The path if it lies on this machine."""
        return self.path if self.here else None

    @property
    def endpoint(self) -> str:
        """The system that answers for it: all that share one share its fate."""
        if self.here:
            return HERE
        return self.host if self.scheme == SSH else f"{self.scheme}://{self.host}"

    def normal(self) -> Place:
        """Return the same place in its one spelling: no ``//``, no ``..``, no slash at the end."""
        if self.here or self.scheme == SSH:
            return Place(self.scheme, self.host, posixpath.normpath(self.path))
        return Place(self.scheme.lower(), self.host, self.path.rstrip("/"))

    def seen_from(self, job: JobSpec | None) -> str:
        """Return how the job itself spells it: on its own host a path, elsewhere the address.

        This is what a trainer can open, so it is what commands are filled with, what they are
        compared with (SPEC C-16) and what a lineage's tag is made of.
        """
        own = None if job is None else job.host
        return self.path if self.scheme == SSH and self.host == own else str(self)

    def below(self, *parts: str) -> Place:
        """Return a place inside it."""
        return Place(self.scheme, self.host, posixpath.join(self.path, *parts))

    def contains(self, other: Place) -> bool:
        """Tell whether ``other`` is this place or lies below it, compared part by part."""
        own, its = self.normal(), other.normal()
        if (own.scheme, own.host) != (its.scheme, its.host):
            return False
        return its.path == own.path or its.path.startswith(own.path.rstrip("/") + "/")


def place_of(text: str) -> Place:
    """Return the place that a string of the run file names; without a scheme on this machine."""
    found = _SCHEME.match(text)
    if found is None:
        return Place(FILE, "", text)
    scheme, rest = found[1], text[found.end() :]
    host, _, path = rest.partition("/")
    if scheme.lower() == FILE:
        return Place(FILE, "", "/" + path) if not host else Place(scheme, host, path)
    if scheme.lower() != SSH:
        return Place(scheme, host, path)
    if path == "~" or path.startswith("~/"):
        return Place(SSH, host, path)
    return Place(SSH, host, path[2:] if path.startswith("./") else "/" + path)


def sqlite_file(place: Place) -> Place:
    """Return the file that an address of SQLAlchemy's means (``sqlite:///mlflow.db``)."""
    return Place(FILE, "", place.path) if place.scheme.startswith("sqlite") else place


def on_host(host: str | None, path: str) -> Place:
    """Return a path as written on an ssh host, on this machine if there is none."""
    return Place(FILE, "", path) if host is None else Place(SSH, host, path)


def _slashed(path: str) -> str:
    return path if path.startswith("/") or not path else f"/{path}"


DEFAULT: Final = "https://api.forge.coreweave.com"
"""Where the client asks when nothing names a server."""
FORMER: Final = "https://api.wandb.ai"
_APPS: Final = {
    "wandb.ai": FORMER,
    "www.wandb.ai": FORMER,
    "app.wandb.ai": FORMER,
    "api.wandb.ai": FORMER,
    "forge.coreweave.com": DEFAULT,
    "api.forge.coreweave.com": DEFAULT,
}
_PAGES: Final = {FORMER: "https://wandb.ai", DEFAULT: "https://forge.coreweave.com/wandb"}
"""Where people look at what is asked for at an API's address; elsewhere it is the same one."""
_RUNS: Final = ("runs", "r")
_NO_RUN: Final = frozenset(
    ("artifacts", "groups", "overview", "reports", "sweeps", "table", "workspace")
)
_HOST: Final = late_regex(r"(?:localhost|\[[0-9a-fA-F:]+\]|[\w-]+(?:\.[\w-]+)*)(?::\d{1,5})?")


class WandbAddress(NamedTuple):
    """The parts that a written address names; ``base_url`` is the API's, without a slash."""

    base_url: str | None = None
    entity: str | None = None
    project: str | None = None
    run: str | None = None


def address_of(text: str | None) -> WandbAddress:
    """Return what an address names; nothing at all of what is none."""
    if not text:
        return WandbAddress()  # most runs name none, and are asked at each judging
    text = text.strip().removeprefix("wandb://")
    host = text.split("/")[0]
    if "://" not in text and ("." in host or ":" in host) and _HOST.fullmatch(host):
        text = f"https://{text}"
    try:
        parts = urlsplit(text)
    except ValueError:
        return WandbAddress()
    base = _server_of_page(text) if "://" in text else None
    if "://" in text and base is None:
        return WandbAddress()
    segments = [unquote(part) for part in parts.path.split("/") if part]
    if base is not None and len(segments) >= 4 and segments[0] == "wandb" and _names_run(segments):
        segments = segments[1:]
    return WandbAddress(base, *_run_in_path(segments))


def server_of(text: str | None) -> str | None:
    """Return the API's address that a setting (``base_url``) names, ``None`` for no web address.

    The pages of the public hosts stand for their APIs. What precedes an ``@`` is left out.
    """
    parts, host = _web(text)
    if parts is None:
        return None
    path = parts.path.rstrip("/").removesuffix("/graphql").rstrip("/")
    return _APPS.get(host) or f"{parts.scheme.lower()}://{host}{path}"


def _server_of_page(text: str) -> str | None:
    """Return the API's address at the server whose page of a run or a project this is."""
    parts, host = _web(text)
    if parts is None:
        return None
    return _APPS.get(host) or f"{parts.scheme.lower()}://{host}{_prefix(parts)}"


def _web(text: str | None) -> tuple[SplitResult | None, str]:
    try:
        parts = urlsplit((text or "").strip())
    except ValueError:
        return None, ""
    host = parts.netloc.rpartition("@")[2].lower()
    fine = parts.scheme.lower() in ("http", "https") and _HOST.fullmatch(host)
    return (parts, host) if fine else (None, "")


def page_of(base_url: str, entity: str, project: str, run: str) -> str:
    """Return the address at which people look at a run."""
    return f"{_PAGES.get(base_url, base_url)}/{entity}/{project}/runs/{run}"


def _prefix(parts: SplitResult) -> str:
    """Return the path under which one's own server answers: what precedes a run's parts."""
    segments = [part for part in parts.path.split("/") if part]
    runs = [at for at, part in enumerate(segments) if part in _RUNS]
    if runs and runs[0] >= 2:
        segments = segments[: runs[0] - 2]
    elif len(segments) >= 2:  # a project's page
        segments = segments[:-2] if segments[-1] not in _NO_RUN else segments[:-3]
    return "".join(f"/{part}" for part in segments)


def _names_run(segments: list[str]) -> bool:
    return segments[3] in _RUNS or segments[3] in _NO_RUN


def _run_in_path(segments: list[str]) -> tuple[str | None, str | None, str | None]:
    """Return entity, project and run of a path's parts; a short form may leave out ``runs``."""
    runs = [at for at, part in enumerate(segments) if part in _RUNS and at >= 2]
    if runs:
        at = runs[0]
        after = segments[at + 1 : at + 2]
        return segments[at - 2], segments[at - 1], after[0] if after else None
    if len(segments) >= 3 and segments[2] not in _NO_RUN:
        return segments[0], segments[1], segments[2]
    if len(segments) >= 2:
        return segments[0], segments[1], None
    return None, None, None

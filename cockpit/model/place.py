"""An address: on which machine or store something lies, and its path there.

A bare string says a path and leaves the machine to be remembered; a ``Place`` says both. It is
written as in the run file: ``/runs/a`` (this machine), ``ssh://gpu-box/runs/a``,
``gs://bucket/runs/a``. A path that starts at the home of a host, or at a folder that only the
host knows, is written ``ssh://gpu-box/~/a`` and ``ssh://gpu-box/./a``.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

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


def on_host(host: str | None, path: str) -> Place:
    """Return a path as written on an ssh host, on this machine if there is none."""
    return Place(FILE, "", path) if host is None else Place(SSH, host, path)


def _slashed(path: str) -> str:
    return path if path.startswith("/") or not path else f"/{path}"

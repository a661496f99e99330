"""Where a W&B run lives, from every form in which people write it down.

``entity/project/id``, ``https://wandb.ai/entity/project/runs/id``, the same at the present host
(``https://forge.coreweave.com/wandb/…``) or at one's own, with a workspace's suffix, a query and
without a scheme.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from cockpit.model.late_regex import late_regex

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
    if "://" not in text and _looks_like_host(text.split("/")[0]):
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
    return WandbAddress(base, *_named(segments))


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


def _looks_like_host(text: str) -> bool:
    return ("." in text or ":" in text) and _HOST.fullmatch(text) is not None


def _names_run(segments: list[str]) -> bool:
    return segments[3] in _RUNS or segments[3] in _NO_RUN


def _named(segments: list[str]) -> tuple[str | None, str | None, str | None]:
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

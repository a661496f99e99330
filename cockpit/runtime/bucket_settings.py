"""Where a bucket is asked and with which credentials: the variables and files of the stores' tools.

S3: ``AWS_ENDPOINT_URL(_S3)``, ``AWS_REGION``, keys in variables, a role of the machine, or a
profile (``AWS_PROFILE``) with keys in ``~/.aws/credentials``; ``AWS_SKIP_SIGNATURE=true`` for
public buckets.
GCS: ``STORAGE_EMULATOR_HOST``, ``GOOGLE_APPLICATION_CREDENTIALS``, the default credentials of
``gcloud``, or the machine's own; ``GOOGLE_SKIP_SIGNATURE=true`` for public buckets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

AMAZON: Final = "https://s3.amazonaws.com"
GOOGLE: Final = "https://storage.googleapis.com"
_OWN: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SKIP_SIGNATURE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
"""Variables from which the client takes credentials by itself."""


@dataclass
class Settings:
    """How one bucket is asked: ``endpoint`` is ``None`` for Amazon's and Google's own."""

    scheme: str
    endpoint: str | None
    bucket: str
    region: str | None = None

    @property
    def plain(self) -> bool:
        """True for one that is asked without TLS, as its address says."""
        return (self.endpoint or "").lower().startswith("http://")

    @property
    def url(self) -> str:
        """An address of the server that answers without credentials, if only by a refusal."""
        if self.endpoint is not None:
            return self.endpoint
        return f"{AMAZON}/{self.bucket}" if self.scheme == "s3" else GOOGLE

    @property
    def asks_region(self) -> bool:
        """True where the region is to be asked of the server: nobody has named one."""
        return self.scheme == "s3" and self.endpoint is None and self.region is None

    @property
    def by_s3(self) -> bool:
        """True for an emulator of GCS whose bucket the client would spell ``%2D`` for a dash.

        Google's own servers take that, emulators do not; the requests are the same as S3's.
        """
        return self.scheme == "gs" and self.endpoint is not None and not self.bucket.isalnum()

    def options(self) -> dict[str, Any]:
        """Return what the client is given; credentials are looked up anew. Blocking."""
        if self.by_s3:
            return {"endpoint": self.endpoint, "region": "auto", "skip_signature": True}
        if self.scheme != "s3":
            return _google(self.endpoint)
        found: dict[str, Any] = dict(_profile_keys(os.environ))
        if self.endpoint is not None:
            found["endpoint"] = self.endpoint
        if self.region is not None:
            found["region"] = self.region
        return found


def settings_of(scheme: str, bucket: str) -> Settings:
    """Return how a bucket is asked in this environment. Reads small files of this machine."""
    env = os.environ
    if scheme != "s3":
        endpoint = env.get("STORAGE_EMULATOR_HOST") or None
        if endpoint is not None and "://" not in endpoint:
            endpoint = f"http://{endpoint}"
        return Settings(scheme, endpoint and endpoint.rstrip("/"), bucket)
    named = map(env.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"))
    profile = _profile("AWS_CONFIG_FILE", "config", env)
    endpoint = next(filter(None, (*named, profile.get("endpoint_url"))), None)
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or profile.get("region")
    return Settings(scheme, endpoint and endpoint.rstrip("/"), bucket, region or None)


def _google(endpoint: str | None) -> dict[str, Any]:
    if endpoint is None:
        return {}
    # An emulator wants no credentials; the client has no other word for its address.
    key = {"gcs_base_url": endpoint, "disable_oauth": True}
    blank = {"client_email": "", "private_key": "", "private_key_id": ""}
    return {"service_account_key": json.dumps({**key, **blank}), "skip_signature": True}


def _profile_keys(env: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a profile, where no variable says where credentials come from."""
    if any(env.get(name) for name in _OWN):
        return {}
    found = _profile("AWS_SHARED_CREDENTIALS_FILE", "credentials", env)
    names = {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "session_token": "aws_session_token",
    }
    keys = {ours: found[theirs] for ours, theirs in names.items() if found.get(theirs)}
    return keys if "access_key_id" in keys and "secret_access_key" in keys else {}


def _profile(variable: str, name: str, env: Mapping[str, str]) -> Mapping[str, str]:
    """Return a profile's lines in a file of AWS's tools; nothing for one that cannot be read."""
    import configparser  # few runs lie in buckets

    path = Path(env.get(variable) or Path("~/.aws", name).expanduser())
    profile = env.get("AWS_PROFILE") or "default"
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, UnicodeError, configparser.Error):
        return {}
    section = f"profile {profile}" if name == "config" and profile != "default" else profile
    return parser[section] if parser.has_section(section) else {}

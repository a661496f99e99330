"""Addresses and credentials of object stores, and their errors in one line each.

Settings come from the variables and files of the stores' own tools. An error says what failed,
where, and what to do; the client's own text (addresses, request ids) is not passed on.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from cockpit.model.base import listed
from cockpit.model.facet import ErrorKind
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

AMAZON: Final = "https://s3.amazonaws.com"
GOOGLE: Final = "https://storage.googleapis.com"
_OWN: Final = listed(
    "AWS_ACCESS_KEY_ID AWS_SKIP_SIGNATURE AWS_WEB_IDENTITY_TOKEN_FILE"
    " AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_CREDENTIALS_FULL_URI"
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
            if self.endpoint is None:
                return {}
            # An emulator wants no credentials; the client has no other word for its address.
            key = {"gcs_base_url": self.endpoint, "disable_oauth": True}
            blank = {"client_email": "", "private_key": "", "private_key_id": ""}
            return {"service_account_key": json.dumps({**key, **blank}), "skip_signature": True}
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


_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>(\w{1,60})</Code>")
_READ: Final = 8192
_LIMIT: Final = 600


_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})</Message>")
_CLASS: Final = re.compile(r"<StorageClass>(\w{1,40})</StorageClass>")
_UNREADABLE: Final = re.compile(r'[Ii]nvalid path: .*?[Pp]ath "((?:[^"\\]|\\.){1,1024})"', re.S)
ARCHIVED: Final = "archived"
"""How the message about an object begins that must be restored before it can be read."""


class BucketError(Exception):
    """A bucket that could not be read; ``whole``: nothing else in it could be either.

    ``key`` is the key or prefix whose spelling the client cannot read, where that is the reason.
    """

    def __init__(
        self, kind: ErrorKind, message: str, *, whole: bool = True, key: str | None = None
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.whole = whole
        self.key = key


LOGIN: Final = {
    "s3": "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with keys in"
    " ~/.aws/credentials (aws configure export-credentials prints them);"
    " AWS_SKIP_SIGNATURE=true for a public bucket",
    "gs": "run gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS;"
    " GOOGLE_SKIP_SIGNATURE=true for a public bucket",
}
_AGAIN: Final = {"s3": "log in again (aws sso login, or new keys)", "gs": LOGIN["gs"]}
_RIGHTS: Final = {
    "s3": "s3:ListBucket, s3:GetObject; AWS_REQUEST_PAYER=requester for a bucket whose readers pay",
    "gs": "storage.objects.list, .get",
}


class _Sign(NamedTuple):
    """What a store's answer, or the client's own text, means that has one of these signs in it."""

    signs: str
    kind: ErrorKind
    text: str
    whole: bool = True


_REGION: Final = "{bucket} lies in another region: set AWS_REGION to the bucket's own"
_ANSWERS: Final = (
    _Sign("InvalidObjectState", ErrorKind.FORBIDDEN, "{archived}: restore it first", whole=False),
    _Sign("NoSuchBucket", ErrorKind.NOT_FOUND,
          "{bucket} does not exist: correct the path, or the endpoint that is asked"),
    _Sign("ExpiredToken ExpiredTokenException TokenRefreshRequired", ErrorKind.UNAUTHORIZED,
          "{bucket}: the credentials have expired: {again}"),
    _Sign("InvalidAccessKeyId SignatureDoesNotMatch InvalidToken AuthenticationRequired 401",
          ErrorKind.UNAUTHORIZED, "{bucket}: the credentials are not accepted ({code}): {again}"),
    _Sign("RequestTimeTooSkewed RequestExpired", ErrorKind.UNAUTHORIZED,
          "{bucket}: this machine's clock is wrong ({code}): set it (timedatectl)"),
    _Sign("PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException"
          " 301 302 307 308", ErrorKind.BAD_ANSWER, _REGION),
    _Sign("SlowDown RequestLimitExceeded Throttling TooManyRequests 429", ErrorKind.RATE_LIMITED,
          "{bucket}: rate limited ({code}): asked less often now"),
    _Sign("404", ErrorKind.NOT_FOUND, "{place} is not there", whole=False),
    _Sign("403", ErrorKind.FORBIDDEN,
          "{place} is refused ({words}): the credentials may lack {rights}", whole=False),
    _Sign("5", ErrorKind.REFUSED, "{bucket}: server error {status}: trying again"),
    _Sign("", ErrorKind.BAD_ANSWER, "{bucket}: the server answers with status {status}"),
)  # fmt: skip
"""By the server's own codes, then by status; ``5`` is each that begins so, nothing is the rest."""
_SILENCES: Final = (
    _Sign(r"169\.254\.|metadata\.google|token request|latest/api/token|meta-data/iam"
          r"|computeMetadata", ErrorKind.UNAUTHORIZED, "{bucket}: no credentials found: {login}"),
    _Sign(r"invalid peer certificate|certificate|corrupt message|InvalidMessage|\btls\b",
          ErrorKind.TLS, "{bucket}: the certificate or the encryption is not accepted"),
    _Sign(r"dns error|failed to lookup|name or service", ErrorKind.DNS,
          "{bucket}: the server's name cannot be resolved; is the network up?"),
    _Sign(r"kind: Timeout|timed out|operation timeout", ErrorKind.TIMEOUT,
          "{bucket}: no answer in time"),
    _Sign(r"configured region|without LOCATION", ErrorKind.BAD_ANSWER, _REGION),
    _Sign(r"kind: Connect|error sending request|kind: Request|decoding response body|connection"
          r"|kind: Interrupted|error reading a body", ErrorKind.REFUSED,
          "{bucket}: connection refused or lost"),
)  # fmt: skip
"""By patterns in the client's text, the most telling first: the client asked for credentials (it
asks the machine that it runs on), or there was no answer."""


def _sign_of(text: str, status: str, code: str) -> _Sign | None:
    """Return what a failed request shows first; ``None``: nothing that is known."""
    if status and not re.search(_SILENCES[0].signs, text):
        shown = {code, status, status[:1], ""}
        return next(each for each in _ANSWERS if not shown.isdisjoint(each.signs.split(" ")))
    return next((each for each in _SILENCES if re.search(each.signs, text, re.IGNORECASE)), None)


def trouble(bucket: str, where: str, error: Exception) -> BucketError:
    """Return what a failed request at ``bucket`` means; ``where`` is the prefix or key in it."""
    text, scheme = str(error)[:_READ], bucket.partition(":")[0]
    status, code, message, cold = (
        found[1].strip() if (found := pattern.search(text)) is not None else ""
        for pattern in (_STATUS, _CODE, _MESSAGE, _CLASS)
    )
    names = {
        "bucket": bucket,
        "place": f"{bucket}/{where}".rstrip("/"),
        "status": status,
        "code": code or f"status {status}",
        "words": ": ".join(filter(None, (code, message))) or f"status {status}",
        "archived": f"{ARCHIVED} ({cold})" if cold else ARCHIVED,
        "again": _AGAIN[scheme],
        "login": LOGIN[scheme],
        "rights": _RIGHTS[scheme],
    }
    late = "timed out" if isinstance(error, TimeoutError) else ""
    sign = _sign_of(text or late, status, code)
    if sign is not None:
        said = clean(scrub(sign.text.format_map(names)), _LIMIT)
        return BucketError(sign.kind, said, whole=sign.whole)
    if isinstance(error, FileNotFoundError):
        return BucketError(ErrorKind.NOT_FOUND, f"{bucket}/{where} is not there", whole=False)
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None or "parse path" in text or "parsing Path" in text:
        return unreadable_key(bucket, where, unreadable[1] if unreadable is not None else None)
    return no_listing(bucket)


def is_archived(message: str | None) -> bool:
    """Tell whether a message is about an object that must be restored before it can be read."""
    return message is not None and message.startswith(ARCHIVED)


def unreadable_key(bucket: str, where: str, key: str | None) -> BucketError:
    """Return that a key is spelled in a way that the client cannot read, and which one if known."""
    how = "an empty part, a line break" if key is None or "//" not in key else "an empty part: //"
    named = "a key there" if key is None else f"the key {key}"
    text = f"{bucket}/{where}: {named} is spelled in a way that cannot be read ({how})"
    return BucketError(ErrorKind.BAD_ANSWER, clean(scrub(text), _LIMIT), whole=False, key=key)


def no_listing(bucket: str) -> BucketError:
    """Return that what has answered is no object store: a page to sign in, a proxy."""
    what = "the server answers with something that is no listing; is the endpoint the right one?"
    return BucketError(ErrorKind.BAD_ANSWER, f"{bucket}: {what}")

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

from cockpit.model.facet import ErrorKind
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub

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
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"})
_NOT_ACCEPTED: Final = frozenset(
    {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationRequired"}
)
_LATE: Final = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_REGION: Final = frozenset(
    {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_SLOW: Final = frozenset({"SlowDown", "RequestLimitExceeded", "Throttling", "TooManyRequests"})


def trouble(bucket: str, where: str, error: Exception) -> BucketError:
    """Return what a failed request at ``bucket`` means; ``where`` is the prefix or key in it."""
    text = str(error)[:_READ]
    status, code = _STATUS.search(text), _CODE.search(text)
    none = _credentials(bucket, text)
    if none is not None:
        return none
    if status is None:
        return _unanswered(bucket, where, error, text)
    answer = _Answer(int(status[1]), code[1] if code else "", text)
    return _refused(bucket, where, answer)


class _Answer(NamedTuple):
    """What the server said: its status, its own code, and the text that both stand in."""

    status: int
    code: str
    text: str

    @property
    def words(self) -> str:
        """The server's own words: its code and its message."""
        found = _MESSAGE.search(self.text)
        message = found[1].strip() if found is not None else ""
        return ": ".join(filter(None, (self.code, message))) or f"status {self.status}"


def _error(kind: ErrorKind, text: str, *, whole: bool = True) -> BucketError:
    return BucketError(kind, clean(scrub(text), _LIMIT), whole=whole)


def _refused(bucket: str, where: str, answer: _Answer) -> BucketError:
    """Return what the server's own answer means."""
    scheme = bucket.partition(":")[0]
    place = f"{bucket}/{where}".rstrip("/")
    if answer.code == "InvalidObjectState":
        found = _CLASS.search(answer.text)
        text = f"{ARCHIVED} ({found[1]})" if found is not None else ARCHIVED
        return _error(ErrorKind.FORBIDDEN, f"{text}: restore it first", whole=False)
    named = _by_code(bucket, scheme, answer.code)
    if named is not None:
        return named
    return _by_status(bucket, place, answer)


def _by_status(bucket: str, place: str, answer: _Answer) -> BucketError:
    scheme, status = bucket.partition(":")[0], answer.status
    rights = "s3:ListBucket, s3:GetObject" if scheme == "s3" else "storage.objects.list, .get"
    payer = "; AWS_REQUEST_PAYER=requester for a bucket whose readers pay" if scheme == "s3" else ""
    said = {
        401: (ErrorKind.UNAUTHORIZED, f"the credentials are not accepted: {_AGAIN[scheme]}"),
        429: (ErrorKind.RATE_LIMITED, "rate limited (status 429): asked less often now"),
    }
    if status == 404:
        return _error(ErrorKind.NOT_FOUND, f"{place} is not there", whole=False)
    if status == 403:
        text = f"{place} is refused ({answer.words}): the credentials may lack {rights}{payer}"
        return _error(ErrorKind.FORBIDDEN, text, whole=False)
    if status in (301, 302, 307, 308):
        return _region(bucket)
    if status in said:
        kind, text = said[status]
        return _error(kind, f"{bucket}: {text}")
    if status >= 500:
        return _error(ErrorKind.REFUSED, f"{bucket}: server error {status}: trying again")
    return _error(ErrorKind.BAD_ANSWER, f"{bucket}: the server answers with status {status}")


def _by_code(bucket: str, scheme: str, code: str) -> BucketError | None:
    if code == "NoSuchBucket":
        text = f"{bucket} does not exist: correct the path, or the endpoint that is asked"
        return _error(ErrorKind.NOT_FOUND, text)
    if code in _EXPIRED:
        return _error(
            ErrorKind.UNAUTHORIZED, f"{bucket}: the credentials have expired: {_AGAIN[scheme]}"
        )
    if code in _NOT_ACCEPTED:
        text = f"{bucket}: the credentials are not accepted ({code}): {_AGAIN[scheme]}"
        return _error(ErrorKind.UNAUTHORIZED, text)
    if code in _LATE:
        text = f"{bucket}: this machine's clock is wrong ({code}): set it (timedatectl)"
        return _error(ErrorKind.UNAUTHORIZED, text)
    if code in _REGION:
        return _region(bucket)
    if code in _SLOW:
        text = f"{bucket}: rate limited ({code}): asked less often now"
        return _error(ErrorKind.RATE_LIMITED, text)
    return None


def _region(bucket: str) -> BucketError:
    text = f"{bucket} lies in another region: set AWS_REGION to the bucket's own"
    return _error(ErrorKind.BAD_ANSWER, text)


_MACHINES: Final = (
    *("169.254.", "metadata.google", "token request"),
    *("latest/api/token", "meta-data/iam", "computeMetadata"),
)
"""Words of requests by which the client asks the machine that it runs on for credentials."""


def _credentials(bucket: str, text: str) -> BucketError | None:
    """Return that there are no credentials, where what failed was asking the machine for some."""
    if not any(word in text for word in _MACHINES):
        return None
    login = LOGIN[bucket.partition(":")[0]]
    return _error(ErrorKind.UNAUTHORIZED, f"{bucket}: no credentials found: {login}")


_WORDS: Final = (
    (r"invalid peer certificate|certificate|corrupt message|InvalidMessage|\btls\b", "tls"),
    (r"dns error|failed to lookup|name or service", "dns"),
    (r"kind: Timeout|timed out|operation timeout", "timeout"),
    (r"configured region|without LOCATION", "region"),
    (r"kind: Connect|error sending request|kind: Request|decoding response body|connection"
     r"|kind: Interrupted|error reading a body", "refused"),
)  # fmt: skip
"""What the client's text has in it, the most telling first, and what that means."""


def _unanswered(bucket: str, where: str, error: Exception, text: str) -> BucketError:
    """Return what it means that there was no answer, or none that could be understood."""
    words = ((name, re.search(pattern, text, re.I)) for pattern, name in _WORDS)
    word = next((name for name, found in words if found is not None), "")
    if isinstance(error, TimeoutError) or word == "timeout":
        return _error(ErrorKind.TIMEOUT, f"{bucket}: no answer in time")
    if word == "region":
        return _region(bucket)
    known = {
        "tls": (ErrorKind.TLS, "the certificate or the encryption is not accepted"),
        "dns": (ErrorKind.DNS, "the server's name cannot be resolved; is the network up?"),
        "refused": (ErrorKind.REFUSED, "connection refused or lost"),
    }
    if word in known:
        kind, what = known[word]
        return _error(kind, f"{bucket}: {what}")
    if isinstance(error, FileNotFoundError):
        return _error(ErrorKind.NOT_FOUND, f"{bucket}/{where} is not there", whole=False)
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None or "parse path" in text or "parsing Path" in text:
        key = unreadable[1] if unreadable is not None else None
        return unreadable_key(bucket, where, key)
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
    return _error(ErrorKind.BAD_ANSWER, f"{bucket}: {what}")

"""What a message offers its reader to answer with: buttons that are signed, names that come back.

An offer lies in the store of the machine that has sent it. A token names it and is signed with a
key of this machine alone, so that what comes back by a topic that others can write to is known
to be ours, unchanged and not used yet.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from cockpit.config.places import machine_name, state_dir
from cockpit.model.answers import ACK_LASTS, AnswerVerb, Ask, Offer
from cockpit.model.clock import Clock
from cockpit.model.run import CockpitFile
from cockpit.notify.message import Button, Message
from cockpit.runtime.moment import moment
from cockpit.store.answers import Answers, new_ref
from cockpit.store.store import Store, StoreError, run_key

KEY_BYTES: Final = 32
_SIGNED: Final = 22
"""Characters of the signature: 132 bits."""
TOKEN: Final = re.compile(rf"([A-Z2-7]{{26}})\.([A-Za-z0-9_-]{{{_SIGNED}}})")


class KeyFileError(Exception):
    """The key cannot be used; the text says why and what to do."""


def key_path() -> Path:
    """Return where this machine's key lies: others may have theirs beside it, on one home."""
    return state_dir() / f"answers-{machine_name()}.key"


def signing_key(path: Path) -> bytes:
    """Return the key, made for this user alone if there is none; raises ``KeyFileError``."""
    try:
        return _read_key(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        try:
            os.link(draft, path)  # whole, or not at all: another process may make it, too
        except FileExistsError:
            pass
        finally:
            draft.unlink()
        return _read_key(path)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error


def _read_key(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise KeyFileError(f"{path} is not a file of this user; move it away")
        if found.st_mode & 0o077:
            raise KeyFileError(f"{path} can be read by others; delete it, and a new one is made")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeyFileError(f"{path} is no key; delete it, and a new one is made")
    return key


def token_of(offer: Offer, key: bytes) -> str:
    """Return what comes back when the offer is taken."""
    digest = hmac.new(key, offer.signed.encode(), hashlib.sha256).digest()
    return f"{offer.ref}.{base64.urlsafe_b64encode(digest).decode('ascii')[:_SIGNED]}"


def signed_by_us(token: str, offer: Offer, key: bytes) -> bool:
    """Tell whether a token is this offer's, signed with this key."""
    return hmac.compare_digest(token.encode(), token_of(offer, key).encode())


class Attached(NamedTuple):
    """What a message carries for its answer: buttons, or a name that the service keeps."""

    buttons: tuple[Button, ...] = ()
    ref: str = ""


NOTHING: Final = Attached()


class Offers:
    """Makes the offers of the messages of one run file; blocking, raises nothing."""

    def __init__(self, file: CockpitFile, store: Store | None, clock: Clock) -> None:
        self._file = file
        self._answers = None if store is None or store.read_only else Answers(store)
        self._clock = clock
        self._kinds = frozenset(each.kind for each in file.notify.answers)
        topics = (each.url_env for each in file.notify.answers if each.kind == "ntfy")
        self.topic_env = next(filter(None, topics), "")
        """The variable with the topic to which buttons post; empty: there is none."""

    def attached(self, kind: str, route: str, to: str | None, message: Message) -> Attached:
        """Return what a message by a route of this kind carries; it may fail, the message goes."""
        if kind not in self._kinds or self._answers is None or not message.subjects:
            return NOTHING
        asks = tuple(Ask(run=run, key=key) for run, key in message.subjects)
        try:
            if kind != "ntfy":
                return Attached(ref=self._offer("ack", asks, route).ref)
            return NOTHING if to is None else Attached(tuple(self._buttons(asks, route, to)))
        except (StoreError, KeyFileError):
            return NOTHING

    def _buttons(self, asks: tuple[Ask, ...], route: str, to: str) -> Iterator[Button]:
        key = signing_key(key_path())
        runs = tuple(dict.fromkeys(Ask(run=each.run) for each in asks))
        ordered = {run.name for run in self._file.runs if run.standing is not None}
        yield Button("Acknowledge", token_of(self._offer("ack", asks, route, to), key))
        if any(each.run in ordered for each in runs):
            yield Button("End order", token_of(self._offer("stop", runs, route, to), key))
        if len(runs) == 1 and any(each.key.startswith(ENDED) for each in asks):
            yield Button("Relaunch?", token_of(self._offer("relaunch", runs, route, to), key))

    def _offer(
        self, verb: AnswerVerb, asks: tuple[Ask, ...], route: str, person: str = ""
    ) -> Offer:
        assert self._answers is not None
        offer = Offer(
            ref=new_ref(), verb=verb, asks=asks, lasts=ACK_LASTS, person=person, route=route
        )
        self._answers.offer(run_key(self._file.path, ""), offer, moment(self._clock))
        return offer


ENDED: Final = "C-01"
"""The alert after which a relaunch is offered: the job ended without success."""

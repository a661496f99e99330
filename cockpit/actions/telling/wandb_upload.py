"""Looks at offline W&B folders and runs the client's own wandb sync on them (SPEC A-11)."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from cockpit.actions.core.action import safe
from cockpit.hosts.script import run_script
from cockpit.model.facet import ErrorKind
from cockpit.model.place import Place
from cockpit.runtime.own_path import own_python
from cockpit.runtime.shell import Completed
from cockpit.runtime.ssh import LIMITED, TIMED_OUT, RemoteError, quote
from cockpit.sources.logs.pieces import word_of
from cockpit.store.journal import JournalEntry

LOOK_WITHIN: Final = 20.0
DRY_WITHIN: Final = 60.0
LEAST: Final = 120.0
"""Seconds that any upload may take; large ones have more, by their size."""
SLOWEST: Final = 500_000.0
"""Bytes a second that an upload is given time for."""
LONGEST: Final = 3600.0
SPARE: Final = 10.0
"""Seconds by which the script's own limit ends before ours."""
HEAD: Final = 7
"""Bytes that a run file begins with."""
MOST: Final = 200
"""Folders that are looked at."""
_FRAGMENT: Final = """\
opened() {
  [ ! -d "$1" ] || { [ -r "$1" ] && [ -x "$1" ]; } || { mark closed; printf %s "$1"; }
}
one() {
  f=$1/run-$id.wandb; [ -f "$f" ] || { opened "$1"; return 0; }
  n=$((n + 1)); [ $n -le MOST ] || return 0
  set -- "$1" $(limited 5 stat -c '%s %Y' "$f" 2>/dev/null || limited 5 stat -f '%z %m' "$f")
  s=-; [ ! -e "$f.synced" ] || s=synced
  [ $s = - ] || [ ! "$f" -nt "$f.synced" ] || s=grown
  mark fragment "${2:--}" "${3:--}" $s $(limited 5 du -sk "$1" 2>/dev/null | cut -f 1)
  printf %s "$1"
}
n=0
if [ -f "$d/run-$id.wandb" ]; then one "$d"; else
  opened "$d"; opened "$d/wandb"
  for p in "$d"/offline-run-*-"$id" "$d"/wandb/offline-run-*-"$id"; do one "$p"; done
fi
mark seen $n
"""
_RUNNING: Final = r"""
{ ps -Aww -o pid= -o args= || ps -o pid= -o args=; } 2>/dev/null | while read -r p a; do
  case $a in
    *--dry-run*) ;;
    *wandb*" sync "*"-$id" | *wandb*" sync "*"-$id"[/\ ]*) mark running "$p";;
  esac
done
"""
"""A client that was begun goes on when its connection breaks: two at once would send all twice."""
_STAGING: Final = """\
data=${WANDB_DATA_DIR:-}
if [ -z "$data" ]; then case $(uname) in
  Darwin) data="$HOME/Library/Application Support/wandb";;
  *) data=${XDG_DATA_HOME:-$HOME/.local/share}/wandb;;
esac; fi
for s in "$data/artifacts/staging" "$d/../wandb_data/artifacts/staging"; do
  [ -d "$s" ] || continue
  mark staging "$(limited 10 du -sk "$s" 2>/dev/null | cut -f 1)"; printf %s "$s"
done
"""
_KEY: Final = """\
net=${NETRC:-$HOME/.netrc}; [ -r "$net" ] || net=$HOME/_netrc
k=none
if [ -n "${WANDB_API_KEY:-}" ]; then k=variable
elif grep -Eqs 'wandb|coreweave|HOST' "$net"; then k=netrc
elif grep -qs api_key "${WANDB_CONFIG_DIR:-$HOME/.config/wandb}/settings"; then k=settings
else for t in "$HOME/.wandb_token" "$HOME/.wandb_key"; do
  [ $k = none ] && [ -r "$t" ] && { k=file; WANDB_API_KEY=$(head -n 1 "$t" | tr -d '[:space:]'); }
done; [ $k = none ] || export WANDB_API_KEY; fi
"""
"""Where the key comes from, in the client's order; a file of its own is read last, never shown."""
_CLIENT: Final = """\
client() {
  for c in CANDIDATES; do command -v "$c" >/dev/null 2>&1 && { "$c" "$@"; return; }; done
  python3 -m wandb "$@"
}
"""
_ENV: Final = """\
t=$(mktemp -d) && cd "$t" || exit 1
trap 'cd /; rm -rf "$t"' EXIT
unset WANDB_DIR WANDB_MODE WANDB_DISABLED WANDB_RUN_ID WANDB_RESUME WANDB_FORK_FROM
unset WANDB_ENTITY WANDB_PROJECT
WANDB_ERROR_REPORTING=false; export WANDB_ERROR_REPORTING
"""
"""The client writes logs of its own below where it is started: not into a person's folder."""


@dataclass(frozen=True)
class Fragment:
    """One offline folder: bytes of its run file, its last change, bytes of all of it.

    ``synced``: it has its mark; ``grown``: written to after that; ``cut``: sent as far as it goes,
    its last record is not whole. ``None``: could not be had.
    """

    path: str
    size: int | None
    mtime: float | None
    whole: int | None
    synced: bool
    grown: bool = False
    cut: bool = False

    @property
    def empty(self) -> bool:
        """True for a run file that has no record, only its head."""
        return self.size is not None and self.size <= HEAD


@dataclass(frozen=True)
class Offline:
    """What lies there; ``key`` says where the client would take its key from (``none``)."""

    fragments: tuple[Fragment, ...]
    staging: tuple[tuple[str, int], ...]
    key: str
    more: int = 0
    """Folders beyond those that were looked at."""
    closed: tuple[str, ...] = ()
    """Folders that this user may not look into."""
    running: tuple[str, ...] = ()
    """Processes there that upload files of this id at this moment, whoever began them."""

    @property
    def left(self) -> tuple[Fragment, ...]:
        """Those that are not synced yet and have anything in them that was not sent."""
        left = (each for each in self.fragments if not each.synced and not each.cut)
        return tuple(each for each in left if not each.empty)

    @property
    def empty(self) -> tuple[Fragment, ...]:
        """Those whose run was killed before it wrote: the client would stop at them."""
        return tuple(each for each in self.fragments if not each.synced and each.empty)

    @property
    def marked(self) -> frozenset[str]:
        """The folders that have their mark."""
        return frozenset(each.path for each in self.fragments if each.synced)


@dataclass(frozen=True)
class Destination:
    """Where a run is uploaded to; ``base_url`` ``None``: wherever the client's settings say."""

    entity: str
    project: str
    base_url: str | None = None


@dataclass(frozen=True)
class Uploader:
    """The offline folders of one W&B id, and the client beside them."""

    place: Place
    run_id: str
    workdir: str | None = None

    @property
    def host(self) -> str | None:
        """Where the scripts run; ``None``: here."""
        return None if self.place.here else self.place.host

    async def look(self, base_url: str | None) -> Offline:
        """Return what lies there; raises ``RemoteError``."""
        # What tells the marks of one script from all other text
        mark = secrets.token_hex(12)
        script = "\n".join((
            "LC_ALL=C; export LC_ALL", LIMITED, _marking(mark),
            f"d={word_of(self.place.path)}; id={quote(self.run_id)}",
            'case $d in /*) ;; *) d=$(pwd)/$d;; esac',
            _FRAGMENT.replace("MOST", str(MOST)), _RUNNING, _STAGING, _key(base_url),
            "mark key $k",
        ))  # fmt: skip
        done = await run_script(self.host, script, deadline=LOOK_WITHIN)
        found = _records(done.out, mark)
        if all(words[0] != "key" for words, _ in found):
            text = f"{self.place}: what lies there was not told to its end (status {done.rc})"
            raise RemoteError(ErrorKind.BAD_ANSWER, text, sent=True)
        return _offline(found)

    async def run(
        self, to: Destination, fragments: Sequence[Fragment], within: float, *, dry: bool = False
    ) -> Completed:
        """Run the client on folders, with all that it starts killed after ``within`` seconds.

        ``timed_out`` says that it was. Raises ``RemoteError``.
        """
        words = self.words(to, fragments, dry=dry)
        client = f'{self._client()}client "$@"'
        script = "\n".join((
            "(", LIMITED, _ENV, _key(to.base_url), self._base(to),
            f"limited {within:.0f} sh -c {quote(client)} sh {words}", ")",
        ))  # fmt: skip
        done = await run_script(self.host, script, deadline=within + SPARE)
        return done._replace(timed_out=done.timed_out or done.rc == TIMED_OUT)

    def words(self, to: Destination, fragments: Sequence[Fragment], *, dry: bool = False) -> str:
        """Return the client's arguments as a shell's words."""
        options = ["sync", "--entity", to.entity, "--project", to.project, "--skip-synced"]
        options += ["--dry-run"] if dry else []
        return " ".join(map(quote, [*options, *(each.path for each in fragments)]))

    def _client(self) -> str:
        if self.host is None:
            own = " ".join(map(quote, own_python("wandb")))
            return f'client() {{ {own} "$@"; }}\n'
        beside = [word_of(f"{self.workdir}/.venv/bin/wandb")] if self.workdir else []
        return _CLIENT.replace(
            "CANDIDATES", " ".join([*beside, "wandb", '"$HOME"/.local/bin/wandb'])
        )

    def _base(self, to: Destination) -> str:
        return f"WANDB_BASE_URL={quote(to.base_url)}; export WANDB_BASE_URL" if to.base_url else ":"


def upload_within(fragments: Sequence[Fragment]) -> float:
    """Return the seconds that an upload may take."""
    size = sum(each.whole or each.size or 0 for each in fragments)
    return min(LONGEST, LEAST + size / SLOWEST)


def _key(base_url: str | None) -> str:
    host = (base_url or "").partition("://")[2].partition("/")[0].partition(":")[0]
    plain = "".join(char for char in host if char.isalnum() or char in ".-").replace(".", "[.]")
    return _KEY.replace("|HOST", f"|{plain}" if plain else "")


def _offline(found: list[tuple[list[str], bytes]]) -> Offline:
    fragments, staging, closed, running, key, seen = [], [], [], [], "none", 0
    for words, payload in found:
        match words:
            case ["fragment", size, mtime, state, *whole]:
                fragments.append(_fragment(payload, size, mtime, state, whole))
            case ["staging", kilobytes]:
                staging.append((_text(payload), 1024 * (_number(kilobytes) or 0)))
            case ["closed"]:
                closed.append(_text(payload))
            case ["running", pid] if pid.isdecimal():
                running.append(pid)
            case ["key", where]:
                key = where
            case ["seen", count]:
                seen = _number(count) or 0
            case _:
                pass
    fragments.sort(key=lambda each: each.path.rpartition("/")[2])
    more = max(0, seen - len(fragments))
    lists = (closed, running)
    return Offline(tuple(fragments), tuple(staging), key, more, *map(tuple, lists))


def _fragment(path: bytes, size: str, mtime: str, state: str, whole: list[str]) -> Fragment:
    at, kilobytes = _number(mtime), _number(whole[0]) if whole else None
    return Fragment(
        path=_text(path),
        size=_number(size),
        mtime=None if at is None else float(at),
        whole=None if kilobytes is None else 1024 * kilobytes,
        synced=state in ("synced", "grown"),
        grown=state == "grown",
    )


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None


TORN: Final = "torn"
"""The fact that holds the sizes of such files when they were sent, by folder, as JSON."""


def packed(fragments: Iterable[Fragment]) -> str:
    """Return what the journal keeps of them."""
    return json.dumps({safe(each.path): each.size for each in fragments})


def without_sent(found: Offline, entries: Iterable[JournalEntry], place: str) -> Offline:
    """Return what lies there, those marked as cut that went to this very place as they are now."""
    known: dict[str, int | None] = {}
    for entry in entries:
        if entry.action == "sync" and goes_to(entry.facts) == place:
            known |= _read(entry.facts.get(TORN, "{}"))
    marked = (
        replace(each, cut=each.size is not None and known.get(safe(each.path)) == each.size)
        for each in found.fragments
    )
    return replace(found, fragments=tuple(marked))


def goes_to(facts: dict[str, str]) -> str:
    """Return where an upload goes, by what is kept of it."""
    return "/".join(facts.get(name, "") for name in ("entity", "project", "id"))


def _read(text: str) -> dict[str, int | None]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _marking(mark: str) -> str:
    """Return the lines that define ``mark`` in a script: it prints its words on a line."""
    return f"mark() {{ printf '\\n@{mark} %s\\n' \"$*\"; }}"


def _records(out: bytes, mark: str) -> list[tuple[list[str], bytes]]:
    """Return the records of an output, wherever in it they stand."""
    found: list[tuple[list[str], bytes]] = []
    for record in out.split(f"\n@{mark} ".encode())[1:]:
        head, _, payload = record.partition(b"\n")
        found.append((head.decode("ascii", "replace").split() or [""], payload))
    return found

"""A claim under an output root on an ssh host, by sh: the file that a cockpit there has (SPEC A).

``<output root>/.cockpit/claim.json`` is put there whole, and only if there is none; one that is
replaced or removed is compared first, by its nonce, while a lock is held. So a script whose answer
was lost, and that comes late, changes nothing that it did not mean; what has become of it is told
by the nonce that is read back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from cockpit.hosts.script import run_script
from cockpit.model.clock import Clock
from cockpit.model.place import SSH, Place
from cockpit.model.plan import Level
from cockpit.model.records import Claim
from cockpit.model.run import RunSpec
from cockpit.platforms.box.launching import Script, spelled
from cockpit.platforms.local.launcher.notes import INTENT, number_of
from cockpit.records.lease.holder import lives, this_holder
from cockpit.records.lease.root_claim import Written, held_by, new_claim, parsed, text_of
from cockpit.records.lease.state import not_above
from cockpit.runtime.ssh import RemoteError, quote
from cockpit.store.journal import Holder
from cockpit.text.safe import clean

DEADLINE: Final = 15.0
MOST: Final = 65_536
_READ: Final = """\
r={root}
cd -- "$r" 2>/dev/null || {{
  p=$r; until [ -e "$p" ] || [ -L "$p" ]; do
    case $p in /|.) break;; */*) p=${{p%/*}}; p=${{p:-/}};; *) p=.;; esac
  done
  if [ "$p" = "$r" ] || [ ! -x "$p" ]; then echo 'root odd'; else echo 'root missing'; fi; exit
}}
[ -w . ] || echo 'root closed'
for f in .cockpit .cockpit/launches; do
  [ ! -L $f ] || {{ echo "linked $f"; exit; }}
  [ ! -d $f ] || {{ [ -r $f ] && [ -x $f ]; }} || {{ echo "closed $f"; exit; }}
done
for f in .cockpit/launches/{run}-i*; do [ -e "$f" ] && printf 'id %s\n' "${{f##*/}}"; done
f=.cockpit/claim.json; [ -e $f ] || exit 0
[ -r $f ] || {{ echo "closed $f"; exit; }}
echo claim; head -c {most} $f"""
_SWAP: Final = """\
[ ! -L {root}/.cockpit ] || exit 74
mkdir -p -- {root}/.cockpit && cd -- {root}/.cockpit || exit 74
c=claim.json; x={expected}; n={nonce}
exec 9<>claim.lock || exit 74
if command -v flock >/dev/null; then
  i=0; until flock -n 9; do i=$((i + 1)); [ $i -lt 50 ] || {{ echo busy; exit; }}; sleep 0.1; done
fi
has() {{ grep -qF "\\"nonce\\": \\"$1\\"" "$2" 2>/dev/null; }}
if has "$n" $c; then echo mine; exit; fi
if [ -z "$x" ] && [ -e $c ]; then echo changed; exit; fi
if [ -n "$x" ]; then
  has "$x" $c || {{ echo changed; exit; }}
  mv -f $c ".claim.$x.old" || exit 74
  has "$x" ".claim.$x.old" || {{ ln ".claim.$x.old" $c; echo changed; exit; }}
fi
trap 'rm -f ".claim.$n.new" ".claim.$x.old"' EXIT
[ -n "$n" ] || {{ echo gone; exit; }}
printf '%s' {text} >".claim.$n.new" || exit 74
dd if=/dev/null of=".claim.$n.new" conv=notrunc,fsync 2>/dev/null
if ln ".claim.$n.new" $c 2>/dev/null; then echo mine
elif [ ! -e $c ] && (set -C; cat ".claim.$n.new" >$c) 2>/dev/null; then echo mine
else echo changed; fi"""


class _Root(NamedTuple):
    """How a root stands: ``trouble`` is why no claim can be put there."""

    written: Written | None = None
    highest: str | None = None
    trouble: str | None = None
    missing: bool = False


class HostClaim:
    """The guard (``cockpit.actions.core.action.Guard``) under output roots of ssh hosts.

    ``operator`` returns who acts; ``holder`` returns the process that claims.
    """

    def __init__(
        self,
        clock: Clock,
        operator: Callable[[], str | None] = lambda: None,
        holder: Callable[[], Holder] = this_holder,
        send: Script = run_script,
    ) -> None:
        self._clock = clock
        self._operator = operator
        self._holder = holder
        self._send = send
        self._mine: dict[Place, str] = {}
        self._seen: dict[Place, str] = {}
        """The claim that was surveyed, by root: only that one is replaced by ``over``."""
        self._lost: set[str] = set()
        """Claims of ours of which nobody has told whether they were put: they may come late."""

    async def survey(self, run: RunSpec) -> Claim:
        """Return how the claim stands, and the highest launch id noted under the root."""
        root = _root(run)
        if root is None:
            return _warn(f"the output root ({run.output_root or 'not set'}) is not on an ssh host")
        found = await self._read(run, root)
        if isinstance(found, Claim):
            return found
        if found.missing:
            text = f"the output root {root} is free: it is not there yet"
            return Claim(level=Level.PASS.value, text=text)
        if found.trouble is not None:
            return _warn(found.trouble, found.highest)
        written = found.written
        if written is not None and not self._is_ours(root, written):
            self._seen[root] = written.nonce
            alive = lives(written.holder)
            if alive is not False:
                return held_by(written, alive, found.highest)
        text = f"the claim under {root} is {'free' if written is None else 'free to take'}"
        return Claim(level=Level.PASS.value, text=text, launch_id=found.highest)

    async def take(self, run: RunSpec, launch_id: str | None, what: str, *, over: bool) -> Claim:
        """Take the claim; one of a dead process of this machine is replaced.

        With ``over`` the one that was surveyed is too, unless its holder lives here. Makes the
        output root.
        """
        root = _root(run)
        if root is None:
            return await self.survey(run)
        found = await self._read(run, root)
        if isinstance(found, Claim):
            return found
        if found.trouble is not None:
            return _warn(found.trouble, found.highest)
        if not_above(launch_id, found.highest):
            text = f"launch id {launch_id} was given out under {root} already ({found.highest})"
            return _block(f"{text}; plan again", found.highest)
        former = found.written
        if former is not None:
            alive = lives(former.holder)
            left = alive is False or self._is_ours(root, former)
            meant = over and alive is None and former.nonce == self._seen.get(root)
            if not left and not meant:
                return held_by(former, alive, former.launch_id)
        written = new_claim(self._clock.now(), self._holder(), self._operator(), launch_id, what)
        return await self._put(run, root, former, written)

    def _is_ours(self, root: Place, written: Written) -> bool:
        return written.nonce == self._mine.get(root) or written.nonce in self._lost

    async def _put(
        self, run: RunSpec, root: Place, former: Written | None, written: Written
    ) -> Claim:
        """Put a claim in the place of the one that was read; read back after a lost answer."""
        try:
            said = await self._swap(root, former, written)
        except RemoteError as error:
            if not error.sent:
                return _warn(str(error), unanswered=True)
            found = await self._read(run, root)
            mine = isinstance(found, _Root) and found.written is not None
            if not mine or found.written.nonce != written.nonce:  # type: ignore[union-attr]
                self._lost.add(written.nonce)
                text = f"cannot tell whether the claim under {root} was taken: {error}"
                return _block(f"{text}; plan again", written.launch_id)
            said = "mine"
        if said == "mine":
            self._mine[root] = written.nonce
            text = f"claimed under {root}"
            return Claim(
                level=Level.PASS.value, text=text, launch_id=written.launch_id, at=written.at
            )
        if said == "changed":
            found = await self._read(run, root)
            return held_by(found.written if isinstance(found, _Root) else None, None, None)
        if said == "busy":
            return _block(f"the claim under {root} is being changed")
        return _warn(f"no claim can be put under {root}: {clean(said, 160)}")

    async def still_mine(self, run: RunSpec) -> bool | None:
        """Return whether the claim that was taken stands; ``None`` where it cannot be read."""
        root = _root(run)
        if root is None or root not in self._mine:
            return None
        found = await self._read(run, root)
        if isinstance(found, Claim) or found.trouble is not None:
            return None
        return found.written is not None and found.written.nonce == self._mine[root]

    async def release(self, run: RunSpec, *, used: bool = True) -> None:
        """Remove the claim if it is the one that was taken here."""
        root = _root(run)
        nonce = None if root is None else self._mine.pop(root, None)
        if root is not None and nonce is not None:
            await self._remove(run, root, lambda written: written.nonce == nonce)

    async def clear(self, run: RunSpec) -> None:
        """Remove the claim if a dead process of this machine left it."""
        root = _root(run)
        if root is not None:
            await self._remove(run, root, lambda written: lives(written.holder) is False)

    async def _remove(self, run: RunSpec, root: Place, which: Callable[[Written], bool]) -> None:
        found = await self._read(run, root)
        if isinstance(found, Claim) or found.written is None or not which(found.written):
            return
        try:
            await self._swap(root, found.written, None)
        except RemoteError:
            return  # it is a dead process's soon, and free to take

    async def _read(self, run: RunSpec, root: Place) -> _Root | Claim:
        script = _READ.format(root=spelled(root), run=quote(run.name), most=MOST)
        try:
            done = await self._send(root.host, script, deadline=DEADLINE, cap=4 * MOST)
        except RemoteError as error:
            return _warn(f"the claim under {root} cannot be read: {error}", unanswered=True)
        if done.rc != 0:
            text = f"the claim under {root} cannot be read: the host answered with {done.rc}"
            return _warn(text, unanswered=True)
        head, mark, text = f"\n{done.text}".partition("\nclaim\n")
        lines = head.split("\n")
        highest = _highest(run, [line[3:] for line in lines if line.startswith("id ")])
        if "root missing" in lines:
            return _Root(missing=True)
        trouble = _trouble(root, lines)
        if trouble is not None:
            return _Root(highest=highest, trouble=trouble)
        try:
            written = parsed(text.encode("utf-8", "surrogateescape")) if mark else None
        except ValueError as error:
            where = f"{root}/.cockpit/claim.json"
            return _block(f"{where} is no cockpit's claim ({error}): check it, then remove it")
        return _Root(written, highest)

    async def _swap(self, root: Place, former: Written | None, written: Written | None) -> str:
        """Put one claim in the place of another; return what the host says became of it."""
        script = _SWAP.format(
            root=spelled(root),
            expected=quote("" if former is None else former.nonce),
            nonce=quote("" if written is None else written.nonce),
            text=quote("" if written is None else text_of(written)),
        )
        done = await self._send(root.host, script, deadline=DEADLINE)
        said = done.err.decode("utf-8", "replace").strip()
        return done.text.strip() or said or f"the host answered with {done.rc}"


def _root(run: RunSpec) -> Place | None:
    root = None if run.output_root is None else run.output_root.normal()
    return root if root is not None and root.scheme == SSH else None


def _trouble(root: Place, lines: list[str]) -> str | None:
    """Return why no claim can be told or put there, if that is so."""
    if "root odd" in lines:
        return f"the output root {root} cannot be entered, or is not a folder"
    linked = next((line[7:] for line in lines if line.startswith("linked ")), None)
    if linked is not None:
        return f"{root}/{linked} is a link, and no claim is put behind one"
    closed = next((line[7:] for line in lines if line.startswith("closed ")), None)
    if closed is not None:
        return f"cannot tell whether {root} is claimed: this user cannot read {closed} there"
    return f"the output root {root} cannot be written to" if "root closed" in lines else None


def _highest(run: RunSpec, names: list[str]) -> str | None:
    ids = {name.removesuffix(INTENT) for name in names}
    numbered = [(number, name) for name in ids if (number := number_of(run.name, name))]
    return max(numbered, default=(0, None))[1]


def _block(text: str, launch_id: str | None = None) -> Claim:
    return Claim(level=Level.BLOCK.value, text=text, launch_id=launch_id)


def _warn(text: str, launch_id: str | None = None, *, unanswered: bool = False) -> Claim:
    return Claim(level=Level.WARN.value, text=text, launch_id=launch_id, unanswered=unanswered)

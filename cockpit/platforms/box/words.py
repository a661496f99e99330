"""The pieces of shell that look at a host: what each asks, in POSIX sh, and how it is spelled.

Each prints what ``machine``, ``files`` and ``health`` read. None changes anything, none fails as a
whole: what is absent is said as such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cockpit.model.place import Place
from cockpit.model.run import JobSpec
from cockpit.platforms.box.launcher import NEEDED
from cockpit.platforms.box.probe import Piece
from cockpit.platforms.local.host import GPU_QUERY
from cockpit.runtime.ssh import quote

ABSENT: Final = "!absent"
PROCESSES: Final = "processes"
FILES: Final = "files"
DISKS: Final = "disks"
_MAGIC: Final = re.compile(r"([*?]|\[[^]/]*\])")
_MARKED: Final = 64
"""Processes whose environment is sent: those that name a run of ours in it."""
_ENVIRONS: Final = 6_400_000
"""Bytes of environments that are sent at most."""

ABOUT: Final = Piece(
    "its own facts",
    """\
echo "self $S"; echo "now $(date +%s)"; echo "uid $(id -u)"; echo "hz $(getconf CLK_TCK)"
echo "boot $(cat /proc/sys/kernel/random/boot_id)"; echo "space $(readlink /proc/self/ns/pid)"
echo "machine $(cat /etc/machine-id)"; sed -n 's/^btime /btime /p' /proc/stat""",
    PROCESSES,
)
STATS: Final = Piece(
    "its process table",
    "cat /proc/[0-9]*/stat | sed -n 's/^\\([0-9]*\\) (.*) /\\1 /p' | cut -d' ' -f1-5,21",
    PROCESSES,
)
ARGV: Final = Piece("its command lines", "head -c 4000 /proc/[0-9]*/cmdline", PROCESSES)
OWNERS: Final = Piece("its processes' owners", "stat -c '%n %u' /proc/[0-9]*", PROCESSES)
FOLDERS: Final = Piece("its processes' folders", "ls -l /proc/[0-9]*/cwd", PROCESSES)
PS: Final = Piece(
    "its process table (ps)",
    f"[ -r /proc/self/stat ] || ps -axww -o pid=,ppid=,pgid=,uid=,state=,command= || echo {ABSENT}",
    PROCESSES,
)
TMUX: Final = Piece(
    "tmux",
    f"""command -v tmux >/dev/null || {{ echo {ABSENT}; exit; }}
tmux -u list-panes -a -F '#{{session_created}}|#{{pane_pid}}|#{{pane_dead}}|#{{pane_dead_status}}|\
#{{pane_dead_signal}}|#{{session_name}}' 2>&1""",
    "sessions",
)
SCREEN: Final = Piece(
    "screen", f"command -v screen >/dev/null || {{ echo {ABSENT}; exit; }}; screen -ls", "sessions"
)
LACKS: Final = Piece(
    "its programs",
    f"""for c in {NEEDED} flock python3; do command -v $c >/dev/null || echo $c; done
[ -r /proc/self/stat ] || echo /proc""",
    PROCESSES,
)
LOAD: Final = Piece("its load", "cat /proc/loadavg", PROCESSES)
STATUS: Final = "exit-status"
"""Begins the line with which a piece tells how its command ended."""
GPUS: Final = Piece(
    "nvidia-smi",
    f"""command -v nvidia-smi >/dev/null || {{ echo {ABSENT}; exit; }}
nvidia-smi {" ".join(GPU_QUERY)} 2>&1; echo {STATUS} $?""",
    "gpus",
)


def spelled(place: Place) -> str:
    """Return a path of the host as a shell's word; one that starts at the home is expanded."""
    path = place.path
    if path == "~" or path.startswith("~/"):
        return f'"$HOME"{quote(path[1:]) if path[1:] else ""}'
    return quote(f"./{path}" if path.startswith("-") else path)


def patterned(place: Place) -> str:
    """Return the same with what is a pattern in it left to the shell."""
    if not _MAGIC.search(place.path):
        return spelled(place)
    first = place.path.startswith("~/")
    parts = _MAGIC.split(place.path[1:] if first else place.path)
    word = "".join(part if _MAGIC.fullmatch(part) else quote(part) for part in parts if part)
    return f'"$HOME"{word}' if first else word


_HOLDING: Final = """\
holding() {
  if printf 'a\\0b\\n' | grep -qF b; then grep -lsF -f - /proc/[0-9]*/environ <&3; return; fi
  head -c 1000000 /dev/null /proc/[0-9]*/environ | tr '\\0' '\\n' |
    grep -F -e '==> /proc/' -f /dev/fd/3 | while IFS= read -r l; do
      case $l in
        '==> /proc/'*'/environ <==') f=${l#==> }; f=${f% <==}
          case $f in /proc/*[!0-9]*/environ) f=;; esac;;
        *) [ -z "$f" ] || echo "$f"; f=;;
      esac
    done
}
"""
"""Names the processes whose environment holds a word; busybox's grep sees no more than its first
variable."""


def environments(words: Iterable[str], most: int = _MARKED) -> Piece:
    """Return what prints the environments of processes that hold any of these words."""
    script = f"""\
{_HOLDING}set --; n=0
for f in $(holding 3<<'{END}'
{_lines(words)}
{END}
); do n=$((n + 1)); [ $n -le {most} ] && set -- "$@" "$f"; done
[ $# -eq 0 ] || head -c {_ENVIRONS // most} /dev/null "$@\""""
    return Piece("its processes' environments", script, PROCESSES)


def open_files(words: Iterable[str]) -> Piece:
    """Return what prints the open files whose paths hold any of these words.

    And the pipes from which a process reads and into which it writes: ``train.py | tee run.log``.
    """
    script = f"""\
ls -l /proc/[0-9]*/fd | grep -F -f /dev/fd/3 3<<'{END}'
/fd:
 0 -> pipe:
 1 -> pipe:
{_lines(words)}
{END}"""
    return Piece("its processes' open files", script, PROCESSES)


END: Final = "COCKPIT_WORDS_END"


def _lines(words: Iterable[str]) -> str:
    """Return words as lines of a pattern file; none that is two lines, or ends it."""
    return "\n".join(word for word in dict.fromkeys(words) if word and "\n" not in word)


_STAT: Final = """\
[ $# -eq 0 ] || s=$(stat -L -c '%F|%s|%Y|%i|%u' -- "$@")
for x in $k; do IFS= read -r r; printf 'S %s|%s\\n' "$x" "$r"; done <<END
$s
END"""


def files(names: Sequence[str], jobs: Sequence[JobSpec]) -> Piece:
    """Return what prints the small files of some jobs, and what their logs are.

    The shell's own words tell most of it, one program the rest: a program for each file would
    cost the host more than all else. Where the numbers of files and lines differ, one went.
    """
    lines = ["set --; k=; s="]
    for number, job in enumerate(jobs):
        for key, place in (
            ("pid", job.pid_file),
            ("exit", job.exit_file),
            ("marker", job.done_marker),
            ("log", job.log),
        ):
            if place is not None:
                lines.append(f'{_newest(place)}; q {key}:{number} && set -- "$@" "$w"')
    title = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    return Piece(f"the files of {title}", "\n".join((*lines, _STAT)), FILES)


def _newest(place: Place) -> str:
    """Return what puts a path into ``w``, of a pattern the newest that matches it."""
    if not _MAGIC.search(place.path):
        return f"w={spelled(place)}"
    return f"w={spelled(place)}; for f in {patterned(place)}; do n; done"


def real(places: Sequence[Place]) -> Piece:
    """Return what prints where these paths lead when links are followed, one a line.

    The shell goes there: a program for each would cost the host more than all else.
    """
    words = " ".join(map(spelled, places))
    script = f"""\
o=$PWD
for f in {words}; do
  cd "$o"; d=${{f%/*}}; [ "$d" != "$f" ] || d=.
  if cd -P -- "$f"; then echo "$PWD"
  elif cd -P -- "${{d:-/}}"; then echo "${{PWD%/}}/${{f##*/}}"
  else printf '%s\\n' "$f"; fi
done"""
    return Piece("its links", script, "links")


def disks(places: Sequence[Place]) -> Piece:
    """Return what prints the disks that hold paths or, before they exist, their nearest parents.

    A line of ``df -Pk`` for each, then a line of ``df -Pi`` for each.
    """
    words = " ".join(map(spelled, places))
    script = f"""\
set --
for p in {words}; do
  while [ ! -e "$p" ]; do
    case $p in /|.) break;; */*) p=${{p%/*}}; p=${{p:-/}};; *) p=.;; esac
  done
  set -- "$@" "$p"
done
df -Pk -- "$@" 2>&1 | sed 1d; echo; df -Pi -- "$@" 2>&1 | sed 1d"""
    title = places[0].path if len(places) == 1 else f"{places[0].path} to {places[-1].path}"
    return Piece(f"the disk of {title}", script, DISKS)


def memory(pids: Iterable[int]) -> Piece:
    """Return what prints the kernel's accounts of memory around these processes, and around us."""
    names = " ".join(("self", *map(str, dict.fromkeys(pids))))
    script = f"""\
g=/sys/fs/cgroup; set -- /proc/meminfo /proc/vmstat; seen=
up() {{
  d=$1
  while :; do
    case " $seen " in *" $d "*) return;; esac; seen="$seen $d"
    for f in memory.max memory.current memory.stat memory.events memory.limit_in_bytes \\
      memory.usage_in_bytes memory.oom_control; do [ -r "$d/$f" ] && found="$found $d/$f"; done
    case $d in "$2"/?*) d=${{d%/*}};; *) return;; esac
  done
}}
found=
for n in {names}; do
  [ -r /proc/$n/cgroup ] || continue
  set -- "$@" /proc/$n/cgroup
  while IFS=: read -r i c p; do
    case ",$c," in ,,) up "$g${{p%/}}" "$g";; *,memory,*) up "$g/memory${{p%/}}" "$g/memory";; esac
  done < /proc/$n/cgroup
done
head -c 20000 "$@" $found"""
    return Piece("its memory", script, "memory")

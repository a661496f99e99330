"""The one way in which a script limits what may hang on its host, whatever that host has."""

from __future__ import annotations

from typing import Final

TIMED_OUT: Final = 124
"""The status of a command that was ended because its time was over, as ``timeout`` has it."""

LIMITED: Final = """\
if timeout -k 1 5 true 2>/dev/null; then
limited() { timeout -k 1 "$@"; set -- $?; [ $1 -ne 137 ] || set -- 124; return $1; }
elif timeout 5 true 2>/dev/null; then limited() { timeout "$@"; }
else
slain() {
  kill -STOP "$1" 2>/dev/null
  for _c in $(ps -A -o pid= -o ppid= | awk -v p="$1" '$2 == p {print $1}'); do slain "$_c"; done
  kill -9 "$1" 2>/dev/null
}
limited() {
  _s=$1; shift
  { "$@" <&7 7<&- & _p=$!; } 7<&0
  (sleep "$_s" && slain "$_p") >/dev/null 2>&1 & _k=$!
  wait "$_p" 2>/dev/null; set -- $?
  { slain "$_k"; wait "$_k"; } 2>/dev/null
  case $1 in 137|265) set -- 124; esac; return $1
}
fi
"""
"""Lines that define ``limited SECONDS COMMAND…``; it returns the status, ``TIMED_OUT`` if late.

Where there is no ``timeout`` everything that the command has started is killed with it: else each
look would leave a process there that hangs for good. Each is stopped before its children die: else
it would go on from where they ended, and its status would read as that of a command in time.
"""

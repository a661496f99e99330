"""The launcher of an ssh host, in POSIX sh: it starts a command detached, at most once per id.

It keeps what a local launch keeps (``cockpit.platforms.local.launcher``), in the same files: the
same locks, held on inherited descriptors, the same notes under the output root, the same pid and
exit files. So a cockpit on that host and one that comes over ssh exclude each other, and each
reads what the other has started.

The text runs in four parts, each in a shell of its own:

* ``accept`` tries what a start needs and notes that the launch id is meant;
* ``supervise`` (a session of its own) takes the locks, uses the id up (a file that is made only
  if there is none), starts ``begin`` and notes how it ends;
* ``begin`` (another session) notes itself as running and then *becomes* the command: whatever
  runs has been noted, and an id noted as ``starting`` whose shells are gone never ran.

Any sh does that hands its open files on (dash, bash, busybox, ksh93, yash, zsh; mksh does not,
and is refused). A background command is ``exec``ed: some shells wait beside it otherwise, and hold
its output.

Each answers one line on descriptor 3: ``ok|PID``, or ``no|CODE|why`` with which nothing was
started and never will be. Where there is no flock(1), Python takes the locks.

What cleans ``/tmp`` goes by age, and a lock whose file is gone excludes nobody: while its job lives
it is dated far ahead, read last after it was written last, so that no reading brings it back.
"""

from __future__ import annotations

from typing import Final

SH: Final = "sh -c 'eval \"$COCKPIT_LAUNCHER\"' cockpit-launch"
"""The command of a shell that runs a part of it; the text is in its environment."""

NEEDED: Final = "setsid mkdir mv sed head stat date grep tr"
"""Programs without which nothing starts."""
LAUNCHER: Final = r"""
trap '' HUP
ck_no() { printf 'no|%s|%s\n' "$1" "$2" >&3; exit "$1"; }
ck_ticks() {
  ck_s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
  ck_s=${ck_s##*\) }; case $ck_s in [ZX]*) return 1;; esac
  set -- $ck_s; shift 19; echo "$1"
}
ck_alive() { [ "$(ck_ticks "$1")" = "$2" ]; }
ck_boot() { cat /proc/sys/kernel/random/boot_id; }
ck_machine() { cat /etc/machine-id 2>/dev/null; }
ck_settle() { dd if=/dev/null of="$1" conv=notrunc,fsync 2>/dev/null || :; }
ck_line() { [ -z "$2" ] || printf '%s=%s\n' "$1" "$2"; }
ck_text() {
  ck_line state "$1"; ck_line launch_id "$ck_I"; ck_line pid "$2"; ck_line ticks "$3"
  ck_line boot "$(ck_boot)"; ck_line machine "$(ck_machine)"; ck_line host "$(uname -n)"
  ck_line supervisor "$ck_sup"; ck_line supervisor_ticks "$(ck_ticks "$ck_sup")"
  ck_line exit "$4"; ck_line at "$(date +%s)"
}
ck_put() {
  ck_new="${1%/*}/.${1##*/}.$$.new"
  [ ! -d "$1" ] && cat >"$ck_new" && ck_settle "$ck_new" && mv -f "$ck_new" "$1" && return
  rm -f "$ck_new"; return 1
}
ck_tell() { ck_text "$@" | ck_put "$ck_L/$ck_I"; }
ck_told() { sed -n "s/^$1=//p" "$ck_L/$ck_I" 2>/dev/null | head -n 1; }
ck_dir() { [ -d "$1" ] || mkdir -p -- "$1" || [ -d "$1" ]; }
ck_shared() {
  case $(LC_ALL=C ls -ld "$1" 2>/dev/null) in d????w???[tT]*) ;; d????w*) umask 002;; esac
}
ck_refuse_used() {
  [ -e "$ck_L/$ck_I" ] || [ -L "$ck_L/$ck_I" ] || return 0
  [ ! -f "$ck_L/$ck_I" ] || ck_s=$(head -c 400 "$ck_L/$ck_I" | tr '\n' ',')
  ck_no 76 "launch id $ck_I was used before: ${ck_s:-nothing is known of it}"
}
ck_needs() {
  for ck_c in @NEEDED@; do
    command -v "$ck_c" >/dev/null || ck_no 64 "there is no $ck_c on this host: nothing can start"
  done
  [ -r /proc/self/stat ] || ck_no 64 "this host has no /proc: its processes cannot be told apart"
  ck_inherits || ck_no 64 "no lock can be held: sh hands no open file on; make it dash or bash"
  [ -n "$ck_W" ] && cd -- "$ck_W" || ck_no 74 "the working folder $ck_W is not there"
}
ck_inherits() { (exec 7</dev/null; sh -c '[ -e "/proc/$$/fd/7" ]'); }
ck_find() {
  case $1 in
    */*) [ -e "$1" ] || ck_no 127 "cannot start $1: No such file or directory"
      [ -f "$1" ] && [ -x "$1" ] || ck_no 126 "cannot start $1: Permission denied"; return;;
  esac
  ck_o=$IFS; IFS=:
  for ck_c in $PATH; do
    [ -f "${ck_c:-.}/$1" ] && [ -x "${ck_c:-.}/$1" ] && { IFS=$ck_o; return; }
  done
  IFS=$ck_o; ck_no 127 "cannot start $1: No such file or directory"
}
ck_private() {
  mkdir -m 700 "$ck_F" 2>/dev/null
  set -- $(LC_ALL=C ls -ldn "$ck_F")
  case $1 in d????-??-*) [ "$3" = "$(id -u)" ] && return;; esac
  ck_no 74 "no locks: $ck_F is not private to this user"
}

# Locks: 0 taken, 1 held by somebody, 2 this file system has none.
if command -v flock >/dev/null; then ck_how=flock
else ck_how=python3; fi
ck_flock() {
  case $ck_how in
    flock) flock -n "$1";;
    python3) python3 -c 'import errno, fcntl, sys
try: fcntl.flock(int(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError as e: sys.exit(1 if e.errno in (errno.EAGAIN, errno.EACCES) else 2)' "$1";;
  esac
}
ck_same() {
  ck_c=$(stat -L -c %d:%i "/proc/$$/fd/$1") || return 0
  [ "$ck_c" = "$(stat -L -c %d:%i "$2")" ]
}
ck_grab() {
  ck_n=0
  while :; do
    [ ! -L "$2" ] || ck_no 74 "$2 is a link: remove it"
    if (eval "exec $1<>\"\$2\""); then eval "exec $1<>\"\$2\""
    elif (eval "exec $1<\"\$2\""); then eval "exec $1<\"\$2\""
    else ck_no 74 "cannot open $2"; fi
    ck_flock "$1"; ck_r=$?
    [ $ck_r -ne 0 ] || ! ck_same "$1" "$2" || return 0
    [ $ck_r -le 1 ] || return 2
    ck_n=$((ck_n + 1)); [ $ck_n -lt 15 ] || return 1
    sleep 0.1 2>/dev/null || sleep 1
  done
}
ck_keep() {
  for ck_l; do
    touch -c -h -t 203612312359 -- "$ck_l" || touch -c -t 203612312359 -- "$ck_l"
    touch -c -h -a -t 203712312359 -- "$ck_l" || :
  done
}
ck_take() {
  ck_d=7; ck_any=
  for ck_l; do
    ck_dir "${ck_l%/*}" || ck_no 74 "cannot make the folder ${ck_l%/*}"
    ck_h=
    ck_grab $ck_d "$ck_l"
    case $? in
      0) ck_any=1; [ ! -w "$ck_l" ] ||
        printf 'supervisor=%s\nlaunch_id=%s\n' "$$" "$ck_I" >"$ck_l";;
      1) ck_h=${ck_h:-$(sed -n 's/^launch_id=//p' "$ck_l" 2>/dev/null | head -n 1)}
        ck_no 75 "$ck_l is locked: something of a job${ck_h:+ of $ck_h} still lives";;
    esac
    ck_d=$((ck_d + 1))
  done
  [ "$ck_any" ] || ck_no 74 "no lock can be held here ($*)"
  ck_keep "$@"
}

ck_links() {
  for ck_c in "$ck_R/.cockpit" "$ck_L"; do
    [ ! -L "$ck_c" ] || ck_no 74 "$ck_c is a link: remove it"
  done
}
ck_try() {
  ck_private
  ck_links
  for ck_l; do
    [ ! -L "$ck_l" ] || ck_no 74 "$ck_l is a link: remove it"
    [ -e "$ck_l" ] || continue
    [ -f "$ck_l" ] && (: <"$ck_l") 2>/dev/null || ck_no 74 "cannot open $ck_l"
  done
  printf 'ok|%s\n' "$ck_how" >&3
}
ck_accept() {
  ck_refuse_used
  ck_private
  ck_links
  ck_shared "$ck_R"
  ck_dir "$ck_L" || ck_no 74 "cannot make the folder $ck_L"
  { ck_line by "$$"; ck_line at "$(date +%s)"; ck_line from "$ck_by"; } |
    ck_put "$ck_L/$ck_I.intent" || ck_no 74 "cannot note the launch in $ck_L; nothing was started"
  printf 'ok|%s\n' "$ck_how" >&3
}

ck_failed() { ck_tell failed; ck_no "$@"; }
ck_supervise() {
  ck_sup=$$
  ck_refuse_used
  ck_private
  ck_links
  ck_u=$(umask); ck_shared "$ck_R"
  ck_take "$@"
  ck_dir "$ck_L" || ck_no 74 "cannot make the folder $ck_L"
  if ! (set -C; ck_text starting >"$ck_L/$ck_I"); then
    [ -s "$ck_L/$ck_I" ] && ck_refuse_used
    ck_no 74 "cannot note the launch in $ck_L; nothing was started"
  fi
  ck_settle "$ck_L/$ck_I"
  for ck_c in "$ck_G" "$ck_P" "$ck_E"; do
    ck_dir "${ck_c%/*}" || ck_failed 74 "cannot make the folder ${ck_c%/*}; nothing was started"
    [ ! -d "$ck_c" ] || ck_failed 74 "$ck_c is a folder; nothing was started"
  done
  ck_e="$ck_E.$$.new"
  if ! (printf '%15s\n' '' >"$ck_e"); then
    rm -f "$ck_e"; ck_failed 74 "cannot write $ck_E; nothing was started"
  fi
  exec setsid sh -c 'eval "$COCKPIT_LAUNCHER"' cockpit-launch begin "$$" "$ck_u" </dev/null &
  ck_child=$!
  exec 3>&-
  ck_got=; trap 'ck_got=1; kill -TERM "$ck_child"' TERM
  while :; do
    wait "$ck_child"; ck_r=$?
    [ -n "$ck_got" ] && kill -0 "$ck_child" || break
    ck_got=
  done
  [ "$ck_r" -lt 256 ] || ck_r=$((128 + ck_r % 128))
  if [ "$(ck_told state)" != running ]; then rm -f "$ck_e"; exit; fi
  printf '%-15s\n' "$ck_r" 1<>"$ck_e" && ck_settle "$ck_e" && mv -f "$ck_e" "$ck_E"
  ck_tell ended "$(ck_told pid)" "$(ck_told ticks)" "$ck_r"
  touch -c -- "$@"
}

ck_mark() {
  set -- $(stat -L -c '%i %s' "$ck_G") \
    $(tail -c 64 "$ck_G" | gzip -cn | tail -c 8 | head -c 4 | od -An -tu4)
  [ $# -ne 3 ] || ck_line log "$1:$2:$3"
}
ck_noted() {
  echo "$$"
  ck_c=$(getconf CLK_TCK 2>/dev/null || echo 100)
  ck_line start "$(($(sed -n 's/^btime //p' /proc/stat) + ck_t / ck_c))"
  ck_line ticks "$ck_t"; ck_line launch_id "$ck_I"; ck_line boot "$(ck_boot)"
  ck_line machine "$(ck_machine)"; ck_line host "$(uname -n)"
  ck_line space "$(readlink /proc/self/ns/pid)"
  [ ! -f "$ck_G" ] || ck_mark
}
ck_ready() {
  if ! (: >>"$ck_G"); then ck_failed 74 "cannot write $ck_G; nothing was started"; fi
  ck_t=$(ck_ticks $$)
  ck_f="$ck_P.$$.new"
  if ! (ck_noted >"$ck_f"); then
    rm -f "$ck_f"; ck_failed 74 "cannot write $ck_P; nothing was started"
  fi
  ck_settle "$ck_f"
  ck_alive "$ck_sup" "$(ck_told supervisor_ticks)" || { rm -f "$ck_f"; exit 1; }
  if ! ck_tell running "$$" "$ck_t"; then
    rm -f "$ck_f"; ck_no 74 "cannot note the launch in $ck_L; nothing was started"
  fi
  mv -f "$ck_f" "$ck_P" && rm -f "$ck_E" || ck_failed 74 "cannot replace $ck_P or $ck_E"
}
ck_default() {
  env --default-signal=INT true 2>/dev/null && ck_env='env --default-signal=INT,QUIT'
}
""".replace("@NEEDED@", NEEDED)
"""Its functions; ``parts`` of ``launching`` puts the launch's own words around them."""

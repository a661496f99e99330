"""The agent: what the cockpit asks of a machine, in one file of standard library (SPEC P).

``link`` sends this very file to ``python3`` (3.8 or newer) of an ssh host: nothing is installed and
nothing is left behind. It ends when its input ends. Each call runs in a thread of its own, so that
a mount that hangs costs that call alone. A function raises ``OSError`` for what it cannot do.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import io
import json
import os
import select
import signal
import stat as modes
import struct
import subprocess
import sys
import threading
import time
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

PROC = "/proc"
FRAME = struct.Struct(">I")
PIECE = 1 << 16
LONGEST = 64_000_000
"""Bytes of one answer: a longer one is an error, and the next answers still come."""
ENVIRONMENT = 1_000_000
"""Bytes of a process's environment that are sent at most."""
ENVIRONMENTS = 600
"""Environments that are sent at most: those of a job's processes, its loaders among them."""
DEVICES = b"CUDA_VISIBLE_DEVICES"
COMMAND_LINE = 131_072
"""Bytes of a command line that are sent at most."""
LATE = -1000
"""The status of a command that did not end in time."""
LAST_OUTPUT = 0.5
"""Seconds for what a command that has ended may still have written."""
STACK = 1 << 19
"""Bytes for each thread: where memory is limited, hundreds of calls still run at once."""
OPEN_FILES = 4_096
"""Open files of one process that are looked at."""
ENDING: set[subprocess.Popen[bytes]] = set()
"""Commands that end with the agent: nobody waits for them any more."""
CGROUP = "/sys/fs/cgroup"
ACCOUNTS = (
    "memory.max", "memory.current", "memory.stat", "memory.events", "memory.limit_in_bytes",
    "memory.usage_in_bytes", "memory.oom_control",
)  # fmt: skip
"""Files of a control group that say how much memory it may use, and uses."""
KERNEL_THREAD = 0x00200000
"""The flag of the kernel's own threads, in field 9 of ``/proc/PID/stat``."""


def about() -> dict[str, Any]:
    """Return the machine's identity, clock and load: seconds, kernel ticks per second, names."""
    return {
        "pid": os.getpid(),
        "uid": os.getuid(),
        "now": time.time(),
        "hz": os.sysconf("SC_CLK_TCK"),
        "boot": _first_line(f"{PROC}/sys/kernel/random/boot_id"),
        "machine": _first_line("/etc/machine-id"),
        "space": _link(f"{PROC}/self/ns/pid"),
        "btime": _boot_time(),
        "load": _load(),
    }


def _first_line(path: str) -> str | None:
    text = _text(path)
    return None if text is None else text.partition("\n")[0].strip()


def _link(path: str, folder: int | None = None) -> str | None:
    try:
        return os.readlink(path, dir_fd=folder)
    except OSError:
        return None


def _boot_time() -> int | None:
    try:
        with open(f"{PROC}/stat", encoding="utf-8", errors="replace") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("btime ")), None)
    except (OSError, ValueError):
        return None


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def processes(
    environments: Sequence[str] = (),
    files: Sequence[str] = (),
    most: int = ENVIRONMENTS,
    proc: str = PROC,
) -> list[list[Any]]:
    """Return every process but zombies and kernel threads.

    Each is ``[pid, ppid, pgid, sid, uid, state, start in ticks, argv, folder, environment,
    devices, open files]``. The environment is given as text of those that hold one of the words
    ``environments`` (of ``most`` at most), else ``None``. The devices are what its first
    environment says of ``DEVICES``: ``None`` for nothing, ``False`` where it was not read.
    Open files, ``[path, reads, writes, locked]``, are those whose path holds one of ``files``.
    """
    if not os.path.exists(f"{proc}/self/stat"):
        raise OSError(errno.ENOTSUP, "processes are seen on Linux alone", proc)
    words = asked = [word.encode("utf-8", "surrogateescape") for word in environments]
    sent = 0
    found: dict[int, list[Any]] = {}
    again = []
    for pid in (int(name) for name in os.listdir(proc) if name.isdigit()):
        process = _process(proc, pid, words, files)
        if process is not None:
            found[pid] = process
            sent += process[9] is not None
            words = words if sent < most else []
            if process[7] == [""] or process[9] == "":
                again.append(pid)
    for pid in again:  # it became another program at that moment
        settled = _process(proc, pid, asked, files)
        if settled is None:
            del found[pid]
        else:
            found[pid] = settled
    return list(found.values())


def _process(proc: str, pid: int, words: Sequence[bytes], files: Sequence[str]) -> list[Any] | None:
    """Return what an open folder of ``/proc`` says: none of it can be another process's."""
    try:
        folder = os.open(f"{proc}/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fields = (_bytes("stat", folder, PIECE) or b"").rpartition(b")")[2].split()
        if len(fields) < 21 or fields[0] in (b"Z", b"X") or int(fields[6]) & KERNEL_THREAD:
            return None
        argv = _bytes("cmdline", folder, COMMAND_LINE)
        if argv is None or not (argv or fields[20] != b"0"):
            return None  # at its end: what becomes another program has memory
        argv = argv[:-1] if argv.endswith(b"\0") else argv
        environment, devices = _environment(folder, words)
        return [
            pid, int(fields[1]), int(fields[2]), int(fields[3]), os.fstat(folder).st_uid,
            chr(fields[0][0]), int(fields[19]),
            [part.decode("utf-8", "replace") for part in argv.split(b"\0")],
            _link("cwd", folder), environment, devices,
            _open_files(folder, files) if files else [],
        ]  # fmt: skip
    finally:
        os.close(folder)


def _bytes(name: str, folder: int, most: int) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        found = piece = os.read(file, PIECE)
        while piece and len(found) < most:
            piece = os.read(file, PIECE)
            found += piece
        return found[:most]
    except OSError:
        return None
    finally:
        os.close(file)


def _environment(folder: int, words: Sequence[bytes]) -> tuple[str | None, str | bool | None]:
    """Return an environment that holds one of the words, and which devices it names."""
    found = _bytes("environ", folder, ENVIRONMENT) if words else None
    if found is None:
        return None, False
    _, named, rest = (b"\0" + found).partition(b"\0" + DEVICES + b"=")
    devices = rest.partition(b"\0")[0].decode("utf-8", "replace") if named else None
    held = any(word in found for word in words)
    text = found.decode("utf-8", "surrogateescape") if held else None
    return text, devices if found else False  # empty: it becomes another program


def open_files(pid: int, proc: str = PROC) -> list[list[Any]]:
    """Return all files and pipes that a process has open, as far as we may look."""
    try:
        folder = os.open(f"{proc}/{pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        return _open_files(folder, None)
    finally:
        os.close(folder)


def _open_files(folder: int, words: Sequence[str] | None) -> list[list[Any]]:
    """Return the open files whose paths hold one of ``words``; of ``None`` all, and all pipes."""
    found: list[list[Any]] = []
    for name in _names("fd", folder)[:OPEN_FILES]:
        path = _link(f"fd/{name}", folder)
        if path is None or path.startswith("/dev/"):
            continue
        if path.startswith("pipe:"):
            wanted = words is None or name in ("0", "1")  # train.py | tee run.log
        else:
            named = words is None or any(word in path for word in words)
            wanted = named and path.startswith("/")
        if wanted:
            try:
                mode = os.stat(f"fd/{name}", dir_fd=folder, follow_symlinks=False).st_mode
            except OSError:
                mode = 0
            info = _bytes(f"fdinfo/{name}", folder, PIECE) if path.endswith(".lock") else None
            locked = info is not None and b"\nlock:" in info
            path = path[: -len(" (deleted)")] if path.endswith(" (deleted)") else path
            found.append([path, bool(mode & 0o400), bool(mode & 0o200), locked])
    return found


def _names(name: str, folder: int) -> list[str]:
    try:
        handle = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    try:
        return os.listdir(handle)
    except OSError:  # its process has ended
        return []
    finally:
        os.close(handle)


def _figures(found: os.stat_result) -> list[Any]:
    """Return ``[kind, size, mtime, inode, device, uid]`` of a file.

    The kind is ``file``, ``folder`` or ``other``; sizes are bytes, times epoch seconds.
    """
    regular, folder = modes.S_ISREG(found.st_mode), modes.S_ISDIR(found.st_mode)
    kind = "file" if regular else "folder" if folder else "other"
    return [kind, found.st_size, found.st_mtime, found.st_ino, found.st_dev, found.st_uid]


def files(wanted: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the figures, and the text of at most so many bytes, of each ``[path, bytes]``.

    A path may be a pattern: the newest that matches is meant. An answer is ``{figures, text}``
    or, for what cannot be read, ``{errno, text, link}``.
    """
    found: list[dict[str, Any]] = []
    for path, most in wanted:
        try:
            path = newest(os.path.expanduser(path))
            figures, text = _figures(os.stat(path)), ""
            if most and figures[0] == "file":
                with open(path, "rb", opener=_at_once) as file:
                    text = file.read(most).decode("utf-8", "replace")
            found.append({"figures": figures, "text": text})
        except OSError as error:
            text = error.strerror or str(error)
            found.append({"errno": error.errno or 0, "text": text, "link": os.path.islink(path)})
    return found


def _at_once(path: str, flags: int) -> int:
    """Open a file; one that has become a pipe meanwhile is not waited for."""
    return os.open(path, flags | os.O_NONBLOCK)


def newest(pattern: str) -> str:
    """Return the newest file that matches; the pattern itself where none does."""
    if os.path.lexists(pattern) or not any(sign in pattern for sign in "*?["):
        return pattern
    times = []
    for path in matching(pattern):
        try:
            seen = os.stat(path)
        except OSError:
            continue
        if modes.S_ISREG(seen.st_mode):
            times.append((seen.st_mtime, path))
    return max(times)[1] if times else pattern


def matching(pattern: str) -> list[str]:
    """Return the files that match; ``[^a]`` is a shell's way to write ``[!a]``."""
    return sorted(glob.glob(pattern.replace("[^", "[!")))


def real(path: str) -> str:
    """Return a path with its links followed, whether it is there or not."""
    return os.path.realpath(os.path.expanduser(path))


def memory(pids: Sequence[int]) -> dict[str, str]:
    """Return the kernel's accounts of memory by path: the machine's, those of these processes.

    Of each process, and of this one, the control groups are read from its own up to the root.
    """
    paths = [f"{PROC}/meminfo", f"{PROC}/vmstat"]
    for name in ("self", *map(str, pids)):
        path = f"{PROC}/{name}/cgroup"
        for line in (_text(path) or "").splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            root = CGROUP if not controllers else f"{CGROUP}/memory"
            folder = root + group.rstrip("/")
            while folder.startswith(root):
                paths += [f"{folder}/{name}" for name in ACCOUNTS]
                folder = os.path.dirname(folder)
        paths.append(path)
    found = {path: _text(path) for path in dict.fromkeys(paths)}
    return {path: text for path, text in found.items() if text is not None}


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace", opener=_at_once) as file:
            regular = modes.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(20_000) if regular else None
    except OSError:
        return None


def disk(path: str) -> dict[str, Any]:
    """Return the disk that holds a path or, before it exists, its nearest parent.

    ``free`` and ``used`` are bytes (as ``df`` counts them), ``inodes`` and ``inodes_free`` counts,
    ``mount`` where it is mounted and ``source`` what is mounted there.
    """
    place = os.path.abspath(os.path.expanduser(path))
    while True:
        try:
            found = os.statvfs(place)
            break
        except (FileNotFoundError, NotADirectoryError):
            above = os.path.dirname(place)
            if above == place:
                raise
            place = above
    mount, source = _mounted(os.path.realpath(place))
    return {
        "mount": mount,
        "source": source,
        "free": found.f_bavail * found.f_frsize,
        "used": (found.f_blocks - found.f_bfree) * found.f_frsize,
        "inodes": found.f_files,
        "inodes_free": found.f_favail,
    }


def _mounted(path: str) -> tuple[str, str]:
    """Return the mount point above a path and its source, as the kernel lists them."""
    best, source = "/", ""
    with open(f"{PROC}/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        listed = mounts(file.read())
    for point, mounted in listed:
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and len(point) >= len(best):  # of two at one place the last lies on top
            best, source = point, mounted
    return best, source


@functools.lru_cache(maxsize=1)
def mounts(text: str) -> list[tuple[str, str]]:
    """Return the mount points of the kernel's list, and what is mounted there."""
    lines = (line.split(" ") for line in text.splitlines())
    return [(_unescaped(line[4]), _unescaped(line[line.index("-") + 2])) for line in lines]


def _unescaped(text: str) -> str:
    for code, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, sign)
    return text


def run(
    argv: Sequence[str],
    seconds: float = 5.0,
    stdin: str = "",
    most: int = 1_000_000,
    kill: bool = True,
    english: bool = True,
    folder: str | None = None,
) -> list[Any]:
    """Run a command and return ``[status, output, errors, whether output was cut]``.

    Each output is cut at ``most`` bytes. The status is ``LATE`` when it did not end in time; then
    all of its process group is killed, unless it is to go on (``kill``). What it has left running
    may keep the output open: that is not waited for. ``english`` asks for messages that can be
    read, ``folder`` is where it runs. Raises ``OSError`` when the command was not started, and no
    other ``OSError``.
    """
    words = [word.encode("utf-8", "surrogateescape") for word in argv]  # whatever the locale is
    child = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, bufsize=0, env=dict(os.environ, LC_ALL="C") if english else None,
        cwd=folder,
    )  # fmt: skip
    kept = (bytearray(), bytearray())
    readers = [
        threading.Thread(target=_keep, args=(child.stdout, kept[0], most), daemon=True),
        threading.Thread(target=_keep, args=(child.stderr, kept[1], most), daemon=True),
        threading.Thread(target=_feed, args=(child.stdin, stdin), daemon=True),
    ]
    if kill:
        ENDING.add(child)
    try:
        for each in readers:
            each.start()
        status = child.wait(seconds)
    except subprocess.TimeoutExpired:
        status = LATE
        if kill:
            _kill(child)
            child.wait()
        else:  # it goes on, and is waited for, so that nothing stays behind
            threading.Thread(target=child.wait, daemon=True).start()
    except RuntimeError:  # no thread left to read what it writes
        if kill:
            _kill(child)
            child.wait()
        raise
    finally:
        ENDING.discard(child)
    until = time.monotonic() + LAST_OUTPUT
    for each in readers if kill or status != LATE else ():
        each.join(max(0.0, until - time.monotonic()))
    texts = [bytes(text[:most]).decode("utf-8", "surrogateescape") for text in kept]
    return [status, *texts, any(len(text) > most for text in kept)]


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):  # it has ended, or runs as another user
        os.killpg(child.pid, signal.SIGKILL)


def _keep(pipe: IO[bytes], kept: bytearray, most: int) -> None:
    with pipe:
        while True:
            piece = pipe.read(PIECE)
            if not piece:
                return
            kept += piece[: max(0, most + 1 - len(kept))]


def _feed(pipe: IO[bytes], text: str) -> None:
    try:
        with pipe:
            pipe.write(text.encode("utf-8", "surrogateescape"))
    except OSError:  # it read no further
        pass


TEXTS: dict[str, str] = {}
"""The modules that were sent, by name: what starts a process of its own sends them on."""
CALLS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (about, processes, files, real, disk, memory, run)
}


def answer(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a call's value, or the error that it raised, as it crosses the wire."""
    try:
        return {"value": CALLS[name](**arguments)}
    except OSError as error:
        return {
            "errno": error.errno or 0,
            "text": error.strerror or str(error),
            "path": str(error.filename or ""),
        }
    except Exception as error:  # noqa: BLE001 - a fault of ours is said where it is asked
        return _fault(f"{type(error).__name__}: {error}")


def _fault(text: str, number: int = 0) -> dict[str, Any]:
    """Return an error that crosses the wire; without a number the call may have done its work."""
    return {"errno": number, "text": text, "path": ""}


def load(texts: dict[str, str]) -> None:
    """Make modules of their texts, each after those that it imports: they add calls."""
    TEXTS.update(texts)
    for name, text in texts.items():
        module = sys.modules[name] = types.ModuleType(name)
        exec(compile(text, name, "exec"), module.__dict__)


def _leave() -> None:
    """End at once, with the commands that nobody waits for; threads may hang."""
    for child in tuple(ENDING):
        _kill(child)
    os._exit(0)


def _leave_with_the_link() -> None:
    """Leave when nobody is at the other end of the input, even if a call cannot be begun.

    Where memory is limited, a thread that dies as it starts keeps whoever started it waiting.
    """
    link = select.poll()
    link.register(sys.stdin.fileno(), select.POLLHUP | select.POLLRDHUP)
    link.poll()
    _leave()


BYTES = "\0"
"""The key of what stands in JSON for bytes: their offset behind it, and how many."""


def framed(message: dict[str, Any]) -> bytes:
    """Return a line of JSON and, behind it, all bytes that the message holds."""
    parts, at = [b""], 0

    def named(part: bytes) -> dict[str, list[int]]:
        nonlocal at
        parts.append(part)
        at += len(part)
        return {BYTES: [at - len(part), len(part)]}

    parts[0] = json.dumps(message, separators=(",", ":"), default=named).encode("ascii") + b"\n"
    return b"".join(parts)


def unframed(data: bytes) -> dict[str, Any]:
    """Return a message as it was before ``framed``."""
    text, _, rest = data.partition(b"\n")

    def known(found: dict[str, Any]) -> object:
        if found.keys() != {BYTES}:
            return found
        at, size = found[BYTES]
        return rest[at : at + size]

    message: dict[str, Any] = json.loads(text, object_hook=known)
    return message


def serve(mark: str) -> None:
    """Answer calls from standard input until it ends; ``mark`` begins the answers.

    Both directions are compressed streams: what is asked at each look differs little from what
    was asked before. Calls are lines of JSON. The frame of an answer is a length and that many
    bytes of the stream: a line of JSON, and behind it the bytes that it names. Output before the
    mark (a login's greeting) is nobody's.
    """
    out, lock, stream = sys.stdout.buffer, threading.Lock(), zlib.compressobj(6)

    def send(message: dict[str, Any]) -> None:
        text = framed(message)
        if len(text) > LONGEST:
            fault = _fault(f"an answer of {len(text):,} bytes is too long")
            text = json.dumps({"id": message["id"], **fault}).encode("ascii")
        with lock:
            data = stream.compress(text) + stream.flush(zlib.Z_SYNC_FLUSH)
            out.write(FRAME.pack(len(data)) + data)
            out.flush()

    def work(call: dict[str, Any]) -> None:
        send({"id": call["id"], **answer(call["call"], call["with"])})

    threading.stack_size(STACK)
    threading.Thread(target=_leave_with_the_link, daemon=True).start()
    out.write(f"\n{mark}\n".encode())
    out.flush()
    for line in _lines():
        call = json.loads(line)
        if "load" in call:
            load(call["load"])
            continue
        try:
            threading.Thread(target=work, args=(call,), daemon=True).start()
        except RuntimeError as error:  # no thread, no process left there
            send({"id": call["id"], **_fault(str(error), errno.EAGAIN)})
    _leave()


def _lines() -> Iterator[bytes]:
    """Yield the lines of the compressed standard input, each as soon as it is there."""
    stream, rest, source = zlib.decompressobj(), b"", sys.stdin.buffer
    assert isinstance(source, io.BufferedReader)
    while True:
        data = source.read1(PIECE)
        if not data:
            return
        *lines, rest = (rest + stream.decompress(data)).split(b"\n")
        yield from lines

"""Commands that end once another program has their job: ``docker run -d``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final, NamedTuple

from cockpit.platforms.local.programs import is_shell, is_wrapper, program, submits, wrapped


class _Client(NamedTuple):
    """A program that may hand a job over, and its options, by which it does or does not.

    ``letters`` and ``switches`` are its options without a value; every other one has one.
    """

    names: str
    detaches: str = ""
    """Options with which it hands over; without any it always does, but for ``waits``."""
    waits: str = ""
    letters: str = ""
    switches: str = ""
    verbs: str = ""
    """Words before its options that are no program yet."""


_CLIENTS: Final = (
    _Client(
        "docker podman nerdctl docker-compose podman-compose",
        detaches="d detach",
        letters="itqPdD",
        switches="rm init privileged read-only detach interactive tty publish-all quiet replace "
        "no-healthcheck oom-kill-disable sig-proxy debug env-host no-hosts rmi tls build wait "
        "remove-orphans force-recreate no-deps service-ports",
        verbs="container compose run exec up",
    ),
    _Client("screen", waits="D", letters="aAdDfilLmnOqrRUvwxX"),
    _Client(
        "systemd-run",
        waits="scope wait pty pipe shell t P S",
        letters="dGqrtPS",
        switches="user system scope remain-after-exit wait pty pipe shell quiet collect same-dir "
        "no-block no-ask-password slice-inherit send-sighup",
    ),
    _Client(
        "sbatch",
        waits="wait W",
        letters="HhIkOQsvW",
        switches="hold requeue no-requeue overcommit parsable quiet verbose wait contiguous reboot",
    ),
    _Client("setsid", detaches="f fork", letters="cfw", switches="ctty fork wait"),
    _Client("ssh", detaches="f", letters="46AaCfGgKkMNnqsTtVvXxYy"),
    _Client("start-stop-daemon", detaches="b background", letters="SKbmqvto",
            switches="start stop background make-pidfile quiet verbose oknodo test"),
    _Client("tmux at batch pueue tsp nq daemonize pm2 supervisorctl systemctl"),
)  # fmt: skip
_STARTS: Final = frozenset(("start", "restart", "unpause"))
"""What docker does to a container that is there already, and ends."""
_ATTACHED: Final = re.compile(r"-[ai]+|--attach|--interactive")
_CONTAINERS: Final = _CLIENTS[0].names.split()


def hands_over(argv: Sequence[str]) -> bool:
    """Tell whether a command ends once another program has its job.

    Its exit status then tells nothing of the job.
    """
    words = list(argv)
    while words:
        name = program(words)
        client = next((each for each in _CLIENTS if name in each.names.split()), None)
        if client is not None and (_by_option(client, words[1:]) or not is_wrapper(words)):
            return _by_option(client, words[1:]) or _starts_again(name, words[1:])
        if is_shell(words):
            return _in_the_background(words[1:])
        if len(words) == 1 or not is_wrapper(words):
            return submits(words)
        words = wrapped(words)
    return False


def _by_option(client: _Client, rest: Sequence[str]) -> bool:
    options = _options(client, rest)
    if client.detaches:
        return not options.isdisjoint(client.detaches.split())
    return options.isdisjoint(client.waits.split())


def _options(client: _Client, rest: Sequence[str]) -> set[str]:
    """Return the options that are a client's own: what stands behind a program is the program's."""
    found: set[str] = set()
    words = iter(rest)
    for word in words:
        if word in client.verbs.split():
            continue
        if not word.startswith("-") or word == "--":
            break
        name, sign, value = word.lstrip("-").partition("=")
        if word.startswith("--"):
            letters, left = [name], "" if sign or name in client.switches.split() else name
        else:
            left = word[1:].lstrip(client.letters) if client.letters else ""
            letters = list(word[1 : len(word) - len(left)])
            left = left if len(left) == 1 else ""
        if value.lower() not in ("false", "0"):
            found |= {*letters}
        if left:
            next(words, None)
    return found


def _starts_again(name: str, rest: Sequence[str]) -> bool:
    verbs = [word for word in rest if word not in ("container", "compose")]
    again = name in _CONTAINERS and bool(_STARTS.intersection(verbs[:1]))
    return again and not any(map(_ATTACHED.fullmatch, rest))


def _in_the_background(rest: Sequence[str]) -> bool:
    """Tell whether the last command that a shell is given is left behind, or hands over."""
    flag = next((at for at, word in enumerate(rest) if re.fullmatch(r"-\w*c", word)), None)
    if flag is None or flag + 1 >= len(rest):
        return False
    lexer = shlex.shlex(rest[flag + 1], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return False
    ends = [at for at, word in enumerate(words) if word in ("&", ";", "&&", "||", "|")]
    if ends and ends[-1] == len(words) - 1:
        if words[-1] == "&":
            return True
        words, ends = words[:-1], ends[:-1]
    return hands_over(words[ends[-1] + 1 if ends else 0 :])

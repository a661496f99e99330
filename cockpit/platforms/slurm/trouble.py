"""What keeps Slurm from answering, in one line: what, where, and what to do."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from cockpit.model.facet import ErrorKind
from cockpit.text.safe import clean
from cockpit.text.scrub import scrub


class Trouble(NamedTuple):
    """Why a cluster could not be asked: its kind, one line, and what a person can do."""

    kind: ErrorKind
    text: str
    remedy: str

    @property
    def line(self) -> str:
        """All of it in one line."""
        return "; ".join(filter(None, (self.text, self.remedy)))


class _Sign(NamedTuple):
    pattern: re.Pattern[str]
    kind: ErrorKind
    words: str
    remedy: str


def _sign(pattern: str, kind: ErrorKind, words: str, remedy: str) -> _Sign:
    return _Sign(re.compile(pattern, re.I), kind, words, remedy)


_SIGNS: Final = (
    _sign(
        "munge|authentication error|auth_g_|invalid authentication|Protocol authentication",
        ErrorKind.UNAUTHORIZED,
        "munge does not vouch for us",
        "is munged up there, and does its clock agree with the controller's?",
    ),
    _sign(
        "Could not establish a configuration source|Unable to process configuration file"
        "|cannot stat file|resolve_ctls_from_dns_srv|fetch_config",
        ErrorKind.NOT_FOUND,  # "not configured" would say that the run file names no job
        "no Slurm: its commands find no configuration",
        "run them on a login node (job.host), or set SLURM_CONF",
    ),
    _sign(
        r"(squeue|scontrol|sacct): (command )?not found",
        ErrorKind.NOT_FOUND,
        "no Slurm: its commands are not installed, or not on PATH",
        "name a login node as job.host, or put them on the PATH of a plain ssh command",
    ),
    _sign(
        "Socket timed out|timed out|Message receive failure",
        ErrorKind.TIMEOUT,
        "the controller did not answer in time",
        "retried automatically; sinfo there shows whether it is up",
    ),
    _sign(
        "Unable to contact slurm controller|Connection refused|Connection reset|No route to host"
        "|Zero Bytes were transmitted|Unexpected message received",
        ErrorKind.REFUSED,
        "the controller cannot be reached",
        "ask who runs the cluster; jobs go on without it",
    ),
    _sign(
        "accounting storage is disabled",
        ErrorKind.NOT_FOUND,
        "accounting is off",
        "how a job ended is only known while the controller remembers it",
    ),
    _sign(
        "Access/permission denied|Permission denied|Invalid user|not permitted",
        ErrorKind.PERMISSION,
        "Slurm refuses our query",
        "ask who runs the cluster for an account there",
    ),
)
_PREFIX: Final = re.compile(r"^(squeue|scontrol|sacct|slurm_load_\w+|sh: \d+): ?(error: |fatal: )?")
_LONGEST: Final = 160


def trouble_of(where: str, said: str, rc: int) -> Trouble:
    """Return why a command of Slurm failed, by what it said and its exit status."""
    told = last_words(said)
    if rc == 124 and not told:
        return late(where)
    for sign in _SIGNS:
        if sign.pattern.search(said):
            quoted = f" ({told})" if told else ""
            return Trouble(sign.kind, f"{where}: {sign.words}{quoted}", sign.remedy)
    if rc == 124:
        return late(where)
    text = f"{where}: squeue ended with {rc}{': ' + told if told else ''}"
    return Trouble(ErrorKind.BAD_ANSWER, text, "run it there by hand")


def late(where: str) -> Trouble:
    """Return that the controller let a command wait for too long."""
    found = _SIGNS[3]
    return Trouble(found.kind, f"{where}: {found.words}", found.remedy)


def torn(where: str, size: int, cut: bool) -> Trouble:
    """Return that an answer is not whole."""
    why = f"larger than {size // 1_000_000} MB" if cut else f"cut off after {size} bytes"
    text = f"{where}: the answer is {why}: it is ignored"
    return Trouble(ErrorKind.BAD_ANSWER, text, "does the login shell print into every command?")


def garbled(where: str, said: str) -> Trouble:
    """Return that squeue has printed something else than what it was asked for."""
    text = f"{where}: squeue printed no list of jobs: {scrub(clean(said, _LONGEST))}"
    return Trouble(ErrorKind.BAD_ANSWER, text, "is that Slurm's own squeue?")


def last_words(said: str) -> str:
    """Return the last line that a command has said, safe and short."""
    lines = [line for line in said.splitlines() if line.strip()]
    plain = _PREFIX.sub("", lines[-1].strip()) if lines else ""
    return scrub(clean(plain, _LONGEST))

"""Names of machines and people in foreign text, found by their shape and by what stands before.

For a shared screen: rather one word too many than a name. Figures, file:line, module paths,
versions and accelerators are no names; a plain word is one only where the text says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """Whose name it is; the value is what stands for it."""

    HOST = "host"
    USER = "user"


class Name(NamedTuple):
    """A name in a line. ``sure``: the same word is a name wherever else it stands."""

    start: int
    end: int
    kind: Kind
    sure: bool = True


_LEFT: Final = r"(?<![\w.@-])"
_RIGHT: Final = r"(?![\w@])(?!-\w)(?!\()"
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_TAIL: Final = rf"(?:\.{_LABEL})*"
_MACHINES: Final = (
    r"node|nid|host|compute|login|bastion|jumphost|headnode|server|srv|rack|vm|dgx|hgx|worker-vm"
)
_CHIPS: Final = r"(?:v\d+\w*|[abhlptv]\d{1,2}0{1,3}\w*|[lt]4\w*|[ak][1-9]0\w*|mi\d+\w*|g[bh]\d+\w*)"
_LISTED: Final = r"\[\d[\d,-]*\]"
_SHAPES: Final = (
    # node-23, gpu-node-12, tpu-vm-7.zone.internal, nid001234, dgx-a100-07
    rf"(?:[a-z][a-z0-9]*-)*(?:{_MACHINES})-?[a-z]{{0,3}}\d+(?:-[a-z0-9]+)*{_TAIL}",
    # gpu-a17, gpu01, tpu-pod-3: neither gpu0 nor gpu-h100 nor tpu-v5p-512
    rf"[gt]pu-?(?!{_CHIPS}(?:\b|-))(?:0\d+(?!\d*:[\da-f]+:)|\d{{3,}}(?!\d*:[\da-f]+:)|[a-z]+-?\d+)"
    rf"(?:-[a-z0-9]+)*{_TAIL}",
    # node[01-04,07], gpu-a[1-4]
    rf"(?:[a-z][a-z0-9]*-)*(?:{_MACHINES}|gpu|tpu|cn)-?[a-z]{{0,3}}{_LISTED}{_TAIL}",
    rf"[a-z][a-z-]*\[0\d+-\d+(?:,[\d,-]+)?\]{_TAIL}",
    # clouds: ip-10-0-0-1, t1v-n-1a2b3c4d-w-0, gke-…, i-0123456789abcdef0, ec2-…
    rf"(?:ip|ec2)(?:-\d{{1,3}}){{4}}{_TAIL}",
    rf"t1v-n-[0-9a-f]+-w-\d+{_TAIL}",
    r"gke-[a-z0-9]+(?:-[a-z0-9]+){2,}",
    r"i-0[0-9a-f]{8,16}",
    # by their domain
    rf"(?:{_LABEL}\.)+(?:com|org|edu|gov|mil)",
    rf"(?:{_LABEL}\.){{2,}}(?:internal|localdomain|lan|corp|intra|intranet|local|cluster|svc|home"
    r"|net|io|ai|dev|cloud|hpc|de|uk|fr|ch|eu|jp|cn|kr|au|ca|nl|se|fi|dk|pl|cz|tw|sg|nz|ie|br)",
    rf"(?=[a-z0-9.]*[-\d])[a-z]{_LABEL}\.(?:internal|localdomain|lan|corp|intra|local|home|hpc)",
)
_BY_SHAPE: Final = re.compile(rf"{_LEFT}(?:{'|'.join(_SHAPES)}){_RIGHT}", re.IGNORECASE)
_NET: Final = re.compile(
    r"(?<![\w.:])(?:"
    r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w]|\.\d)"
    r"|(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}(?![\w:])"
    r"|(?=[0-9a-f:]*\d)(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:])"
    r"|(?=[0-9a-f:]*\d)(?:[0-9a-f]{1,4}:){1,7}:(?![\w:])"
    r"|::(?:ffff:)?(?:\d{1,3}\.){3}\d{1,3}|::(?:[0-9a-f]{1,4}:){0,6}[0-9a-f]{2,4}(?![\w:])"
    r"|(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])"
    r")",
    re.IGNORECASE,
)
"""An address of a machine: ``10.0.3.7``."""
_VERSION: Final = re.compile(
    r"(?:version|cudnn|nccl|driver|cuda|rocm|release)[ =:v]*$", re.IGNORECASE
)
"""A dotted number behind it is no address: ``driver version ``."""
_MAIL: Final = re.compile(rf"(?<![\w.+@-])(?P<user>[a-z_][\w.+-]*)@(?P<host>{_LABEL}{_TAIL})", re.I)
"""Such as ``ada@gpu1.cluster``."""

_COMMIT: Final = re.compile(r"[0-9a-f]{7,64}", re.IGNORECASE)
"""A commit is no name: ``9f2c1ab``."""
_FIRST: Final = r"(?:^|(?<=│ )|(?<=\| )|(?<=  ))"
"""Where a line begins, or one that was painted into a frame."""

_SET: Final = r"[\"']?\s{0,12}(?:=|:(?!:|//))\s{0,4}[\"']?"
_WORD: Final = r"[a-z_][\w.-]*[a-z0-9]"
_HOST_KEYS: Final = (
    r"host|hostname|host_?name|node|nodes|node_?name|node_?list|machine|master_addr|master|"
    r"server|remote|peer|head_?node|slurmd_nodename|slurm_(?:job_)?nodelist|slurm_submit_host|"
    r"(?:main|head|leader|worker)_(?:addr|address|host|ip)|addr|address|rdzv_endpoint|instance"
)
_USER_KEYS: Final = (
    r"user|username|user_?name|owner|logname|login|author|operator|dri|assignee|reviewer|"
    r"on-?call|account|slurm_job_user|sudo_user|submitted_by|launched_by|created_by|requested_by|"
    r"contact|maintainer|entity|user_?id|group_?id|mail_?user"
)
_DONE: Final = (
    r"submitted|launched|started|owned|stopped|cancell?ed|killed|approved|acked|acknowledged|"
    r"requested|reported|created|assigned|handed over|paged|taken|written|authored|signed off|run"
)
_GIVEN: Final = (
    # key=value: any word; key: value: only what has a digit, a dot or a hyphen in it
    (rf"(?<![\w])(?:{_HOST_KEYS})[\"']?\s{{0,2}}=\s{{0,2}}[\"']?(?P<name>{_WORD})", Kind.HOST),
    (rf"(?<![\w])(?:{_HOST_KEYS}){_SET}(?P<name>(?=[\w.]*[\d.-]){_WORD})", Kind.HOST),
    (r"(?<![\w-])(?:host|hostname|node|machine|server)\s(?P<name>(?=[\w.]*[\d-])[a-z][\w.-]*[a-z0-9])",
     Kind.HOST),
    (r"(?<![\w-])(?:ssh|scp|sftp|mosh)\s(?:-\w+\s(?:\d+\s)?)*(?P<name>[a-z][\w.-]*[a-z0-9])(?!@)",
     Kind.HOST),
    (rf"{_FIRST}(?P<name>[a-z][\w.-]*[a-z0-9]):\d+:\d+ \[\d+\] NCCL\b", Kind.HOST),
    (r"\b[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<name>[a-z][\w.-]*[a-z0-9]) \S+:", Kind.HOST),
    (r"\bON (?P<name>[a-z][\w.-]*[a-z0-9]) CANCELLED", Kind.HOST),
    (r"\b(?:srun|slurmstepd|sbatch|mpirun|prterun): error: (?P<name>[a-z][\w.-]*\d[\w.-]*):",
     Kind.HOST),
    (rf"(?<![\w])(?:{_USER_KEYS}){_SET}(?P<name>{_WORD})", Kind.USER),
    (rf"(?<![\w-])(?:user|owner|DRI|operator)\s[\"']?(?P<name>{_WORD})", Kind.USER),
    (rf"\b(?:{_DONE}) (?:by|to) (?:user )?[\"']?(?P<name>{_WORD})", Kind.USER),
    (rf"~(?P<name>{_WORD})(?=/)|(?:^|[^\w/])/(?:home|Users)/(?P<name2>{_WORD})", Kind.USER),
)  # fmt: skip
_SIGNAL: Final = re.compile(
    r"SIG(?:STOP|TSTP|TTIN|TTOU|TERM|KILL|INT|QUIT|HUP|ABRT|SEGV|BUS|FPE|ILL|USR[12]|CONT|ALRM|"
    r"XCPU|XFSZ|PIPE|TRAP|SYS)",
    re.IGNORECASE,
)
"""A signal is no name: ``SIGTERM``."""
_BY_WORD: Final = [(re.compile(each, re.IGNORECASE), kind) for each, kind in _GIVEN]
_HINT: Final = re.compile(
    r"host|node|nid|gpu|tpu|vm|rack|srv|server|machine|addr|remote|peer|master|user|owner|logname|"
    r"login|author|operator|dri|assign|review|call|account| by | to |contact|maint|entity|group|"
    r"ssh|scp|sftp|mosh|nccl|ON |srun|slurm|sbatch|mpirun|instance|home|~|[a-z]:",
    re.IGNORECASE,
)
"""A word before which makes the next one a name: ``host``."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NO_HOSTS: Final = _word_set(
    """
    localhost none null true false unknown cpu cuda gpu tpu auto default any all self
    ready up down healthy ok error failed failure memory connection key keys client
    session config agent tunnel command the a an is was not to
    """
)
_NO_USERS: Final = _word_set(
    """
    none null true false unknown default root nobody anonymous n/a code space id ids
    defined input inputs error errors interrupt interrupted stopped cancelled canceled
    cancel request requested requests supplied provided specified initiated aborted
    killed time data name names process processes agent mode message messages prompt
    prompts warning config configuration session sessions settings set is was has had
    did does must may can could should will would not and or of in on at to for from
    with by the a an this that it its itself signal user users owner kernel oom
    scheduler slurm ray iris system timeout cgroup systemd function functions script
    library module modules model models file files directory folder path group limit
    quota permission permissions permitted action actions exit ctrl
    reason checkpoint checkpoints step steps callback callbacks hook hooks who whom
    nothing somebody anybody people everyone person run job one two both each another
    date due rank ranks trainer train training no yes token tokens row rows batch api
    args arguments kwargs flag flags option options pass tries level trainers queue
    priority preemption watchdog disk hand died dead gone lost left exited failed crashed default
    """
)


def names_in(line: str) -> list[Name]:
    """Return the names in one line, in order and apart; where two overlap the longer one."""
    found = [*_by_net(line), *_by_mail(line)]
    found += (Name(*each.span(), Kind.HOST) for each in _BY_SHAPE.finditer(line))
    if _HINT.search(line):
        found += _by_word(line)
    apart: list[Name] = []
    for each in sorted(found, key=lambda name: (name.start, -name.end)):
        if not apart or each.start >= apart[-1].end:
            apart.append(each)
        elif each.end > apart[-1].end:
            apart[-1] = apart[-1]._replace(end=each.end)
    return apart


def _by_net(line: str) -> Iterator[Name]:
    """Yield addresses; the machine's own and the versions of libraries are none."""
    for found in _NET.finditer(line):
        words = found.group()
        own = words.startswith("127.") or words in ("0.0.0.0", "255.255.255.255")
        if not own and _VERSION.search(line, 0, found.start()) is None:
            yield Name(*found.span(), Kind.HOST)


def _by_mail(line: str) -> Iterator[Name]:
    for found in _MAIL.finditer(line):
        if _COMMIT.fullmatch(found["host"]):
            continue
        sure = found["user"].lower() not in _NO_USERS
        yield Name(*found.span("user"), Kind.USER, sure)
        yield Name(*found.span("host"), Kind.HOST, found["host"].lower() not in _NO_HOSTS)


_ID_BEHIND: Final = re.compile(r"\(\d+\)(?=\s|$)")
"""What Slurm writes behind the name of a user or a group: ``UserId=ada(1000)``."""


def _by_word(line: str) -> Iterator[Name]:
    for pattern, kind in _BY_WORD:
        stops = _NO_HOSTS if kind is Kind.HOST else _NO_USERS
        for found in pattern.finditer(line):
            group = "name" if found["name"] is not None else "name2"
            word = found[group]
            end = found.end(group)
            field = line.startswith(("=", "("), end) and not _ID_BEHIND.match(line, end)
            heading = word.isupper() and len(word) < 4
            known = word.lower() in stops or _SIGNAL.fullmatch(word) is not None
            if not known and not heading and not field:
                yield Name(*found.span(group), kind, len(word) > 2)

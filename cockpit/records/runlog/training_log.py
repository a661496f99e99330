"""A public ``TRAINING_LOG.md`` from a run log (SPEC A-13, HPC): what trained, not where.

Kept: dynamics, configuration, links. Taken out: job ids, machines, people's folders, secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from cockpit.records.logbook.labels import plain
from cockpit.records.logbook.reading import LabelledValue, read_fields
from cockpit.text.logbook_scan import LogbookPage, read_page
from cockpit.text.scrub import scrub

PATH: Final = "<path>"
JOB: Final = "<job>"
HOST: Final = "<host>"

_JOBS: Final = frozenset(
    ("executionid", "jobid", "slurmjobid", "jobids", "arrayjobid", "job", "instance")
)
_HOSTS: Final = frozenset(
    ("node", "nodes", "nodelist", "host", "hosts", "hostname", "partition", "account", "cluster")
)
_PRIVATE: Final = frozenset(
    ("submitcommand", "stdout", "stderr", "user", "username", "ssh", "workdir", "qos", "local")
)
_TOKEN: Final = re.compile(r"[\w.-]*\w")
_LINK: Final = re.compile(
    r"https?://(?!localhost\b|127\.|10\.|192\.168\.)[\w-]+(?:\.[\w-]+)+[^\s`)>\]]*"
)
_FOLDER: Final = re.compile(
    r"(?<![\w/.:<~-])(?<!<path>)(?:(?:[a-z][a-z0-9+]{1,9}://|~|\$\{?\w+\}?)(?=/)|(?=/))(?:/[\w.@%+=:,~*$-]+)+/?"
    r"|(?<!\w)(?:[a-z][a-z0-9]{1,9})://[\w./@%+=:,~*$-]+"
    r"|(?<![\w/])~/?(?=[\s`'\")]|$)"
)
_KEPT_NAME: Final = re.compile(r"(?:[\w-]*\d[\w.-]*|[\w-]+\.\w{1,8})")
_JOB_WORDS: Final = re.compile(
    r"(?i)(?<![\w-])((?:slurm[ _-]?|sbatch[ _-]?|squeue[ _-]?|sacct[ _-]?)?(?:array[ _-]?)?"
    r"job(?:[ _-]?id)?s?[`*]*[ \t:=#]*[`*]*)(\d{4,}(?:_\d+)?(?:\.\w+)?)\b"
    r"|\b(slurm-|submitted batch job )(\d{3,}(?:_\d+)?)|((?<!\w)-j[ =]?)(\d{4,})\b"
)
_HOST_WORDS: Final = re.compile(
    r"(?i)(\b(?:ssh|host|hostname|node|nodes|nodelist|on machine)[`*]*[ \t:=]+[`*]*)"
    r"((?=[\w.@-]*[\d.@])[\w@][\w.@\[\],-]*[\w\]])"
)
_NODE: Final = re.compile(
    r"(?i)\b(?:nid|node|gpu|cn|dgx|tpu-vm|login|compute)-?\d{2,}(?:[.-][\w-]+)*\b"
)
_PERSON_AT: Final = re.compile(r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)*\b")
_ADDRESS: Final = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b")
_DROPPED: Final = ("wandb_id.txt",)
_GAP: Final = re.compile(r"\n{3,}")


def sanitized(text: str) -> str:
    """Return a run log without what names jobs, machines, folders or secrets; the rest as it is."""
    page = read_page(text)
    fields = list(_fields(page))
    gone = {
        number
        for field in fields
        if plain(field.label) in _JOBS | _HOSTS | _PRIVATE
        for number in range(field.line, field.end + 1)
    }
    jobs = _tokens(fields, _JOBS, digits=3)
    hosts = _tokens(fields, _HOSTS, digits=1)
    kept = [
        line
        for number, line in enumerate(page.lines, start=1)
        if number not in gone and not any(word in line for word in _DROPPED)
    ]
    public = scrub(
        "\n".join(_public(line, jobs, hosts) for line in scrub("\n".join(kept)).split("\n"))
    )
    return _GAP.sub("\n\n", public).rstrip() + "\n"


def _fields(page: LogbookPage) -> Iterator[LabelledValue]:
    ends = [*(heading.number for heading in page.headings), len(page.lines) + 1]
    first = page.skipped + 1
    for end in ends:
        yield from read_fields(page.between(first, end - 1))
        first = end + 1


def _tokens(fields: list[LabelledValue], labels: frozenset[str], digits: int) -> list[str]:
    """Return the names in these fields that could stand elsewhere too, the longest first."""
    found = {
        token
        for field in fields
        if plain(field.label) in labels
        for token in _TOKEN.findall(field.value)
        if sum(char.isdigit() for char in token) >= digits and len(token) > 2
    }
    return sorted(found, key=len, reverse=True)


def _public(line: str, jobs: list[str], hosts: list[str]) -> str:
    """Return a line with what stands outside its public links made anonymous."""
    parts, at = [], 0
    for link in _LINK.finditer(line):
        parts += [_anonymous(line[at : link.start()], jobs, hosts), link.group()]
        at = link.end()
    return "".join([*parts, _anonymous(line[at:], jobs, hosts)])


def _anonymous(text: str, jobs: list[str], hosts: list[str]) -> str:
    text = _FOLDER.sub(_folder, text)
    text = _JOB_WORDS.sub(lambda m: f"{m[1] or m[3] or m[5]}{JOB}", text)
    text = _named(text, jobs, JOB)
    text = _PERSON_AT.sub(HOST, text)
    text = _HOST_WORDS.sub(lambda m: f"{m[1]}{HOST}", text)
    text = _NODE.sub(HOST, _named(text, hosts, HOST))
    return _ADDRESS.sub(HOST, text)


def _folder(found: re.Match[str]) -> str:
    """Return ``<path>``, with the last name of a deep path where that is a file or a step."""
    names = [name for name in found.group().split("/") if name]
    deep = (len(names) > 3 and found.group().startswith(("/", "~", "$"))) or len(names) > 4
    return f"{PATH}/{names[-1]}" if deep and _KEPT_NAME.fullmatch(names[-1]) else PATH


def _named(text: str, names: list[str], instead: str) -> str:
    for name in names:
        if name in text:
            text = re.sub(rf"(?<![\w]){re.escape(name)}(?![\w])", instead, text)
    return text

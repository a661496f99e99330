"""Where each rank of a job stands: stacks of Python and NCCL's own records, the odd ranks first.

A job that hangs has many ranks that wait and few that they wait for. Ranks that stand in the same
place are told together; the smallest group is the one to look at.
"""

from __future__ import annotations

import base64
import io
import json
import pickle
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

from cockpit.model.wording import plural
from cockpit.text.safe import clean, safe_lines
from cockpit.text.scrub import scrub

RANKS: Final = "ranks.txt"
"""The file of the evidence that says it."""
MOST: Final = 64
"""Processes of one machine of which a stack is asked."""
EACH: Final = 5
"""Seconds for one stack."""
DUMP: Final = 8_000_000
"""Bytes of a flight recorder's dump that are read."""
DEEPEST: Final = 60
"""Frames of a stack that are shown."""
USUAL_STEM: Final = "/tmp/nccl_trace_rank_"
"""What NCCL's flight recorder calls its dumps where it is not set, before the rank."""
_NAMED: Final = 8
"""Ranks of a group that are named one by one."""
_HEAD: Final = re.compile(r"^== process (?P<pid>\d+) rank (?P<rank>\d*) node (?P<node>[\w.-]*) ==$")
_THREAD: Final = re.compile(r"^Thread \S+ \((?P<state>[^)]*)\)(?:: \"(?P<name>[^\"]*)\")?")
_FRAME: Final = re.compile(r"^\s+(?P<call>[^()]+) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)$")
_COLLECTIVE: Final = re.compile(
    r"^(?:all_?reduce|all_?gather|all_?to_?all|reduce_scatter|broadcast|barrier|monitored_barrier"
    r"|reduce|gather|scatter|send|recv|isend|irecv)(?:_\w+)?$"
)


def stacks_script(pids: Sequence[int]) -> str:
    """Return what prints the stack of each rank: of the first process of each, no loader's.

    A process has its rank from the environment, and what it starts has the same.
    """
    some = " ".join(map(str, pids[:MOST]))
    return f"""\
exec 2>&1
command -v py-spy >/dev/null || {{ echo 'missing: py-spy is not installed there'; exit; }}
rank_of() {{
  tr '\\0' '\\n' 2>/dev/null <"/proc/$1/environ" |
  sed -n 's/^RANK=//p;s/^SLURM_PROCID=//p' | sed -n 1p
}}
for pid in {some}; do
  [ -d "/proc/$pid" ] || continue
  rank=$(rank_of "$pid"); above=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$pid/status")
  [ -n "$rank" ] && [ "$(rank_of "$above")" = "$rank" ] && continue
  echo "== process $pid rank $rank node $(uname -n) =="
  timeout {EACH} py-spy dump --nonblocking --pid "$pid"
done"""


def recorder_script(pids: Sequence[int]) -> str:
    """Return what prints NCCL's records of this job: its flight recorder's dumps, and its RAS.

    Each dump comes as one line of base64. One that is older than the job's processes is another
    job's; of a job that has none left, the dumps of the last hour are told. The usual place counts
    where no process names another one.
    """
    some = " ".join(map(str, pids[:MOST]))
    began = f"$(LC_ALL=C ps -o lstart= -p '{some}' | head -n 1)" if pids else ""
    variables = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE=//p;s/^TORCH_FR_DUMP_TEMP_FILE="
    return f"""\
stems=$(for pid in {some}; do
  tr '\\0' '\\n' <"/proc/$pid/environ" 2>/dev/null | sed -n 's/^{variables}//p'
done | sort -u)
began="{began}"
if [ -n "$began" ]; then set -- -newermt "$began"; else set -- -mmin -60; fi
printf '%s\\n' "${{stems:-{USUAL_STEM}}}" |
while IFS= read -r stem; do
  find "$(dirname "$stem")" -maxdepth 1 -type f -user "$(id -un)" -name "$(basename "$stem")*" \\
    "$@" -size -{DUMP}c |
  sort | head -n {MOST}
done | while IFS= read -r file; do
  printf '== dump %s ==\\n' "$file"; gzip -c <"$file" | base64 -w 0; echo
done
if command -v ncclras >/dev/null; then echo '== ncclras =='; timeout {EACH} ncclras -v 2>&1; fi"""


class RankStack(NamedTuple):
    """One rank's main thread: its frames as they are printed, the innermost first."""

    name: str
    frames: tuple[str, ...]

    @property
    def place(self) -> tuple[str, ...]:
        """The same without its lines: who polls in a loop is at another one each time."""
        return tuple(re.sub(r":\d+\)$", ")", frame) for frame in self.frames)


def stacks_in(text: str) -> Iterator[RankStack]:
    """Yield the stacks that the script printed."""
    name, frames, main, found = "", list[str](), False, False
    for line in [*text.splitlines(), "== process 0 rank  node  =="]:
        if (head := _HEAD.match(line)) is not None:
            if name and frames:
                yield RankStack(name, tuple(frames))
            node = f" on {head['node']}" if head["node"] else ""
            who = f"rank {head['rank']}" if head["rank"] else f"process {head['pid']}"
            name, frames, main, found = f"{who}{node}", [], False, False
        elif (thread := _THREAD.match(line)) is not None:
            main = thread["name"] == "MainThread" or (not found and thread["name"] is None)
            found = found or main
        elif main and (frame := _FRAME.match(line)) is not None and len(frames) < DEEPEST:
            frames.append(f"{frame['call']} ({frame['file']}:{frame['line'] or '?'})")


def grouped(stacks: Sequence[RankStack]) -> list[list[RankStack]]:
    """Return ranks that stand in the same place together, the small groups first."""
    groups: dict[tuple[str, ...], list[RankStack]] = {}
    for each in stacks:
        groups.setdefault(each.place, []).append(each)
    return sorted(groups.values(), key=len)


def summary(groups: Sequence[Sequence[RankStack]]) -> str:
    """Return it in one line: ``rank 2 on n7 is in read (data.py:40), 3 others in all_reduce``."""
    if not groups:
        return ""
    first, *others = ((each, _where(each[0])) for each in groups)
    told = f"{_names(first[0])} {'is' if len(first[0]) == 1 else 'are'} in {first[1]}"
    rest = [f"{plural(len(group), 'other')} in {where}" for group, where in others]
    return ", ".join([told, *rest])


def _names(group: Sequence[RankStack]) -> str:
    named = ", ".join(each.name for each in group[:_NAMED])
    return named if len(group) <= _NAMED else f"{named} and {len(group) - _NAMED} more"


def _where(stack: RankStack) -> str:
    """Return the collective that a rank has called, else what it does."""
    called = (frame for frame in stack.frames if _COLLECTIVE.match(frame.partition(" ")[0]))
    return next(called, stack.frames[0])


def ranks_text(stacks: str, records: str) -> str:
    """Return where the ranks stand, by the groups of their stacks and by NCCL's records."""
    found = list(stacks_in(stacks))
    ranks = [each for each in found if each.name.startswith("rank ")]
    groups = grouped(ranks or found)  # a launcher only waits for its ranks
    parts = [summary(groups) or "no stack of a rank was had: " + clean(stacks[:300].strip())]
    told = list(recorded(records))
    if told and not stacks:
        parts.append("The job has no process left: these dumps of the last hour may be another's.")
    parts += [f"NCCL: {line}" for line in told]
    for group in groups:
        parts += ["", f"{plural(len(group), 'rank')}: {_names(group)}"]
        parts += [f"    {each}" for each in group[0].frames]
    _, _, ras = records.partition("== ncclras ==\n")
    parts += ["", "ncclras:", *ras.splitlines()[:400]] if ras else []
    lines = safe_lines("\n".join(parts).encode("utf-8", "replace"), limit=20_000)
    return scrub("\n".join(line.plain for line in lines)) + "\n"


class _Plain(pickle.Unpickler):
    """Reads a pickle of plain values: one that names anything to be called is refused."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"names {module}.{name}")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("is not whole")


def recorded(text: str) -> Iterator[str]:
    """Yield what flight recorder dumps tell, ranks that wait for the same together."""
    waits: dict[str, list[str]] = {}
    for found in re.finditer(r"^== dump (?P<file>[^\n]*) ==\n(?P<data>[^\n]*)$", text, re.M):
        rank = re.search(r"(\d+)(?:\.\w+)?$", found["file"])
        who = f"rank {rank[1]}" if rank else found["file"]
        waits.setdefault(_of_dump(found["data"]), []).append(who)
    for wait, ranks in sorted(waits.items(), key=lambda each: len(each[1])):
        more = f" and {len(ranks) - _NAMED} more" if len(ranks) > _NAMED else ""
        yield f"{', '.join(ranks[:_NAMED])}{more}: {wait}"


def _of_dump(data: str) -> str:
    """Return the first collective that a rank has not completed, else the last one."""
    try:
        packed = base64.b64decode(data, validate=True)
        raw = zlib.decompressobj(wbits=31).decompress(packed, DUMP)
        told = json.loads(raw) if raw[:1] == b"{" else _Plain(io.BytesIO(raw)).load()
        entries = [each for each in told["entries"] if isinstance(each, dict)]
    except (ValueError, zlib.error, pickle.UnpicklingError, EOFError, LookupError, TypeError,
            AttributeError, RecursionError, MemoryError) as error:  # fmt: skip
        return f"its dump cannot be read ({clean(error, 100)})"
    if not entries:
        return "no collective was recorded"
    open_ = (each for each in entries if each.get("state") != "completed")
    first = next(open_, None)
    entry = entries[-1] if first is None else first
    what = clean(entry.get("profiling_name", "?"), 100)
    group = entry.get("process_group")
    of = clean(" ".join(map(str, group)), 60) if isinstance(group, list | tuple) else ""
    number = clean(entry.get("collective_seq_id", entry.get("record_id", "?")), 20)
    at = clean(entry.get("state"), 20)
    state = "completed all, the last was" if first is None else f"waits ({at}) in"
    return f"{state} {what} #{number}" + (f" of {of}" if of else "")

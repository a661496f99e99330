"""The words of a submit: what the cockpit adds, and what it does not let pass (SPEC A-2)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cockpit.model.clock import SystemClock
from cockpit.model.plan import Level
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.slurm import command
from cockpit.platforms.slurm.platform import SlurmPlatform
from cockpit.sources.logs.source import Logs

RUN = RunSpec(name="toy", job=JobSpec(kind="slurm"))
SLURM = SlurmPlatform(SystemClock(), Logs(SystemClock()))


def levels(words: Sequence[str]) -> list[Level]:
    return [check.level for check in SLURM.command_checks(RUN, words)]


def test_slurm_gets_its_hold_and_its_comment_behind_sbatch() -> None:
    words = SLURM.formed(("env", "A=1", "/usr/bin/sbatch", "job.sh"), RUN, "toy-i001")
    assert words[2:6] == ("/usr/bin/sbatch", "-H", "--parsable", "--comment=toy-i001")
    assert SLURM.formed(("bash", "job.sh"), RUN, "toy-i001") == ("bash", "job.sh")
    assert SLURM.formed(("./go", "sbatch"), RUN, "toy-i001") == ("./go", "sbatch")


def test_launches_are_compared_without_what_is_added() -> None:
    plain = ("sbatch", "-p", "gpu", "job.sh", "--comment=of-the-script")
    for n in (1, 2):
        assert SLURM.unformed(SLURM.formed(plain, RUN, f"toy-i00{n}")) == plain
    assert SLURM.unformed(("sbatch", "--comment", "x", "--hold", *plain[1:])) == plain
    assert SLURM.unformed(("./go", "--comment=x")) == ("./go", "--comment=x")


@pytest.mark.parametrize(
    "said",
    ["--comment=x", "--comment x", "--com x", "-H", "--hold", "--ho", "-W", "--wait", "-QW",
     "--test-only", "--te", "-M other", "-Mother", "--clusters=other", "-p gpu --hold"],
)  # fmt: skip
def test_words_that_would_undo_the_hold_block(said: str) -> None:
    assert levels(("sbatch", *said.split(), "job.sh")) == [Level.BLOCK]


@pytest.mark.parametrize(
    "said",
    ["-J -H", "--job-name --hold", "-p gpu --wait-all-nodes=1", "--export=ALL", "-N1 -n 8",
     "--exclusive --mail-type end", "-JH"],
)  # fmt: skip
def test_other_words_and_those_of_the_script_pass(said: str) -> None:
    assert levels(("sbatch", *said.split(), "job.sh", "--wait", "-H")) == [Level.PASS]


def test_a_wrapper_is_fenced_and_what_cannot_be_fenced_blocks() -> None:
    for words in (("./submit.sh",), ("bash", "submit.sh"), ("make", "resubmit")):
        assert levels(words) == [Level.WARN]
    for said in ("bash -c x", "ssh login sbatch", "env -i sbatch"):
        assert levels(said.split()) == [Level.BLOCK]


def test_an_environment_goes_the_way_that_the_words_allow() -> None:
    def sent(*words: str) -> tuple[str, ...]:
        return command.with_names(words, ["A", "B"])

    assert sent("sbatch", "job.sh") == ("sbatch", "job.sh")
    assert sent("sbatch", "--export=ALL,C=1", "job.sh") == ("sbatch", "--export=ALL,C=1", "job.sh")
    assert sent("sbatch", "--export=C", "job.sh") == ("sbatch", "--export=C,A,B", "job.sh")
    assert sent("sbatch", "--export", "C", "job.sh") == ("sbatch", "--export", "C,A,B", "job.sh")
    with pytest.raises(CannotError, match="A, B"):
        sent("sbatch", "--export=NONE", "job.sh")
    assert sent("sbatch", "job.sh", "--export=NONE") == ("sbatch", "job.sh", "--export=NONE")


def test_words_for_a_shell_stay_what_they_are() -> None:
    words = ("~/bin/go", "a b$HOME'c", "$(x)", "`x`", "${U}", "")
    assert command.variables_of(words) == ("HOME", "U")
    assert command.for_shell(words) == (
        "\"$HOME\"/bin/go 'a b'\"${HOME}\"''\"'\"'c' '$(x)' '`x`' \"${U}\" ''"
    )


def test_a_launch_id_must_name_a_file() -> None:
    assert SLURM.name_for("llama-3.1-i001") == "llama-3.1-i001"
    for bad in ("a/b-i001", "-H", "a b-i001", ""):
        with pytest.raises(CannotError):
            SLURM.name_for(bad)

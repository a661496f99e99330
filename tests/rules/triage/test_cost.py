"""What a diagnosis costs: no more than in proportion to the lines, whatever they say.

What logs written blind have found: device words, transports, stalls, causes in a list.

What long logs written blind have found: who watches whom, what ends nothing, what moves.

Each match of an expression holds one of its words, whatever the expression.
"""

from __future__ import annotations

import re
import sys
from random import Random
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.rules.triage import log
from cockpit.rules.triage.by_exit import FIRST_END
from cockpit.rules.triage.exceptions import TRAINING_CODE
from cockpit.rules.triage.literals import Needs, WordIndex, alternatives, in_small_letters, without
from cockpit.rules.triage.patterns import COUNTS
from cockpit.rules.triage.phrases import BY_HAND, DATA, DATA_FILE, LONGEST_LINE, STOPPED
from cockpit.rules.triage.rows import all_words, words
from cockpit.text.progress_lines import log_of_lines
from tests.growing import grows_with_its_size
from tests.rules.asking import triage
from tests.rules.triage.test_classify import raised

LINES = 3_000
PLAIN = [f"step {at} loss 2.1" for at in range(LINES)]
HALF = LINES // 2
OOM = "CUDA out of memory. Tried to allocate 2 GiB"


def cost(lines: list[str]) -> float:
    """Return the seconds of CPU that a diagnosis takes."""
    begun = process_time()
    triage(lines, "failed", 1)
    return process_time() - begun


@pytest.mark.parametrize(
    "lines",
    [
        [f"step {at} loss 2.1 grad norm nan" for at in range(LINES)],
        ["node gpu-7 died", "restarted the job"] * HALF,
        [OOM] * HALF + ["restarted the job"] * HALF,
        ["oom_kill process 4711"] * HALF + PLAIN[:5] + ["a line of pid 12"] * HALF,
        ["due to preemption"] * HALF + ["step 5 loss 2.0"] * HALF,
    ],
    ids=["lost numbers", "restarts", "late restarts", "victims", "one mark"],
)
def test_many_lines_of_trouble_cost_what_as_many_plain_ones_do(lines: list[str]) -> None:
    """The best of several in turns: others on the machine slow some of them down, not all."""
    triage(lines[::100], "failed", 1)  # its expressions are compiled once
    both = [(cost(lines), cost(PLAIN)) for _ in range(3)]
    assert min(one for one, _ in both) < 3 * min(plain for _, plain in both)


@pytest.mark.parametrize(
    ("pattern", "piece"),
    [
        (TRAINING_CODE, " "),
        (DATA, "0"),
        (DATA_FILE, "0"),
        (FIRST_END, "run."),
        (COUNTS, "."),
        (BY_HAND, "run removed "),
        (BY_HAND, "a.b"),
        (STOPPED, "stop file "),
    ],
)
def test_a_long_line_costs_in_proportion_to_its_length(
    pattern: re.Pattern[str], piece: str
) -> None:
    def seconds(size: int) -> float:
        line = (piece * size)[:size]
        pattern.search(line)
        begun = process_time()
        for _ in range(5):
            pattern.search(line)
        return process_time() - begun

    short = min(seconds(2_000) for _ in range(3))
    assert min(seconds(16_000) for _ in range(3)) < 24 * short  # the square would be 64 times


WORDS = re.findall(
    r"\w+",
    "error failed nccl timeout killed out of memory preempted cancelled sigterm nan loss xid ecc "
    "node connection reset refused user job stop requested by rank hang barrier disk quota may be "
    "because data shard corrupt kernel cuda device worker dead lost heartbeat exceeded limit time",
)


def different(lines: int, words: int) -> list[str]:
    """Return lines of alarming words in no order, of which no two are alike."""
    chosen = Random(7)
    return [" ".join(chosen.choices(WORDS, k=words)) for _ in range(lines)]


def test_an_expression_is_tried_on_so_much_whatever_a_log_is_full_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    whole = alternatives

    class Counted:
        def __init__(self, pattern: re.Pattern[str]) -> None:
            self._pattern = pattern

        def search(self, line: str) -> re.Match[str] | None:
            tried[-1] += len(line)
            return self._pattern.search(line)

    def counted(pattern: re.Pattern[str]) -> list[tuple[Needs, Counted]]:
        tried.append(0)
        return [(needs, Counted(each)) for needs, each in whole(pattern)][:1]

    monkeypatch.setattr(log, "alternatives", counted)
    triage(different(4_000, 60), "failed", 1)
    assert 0 < max(tried) <= log.TRIED + 2 * LONGEST_LINE


def test_of_too_many_lines_that_may_be_one_the_first_and_the_last_are_looked_at() -> None:
    others = [f"no node failures, {words}" for words in different(3_000, 6)]
    sign = re.compile(r"\bnode failure\b", re.I)
    for at in (0, len(others)):
        lines = [*others[:at], "node failure on gpu-7", *others[at:]]
        present = log_of_lines(lines)
        assert log.Log(present.lines, present.read).matching(sign) == [at]


@pytest.mark.parametrize("said", ["training complete", "received stop command from dashboard"])
def test_a_job_is_not_started_again_before_all_lines_that_may_forbid_it_were_tried(
    said: str,
) -> None:
    chosen, parts = Random(7), said.split()
    others = [
        " ".join(f"{word} {' '.join(chosen.choices(['alpha', 'beta', 'delta', 'green'], k=3))}"
                 for word in chosen.sample(parts, len(parts)))
        for _ in range(4_000)
    ]  # fmt: skip
    lost = ["slurmstepd: error: *** JOB 4711 ON node3 CANCELLED AT 2026-06-16T12:00:11 DUE TO NODE "
            "FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***"]  # fmt: skip
    steps = [f"step {step} loss: 2.1{step}" for step in range(20)]
    assert triage([*steps, *others, *lost], "failed", 1).action == "relaunch"
    assert triage([*steps, *others[:2000], said, *others[2000:], *lost], "failed", 1).action == (
        "escalate"
    )


STEPS = [f"step {n} loss 2.{n}" for n in range(1, 5)]
ON = [f"step {n} loss 2.{n}" for n in range(5, 9)]
VERBS_CALL = "n1:7:9 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate"
LINK = "mlx5_2: port 1 link is down"
XID = "kernel: NVRM: Xid (PCI:0000:1b:00): 95, pid=4, Uncontained"
RAY = (
    "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR. There"
    " are some potential root causes. (1) The process is killed by SIGKILL by OOM killer due to"
    " high memory usage. (2) ray stop --force is called. (3) It crashed due to SIGSEGV."
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("Out of memory error on GPU 2. Cannot allocate 40MB", "oom_device"),
        (
            "RESOURCE_EXHAUSTED: Allocation (size=7) would exceed memory [space=hbm, tag=x]",
            "hbm_exhausted",
        ),
        ("42.batch    OUT_OF_ME+   0:125", "oom_host"),
        ("42.batch    TIMEOUT      0:0", "walltime"),
        ("tensor([[nan, nan, nan],", "numeric_instability"),
        ("zlib.error: Error -3 while decompressing data: incorrect header check", "data_error"),
        ("Run was stopped by user from the dashboard", "user_stopped"),
        ("Tensors wait: waiting for remainder of ranks for more than 60 s", "distributed_hang"),
    ],
)
def test_the_words_of_a_mechanism(line: str, name: str) -> None:
    assert triage([*STEPS, line], "failed", None).name == name


def test_a_devices_own_words_outrank_the_exception_that_it_made_whichever_comes_first() -> None:
    fault = raised("torch.AcceleratorError: CUDA error: unspecified launch failure")
    for lines in ([*fault, XID], [XID, *fault]):
        found = triage([*STEPS, *lines], "failed", 1)
        assert (found.name, found.action) == ("hardware_fault", "relaunch")
    bug = triage([*STEPS, *raised("KeyError: 'warm_up'"), LINK], "failed", 1)
    assert bug.name == "small_code_bug"


def test_a_call_of_the_transport_that_training_outlives_is_noise_a_link_that_is_down_is_not() -> (
    None
):
    assert triage([VERBS_CALL, *STEPS], "running", None).action == "none"
    assert triage([*STEPS, VERBS_CALL], "running", None).action == "escalate"
    assert triage([LINK, *STEPS], "running", None).name == "hardware_fault"


def test_a_collective_that_waits_is_a_hang_until_steps_come_again() -> None:
    waits = "[rank0] Watchdog: collective ALLGATHER has been running for 540000 ms"
    still = triage([*STEPS, waits], "running", None)
    assert (still.name, still.action) == ("distributed_hang", "escalate")
    assert triage([*STEPS, waits, *ON], "running", None).action == "none"


def test_causes_that_are_listed_in_sentences_name_none() -> None:
    found = triage([*STEPS, RAY], "failed", 137)
    assert (found.name, found.action) == ("killed", "relaunch")


@pytest.mark.parametrize(("code", "name"), [(None, "success"), (0, "success"), (1, "unknown")])
def test_a_success_that_its_exit_code_contradicts_is_doubted(code: int | None, name: str) -> None:
    assert triage([], "succeeded", code).name == name


@pytest.mark.parametrize("unit", ["1,", "1/2 [00:00<", "1.", "could not read the ", "a, b or "])
def test_a_line_of_a_quarter_of_a_megabyte_is_judged_at_once(unit: str) -> None:
    size = 120_000 // len(unit)
    assert grows_with_its_size(lambda times: triage([unit * times], "failed", 1), size)


@pytest.mark.parametrize(
    "end",
    [
        ["[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB"],
        raised("ValueError: top_p must be positive"),
    ],
)
def test_one_step_of_another_rank_does_not_prove_that_an_end_was_overcome(end: list[str]) -> None:
    assert triage([*STEPS, *end, "step 5 loss 2.5"], "running", None).action == "escalate"
    assert triage([*STEPS, *end, *ON], "running", None).action == "none"


@pytest.mark.parametrize("line", ["Job 'sub_4' was stopped", "JOB 9 killed: qdel by eve@login"])
def test_a_job_that_somebody_stopped_is_not_relaunched(line: str) -> None:
    assert triage([*STEPS, line], "failed", None).action == "none"


def test_the_name_of_a_policy_preempts_nothing() -> None:
    policy = "0/9 nodes are available: 9 Insufficient memory. not eligible due to preemptionPolicy"
    assert triage([policy], "pending", None).name == "capacity_wait"


BAR = [f"Progress on:train 12.{n}kit/50.0kit rate:0.1it/s postfix:loss=1.9{n}" for n in range(9)]
RL = [f"(Actor pid=7) update {n}/900 policy_loss=0.04{n} reward=0.4" for n in range(1, 9)]
PEER = [
    "[rank2]: torch.distributed.DistBackendError: NCCL error, remote process exited",
    "[rank2]: ncclRemoteError: A call failed, a remote process exiting prematurely.",
    "[rank2]: Last error:",
    "srun: error: n7: task 2: Exited with exit code 1",
]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("workers haven't sent a heartbeat for 900 s (hb_timeout 900), terminating ranks [0..7]",
         "distributed_hang"),
        ("Did not get subsequent heartbeat. Waited 900.00 seconds", "distributed_hang"),
        ("Heartbeat timed out for rank 3, terminating ranks", "distributed_hang"),
        ("worker w-12: heartbeat expired", "node_death"),
        ("heartbeat lost: host w-12 (ranks 8 to 15)", "node_death"),
        ("store->get('0') got error: wait timeout after 600000ms, keys: /0", "distributed_hang"),
        ("spot instance-action notice received", "preempted"),
        ("ClientError: (XMinioStorageFull) when calling PutObject: Storage is full", "disk_full"),
        ("exiting program after 1410.2 minutes", "walltime"),
    ],
)  # fmt: skip
def test_who_says_it_tells_what_it_means(line: str, name: str) -> None:
    assert triage([*STEPS, line], "failed", 1).name == name


@pytest.mark.parametrize(
    "line",
    [
        "spot termination notice period: 120 s",
        "spot notice listener ready",
        "No spot interruption notice received",
        "Spot instances get a two-minute notice",
        "hb_timeout 900",
        "heartbeat monitor: will kill ranks after 900 s",
        "APIError: step 12 took 504 ms",
    ],
)
def test_a_setting_ends_nothing(line: str) -> None:
    assert triage([*STEPS, line], "failed", 1).name == "unknown"


def test_a_status_code_behind_the_message_is_the_networks() -> None:
    ended = raised("gcsfs.retry.HttpError: We met an internal error. Please try again., 503")
    assert triage([*STEPS, *ended], "failed", 1).name == "network_transient"
    ended = raised("gcsfs.retry.HttpError: no such object, 404")
    assert triage([*STEPS, *ended], "failed", 1).name != "network_transient"


def test_what_was_raised_where_nobody_could_catch_it_ended_nothing() -> None:
    ignored = ["Exception ignored in: <function Pool.__del__>", *raised("ValueError: closed")]
    assert triage([*STEPS, *ignored], "failed", 1).name == "unknown"
    assert triage([*STEPS, *raised("ValueError: closed")], "failed", 1).name == "complex_code_bug"
    assert triage([*ignored, *raised("KeyError: 'a'")], "failed", 1).name == "small_code_bug"


def test_what_another_rank_raised_is_not_what_one_has_ignored() -> None:
    died = [f"[rank0]: {line}" for line in raised("KeyError: 'a'")]
    ignored = "[rank1]: Exception ignored in: <function Pool.__del__>"
    assert triage([*STEPS, ignored, *died], "failed", 1).name == "small_code_bug"
    cut = raised("KeyError: 'a'")[1:]
    assert triage([*STEPS, ignored, STEPS[-1], *cut], "failed", 1).name == "small_code_bug"


@pytest.mark.parametrize("line", ["z_loss: 0.0001", "  router_aux_loss: 0.01"])
def test_the_weight_of_a_loss_is_no_training(line: str) -> None:
    assert triage(["starting", line], "failed", None).name == "unknown"


def test_a_loss_of_any_part_shows_that_training_moves() -> None:
    trouble = raised("ValueError: closed")
    assert triage([*trouble, *RL], "running", None).action == "none"
    assert triage([*RL, *trouble], "running", None).action == "escalate"


def test_a_log_that_stops_at_a_bar_of_rounded_steps_was_killed() -> None:
    found = triage(BAR, "failed", None)
    assert (found.name, found.action) == ("killed", "relaunch")


def test_a_peer_that_has_gone_is_no_cause_whatever_its_launcher_says() -> None:
    assert triage([*STEPS, *PEER], "failed", 1).name == "distributed_hang"
    assert triage([*STEPS, *PEER, "ABORT: bad rotor"], "failed", 1).name == "unknown"


def test_a_probe_that_fails_is_no_trouble_of_the_network() -> None:
    probe = "Warning Unhealthy Readiness probe failed: dial tcp: connection refused"
    assert triage([*STEPS, probe, *ON], "running", None).name == "harmless_noise"


def test_what_can_never_start_is_told() -> None:
    asked = "1 (AssocGrpGRES) job can never start under this association"
    assert triage([asked], "pending", None).action == "escalate"
    assert triage(["1 (AssocGrpGRES)"], "pending", None).action == "wait"
    slow = "PENDING: worker never started, pulling its image"
    assert triage([slow], "pending", None).action == "wait"


LETTERS = ["a", "B", "k", "s", "i", "é", "İ", "ß", "_", "5", "{", r"\.", r"\\", r"\x41", r"\u201c"]
PLACES = [".", r"\w", r"\b", "^", "[ab]", "[]a]", r"[^\]|(]", "(?=a|b)", "(?<!xy)", r"\U0001F600"]
MANY = ["", "", "?", "*", "+", "*?", "++", "{0}", "{2}", "{,2}", "{,}", "{1,}", "{2}?"]
OPENS = ["(", "(?:", "(?i:", "(?-i:", "(?>"]


def grown(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    some = st.lists(parts, min_size=1, max_size=3)
    group = st.tuples(st.sampled_from(OPENS), some, st.sampled_from(MANY))
    return some.map("".join) | group.map(lambda made: f"{made[0]}{'|'.join(made[1])}){made[2]}")


ONE = st.tuples(st.sampled_from([*LETTERS, *PLACES]), st.sampled_from(MANY)).map("".join)
EXPRESSIONS = st.lists(st.recursive(ONE, grown, max_leaves=8), min_size=1, max_size=2)


def holds(expression: re.Pattern[str], text: str) -> bool:
    small = in_small_letters(text)
    return any(
        WordIndex([small.encode("utf-8", "surrogatepass")]).holding(needs) and one.search(text)
        for needs, one in alternatives(expression)
    )


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_match_holds_a_word(data: st.DataObject) -> None:
    source = data.draw(EXPRESSIONS.map("|".join))
    try:
        expression = re.compile(source, data.draw(st.sampled_from([0, re.I])))
    except re.error:
        return
    assert holds(expression, data.draw(st.from_regex(expression)))


@pytest.mark.parametrize(
    ("source", "flags", "text"),
    [
        ("xy{,}z", 0, "xz"),
        (r"\N{LATIN SMALL LETTER A}b", 0, "ab"),
        ("(?is)abc", 0, "ABC"),
        ("ab(?#no words)", 0, "ab"),
        ("(?P<quote>')?(?(quote)end|none)", 0, "none"),
        (r"(ab)|(cd)\2", 0, "cdcd"),
        ("ab cd # and no more", re.VERBOSE, "abcd"),
        ("(?x: ab cd )", 0, "abcd"),
        ("disk full", re.I, "DİSK FULL"),
        ("session lost", re.I, "ſeſſion lost"),
    ],
)
def test_what_words_are_not_read_from(source: str, flags: int, text: str) -> None:
    expression = re.compile(source, flags)
    assert expression.search(text) and holds(expression, text)


def test_every_letter_is_looked_for_as_the_expression_compares_it() -> None:
    everything = "".join(map(chr, range(sys.maxunicode + 1)))
    for letter in "abcdefghijklmnopqrstuvwxyz":
        assert set(map(in_small_letters, re.findall(letter, everything, re.I))) == {letter}


SAID = [line for row in all_words().values() for line in row.examples]


def test_what_is_taken_out_is_what_the_expression_would_have_taken_out() -> None:
    doubt = words("doubt")
    lines = [
        *SAID,
        *map("; ".join, zip(SAID, SAID[7:], strict=False)),
        "if the node died, or\t(a, or b)",
    ]
    assert [without(doubt, line) for line in lines] == [doubt.sub(" ", line) for line in lines]
    assert any(without(doubt, line) != line for line in lines)


def test_each_of_several_in_front_has_words_of_its_own() -> None:
    parts = alternatives(re.compile(r"(?:one|two|(?:t|d)hree) more(?:s|es)?|(?:a|b)+ four"))
    assert [each.pattern.pattern for each in parts] == [
        "one more(?:s|es)?",
        "two more(?:s|es)?",
        "three more(?:s|es)?",
        "dhree more(?:s|es)?",
        "(?:a|b)+ four",
    ]

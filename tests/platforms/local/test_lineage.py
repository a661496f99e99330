"""Which processes are jobs of a run: real processes, and paths that only look alike.

Of all processes of a machine only those are held against a run that may have to do with it.

The loops above many jobs of one look: what they have in common is looked at once.

What the name of an argument or a variable says of its value.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple, cast
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cockpit.model.jobs import Live
from cockpit.model.lineage import keys_of, related, tag_of
from cockpit.model.place import place_of
from cockpit.model.run import RunSpec, WandbSpec
from cockpit.platforms.local import family
from cockpit.platforms.local.belonging import Files, belongs, candidate_of, within
from cockpit.platforms.local.census import Census, OpenFile, Process, census, children, descendants
from cockpit.platforms.local.family import Known, starts_again
from cockpit.platforms.local.lineage import Around, Joined, Recorded, name_of
from cockpit.platforms.local.marks import RunMarks, marks_of
from cockpit.platforms.local.programs import (
    Use,
    arguments,
    inner,
    is_cockpit,
    is_tool,
    names_the_tracker_run,
    only_looks,
    use_of,
)
from cockpit.platforms.local.sight import Sight
from cockpit.runtime.process import process_facts
from tests.platforms.local.zoo import PYTHON, WAIT, Zoo, live, pids, run_spec, spared
from tests.waiting import until


def test_nothing_lives_of_a_run_that_nobody_started(tmp_path: Path) -> None:
    assert live(run_spec(tmp_path)) == Live()


def test_by_the_lineage_in_its_environment(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    pid = zoo.add(env={"COCKPIT_LINEAGE": tag_of(run), "COCKPIT_LAUNCH_ID": "a-i004"})
    found = live(run)
    assert pids(found) == [pid]
    assert found.jobs[0].launch_id == "a-i004"
    assert found.jobs[0].handle["ticks"] == str(process_facts(pid).ticks)


def test_by_the_pid_file_and_by_the_start_of_the_process(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    pid = zoo.add()
    pid_file = tmp_path / "runs" / "a" / "run.pid"
    pid_file.write_text(f"{pid}\nstart=1.0\nticks={process_facts(pid).ticks}\n")
    assert pids(live(run)) == [pid]
    pid_file.write_text(f"{pid}\nstart=1.0\nticks=1\n")
    assert pids(live(run)) == []


ARGUMENTS = (
    "--output-dir {root}", "--output-dir={root}/checkpoints", "save_dir={root}", "--wandb-id a-id",
    "wandb.id=a-id", "--run_id=a-id", "-o {root}/", "--saveTo runs/../runs/a",
    "trainer.default_root_dir={root}", "hydra.run.dir={root}", "--job-name a-i007",
)  # fmt: skip
VARIABLES = (
    "WANDB_RUN_ID=a-id", "OUTPUT_DIR={root}", "WANDB_DIR={root}/wandb",
    "WANDB_RUN_ID=a-id WANDB_PROJECT=p",
)  # fmt: skip
OF_OTHERS = (
    "--output-dir {root}b", "--output-dir={root}-eval/x", "{root}/../ab", "--wandb-id a-id-2",
    "a-id", "--note=a-id", "gs:/{root}", "--init-from {root}/checkpoints/step-5", "--load={root}/x",
)  # fmt: skip
VARIABLES_OF_OTHERS = (
    "WANDB_RUN_ID=a-id WANDB_PROJECT=other", "PWD={root}", "X={root}b",
    "COCKPIT_LINEAGE=root:0,wandb:0 OUTPUT_DIR={root}",
)  # fmt: skip


def start_all(
    zoo: Zoo, run: RunSpec, arguments: Sequence[str], variables: Sequence[str]
) -> list[int]:
    """Start a process with each of these arguments, and one with each of these variables."""
    root = str(run.output_root)
    words = [each.replace("{root}", root).split() for each in (*arguments, *variables)]
    given = [zoo.add(*each) for each in words[: len(arguments)]]
    told = [dict(word.split("=", 1) for word in each) for each in words[len(arguments) :]]
    return sorted([*given, *(zoo.add(env=each) for each in told)])


def test_by_its_arguments_and_its_environment(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    started = start_all(zoo, run, ARGUMENTS, VARIABLES)
    assert sorted(pids(live(run))) == started


def test_not_by_what_looks_alike_or_is_only_read_or_another_s(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    start_all(zoo, run, OF_OTHERS, VARIABLES_OF_OTHERS)
    assert pids(live(run)) == []


def test_neighbours_with_the_same_beginning_are_spared_by_name(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path, "grug-moe")
    sibling = run_spec(tmp_path, "grug-moe-eval")
    by_path = zoo.add("--output", str(sibling.output_root))
    env = {"COCKPIT_LINEAGE": tag_of(sibling), "COCKPIT_RUN": sibling.name}
    by_name = zoo.add(env={**env, "COCKPIT_LAUNCH_ID": "grug-moe-eval-i001"})
    reader = zoo.add("--load-from", f"{run.output_root}/checkpoints")
    job = zoo.add("--output", str(run.output_root))
    found = live(run)
    assert pids(found) == [job]
    assert sorted(spared(found)) == sorted([by_path, by_name, reader])
    assert pids(live(sibling)) == sorted([by_path, by_name], key=lambda pid: pid)


def test_a_tool_that_names_the_path_is_no_job(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    root = Path(str(run.output_root))
    (root / "run.log").write_text("step 1\n")
    zoo.run("tail", "-f", str(root / "run.log"))
    zoo.run("sh", "-i", cwd=root, quiet=True, env={"WANDB_RUN_ID": "a-id"})
    zoo.run("grep", "a-id", "-", str(root), quiet=True)
    zoo.run("tee", str(root / "copy"), quiet=True)
    assert live(run).jobs == ()


def test_a_shell_that_runs_the_job_is_the_job(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    script = tmp_path / "train.sh"
    script.write_text(f'{" ".join(PYTHON)} -c "{WAIT}" --out "$1"\n:\n')
    pid = zoo.run("sh", str(script), str(run.output_root))
    assert pids(live(run)) == [pid]


def test_a_monitor_of_ours_is_no_job() -> None:
    assert is_cockpit(["/usr/bin/python3", "-m", "cockpit", "watch", "a"])
    assert is_cockpit(["/usr/bin/python3.11", "/venv/bin/cockpit", "open"])
    assert is_cockpit(["/venv/bin/cockpit", "watch"])
    assert not is_cockpit(["python", "-m", "cockpit.demo.trainer", "--config", "x"])
    assert not is_cockpit(["python", "train.py", "--out", "cockpit"])


@pytest.mark.parametrize(
    "command",
    ["vim a", "-bash", "bash", "bash -i", "tail -f x", "/usr/bin/less x", "tmux: server",
     "python /v/bin/tensorboard --logdir x", "/v/bin/wandb sync x", "rsync -a x y",
     "python3 -X dev /v/bin/tensorboard --logdir x", "python -W ignore -u /usr/bin/aim up --repo x",
     "python3 /v/bin/uvicorn aim.web.run:app", "python /v/bin/gunicorn -b :1 mlflow.server:app",
     "python3 /v/bin/mlflow ui --backend-store-uri x", "python -m zipfile -c a x", "hf upload a x",
     "du -sh x", "python3 /v/bin/jupyter-lab --notebook-dir=x", "restic backup x"],
)  # fmt: skip
def test_tools(command: str) -> None:
    assert is_tool(command.split())


@pytest.mark.parametrize(
    "command",
    ["python train.py", "bash train.sh", "torchrun --nproc 8 train.py", "./train", "uv run x",
     "python -m train", "python -c pass", "java -jar x", "python -X dev train.py",
     "uvicorn train:app", "python -u -W ignore train.py --tool tensorboard"],
)  # fmt: skip
def test_no_tools(command: str) -> None:
    assert not is_tool(command.split())


CLIENTS = (
    "bin/iris --controller-url x job run --no-wait --job-name a-i001 -- train --output-dir {root}",
    "bin/ray job submit --no-wait --submission-id a-i001 -- train --output-dir {root}",
    "bin/sbatch --wait --job-name a-i001 --comment a-i001 job.sh --output {root}",
)


def _named(folder: Path, words: str) -> Path:
    """Return a script of the client's name that says that it is up, and waits."""
    script = folder / words.split()[0]
    script.parent.mkdir(exist_ok=True)
    script.write_text(WAIT)
    return script


def test_a_client_that_submits_elsewhere_is_spared_by_the_launch_it_names(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    started = []
    for words in CLIENTS:
        rest = words.replace("{root}", str(run.output_root)).split()[1:]
        command = (*PYTHON, str(_named(tmp_path, words)), *rest)
        started.append(zoo.run(*command, env={"WANDB_RUN_ID": "a-id"}))
    found = live(run)
    assert (found.jobs, found.possible, sorted(spared(found))) == ((), (), sorted(started))
    assert {each.why for each in found.spared} == {"submits a-i001 to another system"}


def test_a_script_that_submits_a_launch_for_the_cockpit_is_no_local_job(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    ours = {"COCKPIT_LINEAGE": tag_of(run), "COCKPIT_LAUNCH_ID": "a-i001"}
    pid = zoo.add("--name", "a-i001", env={**ours, "COCKPIT_SUBMITS": "a-i001"})
    assert (pids(live(run)), spared(live(run))) == ([], [pid])


def test_a_client_that_is_the_job_or_writes_for_the_run_still_is_one(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    words = CLIENTS[1].replace("{root}", "x").split()[1:]
    client = [*PYTHON, str(_named(tmp_path, CLIENTS[1])), *words]
    launched = zoo.run(*client, env={"COCKPIT_LINEAGE": tag_of(run)})
    writes = f"f = open({str(Path(str(run.output_root)) / 'step-5.pt')!r}, 'ab')\n" + WAIT
    _named(tmp_path, CLIENTS[1]).write_text(writes)
    writer = zoo.run(*client)
    assert sorted(pids(live(run))) == sorted([launched, writer])


def test_a_program_with_a_clients_words_is_no_client(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    train = str(_named(tmp_path, "bin/iris.py"))
    pid = zoo.run(*PYTHON, train, "job", "run", "--job-name", "a-i001")
    assert pids(live(run)) == [pid]


def test_by_a_fragment_that_is_open_for_writing(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path)
    fragment = tmp_path / "runs" / "a" / "wandb" / "offline-run-1-a-id" / "run-a-id.wandb"
    fragment.parent.mkdir(parents=True)
    env = {"THE_FILE": "wandb/offline-run-1-a-id/run-a-id.wandb"}
    code = "import os; f = open('runs/a/' + os.environ['THE_FILE'], 'ab')\n" + WAIT
    pid = zoo.add(code=code, env=env)
    found = live(run)
    assert pids(found) == [pid] and "run-a-id.wandb open for writing" in found.jobs[0].why
    reader = "import os; f = open('runs/a/' + os.environ['THE_FILE'], 'rb')\n" + WAIT
    zoo.add(code=reader, env=env)
    assert pids(live(run)) == [pid]


def test_a_root_that_leads_to_a_name_which_is_no_text(tmp_path: Path, zoo: Zoo) -> None:
    """A folder may be called anything: its jobs are found, and nothing breaks at its name."""
    run = run_spec(tmp_path)
    root = Path(str(run.output_root))
    root.rename(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.symlink_to(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    pid = zoo.add(code=f"f = open({str(root / 'x.pt')!r}, 'ab')\n" + WAIT)
    found = live(run)
    assert pids(found) == [pid] and "open for writing" in found.jobs[0].why


def test_the_service_that_writes_belongs_to_the_trainer_above_it(tmp_path: Path, zoo: Zoo) -> None:
    """The tracker's service has a session of its own; stopping it alone would stop nothing."""
    run = run_spec(tmp_path)
    service = f"f = open('runs/a/run-a-id.wandb', 'ab')\n{WAIT}"
    code = (
        "import subprocess, sys, time\n"
        f"c = subprocess.Popen([sys.executable, '-S', '-c', {service!r}],"
        " start_new_session=True, stdout=subprocess.PIPE)\n"
        "c.stdout.readline(); print('up', flush=True)\n"
        "try: time.sleep(60)\nfinally: c.kill()"
    )
    pid = zoo.add(code=code)
    try:
        assert pids(live(run)) == [pid]
    finally:
        for child in descendants(census(), [pid]):
            os.kill(child, signal.SIGKILL)


def test_descendants_are_part_of_a_job_and_leftovers_of_one_launch_are_one(
    tmp_path: Path, zoo: Zoo
) -> None:
    run = run_spec(tmp_path)
    env = {"COCKPIT_LINEAGE": tag_of(run), "COCKPIT_LAUNCH_ID": "a-i001"}
    code = "import os\nif os.fork() == 0: os.setsid()\n" + WAIT
    pid = zoo.add(code=code, env=env)
    stray = zoo.add(env=env)
    try:
        until(lambda: len(descendants(census(), [pid])) == 1)
        assert pids(live(run)) == [pid]
        other = zoo.add(env={**env, "COCKPIT_LAUNCH_ID": "a-i002"})
        assert sorted(pids(live(run))) == sorted([pid, other])
    finally:
        for child in descendants(census(), [pid]):
            os.kill(child, signal.SIGKILL)
    assert stray not in pids(live(run))


def test_a_diagnostic_job_is_spared(tmp_path: Path, zoo: Zoo) -> None:
    run = run_spec(tmp_path, diagnostic=("*probe-*",))
    pid = zoo.add("--out", str(run.output_root), "--name", "probe-7")
    found = live(run)
    assert (pids(found), spared(found)) == ([], [pid])


def test_a_pid_file_that_cannot_be_believed_is_said(tmp_path: Path) -> None:
    run = run_spec(tmp_path)
    (tmp_path / "runs" / "a" / "run.pid").write_text("soon\n")
    assert "expected a process id" in (live(run).unknown or "")


def test_names_are_safe_scrubbed_and_short() -> None:
    name = name_of(
        ("python", "\x1b[31mx\n", "--api-key=sk-abcdefghijklmnopqrstuvwx1234", "y" * 500)
    )
    assert "\x1b" not in name and "\n" not in name and len(name) <= 121
    assert "abcdefghijklmnop" not in name


part = st.text(st.characters(categories=("L", "N"), include_characters=".-_ "), min_size=1).filter(
    lambda text: text not in (".", "..")
)


@given(st.lists(part, min_size=1, max_size=4), st.lists(part, max_size=3), part)
def test_paths_are_compared_part_by_part(root: list[str], rest: list[str], more: str) -> None:
    folder = "/" + "/".join(root)
    assert within(folder, "/".join([folder, *rest]), None)
    assert within(folder, "/".join([root[-1], *rest]), "/" + "/".join(root[:-1]))
    assert not within(folder, folder + more, None)
    assert not within(folder + "/" + more, folder, None)


def test_flags_and_their_values() -> None:
    argv = ["train.py", "a", "--x", "1", "--y=2", "z=3", "--flag", "--w", "4", "b"]
    assert list(arguments(argv)) == [
        ("", "a"), ("x", "1"), ("y", "2"), ("z", "3"), ("w", "4"), ("", "b"),
    ]  # fmt: skip


def test_lineages_are_related_by_root_or_by_tracker(tmp_path: Path) -> None:
    run, other = run_spec(tmp_path, "a"), run_spec(tmp_path, "b")
    assert not related(tag_of(run), tag_of(other)) and related(tag_of(run), tag_of(run))
    shared = other.model_copy(update={"output_root": place_of(f"{run.output_root}/")})
    assert related(tag_of(run), tag_of(shared))
    same = other.model_copy(update={"wandb": run.wandb})
    assert related(tag_of(run), tag_of(same))
    assert not related("", "") and tag_of(RunSpec(name="x")) == ""


def test_a_tracker_run_known_by_its_address_is_the_same() -> None:
    url = WandbSpec(url="https://wandb.ai/e/p/runs/i")
    plain = WandbSpec(entity="e", project="p", id="i")
    assert keys_of(RunSpec(name="x", wandb=url)) == keys_of(RunSpec(name="y", wandb=plain))


@given(
    st.lists(st.text("ab\n", max_size=6), max_size=8),
    st.lists(st.text("ab\n", min_size=1, max_size=3), max_size=4),
)
def test_of_texts_that_are_searched_as_one_each_that_holds_a_word_is_found(
    texts: list[str], words: list[str]
) -> None:
    found = set(Joined(texts, "\n").holding(words))
    holding = {at for at, text in enumerate(texts) if any(word in text for word in words)}
    assert holding <= found <= set(range(len(texts)))
    if not any("\n" in word for word in words):
        assert found == holding


UID = 1000
NOWHERE = Path("/nowhere")


def run_named(name: str) -> RunSpec:
    wandb = WandbSpec(entity="e", project="p", id=f"{name}-id")
    return RunSpec(name=name, output_root=place_of(f"/data/runs/{name}"), wandb=wandb)


def marks(run: RunSpec, _recorded: object = None) -> RunMarks:
    return marks_of(run, UID, lambda place: (place.path,))


def around(processes: Sequence[Process], files: Files) -> Around:
    sight = cast(Sight, SimpleNamespace(files=files, marks=marks))
    return Around([candidate_of(each) for each in processes], sight)


def process(pid: int, argv: Sequence[str], cwd: str = "/", **variables: str | None) -> Process:
    given = {name: value for name, value in variables.items() if value is not None}
    env = b"".join(f"{name}={value}\0".encode() for name, value in given.items())
    return Process(pid, 1, pid, pid, UID, "S", 5, tuple(argv), env, cwd)


RUNS = [run_named(name) for name in ("a", "ab", "b", "a-1")]
LOCKS = [
    "/tmp/x.lock",
    "/data/runs/ab/.cockpit/job.lock",
    *(f"/l/{x}" for x in marks(RUNS[0]).locks),
]
PATHS = ["/data/runs/a", "/data/runs/abc", "/data/runs", "runs/a", "/", "x", "../b"]
WORDS = ["--out", "--wandb-id=a-id", "a-id-2", "b-id", "train.py", "tail", "sbatch"]
TAGS = [None, "", "root:0", *map(tag_of, RUNS), *tag_of(RUNS[0]).split(",")]


PLAIN = st.just(["train.py"])


class Shape(NamedTuple):
    argv: list[str]
    cwd: str
    tag: str | None
    run: str | None
    submits: str | None
    wandb_id: str | None
    files: list[OpenFile]


SHAPES = st.builds(
    Shape,
    argv=PLAIN | st.lists(st.sampled_from([*PATHS, *WORDS]), min_size=1, max_size=4),
    cwd=st.just("/") | st.sampled_from(PATHS),
    tag=st.none() | st.sampled_from(TAGS),
    run=st.sampled_from([None, "", "a", "ab", "abc", "b", "a-1", "c"]),
    submits=st.sampled_from([None, "a-i001"]),
    wandb_id=st.sampled_from([None, "a-id", "b-id-2"]),
    files=st.lists(
        st.builds(
            OpenFile,
            st.sampled_from([*LOCKS, "/data/runs/a/log", "/data/runs/b/x", "/var/log/x"]),
            st.booleans(), st.booleans(), st.booleans(),
        ),
        max_size=2,
    ),
)  # fmt: skip


@settings(max_examples=300 if os.environ.get("SOAK") else 60)
@given(st.lists(SHAPES, max_size=6))
def test_nobody_is_left_out_who_has_to_do_with_a_run(shapes: list[Shape]) -> None:
    files = Files(NOWHERE, UID, {pid: tuple(each.files) for pid, each in enumerate(shapes, 100)})
    processes = [
        process(
            pid, each.argv, each.cwd, COCKPIT_LINEAGE=each.tag, COCKPIT_RUN=each.run,
            COCKPIT_SUBMITS=each.submits, WANDB_RUN_ID=each.wandb_id,
        )
        for pid, each in enumerate(shapes, 100)
    ]  # fmt: skip
    found = around(processes, files)
    for run in RUNS:
        meant = found.of(run, Recorded())
        others = [each for each in found.all if each not in meant]
        assert [belongs(marks(run), each, files) for each in others] == [None] * len(others)
        assert meant == [each for each in found.all if each in meant]


def test_of_a_fleet_that_was_launched_each_run_is_held_against_its_own_processes() -> None:
    """Beside whoever holds a lock of any name: it may be anybody's."""
    runs = [run_named(f"run-{number:03}") for number in range(60)]
    processes = [
        process(
            10 * number + worker, ["python", "train.py", "--out", str(run.output_root)],
            COCKPIT_LINEAGE=tag_of(run), COCKPIT_RUN=run.name,
        )
        for number, run in enumerate(runs, 100)
        for worker in range(3)
    ]  # fmt: skip
    held = tuple(() if each.pid % 10 else (OpenFile("/x/y", True, True),) for each in processes)
    seen = {each.pid: files for each, files in zip(processes, held, strict=True)}
    locker = process(7, ["jupyter"])
    files = Files(NOWHERE, UID, {**seen, 7: (OpenFile("/home/j.db", True, True, locked=True),)})
    found = around([locker, *processes], files)
    for number, run in enumerate(runs, 100):
        meant = [each.process.pid for each in found.of(run, Recorded())]
        assert meant == [7, 10 * number, 10 * number + 1, 10 * number + 2]


LOOP = ("sh", "-c", "while true; do launch.sh all; sleep 9; done")
AGAIN_PLAIN = ("sh", "-c", "launch.sh all")
JOBS = (12, 13, 14)


def processes(above: tuple[str, ...]) -> Census:
    """Three jobs of one script, below another shell."""
    argvs = {10: above, 11: ("sh", "launch.sh"), **{pid: ("train", str(pid)) for pid in JOBS}}
    return {
        pid: Process(
            pid=pid, ppid=11 if pid in JOBS else pid - 1, pgid=pid, sid=10, uid=0, state="S",
            ticks=pid, argv=argv, env=b"", cwd="/",
        )
        for pid, argv in argvs.items()
    }  # fmt: skip


@pytest.mark.parametrize(("above", "loops"), [(LOOP, 1), (AGAIN_PLAIN, 0)])
def test_jobs_beside_one_another_have_the_same_found_above_them(
    monkeypatch: pytest.MonkeyPatch, above: tuple[str, ...], loops: int
) -> None:
    around = processes(above)
    started, known = children(around), Known()
    alone = [starts_again(around, pid, started, here=False) for pid in JOBS]
    assert [len(each) for each in alone] == [loops] * len(JOBS)
    asked = Mock(wraps=family._loops)
    monkeypatch.setattr(family, "_loops", asked)
    assert alone == [starts_again(around, pid, started, here=False, known=known) for pid in JOBS]
    shells = [call.args[0].pid for call in asked.call_args_list]
    assert shells.count(10) == 1 and shells.count(11) == len(JOBS)


USES = {
    Use.WRITES: (
        "output_dir output-root OUTPUT_DIR out o save save_dir saveDir SAVE_TO"
        " trainer.default_root_dir hydra.run.dir results_dir WANDB_DIR checkpoint_out"
        " model.output_path export-dir"
    ),
    Use.READS: (
        "init_from load resume resume_from_checkpoint checkpoint ckpt config data input teacher"
        " eval_data logfile weights restore-path source"
    ),
    Use.EITHER: " dir root run_dir work_dir path eval_output",
}


@pytest.mark.parametrize("use", USES)
def test_what_a_value_is_used_for_is_told_by_its_name(use: Use) -> None:
    names = USES[use].split(" ")
    assert {name: use_of(name) for name in names} == dict.fromkeys(names, use)


def test_ids_of_the_tracker() -> None:
    told = {
        "wandb_id": True, "wandb.id": True, "run_id": True, "WANDB_RUN_ID": True, "id": None,
        "name": None, "note": False, "": False,
    }  # fmt: skip
    assert {name: names_the_tracker_run(name) for name in told} == told


def test_programs_that_only_look() -> None:
    told = {
        "plot.py": True, "eval_last.sh": True, "sample.py": True, "train.py": False,
        "train_and_eval.py": False, "main.py": False, "explot.py": False, "run_sync.sh": False,
    }  # fmt: skip
    assert {program: only_looks(program) for program in told} == told


def test_wrappers_are_what_they_run() -> None:
    told = {
        "timeout 60 tail -f x": True, "nice -n 5 less x": True, "env A=1 python -m wandb x": True,
        "uv run tensorboard --logdir x": True, "python -m tensorboard.main --logdir x": True,
        "wandb-core leet x": True, "wandb-core --port-filename x": False,
        "timeout 60 python train.py": False, "torchrun --nproc 8 train.py": False,
    }  # fmt: skip
    assert {command: is_tool(command.split()) for command in told} == told
    assert inner(["timeout", "-k", "5", "1h", "nice", "a", "b"]) == ["a", "b"]


def test_code_is_no_argument() -> None:
    argv = ["python", "-S", "-c", "out=open('x'); y = 1", "--out=z", "a b = c"]
    assert list(arguments(argv)) == [("out", "z"), ("", "a b = c")]

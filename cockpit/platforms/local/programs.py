"""What a command line says of a process: what it runs, and what it does with the paths it names.

A tool, an editor or a cockpit is never a job, whatever path it names; a wrapper is part of the job
that it runs. ``--output_dir=ROOT`` names an output, ``--checkpoint ROOT/step-100`` an input; of
``--dir ROOT`` nobody can tell (SPEC J, "Which jobs belong to a run"). Pure.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from cockpit.platforms.local.census import Process
from cockpit.runtime.ssh import ASKING

_WORDS = re.compile(r"[^a-z0-9]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OUTPUT: Final = frozenset(
    """
    out output outputs outdir outpath outputdir outputpath outputroot save saves saving savedir
    savepath saveto dest destination result results resultdir resultsdir write writes writeto
    artifact artifacts export exports o
    """.split()  # noqa: SIM905 - a list of words
)
_OUTPUT_NAMES: Final = ("default_root_dir", "hydra_run_dir", "wandb_dir", "tensorboard_output_dir")
_INPUT: Final = frozenset(
    """
    init initialize initialise load loads loader from source src pretrain pretrained teacher eval
    evaluate compare baseline resume restore read reads input inputs in data dataset datasets train
    valid validation test config cfg conf checkpoint ckpt checkpoints weights model tokenizer vocab
    log logfile file prompt reference ref
    """.split()  # noqa: SIM905 - a list of words
)
_PLACES: Final = frozenset(("dir", "root", "path", "folder", "dirs", "logdir", "rundir", "workdir"))
_TRACKER_ID = re.compile(r"wandb\w*id$|(?:^|_)run_id$|^trainer_id$|^wandb_(?:run|name)$")
_MAYBE_ID = re.compile(r"(?:^|_)(?:id|name|run)$")
_LAUNCH = re.compile(r"launch|job_?name|job_?id|submission|run_?name|run_?id")
_KEY = re.compile(r"[-+]*[\w./:@-]+")
_CODE: Final = ("c", "lc", "ic", "e")
_LOOKS: Final = frozenset(
    """
    plot plots plotting eval evals evaluate evaluation sample sampling generate generation infer
    inference predict demo view viewer serve server dashboard inspect inspector compare convert
    watch monitor monitoring tail report summarize summarise summary analyze analyse analysis
    visualize visualise viz show dump list browse download upload sync backup mirror copy chat
    mon du tree check checker push pull clean cleanup prune verify validate stat stats size count
    merge quantize average benchmark bench profile test export
    """.split()  # noqa: SIM905 - a list of words
)
_TRAINS: Final = frozenset(
    "train trainer training pretrain pretraining finetune tune sft rlhf dpo fit main run".split()  # noqa: SIM905
)


class Use(Enum):
    """What a value is used for, as far as its name tells."""

    WRITES = "writes"
    READS = "reads"
    EITHER = "either"


def use_of(name: str) -> Use:
    """Return what the value of an argument or variable of this name is used for."""
    words = _words(name)
    plain = "_".join(words)
    if plain.endswith(_OUTPUT_NAMES):
        return Use.WRITES
    if _OUTPUT & set(words):
        # ``save_from`` and ``eval_output``: the output of something else than the training.
        return Use.EITHER if {"from", "eval", "init", "load", "resume"} & set(words) else Use.WRITES
    if _INPUT & set(words) and not (_PLACES & set(words) and "checkpoints" in words):
        return Use.READS
    return Use.EITHER


def names_a_place(name: str) -> bool:
    """Tell whether a variable's name says that its value is a folder."""
    return not _PLACES.isdisjoint(_words(name))


def names_the_tracker_run(name: str) -> bool | None:
    """Tell whether a name is that of the W&B run's id; ``None`` where it could be another one."""
    plain = "_".join(_words(name))
    if _TRACKER_ID.search(plain):
        return True
    return None if _MAYBE_ID.search(plain) else False


def names_a_launch(name: str) -> bool:
    """Tell whether a name is that of a launch id."""
    return _LAUNCH.search("_".join(_words(name))) is not None


def within(root: str, value: str) -> bool:
    """Tell whether a path or address is ``root`` or lies below it, compared part by part."""
    if "://" in root or "://" in value:
        return value.rstrip("/") == root or value.startswith(root + "/")
    if not value.startswith("/"):
        return False
    return below(root, posixpath.normpath(value))


def below(root: str | None, path: str) -> bool:
    """Tell whether a whole path is ``root`` or lies below it, compared part by part."""
    return root is not None and (path == root or path.startswith(root.rstrip("/") + "/"))


def only_looks(program: str) -> bool:
    """Tell whether a program's name says that it looks at a run: ``plot.py``, ``eval_last.sh``."""
    words = set(_words(posixpath.splitext(posixpath.basename(program))[0]))
    return not words.isdisjoint(_LOOKS) and words.isdisjoint(_TRAINS)


def told_to_look(argv: Sequence[str]) -> bool:
    """Tell whether a tool of many commands is told one that looks: ``llamafactory-cli export``.

    A script of one's own may call anything so.
    """
    name = program(argv)
    at = next((at for at, word in enumerate(argv) if posixpath.basename(word) == name), 0)
    told = next(iter(argv[at + 1 :]), "")
    return "." not in name and not trains_by_name(name) and told in _COMMANDS


_COMMANDS: Final = frozenset(
    """
    api bench benchmark chat convert eval evaluate export generate infer inference merge predict
    serve webchat
    """.split()  # noqa: SIM905 - many names
)


_EVALUATES: Final = frozenset(
    """
    bench benchmark demo eval evals evaluate evaluation export generate infer inference play predict
    prediction sample sampling serve test testing val validate validation visualize
    """.split()  # noqa: SIM905 - a list of words
)
_MODES: Final = frozenset("action command job mode phase run_mode run_type stage task".split())  # noqa: SIM905
_ONLY: Final = frozenset(
    """
    do_eval do_predict do_test eval eval_only evaluate evaluate_only inference inference_only
    only_eval only_test play predict predict_only test_only validate_only
    """.split()  # noqa: SIM905 - a list of words
)
"""Flags by which a script that trains does something else instead."""
_WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_ON: Final = ("", "1", "true", "yes", "on")


def told_to_evaluate(argv: Sequence[str]) -> bool:
    """Tell whether a script is told not to train: ``--mode=eval``, ``main.py test``.

    A mode that trains besides (``train_and_eval``, ``--do_train``) counts for nothing.
    """
    name, flags = program(argv) if argv else "", {}
    words = list(argv)
    at = next((at for at, word in enumerate(words) if posixpath.basename(word) == name), 0) + 1
    for word, after in zip(words[at:], (*words[at + 1 :], ""), strict=False):
        key, sign, value = word.partition("=")
        if word.startswith("-") or sign:
            flags["_".join(_words(key))] = value if sign or after.startswith("-") else after
    told = [value for key, value in flags.items() if key in _MODES]
    told += words[at : at + 1]
    told = [word for word in told if _WORD.fullmatch(word)]  # a path is no mode
    if flags.get("do_train", "0").lower() in _ON or any(_trains(word) for word in told):
        return False
    alone = any(key in _ONLY and value.lower() in _ON for key, value in flags.items())
    return alone or any(not _EVALUATES.isdisjoint(_words(word)) for word in told)


def _trains(mode: str) -> bool:
    return not (_TRAINS - {"main", "run"}).isdisjoint(_words(mode))


_LOADS: Final = _EVALUATES | frozenset(
    """
    average backup chat compare convert copy download evaluator merge mirror publish push quantize
    server sync upload viewer
    """.split()  # noqa: SIM905 - a list of words
)
COPIERS: Final = frozenset(
    """
    7z 7za 7zr aws azcopy borg cp dcp dsync duplicati duplicity dvc gcloud gsutil hf huggingface-cli
    kopia lftp lsyncd mv rclone restic rsync s3cmd s4cmd s5cmd scp sftp syncthing tar unison zip
    """.split()  # noqa: SIM905 - many names
)
"""Tools that carry away what lies in a folder that they are told."""


def may_load(argv: Sequence[str]) -> bool:
    """Tell whether a program that is told a folder may read any of the saves in it.

    An evaluation, a conversion, an upload or a copy: not who shows logs or curves.
    """
    words = inner(argv)
    if not words or is_tool(argv):
        return bool(words) and program(words) in COPIERS
    name = program(words)
    looks = only_looks(name) and not _LOADS.isdisjoint(_words(name))
    return looks or told_to_look(words) or told_to_evaluate(words)


def names_a_training(program: str) -> bool:
    """Tell whether a program's name says that it trains: ``train_gpt``, ``finetune.sh``."""
    words = set(_words(posixpath.splitext(posixpath.basename(program))[0]))
    return not words.isdisjoint(_TRAINS - {"main", "run"})


def trains_by_name(program: str) -> bool:
    """Tell whether a program's name says that it trains: ``train.py``, ``pkg.finetune``."""
    name = posixpath.basename(program).removesuffix(".py").removesuffix(".sh")
    return not set(_words(name)).isdisjoint(_TRAINS)


def _words(name: str) -> list[str]:
    return [word for word in _WORDS.split(_CAMEL.sub("_", name).lower()) if word]


def arguments(argv: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Yield (key, value) of ``--key value``, ``--key=value`` and ``key=value``; else ("", value).

    The program itself is left out, and so is code that an interpreter is given (``-c``).
    """
    key, words = "", argv[1:]
    if "-m" in words[:4]:  # a module is no path: ``python -m ipykernel_launcher``
        at = list(words).index("-m")
        words = [*words[:at], *words[at + 2 :]]
    for part in words:
        name, sign, value = part.partition("=")
        if key in _CODE:
            key = ""
        elif sign and _KEY.fullmatch(name):
            yield name.lstrip("-+"), value
            key = ""
        elif part.startswith("-"):
            key = part.lstrip("-")
        else:
            yield key, part
            key = ""


SUPERVISES: Final = "COCKPIT_SUPERVISES"
SUBMITS: Final = "COCKPIT_SUBMITS"
"""In the environment of a client that submits elsewhere, and never in a job's: the launch id."""
_CLIENTS: Final = frozenset(
    "sbatch qsub bsub condor_submit oarsub kubectl sky modal xpk runai beaker".split()  # noqa: SIM905
)
_SUBCOMMANDS: Final = {"ray": ("submit",), "iris": ("run", "submit")}
"""Clients that do other things besides: after ``job``, these words submit one."""
SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "tcsh", "csh"})
TOOLS: Final = frozenset(
    """
    tail head cat less more most view vi vim nvim vimdiff nano emacs emacsclient micro helix hx code
    grep egrep fgrep rg ag ack sed awk gawk find fd ls tree du df wc sort diff cmp stat file watch
    top htop btop nvtop tee cp mv rm rsync scp sftp ssh sshd sshfs rclone gsutil gcloud aws s5cmd
    tar gzip pigz zstd zip unzip split sha256sum md5sum inotifywait lsof fuser strace gdb py-spy
    perf ps pgrep pkill kill sleep git gh tmux screen zellij mosh-server login su sudo systemd init
    cron crond dockerd containerd containerd-shim containerd-shim-runc-v2 slurmd slurmstepd jupyter
    jupyter-lab jupyter-notebook ipython tensorboard multitail lnav jq xargs bat ncdu nvitop gpustat
    glances tig column cut tr uniq nl od xxd hexdump ts pv dd rename chmod chown touch code-server
    gedit kate mc ranger nnn aim mlflow http.server pdb inotifywatch iotop ltrace tailspin
    trackio streamlit syncthing borg restic dvc huggingface-cli hf zipfile tarfile 7z 7za 7zr unison
    true false lftp azcopy duplicity curl wget ncftp pigz lz4 xz bzip2 pbzip2
    gvim mvim vimx nvim-qt neovide joe jed jmacs ne mcedit kak vis amp subl sublime_text zed zeditor
    cursor codium vscodium windsurf pycharm idea atom lapce geany mousepad gnome-text-editor
    jupyter_server jupyter-server jupyterhub jupyter-labhub claude codex aider gemini opencode goose
    amp-cli crush copilot cody continue cline plandex openhands
    gdu dust dua eza exa lsd broot yazi lf vifm clamscan clamdscan freshclam updatedb plocate
    mlocate locate parallel sqlite3 duckdb mbuffer fluent-bit fluentd vector promtail filebeat
    rotatelogs logrotate multilog svlogd cronolog entr fswatch watchman socat h5dump h5ls duf fdupes
    rdfind jdupes hexyl delta rga dcp dsync s3cmd s4cmd minio lsyncd duplicati kopia
    """.split()  # noqa: SIM905 - many names
)
"""Programs that look, edit, measure, copy or serve: they hold files of a run, and train nothing."""
FOLLOWERS: Final = frozenset(
    """
    tail less more most lnav multitail tspin tailspin cat watch journalctl top htop btop nvtop
    nvitop gpustat glances nvidia-smi vim view vi nano
    """.split()  # noqa: SIM905 - many names
)
"""Programs that show what others write: a session that holds only these holds no job."""
REPEATERS: Final = frozenset(
    """
    xargs parallel watch entr find fswatch watchman watchexec nodemon supervisord circusd runsv
    s6-supervise supervise pm2 god immortal containerd-shim containerd-shim-runc-v2 conmon pueued
    tsp
    """.split()  # noqa: SIM905 - many names
)
"""Programs that start the next command, or the same one again, when one of theirs has ended."""
_SERVERS: Final = ("uvicorn", "gunicorn", "waitress-serve")
WRAPPERS: Final = frozenset(
    """
    timeout nice nohup setsid stdbuf unbuffer time env ionice chrt taskset numactl caffeinate uv uvx
    poetry pdm hatch pixi conda mamba micromamba rye pipenv pipx torchrun accelerate deepspeed
    mpirun mpiexec srun flock systemd-run doas chroot unshare firejail catchsegv xvfb-run make just
    ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 ld-linux.so.2 ld-musl-x86_64.so.1
    ld-musl-aarch64.so.1
    """.split()  # noqa: SIM905 - many names
)
"""Programs that run a command and wait for it: part of the command's job, not one of their own."""
CONTAINERS: Final = frozenset(
    "docker podman nerdctl singularity apptainer enroot shifter ch-run sarus".split()  # noqa: SIM905
)
"""Programs that run a command in a container, behind options with values of their own."""
SHIMS: Final = frozenset("containerd-shim containerd-shim-runc-v2 conmon".split())  # noqa: SIM905
"""What has started a container's first process, whoever asked for it."""
CARRIERS: Final = frozenset(
    """
    pdb ipdb pudb bdb debugpy ipython ipython3 IPython cProfile profile trace runpy coverage
    kernprof line_profiler memory_profiler mprof memray scalene viztracer pyinstrument fil-profile
    ddtrace-run
    """.split()  # noqa: SIM905 - many names
)
"""Debuggers, profilers and shells of Python that run a script in their own process."""
HELPERS: Final = frozenset(
    (
        *("wandb-core", "wandb-symon", "wandb-xpu", "wandb-service", "torch_shm_manager"),
        *("gpu_stats", "nvidia_gpu_stats", "apple_gpu_stats"),
    )
)
"""Programs that a trainer starts to serve it: they train nothing, and go when it has gone."""
_TRACKS_RESOURCES = re.compile(
    r"from multiprocessing\.resource_tracker import|.*\.resource_tracker$"
)
_SERVES: Final = ("pid", "parent-pid")
_RUNS = frozenset(("run", "launch", "exec", "tool"))
_SETTING = re.compile(r"[\d.,:-]+[smhd]?|[A-Za-z_]\w*=.*", re.DOTALL)
MODULE_FLAG = re.compile(r"-[a-zA-Z]*m")
_INTERPRETERS: Final = frozenset(("julia", "Rscript", "R", "lua", "luajit", "perl", "ruby"))
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:-\w+)?")


MOST_KNOWN: Final = 2048
"""Commands that are kept as known: the same ones run at each look."""


def is_tool(argv: Sequence[str]) -> bool:
    """Tell whether a command only looks or carries; a shell counts unless it runs a script."""
    return _is_tool(tuple(argv))


@lru_cache(maxsize=MOST_KNOWN)
def _is_tool(argv: tuple[str, ...]) -> bool:
    words = list(argv)
    if not words:
        return True
    words = inner(words)
    name = program(words)
    if name in SHELLS or name.lstrip("-") in SHELLS:
        # A login shell, or one that was given no script and no command.
        return words[0].startswith("-") or all(part.startswith("-") for part in words[1:])
    if name == "wandb" or (name == "wandb-core" and "leet" in words):
        return True
    if name in _SERVERS:  # "aim up" and "mlflow ui" let one of these serve them
        return any(":" in word and word.partition(".")[0] in TOOLS for word in words)
    names = {name, name.rstrip(":")}
    if not _is_a_persons_own(words, name):
        names.add(name.partition(".")[0])
    return not names.isdisjoint(TOOLS)


def _is_a_persons_own(words: Sequence[str], name: str) -> bool:
    """Tell whether a name is a person's choice: a script ``diff.py``, a module ``diff.train``."""
    if not is_interpreter(words):
        return False
    return name.endswith(".py") or (
        _module(words) == name and names_a_training(name.rpartition(".")[2])
    )


def starts_the_next(argv: Sequence[str]) -> bool:
    """Tell whether a command starts another one when what it has started has ended."""
    words = inner(argv)
    if not words:
        return False
    name = program(words)
    if name in _SCRIPTED:
        scripts = (posixpath.basename(each) for each in words[1:] if not each.startswith("-"))
        name = next(scripts, name)
    titled = words[0].partition(" ")[0].lower()  # PM2 v5.3.0: God Daemon (/root/.pm2)
    known = not REPEATERS.isdisjoint((name, titled))
    return known or (name == "wandb" and not _AGENTS.isdisjoint(words))


_AGENTS: Final = frozenset(("agent", "launch-agent"))
_SCRIPTED: Final = frozenset(("perl", "ruby", "node"))
"""What GNU parallel, god and nodemon are written in: the first word of theirs is the script."""


def submits_elsewhere(process: Process) -> bool:
    """Tell whether a process hands a job to another system.

    What its arguments and its environment name is that job's, and none of its own: it writes
    nothing of a run itself, and ends when the other system has taken the job.
    """
    return process.variable(SUBMITS) is not None or submits(inner(process.argv))


def submits(words: Sequence[str]) -> bool:
    """Tell whether a command is a client that submits a job to another system."""
    if not words:
        return False
    name = program(words)
    if name in _CLIENTS:
        return True
    submits = _SUBCOMMANDS.get(name.partition(".")[0] if "-m" in words else name)
    return submits is not None and any(
        first == "job" and then in submits for first, then in pairwise(words)
    )


def is_helper(argv: Sequence[str]) -> bool:
    """Tell whether a command only serves a trainer, such as a tracker's client."""
    words = list(argv)
    if not words:
        return False
    told = words[words.index("-c") + 1 :][:1] if "-c" in words else [program(words)]
    return posixpath.basename(words[0]) in HELPERS or any(map(_TRACKS_RESOURCES.match, told))


def serves(argv: Sequence[str]) -> int | None:
    """Return the process that a helper says that it serves."""
    told = (value for name, value in arguments(argv) if name in _SERVES)
    return next(
        (int(pid) for pid in told if pid.isdecimal() and len(pid) < 10 and int(pid) > 1), None
    )


def inner(argv: Sequence[str]) -> list[str]:
    """Return the command that wrappers run: of ``timeout 60 nice tail -f x`` that of ``tail``."""
    words = list(argv)
    while len(words) > 1:
        if is_wrapper(words):
            rest = wrapped(words)
        elif _carries(words):
            rest = _carried(words)
        else:
            rest = contained(words)
        if not rest:
            break
        words = rest
    return words


def contained(argv: Sequence[str]) -> list[str]:
    """Return the command that a client has a container run, as far as its words tell it."""
    if not argv or posixpath.basename(argv[0]) not in CONTAINERS:
        return []
    for before, (at, word) in zip(argv, enumerate(argv[1:], 1), strict=False):
        runs = is_interpreter([word]) or is_shell([word]) or is_wrapper([word])
        if (runs or word.endswith((".py", ".sh"))) and before != "--entrypoint":
            return list(argv[at:])
    return []


def _carries(words: Sequence[str]) -> bool:
    return is_interpreter(words) and program(words).partition(".")[0] in CARRIERS


def _carried(words: Sequence[str]) -> list[str]:
    """Return the script or the module that a debugger runs, as its interpreter would alone."""
    name = program(words)
    at = next(at for at, word in enumerate(words) if posixpath.basename(word) == name)
    for here, word in enumerate(words[at + 1 :], at + 1):
        if word.endswith(".py") or (word == "-m" and here + 1 < len(words)):
            return [words[0], *words[here:]]
    return []


def wrapped(words: Sequence[str]) -> list[str]:
    """Return what a wrapper runs, as far as its own options can be told from that."""
    rest = list(words[1:])
    while rest and (_is_setting(rest[0]) or rest[0] in _RUNS):
        rest = rest[1:]
    return rest


def is_wrapper(argv: Sequence[str]) -> bool:
    """Tell whether a command only runs another one and waits for it."""
    return bool(argv) and posixpath.basename(argv[0]) in WRAPPERS


def _is_setting(word: str) -> bool:
    """Tell whether a word belongs to a wrapper: an option, a number, a duration, ``NAME=value``."""
    return word.startswith("-") or _SETTING.fullmatch(word) is not None


_OURS: Final = ("cockpit", "run_cockpit.py")
_INSTALLED: Final = "/run_cockpit/__init__.py"
"""How the file ends that starts one of our modules where the cockpit is installed."""
_TRAINER: Final = "cockpit.demo.trainer"
_PACKAGED: Final = frozenset(
    "uv uvx pipx poetry pdm hatch rye pixi conda mamba micromamba pipenv".split()  # noqa: SIM905
)
"""Programs that run another one out of an environment, after options with values of their own."""


def is_cockpit(argv: Sequence[str]) -> bool:
    """Tell whether a command is the cockpit itself, whatever started it; a demo's trainer is not.

    By its program or module, or by the word that every shell carries which it starts to ask.
    """
    return _is_cockpit(tuple(argv))


@lru_cache(maxsize=MOST_KNOWN)
def _is_cockpit(argv: tuple[str, ...]) -> bool:
    if is_shell(argv) and ASKING in argv:
        return True
    # Of an environment's launcher only a cockpit or an interpreter counts.
    words = list(argv)
    while len(words) > 1 and is_wrapper(words):
        words = _packaged(words) if posixpath.basename(words[0]) in _PACKAGED else wrapped(words)
    if not words:
        return False
    if is_interpreter(words):
        module = _module(words)
        if module is not None:
            package = module.partition(".")[0]
            return package in ("cockpit", "run_cockpit") and not module.startswith(_TRAINER)
    ours = program(words) in _OURS or any(word.endswith(_INSTALLED) for word in words[:6])
    return ours and not any(word.startswith(_TRAINER) for word in words)


def _packaged(words: Sequence[str]) -> list[str]:
    for at, word in enumerate(words[1:], 1):
        if posixpath.basename(word) in _OURS or is_interpreter([word]):
            return list(words[at:])
        if word.endswith((".py", ".sh")):
            break
    return []


def _module(words: Sequence[str]) -> str | None:
    """Return the module that an interpreter is told to run: ``-m x``, ``-Im x``."""
    for at, word in enumerate(words[1:], 1):
        if MODULE_FLAG.fullmatch(word):
            return next(iter(words[at + 1 : at + 2]), None)
        if not word.startswith("-"):
            return None
    return None


def is_interpreter(argv: Sequence[str]) -> bool:
    """Tell whether a command is an interpreter that runs a script, a module or code."""
    name = posixpath.basename(argv[0]) if argv else ""
    return _PYTHON.fullmatch(name) is not None or name in _INTERPRETERS


SUPERVISORS: Final = (
    "/cockpit/hosts/supervisor.py",
    "/cockpit/platforms/local/launcher/supervisor.py",  # former ones: who runs outlives an upgrade
    "/cockpit/launch/supervisor.py",
)
"""How the program of a supervisor ends."""


def is_supervisor(process: Process) -> bool:
    """Tell whether a process is the one that stays with a job, by its environment or its file."""
    if process.variable(SUPERVISES) is not None:
        return True
    return any(part.endswith(SUPERVISORS) for part in process.argv[:5])


def program(argv: Sequence[str]) -> str:
    """Return the name of what runs: of an interpreter, that of its script or module."""
    name = posixpath.basename(argv[0])
    if _PYTHON.fullmatch(name):
        rest = list(argv[1:])
        while rest and rest[0].startswith("-") and rest[0] not in ("-m", "-c"):
            rest = rest[2 if rest[0] in ("-X", "-W") else 1 :]
        if rest[:1] == ["-m"] and len(rest) > 1:
            return rest[1]
        if rest and rest[0] not in ("-m", "-c"):  # "-c" behind the script is the script's own
            return posixpath.basename(rest[0])
    return name


def is_shell(argv: Sequence[str]) -> bool:
    """Tell whether a command is a shell, which hands no signal on to what it waits for."""
    return bool(argv) and posixpath.basename(argv[0]).lstrip("-") in SHELLS

"""The object that a launch creates: from a file or a command, held, and marked as the run's."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from cockpit.hosts.supervisor import LAUNCH_ID, LINEAGE, RUN, expand
from cockpit.model import check_rows as rows
from cockpit.model.jobs import Submission
from cockpit.model.lineage import tag_of
from cockpit.model.plan import Check
from cockpit.model.run import JobSpec, RunSpec
from cockpit.platforms.base import CannotError
from cockpit.platforms.kubernetes import objects
from cockpit.platforms.kubernetes.objects import ObjectKind, kind_of, labels_of, part, put
from cockpit.platforms.ray.answers import entrypoint_of
from cockpit.runtime.mounts import open_regular
from cockpit.runtime.offload import offload
from cockpit.runtime.shell import run_command
from cockpit.text.checks import blocked, finding, passed
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

KUBECTL: Final = "kubectl"
GENERATED: Final = "-"
BIGGEST: Final = 1_000_000
READ_WITHIN: Final = 5.0
MADE_WITHIN: Final = 60.0
"""Seconds for a command that prints a manifest."""
_FILE: Final = ("-f", "--filename")
_SCOPE: Final = {"-n": "namespace", "--namespace": "namespace", "--context": "context"}
_VARIABLE: Final = re.compile(r"(?<!\$)\$(?:(\w+)|\{(\w+)\})")
"""``$NAME`` and ``${NAME}``: Kubernetes itself fills in ``$(NAME)`` only."""
ONLY_CREATE: Final = (
    "only `kubectl create -f FILE` (or `… | kubectl create -f -`) can be held until the cockpit "
    "lets it go and be refused a second time; with job.manifest, resubmit is the trainer's command"
)


class Recipe(NamedTuple):
    """Where the object comes from: a file, or the words of a command that prints it."""

    file: str = ""
    maker: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    """The words that take the place of the trainer's command; none: the object's own."""


def recipe_of(words: Sequence[str], job: JobSpec | None) -> Recipe:
    """Return what recorded words mean; raises ``CannotError`` where they could not be held."""
    at = next((n for n, word in enumerate(words) if PurePosixPath(word).name == KUBECTL), None)
    if at is None or (at and words[at - 1] != "|"):
        if job is None or job.manifest is None or at is not None:
            raise CannotError(ONLY_CREATE)
        if not job.manifest.here:
            raise CannotError(f"job.manifest {job.manifest} is read on this machine only")
        return Recipe(job.manifest.path, command=tuple(words))
    maker = tuple(words[: max(0, at - 1)])
    file = _created_file(words[at + 1 :], job)
    if (file == GENERATED) != bool(maker):
        raise CannotError(f"{ONLY_CREATE}: `-f -` reads what a command before a | prints")
    return Recipe(maker=maker) if maker else Recipe(file)


def _created_file(words: Sequence[str], job: JobSpec | None) -> str:
    """Return the file of a `kubectl create`; every option but those that say where is refused."""
    if words[:1] != ["create"] and tuple(words[:1]) != ("create",):
        raise CannotError(f"kubectl {' '.join(words[:1])}: {ONLY_CREATE}")
    file, rest = "", [word for each in words[1:] for word in _apart(each)]
    while rest:
        option, value = rest.pop(0), rest.pop(0) if rest else ""
        scope = _SCOPE.get(option)
        if option in _FILE and not file:
            file = value
        elif scope is None or value != (job and getattr(job, scope)):
            told = f"set job.{scope} in the run file" if scope else ONLY_CREATE
            raise CannotError(f"kubectl create {option} {value}: {told}")
    if not file:
        raise CannotError(f"kubectl create names no file: {ONLY_CREATE}")
    return file


def _apart(word: str) -> list[str]:
    if word.startswith("--") and "=" in word:
        return list(word.partition("=")[::2])
    short = word[:2] in ("-f", "-n") and len(word) > 2
    return [word[:2], word[2:].removeprefix("=")] if short else [word]


def command_checks(run: RunSpec, words: Sequence[str]) -> list[Check]:
    """Return what speaks for and against the recorded words (placeholders unfilled)."""
    try:
        recipe = recipe_of(words, run.job)
        found = [] if recipe.maker else list(_of_object(_read(recipe.file, run), run, recipe))
    except CannotError as error:
        return [blocked(rows.KUBERNETES_OBJECT, str(error))]
    text = f"what `{shown(shlex.join(recipe.maker), 200)}` prints is looked at when it is launched"
    return found or [passed(rows.KUBERNETES_OBJECT, text)]


def _of_object(document: dict[str, Any], run: RunSpec, recipe: Recipe) -> Iterator[Check]:
    row = _held_kind(document, run)
    _with_command(row, document, recipe.command, run)
    yield passed(rows.KUBERNETES_OBJECT, f"a {row.kind}, created suspended under the launch id")
    spec = document["spec"]
    ttl = part(spec, "ttlSecondsAfterFinished")
    if isinstance(ttl, int) and ttl < KEPT_FOR:
        text = f"it is deleted {ttl} s after its end: how it ended may never be seen here"
        yield finding(rows.KUBERNETES_TTL, text)
    again = [path for path in _AGAIN if part(spec, path) not in (None, 0, "Never")]
    if row.kind == "Job" and part(spec, "backoffLimit") is None:
        again.append("backoffLimit (6 where it is not set)")
    if again and part(spec, "podReplacementPolicy") != "Failed":
        text = f"{', '.join(again)} lets the cluster start the trainer again by itself, perhaps "
        text += "while the former one still saves: set backoffLimit: 0, or podReplacementPolicy: "
        yield finding(rows.KUBERNETES_AGAIN, f"{text}Failed")


KEPT_FOR: Final = 600
"""Seconds for which an ended object must be there: cockpits that sleep look every few minutes."""
_AGAIN: Final = (
    *("backoffLimit", "failurePolicy.maxRestarts", "runPolicy.backoffLimit"),
    "template.spec.restartPolicy",
)
"""Paths below ``spec`` that let a controller start a trainer again."""


async def load(run: RunSpec, submission: Submission) -> tuple[ObjectKind, dict[str, Any]]:
    """Return the object of a launch, marked and not yet held; raises ``CannotError``."""
    recipe = recipe_of(submission.command, run.job)
    if recipe.maker:
        document = _parsed(await _printed(recipe.maker, submission), "what the command prints")
    else:
        try:
            document = await offload(_read, recipe.file, run, deadline=READ_WITHIN)
        except TimeoutError:
            raise CannotError(f"{recipe.file} was not read in {READ_WITHIN:g} s") from None
    row = _held_kind(document, run)
    _with_command(row, document, recipe.command, run)
    _mark(row, document, run, submission)
    return row, document


async def _printed(words: Sequence[str], submission: Submission) -> bytes:
    own = {LAUNCH_ID: submission.launch_id, **submission.env}
    try:
        filled = expand(words, {**os.environ, **own})
    except KeyError as error:
        raise CannotError(f"the command uses ${error.args[0]}, which is not set") from error
    done = await run_command(
        filled, deadline=MADE_WITHIN, cwd=submission.workdir, env=own, cap=BIGGEST
    )
    if done.rc or done.timed_out:
        said = shown(done.err.decode("utf-8", "replace").strip()[-300:])
        how = f"ended with {done.rc}" if not done.timed_out else f"took over {MADE_WITHIN:g} s"
        raise CannotError(f"{shown(words[0], 100)} {how}, and printed no manifest: {said}")
    return done.out


def _read(file: str, run: RunSpec) -> dict[str, Any]:
    folder = run.workdir.path if run.workdir is not None and run.workdir.here else ""
    path = str(Path(folder) / Path(file).expanduser())
    try:
        with open_regular(path) as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as data:
            return _parsed(data.read(BIGGEST), path)
    except OSError as error:
        raise CannotError(f"{clean(path, 300)}: {error.strerror}") from None


def _parsed(data: bytes, what: str) -> dict[str, Any]:
    yaml: Any = importlib.import_module("yaml")
    try:
        found = [each for each in yaml.safe_load_all(data) if each is not None]
        document = json.loads(json.dumps(found[0])) if len(found) == 1 else None
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        text = clean(str(error).partition("\n")[0], 200)
        raise CannotError(f"{clean(what, 300)} is neither YAML nor JSON: {text}") from None
    if not isinstance(document, dict) or not isinstance(document.get("spec"), dict):
        text = f"{clean(what, 300)} holds {len(found)} objects: a launch creates exactly one"
        raise CannotError(f"{text}, a job; create what else it needs before")
    return document


def _held_kind(document: Mapping[str, Any], run: RunSpec) -> ObjectKind:
    """Return the row of what can be held; raises ``CannotError`` that says why it cannot."""
    row, kind = kind_of(document), clean(document.get("kind"), 60)
    if row is None:
        kinds = ", ".join(each.kind for each in objects.KINDS.values())
        raise CannotError(f"a {kind} cannot be created suspended: a launch takes a {kinds}")
    meta = document.get("metadata") or {}
    mine = None if run.job is None else run.job.namespace
    if meta.get("namespace") not in (None, mine):
        text = f"its namespace {clean(meta['namespace'], 80)} is not that of the run"
        raise CannotError(f"{text}: set job.namespace")
    if meta.get("ownerReferences"):
        raise CannotError(f"this {kind} belongs to another object, which would make it again")
    for path, value in row.demands:
        if part(document["spec"], path) != value:
            wanted = f"{path}: {json.dumps(value)}" if value is not None else f"no {path}"
            raise CannotError(f"a {kind} can be held only with {wanted} in its spec")
    return row


def _with_command(
    row: ObjectKind, document: dict[str, Any], words: Sequence[str], run: RunSpec
) -> None:
    """Put the trainer's command where the object has it; raises ``CannotError``."""
    if not words:
        return
    if row.kind == "RayJob":
        put(document["spec"], row.command, entrypoint_of(words))
        return
    filled = [_VARIABLE.sub(lambda match: f"$({match[1] or match[2]})", word) for word in words]
    if row.command:
        put(document["spec"], row.command, filled)
        put(document["spec"], row.command.replace("command", "args"), None)
        return
    wanted, done = run.job and run.job.container, False
    for template in objects.pod_templates(document["spec"]):
        every = template["spec"]["containers"]
        own = [each for each in every if each.get("name") == wanted or len(every) == 1]
        if not own and wanted is None:
            names = ", ".join(clean(each.get("name"), 40) for each in every)
            raise CannotError(f"which of {names} trains? name it as job.container")
        for each in own:
            each["command"], done = filled, True
            each.pop("args", None)
    if not done:
        raise CannotError(f"no pod of the manifest has a container {clean(wanted, 80)}")


def _mark(row: ObjectKind, document: dict[str, Any], run: RunSpec, submission: Submission) -> None:
    """Name it by the launch id, and write on it and its pods whose it is."""
    tag, launch_id = tag_of(run), submission.launch_id
    labels = labels_of(run, launch_id)
    meta = document.setdefault("metadata", {})
    for key in ("generateName", "uid", "resourceVersion", "creationTimestamp", "managedFields"):
        meta.pop(key, None)
    document.pop("status", None)
    meta["name"] = objects.name_of(launch_id)
    meta["labels"] = {**(meta.get("labels") or {}), **labels}
    notes = {**(meta.get("annotations") or {}), objects.LAUNCH_LABEL: launch_id}
    meta["annotations"] = {**notes, **({objects.LINEAGE: tag} if tag else {})}
    env = {**submission.env, LAUNCH_ID: launch_id, RUN: run.name, **({LINEAGE: tag} if tag else {})}
    for template in objects.pod_templates(document["spec"]):
        own = template.setdefault("metadata", {})
        own["labels"] = {**(own.get("labels") or {}), **labels}
        grace = math.ceil(run.job.grace) if run.job is not None else None
        template["spec"].setdefault("terminationGracePeriodSeconds", grace)
        for container in template["spec"]["containers"]:
            container["env"] = _with_env(container.get("env"), env)
    if row.env:
        put(document["spec"], row.env, _with_env(part(document["spec"], row.env), env))


def _with_env(listed: object, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return a container's variables with ours before them: others may refer to ours."""
    others = listed if isinstance(listed, list) else []
    own = [{"name": name, "value": value} for name, value in env.items()]
    return [*own, *(each for each in others if each.get("name") not in env)]

"""A-6: what was listed goes, nothing else, and never half of one that looks whole."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cockpit.actions.core.action import RefuseError
from cockpit.actions.retention.retain import Retain
from cockpit.model.plan import Outcome
from cockpit.model.run import CheckpointSpec, CockpitFile, RecordsSpec, RunSpec
from tests.actions.resting import Rest, blocks
from tests.machines import Machine
from tests.machines import machine as machine
from tests.sources.checkpoints.trees import NOW, levanter, put

LOGBOOK = """# Toy: Hero Run Logbook
## Launched Instances
### 2026-03-11 08:55 UTC - toy-i002
- Command: `train --seed 100`
- `initialize_from`: /elsewhere/step-100
## Event Log
### 2026-03-12 08:55 UTC - check
- Status: step 200 is complete
"""


def world(folder: Path, keep: int = 2, kind: type[Rest] = Rest, **more: Any) -> Rest:
    roots = (str(folder / "out" / "checkpoints"), str(folder / "out" / "checkpoints-temp"))
    spec = CheckpointSpec(path=roots, keep=keep, save_every=900.0)
    made = kind(folder, Retain(), checkpoints=spec, final_step=None, **more)
    made.save(100, 200, 300, 400, 500)
    return made


async def test_the_list_says_what_goes_what_stays_and_why(tmp_path: Path) -> None:
    rest = world(tmp_path)
    levanter(rest.root, 350, marker=None)
    plan = await rest.plan()
    assert plan.words == "delete 4 from toy"
    why = {target.step: target.why for target in plan.targets}
    assert sorted(why, key=str) == [100, 200, 300, 350]
    assert why[350].startswith("torn")
    kept = {target.step: target.why for target in plan.keeps}
    assert sorted(kept, key=str) == [400, 500]
    assert "newest complete" in kept[500] and "the trainer would load it" in kept[500]
    freed = next(check.text for check in plan.checks if check.id == "candidates")
    assert "frees" in freed and "kB" in freed


async def test_what_was_listed_is_deleted_and_nothing_that_appeared_since(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    rest.save(50)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.DONE, result.message
    assert rest.names() == {"step-50", "step-400", "step-500"}
    (entry,) = rest.book.entries
    assert "3 checkpoints deleted" in entry.status
    assert "step-100" in entry.evidence


async def test_the_words_hold_the_count(tmp_path: Path) -> None:
    rest = world(tmp_path)
    assert (await rest.act("delete 2 from toy")).outcome is Outcome.REFUSED
    assert len(rest.names()) == 5


async def test_a_listed_one_that_became_protected_stops_it(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    assert rest.spec.checkpoints is not None
    changed = rest.spec.checkpoints.model_copy(update={"protect": (200,)})
    rest.spec = rest.spec.model_copy(update={"checkpoints": changed})
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert "protected" in result.message
    assert len(rest.names()) == 5


async def test_a_listed_one_that_is_another_now_stops_it(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    shutil.rmtree(rest.root / "step-200")
    levanter(rest.root, 200, at=1_770_000_100.0)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert len(rest.names()) == 5


async def test_launch_checkpoints_and_sources_stay(tmp_path: Path) -> None:
    rest = world(tmp_path, keep=1)
    rest.logbook.write_text(LOGBOOK)
    plan = await rest.plan()
    assert [target.step for target in plan.targets] == [200, 300, 400]
    kept = {target.step: target.why for target in plan.keeps}
    assert "source" in kept[100]


async def test_a_logbook_that_cannot_be_read_blocks(tmp_path: Path) -> None:
    rest = world(tmp_path)
    rest.logbook.mkdir()
    assert "recovery sources are unknown" in blocks(await rest.plan())["logbook"]


async def test_unknown_checkpoints_and_remote_roots_block(tmp_path: Path) -> None:
    rest = world(tmp_path, records=RecordsSpec())
    rest.spec = rest.spec.model_copy(
        update={"checkpoints": CheckpointSpec(path=("gs://bucket/toy",))}
    )
    plan = await rest.plan()
    assert plan.blocked and not plan.targets
    shutil.rmtree(rest.root)
    rest.spec = rest.spec.model_copy(update={"checkpoints": CheckpointSpec(path=(str(rest.root),))})
    assert "checkpoint" in blocks(await rest.plan())


async def test_nothing_to_delete_is_said(tmp_path: Path) -> None:
    plan = await world(tmp_path, keep=10).plan()
    assert "nothing to delete" in blocks(plan)["candidates"]
    assert plan.words == "delete 0 from toy"


async def test_keep_is_a_number(tmp_path: Path) -> None:
    rest = world(tmp_path)
    assert len((await rest.plan(keep="4")).targets) == 1
    with pytest.raises(RefuseError, match="how many"):
        await rest.plan(keep="all")


async def test_a_link_is_left_alone(tmp_path: Path) -> None:
    rest = world(tmp_path)
    treasure = levanter(tmp_path / "elsewhere", 90, at=NOW - 7200 + 90)
    (rest.root / "step-90").symlink_to(treasure)
    plan = await rest.plan()
    assert 90 not in [target.step for target in plan.targets]
    assert "link" in next(kept.why for kept in plan.keeps if kept.step == 90)
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert (treasure / "metadata.json").exists()


async def test_links_inside_are_not_followed(tmp_path: Path) -> None:
    rest = world(tmp_path)
    treasure = put(tmp_path / "elsewhere" / "file", b"treasure")
    (rest.root / "step-100" / "d" / "link").symlink_to(treasure.parent)
    plan = await rest.plan()
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert treasure.read_bytes() == b"treasure"
    assert not (rest.root / "step-100").exists()


async def test_what_was_put_into_a_save_later_keeps_it(tmp_path: Path) -> None:
    """A fine-tune writes below the save that it begins from; a person leaves notes there."""
    rest = world(tmp_path)
    levanter(rest.root / "step-100" / "sft", 5, at=NOW)
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy"
    why = {target.step: target.why for target in plan.keeps}
    assert "holds sft, which was written after it was saved" in why[100]
    put(rest.root / "step-200" / "d" / "notes.md", b"mine", NOW)
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.REFUSED
    assert "no longer a candidate" in result.message and "holds d/notes.md" in result.message
    plan = await rest.plan()
    assert (await rest.act(plan.words)).outcome is Outcome.DONE
    assert rest.names() == {"step-100", "step-200", "step-400", "step-500"}


async def test_a_save_in_which_a_disk_is_mounted_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = world(tmp_path)
    mounted = str(rest.root / "step-100" / "d")
    monkeypatch.setattr("cockpit.hosts.saves.mount_points", lambda: ["/", mounted])
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy"
    why = {target.step: target.why for target in plan.keeps}
    assert f"has {mounted} mounted in it" in why[100]


class Beside(Rest):
    """Another run of the run file, which has to do with this one's saves."""

    other: RunSpec

    @property
    def file(self) -> CockpitFile:
        found = super().file
        return found.model_copy(update={"runs": (*found.runs, self.other)})


def beside(machine: Machine, folder: Path, settings: dict[str, Any]) -> Beside:
    """Return a run whose saves lie on a machine, and another one with these settings."""
    rest = world(folder, kind=Beside)
    assert isinstance(rest, Beside) and rest.spec.checkpoints is not None
    links, linked = folder / "links", folder / "linked"
    links.mkdir()
    (links / "base").symlink_to(rest.root / "step-100")
    linked.symlink_to(rest.root)
    root = machine.at(rest.root)
    spec = rest.spec.checkpoints.model_copy(update={"path": (root,)})
    rest.spec = rest.spec.model_copy(update={"checkpoints": spec})
    text = json.dumps({"name": "sft", "workdir": str(machine.at(folder)), **settings})
    places = {"root": root, "path": rest.root, "links": machine.at(links), "linked": linked}
    for name, place in places.items():
        text = text.replace(f"{{{name}}}", str(place))
    rest.other = RunSpec.model_validate_json(text)
    return rest


async def test_links_of_another_run_that_may_not_be_read_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, listed = beside(Machine(None), tmp_path, {"output_root": "{links}"}), os.scandir

    def refused(path: str) -> Any:
        if str(path) == str(tmp_path / "links"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", refused)
    plan = await rest.plan()
    assert any("what links lead to the saves" in text for text in blocks(plan).values())


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"checkpoints": {"initialize_from": "{root}/step-100"}}, "initialize_from of sft"),
        ({"resubmit": "train --init=out/checkpoints/step-100/"}, "the command of sft names it"),
        ({"launch": ["train", "{path}/step-100/d/0c0ffee0"]}, "the command of sft names it"),
        ({"launch": ["train", "step-100"], "workdir": "{root}"}, "the command of sft names it"),
        ({"resubmit": "train --init {linked}/step-100"}, "the command of sft names it"),
        ({"output_root": "{root}/step-100/sft"}, "sft has its own files in it"),
        ({"output_root": "{links}"}, "a link of sft leads to it"),
        ({"output_root": "{links}/.."}, "a link of sft leads to it"),
        ({"resubmit": "bash -c 'train --init {path}/step-100'"}, "the command of sft names it"),
        ({"resubmit": "train --from={path}/step-100:9"}, "the command of sft names it"),
        (
            {"resubmit": "train --mix {path}/step-600,{path}/step-100"},
            "the command of sft names it",
        ),
        ({"launch": ["train", "{'init': '{path}/step-100'}"]}, "the command of sft names it"),
        ({"resubmit": "train --init {path}/step-1*"}, "the command of sft names it"),
        ({"launch": ["train", "{path}/lr=1/../step-100"]}, "the command of sft names it"),
        ({"resubmit": "train --init $BASE/step-100/d"}, "the command of sft may name it"),
    ],
)
async def test_what_another_run_of_the_run_file_needs_stays(
    machine: Machine, tmp_path: Path, settings: dict[str, Any], why: str
) -> None:
    rest = beside(machine, tmp_path, settings)
    plan = await rest.plan()
    assert plan.words == "delete 2 from toy"
    assert why in {target.step: target.why for target in plan.keeps}[100]


async def test_a_path_in_the_home_of_a_command_is_no_folder_below_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = {"resubmit": "train --init ~/out/checkpoints/step-100"}
    plan = await beside(Machine(None), tmp_path, settings).plan()
    assert plan.words == "delete 2 from toy"


class Killed(BaseException):
    """The process dies here."""


async def test_killed_in_the_middle_a_second_one_finishes(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    done: list[str] = []

    def die(point: str) -> None:
        done.append(point)
        if point == "delete:did":
            raise Killed

    with pytest.raises(Killed):
        await rest.another(at=die).act(rest.request(), plan.words)
    half = rest.root / "step-300.deleting-abcdef012345"
    levanter(rest.root, 300, name=half.name)
    value = await rest.listing()
    assert [item.step for item in value.items] == [400, 500]
    again = await rest.plan()
    assert again.words == "delete 1 from toy"
    assert "half deleted" in again.targets[0].why
    assert (await rest.act(again.words)).outcome is Outcome.DONE
    assert rest.names() == {"step-400", "step-500"}


async def test_a_failure_in_the_middle_says_what_is_gone(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may delete everything")
    rest = world(tmp_path)
    (rest.root / "step-200" / "d").chmod(0o500)
    plan = await rest.plan()
    result = await rest.act(plan.words)
    (next(rest.root.glob("step-200*")) / "d").chmod(0o700)
    assert result.outcome is Outcome.FAILED
    assert "1 checkpoint deleted before it, 2 not deleted" in result.message
    assert not (rest.root / "step-100").exists() and (rest.root / "step-300").exists()
    assert "1 of 3" in rest.book.entries[0].status


async def test_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    rest = world(tmp_path)
    plan = await rest.plan()
    put(rest.root / f"step-100.deleting-{plan.plan_id}x" / "mine")
    blocker = rest.root / f"step-100.deleting-{plan.plan_id}"
    put(blocker / "mine")
    result = await rest.service.act(rest.request(), plan.words, shown=plan.plan_id)
    assert result.outcome is Outcome.FAILED
    assert (blocker / "mine").exists() and (rest.root / "step-100").exists()

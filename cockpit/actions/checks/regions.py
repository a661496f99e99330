"""C-16, C-17: what lies in another region than what reads or writes it is said before it costs.

A region is known from a bucket itself (S3 tells it to anybody), from the bucket's name, where it
holds one (``marin-us-central2``), and of a job from its command's ``--region`` or ``--zone``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from cockpit.model.clock import Clock
from cockpit.model.observed import Pick
from cockpit.model.place import Place, place_of
from cockpit.model.plan import Basis, Check
from cockpit.model.run import RunSpec
from cockpit.rules.lineage.paths import named_in, of_command, plain
from cockpit.runtime.bucket_client import AMAZON, settings_of
from cockpit.runtime.buckets import BUCKETS
from cockpit.runtime.http import Http, HttpError
from cockpit.text.checks import passed, warned
from cockpit.text.safe import clean
from cockpit.text.scrub import shown

ID: Final = "C-17:region"
WITHIN: Final = 2.5


async def said(run: RunSpec, words: Sequence[str], pick: Pick | None, clock: Clock) -> list[Check]:
    """Return a warning for each place that lies in another region than where the job runs.

    Where the job's region is not known, the output root's stands for it.
    """
    places = list(_places(run, pick))
    if not any(place.scheme in BUCKETS for _, place in places):
        return []
    known: dict[str, tuple[str, Basis] | None] = {}
    for _, place in places:
        if place.endpoint not in known:
            known[place.endpoint] = await region_of(place, clock)
    told = [(what, place, known[place.endpoint]) for what, place in places]
    base, flag = of_command(words)
    whose = "" if flag is None else f"the job ({shown(flag)})"
    for what, place, region in told:
        if base is None and region is not None:
            base, whose = region[0], f"{what} {place}"
    if base is None:
        return []
    checks = []
    for what, place, region in told:
        if region is not None and region[0] != base:
            text = f"{what} {place} is in {region[0]}, {whose} in {base}: traffic goes"
            text += " across regions, which is slow and billed"
            checks.append(warned(ID, text, region[1], str(place)))
    if checks:
        return checks
    return [passed(ID, f"every known region is {base}", Basis.INFERRED, base)]


def _places(run: RunSpec, pick: Pick | None) -> Iterator[tuple[str, Place]]:
    if run.output_root is not None:
        yield "the output root", run.output_root
    spec = run.checkpoints
    for root in spec.path if spec is not None else ():
        yield "the checkpoint root", root
    source = None if spec is None else spec.initialize_from
    if source is not None:
        yield "initialize_from", source
    if pick is not None and (source is None or str(source) != pick.path):
        yield "the checkpoint", place_of(pick.path)


async def region_of(place: Place, clock: Clock) -> tuple[str, Basis] | None:
    """Return the region of a bucket and how that is known; ``None``: it is not."""
    if place.scheme == "s3":
        told = await _told(place, clock)
        if told is not None:
            return told, Basis.OBSERVED
    found = named_in(place)
    return None if found is None else (found, Basis.INFERRED)


async def _told(place: Place, clock: Clock) -> str | None:
    settings = settings_of(place.scheme, place.host)
    url = f"{settings.endpoint or AMAZON}/{place.host}"
    try:
        answer = await Http(clock, deadline=WITHIN).send("HEAD", url)
    except HttpError:
        return None
    region = answer.headers.get("x-amz-bucket-region")
    return plain(clean(region, 40)) if region else None

"""What is asked and shown before an action: the form, the open points, the plan with its checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from textual.content import Content

from cockpit.model.observed import Pick
from cockpit.model.plan import Basis, Check, Difference, Level, Plan, Target
from cockpit.model.records import Point, PointMark
from cockpit.model.wording import age, clocked, clocked_minutes, size, steps
from widgets.painting.journal import Short
from widgets.painting.line import (
    ACCENT,
    DIM,
    EMPTY,
    STRONG,
    Part,
    beside,
    cut,
    fit,
    in_rows,
    row,
    text,
    within,
    wrapped,
)
from widgets.painting.line import brief as without_stamp
from widgets.painting.pages import paint_page
from widgets.painting.rows import quoted

LABEL: Final = 14
BASIS: Final = 16
"""Columns for the code of a check and what it rests on."""
MOST: Final = 400
"""Lines that one text may take; more is cut with an ellipsis."""
_LEVELS: Final = {
    Level.BLOCK: ("■ BLOCK", "bold $critical"),
    Level.WARN: ("! WARN", "$attention"),
    Level.PASS: ("✓ pass", "$well"),
}
_ORDER: Final = (Level.BLOCK, Level.WARN, Level.PASS)
_FIELDS: Final = ("command", "stops", "spares", "loses", "checkpoint", "trainer_would_load",
                  "differences", "targets", "keeps", "page", "words")  # fmt: skip
BESIDE: Final = 72
"""Columns from which both stand on one line, if they fit."""
CHECKED: Final = {
    "C-08": "enough checkpoints left", "C-09": "no NaN or inf", "C-13": "same W&B run",
    "C-14": "no repeated failure", "C-15": "code as recorded", "C-16": "output path agrees",
    "C-17": "checkpoint", "C-18": "same config", "C-19": "artifacts", "C-25": "no duplicate job",
    "T": "cause known", "dri": "owner", "dri-notified": "owner notified", "job-state": "job state",
    "dirty": "code clean", "tag": "tag free",
    "second-machine": "no other cockpit", "launched-elsewhere": "no other launch",
    "launch-ids": "launch id free", "places": "folders writable", "routes": "message route",
    "whose": "job is this run's", "fix": "fix made", "wandb": "W&B", "wandb-id": "W&B id",
    "run-id": "run id", "run-log": "run log", "training-log": "training log", "store": "journal",
    "final-step": "final step", "initialize-from": "initialize_from", "key": "W&B key",
}  # fmt: skip
"""What a check that passes is called where it is only named; others by their own id."""
MOST_OF_A_SIDE: Final = 12


def changes(old: Plan, new: Plan) -> frozenset[str]:
    """Return what differs between two plans: check ids as ``check:<id>``, else field names."""
    was = {check.id: check for check in old.checks}
    checks = {
        f"check:{check.id}"
        for check in new.checks
        if check.id not in was or _words_of(was[check.id]) != _words_of(check)
    }
    fields = {name for name in _FIELDS if getattr(old, name) != getattr(new, name)}
    return frozenset(checks | fields)


def _words_of(check: Check) -> tuple[object, ...]:
    return check.level, check.text, check.value


def paint_plan(
    plan: Plan,
    width: int,
    changed: AbstractSet[str] = frozenset(),
    notice: str = "",
    root: str | None = None,
    unfold: str = "",
) -> list[Content]:
    """Return the whole plan: a sentence, what is in the way, what would be done, what is well.

    ``changed`` marks what differs from the plan that was shown before. ``notice`` stands above
    everything: why this plan is shown instead of another. Paths below ``root`` are shortened;
    the root stands once in full, and the command is never touched. With the key ``unfold`` what
    is well is only named, and nothing says what it rests on.
    """
    short = Short(root if Short(root).shortens(plan) else None)
    lines = [*wrapped(text((notice, "bold $attention")), width, 4), EMPTY] if notice else []
    calm = [check for check in plan.checks if check.level is Level.PASS]
    loud = [check for check in plan.checks if check.level is not Level.PASS]
    loud.sort(key=lambda check: (not check.stands_in_the_way, _ORDER.index(check.level)))
    found = _shortened(plan.differences, short)
    compared = paint_differences(found, width, "differences" in changed)
    differs = not all(each.same or each.ran is None for each in found)
    blocks = (
        wrapped(text((plan.summary, STRONG)), width, MOST),
        _checks(loud, width, changed, short, whole=not unfold),
        [*_deeds(plan, width, changed, short), *([] if differs else compared)],
        _targets(_fate(plan), plan.targets, width, "targets" in changed, short),
        compared if differs else [],
        _calm(calm, width, changed, short, unfold),
        _targets("keeps", plan.keeps, width, "keeps" in changed, short),
        _page(plan.page, width),
    )
    for block in blocks:
        lines += [EMPTY, *block] if block and lines and lines[-1] is not EMPTY else block
    return within(lines, width)


def _deeds(plan: Plan, width: int, changed: AbstractSet[str], short: Short) -> list[Content]:
    """Return what would stop, be loaded and be run; what is lost stands in the sentence."""
    return [
        *_jobs(plan, width, changed),
        *_labelled("loses", plan.loses if "loses" in changed else None, width, True),
        *_checkpoints(plan, width, changed, short),
        *_labelled("runs", plan.command, width, "command" in changed),
        *_labelled("… stands for", short.folder and short.folder, width, False),
    ]


def _calm(
    calm: Sequence[Check], width: int, changed: AbstractSet[str], short: Short, unfold: str
) -> list[Content]:
    """Return what is well: only named where a key can ``unfold`` it, in full without one.

    What has changed stands there in full either way.
    """
    if not unfold:
        return _checks(calm, width, changed, short, whole=True)
    shown = [check for check in calm if f"check:{check.id}" in changed]
    alike = Counter[str]()
    for check in calm:
        if check not in shown:
            begin = check.id.partition(":")[0]
            alike[CHECKED.get(check.id) or CHECKED.get(begin) or begin.replace("-", " ")] += 1
    names = [
        text(("✓ ", "$well"), (name + (f" ×{count}" if count > 1 else ""), DIM))
        for name, count in alike.items()
    ]
    lines = _checks(shown, width, changed, short, whole=False)
    names += [text((unfold, f"bold {ACCENT}"), (" in full", DIM))] if names else []
    return [*lines, *in_rows(names, width)]


def _shortened(found: Sequence[Difference], short: Short) -> list[Difference]:
    """Return the differences, of a pick (``step 28: path``) with its path shortened."""
    return [
        each.model_copy(update={"ran": each.ran and short(each.ran),
                                "would_run": each.would_run and short(each.would_run)})
        if each.what == "checkpoint" else each
        for each in found
    ]  # fmt: skip


def _checks(
    checks: Sequence[Check], width: int, changed: AbstractSet[str], short: Short, *, whole: bool
) -> list[Content]:
    found = [_check(each, width, f"check:{each.id}" in changed, short, whole) for each in checks]
    return [line for lines in found for line in lines]


def _check(check: Check, width: int, changed: bool, short: Short, whole: bool) -> list[Content]:
    """Return a check with its level; what it rests on and its code stand in the ``whole`` plan."""
    word, style = _LEVELS[check.level]
    if check.level is Level.BLOCK and not check.stands_in_the_way:
        word, style = "✓ OVER", "$attention"
    inferred = check.basis is Basis.INFERRED
    code = (f"{check.id.partition(':')[0]} " if check.id[:2] == "C-" else "", DIM)
    basis = text(code, (f"[{check.basis.value}]", "$attention" if inferred else DIM))
    mark = [("changed ", f"bold {ACCENT}")] if changed else []
    room = width - 9 - BASIS - 1
    if room < 16 or not whole:
        basis, room = EMPTY, width - 9
    body = wrapped(text(*mark, short(check.text)), room, MOST) or [EMPTY]
    first = row(text(fit(text((word, style)), 9), body[0]), basis, width)
    return [first, *(text(" " * 9, piece) for piece in [*body[1:], *_under_check(check, room)])]


def _under_check(check: Check, room: int) -> list[Content]:
    """Return who let a block pass and why, or that somebody may."""
    if check.approved is not None and check.level is Level.BLOCK:
        said = f"approved by {check.approved.whose}: {check.approved.reason}"
        return wrapped(text((said, "$attention")), room, 3)
    if check.stands_in_the_way and check.overridable:
        return [cut(text(("can be approved, by name and reason", DIM)), room)]
    return []


def _labelled(
    label: str, words: str | Content | None, width: int, changed: bool, style: str = ""
) -> list[Content]:
    """Return a label and, beside it, words over as many lines as they need."""
    if not words:
        return []
    mark: list[Part] = [("changed ", f"bold {ACCENT}")] if changed else []
    line = text(*mark, (words, style) if isinstance(words, str) and style else words)
    return beside(label, line, min(LABEL, width // 3), width, MOST)


def _jobs(plan: Plan, width: int, changed: AbstractSet[str]) -> list[Content]:
    lines: list[Content] = []
    for label, field, names, style in (
        ("stops", "stops", plan.stops, "bold $critical"),
        ("leaves alone", "spares", plan.spares, "$well"),
    ):
        for place, name in enumerate(names):
            first = place == 0
            marked = first and field in changed
            lines += _labelled(label if first else "", name, width, marked, style)
    return lines


def _checkpoints(plan: Plan, width: int, changed: AbstractSet[str], short: Short) -> list[Content]:
    ours, its = plan.checkpoint, plan.trainer_would_load
    lines: list[Content] = []
    if ours is not None:
        same = its is not None and its.path == ours.path
        agrees = text(("; the trainer will load the same one", DIM)) if same else EMPTY
        marked = "checkpoint" in changed or (same and "trainer_would_load" in changed)
        lines += _labelled("loads", text(_pick(ours, short), agrees), width, marked)
    if its is not None and (ours is None or its.path != ours.path):
        warning = text(("▲ will load ", "$attention"), _pick(its, short))
        lines += _labelled("trainer", warning, width, "trainer_would_load" in changed)
    return lines


def _pick(pick: Pick, short: Short) -> Content:
    step = steps(pick.step) if pick.step is not None else "step unknown"
    return text((step, STRONG), "  ", short(pick.path), (f"  {pick.why}", DIM))


def _fate(plan: Plan) -> str:
    """Return what becomes of a plan's targets: only what is deleted cannot be had back."""
    if plan.action == "retain":
        return "will delete"
    if plan.action == "rollback":
        return "will move aside" if plan.facts.get("move") == "yes" else "will reject, not move,"
    return "will delete or move"


def _targets(
    label: str, targets: tuple[Target, ...], width: int, changed: bool, short: Short
) -> list[Content]:
    if not targets:
        return []
    known = [each.size for each in targets if each.size is not None]
    total = f", {size(sum(known))}" if known else ""
    total += ", and some of unknown size" if known and len(known) < len(targets) else ""
    mark: list[Part] = [("changed ", f"bold {ACCENT}")] if changed else []
    lines = [text(*mark, (f"{label} {len(targets):,}{total}", STRONG))]
    widest = max(len(steps(each.step)) for each in targets)
    return [*lines, *(_target(each, widest, width, short) for each in targets)]


def _target(each: Target, widest: int, width: int, short: Short) -> Content:
    shown = steps(each.step) if each.step is not None else ""
    figures = f"  {shown:>{widest}}  {size(each.size):>9}  "
    path = short(each.path)
    room = max(width // 3, width - len(figures) - Content(path).cell_length - 2)
    return row(text(figures, path), cut(text((each.why, DIM)), room), width, gap=2)


def _page(page: str | None, width: int) -> list[Content]:
    if not page:
        return []
    lines = [text(("preview", STRONG))]
    shown = paint_page(page.splitlines()[:MOST], max(1, width - 2))
    return [*lines, *(text("  ", piece) for piece in shown)]


def paint_markdown(line: str, width: int) -> list[Content]:
    """Return one line of Markdown, headings marked; nothing in it is ever parsed as markup."""
    shown = Content(line)
    if line.startswith("#"):
        shown = shown.stylize(f"bold {ACCENT}")
    return wrapped(shown, width, 40) or [EMPTY]


def paint_differences(
    found: Sequence[Difference], width: int, changed: bool = False
) -> list[Content]:
    """Return the differing rows side by side, or below each other where they are too long."""
    if not found:
        return []
    unknown = [each.what for each in found if each.unrecorded]
    found = [each for each in found if each.what not in unknown]
    lines = _differing(found, width, changed) if found else []
    if unknown:
        named = ("dirty files" if name.startswith("dirty") else name for name in unknown)
        said = text((f"in the last launch: {', '.join(named)}", DIM))
        lines += _labelled("not recorded", said, width, False)
    return lines


def _differing(found: Sequence[Difference], width: int, changed: bool) -> list[Content]:
    differing = [each for each in found if not each.same]
    equal = len(found) - len(differing)
    count = f"{equal:,} {'setting' if equal == 1 else 'settings'} the same"
    mark: list[Part] = [("changed ", f"bold {ACCENT}")] if changed else []
    if not differing:
        return _labelled(
            "config", text("as in the last launch ", (f"({count})", DIM)), width, changed
        )
    name = min(max(Content(each.what).cell_length for each in differing) + 2, width // 3)
    half = max(1, (width - name - 3) // 2)
    sides = [side or "" for each in differing for side in (each.ran, each.would_run)]
    columns = width >= BESIDE and all(Content(side).cell_length <= half for side in sides)
    head = [text(*mark, ("differs", STRONG), (f" from the last launch · {count}", DIM))]
    if columns:
        head.append(_three(EMPTY, text(("ran", DIM)), text(("would run", DIM)), name, half))
    for each in differing:
        if columns:
            ran, would_run = _side(each.ran, ""), _side(each.would_run, STRONG)
            head.append(_three(Content(each.what), ran, would_run, name, half))
        else:
            head += wrapped(Content(each.what), width, 2)
            for label, side in (
                ("ran", _side(each.ran, "")),
                ("would run", _side(each.would_run, STRONG)),
            ):
                head += beside(f"  {label}", side, 13, width, MOST_OF_A_SIDE)
    return head


def _three(what: Content, ran: Content, would: Content, name: int, half: int) -> Content:
    if what.cell_length > name:
        name = min(what.cell_length + 1, name + half)
        half = max(1, half - 1)
    return text(fit(what, name), fit(ran, half), (" │ ", DIM), fit(would, half))


def _side(value: str | None, style: str) -> Content:
    if not value:
        return text(("none" if value is None else "empty", DIM))
    return text((value, style))


FIELD_LABEL: Final = 19
IN_SIGHT: Final = 7
"""Choices of a list that are in sight at once."""


class Choice(NamedTuple):
    """Something to pick: what it stands for, and what distinguishes it."""

    value: str
    shown: str | Content
    note: str = ""


class FormField(NamedTuple):
    """One value that is asked for. With ``choices`` one of them is picked, else it is typed."""

    name: str
    label: str
    help: str
    required: bool = False
    choices: tuple[Choice, ...] = ()
    value: str = ""


class FormState(NamedTuple):
    """A form as it stands: the values, the focused field and what is said below."""

    intro: Sequence[Content]
    fields: Sequence[FormField]
    values: Mapping[str, str]
    at: int
    notice: str = ""


def height_of(field: FormField) -> int:
    """Return how many rows a field takes."""
    return min(IN_SIGHT, len(field.choices)) if field.choices else 1


def rows_of(state: FormState, width: int) -> list[int]:
    """Return the row of each field within the body."""
    place = len(_intro(state, width))
    rows = []
    for field in state.fields:
        rows.append(place)
        place += height_of(field)
    return rows


def paint_form(state: FormState, width: int) -> list[Content]:
    """Return the form's body; where something is typed, the row's right side is left blank."""
    lines = _intro(state, width)
    for place, field in enumerate(state.fields):
        chosen = place == state.at
        label = text(
            ("▸ " if chosen else "  ", ACCENT),
            (field.label, STRONG if chosen else DIM),
            ("*", "$attention") if field.required else "",
        )
        label = fit(label, FIELD_LABEL)
        shown = _choices(field, state.values, chosen, width - FIELD_LABEL)
        for number, line in enumerate(shown or [EMPTY]):
            lines.append(text(label if number == 0 else " " * FIELD_LABEL, line))
    return [cut(line, width) for line in lines]


def _intro(state: FormState, width: int) -> list[Content]:
    lines = [piece for each in state.intro for piece in wrapped(each, width, 6) or [EMPTY]]
    return [*lines, EMPTY] if lines else []


def _choices(
    field: FormField, values: Mapping[str, str], focused: bool, width: int
) -> list[Content]:
    if not field.choices:
        return []
    at, count = place_of(field, values), len(field.choices)
    first = max(0, min(at - IN_SIGHT // 2, count - IN_SIGHT))
    last = min(count, first + IN_SIGHT)
    lines = []
    for place in range(first, last):
        each = field.choices[place]
        mark: Part = ("● ", ACCENT) if place == at else ("· ", DIM)
        more = _more(place, first, last, count)
        note = text((each.note, DIM))
        room = width - (more.cell_length + 1 if more.plain else 0)
        body = text(mark, each.shown, "  ", note) if note.plain else text(mark, each.shown)
        if body.cell_length > room and note.cell_length <= room // 2:
            body = row(text(mark, each.shown), note, room)
        line = row(body, more, width)
        lines.append(line.stylize_before("on $cursor") if place == at and focused else line)
    return lines


def _more(place: int, first: int, last: int, count: int) -> Content:
    """Return how many choices lie beyond the first or the last row in sight."""
    if place == first and first:
        return text((f"↑ {first} more", ACCENT))
    if place == last - 1 and last < count:
        return text((f"↓ {count - last} more", ACCENT))
    return EMPTY


def place_of(field: FormField, values: Mapping[str, str]) -> int:
    """Return the place of the picked choice."""
    wanted = values.get(field.name, "")
    return next((n for n, each in enumerate(field.choices) if each.value == wanted), 0)


MOST_POINT_LINES: Final = 6
"""Rows that one text may take."""


def paint_point(
    point: Point, mark: PointMark | None, now: float, width: int, here: bool
) -> list[Content]:
    """Return a point's row; below the one at hand its evidence and what to do.

    Instants stand on the reader's clock; ``now`` in seconds since the epoch.
    """
    point = _in_clock_times(point, now)
    return [_row(point, mark, here, now, width), *_under_point(point, mark, here, width)]


def _in_clock_times(point: Point, now: float) -> Point:
    def here(words: str) -> str:
        return clocked_minutes(clocked(words, now), now)

    evidence = tuple(
        (words if quoted(source) else here(words), source) for words, source in point.evidence
    )
    return point._replace(title=here(point.title), evidence=evidence, next=here(point.next))


def _row(point: Point, mark: PointMark | None, here: bool, now: float, width: int) -> Content:
    sign = ("✓ ", "$well") if mark and mark.discussed else ("▲ ", "$attention") if mark else "○ "
    pointer = ("▸ ", ACCENT) if here else "  "
    said = "discussed" if mark and mark.discussed else "left open" if mark else ""
    old = "" if point.since is None else age(now - point.since) + "+" * point.or_before
    right = text(("  ".join(filter(None, (said, old))), DIM))
    left = text(pointer, sign, (point.title, STRONG if here else ""))
    return row(cut(left, max(1, width - right.cell_length - 2)), right, width)


def _under_point(point: Point, mark: PointMark | None, here: bool, width: int) -> list[Content]:
    said: list[Content] = []
    if here:
        said += [text(without_stamp(Content(words)), (f"  {source}", DIM))
                 for words, source in point.evidence]  # fmt: skip
        said += [text(("→ ", ACCENT), point.next)] if point.next else []
    said += [text((f"note: {mark.note}", "$attention"))] if mark and mark.note else []
    pieces = [p for each in said for p in wrapped(each, max(1, width - 6), MOST_POINT_LINES)]
    return [*(text(" " * 6, piece) for piece in pieces), *([EMPTY] * here)]

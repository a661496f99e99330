"""What a run has cost, by the price in its run file: each amount with its unit and its basis."""

from collections.abc import Iterator
from typing import Final, Literal

from cockpit.model.base import Frozen, Instant, Seconds
from cockpit.model.goodput import took
from cockpit.model.wording import plural, utc_minute

HOUR: Final = 3600.0


class Cost(Frozen):
    """A run's account in money, from ``since`` to ``until``.

    ``None`` is unknown; the field of that name with ``_why`` says why.
    ``price`` is for one hour of what ``per`` names, ``per_hour`` what the present job costs in an
    hour. ``spent`` is for ``held_s``: the time in which jobs are known to have held their
    machines. For ``unseen_s`` more it is not known whether they did. ``lost_to_repeats``: the part
    of it that trained steps once more. ``burning`` is what has been spent since
    ``burning_since``, when the run stopped making progress while its machines are held; 0 while
    nothing burns.
    """

    currency: str
    price: float
    per: Literal["job", "accelerator"]
    since: Instant | None = None
    until: Instant | None = None
    accelerators: int | None = None
    accelerators_by: str | None = None
    """Whose word the count is; where there is none, why."""
    per_hour: float | None = None
    held_s: Seconds = 0.0
    unseen_s: Seconds = 0.0
    spent: float | None = None
    spent_why: str | None = None
    lost_to_repeats: float | None = None
    lost_why: str | None = None
    burning: float | None = None
    burning_since: Instant | None = None
    burning_why: str | None = None
    """What burns, or why it is not known whether anything does."""
    basis: tuple[str, ...] = ()

    @property
    def priced(self) -> str:
        """Return the price and what it is for: ``64 accelerators at 2.40 USD/h each``."""
        price = f"{money(self.price, self.currency)}/h"
        if self.per == "job":
            return price
        count = self.accelerators
        held = "accelerators" if count is None else plural(count, "accelerator")
        return f"{held} at {price} each"


def money(amount: float, currency: str) -> str:
    """Return an amount with its currency: ``61.40 USD``, ``12,345 USD``, ``<0.01 USD``."""
    if 0 < amount < 0.005:
        return f"<0.01 {currency}"
    return f"{amount:,.0f} {currency}" if amount >= 1000 else f"{amount:.2f} {currency}"


def spending(found: Cost) -> Iterator[str]:
    """Yield what was spent, and what of it was lost to repeats, a phrase each."""
    if found.spent is None:
        yield f"cost unknown: {found.spent_why}"
        return
    more = f"; {took(found.unseen_s)} more that nobody saw" if found.unseen_s >= 60 else ""
    time = f"{took(found.held_s)}, {found.priced}{more}"
    yield f"{money(found.spent, found.currency)} spent ({time})"
    if found.lost_to_repeats is None:
        yield f"lost to repeated steps: unknown ({found.lost_why})"
    elif found.lost_to_repeats > 0:
        yield f"{money(found.lost_to_repeats, found.currency)} of it lost to repeated steps"


def burning(found: Cost, since: str = "") -> Iterator[str]:
    """Yield what is spent since the run makes no progress, at which rate and why; else nothing.

    ``since`` is when that began, in other words.
    """
    if found.burning_since is None:
        return
    begun = since or utc_minute(found.burning_since)
    if found.burning is None or found.per_hour is None:
        yield f"spent since {begun}: unknown ({found.burning_why})"
        return
    amount, rate = (money(each, found.currency) for each in (found.burning, found.per_hour))
    yield f"burning {rate}/h since {begun}: {amount} ({found.burning_why})"


def cost_lines(found: Cost) -> tuple[str, ...]:
    """Return the account for a page: what burns, what was spent, on what that rests."""
    return (*burning(found), *spending(found), basis(found))


def basis(found: Cost) -> str:
    """Return what the amounts rest on, in one line."""
    return f"basis: {'; '.join(found.basis)}"

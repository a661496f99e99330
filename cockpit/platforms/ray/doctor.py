"""What ``doctor`` says of a Ray head: each is asked once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from cockpit.model.facet import ErrorKind
from cockpit.platforms.base import EndpointFinding
from cockpit.platforms.ray.head import SKEW, Head
from cockpit.runtime.http import HttpError
from cockpit.text.safe import clean

REMEDIES: Final = {
    ErrorKind.UNAUTHORIZED: "export the head's token and name its variable in job.token_env",
    ErrorKind.FORBIDDEN: "use the token of this cluster: the one it was started with",
    ErrorKind.NOT_FOUND: "set job.address to the head's dashboard, as http://127.0.0.1:8265",
    ErrorKind.TIMEOUT: "check the head's gcs_server; do not restart anything from here",
    ErrorKind.REFUSED: "check whether the head is running and its port is forwarded here",
    ErrorKind.DNS: "check the name in job.address, and the network",
    ErrorKind.RATE_LIMITED: "wait, or ask less often: a longer cadence",
}
COMMAND: Final = "job.token_command"
BY_HAND: Final = "run job.token_command by hand: it must end with 0 and print the token"
OTHERWISE: Final = "open the address in a browser: is it a Ray dashboard?"
_SHOWN: Final = 5


async def finding(head: Head, names: Sequence[str]) -> EndpointFinding:
    """Return whether a head answers for its jobs, by which version, and how its clock is."""
    runs = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    try:
        version, began = await head.version()
        jobs = await head.jobs()
    except HttpError as error:
        text = clean(f"{error} ({runs})", 400)
        remedy = BY_HAND if COMMAND in str(error) else REMEDIES.get(error.kind, OTHERWISE)
        return EndpointFinding(endpoint=head.name, text=text, remedy=remedy)
    since = f", up since {began} (its clock)" if began else ""
    text = f"Ray {version}{since}, lists {len(jobs)} jobs; for {runs}"
    skew = head.skew or 0.0
    if abs(skew) <= SKEW:
        return EndpointFinding(endpoint=head.name, text=text)
    way = "ahead of" if skew > 0 else "behind"
    return EndpointFinding(
        endpoint=head.name,
        text=f"{text}; its clock is {abs(skew):.0f} s {way} ours",
        remedy="set the clocks by NTP; its times are corrected by that much until then",
    )

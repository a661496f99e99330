from cockpit.model.notify import NotifySpec
from cockpit.services.notifying import Heartbeat
from tests.notify.receivers import webhook
from tests.watch.fakes import FastClock


class Steps(FastClock):
    """A clock that a test moves."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.at = 0.0

    def monotonic(self) -> float:
        return self.at


SPEC = NotifySpec(heartbeat_url_env="DEADMAN")


async def test_it_is_pinged_once_per_cadence() -> None:
    clock = Steps()
    with webhook() as server:
        beat = Heartbeat(SPEC, clock, {"DEADMAN": server.url})
        for at in (0.0, 1.0, 2.0, 10.0, 11.0, 20.0):
            clock.at = at
            assert await beat.beat(10.0) is None
    assert len(server.paths) == 3


async def test_what_goes_wrong_is_said_without_the_address() -> None:
    assert Heartbeat(NotifySpec(), Steps(), {}).trouble() is None
    missing = Heartbeat(SPEC, Steps(), {})
    assert missing.trouble() == "the dead man's switch is not pinged: DEADMAN is not set here"
    assert await missing.beat(1.0) == missing.trouble()
    with webhook() as server:
        server.status = 404
        said = await Heartbeat(SPEC, Steps(), {"DEADMAN": server.url}).beat(1.0)
        assert said is not None and "answered 404" in said and "s3cr3t" not in said
        url = server.url
    said = await Heartbeat(SPEC, Steps(), {"DEADMAN": url}).beat(1.0)
    assert said is not None and "refused" in said
    said = await Heartbeat(SPEC, Steps(), {"DEADMAN": "s3cr3t"}).beat(1.0)
    assert said is not None and "s3cr3t" not in said

"""Training that has become slower, or has stopped."""

from __future__ import annotations

from chiplog.metrics.rules.speed import Slowdown, Stall


def told(rule: Slowdown, speeds: list[float]) -> list[int]:
    rows = ((step, rule({"train/tokens_per_sec": speed}, step)) for step, speed in enumerate(speeds))
    return [step for step, finding in rows if finding is not None]


def test_a_drop_of_throughput_is_told_once_and_again_after_a_recovery() -> None:
    """Below 80 % for 32 steps is an alert; single slow steps are not."""
    rule = Slowdown()
    usual = [1000.0, 990.0, 1010.0, 100.0] * 25  # every fourth step is an odd one
    assert told(rule, usual) == []
    first = told(Slowdown(), [*[1000.0] * 96, *[700.0] * 200])
    assert first == [127]
    again = told(Slowdown(), [*[1000.0] * 96, *[700.0] * 96, *[1000.0] * 96, *[700.0] * 96])
    assert len(again) == 2


def test_the_usual_pace_survives_a_restart() -> None:
    """A run that comes back on a slower machine is told so."""
    before = Slowdown()
    told(before, [1000.0] * 96)
    after = Slowdown()
    after.restore(before.state())
    assert told(after, [700.0] * 64) == [31]


class Watch:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_stall_is_told_once_while_no_step_comes() -> None:
    """Ten usual steps and at least 30 s without one; the next stall is reported again."""
    clock = Watch()
    rule = Stall(clock)
    for step in range(20):
        clock.now += 5.0
        rule({"train/loss": 1.0}, step)
        assert rule.tick() is None
    clock.now += 49.0
    assert rule.tick() is None
    clock.now += 2.0
    finding = rule.tick()
    assert finding is not None and finding.evidence["step"] == 19
    assert rule.tick() is None
    rule({"train/loss": 1.0}, 20)
    clock.now += 51.0
    assert rule.tick() is not None


def test_a_short_pause_of_a_fast_loop_is_no_stall() -> None:
    """A checkpoint of 20 s between steps of 10 ms is left alone."""
    clock = Watch()
    rule = Stall(clock)
    for step in range(20):
        clock.now += 0.01
        rule({}, step)
    clock.now += 20.0
    assert rule.tick() is None

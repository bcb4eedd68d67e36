"""What the rules cost, and what they find: planted spikes, drifts and NaN in synthetic losses."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Iterator
from itertools import count

import chiplog
from bench.rows import Figure, interleaved, median, row
from chiplog.metrics.rules.outliers import WINDOW, Outliers, centre

CURVES, STEPS, SPIKES = 200, 2000, 5
LEAST, MOST = 8.0, 30.0  # deviations above the median of the past, planted

# What training looks like without noise, by step.
TRENDS: dict[str, Callable[[int], float]] = {
    "power law": lambda t: 2 + 8 * (1 + t / 50) ** -0.5,
    "exponential": lambda t: 1.5 + 3 * math.exp(-t / 400),
    "steep start": lambda t: 0.5 + 10 * math.exp(-t / 60),
    "slow drift up and down": lambda t: 2 + 0.5 * math.sin(t / 700),
    "flat": lambda _: 2.3,
}


@row
def rules() -> Iterator[Figure]:
    """What rules add to one `log` of 10 scalars, a loss and a gradient norm among them."""
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name, alerts in {"none": False, "default": True, "all": "all"}.items():
            options = {"sinks": "none", "dir": folder, "durability": "process", "compact": False}
            runs[name] = chiplog.init("bench", id=name, alerts=alerts, **options)
            chiplog.core.run.current = None
        taken = interleaved({name: _logging(run) for name, run in runs.items()}, calls_each=1000, rounds=41)
        for run in runs.values():
            run.finish()
    added = {name: median(b - a for a, b in zip(taken["none"], taken[name], strict=True)) for name in taken}
    yield Figure("log without rules", median(taken["none"]), "µs")
    yield Figure("more with the default rules", added["default"], "µs", 3.0)
    yield Figure("more with all rules", added["all"], "µs", 10.0)


def _logging(run: chiplog.Run) -> Callable[[], object]:
    noise = random.Random(0)
    steps = count()
    rest = {f"train/metric_{number}": 0.1 * number for number in range(7)}
    values = [noise.gauss(2.0, 0.1) for _ in range(4096)]

    def log() -> None:
        step = next(steps)
        value = values[step % 4096]
        run.log({"train/loss": value, "train/grad_norm": value, "train/tokens_per_sec": 1e4 * value, **rest}, step=step)

    return log


@row
def spikes() -> Iterator[Figure]:
    """The spike rule on 200 losses with planted spikes and NaN; a spike is 8 to 30 deviations above its own past."""
    noise = random.Random(4)
    missed: dict[str, int] = dict.fromkeys(TRENDS, 0)
    false: dict[str, int] = dict.fromkeys(TRENDS, 0)
    planted = 0
    for number in range(CURVES):
        kind = list(TRENDS)[number % len(TRENDS)]
        values, spiked = curve(kind, noise)
        planted += len(spiked)
        found = found_in(values)
        missed[kind] += len(spiked - found)
        false[kind] += len(found - spiked)
    clean = CURVES * STEPS - planted
    yield Figure("planted spikes", planted, "")
    yield Figure("  missed", sum(missed.values()), "", 0)
    yield Figure("false alarms in 10,000 clean steps", sum(false.values()) / clean * 1e4, "", 1.0)
    for kind in TRENDS:
        yield Figure(f"  {kind}", false[kind] / clean * len(TRENDS) * 1e4, "", note=f"{missed[kind]} missed")


def curve(kind: str, noise: random.Random) -> tuple[list[float], set[int]]:
    """A loss with noise, in half of the cases correlated from step to step, and the steps at which it spikes."""
    scale, memory = noise.choice([0.01, 0.03, 0.1]), noise.choice([0.0, 0.5])
    values: list[float] = []
    error = 0.0
    spiked = set(noise.sample(range(150, STEPS), SPIKES))
    holes = set(noise.sample(range(STEPS), 3)) - spiked
    for step in range(STEPS):
        error = memory * error + noise.gauss(0, scale)
        value = TRENDS[kind](step) + error
        if step in spiked:
            middle, deviation = centre([past for past in values if past == past][-WINDOW:])
            value = middle + deviation * noise.choice([LEAST, noise.uniform(LEAST, MOST)])
        values.append(math.nan if step in holes else value)
    return values, spiked


def found_in(values: list[float]) -> set[int]:
    """The steps at which the rule says spike, without its pause after an alert, which would hide the next."""
    rule = Outliers()
    found = set()
    for step, value in enumerate(values):
        finding = rule({"train/loss": value}, step)
        if finding is not None and finding.rule == "spike":
            found.add(step)
            state = rule.state()
            state["train/loss"]["told"] = None
            rule.restore(state)
    return found

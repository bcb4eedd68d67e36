"""No number without its formula: every name that meters, probes and rules can give is on the page about it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from chiplog.frontends.tunix import metric_names
from chiplog.frontends.tunix.perf import role_times
from chiplog.metrics import flops, goodput, moe, waterfall
from chiplog.metrics.rules.limits import Limit, Throttled
from chiplog.metrics.rules.outliers import Outliers
from chiplog.metrics.rules.speed import Slowdown, Stall
from chiplog.metrics.rules.trends import Trend
from chiplog.metrics.throughput import Meter
from tests.probes.stubs import H100, Nvml

DOCS = Path(__file__).parents[2] / "docs"


def meter() -> Iterable[str]:
    """A row with everything in it."""
    fields = ("allocated", "peak", "reserved", "total", "utilization")
    meter = Meter(
        log_every=2, total_tokens=10**6, tokens_per_epoch=10**5, peak_tflops=989.4,
        flops_per_token=flops.Flops(1, 2, 3, 4), memory=lambda: dict.fromkeys(fields, 1),
    )  # fmt: skip
    found: dict[str, Any] = {}
    for step in range(5):
        row = meter.measure(step, {"train/loss": 2.0}, 0.1, waited=0.01, tokens=1000, samples=8)
        found |= row or {}
    assert "train/hfu" in found and "train/interval_steps" in found
    return found


def gpu() -> Iterable[str]:
    """Of both makers, and of the machine; the model of a GPU too."""
    from chiplog.probes.cpu import Cpu
    from chiplog.probes.nvidia import Nvidia

    nvml = Nvml()
    nvml.reset(1, {**H100, "fan": 50})
    probe, host = Nvidia(), Cpu()
    ((_, model),) = probe.first()
    (first,), (machine,) = probe.sample(), host.sample()
    (machine,) = host.sample()
    fields = (f"{group}/{name}" for group, values in machine.items() for name in values)
    return chain(first.keys() | model.keys() | {"pcie_rx", "nvlink_rx", "xgmi_rx", "xgmi_tx", "pcie"}, fields)


def rules() -> Iterable[str]:
    (limits,) = Limit.defaults()
    every = (Outliers, Trend, Slowdown, Stall, Throttled)
    found = {rule.name for rule in every} - {Outliers.name} | {"non-finite", "spike"}
    return found | limits.state().keys()


def perf() -> Iterable[str]:
    kinds = [value for name, value in vars(role_times).items() if name.isupper() and isinstance(value, str)]
    assert role_times.COLOCATED in kinds
    once = [(0.0, 1.0)]
    times = role_times.RoleTimes((0.0, 1.0), None, once, once, once, once)
    return {name for kind in kinds for name in role_times.metrics(times, kind)}


PAGES: Mapping[str, Any] = {
    "throughput.md": meter,
    "telemetry.md": gpu,
    "alerts.md": rules,
    "frontends/tunix.md": perf,
    "moe.md": lambda: moe.health([[3, 1]], [[0.5, 0.5]], entropy=[0.1], confidence=[0.2], z=[0.3]),
    "goodput.md": lambda: (*goodput.KINDS, *waterfall.ORDER),
    "rl.md": lambda: (*metric_names.COMMON, *metric_names.ALIASES),
}


@pytest.mark.parametrize("page", PAGES)
def test_every_name_is_on_its_page(page: str) -> None:
    """As it is, without the group that the page is about, or as one of several: `name/mean`."""
    text = (DOCS / page).read_text()
    names = [name for name in PAGES[page]() if name not in ("id", "train/loss")]
    assert len(names) > 5
    missing = [name for name in names if not any(re.search(rf"\b{re.escape(one)}(?!\w)", text) for one in _forms(name))]
    assert missing == []


def _forms(name: str) -> Iterable[str]:
    """The ways in which a page may spell a name."""
    yield name
    group, _, last = name.rpartition("/")
    if last not in ("mean", "min", "max", "nonfinite"):
        yield last
    else:
        yield f"name/{last}" if group.startswith("train/") else f"{group}/…"

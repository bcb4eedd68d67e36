"""Clocks and devices that do what a test says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from chiplog.core.tracing import span
from chiplog.frontends.tunix.perf import trace
from chiplog.frontends.tunix.perf.shared_tracer import Recording


class Later:
    """Watches works until a test says that they are done."""

    def __init__(self) -> None:
        self.works: list[Any] = []

    def __len__(self) -> int:
        return len(self.works)

    def hold(self, work: Any) -> Any:
        return work

    def watch(self, work: Any) -> None:
        self.works.append(work)

    def wait_for_work(self, timeout: float) -> None:
        pass

    def poll(self) -> None:
        pass

    def expire(self) -> None:
        pass

    def done(self, name: str, at: float, error: str = "") -> None:
        """The oldest work of this name was done at this second."""
        work = next(one for one in self.works if one.span.name == name)
        self.works.remove(work)
        work.tracer.finish_work(work, int(at * 1e9), error)


def set_clock(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """The seconds that hosts' spans begin and end at, one after the other."""
    monkeypatch.setattr(span, "monotonic_ns", iter([int(second * 1e9) for second in seconds]).__next__)


def device(number: int) -> Any:
    return SimpleNamespace(platform="tpu", id=number)


def mesh(*numbers: int) -> Any:
    """As of jax: devices in an array, with names for its axes."""
    return SimpleNamespace(axis_names=("fsdp",), devices=np.array([device(number) for number in numbers]))


def tracer_of(watcher: Any = None, devices: Any = None, export_fn: Any = None) -> trace.PerfTracer:
    """A tracer of the first version whose clock starts at 0."""
    return trace.PerfTracer(devices, export_fn, recording=Recording(watcher=watcher, zero=0), born=0.0)

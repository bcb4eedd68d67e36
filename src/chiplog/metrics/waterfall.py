"""The waterfall of a step: from what the hardware would need to what the step takes, and what lies between."""

from __future__ import annotations

from typing import NamedTuple

MEASURED, MODELLED, REST = "measured", "modelled", "the rest"


class Share(NamedTuple):
    """Some seconds of a step, and how they are known."""

    name: str
    seconds: float
    source: str


def waterfall(
    step: float,
    *,
    compute: float | None = None,
    memory: float | None = None,
    communication: float | None = None,
    data: float | None = None,
    host: float | None = None,
) -> list[Share]:
    """The parts of a step of `step` seconds; they add up to it.

    `compute`: its operations at the hardware's peak (modelled: MFU times the step). `memory`: its bytes at the peak
    bandwidth (modelled); what exceeds the compute is memory-bound. `communication`: exposed, not hidden behind compute
    (measured). `data`: the wait for the loader (measured). `host`: the device idle for want of work (measured). A part
    that is not known is left out, and is in the rest. What is measured is believed first; where a model says more than
    the time that is left, it is cut to that.
    """
    left = max(step, 0.0)
    found: dict[str, Share] = {}
    for name, seconds, source in (
        ("data wait", data, MEASURED),
        ("exposed communication", communication, MEASURED),
        ("host overhead", host, MEASURED),
        ("compute at peak", compute, MODELLED),
        ("memory-bound", None if memory is None else max(0.0, memory - (compute or 0.0)), MODELLED),
    ):
        if seconds is not None and seconds - seconds == 0:
            taken = min(max(seconds, 0.0), left)
            found[name] = Share(name, taken, source)
            left -= taken
    found["everything else"] = Share("everything else", left, REST)
    return [found[name] for name in ORDER if name in found]


ORDER = (
    "compute at peak",
    "memory-bound",
    "exposed communication",
    "data wait",
    "host overhead",
    "everything else",
)

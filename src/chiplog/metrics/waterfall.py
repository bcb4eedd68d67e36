"""The waterfall of a step: from the time that the hardware needs to the time that the step takes."""

from __future__ import annotations

from typing import NamedTuple

MEASURED, MODELLED, REST = "measured", "modelled", "the rest"


class Share(NamedTuple):
    """A part of a step in seconds, and whether it is measured or modelled."""

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
    """The parts of a step of `step` seconds, which sum to it.

    `compute`: its operations at the hardware's peak (modelled: MFU times the step). `memory`: its bytes at the peak
    bandwidth (modelled); what exceeds the compute is memory-bound. `communication`: exposed, not hidden behind compute
    (measured). `data`: the wait for the loader (measured). `host`: the device waits for work (measured). An unknown
    part is left out, and is part of the rest. Measured parts take precedence; a modelled part is cut to what is left.
    """
    left = max(step, 0.0)
    parts: dict[str, Share] = {}
    for name, seconds, source in (
        ("data wait", data, MEASURED),
        ("exposed communication", communication, MEASURED),
        ("host overhead", host, MEASURED),
        ("compute at peak", compute, MODELLED),
        ("memory-bound", None if memory is None else max(0.0, memory - (compute or 0.0)), MODELLED),
    ):
        if seconds is not None and seconds - seconds == 0:
            taken = min(max(seconds, 0.0), left)
            parts[name] = Share(name, taken, source)
            left -= taken
    parts["everything else"] = Share("everything else", left, REST)
    return [parts[name] for name in ORDER if name in parts]


ORDER = (
    "compute at peak",
    "memory-bound",
    "exposed communication",
    "data wait",
    "host overhead",
    "everything else",
)

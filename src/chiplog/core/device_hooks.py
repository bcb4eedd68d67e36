"""What a run uses of its machine; the core itself knows no device."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from chiplog.core.protocols import DeviceValues, StepMeter, StepTimer
from chiplog.core.tracing.tracer import Watcher


class DeviceHooks(msgspec.Struct, frozen=True):
    """All optional: without them, values on devices are read at once, and steps are not measured."""

    values: DeviceValues | None = None  # values still on a device
    watcher: Watcher | None = None  # work still on a device
    meters: Callable[..., StepMeter] | None = None  # measures steps
    times: Callable[[], StepTimer] | None = None  # adds up the spans of a step

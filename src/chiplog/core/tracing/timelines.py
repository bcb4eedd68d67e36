"""Timelines of devices: their names, and how work shares a device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from chiplog.core.tracing.span import Lane


class Device:
    """A device runs one thing at a time: work that starts while it is busy waits in its queue."""

    def __init__(self, label: str) -> None:
        self.lane = Lane(label, "device")
        self.queue = Lane(f"{label}_queue", "queue")
        self._busy = 0  # until when
        self._queued = 0

    def place(self, begin: int, end: int) -> tuple[int, tuple[int, int] | None]:
        """(when the work really started, (start, end) of its wait). Call in order of completion."""
        busy = self._busy
        self._busy = max(busy, end)
        if begin >= busy:
            return begin, None
        really = min(busy, end)
        since = max(begin, self._queued)
        if since >= really:
            return really, None
        self._queued = really
        return really, (since, really)


def labels(devices: object) -> list[str]:
    """The names of devices: of one, or of several in a list, tuple, set or array. A mesh is named by its first device.

    A string is a name as it is; a JAX device is `tpu0`, a torch device `cuda0`.
    """
    try:
        return _cached_labels(devices)
    except TypeError:  # a list or an array: not hashable, and its contents may change
        return _cached_labels.__wrapped__(devices)


@lru_cache(256)
def _cached_labels(devices: object) -> list[str]:
    return list(dict.fromkeys(_labels(devices)))


def _labels(devices: object) -> Iterable[str]:
    if devices is None:
        return ()
    if isinstance(devices, str):
        return (devices,)
    if hasattr(devices, "platform") and hasattr(devices, "id"):  # jax
        return (f"{devices.platform}{devices.id}",)
    if hasattr(devices, "type") and hasattr(devices, "index"):  # torch; no index: the current one
        return (f"{devices.type}{'' if devices.index is None else devices.index}",)
    if hasattr(devices, "axis_names") and hasattr(devices, "devices"):  # a mesh
        return _labels(next(iter(devices.devices.flat), None))
    if hasattr(devices, "flat"):  # an array
        devices = devices.flat
    if isinstance(devices, Iterable):
        return (label for device in devices for label in _labels(device))
    return (str(devices),)

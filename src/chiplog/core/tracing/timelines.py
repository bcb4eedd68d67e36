"""Timelines: the lanes that spans lie on, and how work shares a device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chiplog.core.tracing.span import Span


class Lane:
    """A timeline: of a thread (kind ""), a task, a device, or of what waits for one (queue)."""

    __slots__ = ("kind", "label", "top")

    def __init__(self, label: str, kind: str = "") -> None:
        self.label = label
        self.kind = kind
        self.top: Span | None = None  # the innermost open span of a thread


class Device:
    """A device does one thing after another: what was begun while it was busy has waited in its queue."""

    def __init__(self, label: str) -> None:
        self.lane = Lane(label, "device")
        self.queue = Lane(f"{label}_queue", "queue")
        self._busy = 0  # until when
        self._queued = 0

    def place(self, begin: int, end: int) -> tuple[int, tuple[int, int] | None]:
        """(when the work really began, (begin, end) of its wait); works come in the order in which they ended."""
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


def labels(devices: Any) -> list[str]:
    """The names of devices: of one, or of several in a list, tuple, set or array. A mesh goes by its first device.

    A text is a name as it is; a device of JAX is `tpu0`, one of torch `cuda0`.
    """
    try:
        return _known(devices)
    except TypeError:  # a list or an array, which may be another one tomorrow
        return _known.__wrapped__(devices)


@lru_cache(256)
def _known(devices: Any) -> list[str]:
    found: dict[str, None] = {}
    _collect(devices, found)
    return list(found)


def _collect(devices: Any, found: dict[str, None]) -> None:
    if devices is None:
        return
    if isinstance(devices, str):
        found[devices] = None
    elif hasattr(devices, "platform") and hasattr(devices, "id"):  # jax
        found[f"{devices.platform}{devices.id}"] = None
    elif hasattr(devices, "type") and hasattr(devices, "index"):  # torch; no index: the current one
        found[f"{devices.type}{'' if devices.index is None else devices.index}"] = None
    elif hasattr(devices, "axis_names") and hasattr(devices, "devices"):  # a mesh
        for device in devices.devices.flat:
            return _collect(device, found)
    elif hasattr(devices, "flat"):  # an array
        for device in devices.flat:
            _collect(device, found)
    elif isinstance(devices, Iterable):
        for device in devices:
            _collect(device, found)
    else:
        found[str(devices)] = None

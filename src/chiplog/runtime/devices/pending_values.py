"""Values that are still on a device: copied in the background, and written when they arrive; nothing waits for them.

A JAX array is copied to the host asynchronously, and polled. A torch tensor is copied without blocking, and an event
after the copy is polled.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from chiplog.core import messages
from chiplog.core.values import convert
from chiplog.core.values.media import Media

MOST = 10_000  # rows that may wait; a device further behind than that has stopped


class DeviceEvent(Protocol):
    """An event of a device: whether everything before it is done."""

    def query(self) -> bool: ...


class _PendingRow(msgspec.Struct, frozen=True):
    step: int | float
    copies: dict[str, _Copy]


class _Copy(msgspec.Struct, frozen=True):
    """A value on its way to the host."""

    value: Any
    event: DeviceEvent | None  # None: the value itself is polled

    def arrived(self) -> bool:
        return _is_ready(self.value) if self.event is None else bool(self.event.query())


class PendingValues:
    """Rows whose values are being copied."""

    def __init__(self) -> None:
        self._rows: deque[_PendingRow] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def holds(self, value: object) -> bool:
        """Whether reading this value now would wait for a device; for media, whether any of their arrays would."""
        return _holds(value)

    def add(self, step: int | float, later: Mapping[str, object]) -> None:
        """Start to copy values. One that cannot be copied is left out and reported once."""
        copies = {}
        for name, value in later.items():
            try:
                copies[name] = _copy(value)
            except Exception as error:
                _give_up(name, error)
        if copies:
            if len(self._rows) >= MOST:
                self._rows.popleft()
                messages.once("device", f"more than {MOST:,} rows wait for values on a device; the oldest are dropped")
            self._rows.append(_PendingRow(step, copies))

    def ready(self) -> list[tuple[int | float, dict[str, object]]]:
        """The rows whose values have arrived, in the order they were logged."""
        rows: list[tuple[int | float, dict[str, object]]] = []
        while self._rows and all(_arrived(copy) for copy in self._rows[0].copies.values()):
            first = self._rows.popleft()
            values = ((name, _value(name, copy)) for name, copy in first.copies.items())
            row: dict[str, object] = {name: value for name, value in values if value is not None}
            if row:
                rows.append((first.step, row))
        return rows


def _holds(value: object) -> bool:
    if isinstance(value, Media):
        return any(_holds(array) for array in getattr(value, "arrays", {}).values())
    if hasattr(value, "is_ready") and hasattr(value, "copy_to_host_async"):  # jax.Array
        return not _is_ready(value) or not _on_cpu(value)
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") not in ("cpu", "meta") and hasattr(value, "to")


def _copy(value: Any) -> _Copy:
    if isinstance(value, Media):
        return _Copy(_MediaCopy(value, {name: _copy(array) for name, array in _arrays(value).items()}), None)
    if not _holds(value):
        return _Copy(value, _Passed())
    if hasattr(value, "copy_to_host_async"):
        value.copy_to_host_async()  # a copy on the device would be compiled first, on the caller's time
        return _Copy(value, None)
    backend = getattr(sys.modules.get("torch"), value.device.type, None)  # torch.cuda, torch.xpu
    copy = value.detach().to("cpu", non_blocking=True)
    event = backend.Event() if backend is not None and hasattr(backend, "Event") else _Passed()
    if not isinstance(event, _Passed):
        event.record()
    return _Copy(copy, event)


def _arrays(media: Media) -> dict[str, object]:
    arrays: dict[str, object] = media.arrays  # type: ignore[attr-defined]  # only media with arrays get here
    return arrays


class _MediaCopy(msgspec.Struct, frozen=True):
    """Media whose arrays are being copied, or on the host already."""

    media: Media
    copies: dict[str, _Copy]

    def is_ready(self) -> bool:
        return all(copy.arrived() for copy in self.copies.values())

    def whole(self) -> Media:
        """The same media, with the arrays on the host."""
        _arrays(self.media).update({name: copy.value for name, copy in self.copies.items()})
        return self.media


class _Passed:
    """For devices without events, whose copies are complete when they return."""

    def query(self) -> bool:
        return True


def _arrived(copy: _Copy) -> bool:
    """Whether a value has arrived, or never will: a failed device raises for every query."""
    try:
        return copy.arrived()
    except Exception:
        return True


def _value(name: str, copy: _Copy) -> int | float | Media | None:
    try:
        if isinstance(copy.value, _MediaCopy):
            return copy.value.whole()
        number = convert.number(copy.value)
    except Exception as error:
        _give_up(name, error)
        return None
    if number is None:
        _give_up(name, ValueError("it is an array, not a number"))
    return number


def _give_up(name: str, error: Exception) -> None:
    messages.once(f"device {name}", f"{name!r} could not be read from its device and is left out: {error}")


def _is_ready(array: Any) -> bool:
    """`is_ready` of a deleted array ends the process (jax 0.10), so check that first."""
    if hasattr(array, "is_deleted") and array.is_deleted():
        raise RuntimeError("the array has been deleted or donated")
    return bool(array.is_ready())


def _on_cpu(array: Any) -> bool:
    return all(device.platform == "cpu" for device in array.devices())

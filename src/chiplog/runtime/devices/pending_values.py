"""Values that are still on a device: copied in the background, written when they arrive, never waited for.

A JAX array is copied to the host asynchronously and asked whether it is ready. A torch tensor on a device is copied to
the host without blocking, and an event behind the copy is asked whether it has passed.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from chiplog.core import messages
from chiplog.core.values import convert
from chiplog.core.values.media import Media

MOST = 10_000  # rows that may wait; a device further behind than that has stopped


class _Row(msgspec.Struct, frozen=True):
    step: int | float
    copies: dict[str, _Copy]


class _Copy(msgspec.Struct, frozen=True):
    """A value on its way to the host."""

    value: Any
    event: Any  # None: the value itself knows

    def arrived(self) -> bool:
        return _is_ready(self.value) if self.event is None else bool(self.event.query())


class PendingValues:
    """Rows whose values are on their way."""

    def __init__(self) -> None:
        self._rows: deque[_Row] = deque()

    def __len__(self) -> int:
        return len(self._rows)

    def holds(self, value: Any) -> bool:
        """Whether reading this value now would wait for a device; of media, any array that they are made of."""
        return _holds(value)

    def add(self, step: int | float, later: Mapping[str, Any]) -> None:
        """Take values along. A value that cannot be copied is left out, and said once."""
        copies = {}
        for name, value in later.items():
            try:
                copies[name] = _copy(value)
            except Exception as error:
                _give_up(name, error)
        if copies:
            if len(self._rows) >= MOST:
                self._rows.popleft()
                messages.once("device", f"more than {MOST:,} rows wait for values on a device; the oldest are given up")
            self._rows.append(_Row(step, copies))

    def ready(self) -> list[tuple[int | float, dict[str, Any]]]:
        """The rows whose values have arrived, in the order they were logged."""
        rows: list[tuple[int | float, dict[str, Any]]] = []
        while self._rows and all(_arrived(copy) for copy in self._rows[0].copies.values()):
            first = self._rows.popleft()
            row = {name: value for name, copy in first.copies.items() if (value := _value(name, copy)) is not None}
            if row:
                rows.append((first.step, row))
        return rows


def _holds(value: Any) -> bool:
    if isinstance(value, Media):
        return any(_holds(array) for array in getattr(value, "arrays", {}).values())
    if hasattr(value, "is_ready") and hasattr(value, "copy_to_host_async"):  # jax.Array
        return not _is_ready(value) or not _on_cpu(value)
    device = getattr(value, "device", None)
    return getattr(device, "type", "cpu") not in ("cpu", "meta") and hasattr(value, "to")


def _copy(value: Any) -> _Copy:
    if isinstance(value, Media):
        return _Copy(_Parts(value, {name: _copy(array) for name, array in _arrays(value).items()}), None)
    if not _holds(value):
        return _Copy(value, _Passed())
    if hasattr(value, "copy_to_host_async"):
        value.copy_to_host_async()  # no copy on the device: its first one would be compiled, on the caller's time
        return _Copy(value, None)
    backend = getattr(sys.modules.get("torch"), value.device.type, None)  # torch.cuda, torch.xpu
    copy = value.detach().to("cpu", non_blocking=True)
    event = backend.Event() if backend is not None and hasattr(backend, "Event") else _Passed()
    if not isinstance(event, _Passed):
        event.record()
    return _Copy(copy, event)


def _arrays(media: Media) -> dict[str, Any]:
    arrays: dict[str, Any] = media.arrays  # type: ignore[attr-defined]  # only those that have them come here
    return arrays


class _Parts(msgspec.Struct, frozen=True):
    """Media whose arrays are on their way, or here already."""

    media: Media
    copies: dict[str, _Copy]

    def is_ready(self) -> bool:
        return all(copy.arrived() for copy in self.copies.values())

    def whole(self) -> Media:
        """The same media, made of what is on the host now."""
        _arrays(self.media).update({name: copy.value for name, copy in self.copies.items()})
        return self.media


class _Passed:
    """For devices without events, whose copies are complete when they return."""

    def query(self) -> bool:
        return True


def _arrived(copy: _Copy) -> bool:
    """Whether a value is there, or never will be: a device that has failed raises for every question."""
    try:
        return copy.arrived()
    except Exception:
        return True


def _value(name: str, copy: _Copy) -> int | float | Media | None:
    try:
        if isinstance(copy.value, _Parts):
            return copy.value.whole()
        number = convert.number(copy.value)
    except Exception as error:
        _give_up(name, error)
        return None
    if number is None:
        _give_up(name, ValueError("it is an array of many numbers, not one"))
    return number


def _give_up(name: str, error: Exception) -> None:
    messages.once(f"device {name}", f"{name!r} could not be read from its device and is left out: {error}")


def _is_ready(array: Any) -> bool:
    """`is_ready` of a deleted array ends the process (jax 0.10); so that is asked first."""
    if hasattr(array, "is_deleted") and array.is_deleted():
        raise RuntimeError("the array has been deleted or donated")
    return bool(array.is_ready())


def _on_cpu(array: Any) -> bool:
    return all(device.platform == "cpu" for device in array.devices())

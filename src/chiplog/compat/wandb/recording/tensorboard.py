"""`sync_tensorboard`: what a script writes to TensorBoard is logged, too; a row for each global step."""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import chiplog
from chiplog.compat.wandb import messages
from chiplog.compat.wandb.data.media import Histogram, Image

# Where the writers of TensorBoard, torch and tensorboardX hand over their events.
WRITERS = ("tensorboard.summary.writer.event_file_writer", "tensorboardX.event_file_writer")
_FLOAT, _DOUBLE = 1, 2  # types of TensorFlow's tensors
_following: list[Follower] = []  # one per run; the writers are wrapped once


class Target(Protocol):
    """The run that gets the rows."""

    pid: int

    def next_row(self) -> int: ...

    def log_at(self, data: dict[str, Any], at: int) -> None: ...

    def is_finished(self) -> bool: ...


class Follower:
    """Turns events into rows: values that follow each other with the same global step are one row."""

    def __init__(self, run: Target) -> None:
        self.run = run
        self._global: int | None = None
        self._at = 0

    def add(self, event: Any) -> None:
        values = {value.tag: made for value in event.summary.value if (made := _value(value)) is not None}
        if not values or self.run.is_finished():
            return
        if event.step != self._global:
            self._global, self._at = event.step, self.run.next_row()
        self.run.log_at({**values, "global_step": event.step}, self._at)


def sync_tensorboard(run: Target) -> None:
    """Log what the writers of this process write from now on."""
    packages = [name for name in WRITERS if find_spec(name.partition(".")[0]) is not None]
    if not packages:
        messages.once("tensorboard", "sync_tensorboard needs TensorBoard: pip install tensorboard; nothing is followed")
    for name in packages:
        try:
            writer = import_module(name).EventFileWriter
            if not hasattr(writer.add_event, "_chiplog"):
                writer.add_event = _wrapped(writer.add_event)
        except Exception as error:
            messages.failed(f"following {name}", error)
    _following[:] = [one for one in _following if not one.run.is_finished()]
    _following.append(Follower(run))


def _wrapped(add_event: Callable[..., Any]) -> Callable[..., Any]:
    def add(self: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
        for one in _following:
            try:
                one.add(event)
            except Exception as error:
                messages.failed("sync_tensorboard", error)
        return add_event(self, event, *args, **kwargs)

    add._chiplog = True  # type: ignore[attr-defined]
    return add


def _value(value: Any) -> Any:
    """A value of an event: a number, a histogram, an image or text; None for what has no place in a row."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return value.simple_value
    if kind == "histo":
        return Histogram(np_histogram=(value.histo.bucket, [value.histo.min, *value.histo.bucket_limit]))
    if kind == "image":
        return Image(value.image.encoded_image_string)
    if kind == "tensor":
        return _tensor(value.tensor, value.metadata.plugin_data.plugin_name)
    return None


def _tensor(tensor: Any, plugin: str) -> Any:
    # Without a dimension, a string is text or the layout of a plugin.
    if len(tensor.string_val) == 1 and (tensor.tensor_shape.dim or plugin == "text"):
        return chiplog.Text(tensor.string_val[0].decode("utf-8", "backslashreplace"))
    if tensor.tensor_shape.dim:
        return None
    if tensor.dtype == _FLOAT:
        return tensor.float_val[0] if tensor.float_val else struct.unpack("<f", tensor.tensor_content)[0]
    if tensor.dtype == _DOUBLE:
        return tensor.double_val[0] if tensor.double_val else struct.unpack("<d", tensor.tensor_content)[0]
    return None

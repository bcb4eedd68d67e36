"""The values of TensorBoard's summaries, in the encodings of TensorFlow 1 and 2, torch and tensorboardX."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from chiplog.core import records
from chiplog.core.records import Plain
from chiplog.core.values.text import cut
from chiplog.store.foreign.protocol import Losses, MediaFile, nanoseconds
from chiplog.store.protobuf import reader
from chiplog.store.protobuf.reader import BadMessage

HUGE = 1e300  # TensorFlow's last bucket ends at the largest double
_DTYPES = {
    1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 9: "<i8", 10: "?", 17: "<u2", 19: "<f2", 22: "<u4",
    23: "<u8",
}  # fmt: skip
_BFLOAT16, _STRING = 14, 7
_FLOATS = {5: (4, "<f4"), 6: (8, "<f8")}  # float_val, double_val
_INTEGERS = (7, 10, 11, 16)  # int_val, int64_val, bool_val, uint32_val
_UNSIGNED = 17  # uint64_val
_STATES = {1: "finished", 2: "failed"}


@dataclass
class HparamsSession:
    """What summaries tell about the whole run."""

    config: dict[str, Plain] = field(default_factory=dict)
    group: str = ""
    state: str = ""
    plugins: dict[str, str] = field(default_factory=dict)  # of tags whose values are tensors


@dataclass
class Value:
    """One value of a summary: a number, or an item of another kind."""

    tag: str
    number: float | None = None
    item: records.Known | MediaFile | None = None


def values(summary: bytes, time: int, step: int, session: HparamsSession, losses: Losses) -> list[Value]:
    """The values of a summary; what has no place in a run is counted in `losses`."""
    decoded = []
    for number, _, data in reader.fields(summary):
        if number == 1:
            value = _value(reader.message(data), time, step, session, losses)
            if value is not None:
                decoded.append(value)
    return decoded


def _value(data: bytes, time: int, step: int, session: HparamsSession, losses: Losses) -> Value | None:
    parts = reader.by_number(data)
    tag = reader.text(parts.get(1))
    plugin = _plugin(parts.get(9), tag, session)
    if 2 in parts:
        return Value(tag, reader.double(parts[2]))
    if 5 in parts:
        edges, counts = _old_histogram(reader.message(parts[5]))
        return Value(tag, item=records.HistogramRecord(0, time, tag, edges, counts, step)) if counts else None
    if 4 in parts:
        return Value(
            tag, item=_image(tag, reader.message(reader.by_number(reader.message(parts[4])).get(4)), time, step)
        )
    if plugin == "hparams":
        return None
    if 8 in parts:
        return _tensor_value(reader.message(parts[8]), tag, plugin, time, step, losses)
    losses.add("audio" if 6 in parts else f"{plugin or 'unknown'} summaries")
    return None


def _plugin(metadata: int | bytes | None, tag: str, session: HparamsSession) -> str:
    """The plugin of a tag; only the first value of a tag has to name it."""
    if metadata is None:
        return session.plugins.get(tag, "")
    about = reader.by_number(reader.message(reader.by_number(reader.message(metadata)).get(1)))
    name = reader.text(about.get(1))
    if name == "hparams":
        _hparams(reader.message(about.get(2)), session)
    elif name:
        session.plugins[tag] = name
    return name


def _tensor_value(data: bytes, tag: str, plugin: str, time: int, step: int, losses: Losses) -> Value | None:
    dtype, shape, texts, numbers = _tensor(data)
    if dtype == _STRING:
        if plugin == "images" and len(texts) > 2:
            for image in texts[3:]:
                losses.add("further images of one summary") if image else None
            return Value(tag, item=_image(tag, texts[2], time, step))
        if plugin in ("text", ""):
            text = "\n".join(one.decode("utf-8", "backslashreplace") for one in texts)
            return Value(tag, item=records.TextRecord(0, time, tag.removesuffix("/text_summary"), cut(text), step))
    elif numbers is not None and (plugin == "scalars" or (not shape and not plugin)) and numbers.size == 1:
        return Value(tag, float(numbers.reshape(-1)[0]))
    elif numbers is not None and plugin == "histograms" and numbers.size % 3 == 0:
        rows = numbers.reshape(-1, 3)
        if not len(rows):
            return None
        edges = [*rows[:, 0].tolist(), float(rows[-1, 1])]
        return Value(tag, item=records.HistogramRecord(0, time, tag, edges, rows[:, 2].tolist(), step))
    losses.add(f"{plugin or 'unknown'} summaries")
    return None


def _tensor(data: bytes) -> tuple[int, list[int], list[bytes], NDArray[np.float64] | None]:
    """The type, shape, texts and numbers of a tensor; the numbers are None if their type is unknown."""
    dtype, shape, content = 0, [], b""
    texts: list[bytes] = []
    floats: list[NDArray[np.float64]] = []
    integers: list[int] = []
    for number, kind, value in reader.fields(data):
        if number == 1:
            dtype = reader.integer(value)
        elif number == 2:
            for field_number, _, dim in reader.fields(reader.message(value)):
                if field_number == 2:
                    shape.append(reader.integer(reader.by_number(reader.message(dim)).get(1)))
        elif number == 4:
            content = reader.message(value)
        elif number == 8:
            texts.append(reader.message(value))
        elif number in _FLOATS:
            size, code = _FLOATS[number]
            raw = reader.packed(kind, value, size)
            floats.append(np.frombuffer(raw[: len(raw) // size * size], code).astype(np.float64))
        elif number in _INTEGERS:
            integers += reader.varints(kind, value)
        elif number == _UNSIGNED:
            integers += [one % 2**64 for one in reader.varints(kind, value)]
        elif number == 13:  # half_val: the bits of each, as integers
            bits = np.array(reader.varints(kind, value), np.int64).astype(np.uint16)
            floats.append(_bfloat(bits) if dtype == _BFLOAT16 else bits.view(np.float16).astype(np.float64))
    if content and dtype == _BFLOAT16:
        floats = [_bfloat(np.frombuffer(content[: len(content) & ~1], np.uint16))]
    elif content and dtype in _DTYPES:
        width = np.dtype(_DTYPES[dtype]).itemsize
        floats = [np.frombuffer(content[: len(content) // width * width], _DTYPES[dtype]).astype(np.float64)]
    if integers:
        floats.append(np.array(integers, np.float64))
    numeric = dtype in _DTYPES or dtype == _BFLOAT16
    empty = np.zeros(0) if shape or not numeric else np.zeros(1)  # a default value is left out
    return dtype, shape, texts, (np.concatenate(floats) if floats else empty) if numeric else None


def _bfloat(bits: NDArray[np.uint16]) -> NDArray[np.float64]:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _old_histogram(data: bytes) -> tuple[list[float | str], list[int | float]]:
    """Edges and counts; TensorFlow stores upper limits, torch an empty bucket before the first."""
    low = high = 0.0
    limits, counts = b"", b""
    for number, kind, value in reader.fields(data):
        if number == 1:
            low = reader.double(value)
        elif number == 2:
            high = reader.double(value)
        elif number == 6:
            limits += reader.packed(kind, value, 8)
        elif number == 7:
            counts += reader.packed(kind, value, 8)
    if len(limits) % 8 or len(limits) != len(counts):
        raise BadMessage("a histogram is cut off")
    edges: list[float | str] = list(struct.unpack(f"<{len(limits) // 8}d", limits))
    amounts: list[int | float] = list(struct.unpack(f"<{len(counts) // 8}d", counts))
    if len(amounts) > 1 and amounts[0] == 0:
        amounts = amounts[1:]
    else:
        edges = [min(low, edges[0]) if edges else low, *edges]
    if len(edges) > 1 and isinstance(edges[-1], float) and edges[-1] > HUGE:
        edges[-1] = max(high, edges[-2])
    return edges, amounts


def _image(tag: str, data: bytes, time: int, step: int) -> MediaFile:
    for start, suffix, media in (
        (b"\x89PNG", ".png", "image/png"),
        (b"\xff\xd8", ".jpg", "image/jpeg"),
        (b"GIF8", ".gif", "image/gif"),
    ):
        if data.startswith(start):
            return MediaFile(tag, time, suffix, media, data=data, step=step)
    return MediaFile(tag, time, ".bin", "application/octet-stream", data=data, step=step)


def _hparams(content: bytes, session: HparamsSession) -> None:
    """The hyperparameters of a run, and how it ended."""
    parts = reader.by_number(content)
    for number, _, entry in reader.fields(reader.message(parts.get(3))):
        if number == 1:
            pair = reader.by_number(reader.message(entry))
            session.config[reader.text(pair.get(1))] = _plain(reader.message(pair.get(2)))
        elif number == 4:
            session.group = reader.text(entry)
    if 4 in parts:
        session.state = _STATES.get(reader.integer(reader.by_number(reader.message(parts[4])).get(1)), session.state)


def _plain(value: bytes) -> Plain:
    """A `google.protobuf.Value`."""
    for number, _, data in reader.fields(value):
        if number == 2:
            amount = reader.double(data)
            return int(amount) if amount.is_integer() and abs(amount) < 2**53 else amount
        if number == 3:
            return reader.text(data)
        if number == 4:
            return bool(data)
        if number == 6:
            return [_plain(reader.message(one)) for index, _, one in reader.fields(reader.message(data)) if index == 1]
    return None


def wall(data: int | bytes | None) -> int:
    return nanoseconds(reader.double(data))

"""Logged values that are more than a number: text, histograms, matrices and images."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chiplog.core import records
from chiplog.core.values.redact import redact_text
from chiplog.core.values.text import cut


class Media:
    """A value in a row that is not a number; becomes a record of its own kind."""

    __slots__ = ()
    kind: type[records.Record]

    def fields(self) -> dict[str, records.Plain]:
        """The fields of that record, except its name and step."""
        raise NotImplementedError

    def records(self, name: str) -> Iterable[tuple[type[records.Record], dict[str, records.Plain]]]:
        """The records it becomes, each as its kind and its fields except the step."""
        return [(self.kind, {"name": name, **self.fields()})]


class Text(Media):
    """Text, such as a sample of the model: `run.log({"sample": Text(output)})`."""

    __slots__ = ("text",)
    kind = records.TextRecord

    def __init__(self, text: str) -> None:
        self.text = text

    def fields(self) -> dict[str, records.Plain]:
        return {"text": redact_text(cut(str(self.text)))}


class Histogram(Media):
    """A distribution, binned immediately: from values, or from `counts` and `edges` (one more edge than counts)."""

    __slots__ = ("counts", "edges")
    kind = records.HistogramRecord

    def __init__(
        self,
        values: Any = None,
        bins: int = 64,
        *,
        counts: Sequence[float] | None = None,
        edges: Sequence[float] | None = None,
    ) -> None:
        if counts is not None and edges is not None:
            self.counts, self.edges = list(counts), [float(edge) for edge in edges]
            if len(self.edges) != len(self.counts) + 1:
                raise ValueError(f"a histogram of {len(self.counts)} counts has {len(self.counts) + 1} edges")
        else:
            self.counts, self.edges = _fast_bin(values, bins) or _bin(_flat(values), bins)

    def fields(self) -> dict[str, records.Plain]:
        return {"edges": self.edges, "counts": self.counts}


class Matrix(Media):
    """Numbers in rows and columns: `run.log({"moe/load": Matrix(counts)})`, rows first."""

    __slots__ = ("values",)
    kind = records.MatrixRecord

    def __init__(self, values: Any) -> None:
        rows = values.tolist() if hasattr(values, "tolist") else [_listed(row) for row in values]
        if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
            raise ValueError(f"a matrix has two dimensions, rows of numbers; this is {values!r:.60}")
        self.values: list[list[float]] = rows

    def fields(self) -> dict[str, records.Plain]:
        return {"values": self.values}


class Image(Media):
    """An image: a path, encoded bytes, any object with `save(file, format)`, or an array of 8-bit (or 0..1) pixels."""

    __slots__ = ("caption", "data", "media")
    kind = records.File

    def __init__(self, data: Any, caption: str = "") -> None:
        self.caption = caption
        self.data, self.media = _encode(data)


SUFFIXES = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}
_MAGIC = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}


def _encode(data: Any) -> tuple[bytes, str]:
    if isinstance(data, (str, Path)):
        data = Path(data).read_bytes()
    if isinstance(data, (bytes, bytearray)):
        for magic, media in _MAGIC.items():
            if data.startswith(magic):
                return bytes(data), media
        raise ValueError("image bytes are PNG, JPEG, GIF or WebP")
    if hasattr(data, "save"):
        import io

        buffer = io.BytesIO()
        data.save(buffer, format="PNG")
        return buffer.getvalue(), "image/png"
    return png(data), "image/png"


def png(pixels: Any) -> bytes:
    """An array of shape (height, width), (height, width, 1), (…, 3) or (…, 4) as PNG."""
    shape = tuple(int(length) for length in pixels.shape)
    if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] not in (1, 3, 4)):
        raise ValueError(f"an image has the shape (height, width) or (height, width, 1, 3 or 4), not {shape}")
    channels = shape[2] if len(shape) == 3 else 1
    data = _bytes(pixels)
    width = shape[1] * channels
    lines = b"".join(b"\0" + data[at : at + width] for at in range(0, len(data), width))
    import struct  # with zlib, a millisecond at import, and few runs have images
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", shape[1], shape[0], 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _bytes(pixels: Any) -> bytes:
    """Pixels as bytes: floats range from 0 to 1, integers from 0 to 255."""
    floats = "float" in str(pixels.dtype)
    pixels = pixels.detach().cpu().float().numpy() if hasattr(pixels, "detach") else pixels  # torch
    if hasattr(pixels, "astype"):
        scaled = (pixels * 255.0).round() if floats else pixels
        data: bytes = scaled.clip(0, 255).astype("uint8").tobytes()
        return data
    scale = 255.0 if floats else 1.0
    return bytes(min(255, max(0, round(value * scale))) for value in _flat(pixels))


def _listed(row: Any) -> Any:
    return list(row) if isinstance(row, Iterable) else row


def _flat(values: Any) -> list[float]:
    """The numbers of an array or of nested lists, in order."""
    if hasattr(values, "reshape"):
        flat: list[float] = values.reshape(-1).tolist()
        return flat
    out: list[float] = []
    for value in values:
        if isinstance(value, (list, tuple)) or hasattr(value, "reshape"):
            out.extend(_flat(value) if not hasattr(value, "ndim") or value.ndim else [float(value)])
        else:
            out.append(float(value))
    return out


def _fast_bin(values: Any, bins: int) -> tuple[list[float], list[float]] | None:
    """The same in numpy, for a numpy array; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(values, numpy.ndarray):
        return None
    finite = values[numpy.isfinite(values)].astype("float64")
    if not finite.size or finite.max() - finite.min() < 1e-300 * bins:
        return None
    counts, edges = numpy.histogram(finite, bins)
    return counts.tolist(), edges.tolist()


def _bin(values: list[float], bins: int) -> tuple[list[float], list[float]]:
    finite = [value for value in values if value - value == 0]
    low, high = (float(min(finite)), float(max(finite))) if finite else (0.0, 1.0)
    if high - low < 1e-300 * bins:  # all equal, or too close together to divide
        low, high = low - 0.5, high + 0.5
    if high - low == float("inf"):
        raise ValueError(f"values from {low:g} to {high:g} are too far apart for a histogram")
    counts = [0] * bins
    scale = bins / (high - low)
    for value in finite:
        counts[min(bins - 1, int((value - low) * scale))] += 1
    return list(counts), [low + (high - low) * i / bins for i in range(bins + 1)]

"""Pictures of any origin as files: paths, encoded bytes, pixels, Pillow images, figures of matplotlib and Plotly."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from math import ceil, sqrt
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from chiplog.core.values.host_arrays import on_host

if TYPE_CHECKING:
    import numpy as np

SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "text/html": ".html",
}
MOST = 100  # pictures of one value
CHANNELS = (1, 3, 4)  # grey, RGB, RGBA
BRIGHT = 8.0  # pixels in 0..1 may overshoot, but not to this; pixels in 0..255 below it would all be black
GAP = 2  # pixels between the pictures of a batch

_MAGIC = {b"\x89PNG": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif", b"RIFF": "image/webp"}


class EncodedPicture(NamedTuple):
    """The contents of a file, and their media type."""

    data: bytes
    media: str


def encode(value: Any) -> list[EncodedPicture]:
    """A value as pictures: several for a list of pictures, one for everything else; raises if it is not a picture."""
    if isinstance(value, (list, tuple)) and value and not _is_pixels(value[0]):
        return [_encode(one) for one in value[:MOST]]
    return [_encode(value)]


def is_picture(value: object) -> bool:
    """Whether a value can only be a picture: one of Pillow's, or a figure. An array may be anything."""
    return _is_pillow(value) or _is_matplotlib(value) or _is_plotly(value)


def png(pixels: Any) -> bytes:
    """Pixels as PNG: (height, width), with channels last or first, or a batch of those, which becomes a grid."""
    import struct  # with zlib, a millisecond at import, and few runs have images
    import zlib

    image = _bytes(_arranged(pixels))
    height, width, channels = image.shape
    lines = b"".join(b"\0" + line.tobytes() for line in image)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def _encode(value: Any) -> EncodedPicture:
    if isinstance(value, Mapping):
        raise ValueError(f"an image is a path, bytes, pixels or a figure, not {type(value).__name__}")
    if isinstance(value, (str, Path)):
        value = Path(value).read_bytes()
    if isinstance(value, (bytes, bytearray)):
        for magic, media in _MAGIC.items():
            if value.startswith(magic):
                return EncodedPicture(bytes(value), media)
        raise ValueError("image bytes are PNG, JPEG, GIF or WebP")
    if _is_plotly(value):  # a PNG would need a browser
        return EncodedPicture(value.to_html(include_plotlyjs="cdn").encode(), "text/html")
    buffer = io.BytesIO()
    if _is_matplotlib(value):
        _figure(value).savefig(buffer, format="png")
    elif hasattr(value, "save"):
        _save(value, buffer)
    else:
        return EncodedPicture(png(value), "image/png")
    return EncodedPicture(buffer.getvalue(), "image/png")


def _save(image: Any, buffer: io.BytesIO) -> None:
    try:
        image.save(buffer, format="PNG")
    except OSError:  # Pillow: PNG has no CMYK, HSV or floats
        image.convert("RGB").save(buffer, format="PNG")


# -- what it is --------------------------------------------------------------------------------------------------------


def _is_pillow(value: object) -> bool:
    return hasattr(type(value), "save") and hasattr(type(value), "getbands")


def _is_matplotlib(value: object) -> bool:
    """A figure, its axes, a grid of seaborn, or `pyplot`, which is its current figure."""
    if isinstance(value, ModuleType):
        return value.__name__ == "matplotlib.pyplot"
    return hasattr(type(value), "savefig") or (hasattr(type(value), "get_figure") and hasattr(type(value), "plot"))


def _is_plotly(value: object) -> bool:
    return hasattr(type(value), "to_html") and hasattr(type(value), "to_plotly_json")


def _figure(value: Any) -> Any:
    if isinstance(value, ModuleType):
        return value.gcf()
    return value if hasattr(value, "savefig") else value.get_figure()


def _is_pixels(row: object) -> bool:
    """Whether the first item of a list is a row of numbers: the list is then an image itself."""
    while isinstance(row, (list, tuple)) and row:
        row = row[0]
    return isinstance(row, (int, float))


# -- pixels ------------------------------------------------------------------------------------------------------------


def _arranged(pixels: Any) -> np.ndarray[Any, Any]:
    """Pixels as (height, width, channels). Where both orders are possible, torch has the channels first."""
    import numpy as np

    first = hasattr(pixels, "detach")
    array = np.asarray(on_host(pixels))
    if array.dtype == object:
        array = np.array(_listed(pixels))
    shape = array.shape
    if not array.size or not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"an image has pixels that are numbers; this is {type(pixels).__name__} of shape {shape}")
    if array.ndim == 2:
        return array[:, :, None]
    if array.ndim in (3, 4):
        if shape[-3] in CHANNELS and (first or shape[-1] not in CHANNELS):
            array = np.moveaxis(array, -3, -1)
        if array.shape[-1] in CHANNELS:
            return array if array.ndim == 3 else _grid(array[:MOST])
    raise ValueError(
        f"an image has the shape (height, width), with 1, 3 or 4 channels last or first, or is a batch; not {shape}"
    )


def _grid(batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A batch of images as one, in rows and columns."""
    import numpy as np

    count, height, width, channels = batch.shape
    columns = ceil(sqrt(count))
    rows = ceil(count / columns)
    grid = np.zeros((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), batch.dtype)
    for at, image in enumerate(batch):
        top, left = at // columns * (height + GAP), at % columns * (width + GAP)
        grid[top : top + height, left : left + width] = image
    return grid


def _bytes(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Pixels of 8 bits: floats range from 0 to 1 or to 255, integers to 255 or to the end of 16 bits."""
    import numpy as np

    if pixels.dtype == bool:
        scaled: Any = pixels * 255
    elif pixels.dtype == np.uint16:
        scaled = pixels >> 8
    elif np.issubdtype(pixels.dtype, np.floating):
        whole = np.nan_to_num(pixels.astype("float64"), nan=0.0)
        scaled = (whole if whole.max() > BRIGHT else whole * 255).round()
    else:
        scaled = pixels.real
    return np.ascontiguousarray(np.clip(scaled, 0, 255).astype("uint8"))


def _listed(value: Any) -> Any:
    is_list = isinstance(value, (Iterable, Sequence)) and not isinstance(
        value, (str, bytes)
    )  # a letter is a text again
    return [_listed(one) for one in value] if is_list else value

"""W&B's classes for what is more than a number. They are made in the training loop, so none of them raises."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chiplog
from chiplog.compat.wandb import messages
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.text import words

TYPES = {
    ".html": "text/html",
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".gif": "image/gif",
    ".ogg": "video/ogg",
    ".wav": "audio/wav",
    ".mp3": "audio/mpeg",
    ".flac": "audio/flac",
    ".json": "application/json",
}


class Image(chiplog.Image):
    """An image: a path, pixels, a Pillow image, a figure, a tensor, or another image. Boxes and masks are not kept."""

    def __init__(
        self,
        data_or_path: Any,
        mode: str | None = None,  # noqa: ARG002  pixels say what they are
        caption: str | None = None,
        grouping: int | None = None,  # noqa: ARG002
        classes: object = None,
        boxes: object = None,
        masks: object = None,
        file_type: str | None = None,  # noqa: ARG002  always PNG
        normalize: bool = True,  # noqa: ARG002
    ) -> None:
        if isinstance(data_or_path, chiplog.Image):
            super().__init__([], caption or data_or_path.caption)
            self.pictures, self.problem = data_or_path.pictures, data_or_path.problem
        else:
            super().__init__(data_or_path, caption)
        for name, value in (("boxes", boxes), ("masks", masks), ("classes", classes)):
            if value is not None:
                messages.not_kept(f"Image({name}=...)", "the image itself is kept")


class Histogram(chiplog.Histogram):
    """A distribution: of values, or from `np_histogram`, a pair of counts and edges."""

    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64) -> None:
        try:
            if np_histogram is not None:
                counts, edges = np_histogram
                super().__init__(counts=list(map(_plain, counts)), edges=list(map(_plain, edges)))
            else:
                super().__init__(on_host(sequence), bins=min(int(num_bins), 512))
        except Exception as error:
            super().__init__(counts=[], edges=[0.0])
            self.problem = words(error)

    @property
    def histogram(self) -> list[float]:
        return self.counts

    @property
    def bins(self) -> list[float]:
        return self.edges


class FileMedia:
    """Media that are kept as a file of the run, as it is."""

    suffix = ".bin"

    def __init__(self, data: bytes | None, path: Path | None = None, caption: str | None = None) -> None:
        self.data, self.path, self.caption, self.problem = data, path, str(caption or ""), ""
        if path is not None:
            self.suffix = path.suffix or self.suffix
            try:
                self.data = path.read_bytes()
            except OSError as error:
                self.problem = str(error)

    @property
    def media(self) -> str:
        return TYPES.get(self.suffix.lower(), "application/octet-stream")


class Html(FileMedia):
    """A page: its text, a file, or an open file."""

    suffix = ".html"

    def __init__(
        self, data: Any, inject: bool = True, data_is_not_path: bool = False, caption: str | None = None
    ) -> None:
        super().__init__(b"", None, caption)
        try:
            text = data.read() if hasattr(data, "read") else data
            is_path = isinstance(text, Path) or (isinstance(text, str) and len(text) < 4096 and text.endswith(".html"))
            if is_path and not data_is_not_path and Path(text).exists():
                self.data = Path(text).read_bytes()
            else:
                self.data = str(text).encode("utf-8", "backslashreplace")
        except Exception as error:
            self.problem = words(error)
        self.inject = inject


class Audio(FileMedia):
    """Sound: a file, or samples from -1 to 1 with their rate."""

    suffix = ".wav"

    def __init__(self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> None:
        self.sample_rate = sample_rate
        if isinstance(data_or_path, str | Path):
            super().__init__(None, Path(data_or_path), caption)
            return
        super().__init__(b"", None, caption)
        try:
            self.data = _wav(data_or_path, int(sample_rate or 44_100))
        except Exception as error:
            self.problem = words(error)


class Video(FileMedia):
    """A video: a file, encoded bytes, or frames (time, channel, height, width), which become an animated GIF."""

    suffix = ".gif"

    def __init__(
        self, data_or_path: Any, caption: str | None = None, fps: int | None = None, format: str | None = None
    ) -> None:
        self.fps = fps
        if isinstance(data_or_path, str | Path):
            super().__init__(None, Path(data_or_path), caption)
            return
        super().__init__(b"", None, caption)
        try:
            if isinstance(data_or_path, io.BytesIO | bytes):
                self.suffix = f".{format or 'mp4'}"
                self.data = data_or_path.getvalue() if isinstance(data_or_path, io.BytesIO) else data_or_path
            else:
                self.data = _gif(data_or_path, fps or 4)
        except Exception as error:
            self.problem = words(error)


class Plotly(chiplog.Image):
    """A figure of Plotly or matplotlib."""

    def __init__(self, val: Any) -> None:
        super().__init__(val)


class Object3D(FileMedia):
    """A 3D object: a file, or points, which are kept as JSON."""

    suffix = ".json"

    def __init__(self, data_or_path: Any, caption: str | None = None, **_: object) -> None:
        if isinstance(data_or_path, str | Path):
            super().__init__(None, Path(data_or_path), caption)
            return
        super().__init__(b"", None, caption)
        try:
            import json

            self.data = json.dumps(_listed(on_host(data_or_path))).encode()
        except Exception as error:
            self.problem = words(error)


class Molecule(Object3D):
    """A molecule: a file."""


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _listed(one) for key, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _wav(samples: Any, rate: int) -> bytes:
    """Samples as 16-bit WAV; (samples,) or (samples, channels)."""
    import wave

    import numpy as np

    array = np.asarray(on_host(samples))
    if np.issubdtype(array.dtype, np.floating):
        array = (np.clip(np.nan_to_num(array), -1, 1) * 32767).round()
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(array.shape[1] if array.ndim > 1 else 1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(array.astype("<i2").tobytes())
    return buffer.getvalue()


def _gif(frames: Any, fps: float) -> bytes:
    """Frames as an animated GIF; a batch of videos follow each other."""
    import numpy as np
    from PIL import Image as Pillow

    array = np.asarray(on_host(frames))
    if array.ndim == 5:
        array = array.reshape(-1, *array.shape[2:])
    if array.ndim != 4:
        raise ValueError(f"a video has the shape (time, channel, height, width), not {array.shape}")
    if np.issubdtype(array.dtype, np.floating):
        array = array * (255 if array.max() <= 1 else 1)
    pixels = np.moveaxis(np.clip(array, 0, 255).astype("uint8"), 1, -1)
    pictures = [Pillow.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in pixels]
    buffer = io.BytesIO()
    pictures[0].save(buffer, format="GIF", save_all=True, append_images=pictures[1:], duration=int(1000 / fps), loop=0)
    return buffer.getvalue()

"""W&B's classes for what is more than a number. They are made in the training loop, so none of them raises."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chiplog
from chiplog.compat.shared.file_media import FileMedia, gif, wav
from chiplog.compat.wandb import messages
from chiplog.core.values.host_arrays import on_host
from chiplog.core.values.text import words


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
            self.data = wav(data_or_path, int(sample_rate or 44_100))
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
                self.data = gif(data_or_path, fps or 4)
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

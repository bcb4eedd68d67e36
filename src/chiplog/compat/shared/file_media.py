"""Media that chiplog keeps as files of a run: sound, video, pages."""

from __future__ import annotations

import io
import os
from itertools import count
from pathlib import Path
from typing import Any

from chiplog.core import records
from chiplog.core.paths import file_name, make_dir
from chiplog.core.run import Run
from chiplog.core.values.host_arrays import on_host

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


def write(run: Run, name: str, media: FileMedia, step: float) -> None:
    """Write media that have no problem to the run directory, and record them."""
    if run.inert or media.data is None:
        return
    path = _create(run.dir, file_name(name, media.suffix), step, media.data)
    size, kind, caption = len(media.data), media.media, media.caption
    run.write(records.File, name=name, path=path, size=size, media=kind, caption=caption, step=step)


def wav(samples: Any, rate: int) -> bytes:
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


def gif(frames: Any, fps: float) -> bytes:
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


def _create(run: Path, name: str, step: float, data: bytes) -> str:
    """Write a new file under `files/media`; returns its path in the run."""
    base, dot, suffix = name.rpartition(".")
    for number in count():
        path = f"files/media/{base}-{step:g}{f'-{number}' if number else ''}{dot}{suffix}"
        make_dir((run / path).parent)
        try:
            with os.fdopen(os.open(run / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
            return path
        except FileExistsError:
            continue
    raise AssertionError

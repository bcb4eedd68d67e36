"""Media that are files of a run."""

from __future__ import annotations

import io
import wave
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import chiplog
from chiplog.compat.shared.file_media import FileMedia, gif, wav, write


def test_sound_is_16_bits_wide() -> None:
    """Samples are cut at -1 and 1; a second dimension is the channels."""
    with wave.open(io.BytesIO(wav(np.array([[0.0, 2.0], [-2.0, 0.5]]), 8000))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate(), file.getnframes()) == (2, 2, 8000, 2)
        assert np.frombuffer(file.readframes(2), "<i2").tolist() == [0, 32767, -32767, 16384]


def test_frames_move() -> None:
    """A batch of videos follow each other; another shape is an error that says what was given."""
    with Image.open(io.BytesIO(gif(np.random.default_rng(0).random((2, 3, 3, 4, 4)), 10))) as picture:
        assert picture.n_frames == 6 and picture.info["duration"] == 100
    with pytest.raises(ValueError, match=r"not \(4, 4\)"):
        gif(np.zeros((4, 4)), 10)


def test_files_of_one_name_do_not_replace_each_other(tmp_path: Path) -> None:
    """Two at the same step are two files; one that is not there has a problem."""
    with chiplog.init("p", id="r", dir=tmp_path, sinks="none") as run:
        for data in (b"one", b"two"):
            write(run, "a/b", FileMedia(data, caption="c"), 3)
    files = [one for one in chiplog.read(tmp_path / "p" / "r").records("file") if one.name == "a/b"]
    assert [(tmp_path / "p" / "r" / one.path).read_bytes() for one in files] == [b"one", b"two"]
    assert {(one.size, one.caption, one.step) for one in files} == {(3, "c", 3)}
    assert "No such file" in FileMedia(None, tmp_path / "missing.wav").problem

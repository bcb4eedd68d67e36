"""Paths that cannot be a log file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import chiplog
from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger, training_logger_context
from tests.frontends.surogate.logs import STEP


@pytest.mark.parametrize("resume", [False, True])
def test_a_directory_is_refused(tmp_path, resume):
    """At the constructor, with what to give instead; nothing in it is touched."""
    folder = tmp_path / "o"
    (folder / "checkpoint").mkdir(parents=True)
    with pytest.raises(chiplog.ChiplogError, match=r"o is a directory; give a file, such as .*o/training\.json"):
        TrainingRunLogger(folder, verbosity=LogVerbosity.SILENT, resume=resume)
    assert os.listdir(tmp_path) == ["o"] and (folder / "checkpoint").is_dir()


@pytest.mark.parametrize("path", ["", "."])
def test_the_working_directory_is_refused(tmp_path, path):
    """An empty path is this directory."""
    with pytest.raises(chiplog.ChiplogError, match="is a directory"):
        TrainingRunLogger(path, verbosity=LogVerbosity.SILENT)
    assert Path.cwd().exists() and os.listdir(tmp_path) == []


def test_an_output_folder_as_log_file_is_refused(tmp_path):
    """Also by the config."""
    Path("o").mkdir()
    Path("o/kept").touch()
    with (
        pytest.raises(chiplog.ChiplogError, match="is a directory"),
        training_logger_context({"log_file": "o", "output_dir": "o"}, verbosity=-2),
    ):
        pass
    assert os.listdir("o") == ["kept"] and os.listdir(tmp_path) == ["o"]


@pytest.mark.parametrize("kind", ["fifo", "device"])
def test_what_is_no_regular_file_gets_no_log(tmp_path, capsys, kind):
    """One message; it stays what it is, the run and the callback have everything, and nothing fails at the end."""
    path, got = tmp_path / "nowhere", []
    if kind == "fifo":
        os.mkfifo(path)
    else:
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("making a device needs root")
    before = path.stat()
    with TrainingRunLogger(path, callback=got.append, verbosity=LogVerbosity.SILENT) as made:
        made.log_step(1, *STEP)
    after, (out, said) = path.stat(), capsys.readouterr()
    assert (before.st_mode, before.st_ino) == (after.st_mode, after.st_ino) and os.listdir(tmp_path).count(
        "nowhere"
    ) == 1
    assert said.count("is not a regular file, so there is no log file") == 1 and len(said.splitlines()) == 1
    assert out == ""
    assert len(got) == 1 and chiplog.read(made.run.dir).series("train/loss").values.tolist() == [STEP[4]]

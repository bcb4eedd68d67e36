"""Processes beside the training."""

from __future__ import annotations

import os
from pathlib import Path

from chiplog.core.background import subprocesses


def test_a_process_has_its_own_session_and_the_same_path(tmp_path: Path) -> None:
    """A Ctrl-C does not reach it, and relative entries of PYTHONPATH still work."""
    (tmp_path / "beside.py").write_text("import os; print(os.getsid(0) == os.getpid(), os.getcwd())")
    path = os.path.relpath(tmp_path)
    with (tmp_path / "log").open("wb") as log:
        child = subprocesses.start("beside", environ={**os.environ, "PYTHONPATH": path}, log=log)
        assert child.wait(60) == 0
    assert (tmp_path / "log").read_text() == "True /\n"

"""The names of a run that are meant for users."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.core.engine.public_names import PUBLIC_NAMES
from chiplog.core.run import Run
from tests.core.run.begun import begin


def test_dir_lists_the_names_for_users(tmp_path: Path) -> None:
    """All exist, and each method has a docstring."""
    with begin(tmp_path) as run:
        assert dir(run) == sorted(PUBLIC_NAMES)
        assert [name for name in PUBLIC_NAMES if not hasattr(run, name)] == []
    plain = [name for name in PUBLIC_NAMES if callable(getattr(Run, name, None)) and not getattr(Run, name).__doc__]
    assert plain == []


def test_a_run_is_shown_with_its_name(tmp_path: Path) -> None:
    """While it is written, when it is read, and in a list of runs."""
    with chiplog.init("p", "baseline", dir=tmp_path, sinks="none") as run:
        assert f"p/{run.id} 'baseline': running" in repr(run)
    assert f"p/{run.id} 'baseline': finished" in repr(chiplog.read(run.dir))
    assert "'baseline'" in repr(chiplog.runs(tmp_path))

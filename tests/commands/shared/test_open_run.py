"""Opening a run for a verb."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import chiplog
from chiplog.commands.shared.open_run import open_run


def test_a_run_is_opened_with_the_users_cache(tmp_path: Path) -> None:
    """Nothing is kept there of a run that is small."""
    with chiplog.init("p", sinks="none", dir=tmp_path) as run:
        run.log({"loss": 1.0})
    stored = open_run(run.dir, Namespace(environ={"XDG_CACHE_HOME": str(tmp_path / "cache")}))
    assert stored.names() == ["loss"] and not (tmp_path / "cache").exists()

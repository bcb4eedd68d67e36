"""A logger as Surogate has it."""

from __future__ import annotations

import pytest

from chiplog.frontends.surogate import LogVerbosity, TrainingRunLogger


@pytest.fixture
def logger(tmp_path):
    """A silent one, in the test's directory."""
    made = TrainingRunLogger(tmp_path / "log.json", verbosity=LogVerbosity.SILENT)
    yield made
    made.close()

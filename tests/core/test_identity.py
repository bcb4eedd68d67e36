"""The identity of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.identity import Identity


def test_an_identity_is_fixed_and_knows_its_files() -> None:
    """A sink cannot change it."""
    identity = Identity("p", "r", Path("runs/p/r"), "r", "launch")
    assert identity.files == Path("runs/p/r/files") and (identity.rank, identity.world) == (0, 1)
    with pytest.raises(AttributeError):
        identity.rank = 1  # type: ignore[misc]

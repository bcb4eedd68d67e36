"""Replacing files."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.views.replace_file import replacing


def test_a_file_is_replaced_at_the_end(tmp_path: Path) -> None:
    """Readers see the old content until then."""
    path = tmp_path / "a"
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new" and list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(OSError, match="full"), replacing(path) as temporary:
        temporary.write_text("half")
        raise OSError("full")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]

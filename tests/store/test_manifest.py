"""`run.json`, which lists read instead of journals."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.files import writing
from chiplog.store import manifest
from chiplog.store.manifest import Manifest


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    """As JSON that people can read, for the owner only."""
    about = Manifest(project="p", id="r", name="n", created=5, tags=("a",), config={"lr": 0.1})
    manifest.save(tmp_path, about)
    assert manifest.load(tmp_path) == about
    assert b'\n  "project": "p"' in (tmp_path / "run.json").read_bytes()
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("data", [None, b"", b'{"id": 3}', b"[" * 10_000])
def test_without_a_valid_file_the_path_names_the_run(tmp_path: Path, data: bytes | None) -> None:
    """A list shows a damaged run, too."""
    run = tmp_path / "p" / "r"
    run.mkdir(parents=True)
    if data is not None:
        (run / "run.json").write_bytes(data)
    assert manifest.load(run) == Manifest(project="p", id="r", name="r")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """And nothing beside it."""
    path = tmp_path / "state"
    path.mkdir()
    with pytest.raises(OSError, match="state"):
        writing.replace(tmp_path, "state", b"new")  # a directory cannot be replaced by a file
    assert [one.name for one in tmp_path.iterdir()] == ["state"]

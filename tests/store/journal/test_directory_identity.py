"""Whether a run directory is still the run's own."""

from __future__ import annotations

import shutil
from pathlib import Path

from chiplog.store import manifest
from chiplog.store.journal.directory_identity import DirectoryIdentity
from chiplog.store.manifest import Manifest


def test_another_run_in_its_place_is_noticed(tmp_path: Path) -> None:
    """A change of the manifest is not another run; another time of creation is."""
    run = tmp_path / "run"
    run.mkdir()
    own = DirectoryIdentity(run)
    assert own.check()
    manifest.save(run, Manifest(created=1))
    assert own.check()
    manifest.save(run, Manifest(created=1, name="renamed"))
    assert own.check()
    run.rename(tmp_path / "moved")
    assert not own.check()
    run.mkdir()
    assert not own.check()  # it has not written its manifest yet
    manifest.save(run, Manifest(created=2))
    assert not own.check()
    shutil.rmtree(run)
    (tmp_path / "moved").rename(run)
    assert own.check()


def test_a_directory_without_its_manifest_is_still_its_own(tmp_path: Path) -> None:
    """Somebody deletes `run.json`: the run goes on in its directory."""
    manifest.save(tmp_path, Manifest(created=1))
    own = DirectoryIdentity(tmp_path)
    (tmp_path / "run.json").unlink()
    assert own.check()

"""Where the services of a user's own runs are."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from chiplog.sinks.delivery import destinations
from chiplog.sinks.delivery.destinations import destination_of, enrol
from chiplog.store import manifest
from chiplog.store.journal import cursors
from chiplog.store.manifest import Manifest


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run = tmp_path / "runs" / "p" / "r"
    run.mkdir(parents=True)
    manifest.save(run, Manifest("p", "r"))
    return run


def test_a_service_is_noted_for_the_owner_only(run: Path, tmp_path: Path) -> None:
    """With its options but no secret, outside of the run, whose cursor has no address."""
    environ = {"HOME": str(tmp_path / "home")}
    enrol(run, "wandb", {"entity": "us", "api_key": "hunter2hunter2"}, "/work", environ)
    enrol(run, "otel", {"endpoint": "http://here"}, "/work", environ)
    destination = destination_of(run, environ)
    assert destination is not None and destination.cwd == "/work"
    assert destination.services["otel"] == {"endpoint": "http://here"}
    (file,) = (tmp_path / "home" / ".local" / "state" / "chiplog" / "destinations").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and b"hunter2" not in file.read_bytes()
    assert b"here" not in cursors.cursor_path(run, "otel").read_bytes()
    assert cursors.services(run) == ["otel", "wandb"]


def test_it_is_that_of_this_run_at_this_path(run: Path, tmp_path: Path) -> None:
    """A copy, a run that was moved, and another run in its place have none; a linked path has."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    enrol(run, "otel", {}, "", environ)
    (tmp_path / "linked").symlink_to(tmp_path / "runs")
    assert destination_of(tmp_path / "linked" / "p" / "r", environ) is not None
    moved = run.rename(run.with_name("moved"))
    assert destination_of(moved, environ) is None
    run.mkdir()
    manifest.save(run, Manifest("p", "another"))
    assert destination_of(run, environ) is None


def test_a_state_directory_that_cannot_be_written_is_reported(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run goes on, and the message has the command for later."""
    (tmp_path / "state").write_text("a file")
    enrol(run, "otel", {}, "", {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert f"chiplog sync {run} --to otel" in capsys.readouterr().err


def test_what_is_gone_for_long_is_forgotten(run: Path, tmp_path: Path) -> None:
    """But not what may be on a disk that is away for a day."""
    environ = {"XDG_STATE_HOME": str(tmp_path / "state")}
    enrol(run, "otel", {}, "", environ)
    folder = tmp_path / "state" / "chiplog" / "destinations"
    run.rename(run.with_name("moved"))
    destinations.forget_old(environ)
    (file,) = folder.iterdir()
    os.utime(file, (0, time.time() - 2 * destinations.KEPT))
    destinations.forget_old(environ)
    assert not list(folder.iterdir())

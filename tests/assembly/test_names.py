"""Names of projects and runs, and how a run is continued by them."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import chiplog
from tests.support.destinations import enrolled


def test_any_text_is_a_project_and_has_a_directory_of_its_own(tmp_path: Path) -> None:
    """It is shown as given, the directory is inside the given one, and a token continues the run."""
    names = [
        "my_project",
        "MyProject",
        "CIFAR10",
        "gpt2.finetune",
        "übung",
        "team/x",
        "team-x",
        "team x",
        "..",
        "journal",
    ]
    folders = set()
    for name in names:
        run = chiplog.init(name, dir=tmp_path, name=name, id="a/b", sinks="none", compact=False)
        run.finish()
        folders.add(run.dir)
        assert run.dir.parent.parent == tmp_path
        with chiplog.init(dir=tmp_path, resume=run.resume_token(), sinks="none", compact=False) as again:
            assert (again.dir, again.project, again.id, again.name) == (run.dir, name, "a/b", name)
        (stored,) = chiplog.runs(tmp_path, project=name)
        assert (stored.project, stored.id, stored.name) == (name, "a/b", name)
        assert chiplog.read(f"{name}/a/b", dir=tmp_path).path == run.dir
    assert len(folders) == len(names)
    assert {"my_project", "MyProject", "CIFAR10", "gpt2.finetune"} <= {path.parent.name for path in folders}


@pytest.mark.parametrize("resume", ["auto", True])
def test_auto_continues_the_newest_run_unless_it_finished(tmp_path: Path, resume: object) -> None:
    """Of the same project and name."""

    def start(**more: object) -> chiplog.Run:
        return chiplog.init("p", dir=tmp_path, sinks="none", compact=False, **more)  # type: ignore[arg-type]

    failed = start(name="x")
    failed.finish(state="failed")
    other = start(name="y", resume=resume)
    other.finish()
    continued = start(name="x", resume=resume)
    continued.finish()
    fresh = start(name="x", resume=resume)
    fresh.finish()
    assert continued.id == failed.id and len({failed.id, other.id, fresh.id}) == 3
    for _ in range(2):
        with start(id="mine", resume="allow") as run:
            assert run.id == "mine"


@pytest.mark.parametrize("relay", ["auto", "thread"])
def test_an_offline_run_is_left_to_sync(tmp_path: Path, relay: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No service is contacted; the command is named, and knows the services."""
    with chiplog.init("p", dir=tmp_path, sinks="wandb", mode="offline", relay=relay) as run:
        run.log({"loss": 1.0})
    assert list(enrolled(run.dir)) == ["wandb"] and not (run.dir / "relay").exists()
    assert f"chiplog sync {run.dir}" in capsys.readouterr().err


def test_help_describes_every_parameter_of_init() -> None:
    """And names the settings that are not parameters."""
    described = inspect.getdoc(chiplog.init) or ""
    for name in inspect.signature(chiplog.init).parameters:
        assert f"\n{name}: " in described

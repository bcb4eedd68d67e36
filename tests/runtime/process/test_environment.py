"""What a run says about where it is."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog.cli import main
from chiplog.runtime.process import environment

ME = ("-c", "user.name=x", "-c", "user.email=x@example.org")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *ME, *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def facts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = environment.gather(os.environ, ["python", "train.py"], folder)["git"]
    return found


def test_the_platform_is_named_as_python_names_it(tmp_path: Path) -> None:
    """Without the process that Python starts for it."""
    assert environment.gather({}, ["train.py"], tmp_path)["platform"] == platform.platform()


def test_the_commit_is_known_and_whether_files_were_changed(tmp_path: Path) -> None:
    """In a repository without a commit, and outside of any, nothing is said."""
    assert facts(tmp_path) == {}
    git(tmp_path, "init", "--initial-branch=trunk")
    assert facts(tmp_path) == {}
    (tmp_path / "train.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert facts(tmp_path) == {"commit": commit, "branch": "trunk", "dirty": False}
    (tmp_path / "train.py").write_text("2")
    git(tmp_path, "remote", "add", "origin", "https://me:hunter2@example.org/x.git")
    git(tmp_path, "checkout", "--detach")
    found = facts(tmp_path)
    assert (found["commit"], found["branch"], found["dirty"]) == (commit, "HEAD", True)
    assert "example.org/x.git" in found["remote"] and "hunter2" not in found["remote"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository whose tracked files have changed, with secrets in the changes."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=tmp_path, check=True)

    git("init", "-q")
    (tmp_path / ".gitignore").write_text("runs\n")
    (tmp_path / "conf.yaml").write_text("lr: 0.1\npassword: old-pass-word\n")
    (tmp_path / "train.py").write_text("x = 1\n")
    git("add", "-A")
    git("commit", "-qm", "first")
    (tmp_path / "conf.yaml").write_text("lr: 0.2\npassword: new-pass-word\n")
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----\n"
    (tmp_path / "train.py").write_text(f"x = 2\napi_key = 'very-secret'\n{key}y = 3\n")
    return tmp_path


def test_uncommitted_changes_and_all_versions_are_kept_with_a_run(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are files of the run, which `show` names, and the secrets among the changes are hidden."""
    with chiplog.init(project="lab", sinks="none") as run:
        run.log({"loss": 1.0})
    kept = run.dir / "files" / "environment"
    diff = (kept / "git.diff").read_text()
    assert "+lr: 0.2" in diff and "+x = 2" in diff and "+y = 3" in diff
    assert not any(secret in diff for secret in ("pass-word", "very-secret", "MIIEvQ"))
    assert any(line.startswith("msgspec==") for line in (kept / "packages.txt").read_text().splitlines())
    assert (kept / "git.diff").stat().st_mode & 0o077 == 0
    assert main(["show", "latest"]) == 0
    shown = capsys.readouterr().out
    assert "files/environment/git.diff" in shown and "files/environment/packages.txt" in shown


def test_a_long_diff_is_cut(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end of a line, with a mark."""
    monkeypatch.setattr(environment, "LONGEST_DIFF", 200)
    lines = environment.diff(repository, os.environ).splitlines()
    assert lines[-1] == environment.CUT and sum(map(len, lines[:-1])) <= 200


def test_there_is_no_diff_outside_a_repository(tmp_path: Path) -> None:
    """Nor where git fails."""
    assert environment.diff(tmp_path / "nowhere", os.environ) == ""


def test_versions_come_from_the_folders_that_python_imports_from(tmp_path: Path) -> None:
    """The first folder wins, as for an import; what is not there is passed over."""
    for name in ("one/torch-2.1.0+cu121.dist-info", "two/torch-1.0.dist-info", "two/my_pkg-3.dev1-py3.11.egg-info"):
        (tmp_path / name).mkdir(parents=True)
    folders = [str(tmp_path / name) for name in ("none", "one", "two")]
    assert environment.packages(folders) == ["my-pkg==3.dev1", "torch==2.1.0+cu121"]

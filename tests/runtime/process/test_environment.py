"""What a run says about where it is."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

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

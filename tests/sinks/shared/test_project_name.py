"""The default name of a project at a service."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.identity import Identity
from chiplog.sinks.shared import project_name


@pytest.mark.parametrize(
    ("project", "variables", "expected"),
    [
        ("tiny-lm", {}, "tiny-lm"),
        ("tiny-lm", {"WB_PROJECT": "a", "WANDB_PROJECT": "b", "WB_PROJECT_NAME": "c"}, "a"),
        ("default", {"WANDB_PROJECT": "b", "WB_PROJECT_NAME": "c"}, "b"),
        ("default", {"WB_PROJECT_NAME": "c"}, "c"),
        ("default", {}, "llm.train"),
    ],
)
def test_the_project_has_a_name(tmp_path: Path, project: str, variables: dict[str, str], expected: str) -> None:
    """Variables first, then what the run was called, then the script."""
    identity = Identity(project, "run", tmp_path, "run", "", script="/home/me/llm/train.py")
    assert project_name.project(identity, variables) == expected


@pytest.mark.parametrize(
    ("path", "expected"), [("/a/llm/train.py", "llm.train"), ("train.py", ""), ("", ""), ("/a/llm/ipython", "")]
)
def test_a_script_names_a_project_by_its_folder(path: str, expected: str) -> None:
    """Empty without a folder or a suffix, as for a prompt."""
    assert project_name.script_name(path) == expected

"""Files of a run: what `save` copies, and when."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import chiplog
import chiplog.compat.wandb as wandb
from chiplog.core.records import File
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def run() -> Iterator[wandb.Run]:
    yield wandb.init(id="run")
    wandb.finish()


def copies() -> dict[str, list[str]]:
    """The texts of the copies that the run has so far, by the names of the files."""
    stored = chiplog.read("run")
    texts = defaultdict[str, list[str]](list)
    for one in stored.records("file"):
        if isinstance(one, File) and "artifacts/" in one.path:
            texts[one.name].append((stored.path / one.path).read_text())
    return dict(texts)


def saved(*names: str, **options: str) -> None:
    """Save files and wait for the copies, which are made in the background."""
    for name in names:
        Path(name).write_text("early")
        wandb.save(name, **options)
    if options.get("policy") != "end":
        wait_for(lambda: copies().keys() >= set(names))


def test_a_file_that_has_not_changed_is_not_copied_again() -> None:
    """A checkpoint may fill half of the disk; one that has changed is copied at the end."""
    saved("same", "changed", "touched")
    Path("changed").write_text("later")
    os.utime("touched", (1.7e9, 1.7e9))
    wandb.finish()
    assert copies() == {"same": ["early"], "changed": ["early", "later"], "touched": ["early", "early"]}


def test_the_policy_decides_when() -> None:
    """A file that is gone by the end has only its first copy."""
    saved("now", policy="now")
    saved("end", policy="end")
    saved("gone")
    for name in ("now", "end"):
        Path(name).write_text("later")
    Path("gone").unlink()
    wandb.finish()
    assert copies() == {"now": ["early"], "end": ["later"], "gone": ["early"]}


def test_names_are_relative_to_the_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Folders are walked by the pattern only, and a pattern without files is reported where it was to be copied now."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c.txt").write_text("deep")
    assert wandb.save("a/**", base_path="a") == ["a", "a/b", "a/b/c.txt"]
    assert wandb.save("absent", policy="now") == []
    wandb.finish()
    assert copies() == {"b/c.txt": ["deep"]}
    assert "save('absent') matches no file" in capsys.readouterr().err

"""Paths that chiplog creates."""

from __future__ import annotations

from pathlib import Path

import pytest

import chiplog
from chiplog.core import paths
from chiplog.core.paths import cache_dir, file_name


@pytest.mark.parametrize(
    ("name", "suffix", "expected"),
    [
        ("report.md", ".md", "report.md"),
        ("dataset", ".bin", "dataset.bin"),
        ("plots/train/loss", ".png", "plots/train/loss.png"),
        ("archive.tar.gz", ".gz", "archive.tar.gz"),
        ("Photo.PNG", ".png", "Photo.PNG"),
        ("../../etc/passwd", "", "etc/passwd"),
        ("/", ".txt", "file.txt"),
        ("a b/c\0d", "", "a-b/c-d"),
    ],
)
def test_a_file_has_the_name_it_was_given(name: str, suffix: str, expected: str) -> None:
    """With its suffix, and inside the folder it is for."""
    assert file_name(name, suffix) == expected


def test_a_file_name_is_safe_and_short() -> None:
    """Neither a path, nor a hidden name of dots, nor longer than file systems allow."""
    assert [paths.safe_name(text) for text in ("a/b", "..", "x" * 300)] == ["a-b", "--", "x" * 100]


def test_directories_of_a_run_are_for_their_owner(tmp_path: Path) -> None:
    """With all missing parents."""
    paths.make_dir(tmp_path / "a" / "b")
    assert [path.stat().st_mode & 0o777 for path in (tmp_path / "a", tmp_path / "a" / "b")] == [0o700, 0o700]


def test_what_is_inside_a_run_is_private(tmp_path: Path) -> None:
    """Everything else follows the umask."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0})
    inside, outside = run.dir / "files" / "plots" / "loss.png", tmp_path / "plots" / "loss.png"
    assert [paths.in_run(path) for path in (inside, outside)] == [True, False]
    assert [paths.file_mode(path) for path in (inside, outside)] == [0o600, 0o666]


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    """By the XDG rule: an absolute path, or ~/.cache."""
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "chiplog"
    assert cache_dir({"XDG_CACHE_HOME": "relative"}) == cache_dir({}) == Path("~/.cache/chiplog").expanduser()

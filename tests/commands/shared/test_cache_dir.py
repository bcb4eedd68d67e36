"""The cache directory."""

from __future__ import annotations

from pathlib import Path

from chiplog.commands.shared.cache_dir import cache_dir


def test_the_cache_is_the_users(tmp_path: Path) -> None:
    """By the XDG rule: an absolute path, or ~/.cache."""
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "chiplog"
    assert cache_dir({"XDG_CACHE_HOME": "relative"}) == cache_dir({}) == Path("~/.cache/chiplog").expanduser()

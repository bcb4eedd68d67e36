"""Other users of the machine, as real ones: commands under another uid, in a directory that all can enter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ALICE, BOB = 61234, 61235  # nobody has these


@contextmanager
def shared_directory() -> Iterator[Path]:
    """A directory that every user may enter; `tmp_path` is private."""
    if os.geteuid() != 0:
        pytest.skip("becoming another user needs root")
    path = Path(tempfile.mkdtemp(prefix="chiplog-shared-"))
    path.chmod(0o755)
    for user in (ALICE, BOB):
        (path / f"home-{user}").mkdir(mode=0o700)
        os.chown(path / f"home-{user}", user, user)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def give(path: Path, user: int) -> None:
    """Make a user the owner of a directory and everything in it."""
    for one in (path, *path.rglob("*")):
        os.chown(one, user, user, follow_symlinks=False)


def environ(shared: Path, user: int) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CHIPLOG_"))}
    return {**kept, "HOME": str(shared / f"home-{user}"), "PYTHONDONTWRITEBYTECODE": "1", "NO_COLOR": "1"}


def start(shared: Path, user: int, *command: str, group: int | None = None, **more: str) -> subprocess.Popen[str]:
    """A command that runs as a user."""
    drop = ["setpriv", f"--reuid={user}", f"--regid={user if group is None else group}", "--clear-groups", "--"]
    return subprocess.Popen(
        [*_reachable(shared), *drop, *command], env={**environ(shared, user), **more}, cwd=shared,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def run(shared: Path, user: int, *command: str, group: int | None = None) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a command that runs as a user."""
    with start(shared, user, *command, group=group) as process:
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err


def chiplog(shared: Path, user: int, *args: str, group: int | None = None) -> tuple[int, str, str]:
    return run(shared, user, sys.executable, "-m", "chiplog", *args, group=group)


def _reachable(shared: Path) -> list[str]:
    """What makes Python and this project reachable for all users, in a mount namespace: root's home may be private."""
    needed = [Path(one).resolve() for one in (sys.base_prefix, sys.prefix, Path(__file__).parents[2])]
    private = {
        next((up for up in reversed(one.parents) if up.stat().st_mode & 0o005 != 0o005), None): one for one in needed
    }
    private.pop(None, None)
    if not private:
        return []
    script = ["set -e"]
    kept = [one for one in needed if any(up in one.parents for up in private if up)]
    for number, one in enumerate(kept):
        script.append(f"mkdir -p {shared}/.kept-{number}; mount --bind {one} {shared}/.kept-{number}")
    script += [f"mount -t tmpfs -o mode=755 tmpfs {up}" for up in private]
    script += [f"mkdir -p {one}; mount --bind {shared}/.kept-{number} {one}" for number, one in enumerate(kept)]
    return ["unshare", "--mount", "sh", "-c", "; ".join([*script, 'exec "$@"']), "sh"]

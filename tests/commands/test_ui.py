"""`chiplog ui` from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.commands.conftest import Cli


def test_it_prints_its_address_and_serves(tmp_path: Path) -> None:
    """The first line of standard output is where it is; the token is in the fragment, and ^C ends it."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "chiplog", "ui", str(tmp_path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        address, _, token = process.stdout.readline().strip().partition("#token=")
        assert address.startswith("http://127.0.0.1:") and len(token) >= 24
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        asked = urllib.request.Request(f"{address}api/runs", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert b'"runs":[]' in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_directory_that_is_not_there_is_said(cli: Cli, tmp_path: Path) -> None:
    """A slip of the pen would else be a page without runs."""
    code, _, err = cli("ui", tmp_path / "rums", "--no-browser")
    assert code == 2 and "rums" in err and "chiplog.init(dir=" in err


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "node17"])
def test_others_are_let_in_only_with_a_token(cli: Cli, host: str) -> None:
    """A mistake at the door says what to do, and nothing listens."""
    code, _, err = cli("ui", "--host", host)
    assert code == 2 and "--token-file" in err


def test_a_token_that_others_can_read_is_refused(cli: Cli, tmp_path: Path) -> None:
    """So is one that is too short."""
    file = tmp_path / "token"
    file.write_text("0123456789abcdef0123")
    file.chmod(0o644)
    code, _, err = cli("ui", "--token-file", file)
    assert code == 2 and "chmod 600" in err
    file.chmod(0o600)
    file.write_text("short")
    code, _, err = cli("ui", "--token-file", file)
    assert code == 2 and "at least 16" in err

"""`chiplog sync` and services that mean harm: keys follow no redirect, are printed nowhere, and answers are bounded."""

from __future__ import annotations

import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

import chiplog
from chiplog.sinks.delivery.secrets import secrets_of
from tests.faults.test_services import Hostile, endless

KEY = "swordfish7given8to9amsc"
SYNC = """
import sys
from chiplog.commands.sync import verb
from chiplog.cli import main
verb.PATIENCE = float(sys.argv[1])
sys.argv = ["chiplog", *sys.argv[2:]]
main()
"""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    with chiplog.init("p", dir=tmp_path / "runs", id="r", sinks="none") as run:
        run.log({"loss": 1.0}, step=1)
    return run.dir


def sync(run: Path, uri: str, home: Path, patience: int = 2) -> str:
    """What `chiplog sync` prints, with the key in the user's `~/.amsc.env`."""
    home.mkdir(exist_ok=True)
    (home / ".amsc.env").write_text(f"AMSC_API_KEY={KEY}\nMLFLOW_TRACKING_TOKEN={KEY}-token\n")
    environ = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state")}
    words = [sys.executable, "-c", SYNC, str(patience), "sync", str(run), "--to", "mlflow", "--set", f"uri={uri}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=110, check=False, env=environ, cwd=run.parent)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_key_of_mlflow_follows_no_redirect(run: Path, tmp_path: Path) -> None:
    """`X-API-Key` is a header of ours, which `requests` would send to any host that a server names."""
    with Hostile(lambda request: (request.send_response(200), request.end_headers())[0]) as other:

        def redirect(request: BaseHTTPRequestHandler) -> None:
            request.send_response(307)
            request.send_header("Location", other.url.replace("127.0.0.1", "localhost") + request.path)
            request.end_headers()

        with Hostile(redirect) as server:
            printed = sync(run, server.url, tmp_path / "home")
            assert any(asked.get("x-api-key") == KEY for asked in server.asked)
        assert not other.asked and "307" in printed


def test_a_key_from_a_file_that_a_server_echoes_is_printed_nowhere(run: Path, tmp_path: Path) -> None:
    """Not only the secrets of the environment: those of `.env` and `~/.amsc.env`, too."""

    def echo(request: BaseHTTPRequestHandler) -> None:
        request.send_response(401)
        request.send_header("Content-Type", "text/plain")
        request.end_headers()
        sent = request.headers
        request.wfile.write(f"the key {sent.get('X-API-Key')} and {sent.get('Authorization')} are wrong".encode())

    with Hostile(echo) as server:
        printed = sync(run, server.url, tmp_path / "home")
        assert any(asked.get("x-api-key") == KEY for asked in server.asked)
    assert "are wrong" in printed and KEY not in printed
    for file in run.rglob("*"):
        assert file.is_dir() or KEY.encode() not in file.read_bytes(), file


def test_an_answer_without_end_is_bounded_in_sync(run: Path, tmp_path: Path) -> None:
    """As in the relay: 64 MiB of an answer are enough."""
    with Hostile(endless) as server:
        assert "the answer is longer than 67,108,864 bytes" in sync(run, server.url, tmp_path / "home", patience=40)


def test_secrets_come_from_everywhere_a_sink_may_find_them(tmp_path: Path) -> None:
    """The environment, a project's `.env`, the user's own file, and options; the longest first."""
    (tmp_path / ".env").write_text("MY_TOKEN=from-the-project\n")
    (tmp_path / ".amsc.env").write_text("AMSC_API_KEY=from-the-home-file\n")
    options = {"uri": "http://me:from-the-address@host", "api_key": "an-option", "headers": {"X-Any": "a-header"}}
    secrets = secrets_of(
        options, str(tmp_path), {"HOME": str(tmp_path), "A_SECRET": "of-the-environment", "PWD": "/here/it"}
    )
    expected = [
        "of-the-environment",
        "from-the-home-file",
        "from-the-project",
        "from-the-address",
        "an-option",
        "a-header",
    ]
    assert sorted(secrets) == sorted(expected) and len(secrets[0]) == 18

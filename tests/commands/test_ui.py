"""`chiplog ui` from the command line."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from chiplog.core import records
from tests.commands.conftest import Cli
from tests.views.web import stores


def test_it_prints_its_address_and_serves(tmp_path: Path) -> None:
    """The first line of standard output is where it is, the second which file has the token, and ^C ends it."""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "chiplog", "ui", str(tmp_path), "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        address, token = _entered(process)
        assert address.startswith("http://127.0.0.1:") and len(token) >= 24
        assert token not in Path(f"/proc/{process.pid}/cmdline").read_text()
        asked = urllib.request.Request(f"{address}api/runs", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            assert b'"runs":[]' in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_at_once_while_pages_are_open(tmp_path: Path, sign: signal.Signals) -> None:
    """An open page, an event stream, a reader of nothing and a long read keep nobody waiting."""
    journal = stores.Journal(stores.make_run(tmp_path / "runs", "p", "large"))
    journal.add(records.File, name="f", path="files/f", media="text/plain", size=1)
    journal.add(records.Step, step=1, metrics={f"train/{n}": n / 7 for n in range(4000)})
    journal._lines += [journal._lines[-1]] * 500  # takes seconds to read
    journal.write()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "chiplog", "ui", str(tmp_path / "runs"), "--no-browser"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as process,
        contextlib.ExitStack() as held,
    ):
        assert process.stdout is not None and process.stderr is not None
        address, token = _entered(process)
        port = int(address.rstrip("/").rpartition(":")[2])

        def ask(path: str) -> socket.socket:
            one = held.enter_context(socket.create_connection(("127.0.0.1", port), 20))
            one.sendall(
                f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
            )
            return one

        runs = ask("/api/runs").recv(65536)
        key = runs.partition(b'"key":"')[2].partition(b'"')[0].decode()
        assert ask("/").recv(10) == ask(f"/api/live?runs={key}").recv(10) == b"HTTP/1.1 2"
        reads = [ask(f"/api/samples?run={key}&table=none") for _ in range(3)]
        socket.create_connection(("127.0.0.1", port)).detach()  # says nothing
        assert ask("/").recv(10) == b"HTTP/1.1 2"  # so the requests before it have arrived
        assert select.select(reads, [], [], 0)[0] == [], "and are still being answered"
        began = time.monotonic()
        process.send_signal(sign)
        assert process.wait(30) == 0
        assert time.monotonic() - began < 1.0
        assert process.stderr.read() == ""


def test_a_directory_that_is_not_there_is_said(cli: Cli, tmp_path: Path) -> None:
    """A slip of the pen would else be a page without runs."""
    code, _, err = cli("ui", tmp_path / "rums", "--no-browser")
    assert code == 2 and "rums" in err and "this takes directories of runs, by default" in err


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


def test_only_a_terminal_shows_the_token(tmp_path: Path) -> None:
    """On a terminal the address is whole, to be copied; what is not one may be a log."""
    command = [sys.executable, "-m", "chiplog", "ui", str(tmp_path), "--no-browser"]
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "SSH_CONNECTION": "10.0.0.1 5 10.0.0.2 22"}
    leader, follower = pty.openpty()
    with os.fdopen(leader, "rb", 0) as screen, subprocess.Popen(command, stdout=follower, env=environ) as process:
        os.close(follower)
        shown = b""
        while b"stops the server" not in shown:
            shown += screen.read(4096)
        process.terminate()
    address, tunnel, end = shown.decode().split("\r\n")[:3]
    port = re.fullmatch(r"http://127.0.0.1:(\d+)/#token=[\w-]{24,}", address)
    assert port and f"ssh -L {port[1]}:127.0.0.1:{port[1]} " in tunnel and end == "Ctrl-C stops the server"


def _entered(process: subprocess.Popen[str]) -> tuple[str, str]:
    """The address that a server prints, and the token in the file that it names."""
    assert process.stdout is not None
    address, entry = process.stdout.readline().strip(), process.stdout.readline()
    assert "token" not in address
    file = Path(entry.removeprefix("to enter, open ").partition(", which")[0])
    return address, file.read_text().partition("#token=")[2].partition('"')[0]

"""The page's server against requests of every kind, on all routes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from chiplog.core import records
from chiplog.views.web.queries import file_key
from tests.faults.harness import PATIENCE, count
from tests.support.memory import peak
from tests.views.web import stores
from tests.views.web.fuzzing import Fuzzer, Target

TOKEN = "a-token-for-tests-0123456789"


@pytest.mark.timeout(PATIENCE + 3700)
def test_no_request_stops_the_page(tmp_path: Path) -> None:
    """Every answer is a refusal or a response, never an error; memory and open files are bounded, and others are answered."""
    root, seconds = tmp_path / "runs", count(8, 3600)
    stores.rich(root)
    stores.simple(root, "simple")
    sampled = stores.make_run(root, "p", "sampled")
    (sampled / "files").mkdir()
    (sampled / "files" / "f").write_bytes(bytes(5 << 20))
    journal = stores.Journal(sampled)
    journal.add(records.File, name="f", path="files/f", media="text/plain", size=5 << 20)
    for step in range(300):
        journal.add(records.TextRecord, name="samples", text="x" * 20_000, step=step)
        journal.add(records.Table, name="a", rows=[{"text": "y" * 10_000, "deep": [[[{}]]]}], step=step)
    journal.finish()
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    command = [sys.executable, "-m", "chiplog", "ui", str(root), "--no-browser", "--token-file", str(token)]
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ) as server:
        try:
            assert server.stdout is not None and server.stderr is not None
            address = server.stdout.readline().strip()
            port = int(address.rstrip("/").rpartition(":")[2])
            keys = tuple(run["key"] for run in _list(address))
            fuzzer = Fuzzer(Target(port, TOKEN, (*keys, "0123456789ab"), (file_key("files/f"), "x")), seed=seconds)
            deadline, slowest = time.monotonic() + seconds, 0.0
            while time.monotonic() < deadline and not fuzzer.findings:
                for _ in range(50):
                    fuzzer.turn()
                began = time.monotonic()
                assert len(_list(address)) == len(keys)
                slowest = max(slowest, time.monotonic() - began)
            memory, files = peak(server.pid), len(os.listdir(f"/proc/{server.pid}/fd"))
        finally:
            server.terminate()
            _, errors = server.communicate(timeout=30)
    print(f"{fuzzer.sent:,} requests, {dict(fuzzer.statuses)}, peak {memory} MiB, {files} files, {slowest:.2f} s")
    assert not fuzzer.findings and errors == ""
    assert fuzzer.statuses["200"] > 20 and fuzzer.statuses["400"] and fuzzer.statuses["404"]
    assert memory < 400 and files < 250 and slowest < 10
    assert server.returncode == 0


def _list(address: str) -> list[dict[str, str]]:
    asked = Request(f"{address}api/runs", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(asked, timeout=20) as answer:
        runs: list[dict[str, str]] = json.loads(answer.read())["runs"]
        return runs

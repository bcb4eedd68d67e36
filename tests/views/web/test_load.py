"""Many who listen, some of them badly, while a run is written."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import chiplog
from chiplog.core import records
from chiplog.views.web.queries import file_key
from tests.faults.harness import PATIENCE, count
from tests.views.web import serving as tools
from tests.views.web import stores


def test_many_listeners_cost_little(tmp_path: Path) -> None:
    """Fifty pages and one that never reads: all who read hear of every burst and of what comes after it, and nothing piles up for the other."""
    with chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run, tools.serving(tmp_path) as served:
        run.log({"loss": 1.0}, step=0)
        key = served.keys()["now"]
        ask = (
            f"GET /api/live?runs={key} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
            f"Authorization: Bearer {tools.TOKEN}\r\n\r\n"
        ).encode()
        files = len(os.listdir("/proc/self/fd"))
        listeners = [socket.create_connection(("127.0.0.1", served.port), 20) for _ in range(51)]
        try:
            for one in listeners:
                one.sendall(ask)
            deaf, *rest = listeners
            for one in rest:
                _until(one, b"hello")
            before = _memory()
            row = {f"series-{n}": float(n) for n in range(200)}
            for step in range(1, 2000):
                run.log(row, step=step)
            for step, one in enumerate(rest, start=2000):
                one.settimeout(0.3)
                _hear(one, lambda step=step: run.log({"last": 1.0}, step=step))  # type: ignore[misc]
            assert _memory() - before < 200 << 20
            assert len(os.listdir("/proc/self/fd")) - files < 256
            assert served.ask("/api/runs").status == 200
            assert deaf.fileno() >= 0
        finally:
            for one in listeners:
                one.close()


def test_a_large_run_that_is_not_compacted_holds_up_no_other(tmp_path: Path) -> None:
    """Twenty questions about it at once: the list and another run are answered meanwhile, and a file comes in pieces."""
    large = stores.make_run(tmp_path, "p", "large")
    journal = stores.Journal(large)
    (large / "files").mkdir()
    (large / "files" / "f").write_bytes(bytes(count(30, 300) << 20))
    journal.add(records.File, name="f", path="files/f", media="text/plain", size=1)
    journal.add(records.Step, step=1, metrics={f"train/{n}": n / 7 for n in range(4000)})
    journal._lines += [journal._lines[-1]] * count(300, 600)  # 30 MB, or 60 MB: one segment
    journal.write()
    stores.simple(tmp_path, "small")
    with tools.serving(tmp_path) as served, contextlib.ExitStack() as held:
        keys = served.keys()
        before = _memory()
        for number in range(20):
            path = (f"samples?run={keys['large']}", f"file?run={keys['large']}&file={file_key('files/f')}")[number % 2]
            one = held.enter_context(socket.create_connection(("127.0.0.1", served.port), 60))
            one.sendall(
                f"GET /api/{path} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
                f"Authorization: Bearer {tools.TOKEN}\r\n\r\n".encode()
            )
        for path in ("runs", f"run?run={keys['small']}", "columns", f"console?run={keys['small']}"):
            began = time.monotonic()
            assert served.ask(f"/api/{path}").status == 200
            assert time.monotonic() - began < 2, path
        assert one.recv(12) == b"HTTP/1.1 200"
        total = len(b"HTTP/1.1 200")
        while total < count(30, 300) << 20:
            total += len(one.recv(1 << 20))
        assert _memory() - before < 300 << 20


@pytest.mark.timeout(PATIENCE)
def test_a_crowd_stays_small(tmp_path: Path) -> None:
    """Idle connections, half a request that drips, a reader of a byte a second and fifty pages, while a run is written.

    The server stays small and goes on answering; `log` does not notice.
    """
    seconds, idle = count(3, 300), count(250, 1000)
    token = tools.TOKEN
    file = tmp_path / "token"
    file.touch(mode=0o600)
    file.write_text(token)
    command = [sys.executable, "-m", "chiplog", "ui", str(tmp_path), "--no-browser", "--token-file", str(file)]
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with (
        chiplog.init("live", id="now", dir=tmp_path, sinks="none") as run,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as server,
        contextlib.ExitStack() as kept,
    ):
        assert server.stdout is not None
        kept.callback(server.terminate)
        place = server.stdout.readline().strip()
        port = int(place.rstrip("/").rpartition(":")[2])
        ask = f"GET /api/%b HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
        run.log({"loss": 1.0}, step=0)

        def connect(words: bytes = b"", room: int = 0) -> socket.socket:
            one = kept.enter_context(socket.socket())
            if room:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
            one.settimeout(20)
            one.connect(("127.0.0.1", port))
            one.sendall(words)
            return one

        def answered() -> float:
            began = time.monotonic()
            with socket.create_connection(("127.0.0.1", port), 20) as one:
                one.sendall(ask % b"runs")
                key = re.search(rb'"key":"(\w+)"', _until(one, b'"gone"'))
                assert key is not None
                keys.append(key[1])
            return time.monotonic() - began

        keys: list[bytes] = []
        answered()
        live = ask % (b"live?runs=" + keys[0])
        pages = [connect(live) for _ in range(50)]
        slow = connect(live, room=2048)
        for one in pages:
            _until(one, b"hello")
        crowd = [connect() for _ in range(idle)]
        drips = [connect(b"GET / HTTP/1.1\r\n") for _ in range(20)]
        logged, waits, most, files = [], [answered()], 0, 0
        end, step, tick = time.monotonic() + seconds, 0, 0.0
        while time.monotonic() < end:
            began = time.perf_counter()
            run.log({f"series-{n}": float(step) for n in range(50)}, step=(step := step + 1))
            logged.append(time.perf_counter() - began)
            time.sleep(0.01)
            for one in pages:
                with contextlib.suppress(BlockingIOError):
                    assert one.recv(1 << 20, socket.MSG_DONTWAIT), "the server has closed the connection of a page"
            if time.monotonic() > tick + 1:
                tick = time.monotonic()
                with contextlib.suppress(OSError):  # whoever drips or stands in the way is let go, and comes again
                    slow.recv(1, socket.MSG_DONTWAIT)
                for one in drips:
                    with contextlib.suppress(OSError):
                        one.send(b"x")
                crowd += [connect() for _ in range(20)]
                for one in crowd[:20]:
                    one.close()
                del crowd[:20]
                waits.append(answered())
                most = max(most, _memory(server.pid))
                files = max(files, len(os.listdir(f"/proc/{server.pid}/fd")))
        logged.sort()
        print(
            f"{seconds} s, {idle} idle: server {most >> 20} MiB, {files} files; an answer took {max(waits):.2f} s at most; "
            f"log {logged[len(logged) // 2] * 1e6:.0f} µs, {logged[len(logged) * 99 // 100] * 1e6:.0f} µs at the 99th, "
            f"{logged[-1] * 1e3:.1f} ms at most of {len(logged)}"
        )
        assert most < 300 << 20
        assert files < 256
        assert logged[-1] < 1.0
    assert server.returncode == -signal.SIGTERM or server.returncode == 0


def _until(connection: socket.socket, words: bytes) -> bytes:
    heard = b""
    while words not in heard:
        piece = connection.recv(1 << 20)
        assert piece, "the server has closed the connection"
        heard = (heard + piece)[-100_000:]
    return heard


def _hear(connection: socket.socket, speak: Callable[[], object]) -> None:
    """Read what has come, and what is said whenever nothing comes, until that is heard."""
    heard = b""
    end = time.monotonic() + 30
    while b'"last":1' not in heard and time.monotonic() < end:
        try:
            heard = heard[-1000:] + connection.recv(1 << 20)
        except TimeoutError:
            speak()
    assert b'"last":1' in heard


def _memory(pid: int | str = "self") -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

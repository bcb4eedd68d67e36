"""Real MLflow servers for tests: shared by all workers of a test run, killed, stopped, and read back."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import shutil
import signal
import socket
import socketserver
import sqlite3
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.support.ports import free_port
from tests.support.waiting import wait_for

STARTS = 180  # s that a server may take on a busy machine
LIVES = 3600  # s after which a forgotten one ends by itself
NO_JOBS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # a dozen more processes that nothing here needs


class Server:
    """An MLflow server with a store of its own. What is known of it stands in a file, for all who share it."""

    def __init__(self, folder: Path, store: str = "") -> None:
        self.folder = folder
        self._about = folder / "about.json"
        if not self._about.exists():
            self._tell(port=free_port(), store=store or f"sqlite:///{folder}/mlflow.db", pid=0)

    @property
    def about(self) -> dict[str, Any]:
        return dict(json.loads(self._about.read_text()))

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.about['port']}"

    def start(self) -> Server:
        self.launch()
        wait_for(self.up, STARTS, "the MLflow server")
        return self

    def launch(self) -> None:
        about = self.about
        words = ["server", "--backend-store-uri", about["store"], "--artifacts-destination", str(self.folder / "files")]
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(
                [
                    "timeout",
                    "-k",
                    "5",
                    str(LIVES),
                    sys.executable,
                    "-m",
                    "mlflow",
                    *words,
                    "--host",
                    "127.0.0.1",
                    "--port",
                    str(about["port"]),
                    "--workers",
                    "1",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd=self.folder,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONWARNINGS": "ignore", **NO_JOBS},
            )
        threading.Thread(target=started.wait, daemon=True).start()
        self._tell(**{**about, "pid": started.pid})

    def up(self) -> bool:
        try:
            with urlopen(f"{self.uri}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def send(self, number: signal.Signals) -> None:
        """To all its processes; to none if it has not been started: 0 would be those of the test."""
        if pid := self.about["pid"]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def stop(self) -> None:
        self.send(signal.SIGKILL)

    def kill(self) -> None:
        self.stop()
        wait_for(lambda: not self.up(), 20)

    def ask(self, path: str, **body: Any) -> dict[str, Any]:
        """An answer of its REST API."""
        request = Request(f"{self.uri}/api/2.0/mlflow/{path}", json.dumps(body).encode() if body else None)
        request.add_header("Content-Type", "application/json")
        for _ in range(10):
            try:
                with urlopen(request, timeout=60) as answer:
                    return dict(json.load(answer))
            except HTTPError as error:
                raise AssertionError(f"{path}: {error.code} {error.read()[:500]!r}") from None
            except (URLError, TimeoutError):
                time.sleep(1)  # a busy machine
        raise AssertionError(f"{path}: no answer")

    def runs(self, experiment: str, view: str = "ACTIVE_ONLY") -> list[dict[str, Any]]:
        """The runs of an experiment, oldest first."""
        known = self.ask("experiments/search", max_results=1000).get("experiments", [])
        ids = [one["experiment_id"] for one in known if one["name"] == experiment]
        if not ids:
            return []
        found = self.ask("runs/search", experiment_ids=ids, run_view_type=view).get("runs", [])
        return sorted(found, key=lambda run: int(run["info"]["start_time"]))

    def run(self, experiment: str) -> RunAt:
        """The one run of an experiment."""
        (found,) = self.runs(experiment)
        return RunAt(self, found)

    def sql(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Straight from its database."""
        store = self.about["store"]
        if store.startswith("sqlite"):
            file = f"file:{store.removeprefix('sqlite:///')}?mode=ro"
            with closing(sqlite3.connect(file, uri=True, timeout=30)) as database:
                return list(database.execute(query, values))
        import psycopg2

        database = psycopg2.connect(store.replace("+psycopg2", ""))
        try:
            with database.cursor() as cursor:
                cursor.execute(query.replace("?", "%s"), values)
                return list(cursor.fetchall())
        finally:
            database.close()

    def _tell(self, **about: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = self._about.with_suffix(f".{os.getpid()}")
        aside.write_text(json.dumps(about))
        aside.replace(self._about)


class RunAt:
    """A run as the server gives it back."""

    def __init__(self, server: Server, found: dict[str, Any]) -> None:
        self.server, self.id = server, found["info"]["run_id"]
        self.info = found["info"]
        data = found.get("data", {})
        self.params = {one["key"]: one["value"] for one in data.get("params", [])}
        self.tags = {one["key"]: one["value"] for one in data.get("tags", [])}
        self.latest = {one["key"]: one["value"] for one in data.get("metrics", [])}

    def history(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of all points of a series, as the API has them."""
        found: list[tuple[int, float]] = []
        token = ""
        while True:
            query = f"metrics/get-history?run_id={self.id}&metric_key={name}&max_results=20000&page_token={token}"
            page = self.server.ask(query)
            found += [(int(one.get("step", 0)), float(one["value"])) for one in page.get("metrics", [])]
            if not (token := page.get("next_page_token", "")):
                return found

    def rows(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of all rows of a series in the database, in the order of steps."""
        query = "SELECT step, value FROM metrics WHERE run_uuid = ? AND key = ? ORDER BY step, timestamp"
        return [(int(step), float(value)) for step, value in self.server.sql(query, self.id, name)]

    def count(self) -> int:
        return int(self.server.sql("SELECT count(*) FROM metrics WHERE run_uuid = ?", self.id)[0][0])

    def files(self, folder: str = "") -> list[str]:
        """The paths of all its artifacts."""
        query = f"artifacts/list?run_id={self.id}&path={folder}"
        found: list[str] = []
        for one in self.server.ask(query).get("files", []):
            found += self.files(one["path"]) if one.get("is_dir") else [one["path"]]
        return sorted(found)

    def read(self, path: str) -> bytes:
        (found,) = self.server.folder.glob(f"files/*/{self.id}/artifacts/{path}")
        return found.read_bytes()


@contextmanager
def shared(folder: Path, start: Callable[[Path], Server], stop: Callable[[Server], None]) -> Iterator[Server]:
    """One server for all workers: who comes first starts it, who leaves last stops it."""
    folder.mkdir(parents=True, exist_ok=True)
    users = folder / "users"

    def turn(change: int) -> int:
        count = int(users.read_text() or 0) + change if users.exists() else change
        users.write_text(str(count))
        return count

    def leave() -> None:
        if turn(-1) == 0:
            stop(Server(folder))
            shutil.rmtree(folder / "data", ignore_errors=True)
            (folder / "about.json").unlink()

    with locked(folder / "lock"):
        try:
            server = start(folder) if turn(1) == 1 else Server(folder)
        except BaseException:
            leave()
            raise
    try:
        yield server
    finally:
        with locked(folder / "lock"):
            leave()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Postgres:
    """A PostgreSQL of our own in a folder; it refuses to be run by root, so then by the user that Debian made for it."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"))
        self._bin = found[-1].parent if found else None
        self.user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name

    @property
    def here(self) -> bool:
        return self._bin is not None

    def start(self) -> str:
        """The address of an empty database."""
        port = free_port()
        self.data.mkdir(parents=True)
        if os.getuid() == 0:
            entry = pwd.getpwnam(self.user)
            os.chown(self.data, entry.pw_uid, entry.pw_gid)
            for parent in (self.data, *self.data.parents):
                if not parent.stat().st_mode & 0o001:
                    parent.chmod(parent.stat().st_mode | 0o011)  # so that it reaches its folder
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", self.user, "--no-sync")
        options = f"-h 127.0.0.1 -p {port} -k {self.data} -c fsync=off"
        self._run("pg_ctl", "-D", self.data, "-o", options, "-l", self.data / "log", "-w", "-t", "120", "start")
        return f"postgresql+psycopg2://{self.user}@127.0.0.1:{port}/postgres"

    def stop(self) -> None:
        """By its pid: another test session may have closed the way to the folder for its user meanwhile."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split()[0])
        except FileNotFoundError:  # it has been stopped, or was never started
            return
        os.kill(pid, signal.SIGQUIT)  # which it takes for "immediate"
        wait_for(lambda: not Path(f"/proc/{pid}").exists(), 30, "the end of PostgreSQL")

    def _run(self, tool: str, *words: object) -> None:
        assert self._bin is not None
        subprocess.run(
            [str(self._bin / tool), *map(str, words)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=STARTS,
            cwd="/",
            user=self.user if os.getuid() == 0 else None,
            group=pwd.getpwnam(self.user).pw_gid if os.getuid() == 0 else None,
        )


class Proxy:
    """Stands before a server, and does to each request what `weather(head, body)` says.

    `pass`, `slow` (0.3 s), `reset` (before the server has it), `torn` (the server gets half of it), `deaf` (the server
    has it, and the answer is reset), `cut` (half an answer), or a status such as `429`. With `tls` it speaks HTTPS.
    """

    def __init__(self, port: int, weather: Callable[[bytes, bytes], str], tls: ssl.SSLContext | None = None) -> None:
        self.weather, self._tls = weather, tls
        self.seen: list[bytes] = []  # heads
        self.done: dict[str, int] = {}

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    proxy._serve(tls.wrap_socket(self.request, server_side=True) if tls else self.request, port)
                except OSError:
                    pass

        class Threads(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 64

        proxy = self
        self._server = Threads(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def uri(self) -> str:
        return f"http{'s' if self._tls else ''}://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, client: socket.socket, port: int) -> None:
        head, body = _request(client)
        if not head:
            return
        self.seen.append(head)
        what = self.weather(head, body)
        self.done[what] = self.done.get(what, 0) + 1
        if what == "slow":
            time.sleep(0.3)
        if what.isdigit():
            client.sendall(b"HTTP/1.1 %s Weather\r\nContent-Length: 4\r\nConnection: close\r\n\r\nrain" % what.encode())
            return
        if what == "reset":
            _reset(client)
            return
        with socket.create_connection(("127.0.0.1", port), 60) as server:
            server.sendall(b"\r\n".join([*_lines(head), b"Connection: close", b"", b""]))
            server.sendall(body[: len(body) // 2] if what == "torn" else body)
            if what == "torn":
                _reset(server)
                _reset(client)
                return
            answer = b""
            while piece := server.recv(1 << 16):
                answer += piece
        if what == "deaf":
            _reset(client)
            return
        client.sendall(answer[: len(answer) // 2] if what == "cut" else answer)


def _request(client: socket.socket) -> tuple[bytes, bytes]:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = client.recv(1 << 16)
        if not piece:
            return b"", b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += client.recv(1 << 16)
    return head, body


def _lines(head: bytes) -> list[bytes]:
    return [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]


def _reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.close()

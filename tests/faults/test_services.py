"""Services that reject what they should accept, and services that mean harm."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import chiplog
from chiplog import cli
from chiplog.core.background import subprocesses
from chiplog.sinks import otel
from tests.support.memory import peak, reset_peak
from tests.support.otlp import Endpoint
from tests.support.waiting import wait_for

from .harness import PATIENCE

pytestmark = pytest.mark.timeout(PATIENCE)

ROWS = 500


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    made = Endpoint()
    yield made
    made.server.shutdown()
    made.server.server_close()


def train(tmp_path: Path, endpoint: Endpoint) -> Any:
    run = chiplog.init(
        project="faults",
        id="run",
        dir=tmp_path,
        sinks={"otel": {"endpoint": endpoint.url}},
        relay="thread",
        alerts=False,
    )
    for step in range(ROWS):
        run.log({"x": step}, step=step)
    return run


def arrived(endpoint: Endpoint) -> list[float]:
    return sorted(value for name, _, value in endpoint.points if name == "x")  # what was rejected arrives later


def sync(tmp_path: Path) -> int:
    return cli.main(["--dir", str(tmp_path), "sync", "--quiet"])


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_service_that_rejects_everything_for_a_while_gets_everything(
    tmp_path: Path, endpoint: Endpoint, status: int
) -> None:
    """An endpoint that answers as if the content were wrong is tried again, and each point arrives once."""
    endpoint.status = status
    run = train(tmp_path, endpoint)
    wait_for(lambda: run.health()["sinks"]["otel"]["errors"] >= 2, 20)
    assert "answered" in run.health()["sinks"]["otel"]["last_error"]
    endpoint.status = 200
    assert run.finish()
    assert arrived(endpoint) == list(range(ROWS))


def test_what_a_service_rejects_to_the_end_is_not_complete(
    tmp_path: Path, endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    """`finish` and `sync` name what is missing, and `sync` delivers it when the service is well again."""
    endpoint.status = 400
    run = train(tmp_path, endpoint)
    done = run.finish(timeout=3)
    assert not done and "answered 400" in done.missing["otel"]
    assert "'otel' is not complete" in capfd.readouterr().err
    endpoint.status = 200
    assert sync(tmp_path) == 0
    assert "otel: complete" in capfd.readouterr().out
    assert arrived(endpoint) == list(range(ROWS))


def test_a_rejected_record_is_kept_counted_and_sent_again(
    tmp_path: Path, endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    """One bad record costs the others nothing, is never called delivered, and arrives once the service takes it."""
    endpoint.bad = b"poison"
    run = train(tmp_path, endpoint)
    run.log({"poison": 7.0}, step=ROWS)
    run.log({"x": ROWS}, step=ROWS + 1)
    done = run.finish()
    assert not done and "1 record was rejected" in done.missing["otel"]
    assert arrived(endpoint) == list(range(ROWS + 1))
    assert sync(tmp_path) == 2
    assert "rejected" in capfd.readouterr().out
    endpoint.bad = b""
    assert sync(tmp_path) == 0
    assert arrived(endpoint) == list(range(ROWS + 1))
    assert [value for name, _, value in endpoint.points if name == "poison"] == [7.0]


class Hostile:
    """A server that answers every request in one evil way, and remembers who was asked for what."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.asked: list[dict[str, str]] = []
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                mine.asked.append({name.lower(): value for name, value in self.headers.items()})
                try:
                    answer(self)
                except OSError:
                    pass  # the client has had enough

            do_GET = do_POST

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


TOKEN = "swordfish-given-to-the-endpoint"


def endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(bytes(1 << 16))


def bomb(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Content-Encoding", "gzip")
    request.end_headers()
    packed = gzip.compress(bytes(64 << 20))
    while True:
        request.wfile.write(packed)


def drip(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.end_headers()
    while True:
        request.wfile.write(b"\n")
        time.sleep(0.01)


def echo(request: BaseHTTPRequestHandler) -> None:
    request.send_response(401, f"no {request.headers.get('Authorization')} and X-Api-Key: {TOKEN}")
    request.end_headers()


@pytest.mark.parametrize("answer", [endless, bomb, drip, echo])
def test_an_evil_service_is_bounded_and_stored_nowhere(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    answer: Callable[[BaseHTTPRequestHandler], None],
) -> None:
    """Endless, huge and slow answers end in an error, in time and memory; an echoed token is in no file or message."""
    monkeypatch.setattr(otel, "TIMEOUT", 0.5)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer {TOKEN}")
    reset_peak()
    before = peak()
    with Hostile(answer) as server:
        run = chiplog.init(
            project="faults", id="run", dir=tmp_path, sinks={"otel": {"endpoint": server.url}}, relay="thread"
        )
        run.log({"x": 1}, step=1)
        wait_for(lambda: run.health()["sinks"]["otel"]["errors"] > 0, 20)
        began = time.monotonic()
        done = run.finish(timeout=2)
        assert not done and time.monotonic() - began < 10
        assert server.asked and all(TOKEN in one["authorization"] for one in server.asked)
    assert peak() - before < 200  # MiB
    assert TOKEN not in str(done.missing) + str(run.health()) + "".join(capfd.readouterr())
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or TOKEN.encode() not in file.read_bytes(), file


def test_credentials_follow_no_redirect_to_another_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is an error that is reported, and nobody else is asked."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Bearer {TOKEN}")
    with Hostile(lambda request: (request.send_response(200), request.end_headers())[0]) as other:

        def redirect(request: BaseHTTPRequestHandler) -> None:
            request.send_response(307)
            request.send_header("Location", other.url.replace("127.0.0.1", "localhost") + "/v1/metrics")
            request.end_headers()

        with Hostile(redirect) as server:
            run = chiplog.init(
                project="faults", id="run", dir=tmp_path, sinks={"otel": {"endpoint": server.url}}, relay="thread"
            )
            run.log({"x": 1}, step=1)
            wait_for(lambda: run.health()["sinks"]["otel"]["errors"] > 0, 20)
            assert not run.finish(timeout=1)
        assert not other.asked


def test_a_relay_that_dies_before_its_orders_leaves_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Orders go through a pipe; options are in no file in which they could be left."""
    started: list[tuple[str, ...]] = []
    real = subprocesses.start

    def start(*words: str, **more: Any) -> Any:
        if words[0] != "chiplog.commands.sync.relay":
            return real(*words, **more)
        started.append(words)
        return real("this", environ=more["environ"], stdin=more["stdin"])  # dies at once

    monkeypatch.setattr(subprocesses, "start", start)
    run = chiplog.init(
        project="faults", id="run", dir=tmp_path, sinks={"mlflow": {"uri": f"http://me:{TOKEN}@127.0.0.1:1"}}
    )
    run.log({"x": 1}, step=1)
    assert not run.finish(timeout=2)
    assert started and not any(TOKEN in word for words in started for word in words)
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or TOKEN.encode() not in file.read_bytes(), file

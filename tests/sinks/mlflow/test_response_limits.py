"""Answers of a server that are bounded in size and time."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import requests

from chiplog.sinks.mlflow.response_limits import bound_answers


def test_an_answer_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed or plain; a short one is read as before."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            if self.path == "/short":
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")
                return
            self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            try:
                self.wfile.write(gzip.compress(bytes(20 << 20)))
            except OSError:
                pass  # the client has had enough

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setattr(requests.Response, "iter_content", requests.Response.iter_content)  # puts it back afterwards
    bound_answers(longest=1 << 20)
    session = requests.Session()
    session.trust_env = False
    url = f"http://127.0.0.1:{server.server_port}"
    assert session.get(f"{url}/short").content == b"ok"
    with pytest.raises(requests.ConnectionError, match="longer than 1,048,576 bytes"):
        session.get(f"{url}/bomb")
    server.shutdown()
    server.server_close()

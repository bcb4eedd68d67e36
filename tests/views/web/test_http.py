"""The HTTP server."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Iterator

import pytest

from chiplog.core import records
from chiplog.views.web import asset_bundle as page
from chiplog.views.web.http import Request
from tests.views.web import serving as tools
from tests.views.web import stores

ROUTES = (
    "/api/runs", "/api/columns", "/api/run", "/api/series", "/api/samples", "/api/matrix", "/api/ranks", "/api/trace", "/api/timeline", "/api/goodput",
    "/api/perfetto", "/api/console", "/api/file", "/api/live", "/api/enter", "/api/nothing",
)  # fmt: skip
PAGES = tuple(page.files())
SCRIPT = next(path for path in PAGES if path.endswith(".js"))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tools.Served]:
    root = tmp_path_factory.mktemp("guarded") / "runs"
    run = stores.make_run(root, "p", "secret-run", config={"lr": 1})
    (run / "files").mkdir()
    (run / "files" / "plain.txt").write_text("what was kept")
    (run / "files" / "link.txt").symlink_to("/etc/passwd")
    (run / "files" / "folder").symlink_to("/etc")
    (root / "outside.txt").write_text("of somebody else")
    os.link(root / "outside.txt", run / "files" / "hard.txt")
    os.mkfifo(run / "files" / "pipe")
    (run / "files" / "page.html").write_text("<script>alert(1)</script>")
    journal = stores.Journal(run)
    for path in (
        "files/plain.txt", "files/link.txt", "files/folder/passwd", "files/hard.txt", "files/pipe", "files/page.html",
        "../../../../etc/passwd", "/etc/passwd", "files/../../../outside.txt", "files/..\\..\\outside.txt",
        "files/plain.txt\0.png", "C:\\windows\\win.ini", "file:///etc/passwd", "files/" + "a" * 4096, "", ".", "files",
        "/dev/zero", "run.json/", "files//plain.txt",
    ):  # fmt: skip
        journal.add(records.File, name=path[:40] or "empty", path=path, media="text/html", size=3)
    journal.finish()
    with tools.serving(root) as server:
        yield server


def test_many_idle_connections_do_not_lock_others_out(served: tools.Served) -> None:
    """Slow and silent ones make room; the number of open files stays bounded, and an answer comes at once."""
    before, idle = len(os.listdir("/proc/self/fd")), []
    try:
        for number in range(400):
            connection = socket.create_connection(("127.0.0.1", served.port), 5)
            if number % 2:
                connection.sendall(b"GET / HT")
            idle.append(connection)
        began = time.monotonic()
        assert served.ask("/api/runs").status == 200
        assert time.monotonic() - began < 5
        assert len(os.listdir("/proc/self/fd")) - before - len(idle) < 256
    finally:
        for connection in idle:
            connection.close()


def test_strangers_who_ask_and_never_read_lock_nobody_out(served: tools.Served) -> None:
    """Hundreds of silent, dripping, endless and deaf connections without the token: the page answers those who have it."""
    ask = f"GET {SCRIPT} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", served.port), 10) as page, contextlib.ExitStack() as held:
        token = f"Host: 127.0.0.1:{served.port}\r\nAuthorization: Bearer {tools.TOKEN}\r\n\r\n"
        page.sendall(f"GET /api/live HTTP/1.1\r\n{token}".encode())
        answer = b""
        while b"hello" not in answer:
            more = page.recv(65536)
            assert more, answer
            answer += more
        for number in range(300):
            one = held.enter_context(socket.socket())
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.settimeout(5)
            one.connect(("127.0.0.1", served.port))
            with contextlib.suppress(OSError):
                one.sendall((b"", b"GET / HT", b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200, ask * 20)[number % 4])
            if number % 50 == 49:
                began = time.monotonic()
                assert served.ask("/api/runs").status == 200
                assert time.monotonic() - began < 5
        page.settimeout(0.2)
        with pytest.raises(TimeoutError):  # still open
            page.recv(10)


@pytest.mark.parametrize(
    ("text", "whole", "number"),
    [("12", 12, 12.0), ("-1", 7, -1.0), ("1.5", 7, 1.5), ("nan", 7, None), ("x", 7, None), ("9" * 20, 7, 1e20)],
)
def test_a_parameter_that_is_not_a_number_is_ignored(text: str, whole: int, number: float | None) -> None:
    """The default stands for it, and infinities are not numbers."""
    request = Request("GET", "/", {"n": text}, [], "/")
    assert request.whole("n", 7) == whole and request.number("n") == number

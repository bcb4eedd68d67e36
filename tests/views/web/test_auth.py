"""What a local dashboard must survive: other names, other methods, other people, other places."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chiplog.core import records
from chiplog.views.web import asset_bundle as page
from chiplog.views.web.auth import is_loopback
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


def _bad_hosts(port: int) -> list[str]:
    return [
        "evil.example", f"evil.example:{port}", f"10.evil.example:{port}", f"192.168.evil.example:{port}",
        f"localhost.evil.example:{port}", f"127.0.0.1.evil.example:{port}", f"localhost:{port}.evil", "",
        f"localhost@evil:{port}", f"evil@localhost:{port}", f"localhost.:{port}", f"LOCALHOST:{port}", f"Localhost:{port}",
        f"[::1%25lo]:{port}", f"[::1%lo]:{port}", "localhost", "127.0.0.1", f"127.0.0.1:{port + 1}", f"127.0.0.1:0{port}",
        f"0.0.0.0:{port}", f"2130706433:{port}", f"127.1:{port}", f"[::ffff:127.0.0.1]:{port}", f"localhost:{port},evil",
        f"localhost:{port} evil", f"http://localhost:{port}",
    ]  # fmt: skip


def _harmless(answer: tools.Answer, served: tools.Served) -> None:
    """No word of what is secret, no traceback, nothing for other sites."""
    for word in (
        tools.TOKEN.encode(),
        b"Traceback",
        b"secret-run",
        str(served.root).encode(),
        b"root:",
        b"of somebody else",
    ):
        assert word not in answer.raw + answer.body, word
    assert not [name for name in answer.headers if name.startswith("access-control-")]


def test_only_its_own_names_are_answered(served: tools.Served) -> None:
    """A name that another site could point at us gets nothing, by any method, at any address."""
    asked = 0
    for host in _bad_hosts(served.port):
        for path in ("/", SCRIPT, "/api/runs", "/api/live"):
            for method in ("GET", "POST", "DELETE"):
                answer = served.ask(path, host=host, method=method)
                assert answer.status in (400, 421), (host, path, method, answer.status)
                _harmless(answer, served)
                asked += 1
    assert asked > 300
    for host in (f"localhost:{served.port}", f"127.0.0.1:{served.port}", f"[::1]:{served.port}"):
        assert served.ask("/api/runs", host=host).status == 200


def test_odd_requests_are_refused(served: tools.Served) -> None:
    """Two hosts, none, an address for a proxy, a body, and what is not a request."""
    good, token = f"Host: 127.0.0.1:{served.port}", f"Authorization: Bearer {tools.TOKEN}"
    for data in (
        f"GET /api/runs HTTP/1.1\r\n{good}\r\nHost: evil.example\r\n{token}\r\n\r\n",
        f"GET /api/runs HTTP/1.1\r\nHost: evil.example\r\n{good}\r\n{token}\r\n\r\n",
        f"GET /api/runs HTTP/1.1\r\n{token}\r\n\r\n",
        f"GET http://evil.example/api/runs HTTP/1.1\r\n{good}\r\n{token}\r\n\r\n",
        f"GET http://127.0.0.1:{served.port}/api/runs HTTP/1.1\r\nHost: evil.example\r\n{token}\r\n\r\n",
        f"GET /api/runs HTTP/1.1\r\n{good}\r\n{token}\r\nContent-Length: 5\r\n\r\nhello",
        f"GET /api/runs HTTP/1.1\r\n{good}\r\n{token}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"GET /api/runs HTTP/1.1\r\n{good}\r\n{token}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        f"GET /api/runs HTTP/1.1\r\n{good}\r\n Folded: yes\r\n{token}\r\n\r\n",
        f"GET /{'a' * 40000} HTTP/1.1\r\n{good}\r\n\r\n",
        "\x16\x03\x01\x02\r\n\r\n",
        "hello\r\n\r\n",
    ):
        answer = served.send(data.encode("latin-1"))
        assert answer.status in (400, 421, 431), (data[:90], answer.status)
        _harmless(answer, served)


def test_nothing_can_be_changed(served: tools.Served) -> None:
    """Every method but GET and HEAD is refused everywhere, whatever it says it carries."""
    for path in (*ROUTES, *PAGES):
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"):
            for kind in ("text/plain", "application/x-www-form-urlencoded"):
                answer = served.ask(path, f"Content-Type: {kind}", "Origin: http://evil.example", method=method)
                assert answer.status == 405, (path, method)
                _harmless(answer, served)


def test_other_sites_may_not_ask(served: tools.Served) -> None:
    """The browser says who asks; only our own page may, even with the cookie."""
    for site in ("cross-site", "same-site", "odd"):
        for path in ROUTES:
            answer = served.ask(path, f"Sec-Fetch-Site: {site}", "Origin: null")
            assert answer.status == 403, (site, path)
            _harmless(answer, served)
    assert served.ask("/api/runs", "Sec-Fetch-Site: same-origin").status == 200


def test_without_the_token_there_is_nothing(served: tools.Served) -> None:
    """Another user of the machine gets the empty page and no word about any run."""
    wrong: list[tuple[str, ...]] = [
        (), ("Authorization: Bearer wrong",), ("Authorization: Bearer ",), (f"Authorization: Basic {tools.TOKEN}",),
        (f"Authorization: Bearer {tools.TOKEN}x",), (f"Authorization: Bearer {tools.TOKEN[:-1]}",),
        (f"Cookie: chiplog-{served.port}={tools.TOKEN}",), (f"Cookie: chiplog-{served.port}=",), ("Cookie: =;;=",),
        (f"Authorization: Bearer {'x' * 8000}",),
    ]  # fmt: skip
    for headers in wrong:
        for path in ROUTES:
            for address in (path, f"{path}?token={tools.TOKEN}"):
                answer = served.ask(address, *headers, token=None)
                assert answer.status == 401, (address, headers)
                _harmless(answer, served)
    for path in PAGES:
        answer = served.ask(path, token=None)
        assert answer.status == 200
        _harmless(answer, served)


def test_the_token_becomes_a_cookie_that_only_the_browser_sees(served: tools.Served) -> None:
    """HttpOnly and strict; it is not the token, and does not give another cookie."""
    given = served.ask("/api/enter")
    cookie = given.headers["set-cookie"]
    assert given.status == 204
    assert "HttpOnly" in cookie and "SameSite=Strict" in cookie and tools.TOKEN not in cookie
    pair = cookie.split(";")[0]
    assert served.ask("/api/runs", f"Cookie: other=1; {pair}", token=None).status == 200
    assert served.ask("/api/enter", f"Cookie: {pair}", token=None).status == 401


def test_every_answer_is_strict(served: tools.Served) -> None:
    """The headers that keep a page to itself are on all of them, errors too."""
    for path in (*PAGES, "/api/runs", "/nothing", "/api/run?run=x"):
        headers = served.ask(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy and "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"


def test_no_address_leads_out(served: tools.Served) -> None:
    """Addresses and keys are looked up and never made into paths."""
    key = served.keys()["secret-run"]
    places = [
        "/../etc/passwd", "/..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/%252e%252e%252fetc/passwd", "/..\\etc\\passwd",
        "/%00", f"{SCRIPT}%00.png", "//etc/passwd", "/etc/passwd", "/C:/windows", "/file:///etc/passwd", "/assets/main.js", "/main.js",
        f"/.{SCRIPT}", f"{SCRIPT}/", SCRIPT.upper(), SCRIPT.replace(".", "\u200b.").encode().decode("latin-1"), "/site.py", "/../site.py", "/.",
        "/jsconfig.json", f"/api/..{SCRIPT}", "/" + "a" * 4000, "/%ff%fe", "/api/run/../runs",
    ]  # fmt: skip
    for place in places:
        answer = served.ask(place)
        assert answer.status in (404, 401, 400), (place, answer.status)
        _harmless(answer, served)
    for run in ("..", "../..", "%2e%2e", "p/secret-run", str(served.root), "%00", "a" * 5000, f"{key}%00", key.upper()):
        assert served.ask(f"/api/run?run={run}").status in (404, 200 if run == key else 404), run
    for file in ("..", "files/plain.txt", "../run.json", "%2fetc%2fpasswd", "", "0" * 16):
        answer = served.ask(f"/api/file?run={key}&file={file}")
        assert answer.status == 404
        _harmless(answer, served)


def test_a_file_is_served_only_from_inside_of_its_run(served: tools.Served) -> None:
    """Links, hard links, pipes, devices and paths that a hostile run names are not opened."""
    key = served.keys()["secret-run"]
    about = served.get("run", run=key)
    given = {}
    for file in about["files"]:
        answer = served.ask(f"/api/file?run={key}&file={file['key']}", "Connection: close")
        given[file["path"]] = answer
        assert b"root:" not in answer.raw and b"of somebody else" not in answer.raw, file["path"]
    assert {path for path, answer in given.items() if answer.status == 200} == {"files/plain.txt", "files/page.html"}
    page = given["files/page.html"].headers
    assert page["content-disposition"].startswith("attachment") and "sandbox" in page["content-security-policy"]
    assert page["content-type"] == "application/octet-stream"


def test_questions_are_data(served: tools.Served) -> None:
    """Nothing that is asked is run, compiled or trusted for its size."""
    key = served.keys()["secret-run"]
    for query in (
        "q=().__class__.__bases__", "q=[[[1,2]]]", "q=null", "q=" + "[" * 5000, f'q=[[["{key}","(a%2B)%2B$"]]]&n=99999999999',
        f'q=[[["{key}","x"]]]&low=nan&high=inf&n=-5', f'q=[[["{key}","x",99]]]&x=metric:__proto__', "n=1e9",
        f'q=[[["{key}","__proto__"],["{key}","constructor"]]]&x=nonsense&log=1', "q=" + "%5B" * 3000,
    ):  # fmt: skip
        answer = served.ask(f"/api/series?{query}")
        assert answer.status in (200, 400, 404, 431), (query[:60], answer.status)
        _harmless(answer, served)
    assert (
        served.ask(f"/api/samples?run={key}&table=x&find={'(a%2B)%2B' * 100}&offset=99999999999999999999").status == 200
    )
    assert served.ask("/api/runs?since=-1&columns=%7B").status == 200


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.9.9.9", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("node17", False), ("", False)],
)  # fmt: skip
def test_loopback_is_told_from_the_rest(host: str, loopback: bool) -> None:
    """Names are not resolved: what is not plainly this machine is not."""
    assert is_loopback(host) is loopback


def test_another_name_must_be_given_exactly(tmp_path: Path) -> None:
    """`--allowed-host` is one exact text, no pattern."""
    with tools.serving(tmp_path, hosts=("node17:8080",)) as server:
        assert server.ask("/api/runs", host="node17:8080").status == 200
        assert server.ask("/api/runs", host="node17:8081").status == 421
        assert server.ask("/api/runs", host="xnode17:8080").status == 421

"""A service that is away for three days, by a courier's own clock: it costs disk, and everything arrives."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import chiplog
from tests.support.ports import free_port
from tests.support.waiting import wait_for

from .harness import PATIENCE, count

pytestmark = pytest.mark.timeout(PATIENCE)

RECORDS = count(2_000, 1_000_000)
AWAY = 72 * 3600  # s
PACE = count(
    60, 10
)  # so many seconds pass for each that is waited: a try reads its batch from the journal, and there would be 8,640
MEMORY = 16  # MiB that the outage and the delivery after it may add to what the first tries took

DELIVERER = """
import http.client, json, resource, sys, time
from pathlib import Path
from chiplog.core.records import Step
from chiplog.sinks.delivery.courier import Courier
from chiplog.sinks.delivery.retries import RetryClock
from chiplog.store.journal.cursors import cursor_path, load
from chiplog.store.layout import Segment

run, port, AWAY, PACE = Path(sys.argv[1]), *map(int, sys.argv[2:])

class Hurried(RetryClock):
    '''Waiting takes no time, and is counted.'''
    ahead = 0.0
    def now(self):
        return time.monotonic() + self.ahead
    def wait(self, wake, seconds):
        self.ahead += seconds * PACE
        wake.wait(0.0005 if self.ahead < AWAY else 0.05)

class Web:
    commits = True
    tries, noted = 0, []
    def write(self, batch):
        self.tries += 1
        self.noted.append(max(load(cursor_path(run, "web")).positions.values(), default=(0, 0)))
        if batch:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            line.request("POST", "/", json.dumps([one.step for one in batch if isinstance(one, Step)]))
            assert line.getresponse().status == 200
    def close(self): pass
    def state(self): return {}
    def restore(self, state): pass

def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

clock, web = Hurried(), Web()
courier = Courier("web", web, run, Segment(0, 1, 0), clock)
courier.start()
def until(condition):
    while not condition():
        assert not courier.over, courier.health()
        time.sleep(0.01)
until(lambda: web.tries > 50)
first = memory()
until(lambda: clock.ahead > AWAY)
away, tries, noted = memory(), web.tries, set(web.noted)
assert courier.health()["state"] == "failing" and courier.delivered == 0
print("three days", flush=True)
until(courier.caught_up)
courier.close(60)
left = courier.join(60)
assert web.noted == sorted(web.noted), "the cursor went back"
print(json.dumps({"tries": tries, "first": first, "away": away, "end": memory(), "left": left, "noted": len(noted),
                  "cursors": len(set(web.noted))}))
"""


@contextmanager
def listening(port: int) -> Iterator[list[int]]:
    """The steps that have arrived, in their order."""
    arrived: list[int] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            arrived.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield arrived
        server.shutdown()


def test_a_service_that_is_away_for_three_days_gets_everything(tmp_path: Path) -> None:
    """Tried again and again, in level memory; then all of it once and in order, and the cursor only goes on."""
    run = chiplog.init("faults", id="run", sinks="none", dir=tmp_path / "runs", alerts=False)
    for step in range(RECORDS):
        run.log({"loss": step / 7}, step=step)
    run.finish()
    port = free_port()
    words = [sys.executable, "-c", DELIVERER, str(run.dir), *map(str, (port, AWAY, PACE))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as deliverer:
        assert deliverer.stdout is not None
        assert deliverer.stdout.readline() == "three days\n"
        with listening(port) as arrived:
            wait_for(lambda: deliverer.poll() is not None, PATIENCE / 2)
        said = json.loads(deliverer.stdout.read())
    assert arrived == list(range(RECORDS))
    assert said["left"] is None
    assert said["tries"] >= AWAY / PACE / 30, said
    assert said["noted"] == 1 and said["cursors"] > 1, "it is noted when something has arrived, and not before"
    assert max(said["away"], said["end"]) - said["first"] < MEMORY, said
    print(said)  # for the record of the large size

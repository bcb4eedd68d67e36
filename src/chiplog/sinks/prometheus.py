"""Prometheus: the latest value of every series, scraped at a port of this machine or pushed to a Pushgateway.

One gauge holds them all, `chiplog_metric{name="train/loss", project=..., run=...}`: names stay as they were logged,
runs can be compared by label, and no name collides with that of another exporter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, push_to_gateway, start_http_server
from prometheus_client.core import GaugeMetricFamily, Metric

from chiplog.core import messages
from chiplog.core.errors import BadSetting
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Finish, Plain, Record, Step
from chiplog.core.values.convert import double
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.clean_values import utf8
from chiplog.sinks.shared.service_metrics import service_points
from chiplog.store.runs.state import state_of

LABELS = ("project", "run", "run_name")
MOST = 100_000  # series; Prometheus itself advises far fewer per target
MOST_BYTES = 8 << 20  # of their names
ANSWER = 0.5  # s for the response to a last scrape


def open_sink(
    identity: Identity,
    environ: Mapping[str, str],  # noqa: ARG001
    *,
    port: int = 9464,
    host: str = "127.0.0.1",
    push: str = "",
    job: str = "chiplog",
    linger: float = 0.0,
) -> Prometheus:
    if not push and not 0 <= port < 65_536:
        raise BadSetting(f"port = {port!r} of the 'prometheus' sink is not a port: use a number between 0 and 65535")
    latest = Latest((identity.project, identity.id, identity.name or identity.id))
    return Prometheus(identity.dir, latest, host, port, push, job, linger)


class Latest:
    """The latest values, as a collector of prometheus_client."""

    def __init__(self, labels: tuple[str, str, str]) -> None:
        self.values: dict[str, float] = {}
        self._room = MOST_BYTES
        self.step = float("nan")
        self.running = True
        self.labels = tuple(utf8(label) for label in labels)
        self.seen = threading.Event()  # a scrape has the newest values
        self._lock = threading.Lock()  # between the scraper's thread and ours

    def feed(self, batch: Sequence[AnyRecord]) -> None:
        with self._lock:
            if batch:
                self.seen.clear()
            for record in batch:
                for name, value in service_points(record).items():
                    self._set(utf8(name), double(value))
                if isinstance(record, Step):
                    self.step = double(record.step)
                if isinstance(record, Record):
                    self.running = not isinstance(record, Finish)  # a later attempt runs again

    def replace(self, values: Mapping[str, float]) -> None:
        with self._lock:
            self.values, self._room = {}, MOST_BYTES
            for name, value in values.items():
                self._set(name, value)

    def _set(self, name: str, value: float) -> None:
        if name not in self.values:
            if len(self.values) >= MOST or len(name) > self._room:
                messages.once(
                    f"prometheus {self.labels}",
                    f"there are too many series for Prometheus: it gets the first {len(self.values):,}; "
                    "the journal has everything",
                )
                return
            self._room -= len(name)
        self.values[name] = value

    def end(self) -> None:
        with self._lock:
            self.running = False
            self.seen.clear()

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            values, step, running = dict(self.values), self.step, self.running
            self.seen.set()
        metric = GaugeMetricFamily("chiplog_metric", "The latest value of a series.", labels=("name", *LABELS))
        for name, value in sorted(values.items()):
            metric.add_metric((name, *self.labels), value)
        yield metric
        for name, about, value in (
            ("chiplog_step", "The latest step.", step),
            ("chiplog_running", "1 while the run is live, 0 when it has ended.", float(running)),
        ):
            gauge = GaugeMetricFamily(name, about, labels=LABELS)
            gauge.add_metric(self.labels, value)
            yield gauge


class Prometheus:
    """Serves or pushes the latest values; when `write` returns, a push has been accepted."""

    commits = True

    def __init__(self, run: Path, latest: Latest, host: str, port: int, push: str, job: str, linger: float) -> None:
        self._run, self._latest = run, latest
        self._host, self._port, self._push, self._job, self._linger = host, port, push, job, linger
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(latest)
        self._server: WSGIServer | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """The address that is scraped; None while nothing is served."""
        if self._server is None:
            return None
        host, port = self._server.server_address[:2]
        return str(host), port

    def write(self, batch: Sequence[AnyRecord]) -> None:
        self._latest.feed(batch)
        if not self._push:
            self._serve()
        elif batch:
            self._push_values()

    def close(self) -> None:
        """Keep the endpoint open until the last values have been scraped, for `linger` seconds at most.

        A run that was killed has not recorded its end; it is marked here.
        """
        if self._latest.running and state_of(self._run) in ("killed", "lost"):
            self._latest.end()
            if self._push:
                self._push_values()
        if self._server is not None:
            if self._linger and self._latest.seen.wait(self._linger):
                time.sleep(ANSWER)
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def state(self) -> dict[str, Plain]:
        """The latest values, so that a restart has them at once."""
        latest = self._latest
        finite = {name: value for name, value in latest.values.items() if value - value == 0}
        return {
            "values": finite,
            "others": {name: str(value) for name, value in latest.values.items() if name not in finite},
            "step": str(latest.step),
            "running": latest.running,
        }

    def restore(self, state: Mapping[str, Plain]) -> None:
        latest = self._latest
        others = {name: float(value) for name, value in saved_state.mapping(state, "others", str).items()}
        latest.replace({**saved_state.mapping(state, "values", int | float), **others})
        latest.step = float(saved_state.text(state, "step", "nan"))
        latest.running = saved_state.flag(state, "running", default=True)

    def _push_values(self) -> None:
        run = {"project": self._latest.labels[0], "run": self._latest.labels[1]}
        push_to_gateway(self._push, self._job, self._registry, grouping_key=run, timeout=10)

    def _serve(self) -> None:
        if self._server is None:
            self._server, _ = start_http_server(self._port, addr=self._host, registry=self._registry)

"""An OTLP endpoint that answers as it is told."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Endpoint:
    """Takes OTLP over HTTP; answers as told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.status, self.headers, self.body = 200, {}, b""  # type: ignore[var-annotated]
        self.bad = b""  # a request that holds this is rejected
        mine = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = 400 if mine.bad and mine.bad in body else mine.status
                if status == 200:
                    mine.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(status)
                for name, value in mine.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(mine.body)))
                self.end_headers()
                self.wfile.write(mine.body)

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def points(self) -> list[tuple[str, int, float]]:
        """(name, time, value) of every point that came."""
        found = []
        for path, _, body in self.requests:
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for metric in resource.scope_metrics[0].metrics:
                        found += [(metric.name, p.time_unix_nano, p.as_double) for p in metric.gauge.data_points]
        return found

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for path, _, body in self.requests
            if path == "/v1/traces"
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for span in resource.scope_spans[0].spans
        ]

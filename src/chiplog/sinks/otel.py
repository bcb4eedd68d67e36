"""OpenTelemetry: numbers as gauges and spans as spans, over OTLP/HTTP.

The official messages are built and posted without the SDK: a batch is delivered when the endpoint has responded, every
point has the time at which it was logged, and ids are derived from the run, so that duplicates are recognised.
"""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parsedate_to_datetime
from hashlib import sha256
from http.client import HTTPResponse
from urllib.parse import unquote, urlsplit

from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from chiplog.core import messages
from chiplog.core.errors import BadSetting, RejectedByService
from chiplog.core.identity import Identity
from chiplog.core.records import AnyRecord, Attempt, Plain, SpansRecord, Step
from chiplog.core.values.convert import double
from chiplog.core.values.redact import HIDDEN, redact_text
from chiplog.core.values.text import cut
from chiplog.sinks.shared import saved_state
from chiplog.sinks.shared.clean_values import utf8
from chiplog.sinks.shared.service_metrics import service_points
from chiplog.version import VERSION

DEFAULT = "http://localhost:4318"  # OTLP/HTTP, by its specification
TIMEOUT = 10.0  # s for one request, by its specification
NEVER = (400, 413, 422)  # the content is wrong; any other error may pass
LONGEST_ANSWER = 1 << 20  # bytes; an acknowledgement has a few
LONGEST_WAIT = 300.0  # s that an endpoint may make us wait
SCOPE = InstrumentationScope(name="chiplog", version=VERSION)


def open_sink(identity: Identity, environ: Mapping[str, str], *, endpoint: str = "") -> Otel:
    attributes = {
        "service.name": identity.project,
        "service.instance.id": identity.id,
        "chiplog.run.id": identity.id,
        "chiplog.run.name": identity.name or identity.id,
    }
    endpoints = {signal: Endpoint(_address(signal, endpoint, environ), _headers(signal, environ)) for signal in SIGNALS}
    return Otel(identity.id, Resource(attributes=_attributes(attributes)), endpoints["metrics"], endpoints["traces"])


SIGNALS = ("metrics", "traces")


class Otel:
    """Sends each batch as one request of metrics and one of spans, if it has any."""

    commits = True

    def __init__(self, run: str, resource: Resource, metrics: Endpoint, traces: Endpoint) -> None:
        self._run, self._resource = run, resource
        self._metrics, self._traces = metrics, traces
        self._attempt = 1
        self.answered = 0  # requests that were accepted
        self.rejected_parts = 0  # points and spans of accepted requests that were not

    def write(self, batch: Sequence[AnyRecord]) -> None:
        if gauges := list(_gauges(batch)):
            scope = ScopeMetrics(scope=SCOPE, metrics=gauges)
            resource = ResourceMetrics(resource=self._resource, scope_metrics=[scope])
            accepted = ExportMetricsServiceResponse()
            self._metrics.post(ExportMetricsServiceRequest(resource_metrics=[resource]), accepted)
            self._count(accepted.partial_success.rejected_data_points, accepted.partial_success.error_message)
        spans: list[Span] = []
        attempt = self._attempt
        for record in batch:
            attempt = record.attempt if isinstance(record, Attempt) else attempt
            spans += _spans(record, f"{self._run}/{attempt}") if isinstance(record, SpansRecord) else []
        if spans:
            scoped = ResourceSpans(resource=self._resource, scope_spans=[ScopeSpans(scope=SCOPE, spans=spans)])
            traced = ExportTraceServiceResponse()
            self._traces.post(ExportTraceServiceRequest(resource_spans=[scoped]), traced)
            self._count(traced.partial_success.rejected_spans, traced.partial_success.error_message)
        self._attempt = attempt

    def close(self) -> None:
        pass

    def state(self) -> dict[str, Plain]:
        return {"attempt": self._attempt, **({"rejected": self.rejected_parts} if self.rejected_parts else {})}

    def restore(self, state: Mapping[str, Plain]) -> None:
        self._attempt = saved_state.count(state, "attempt", 1)
        self.rejected_parts = saved_state.count(state, "rejected")

    def _count(self, rejected: int, why: str) -> None:
        """Note an accepted request. OTLP does not let us send again what was rejected in it."""
        self.answered += 1
        if rejected > 0:
            self.rejected_parts += rejected
            words = f"the OTLP endpoint accepted a batch, but rejected {rejected:,} of its points or spans: {why[:200]}"
            messages.once("otel", redact_text(words))


class Endpoint:
    """One address that accepts messages."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url, self._headers = url, headers
        self._secrets = [value for value in headers.values() if len(value) > 3]
        self._opener = urllib.request.build_opener(_Straight())
        self._closed_until = 0.0

    def post(self, message: Message, answer: Message) -> None:
        """Send a message, and parse the response into `answer`."""
        if (wait := self._closed_until - time.monotonic()) > 0:
            raise ConnectionError(f"the endpoint asked us to wait for {wait:.0f} s more")
        request = urllib.request.Request(
            self._url,
            message.SerializeToString(),
            {**self._headers, "Content-Type": "application/x-protobuf", "User-Agent": f"chiplog/{VERSION}"},
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT) as response:
                body = bounded(response, LONGEST_ANSWER, TIMEOUT)
        except urllib.error.HTTPError as error:
            with error:
                words = self._clean(f"the endpoint answered {error.code} {error.reason}")
                if error.code in NEVER:
                    raise RejectedByService(words) from None
                self._closed_until = time.monotonic() + seconds(error.headers.get("Retry-After"), time.time())
                raise ConnectionError(words) from None
        try:
            answer.ParseFromString(body)
        except DecodeError:
            raise ConnectionError("the response of the endpoint is not OTLP") from None

    def _clean(self, text: str) -> str:
        """What an endpoint says, without the secrets that we sent it."""
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return redact_text(cut(text, 500))


def bounded(response: HTTPResponse, longest: int, patience: float) -> bytes:
    """The body of a response: as many bytes and as much time as it may take, or an error."""
    until, body = time.monotonic() + patience, b""
    while data := response.read1(64 << 10):
        body += data
        if len(body) > longest:
            raise ConnectionError(f"the answer of the endpoint is longer than {longest:,} bytes")
        if time.monotonic() > until:
            raise ConnectionError(f"the endpoint took more than {patience:g} s to answer")
    return body


class _Straight(urllib.request.HTTPRedirectHandler):
    """Makes redirects an error: a redirected POST would become a GET, which delivers nothing."""

    def redirect_request(self, *_: object) -> None:
        return None


def seconds(retry_after: str | None, now: float) -> float:
    """The seconds that a Retry-After asks to wait, as a number or a date."""
    try:
        wait = float(retry_after or 0)
    except ValueError:
        try:
            wait = parsedate_to_datetime(retry_after or "").timestamp() - now
        except ValueError:
            wait = 0.0
    return min(max(0.0, wait), LONGEST_WAIT)


def span_id(key: str, number: int) -> bytes:
    """The same for the same span of an attempt, whenever and from wherever it is sent."""
    return sha256(f"{key}/{number}".encode("utf-8", "backslashreplace")).digest()[:8]


def trace_id(key: str) -> bytes:
    return sha256(key.encode("utf-8", "backslashreplace")).digest()[:16]


def _gauges(batch: Iterable[AnyRecord]) -> Iterator[Metric]:
    """A gauge per series, and one for the step, which as an attribute would make every point a series of its own."""
    points: dict[str, list[NumberDataPoint]] = {}
    for record in batch:
        numbers = service_points(record)
        if isinstance(record, Step):
            numbers["chiplog.step"] = record.step
        for name, value in numbers.items():
            point = NumberDataPoint(time_unix_nano=max(0, record.time), as_double=double(value))
            points.setdefault(utf8(name), []).append(point)
    for name, series in points.items():
        yield Metric(name=name, gauge=Gauge(data_points=series))


def _spans(record: SpansRecord, key: str) -> Iterator[Span]:
    failed = frozenset(record.failed)
    for row, number in enumerate(record.id):
        about: dict[str, Plain] = {"thread.name": record.threads[record.thread[row]]}
        if record.step[row] is not None:
            about["chiplog.step"] = record.step[row]
        about |= record.tags.get(str(number), {})
        parent = record.parent[row]
        yield Span(
            trace_id=trace_id(key),
            span_id=span_id(key, number),
            parent_span_id=span_id(key, parent) if parent else b"",
            name=utf8(record.names[record.name[row]]),
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=max(0, record.start[row]),
            end_time_unix_nano=max(0, record.start[row] + record.duration[row]),
            attributes=_attributes(about),
            status=Status(code=Status.STATUS_CODE_ERROR) if number in failed else None,
        )


def _attributes(data: Mapping[str, Plain]) -> list[KeyValue]:
    return [KeyValue(key=utf8(key), value=_value(value)) for key, value in data.items()]


def _value(value: Plain) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        return AnyValue(int_value=value)
    if isinstance(value, (int, float)):
        return AnyValue(double_value=double(value))
    return AnyValue(string_value=utf8(str(value)))


def _address(signal: str, endpoint: str, environ: Mapping[str, str]) -> str:
    """From the option, the signal's own variable, or the common one; the path is appended, except to the second."""
    whole = "" if endpoint else environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "")
    base = endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "") or DEFAULT
    url = whole or f"{base.rstrip('/')}/v1/{signal}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise BadSetting(
            "the endpoint of the 'otel' sink is an http or https address without user and password; "
            "put credentials in OTEL_EXPORTER_OTLP_HEADERS"
        )
    return url


def _headers(signal: str, environ: Mapping[str, str]) -> dict[str, str]:
    value = environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_HEADERS") or environ.get("OTEL_EXPORTER_OTLP_HEADERS", "")
    pairs = (pair.partition("=") for pair in value.split(","))
    return {
        unquote(name.strip()): unquote(content.strip()) for name, equals, content in pairs if name.strip() and equals
    }
